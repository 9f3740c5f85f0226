"""The report's timeline in Chromium: what processors do for transfers, links that are shared, iterations of loops."""

from collections.abc import Callable
from functools import cache
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any

import pytest
from selenium.webdriver.chrome.webdriver import WebDriver

from placement.plan import Plan
from placement.problem import Problem
from simulator.execution.options import SimulationOptions
from simulator.execution.trace import Kind
from tests.viz.browsing import click, complaints, opened, settled, written
from tests.viz.scenes import EXAMPLE, loop
from viz.command.request import Request
from viz.command.running import run
from viz.scene import Scene
from viz.timeline.step_timeline import step_timeline

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
PANEL = "document.getElementById('panel').innerText.replace(/\\s+/g, ' ')"


@cache
def shared() -> Any:
    """Fair links, and gRPC, which has processors pack and unpack."""
    return run(
        Request(
            str(EXAMPLE),
            simulation=SimulationOptions(contention="fair"),
            cluster="ps=2,worker=1x2gpu",
            algorithm="requested",
        )
    )


def looped() -> Any:
    return loop("/job:a", "/job:b", cluster="a=1,b=1", trips={"while": 6})


def work(scene: Scene) -> list[int]:
    """The slices of packing and unpacking."""
    drawn = step_timeline(scene)
    kinds = [drawn.labels[row].kind for row in drawn.slices.label.tolist()]
    return [row for row, kind in enumerate(kinds) if kind in ("packing", "unpacking")]


def test_packing_is_in_the_lane_of_the_processor_and_leads_to_its_transfer(browser: WebDriver, tmp_path: Path) -> None:
    scene = shared()
    page = opened(browser, tmp_path, scene)
    slices = step_timeline(scene).slices
    longest = max(work(scene), key=lambda row: slices.end_ns[row] - slices.start_ns[row])
    place = page("simviz.timeline.placeOf(arguments[0])", longest)
    click(browser, "timeline", place["x"], place["y"])
    assert page("simviz.state.selection") == {"kind": "transfer", "id": int(slices.transfer[longest])}
    said = page(PANEL)
    for words in ("requested", "packed", "on the wire", "unpacked", "by ps:0/CPU:0", "on the critical path"):
        assert words in said
    for colour in ("category", "time", "device"):
        page("simviz.state.set({colourBy: arguments[0], critical: true})", colour)
        settled(browser)
    assert complaints(browser) == []


def test_the_page_marks_the_stretches_of_the_critical_path(browser: WebDriver, tmp_path: Path) -> None:
    scene = shared()
    page = opened(browser, tmp_path, scene)
    drawn, tasks = step_timeline(scene), scene.trace.tasks
    path = scene.trace.critical.tolist()
    kinds = {Kind.PACK: "packing", Kind.LINK: "transfer", Kind.FLOW: "transfer", Kind.UNPACK: "unpacking"}
    stretches = {(int(tasks.of[row]), kinds.get(tasks.kind[row], "")) for row in path if tasks.kind[row] != Kind.OP}
    assert {kind for _, kind in stretches} >= {"packing", "transfer", "unpacking"}
    expected = {row for row, task in enumerate(scene.trace.ops.task.tolist()) if task in path}
    for row, transfer in enumerate(drawn.slices.transfer.tolist()):
        if (transfer, drawn.labels[drawn.slices.label[row]].kind) in stretches:
            expected.add(row)
    assert set(page("[...simviz.model.criticalSlices]")) == expected


@pytest.mark.parametrize("scene", [shared, looped])
def test_no_bars_or_transfers_overlap_in_a_row(browser: WebDriver, tmp_path: Path, scene: Callable[[], Scene]) -> None:
    page = opened(browser, tmp_path, scene())
    overlaps = page(
        "simviz.timeline.rows.filter((row) => !row.overlap && row.rows.some((entry, at) => {"
        "  const { start_ns: start, end_ns: end } = simviz.model.timeline;"
        "  return at && end[row.rows[at - 1]] > start[entry];"
        "})).map((row) => row.label)"
    )
    assert overlaps == []
    links = page("simviz.timeline.rows.filter((row) => row.kind === 'link').flatMap((row) => row.rows).length")
    routes, cut = scene().cluster.routes, scene().partitions
    pairs = [(int(cut.src_device[row]), int(cut.dst_device[row])) for row in scene().trace.transfers.row.tolist()]
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
        for row, (pair, tag) in enumerate(zip(scene.trace.transfers.row, scene.trace.transfers.iteration, strict=True))
        if scene.partitions.tensor[pair] == tensor and tags[tag] == (5,)
    )
    page("simviz.state.select({kind: 'transfer', id: arguments[0]})", transfer)
    said = page(PANEL)
    assert "Transfer of body:0#5" in said
    assert "iteration 5" in said
    assert "far" in said.partition("Read by")[2]
    of = step_timeline(scene).slices.transfer
    own = [row for row in work(scene) if of[row] == transfer]
    assert len(own) == 2
    assert sorted(page("simviz.timeline.marked()")) == own
    assert complaints(browser) == []


SKIPPING = """
const cases = arguments[0];
return cases.filter(({spans, from, to, overlap}) => {
  const [start, end] = [spans.map(([a]) => a), spans.map(([, b]) => b)];
  const [left, right] = [0, 120];
  const pen = {right, view: {from, to}, xOf: (ns) => (ns - from) / (to - from) * right,
    nsAt: (x) => from + x / right * (to - from)};
  const row = {rows: spans.map((_, at) => at), overlap};
  const found = [];
  eachInSight(pen, row, start, end, (entry, x, width) => found.push([entry, x, width]));
  const wanted = [];
  let painted = -Infinity;
  spans.forEach((_, entry) => {
    if (start[entry] > to || end[entry] < from || (!overlap && end[entry] === from)) return;
    const [x0, x1] = [Math.max(ROW.label - 2, pen.xOf(start[entry])), Math.min(right + 2, pen.xOf(end[entry]))];
    if (x1 - painted < PIXEL && x1 - x0 < PIXEL) return;
    painted = Math.max(painted, x1);
    wanted.push([entry, x0, Math.max(x1 - x0, 0.7)]);
  });
  return JSON.stringify(found.map(([entry]) => entry)) !== JSON.stringify(wanted.map(([entry]) => entry));
});
"""


def test_what_falls_on_a_painted_pixel_is_skipped_and_nothing_else(browser: WebDriver) -> None:
    """The search for the next entry finds what a walk over all entries does."""
    chance, cases = Random(7), []
    for _ in range(300):
        now, spans = 0, []
        longest, pause = chance.choice((2, 50, 4000)), chance.choice((0, 3, 900))
        for _ in range(chance.randrange(60)):
            start = now + chance.randint(0, pause)
            now = start + chance.randint(0, longest)
            spans.append((start, now))
        begin = chance.randint(0, now // 2 + 1)
        until = begin + chance.randint(1, now + 1)
        cases.append({"spans": spans, "from": begin, "to": until, "overlap": chance.random() < 0.2})
    folder = resources.files("viz") / "assets"
    texts = [(folder / name).read_text("utf-8") for name in ("timeline.js", "timeline_drawing.js")]
    assert browser.execute_script("\n".join(texts) + SKIPPING, cases) == []


def in_turn(problem: Problem) -> Plan:
    """Each group on the next of its devices."""
    return Plan([allowed[group % len(allowed)] for group, allowed in enumerate(problem.allowed)])


def test_many_devices_are_grouped_by_task_and_memory_has_one_scale_or_none(browser: WebDriver, tmp_path: Path) -> None:
    request = Request(str(EXAMPLE), cluster="ps=1,worker=1x8gpu", algorithm=in_turn, ignore_devices=True)
    page = opened(browser, tmp_path, run(request))
    rows = "simviz.timeline.rows.map((row) => [row.kind, row.label])"
    whole = page(rows)
    assert [label for kind, label in whole if kind == "heading"] == ["ps:0", "worker:0", "Links"]
    page("simviz.timeline.fold('worker:0')")
    folded = page(rows)
    assert ["heading", "worker:0: folded"] in folded
    assert not any(label.startswith("worker:0/") for kind, label in folded if kind == "lane")
    page("simviz.timeline.fold('worker:0')")
    assert page(rows) == whole
    for choice, shown in (("one", True), ("none", False), ("own", True)):
        page(
            "(document.getElementById('memory').value = arguments[0],"
            " document.getElementById('memory').dispatchEvent(new Event('change')))",
            choice,
        )
        settled(browser)
        assert page("simviz.state.memory") == choice
        assert any(kind == "memory" for kind, _ in page(rows)) == shown
    assert complaints(browser) == []


def test_work_for_a_tensor_without_a_scope_has_its_verb_once(browser: WebDriver, tmp_path: Path) -> None:
    """Without a slash in the name its text was "send send body:0"."""
    page = opened(browser, tmp_path, looped())
    said = written(browser)
    work = "simviz.model.timeline.transfer.map((at, slice) => slice).filter((slice) => simviz.model.packs[slice])"
    for slice_ in page(work)[:2]:
        times = page(
            "[simviz.model.timeline.start_ns[arguments[0]], simviz.model.timeline.end_ns[arguments[0]]]", slice_
        )
        page("simviz.timeline.look(...arguments[0])", times)
        settled(browser)
    verbs = {one.rpartition(" ")[0] for one in said() if one.startswith(("send ", "receive "))}
    assert verbs == {"send"}
