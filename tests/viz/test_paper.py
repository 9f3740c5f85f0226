"""A page on paper: all of the panel, timelines with their rows, light colours, and tables that end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.webdriver.chrome.webdriver import WebDriver

from tests.viz.browsing import complaints, opened, settled, written
from tests.viz.scenes import EXAMPLE, example, trained
from viz import run as library_run
from viz.command.request import Request
from viz.command.running import run
from viz.scene import Scene

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]
CANVASES = "[...document.querySelectorAll('canvas')].filter((one) => one.checkVisibility())"


@contextmanager
def printed(browser: WebDriver, scheme: str = "light") -> Iterator[None]:
    """The page as its print is laid out; what its canvases show was drawn before."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    settled(browser)
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
        browser.execute_script("dispatchEvent(new Event('afterprint'))")
        settled(browser)


def test_on_paper_all_of_the_panel_is_there_and_pictures_keep_their_proportions(
    browser: WebDriver, tmp_path: Path
) -> None:
    """One page was printed, with canvases that were stretched to it and a panel that ended at its bottom."""
    page = opened(browser, tmp_path, run(Request(str(EXAMPLE), cluster="ps=2,worker=1x2gpu", what_if="kept")))
    with printed(browser):
        cut = (
            "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollHeight > one.clientHeight + 1).length"
        )
        assert page(cut) == 0
        shapes = page(f"{CANVASES}.map((one) => one.width / one.height / (one.clientWidth / one.clientHeight))")
        assert len(shapes) == 2
        assert shapes == pytest.approx([1, 1], abs=0.02)
        assert not page("document.getElementById('search').checkVisibility()")
        assert not page("document.querySelector('.controls').checkVisibility()")  # it was an empty strip above Devices


@pytest.mark.parametrize("make", [example, trained], ids=["step", "training"])
def test_timelines_have_all_rows_on_paper_and_keep_their_place_on_the_screen(
    browser: WebDriver, tmp_path: Path, make: Callable[[], Scene]
) -> None:
    """Paper had as many rows as the window: of two runs one or two devices each."""
    page = opened(browser, tmp_path, make())
    view = "(simviz.model.training ? simviz.steps.all[0] : simviz.timeline)"
    canvas = f"document.getElementById({view}.name)"
    page(f"{view}.view.top = 40")
    before = page(f"{canvas}.clientHeight")
    with printed(browser):
        assert page(f"{canvas}.height / devicePixelRatio") >= page(f"{view}.rows.at(-1).y + {view}.rows.at(-1).height")
    assert page(f"[{view}.view.top, {canvas}.clientHeight, {canvas}.height / devicePixelRatio]") == [40, before, before]
    assert complaints(browser) == []


def test_rows_for_which_paper_has_no_room_are_counted(browser: WebDriver, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, library_run(EXAMPLE, cluster="ps=2,worker=24", training="async", steps=2))
    said = written(browser)
    with printed(browser):
        [left] = (one for one in said() if one.endswith("on the page"))
        height, width = page("[steps.height, steps.width]")
        assert height == pytest.approx(width, abs=2)
    rows = page("simviz.steps.rows.filter((row) => ['client', 'lane', 'link'].includes(row.kind) && row.label)")
    whole = [row for row in rows if row["y"] + row["height"] + 28 <= height - 22]
    assert left == f"{len(rows) - len(whole)} more rows on the page"


def test_paper_is_light(browser: WebDriver, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, example())
    corner = f"{CANVASES}.map((one) => [...one.getContext('2d').getImageData(one.width - 2, 2, 1, 1).data.slice(0, 3)])"
    with printed(browser, "dark"):
        assert page("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page(corner)[1] == [255, 255, 255]


def test_a_long_table_ends_after_its_first_rows(browser: WebDriver, tmp_path: Path) -> None:
    """A comparison with 900 moved nodes had 27 pages; on a phone nobody came to what stood below 400 of them."""
    page = opened(
        browser, tmp_path, library_run(EXAMPLE, cluster="1gpu", algorithm="single", ignore_devices=True, against="2cpu")
    )
    rows = (
        "[...document.querySelectorAll('#panel .card > table > tbody')]"
        ".map((one) => [...one.rows].filter((row) => row.checkVisibility()).length)"
    )
    captions = "[...document.querySelectorAll('.card > table > caption')].map((one) => one.innerText)"
    whole = page("[...document.querySelectorAll('#panel .card > table > tbody')].map((one) => one.rows.length)")
    assert max(whole) > 40
    ends = [min(40, count) for count in whole]
    for opens in (False, True):
        if opens:
            page("document.querySelectorAll('caption button').forEach((one) => one.click())")
        assert page(rows) == (whole if opens else ends)
        assert page(captions) == ["" if opens else f"{count - 40} more rows" for count in whole if count > 40]
        with printed(browser):
            assert page(rows) == ends
            said = page(captions)
        assert said == [f"The first 40 of {count} rows; the others are on the page." for count in whole if count > 40]
    assert complaints(browser) == []
