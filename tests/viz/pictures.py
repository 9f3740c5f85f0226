"""Make the README's pictures anew, by its own commands: `python -m tests.viz.pictures`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.viz.browsing import opened, settled
from tests.viz.conftest import started
from viz.options import parser
from viz.request import read_request
from viz.running import run

ROOT = Path(__file__).parents[2]
FIRST_STEPS = "document.getElementById('steps-first').click()"
PICTURES = (("report.png", 757, ""), ("training.png", 857, FIRST_STEPS))  # one per command, in order


def commands() -> list[list[str]]:
    """The arguments of the README's commands that draw a page: the first, and the training."""
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    shown = [line.split()[2:] for line in lines if line.startswith("    $ simviz ") and "--check" not in line]
    assert len(shown) == len(PICTURES)
    return shown


def main() -> None:
    """Write docs/report.png and docs/training.png."""
    with TemporaryDirectory() as folder:
        browser = started(Path(folder) / "profile")
        try:
            for (name, height, then), arguments in zip(PICTURES, commands(), strict=True):
                size = {"width": 1440, "height": height, "deviceScaleFactor": 1, "mobile": False}
                browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
                graph, *rest = arguments
                scene = run(read_request(parser().parse_args([str(ROOT / graph), *rest])))
                page = opened(browser, Path(folder), scene)
                if then:
                    page(then)
                settled(browser)
                (ROOT / "docs" / name).write_bytes(browser.get_screenshot_as_png())
        finally:
            browser.quit()


if __name__ == "__main__":
    main()
