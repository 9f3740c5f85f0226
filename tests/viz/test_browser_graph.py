"""The picture of the graph in Chromium: nothing covers anything, edges keep clear of boxes, each edge can be asked."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from selenium.webdriver.chrome.webdriver import WebDriver

from tests.viz.browsing import Ask, click, complaints, kept, opened, press, settled, until
from tests.viz.scenes import example, renamed
from viz import draw_report
from viz.command.request import Request
from viz.command.running import run

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # selenium leaves its own sockets to the collector
]

SCORE = (Path(__file__).parents[2] / "benchmarks" / "page.js").read_text("utf-8")
FAULTS = Path(__file__).with_name("faults.js").read_text("utf-8")


@pytest.fixture(scope="module")
def shown(browser: WebDriver, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    return opened(browser, tmp_path_factory.mktemp("graph"), example())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def page(browser: WebDriver, folder: Path) -> Ask:
    return kept(browser, folder, example())


@settings(max_examples=16, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), width=st.sampled_from([180, 330, 640, 900]), idle=st.booleans())
def test_no_box_and_no_edge_covers_a_box(
    browser: WebDriver, shown: Ask, data: st.DataObject, width: int, idle: bool
) -> None:
    scopes = range(1, shown("simviz.model.scopes"))
    open_scopes = data.draw(st.lists(st.sampled_from(scopes), unique=True, max_size=len(scopes)))
    assert browser.execute_script(FAULTS, open_scopes, width, idle) == []


def test_everything_open_is_still_a_picture(browser: WebDriver, shown: Ask) -> None:
    scopes = list(range(1, shown("simviz.model.scopes")))
    assert browser.execute_script(FAULTS, scopes, 900, True) == []
    assert complaints(browser) == []


def longest_way(page: Ask) -> Any:
    """An edge of the picture that carries transfers, and a point of it on the canvas."""
    return page(
        "(() => { const { ways } = simviz.graph.picture();"
        "const [way] = ways.filter((way) => way.usual && way.from && way.to && way.transfers.length)"
        ".sort((a, b) => b.bytes - a.bytes);"
        "const [x, y] = simviz.graph.onScreen(way.path.at(-1).slice(-2));"
        "return { x: x - 14, y, edges: way.bundles.flatMap((bundle) => bundle.edges),"
        " ends: [way.from.label, way.to.label] }; })()"
    )


def test_an_edge_opens_into_its_tensors(browser: WebDriver, page: Ask) -> None:
    way = longest_way(page)
    click(browser, "graph", way["x"], way["y"])
    assert page("simviz.state.selection.kind") == "edges"
    assert set(page("simviz.state.selection.id")) >= set(way["edges"][:1])
    panel = page("document.getElementById('panel').innerText")
    for said in ("Edge", way["ends"][1], "Tensors (", "longest takes"):
        assert said in panel
    assert page("simviz.timeline.marked().length") > 0  # packing and unpacking
    browser.find_element("css selector", "#panel tbody tr").click()
    assert page("simviz.state.selection.kind") == "transfer"
    assert complaints(browser) == []


def test_an_edge_under_the_pointer_says_what_it_carries(browser: WebDriver, page: Ask) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    way = longest_way(page)
    canvas = browser.find_element("id", "graph")
    half = canvas.size["width"] / 2, canvas.size["height"] / 2
    ActionChains(browser).move_to_element_with_offset(
        canvas, round(way["x"] - half[0]), round(way["y"] - half[1])
    ).perform()
    settled(browser)
    said = page("document.getElementById('tip').innerText")
    assert "→" in said
    assert "crosses devices" in said


@pytest.mark.parametrize("size", [(1920, 1080), (1400, 900), (800, 700), (500, 900)])
def test_the_first_picture_is_whole_and_readable_in_every_window(
    browser: WebDriver, tmp_path: Path, size: tuple[int, int]
) -> None:
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        page = opened(browser, tmp_path, example())
        root = page("simviz.graph.boxOnScreen(0)")
        pane = page("[document.getElementById('graph').clientWidth, document.getElementById('graph').clientHeight]")
        scale = root["width"] / page("simviz.graph.boxInWorld(0).width")
        assert 11 * scale >= 9 - 1e-6
        assert root["width"] <= pane[0]
        assert page("document.documentElement.scrollWidth") <= size[0]
        assert complaints(browser) == []
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


WRITTEN = """
const [kept, said] = [CanvasRenderingContext2D.prototype.fillText, []];
CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
  said.push(text);
  return kept.call(this, text, ...rest);
};
simviz.graph.draw();
requestAnimationFrame(() => requestAnimationFrame(() => {
  CanvasRenderingContext2D.prototype.fillText = kept;
  arguments[0](said);
}));
"""


def test_no_box_is_without_a_word_whatever_its_name(browser: WebDriver, tmp_path: Path) -> None:
    """A name of many short parts was cut to nothing, and one of blanks left the box empty."""
    names = ("n" * 5000, "עולם/" * 12 + "x", "", "  ", "emoji/👩‍👩‍👧", "名前/スコープ/" * 8 + "y")
    page = opened(browser, tmp_path, renamed(example(), names))
    written = browser.execute_async_script(WRITTEN)
    assert len([one for one in written if one == "unnamed"]) == 2
    assert any(one.startswith("名前/…/") and one.endswith("y") for one in written)
    assert any(one.startswith("עולם/…/") and one.endswith("x") for one in written)
    for name in (names[0], names[1]):
        page("simviz.state.select({ kind: 'node', id: simviz.model.nodes.names.indexOf(arguments[0]) })", name)
        settled(browser)
        assert page("document.getElementById('panel').scrollWidth <= document.getElementById('panel').clientWidth")
        assert page("document.querySelector('#panel .facts dd').clientHeight") < 200
    assert complaints(browser) == []


def towers(tmp_path: Path, count: int, behind: int = 0) -> Path:
    """A source, towers that read it, a sink that reads them all, and so many scopes in a row behind that."""
    source = tmp_path / "towers.pbtxt"
    lines = ['node { name: "source" op: "NoOp" }']
    for at in range(count):
        for part, before in (("a", "source"), ("b", f"tower_{at}/a")):
            lines.append(f'node {{ name: "tower_{at}/{part}" op: "NoOp" input: "^{before}" }}')
    ends = "".join(f' input: "^tower_{at}/b"' for at in range(count))
    lines.append(f'node {{ name: "sink" op: "NoOp" {ends} }}')
    before = "sink"
    for at in range(behind):
        for part in ("a", "b"):
            lines.append(f'node {{ name: "part_{at}_of_all/{part}" op: "NoOp" input: "^{before}" }}')
            before = f"part_{at}_of_all/{part}"
    source.write_text("\n".join(lines))
    return source


@pytest.mark.parametrize(("size", "behind"), [((800, 700), 10), ((500, 900), 21)])
def test_boxes_stand_closer_where_only_then_the_picture_is_whole(
    browser: WebDriver, tmp_path: Path, size: tuple[int, int], behind: int
) -> None:
    """Eight towers began at the upper left corner, and the rest was out of sight."""
    scene = run(Request(str(towers(tmp_path, 8, behind)), cluster="1cpu", algorithm="single"))
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        page = opened(browser, tmp_path, scene)
        assert page("simviz.graph.isWhole() && !simviz.graph.isRoomy()")
        score = browser.execute_async_script(SCORE)
        assert score["whole"]
        assert score["font"] > 8.99  # a canvas rounds it
        assert [score["foreign"], score["overlaps"], score["boxes"]] == [0, 0, 10 + behind]
        page("simviz.graph.zoom(2.5)")
        assert browser.execute_async_script(SCORE)["overlaps"] == 0
        assert complaints(browser) == []
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("height", [640, 760, 900])
def test_towers_are_dealt_to_columns_where_they_are_higher_than_the_pane(
    browser: WebDriver, tmp_path: Path, height: int
) -> None:
    """They began at the upper left corner, and the last ones were out of sight."""
    metrics = {"width": 1400, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        page = opened(browser, tmp_path, run(Request(str(towers(tmp_path, 9)), cluster="cpu=1", fetches=("sink",))))
        assert page("simviz.graph.picture().boxes.length") >= 12
        root, pane = page("simviz.graph.boxOnScreen(0)"), page("document.getElementById('graph').clientHeight")
        assert root["y"] >= 0
        assert root["y"] + root["height"] <= pane
        assert root["width"] / page("simviz.graph.boxInWorld(0).width") >= 9 / 11 - 1e-6
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_edges_that_share_a_way_are_asked_together(browser: WebDriver, tmp_path: Path) -> None:
    """A shared stretch named one of them alone."""
    page = opened(browser, tmp_path, run(Request(str(towers(tmp_path, 3)), cluster="cpu=1", fetches=("sink",))))
    start = page(
        "(() => { const way = simviz.graph.picture().ways.find((way) => way.usual && way.from?.label === 'source');"
        " return simviz.graph.onScreen(way.path[0].slice(1)); })()"
    )
    click(browser, "graph", start[0] + 1, start[1])
    selection = page("simviz.state.selection")
    assert selection["kind"] == "edges"
    of_source = page("[...simviz.model.edges.src.keys()].filter((edge) => simviz.model.edges.src[edge] === 0)")
    assert sorted(selection["id"]) == of_source
    assert selection["ends"][1].endswith(" and 2 more")
    assert complaints(browser) == []


def test_the_picture_follows_its_pane(browser: WebDriver, page: Ask) -> None:
    press(browser, "0")
    wide = page("simviz.graph.boxOnScreen(0)")
    page("document.getElementById('board').style.gridTemplateColumns = 'minmax(0, 400px) 1fr'")
    settled(browser)
    settled(browser)
    narrow = page("simviz.graph.boxOnScreen(0)")
    assert narrow["width"] <= 400 < wide["width"]


def test_a_hub_is_a_port_until_it_is_selected(browser: WebDriver, tmp_path: Path) -> None:
    source = tmp_path / "hub.pbtxt"
    nodes = ['node { name: "hub" op: "NoOp" }']
    nodes += [f'node {{ name: "r{chr(97 + i // 6)}{chr(97 + i % 6)}" op: "NoOp" input: "^hub" }}' for i in range(36)]
    ends = "".join(f' input: "^r{chr(97 + i // 6)}{chr(97 + i % 6)}"' for i in range(36))
    source.write_text("\n".join([*nodes, f'node {{ name: "end" op: "NoOp" {ends} }}']))
    page = opened(browser, tmp_path, run(Request(str(source), cluster="cpu=1", fetches=("end",))))
    page("[...Array(simviz.model.scopes).keys()].forEach((s) => simviz.graph.isOpen(s) || simviz.graph.toggle(s))")
    usual = "simviz.graph.picture().ways.filter((way) => way.usual).length"
    assert page(usual) == 0
    assert page("simviz.graph.picture().boxes.filter((box) => box.ports).length") >= 36
    page("simviz.state.select({kind: 'node', id: simviz.model.nodes.names.indexOf('hub')}, 'graph')")
    settled(browser)
    assert complaints(browser) == []


def test_a_variable_is_found_in_the_box_of_its_reader(browser: WebDriver, page: Ask) -> None:
    node = page("simviz.model.tree.folded[0]")
    page("simviz.state.select({kind: 'node', id: arguments[0]})", node)
    settled(browser)
    box = "simviz.graph.boxInWorld(simviz.model.scopes + {})"
    host = box.format("simviz.model.hostOf[arguments[0]]")
    assert page(f"{host} !== null && {host} === {box.format('arguments[0]')}", node)


def test_a_link_opens_the_page_at_a_node(browser: WebDriver, page: Ask, tmp_path: Path) -> None:
    name = "dense/MatMul"
    node = example().graph.index[name]
    page("simviz.state.select({kind: 'node', id: arguments[0]})", node)
    address = page("location.href")
    assert address.endswith("#node=dense%2FMatMul")
    browser.get("about:blank")
    browser.get(address)
    until(lambda: page("document.documentElement.dataset.ready"), "the page")
    assert page("simviz.state.selection") == {"kind": "node", "id": node}
    assert page("simviz.graph.boxInWorld(simviz.model.scopes + arguments[0]) !== null", node)
    for fragment, kind in (("#node=dense", "scope"), ("#node=%E0%A4%A", "scope"), ("#node=nothing", "scope")):
        page("(location.hash = arguments[0])", fragment)
        settled(browser)
        assert page("simviz.state.selection.kind") == kind
    page("simviz.state.select(null)")
    assert "#" not in page("location.href")
    assert complaints(browser) == []


def test_the_file_is_small() -> None:
    scene = example()
    assert len(draw_report(scene)) < 1_000_000


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("dense matmul", {"dense/MatMul"}),
        ("matmul gpu:0", {"dense/MatMul", "logits/MatMul"}),
        ("/dense/MatMul$/", {"dense/MatMul"}),
        ("conv1", {"conv1"}),
    ],
)
def test_words_and_expressions_find_names_ops_and_devices(
    browser: WebDriver, page: Ask, typed: str, expected: set[str]
) -> None:
    press(browser, "/", typed)
    hits = set(page("[...simviz.state.hits]"))
    texts = page("simviz.model.searched.names.map((name, item) => [name, simviz.model.searched.behind[item]])")
    assert expected <= {texts[item][0] for item in hits}
    for item, text in enumerate(texts):
        if item and not typed.startswith("/"):
            assert (item in hits) == all(word in " ".join(text).lower() for word in typed.split())
    assert page("document.querySelectorAll('#matches li[role=option]').length") >= len(expected)
    marked = page("simviz.timeline.marked().map((slice) => simviz.model.scopes + simviz.model.slices.node[slice])")
    assert len(marked) > 0
    assert set(marked) <= hits
    assert complaints(browser) == []


def test_a_broken_expression_is_said(browser: WebDriver, page: Ask) -> None:
    from selenium.webdriver.common.keys import Keys

    press(browser, "/", "/(/")
    assert "no regular expression" in page("document.getElementById('matches').innerText")
    press(browser, Keys.ESCAPE)
    assert page("simviz.state.hits.size") == 0
    assert complaints(browser) == []


def test_a_variable_in_a_box_has_the_shape_of_its_value(page: Ask) -> None:
    """It was that of the handle, a scalar."""
    scene = example()
    read = scene.graph.index["dense/MatMul/ReadVariableOp"]
    page("simviz.graph.reveal(simviz.model.scopes + arguments[0])", read)
    assert page("simviz.graph.boxInWorld(simviz.model.scopes + arguments[0]).held", read) == "weights [3136, 1024]"
