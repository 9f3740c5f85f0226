"""Make the pictures of the pages anew, by the README's commands: `python -m tests.viz.pictures`."""

from __future__ import annotations

import shlex
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.pages import reading as pages
from tests.viz.browsing import opened, settled
from tests.viz.conftest import started
from viz.command.options import parser
from viz.command.request import read_request
from viz.command.stages import run

ROOT = Path(__file__).parents[2]
FIRST_STEPS = "document.getElementById('steps-first').click()"
PICTURES = (("report.png", 757, ""), ("training.png", 857, FIRST_STEPS))  # one per command, in order


def commands() -> list[list[str]]:
    """The arguments of the README's commands: a step, which is drawn without asking TensorFlow, and a training."""
    shown = [shlex.split(command.source)[1:] for command in pages.commands((ROOT / "README.md").read_text("utf-8"))]
    assert len(shown) == len(PICTURES)
    return [[argument for argument in arguments if argument != "--check"] for arguments in shown]


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
