"""The report in Chromium: it opens without a complaint, both views follow the selection, hostile names do nothing."""

from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver.chrome.webdriver import WebDriver

from simulator.assignment import RULES
from simulator.execution.receiving import Received
from simulator.units import show_bytes, show_nanos
from tests.strategies import Rows, shape_attr, shapes_attr, type_attr
from tests.viz.browsing import Ask, click, complaints, kept, opened, press, settled
from tests.viz.scenes import EXAMPLE, example, hostile
from viz import run as library_run
from viz.command.request import Request
from viz.command.running import run
from viz.command.summary import summarise
from viz.figures import peaks
from viz.scene import Scene

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # selenium leaves its own sockets to the collector
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture
def page(browser: WebDriver, folder: Path) -> Ask:
    return kept(browser, folder, example())


def slowest(scene: Scene) -> int:
    """The node that runs longest."""
    trace = scene.trace
    return int(scene.partitions.origin[trace.ops.node[(trace.ops.end_ns - trace.ops.start_ns).argmax()]])


def test_it_opens_without_a_complaint_and_shows_the_figures(browser: WebDriver, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, example())
    settled(browser)
    assert complaints(browser) == []
    assert page("document.getElementById('title').textContent") == "ps_training.pbtxt"
    figures = page("document.getElementById('figures').innerText")
    for word in ("makespan", "lower bound", "moved", "fullest memory"):
        assert word in figures
    for canvas in ("graph", "timeline"):
        colours = page(
            "new Set(document.getElementById(arguments[0]).getContext('2d')"
            ".getImageData(0, 0, 900, 250).data.filter((_, at) => at % 4 === 0)).size",
            canvas,
        )
        assert colours > 5  # something was drawn


def test_searching_selects_the_node_in_both_views(browser: WebDriver, page: Ask) -> None:
    from selenium.webdriver.common.keys import Keys

    scene = example()
    node = slowest(scene)
    press(browser, "/", scene.graph.names[node], Keys.ENTER)
    assert page("simviz.state.selection") == {"kind": "node", "id": node}
    box = page("simviz.graph.boxOnScreen(simviz.model.scopes + arguments[0])", node)
    size = page("[document.getElementById('graph').clientWidth, document.getElementById('graph').clientHeight]")
    assert 0 <= box["x"] <= size[0]
    assert 0 <= box["y"] <= size[1]
    place = page("simviz.timeline.placeOf(simviz.model.slices.node.indexOf(arguments[0]))", node)
    assert 0 <= place["x"] <= page("document.getElementById('timeline').clientWidth")
    panel = page("document.getElementById('panel').innerText")
    device = scene.cluster.devices[int(scene.assignment.device[node])].short
    for said in (scene.graph.ops[node], device, RULES[scene.assignment.why[node]], "Attributes", "Inputs", "Read by"):
        assert said in panel


def test_clicking_a_slice_selects_its_node_and_opens_its_scopes(browser: WebDriver, page: Ask) -> None:
    node = slowest(example())
    place = page("simviz.timeline.placeOf(simviz.model.slices.node.indexOf(arguments[0]))", node)
    click(browser, "timeline", place["x"], place["y"])
    assert page("simviz.state.selection") == {"kind": "node", "id": node}
    assert page("simviz.graph.boxOnScreen(simviz.model.scopes + arguments[0]) !== null", node)


def test_clicking_a_scope_opens_it_and_its_title_closes_it(browser: WebDriver, page: Ask) -> None:
    scope = page(
        "[...Array(simviz.model.scopes).keys()].find((s) => s && simviz.model.tree.parent[s] === 0"
        " && simviz.model.flows[s] && simviz.graph.boxInWorld(s).item === s && !simviz.graph.isOpen(s))"
    )
    box = page("simviz.graph.boxOnScreen(arguments[0])", scope)
    click(browser, "graph", box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page("simviz.graph.isOpen(arguments[0])", scope)
    assert page("simviz.state.selection") == {"kind": "scope", "id": scope}
    box = page("simviz.graph.boxOnScreen(arguments[0])", scope)
    scale = box["width"] / page("simviz.graph.boxInWorld(arguments[0]).width", scope)
    click(browser, "graph", box["x"] + box["width"] / 2, box["y"] + 10 * scale)
    assert not page("simviz.graph.isOpen(arguments[0])", scope)


def test_the_keyboard_does_it_all(browser: WebDriver, page: Ask) -> None:
    from selenium.webdriver.common.keys import Keys

    press(browser, "c")
    assert page("document.getElementById('critical').getAttribute('aria-pressed')") == "true"
    press(browser, "c")
    assert page("document.getElementById('critical').getAttribute('aria-pressed')") == "false"
    press(browser, "?")
    assert page("document.getElementById('keys').open")
    press(browser, Keys.ESCAPE)
    assert not page("document.getElementById('keys').open")
    before = page("simviz.graph.boxOnScreen(0)")
    press(browser, "+")
    assert page("simviz.graph.boxOnScreen(0).width") > before["width"]
    press(browser, Keys.ARROW_LEFT)
    press(browser, "0")
    assert page("simviz.graph.boxOnScreen(0)") == before
    press(browser, "/", "conv", Keys.ENTER)
    assert page("simviz.state.selection.kind") == "node"
    press(browser, Keys.ESCAPE)
    assert page("simviz.state.selection") is None
    assert complaints(browser) == []


def test_next_and_previous_walk_along_a_device(browser: WebDriver, page: Ask) -> None:
    slices, lane = "simviz.model.slices", "simviz.model.timeline.lane"
    page(f"simviz.state.select({{kind: 'node', id: {slices}.node[{lane}.indexOf({lane}[9])]}})")
    first = page("simviz.state.selection.id")
    press(browser, "n")
    assert page("simviz.state.selection.id") != first
    press(browser, "p")
    assert page("simviz.state.selection.id") == first


@pytest.mark.parametrize("colour", ["category", "time", "device"])
def test_colours_by_choice(browser: WebDriver, page: Ask, colour: str) -> None:
    page("simviz.state.set({colourBy: arguments[0], critical: true, showIdle: true})", colour)
    settled(browser)
    assert page("document.getElementById('colour').value") == colour
    legend = page("document.getElementById('colours').innerText")
    kinds = page("simviz.model.tables.categories.map(([name]) => name)")
    assert legend.split() == {"category": " ".join(kinds), "time": legend, "device": ""}[colour].split()
    assert ("0.001 %" in legend) == (colour == "time")  # nothing said what is pale and what is not
    assert complaints(browser) == []


def test_links_in_the_panel_lead_on(browser: WebDriver, page: Ask) -> None:
    page("simviz.state.select({kind: 'transfer', id: simviz.model.tables.transfers[0]})")
    assert "Transfer of" in page("document.getElementById('panel').innerText")
    browser.find_element("css selector", "#panel .rows button").click()
    assert page("simviz.state.selection.kind") == "node"
    browser.find_element("css selector", "#panel .back").click()
    assert page("simviz.state.selection") is None


def test_what_is_alive_at_a_peak_leads_to_its_node(browser: WebDriver, page: Ask) -> None:
    page("simviz.state.select(null)")
    opened_card = browser.find_element("css selector", "#panel .peak")
    opened_card.find_element("css selector", "summary").click()
    row = max(peaks(example()), key=lambda row: row.peak_bytes / example().cluster.devices[row.device].memory_bytes)
    assert f"when {row.cause} began to hold" in opened_card.text
    opened_card.find_element("css selector", "tbody tr").click()
    assert page("simviz.state.selection") == {"kind": "node", "id": row.live[0].origin}


def test_what_late_recvs_change_is_shown(browser: WebDriver, tmp_path: Path) -> None:
    scene = example()
    lower = replace(scene.trace, peak_bytes=scene.trace.peak_bytes // 2)
    page = opened(
        browser,
        tmp_path,
        replace(scene, received=Received("whitepaper", scene.partitions, scene.partitions, scene.trace, lower)),
    )
    panel = page("document.getElementById('panel').innerText")
    for said in ("Delayed Recvs", "0 of 25 wait", "as without", "peak without"):
        assert said in panel
    assert complaints(browser) == []


def test_hostile_names_do_nothing_but_stand_there(browser: WebDriver, tmp_path: Path) -> None:
    scene = hostile()
    page = opened(browser, tmp_path, scene)
    page("[...Array(simviz.model.scopes).keys()].forEach((s) => simviz.graph.isOpen(s) || simviz.graph.toggle(s))")
    for node in [row for row in range(len(scene.graph)) if scene.step.runs[row]][:8]:
        page("simviz.state.select({kind: 'node', id: arguments[0]}, 'search')", node)
        settled(browser)
    press(browser, "/", "<")
    assert page("document.querySelectorAll('#matches li[role=option]').length") >= 2
    assert page("document.querySelectorAll('img, #panel script, #matches script').length") == 0
    assert "owned" not in page("document.title").replace("document.title='owned'", "")
    page("simviz.state.select(null)")
    settled(browser)
    assert scene.title in page("document.getElementById('title').textContent")
    assert complaints(browser) == []


def test_a_difference_is_shown_with_both_sides_and_the_rule(browser: WebDriver, tmp_path: Path) -> None:
    scene = example()
    name = scene.graph.names[slowest(scene)]
    differences = [
        {"node": name, "ours": "/job:a/replica:0/task:0/device:GPU:0", "theirs": "", "rule": "because (§3.3)"},
        {"node": "edge_7 on /job:ps", "ours": "", "theirs": "_Recv on there", "rule": "only theirs (§5.2)"},
    ]
    check = {
        "mode": "predict",
        "oracle": "stand-in workers",
        "tensorflow": "2.21.0",
        "placement": {"agree": 223, "of": 224, "raw": 223},
        "differences": differences,
    }
    page = opened(browser, tmp_path, replace(scene, check=check))
    panel = page("document.getElementById('panel').innerText")
    for said in ("223 of 224", "2 differences", name, "a:0/GPU:0", "absent", "because (§3.3)", "_Recv on there"):
        assert said in panel
    known, unknown = browser.find_elements("css selector", "#panel .differences button")
    assert not unknown.is_enabled()  # the node is in no graph
    page("arguments[0].click()", known)  # a driver may point at what the panel cuts off
    assert page("simviz.state.selection") == {"kind": "node", "id": slowest(scene)}
    assert "where simviz says a:0/GPU:0" in page("document.getElementById('panel').innerText")
    assert complaints(browser) == []


def test_hundreds_of_idle_devices_are_counted_and_not_listed(browser: WebDriver, tmp_path: Path) -> None:
    scene = run(Request(str(EXAMPLE), cluster="ps=2,worker=64x8gpu", algorithm="requested"))
    page = opened(browser, tmp_path, scene)
    settled(browser)
    busy = len(scene.cluster) - page("simviz.model.idleDevices.size")
    assert len(browser.find_elements("css selector", "#panel .card:first-child tbody tr")) == busy < 8
    assert f"and {578 - busy} devices that do nothing" in page("document.getElementById('panel').innerText")
    assert page("simviz.timeline.height") < 1000
    shares = page(  # parts beside hundreds of others that are empty still fill their bar
        "[...document.querySelectorAll('#panel td .stack')].map((bar) =>"
        " [...bar.children].reduce((sum, part) => sum + part.getBoundingClientRect().width, 0) / bar.clientWidth)"
    )
    assert len(shares) > 3
    assert min(shares) > 0.9
    assert complaints(browser) == []


def test_what_is_fetched_says_so_at_its_node_and_its_transfer(browser: WebDriver, tmp_path: Path) -> None:
    scene = run(
        Request(
            str(EXAMPLE), cluster="ps=2,worker=1x2gpu", algorithm="requested", fetches=("train", "logits/BiasAdd:0")
        )
    )
    page = opened(browser, tmp_path, scene)
    panel = "document.getElementById('panel').innerText.replace(/\\s+/g, ' ')"
    for name, said in (("logits/BiasAdd", "fetched output 0"), ("train", "fetched only run")):
        page("simviz.state.select({kind: 'node', id: arguments[0]})", scene.graph.index[name])
        assert said in page(panel)
    tensor = scene.graph.tensor_ptr[scene.graph.index["logits/BiasAdd"]]
    home = int(
        np.flatnonzero((scene.partitions.tensor == tensor) & (scene.partitions.dst_device == scene.cluster.client))[0]
    )
    page("simviz.state.select({kind: 'transfer', id: arguments[0]})", home)
    assert "the client fetches it there" in page(panel)
    assert complaints(browser) == []


def test_sentences_have_the_units_of_the_page(browser: WebDriver, tmp_path: Path) -> None:
    """Notes and what is out of memory had "us", as the summary has, beside "µs" everywhere else."""
    page = opened(browser, tmp_path, example())
    notes = page("[...document.querySelectorAll('#panel .notes li')].map((one) => one.textContent)")
    assert any("40\u00a0µs of it work at each end" in one for one in notes)
    assert not page(r"/[0-9] us\b/.test(document.getElementById('panel').textContent)")


def test_a_graph_of_one_node_still_opens(browser: WebDriver, tmp_path: Path) -> None:
    source = tmp_path / "one.pbtxt"
    source.write_text('node { name: "only" op: "NoOp" }\n')
    page = opened(browser, tmp_path, replace(run(Request(str(source), cluster="cpu=1")), title=""))
    settled(browser)
    assert page("simviz.model.count") == 1
    assert complaints(browser) == []


def test_a_long_category_is_whole(browser: WebDriver, tmp_path: Path) -> None:
    """It was cut to "queue and synchronisat…"."""
    source = tmp_path / "queue.pbtxt"
    source.write_text('node { name: "q" op: "FIFOQueueV2" }\nnode { name: "size" op: "QueueSizeV2" input: "q" }\n')
    page = opened(browser, tmp_path, run(Request(str(source), cluster="1cpu")))
    cells = "[...document.querySelectorAll('#panel td')].filter((one) => one.textContent.startsWith('queue and'))"
    assert page(f"{cells}.map((one) => one.textContent)") == ["queue and synchronisation"] * 2
    assert page(f"{cells}.every((one) => one.scrollWidth <= one.clientWidth)")


def test_the_page_rounds_as_the_summary_does(browser: WebDriver) -> None:
    """12.25 MiB was 12.3 MiB on the page, 12.2 MiB beside it: what is halfway goes to the even digit in both."""
    sizes = [0, 1, 999, 1023, 1024, 12_845_056, 12_897_484, 103_346_176, 105_381_888, 2**40 + 2**38]
    sizes += [round(1.37**power) for power in range(100)] + [2**20 * part // 8 for part in range(1, 800)]
    nanos = [*sizes, 12_250_000, 12_350_000, 1_015_000, 99_950_000, 100_500_000, 101_500]
    script = resources.files("viz").joinpath("assets/format.js").read_text("utf-8")
    shown = browser.execute_script(script + "return arguments[0].map(showBytes)", sizes)
    assert shown == [show_bytes(size) for size in sizes]
    shown = browser.execute_script(script + "return arguments[0].map(showNanos)", nanos)
    assert shown == [show_nanos(one).replace("us", "µs") for one in nanos]
    shares = browser.execute_script(script + "return [0, 0.0004, 0.07, 0.437, 0.997, 0.99999, 1].map(showShare)")
    assert shares == ["0 %", "<0.1 %", "7.0 %", "44 %", "99.7 %", "99.9 %", "100 %"]


def test_the_header_says_the_distance_from_the_optimum_as_the_summary_does(browser: WebDriver, tmp_path: Path) -> None:
    """The page said 1.85 times the bound where the summary said at most 1.86, and 1.00 where it said 1.001."""
    small = library_run(EXAMPLE, cluster="1cpu", ignore_devices=True)
    for scene, shown in ((example(), None), (small, "the optimum")):
        page = opened(browser, tmp_path, scene)
        said = page("[...document.querySelectorAll('#figures dd')][1].querySelector('small').textContent")
        assert said == shown or f"at most {said.removesuffix('×')} x the optimum" in summarise(scene)


def test_a_device_without_ops_that_is_busy_says_at_what(browser: WebDriver, tmp_path: Path) -> None:
    """It had 0 ops and a busy share."""
    made = Rows()
    sides = {"_output_shapes": shapes_attr((64, 64))}
    made.add("image", "Placeholder", dtype=type_attr(), shape=shape_attr(64, 64), **sides)
    made.add("end", "Neg", ["image"], device="/job:worker/task:1", T=type_attr(), **sides)
    page = opened(browser, tmp_path, library_run(made.built(), cluster="worker=2", algorithm="requested"))
    said = page("document.getElementById('panel').innerText")
    assert "worker:0/CPU:0 runs no op; it packs and unpacks what is sent" in said
    assert "worker:1/CPU:0 runs" not in said
