"""The page without a mouse: Tab comes to each control, each has a name and a frame, and what it does is said."""

from collections.abc import Callable
from pathlib import Path

import pytest
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.keys import Keys

from tests.viz.browsing import Ask, complaints, kept, opened, press
from tests.viz.scenes import example, trained
from viz.scene import Scene

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture
def page(browser: WebDriver, folder: Path) -> Ask:
    return kept(browser, folder, example())


KEYBOARD = "[...document.querySelectorAll('canvas, button, select, input, summary, th, [tabindex]')]"


@pytest.mark.parametrize("make", [example, trained], ids=["step", "training"])
def test_each_control_is_named_and_has_a_frame_when_it_has_the_keyboard(
    browser: WebDriver, tmp_path: Path, make: Callable[[], Scene]
) -> None:
    page = opened(browser, tmp_path, make())
    stops = "one.checkVisibility() && one.tabIndex >= 0 && !one.closest('dialog')"
    wanted = page(f"{KEYBOARD}.filter((one) => {stops}).length")
    seen = []
    for _ in range(wanted):
        press(browser, Keys.TAB)
        assert page("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        seen.append(page(f"{KEYBOARD}.indexOf(document.activeElement)"))
    assert len(set(seen)) == wanted
    roles = {"button", "checkbox", "combobox", "columnheader", "searchbox", "tab", "splitter", "Canvas", "application"}
    tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    named = [(node["role"]["value"], node.get("name", {}).get("value")) for node in tree if not node["ignored"]]
    assert [role for role, name in named if role in roles and not name] == []
    assert {"button", "columnheader", "application"} <= {role for role, _ in named}
    assert complaints(browser) == []


def test_a_table_is_one_stop_of_tab_and_arrows_walk_its_rows(browser: WebDriver, page: Ask) -> None:
    """Who has no mouse passed each of 400 moved nodes to come to the next table."""
    seen = "one.querySelector('.link') && one.checkVisibility()"
    body = f"[...document.querySelectorAll('#panel tbody')].find((one) => {seen})"
    assert page(f"[...{body}.rows].map((one) => one.tabIndex)") == [0] + [-1] * (page(f"{body}.rows.length") - 1)
    page(f"{body}.rows[0].focus()")
    before = page("[simviz.graph.boxOnScreen(0).y, simviz.timeline.view.top]")
    press(browser, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP)
    assert page(f"document.activeElement === {body}.rows[1] && {body}.rows[1].tabIndex === 0")
    assert page("[simviz.graph.boxOnScreen(0).y, simviz.timeline.view.top]") == before
    press(browser, Keys.SPACE)
    kind = page("simviz.state.selection.kind")
    assert kind in ("transfer", "node")
    assert page("document.getElementById('said').textContent").startswith("transfer of " if kind == "transfer" else "")


def test_a_heading_sorts_by_the_space_bar(browser: WebDriver, page: Ask) -> None:
    page("document.querySelector('#panel th.sorts').focus()")
    press(browser, Keys.SPACE)
    assert page("document.querySelector('#panel th.sorts').ariaSort") == "ascending"
    assert page("document.getElementById('panel').scrollTop") == 0


def test_tabs_change_by_arrows(browser: WebDriver, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, trained())
    page("document.getElementById('tab-training').focus()")
    press(browser, Keys.ARROW_RIGHT)
    assert page("[document.activeElement.id, document.getElementById('training').hidden]") == ["tab-step", True]
    press(browser, Keys.ARROW_LEFT)
    assert page("[document.activeElement.id, document.getElementById('training').hidden]") == ["tab-training", False]
