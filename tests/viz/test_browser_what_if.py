"""What if, in Chromium: a tornado plot, and a table that can be sorted."""

from pathlib import Path

import pytest
from selenium.webdriver.chrome.webdriver import WebDriver

from tests.viz.browsing import complaints, opened
from tests.viz.scenes import EXAMPLE
from viz.command.request import Request
from viz.command.stages import run

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def test_the_plot_has_a_bar_per_change_and_the_table_is_sorted_by_a_click(browser: WebDriver, tmp_path: Path) -> None:
    scene = run(Request(str(EXAMPLE), cluster="ps=2,worker=1x2gpu", what_if="kept"))
    assert scene.what_if is not None
    page = opened(browser, tmp_path, scene)
    card = "[...document.querySelectorAll('.card')].find((one) => one.querySelector('h3')?.textContent === 'What if')"
    plot = f"{card}.querySelector('svg')"
    named = page(f"[...{plot}.querySelectorAll('text')].map((one) => one.textContent)")
    figures = list(dict.fromkeys(f"{row.what} ({row.before})" for row in scene.what_if.rows if row.change))
    assert [one for one in figures if one in named] == figures[:12]
    widths = page(
        f"[...{plot}.querySelectorAll('rect')].map((one) => [one.getAttribute('class'), one.width.baseVal.value])"
    )
    changes = [row.change for row in scene.what_if.rows if row.change and f"{row.what} ({row.before})" in figures[:12]]
    assert sorted(kind for kind, _ in widths) == sorted("gain" if change < 0 else "loss" for change in changes)
    spans = f"{plot}.viewBox.baseVal.width"
    assert max(width for _, width in widths) <= page(spans)
    steps = f"[...{card}.querySelectorAll('tbody tr td:nth-child(2)')].map((one) => one.textContent)"
    before = page(steps)
    assert len(before) == len(scene.what_if.rows)
    page(f"{card}.querySelector('th:nth-child(3)').click()")
    signs = page(f"[...{card}.querySelectorAll('tbody tr td:nth-child(3)')].map((one) => one.textContent)")
    assert signs[0] == "refused"  # what can't be run is the longest
    assert signs[1].startswith("+")
    assert signs[-1].startswith("−")
    assert complaints(browser) == []
