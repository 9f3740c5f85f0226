"""Tables, links, traces, measured ranges and the keyboard, in Chromium, on one page of two runs."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium.webdriver.chrome.webdriver import WebDriver

from simulator.units import show_rate
from tests.viz.browsing import Ask, beyond, complaints, opened, press, settled
from tests.viz.scenes import HOSTILE, hostile
from tests.viz.test_browser_comparison import compared, other
from viz import figures
from viz.timeline.step_timeline import step_timeline

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def loaded(browser: WebDriver, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    return opened(browser, tmp_path_factory.mktemp("page"), compared())


@pytest.fixture
def page(browser: WebDriver, loaded: Ask) -> Iterator[Ask]:
    """The page as it opens, with nothing selected."""
    loaded("document.querySelector('dialog[open]')?.close()")
    loaded("simviz.state.select(null)")
    loaded("simviz.timelines.forEach((one) => one.fit())")
    settled(browser)
    loaded("simviz.model.compared.at || document.querySelectorAll('#runs button')[1].click()")
    yield loaded
    assert complaints(browser) == []


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def copied(browser: WebDriver, page: Ask, button: str) -> str:
    """What a button copies: the page's own call of the clipboard, which a test can't read, is heard."""
    heard = "{configurable: true, value: {writeText: (said) => void (window.heard = said)}}"
    page(f"void Object.defineProperty(navigator, 'clipboard', {heard})")
    browser.execute_script("arguments[0].click()", browser.find_element("css selector", button))
    settled(browser)
    text: str = page("window.heard")
    return text


def test_each_table_says_what_the_values_of_the_run_say(browser: WebDriver, page: Ask) -> None:
    scene = compared()
    press(browser, "t")
    assert page("document.getElementById('tables').open")
    names = page("[...document.getElementById('tables-choice').options].map((one) => one.textContent)")
    tables: dict[str, list[dict[str, str]]] = {}
    for at, name in enumerate(names):
        page(
            "(document.getElementById('tables-choice').value = arguments[0],"
            " document.getElementById('tables-choice').dispatchEvent(new Event('change')))",
            str(at),
        )
        tables[name] = rows(copied(browser, page, "#tables-copy"))
        if name == "Links":  # in the units of the summary, which differ from those of sizes
            speeds = page(
                "[...document.querySelectorAll('#tables-rows tbody tr')].map((row) => row.cells[1].textContent)"
            )
            assert speeds == [show_rate(one.bytes_per_s) for one in scene.cluster.links]
    assert [one["node"] for one in tables["Nodes"]] == list(scene.graph.names)
    fed = {row: tables["Nodes"][row] for row in figures.fed_nodes(scene).tolist()}
    assert {(one["runs"], one["rule"]) for one in fed.values()} == {("fed", "the client feeds its value there")}
    assert sum(int(one["time_ns"]) for one in tables["Nodes"]) == sum(
        int(one["time_ns"]) for one in tables["Ops in time"]
    )
    sizes = scene.partitions.nbytes[scene.trace.transfers.row]
    assert sum(int(one["size_bytes"] or 0) for one in tables["Transfers"]) == sizes[sizes > 0].sum()
    assert len(tables["Tensors"]) == len(scene.graph.tensor_node)
    assert [int(one["busy_ns"]) for one in tables["Devices"]] == [one.busy_ns for one in figures.devices(scene)]
    assert len(tables["Links"]) == len(scene.cluster.links)
    drawn = step_timeline(scene).slices
    path = tables["Critical path"]
    assert len(path) == int(np.count_nonzero(drawn.critical))
    assert [int(one["start_ns"]) for one in path] == sorted(int(one["start_ns"]) for one in path)
    assert len(tables["Moved nodes"]) == page("simviz.model.against.moved.length")
    assert len(tables["Tensors that cross differently"]) == page("simviz.model.against.crossings.length")


def test_a_table_is_filtered_sorted_and_leads_on(browser: WebDriver, page: Ask) -> None:
    from selenium.webdriver.common.keys import Keys

    page("simviz.tables.open('Nodes')")
    browser.find_element("id", "tables-filter").send_keys("matmul dense gradients")
    shown = "[...document.querySelectorAll('#tables-rows tbody tr')].map((row) => row.cells[0].innerText)"
    found = page(shown)
    assert found
    assert all("MatMul" in name and "gradients" in name for name in found)
    time = "document.querySelectorAll('#tables-rows th')[7]"
    nanos = [int(one["time_ns"]) for one in rows(copied(browser, page, "#tables-copy"))]
    page(f"{time}.click()")
    assert page(f"{time}.getAttribute('aria-sort')") == "descending"
    assert [int(one["time_ns"]) for one in rows(copied(browser, page, "#tables-copy"))] == sorted(nanos, reverse=True)
    page(f"{time}.focus()")
    press(browser, Keys.ENTER)
    assert [int(one["time_ns"]) for one in rows(copied(browser, page, "#tables-copy"))] == sorted(nanos)
    first = page(shown)[0]
    page("document.querySelector('#tables-rows tbody tr').click()")
    assert not page("document.getElementById('tables').open")
    assert page("simviz.model.nodes.names[simviz.state.selection.id]") == first


def test_every_card_can_be_sorted_and_copied(browser: WebDriver, page: Ask) -> None:
    tables = "[...document.querySelectorAll('#panel .card > table')]"
    assert page(f"{tables}.length") > 5
    assert page(f"{tables}.every((one) => one.parentElement.querySelector('.csv'))")
    assert page(f"{tables}.every((one) => one.rows.length < 3 || one.querySelector('th.sorts'))")
    text = copied(browser, page, "#panel .card .csv")
    assert len(text.splitlines()) > 1
    named = "[...document.querySelectorAll('#panel .named > bdi')].filter((one) => one.checkVisibility())"
    assert page(f"{named}.length") > 20
    # They were cut to "tuple/control_d...", six rows of one table alike.
    assert page(f"{named}.every((one) => one.scrollWidth <= one.clientWidth && one.scrollHeight <= one.clientHeight)")
    heading = "(one) => one.querySelector('h3')?.textContent === 'Longest transfers'"
    page(f"[...document.querySelectorAll('#panel .card')].find({heading}).id = 'longest'")
    devices = [one.short for one in compared().cluster.devices]
    longest = [
        (figures.tensor_label(compared(), one.tensor), devices[one.src_device], devices[one.dst_device])
        for one in figures.longest_transfers(compared())
    ]
    told = [(one["tensor"], one["from"], one["to"]) for one in rows(copied(browser, page, "#longest .csv"))]
    assert told == longest


def test_links_name_node_transfer_range_and_run(browser: WebDriver, page: Ask) -> None:
    page("simviz.state.select({kind: 'transfer', id: simviz.model.tables.transfers[0]})")
    chosen = page("location.hash")
    assert chosen.startswith("#transfer=")
    page("simviz.state.measure({from: 1000, to: 2000000})")
    assert page("location.hash") == "#range=1000-2000000"
    press(browser, "x")
    assert page("location.hash") == f"#range=1000-2000000&run={other(compared()).label}"
    wanted = page("simviz.model.tables.transfers[0]")
    page("simviz.state.select(null)")
    press(browser, "x")
    page("void (location.hash = arguments[0])", chosen)
    settled(browser)
    assert page("simviz.state.selection") == {"kind": "transfer", "id": page("simviz.model.tables.transfers[0]")}
    assert wanted is not None
    page("void (location.hash = 'range=1000-2000000&run=single&table=Links')")
    settled(browser)
    settled(browser)
    assert page("simviz.state.range") == {"from": 1000, "to": 2000000}
    assert page("simviz.model.compared.at") == 0
    assert page("document.getElementById('tables').open")
    assert page("simviz.timelines.map((one) => [one.view.from, one.view.to])") == [[1000, 2000000]] * 2
    for strange in ("range=9-1", "range=a-b", "node=%", "run=nobody", "transfer=@"):
        page("void (location.hash = arguments[0])", strange)
        settled(browser)


def test_a_trace_marks_all_that_lies_before_or_behind(browser: WebDriver, page: Ask) -> None:
    scene = compared()
    graph, runs = scene.graph, figures.taking_part(scene)
    node = graph.index["dense/MatMul"]
    for key, ends, starts in (("i", graph.edge_src, graph.edge_dst), ("o", graph.edge_dst, graph.edge_src)):
        page("simviz.state.select({kind: 'node', id: arguments[0]})", node)
        press(browser, key)
        reached = {node}
        while True:
            more = {int(one) for one in ends[np.isin(starts, list(reached))].tolist() if runs[one]} - reached
            if not more:
                break
            reached |= more
        assert set(page("[...simviz.state.hits].map((item) => item - simviz.model.scopes)")) == reached
        assert page("document.querySelector('.traces [aria-pressed=true]').textContent") in (
            "Trace inputs",
            "Trace outputs",
        )
        marked = set(page("simviz.timeline.marked().map((slice) => simviz.model.slices.node[slice] ?? -1)"))
        assert marked & reached
        press(browser, key)
        assert page("simviz.state.hits.size") == 0
    press(browser, "i")
    page("simviz.state.select({kind: 'node', id: 0})")
    assert page("simviz.state.traced") == ""


def test_a_measured_range_adds_up(browser: WebDriver, page: Ask) -> None:
    scene = compared()
    whole = scene.trace.makespan
    press(browser, "m")  # all that is in sight
    assert page("simviz.state.range") == {"from": 0, "to": whole}
    found = rows(copied(browser, page, "#panel .csv"))
    drawn = step_timeline(scene)
    lasting = drawn.slices.end_ns > drawn.slices.start_ns
    on_devices = np.array([lane.kind == "device" for lane in drawn.lanes])[drawn.slices.lane]
    assert sum(int(one["slices"].replace(",", "")) for one in found) == int((on_devices & lasting).sum())
    press(browser, "m")
    assert page("simviz.state.range") is None


def test_a_drag_with_shift_measures(browser: WebDriver, page: Ask) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    canvas = browser.find_element("id", "timeline")
    move = ActionChains(browser).key_down(Keys.SHIFT).move_to_element_with_offset(canvas, 0, 40).click_and_hold()
    move.move_by_offset(120, 0).release().key_up(Keys.SHIFT).perform()
    settled(browser)
    measured = page("simviz.state.range")
    place = page(
        "simviz.timeline.xOf(arguments[1]) - simviz.timeline.xOf(arguments[0])", measured["from"], measured["to"]
    )
    assert abs(place - 120) < 3
    assert "Measured range" in page("document.getElementById('panel').innerText")


def test_the_keyboard_walks_the_graph_and_the_lanes(browser: WebDriver, page: Ask) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def shift(key: str) -> Any:
        ActionChains(browser).key_down(Keys.SHIFT).send_keys(key).key_up(Keys.SHIFT).perform()
        settled(browser)
        return page("simviz.state.selection")

    assert shift(Keys.ARROW_DOWN) is not None  # the first box
    seen = [str(shift(Keys.ARROW_DOWN)) for _ in range(4)]
    assert len(set(seen)) == 4
    forward = shift(Keys.ARROW_RIGHT)
    if forward is not None and str(forward) != seen[-1]:
        assert shift(Keys.ARROW_LEFT) is not None
    page("simviz.state.select({kind: 'transfer', id: simviz.model.tables.transfers[0]})")
    before = page("simviz.state.selection.id")
    press(browser, "p")
    press(browser, "n")
    press(browser, "n")
    assert page("simviz.state.selection.kind") == "transfer"
    assert isinstance(before, int)
    page("simviz.state.select(null)")
    press(browser, "n")
    assert page("simviz.state.selection.kind") == "node"


def test_devices_and_links_fold(browser: WebDriver, page: Ask) -> None:
    count = "simviz.timeline.rows.length"
    whole, height = page(count), page("simviz.timeline.rows.height")
    for what in ("links", 0):
        page("simviz.timeline.fold(arguments[0])", what)
        settled(browser)
        assert page(count) < whole
        assert page("simviz.timeline.rows.height") < height
        page("simviz.timeline.fold(arguments[0])", what)
        assert page(count) == whole
    settled(browser)


def test_devices_and_links_hide_and_come_back(browser: WebDriver, page: Ask) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    labels = "simviz.timeline.rows.map((row) => row.label)"
    before = page(labels)
    row = page("simviz.timeline.rows.find((row) => row.kind === 'lane')")
    canvas = browser.find_element("id", "timeline")
    half = canvas.size["width"] / 2, canvas.size["height"] / 2
    on_label = ActionChains(browser).move_to_element_with_offset(
        canvas, round(40 - half[0]), round(row["y"] + 24 + 14 - half[1])
    )
    on_label.key_down(Keys.SHIFT).click().key_up(Keys.SHIFT).perform()
    settled(browser)
    assert page(labels)[-1] == "1 hidden: show"
    assert row["label"] not in page(labels)
    assert row["device"] not in page("simviz.timeline.rows.map((row) => row.device)")
    page("simviz.state.select(null)")
    press(browser, "h")
    assert page(labels) == before
    page("simviz.state.select({kind: 'transfer', id: simviz.model.tables.transfers[0]})")
    press(browser, "h")
    assert "Links" not in page(labels)
    page("simviz.state.select(null)")
    press(browser, "h")
    assert page(labels) == before
    assert complaints(browser) == []


def test_arrows_and_tensors_are_found(browser: WebDriver, page: Ask) -> None:
    page("simviz.state.select({kind: 'transfer', id: simviz.model.tables.transfers[0]})")
    settled(browser)  # drawn without a complaint
    press(browser, "/", "dense/MatMul:0")
    assert page("document.querySelector('#matches .name').textContent") == "dense/MatMul"
    from selenium.webdriver.common.keys import Keys

    press(browser, Keys.ESCAPE)


def test_every_control_is_in_sight_of_narrow_windows(browser: WebDriver, page: Ask) -> None:
    assert {width: found for width in (1920, 1400, 890, 800, 500) if (found := beyond(browser, width, 900))} == {}
    assert page("simviz.state.selection") is None


def test_hostile_names_are_no_formulas_and_no_html(browser: WebDriver, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, hostile())
    press(browser, "t")
    text = copied(browser, page, "#tables-copy")
    names = {one["node"].lstrip("'") for one in rows(text)}
    assert all(name.encode("utf-8", "replace").decode() in names for name in HOSTILE)
    assert page("document.querySelectorAll('#tables img, #tables script').length") == 0
    assert page("document.title").count("owned") == 0 or "<script>" in page("document.title")
    assert complaints(browser) == []


def test_names_of_devices_in_tables_are_whole(browser: WebDriver, tmp_path: Path) -> None:
    """A measured range had "...rker:0/GPU:0" in a pane of usual width, and "wo...PU:0" in a narrow one."""
    page = opened(browser, tmp_path, compared())
    cut = "[...document.querySelectorAll('td .tail')].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    for width in (1400, 800, 390):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        page("simviz.state.measure({ from: 0, to: 1000000 })")
        settled(browser)
        assert page("document.querySelectorAll('td .tail').length") > 3
        assert page(cut) == 0, width
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
