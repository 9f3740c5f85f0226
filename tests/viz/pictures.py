"""Make the pictures of the pages anew, by the commands of their pages: `python -m tests.viz.pictures`."""

from __future__ import annotations

import shlex
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.pages import reading as pages
from tests.viz.browsing import opened, settled
from tests.viz.conftest import started
from viz.command.options import parser
from viz.command.request import read_request
from viz.command.running import run

ROOT = Path(__file__).parents[2]
FIRST_STEPS = "document.getElementById('steps-first').click()"
# A page, a command of which is drawn, the picture, its height, and what is done first.
PICTURES = (
    ("README.md", 0, "report.png", 757, ""),
    ("README.md", 1, "training.png", 857, FIRST_STEPS),
    ("docs/report.md", 0, "comparison.png", 857, ""),
    ("docs/report.md", 1, "trainings.png", 857, ""),
)


def arguments(page: str, row: int) -> list[str]:
    """The arguments of a command of a page. It is drawn without asking TensorFlow."""
    command = pages.commands((ROOT / page).read_text("utf-8"))[row]
    return [argument for argument in shlex.split(command.source)[1:] if argument != "--check"]


def main() -> None:
    """Write the pictures into docs."""
    with TemporaryDirectory() as folder:
        browser = started(Path(folder) / "profile")
        try:
            for source, row, name, height, then in PICTURES:
                size = {"width": 1440, "height": height, "deviceScaleFactor": 1, "mobile": False}
                browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
                graph, *rest = arguments(source, row)
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
