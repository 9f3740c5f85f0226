"""Two runs on one page, in Chromium: timelines on one clock, the graph of either run, tables of what differs."""

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver.chrome.webdriver import WebDriver

from tests.viz.browsing import beyond, click, complaints, opened, press, settled
from tests.viz.scenes import EXAMPLE, SCRIPT
from viz.command.request import Request
from viz.command.running import run
from viz.difference.difference import difference
from viz.difference.scene_outline import outline
from viz.scene import Scene
from viz.timeline.step_timeline import step_timeline

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]
CLUSTER = "ps=2,worker=1x2gpu,protocol=rdma"


@cache
def compared(against: str = "single", cluster: str = CLUSTER) -> Scene:
    return run(Request(str(EXAMPLE), cluster=cluster, algorithm="whitepaper", against=against))


def other(scene: Scene) -> Scene:
    assert isinstance(scene.against, Scene)
    return scene.against


def test_both_timelines_show_the_same_times_and_the_same_op(browser: WebDriver, tmp_path: Path) -> None:
    scene = compared()
    page = opened(browser, tmp_path, scene)
    found = difference(scene)
    assert found is not None
    assert found.moved
    sights = "simviz.timelines.map((one) => [one.view.from, one.view.to])"
    assert page(sights)[0] == page(sights)[1]
    assert page("simviz.timelines[0].view.to") > max(found.makespan_ns)
    for at in (0, 1):  # each moves the other
        page("simviz.timelines[arguments[0]].zoom(3)", at)
        settled(browser)
        settled(browser)
        assert page(sights)[0] == page(sights)[1]
    page("simviz.timelines[0].fit()")
    moved = max(found.moved, key=lambda one: one.runs).node
    page("simviz.state.select({kind: 'node', id: simviz.model.nodes.names.indexOf(arguments[0])})", moved)
    settled(browser)
    own, theirs = page("[simviz.model.runs.own, simviz.model.runs.other].map((run) => run.nodes.names)")
    assert own == theirs
    for side, at in (("other", 0), ("own", 1)):
        nodes = page(f"simviz.timelines[{at}].marked().map((slice) => simviz.model.runs.{side}.slices.node[slice])")
        assert own.index(moved) in nodes
    said = page("document.getElementById('panel').innerText")
    assert "in single" in said
    assert complaints(browser) == []


def test_a_measured_range_names_its_run(browser: WebDriver, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, compared())
    page("simviz.state.measure({ from: 1000, to: 900000 })")
    panel = "document.getElementById('panel').innerText"
    assert "run\nwhitepaper" in page(panel)
    page("document.querySelector('#runs button').click()")
    assert "run\nsingle" in page(panel)


def test_two_equal_runs_are_said_to_be_equal(browser: WebDriver, tmp_path: Path) -> None:
    """The header had "+0 ns (+0 %)". The long name of a run widened the panel."""
    scene = compared()
    page = opened(browser, tmp_path, replace(scene, against=replace(scene, label="twin" * 40)))
    assert "as long as twin" in page("document.getElementById('figures').innerText")
    assert "+0 " not in page("document.body.innerText")
    assert page("[...document.querySelectorAll('.card')].every((one) => one.scrollWidth <= one.clientWidth)")


def test_the_graph_shows_either_run_and_the_selection_stays(browser: WebDriver, tmp_path: Path) -> None:
    scene = compared()
    page = opened(browser, tmp_path, scene)
    devices = [placed.assignment.device.tolist() for placed in (scene, other(scene))]
    assert devices[0] != devices[1]
    crossing = {row: int(scene.partitions.tensor[pair]) for row, pair in enumerate(scene.trace.transfers.row.tolist())}
    theirs = other(scene)
    same = {int(theirs.partitions.tensor[pair]): row for row, pair in enumerate(theirs.trace.transfers.row.tolist())}
    once = [tensor for tensor, times in Counter(crossing.values()).items() if times == 1]
    both = next(row for row, tensor in crossing.items() if tensor in same and tensor in once)
    alone = next(row for row, tensor in crossing.items() if tensor not in same and tensor >= 0)
    shown = "simviz.model.compared.at"
    assert page(shown) == 1
    page("simviz.state.select({kind: 'transfer', id: arguments[0]})", both)
    press(browser, "x")
    assert page(shown) == 0
    assert page("simviz.state.selection")["kind"] == "transfer"
    assert page("simviz.model.transfers.tensor[simviz.state.selection.id]") == crossing[both]
    press(browser, "x")
    assert page(shown) == 1
    assert page("simviz.state.selection") == {"kind": "transfer", "id": both}
    page("simviz.state.select({kind: 'transfer', id: arguments[0]})", alone)
    press(browser, "x")  # the other run has no such transfer: the node that makes the tensor stands for it
    assert page("simviz.state.selection.kind") == "node"
    assert page("simviz.model.nodes.device") != page("simviz.model.runs.own.nodes.device")
    for colour in ("moved", "category", "device"):
        page("simviz.state.set({colourBy: arguments[0], critical: true})", colour)
        settled(browser)
    assert complaints(browser) == []


def test_a_click_in_the_other_timeline_selects_what_this_run_has(browser: WebDriver, tmp_path: Path) -> None:
    scene = compared()
    page = opened(browser, tmp_path, scene)
    drawn = step_timeline(other(scene)).slices
    took = drawn.end_ns - drawn.start_ns
    longest = int(np.argmax(np.where(drawn.transfer < 0, took, -1)))
    page("simviz.timelines[0].show(arguments[0])", longest)
    settled(browser)
    place = page("simviz.timelines[0].placeOf(arguments[0])", longest)
    click(browser, "timeline-other", place["x"], place["y"])
    node = page("simviz.model.runs.other.slices.node[arguments[0]]", longest)
    assert page("simviz.state.selection") == {"kind": "node", "id": node}
    assert complaints(browser) == []


def test_the_panel_says_what_differs_and_sorts_it(browser: WebDriver, tmp_path: Path) -> None:
    scene = compared()
    page = opened(browser, tmp_path, scene)
    found = difference(scene)
    assert found is not None
    parts = page("simviz.model.against.parts.map(([, before, after]) => after - before)")
    assert sum(parts) == found.difference_ns
    assert page("document.querySelectorAll('#panel .part').length") == len(found.parts)
    card = "[...document.querySelectorAll('#panel .card')].find((one) => one.innerText.startsWith('Moved'))"
    times = f"[...{card}.querySelectorAll('tbody tr')].map((row) => row.cells[1].innerText)"
    heading = f"{card}.querySelectorAll('th')[1].click()"
    before = page(times)
    page(heading)
    down = page(times)
    page(heading)
    assert sorted(before) == sorted(down)
    assert page(times) == down[::-1]
    assert complaints(browser) == []


def test_an_earlier_result_is_compared_without_its_timeline(browser: WebDriver, tmp_path: Path) -> None:
    whole = compared()
    scene = replace(whole, against=replace(outline(other(whole)), label=SCRIPT))
    page = opened(browser, tmp_path, scene)
    assert page("simviz.timelines.length") == 1
    assert page("document.getElementById('runs').hidden && document.getElementById('timeline-other').hidden")
    found = difference(scene)
    assert found is not None
    assert page("simviz.model.elsewhere.size") == len(found.moved)
    page("simviz.state.select({kind: 'node', id: [...simviz.model.elsewhere.keys()][0]})")
    assert page("document.title") != "owned"
    assert complaints(browser) == []


def test_devices_of_both_clusters_look_alike_and_others_like_none(browser: WebDriver, tmp_path: Path) -> None:
    scene = compared("ps=2,worker=4x1gpu")
    page = opened(browser, tmp_path, scene)
    colours = [
        dict(zip(page(f"simviz.model.runs.{run}.cluster.devices.map((one) => one.name)"), of, strict=True))
        for run, of in ((run, page(f"simviz.model.runs.{run}.cluster.colours")) for run in ("own", "other"))
    ]
    shared = colours[0].keys() & colours[1].keys()
    assert shared
    assert all(colours[0][name] == colours[1][name] for name in shared)
    assert not {colours[1][name] for name in colours[1].keys() - shared} & set(colours[0].values())
    assert complaints(browser) == []


def test_a_run_alone_has_nothing_of_a_comparison(browser: WebDriver, tmp_path: Path) -> None:
    scene = replace(compared(), against=None)
    page = opened(browser, tmp_path, scene)
    assert page("simviz.timelines.length") == 1
    for name in ("runs", "timeline-other", "timeline-run", "timeline-other-run"):
        assert page("document.getElementById(arguments[0]).hidden", name)
    assert complaints(browser) == []


def test_clusters_with_long_names_are_told_apart_in_narrow_windows(browser: WebDriver, tmp_path: Path) -> None:
    """Both were cut to "ps=2,wor…", and the buttons behind them were out of sight, or half of one."""
    page = opened(browser, tmp_path, compared("ps=2,worker=2x4gpu", "ps=2,worker=1x2gpu"))
    assert {width: found for width in (1400, 800, 500) if (found := beyond(browser, width, 900))} == {}
    widths = "[...document.querySelectorAll('#runs .tail')].map((one) => one.scrollWidth <= one.clientWidth)"
    assert page(widths) == [True, True]
    assert complaints(browser) == []


def test_headings_name_of_two_clusters_what_differs_and_break_between_settings(
    browser: WebDriver, tmp_path: Path
) -> None:
    """They had five lines, one of them a "=" alone."""
    cluster = "ps=2,worker=1x2gpu"
    page = opened(browser, tmp_path, compared(against=cluster, cluster=f"{cluster},protocol=rdma"))
    cards = "[...document.querySelectorAll('.card')]"
    heads = f"[...{cards}.find((one) => one.innerText.startsWith('Links that')).querySelectorAll('th')]"
    assert page(f"{heads}.map((one) => one.textContent)") == ["link", "without", "whitepaper,protocol=rdma", "change"]
    part = f"[...{heads}[2].querySelectorAll('.part-of')].at(-1)"
    for width in (1400, 800, 390):
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        settled(browser)
        assert page(f"{part}.getBoundingClientRect().height") < 2.5 * 17, width  # "protocol=", "rdma"
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
