"""The report's timeline in Chromium: what processors do for transfers, links that are shared, iterations of loops."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium.webdriver.chrome.webdriver import WebDriver

from simulator.execution.trace import PACK, UNPACK, WIRE, transfer_of
from tests.viz.browsing import click, complaints, opened, settled
from tests.viz.scenes import EXAMPLE, loop
from viz.command.request import Request
from viz.command.stages import run
from viz.handling import critical_stretches, handling
from viz.scene import Scene

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
PANEL = "document.getElementById('panel').innerText.replace(/\\s+/g, ' ')"


@cache
def shared() -> Any:
    """Fair links, and gRPC, which has processors pack and unpack."""
    return run(Request(str(EXAMPLE), cluster="ps=2,worker=1x2gpu", algorithm="requested", contention="fair"))


def looped() -> Any:
    return loop("/job:a", "/job:b", cluster="a=1,b=1", trips={"while": 6})


def test_packing_is_in_the_lane_of_the_processor_and_leads_to_its_transfer(browser: WebDriver, tmp_path: Path) -> None:
    scene = shared()
    page = opened(browser, tmp_path, scene)
    work = handling(scene)
    row = int((work.end_ns - work.start_ns).argmax())
    bar = len(scene.trace.node) + row
    place = page("simviz.timeline.placeOf(arguments[0])", bar)
    click(browser, "timeline", place["x"], place["y"])
    assert page("simviz.state.selection") == {"kind": "transfer", "id": int(work.transfer[row])}
    said = page(PANEL)
    for words in ("asked for", "packed", "on the wire", "unpacked", "by ps:0/CPU:0", "on the critical path"):
        assert words in said
    for colour in ("category", "time", "device"):
        page("simviz.state.set({colourBy: arguments[0], critical: true})", colour)
        settled(browser)
    assert complaints(browser) == []


def test_the_page_marks_the_stretches_of_the_critical_path(browser: WebDriver, tmp_path: Path) -> None:
    scene = shared()
    page = opened(browser, tmp_path, scene)
    stretches, work = critical_stretches(scene), handling(scene)
    assert {stretch for _, stretch in stretches} >= {PACK, WIRE, UNPACK}
    wires = sorted(transfer for transfer, stretch in stretches if stretch == WIRE)
    assert sorted(page("[...simviz.model.criticalTransfers]")) == wires
    slices = [row for row in scene.trace.critical.tolist() if row >= 0]
    bars = [
        len(scene.trace.node) + row
        for row, (transfer, packs) in enumerate(zip(work.transfer.tolist(), work.packs.tolist(), strict=True))
        if (transfer, PACK if packs else UNPACK) in stretches
    ]
    assert sorted(page("[...simviz.model.criticalBars]")) == sorted([*slices, *bars])
    assert all(transfer_of(row)[0] < len(scene.trace.transfer) for row in scene.trace.critical.tolist() if row < 0)


@pytest.mark.parametrize("scene", [shared, looped])
def test_no_bars_or_transfers_overlap_in_a_row(browser: WebDriver, tmp_path: Path, scene: Callable[[], Scene]) -> None:
    page = opened(browser, tmp_path, scene())
    overlaps = page(
        "simviz.timeline.rows.filter((row) => !row.overlap && row.rows.some((entry, at) => {"
        "  const { start_ns: start, end_ns: end } = row.kind === 'link' ? simviz.model.carried : simviz.model.bars;"
        "  return at && end[row.rows[at - 1]] > start[entry];"
        "})).map((row) => row.label)"
    )
    assert overlaps == []
    links = page("simviz.timeline.rows.filter((row) => row.kind === 'link').flatMap((row) => row.rows).length")
    routes, cut = scene().cluster.routes, scene().partitions
    pairs = [(int(cut.src_device[row]), int(cut.dst_device[row])) for row in scene().trace.transfer.tolist()]
    assert links == sum(len(routes[src][dst] or (-1,)) for src, dst in pairs)


def test_iterations_are_told_apart_and_counted(browser: WebDriver, tmp_path: Path) -> None:
    scene = looped()
    page = opened(browser, tmp_path, scene)
    page("simviz.state.select({kind: 'node', id: arguments[0]})", scene.graph.index["body"])
    settled(browser)
    said = page(PANEL)
    assert "runs #0" in said
    assert "runs #3" in said
    assert "in all 6 times" in said
    tensor, tags = scene.graph.tensor_ptr[scene.graph.index["body"]], scene.trace.iterations
    transfer = next(
        row
        for row, (pair, tag) in enumerate(zip(scene.trace.transfer, scene.trace.transfer_iteration, strict=True))
        if scene.partitions.tensor[pair] == tensor and tags[tag] == (5,)
    )
    page("simviz.state.select({kind: 'transfer', id: arguments[0]})", transfer)
    said = page(PANEL)
    assert "Transfer of body:0#5" in said
    assert "iteration 5" in said
    assert "far" in said.partition("Read by")[2]
    work = np.flatnonzero(handling(scene).transfer == transfer)
    assert len(work) == 2
    assert sorted(page("simviz.timeline.marked()")) == (len(scene.trace.node) + work).tolist()
    assert complaints(browser) == []
