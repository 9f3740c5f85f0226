"""What differs between two runs, and that the explanation adds up to the difference in makespan, to the nanosecond."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.assignment import Assignment
from simulator.bounds import Bound
from simulator.cluster.cluster import Cluster, Link
from simulator.cluster.contention import CONTENTIONS
from simulator.costs.table import CostTable
from simulator.errors import SimvizError
from simulator.execution.options import SimulationOptions
from simulator.execution.simulate import simulate
from simulator.execution.trace import Kind
from simulator.graph.graph import Graph
from simulator.graph.graph_def import graph_def
from simulator.graph.step import Step
from simulator.partitioning.cut import partition
from tests.execution.cases import assigned, cluster, costs, runs, sizes, steps, whole
from tests.execution.loops.cases import begun, conditional, counting, predicate
from tests.strategies import FLOAT, INT32, Rows, graphs, shapes_attr, type_attr, typed, types_attr
from tests.viz.scenes import EXAMPLE, example, trained
from viz import compare, figures, run
from viz.difference.circumstances import circumstances
from viz.difference.explanation import shortest, signed_nanos
from viz.difference.outline import CROSSING, MESSAGE, OP, REQUEST, read_result
from viz.difference.outline import MEMORY as IN_MEMORY
from viz.difference.scene_outline import outline, path_parts
from viz.formats.json_object import to_json
from viz.page.time_content import step_contents
from viz.scene import Scene
from viz.timeline.step_timeline import step_timeline
from viz.timeline.timeline import MEMORY


def scene(graph: Graph, step: Step, on: Cluster, priced: CostTable, where: Assignment, contention: str) -> Scene:
    """A step that was placed by hand."""
    pieces = partition(graph, where, on, legal=False, step=step)
    trace = simulate(pieces, on, priced, SimulationOptions(contention=contention))
    return Scene("graph", graph, step, on, priced, where, pieces, trace, Bound(0, "nothing"))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Scene, Scene]:
    """Two steps of one graph; placement, cluster, costs, contention and what is fetched may all differ."""
    graph = draw(graphs())
    step = draw(steps(graph))
    found = []
    for _ in range(2):
        on, priced, rows = draw(runs(graph))
        step = draw(st.sampled_from([step, whole(graph)]))
        found.append(scene(graph, step, on, priced, assigned(on, rows), draw(st.sampled_from(CONTENTIONS))))
    return found[0], found[1]


@settings(deadline=None, max_examples=30)
@given(pairs(), st.integers(1, 6))
def test_rows_and_parts_and_any_number_of_sentences_add_up_to_the_difference(
    pair: tuple[Scene, Scene], most: int
) -> None:
    found = compare(*pair)
    wanted = pair[1].trace.makespan - pair[0].trace.makespan
    assert found.difference_ns == wanted
    assert found.makespan_ns == tuple(sum(row.ns[side] for row in found.rows) for side in (0, 1))
    assert sum(row.difference_ns for row in found.rows) == wanted
    assert sum(part.difference_ns for part in found.parts) == wanted
    said = found.explanation(most)
    assert len(said) <= most
    assert sum(part.difference_ns for part in said) == wanted
    assert all(part.ns == tuple(sum(row.ns[side] for row in part.rows) for side in (0, 1)) for part in said)
    grouped = [(row.kind, row.subject) for part in said for row in part.rows]
    assert len(set(grouped)) == len(grouped)


@settings(deadline=None, max_examples=16)
@given(pairs())
def test_the_other_way_round_everything_has_the_other_sign(pair: tuple[Scene, Scene]) -> None:
    there, back = compare(*pair), compare(*reversed(pair))
    assert {(row.kind, row.subject): row.ns for row in there.rows} == {
        (row.kind, row.subject): row.ns[::-1] for row in back.rows
    }
    assert sorted(part.difference_ns for part in there.parts) == sorted(-part.difference_ns for part in back.parts)
    assert [(one.node, one.devices) for one in there.moved] == [(one.node, one.devices[::-1]) for one in back.moved]
    began = {one.tensor for one in there.crossings if one.began}
    assert began == {one.tensor for one in back.crossings if one.ceased}
    same = compare(pair[0], pair[0])
    assert (same.moved, same.crossings, same.parts, same.difference_ns) == ((), (), (), 0)


@settings(deadline=None, max_examples=16)
@given(pairs())
def test_each_figure_is_that_of_its_run(pair: tuple[Scene, Scene]) -> None:
    """Counted again from tasks, placements and routes, without the outline."""
    found = compare(*pair)
    for side, one in enumerate(pair):
        trace, graph = one.trace, one.graph
        assert trace.critical is not None
        took = trace.tasks.end_ns - trace.tasks.start_ns
        for kind, tasks in (
            (OP, [Kind.OP]),
            (CROSSING, [Kind.LINK, Kind.FLOW, Kind.LATENCY]),
            (MESSAGE, [Kind.PACK, Kind.UNPACK]),
            (REQUEST, [Kind.REQUEST]),
        ):
            on_path = trace.critical[np.isin(trace.tasks.kind[trace.critical], tasks)]
            assert sum(row.ns[side] for row in found.rows if row.kind == kind) == took[on_path].sum()
        moved = {row.node: row.devices[side] for row in found.moved}
        assert all(one.assignment.name_of(graph.index[node]) == device for node, device in moved.items())
        peaks = {row.device: row.peak_bytes[side] for row in found.devices}
        assert [peaks[device.name] for device in one.cluster.devices] == trace.peak_bytes.tolist()
        used = {link.name: 0 for link in one.cluster.links}
        for row, dead in zip(trace.transfers.row.tolist(), trace.transfers.dead.tolist(), strict=True):
            cut = one.partitions
            for link in one.cluster.routes[cut.src_device[row]][cut.dst_device[row]] or ():
                used[one.cluster.links[link].name] += 0 if dead else max(0, int(cut.nbytes[row]))
        assert {row.link: row.nbytes[side] for row in found.links if row.nbytes[side]} == {
            name: size for name, size in used.items() if size
        }


@settings(deadline=None, max_examples=100)
@given(sizes())
def test_a_report_tells_each_link_with_the_bytes_that_the_simulation_moved_over_it(
    made: tuple[Graph, Cluster, list[int]],
) -> None:
    """Shapes and numbers that GPUs hand over in host memory cross no link, whatever devices make and read them."""
    graph, on, rows = made
    one = scene(graph, whole(graph), on, costs(graph, on), assigned(on, rows), "serial")
    tasks, moved = one.trace.tasks, one.trace.transfers
    held = tasks.rows(Kind.LINK)
    crossed = {(on.links[link].name, of) for link, of in zip(tasks.links(held), tasks.of[held].tolist(), strict=True)}
    nbytes = dict.fromkeys((link.name for link in on.links), 0)
    for link, of in crossed:
        nbytes[link] += int(moved.nbytes[of])
    assert outline(one).link_bytes == {link: size for link, size in nbytes.items() if size}
    drawn = step_timeline(one)
    lanes = [drawn.lanes[lane] for lane in drawn.slices.lane.tolist()]
    slices = zip(lanes, drawn.slices.transfer.tolist(), strict=True)
    assert {(lane.name, of) for lane, of in slices if lane.kind == "link" and lane.row != MEMORY} == crossed
    contents: Any = step_contents(one)  # Any: JSON
    way = contents["transfers"]
    page = zip(range(len(moved)), way["route"].tolist(), strict=True)
    assert {(on.links[link].name, of) for of, route in page for link in way["routes"][route]} == crossed
    labels = {(link, figures.tensor_label(one, int(one.partitions.tensor[moved.row[of]]))) for link, of in crossed}
    path = [part for part in path_parts(one) if part.kind == CROSSING]
    assert {(part.place, part.subject) for part in path if part.place != IN_MEMORY} <= labels


def chain() -> Graph:
    """x, fed to a; b of a; c of b."""
    draft = Rows()
    draft.add("x", "Placeholder", **typed("Placeholder", (4,)))
    for name, before in (("a", "x"), ("b", "a"), ("c", "b")):
        draft.add(name, "Neg", [before], **typed("Neg", (4,)))
    return draft.built()


def placed(*rows: int, gpu_ns: int = 10, bandwidth: int = 10**9) -> Scene:
    """The chain on a CPU with two GPUs: 100 ns an op on the CPU, and 100 ns and 16 bytes on each link."""
    graph = chain()
    names = ["w:0/CPU:0", "w:0/GPU:0", "w:0/GPU:1"]
    ways = {(s, t): (3 * s + t,) for s in range(3) for t in range(3) if s != t}
    links = [Link(f"wire{s} to{t}", 100, bandwidth) for s in range(3) for t in range(3)]
    on = cluster(names, links, ways)
    priced = costs(graph, on, [[0, 0], *[[100, gpu_ns]] * 3])
    return scene(graph, whole(graph), on, priced, assigned(on, rows), "serial")


@pytest.mark.parametrize(
    ("first", "second", "lines"),
    [
        # three ops of 10 ns on a GPU, to which x goes for 116 ns, instead of three of 100 ns
        (
            placed(0, 0, 0, 0),
            placed(0, 1, 1, 1),
            [
                "Against it: 154 ns shorter than its 300 ns; 3 nodes moved; 1 tensor began to cross.",
                "  -270 ns: a and 2 other ops take 30 ns on GPU:0 instead of 300 ns on CPU:0",
                "  +116 ns: x:0 crosses wire0 to1",
            ],
        ),
        (
            placed(0, 1, 1, 1),
            placed(0, 2, 2, 2),
            ["Against it: as long, 146 ns; 3 nodes moved."],
        ),
        (
            placed(0, 1, 1, 1),
            placed(0, 1, 1, 1, gpu_ns=20, bandwidth=10**8),
            [
                "Against it: 174 ns longer than its 146 ns; no node moved.",
                "  +144 ns: x:0 takes 260 ns instead of 116 ns to cross wire0 to1",
                "  +30 ns: a and 2 other ops take 60 ns instead of 30 ns on GPU:0",
            ],
        ),
        (
            placed(0, 1, 2, 2),
            placed(0, 1, 1, 1),
            [
                "Against it: 116 ns shorter than its 262 ns; 2 nodes moved; 1 tensor ceased to cross.",
                "  -116 ns: a:0 no longer crosses wire1 to2",
            ],
        ),
    ],
)
def test_sentences_of_runs_worked_by_hand(first: Scene, second: Scene, lines: list[str]) -> None:
    assert str(compare(first, second, names=("it", "this"))).splitlines() == lines


def test_what_leaves_the_path_and_what_comes_in_its_place_is_one_sentence() -> None:
    """Two ops side by side on two devices; the longer one is on the path."""
    draft = Rows()
    draft.add("x", "Placeholder", **typed("Placeholder", (4,)))
    for name in "ab":
        draft.add(name, "Neg", ["x"], **typed("Neg", (4,)))
    graph = draft.built()
    on = cluster(["w:0/CPU:0", "w:0/CPU:1"])
    one, other = (
        scene(graph, whole(graph), on, costs(graph, on, times), assigned(on, [0, 0, 1]), "serial")
        for times in ([0, 500, 300], [0, 500, 900])
    )
    found = compare(one, other)
    part, handed_over = found.parts
    said = "the critical path has b on CPU:1 (900 ns) in place of a on CPU:0 (500 ns)"
    assert (part.sentence, str(part)) == (said, f"+400 ns: {said}")
    assert str(handed_over) == "+7 ns: x:0 crosses the host's memory, now on the critical path"
    assert [(row.subject, row.ns) for row in part.rows] == [("b", (0, 900)), ("a", (500, 0))]
    assert {row.device[-5:]: row.busy_ns for row in found.devices} == {"CPU:0": (500, 500), "CPU:1": (300, 900)}


def test_an_explanation_ends_with_all_else() -> None:
    found = compare(
        *(
            run(EXAMPLE, cluster="ps=2,worker=1x2gpu,protocol=rdma", algorithm=name)
            for name in ("whitepaper", "tensorflow")
        )
    )
    assert len(found.parts) > 3
    *first, rest = found.explanation(3)
    assert tuple(first) == found.parts[:2]
    assert rest.sentence.startswith("all else")
    assert rest.rows == tuple(sorted(rest.rows, key=lambda row: -abs(row.difference_ns)))
    assert shortest(found.parts, len(found.parts)) == found.parts
    assert found.names == ("whitepaper", "tensorflow")
    with pytest.raises(SimvizError, match="at least one part"):
        found.explanation(0)


def test_a_run_that_lacks_memory_is_said_to(tmp_path: Path) -> None:
    """It was as long as another, and nothing else was said of it."""
    for scene in (example(), trained()):
        devices = tuple(replace(one, memory_bytes=9) for one in scene.cluster.devices)
        small = replace(scene, cluster=replace(scene.cluster, devices=devices), label="small")
        assert any("small" in line and "memory" in line for line in str(compare(small, scene)).splitlines())
        (tmp_path / "small.json").write_text(to_json(small), "utf-8")
        for other in (small, read_result(str(tmp_path / "small.json"))):
            assert compare(other, scene).unlike["memory"] == ("too small", "large enough")
            assert "memory" not in compare(other, small).unlike


def test_runs_are_told_apart_by_what_differs() -> None:
    one = outline(example())
    heft = replace(one, algorithm="heft")
    assert compare(one, one).names == ("the first run", "the second run")
    assert compare(replace(one, label="plain"), one).names == ("plain", "this run")  # as --against asks
    assert compare(one, heft).names == ("requested", "heft")
    assert compare(one, replace(one, cluster="4gpu")).names == (one.cluster, "4gpu")
    assert compare(one, replace(heft, cluster="4gpu")).names == (f"requested on {one.cluster}", "heft on 4gpu")
    assert compare(replace(one, label="yesterday"), heft).names == ("yesterday", "heft")


def test_the_order_is_told_where_the_placement_is_one() -> None:
    """Else nothing says why one placement takes two times."""
    one = outline(example())
    other = replace(one, algorithm="search", circumstances={**one.circumstances, "order": "priority"})
    assert one.circumstances["order"] != "priority"
    assert "Against requested (order " in str(compare(one, other))
    node = next(iter(one.placement))
    elsewhere = replace(other, placement={**other.placement, node: "elsewhere"})
    assert "order" not in str(compare(one, elsewhere))


def test_runs_of_different_graphs_are_refused() -> None:
    one = outline(example())
    with pytest.raises(SimvizError, match="no node in common"):
        compare(one, replace(one, placement={"alien": "/job:a/replica:0/task:0/device:CPU:0"}))
    with pytest.raises(SimvizError, match="critical path"):
        compare(one, replace(example(), trace=replace(example().trace, critical=None)))


def test_a_difference_is_shown_in_a_line() -> None:
    found = compare(example(), example())
    assert repr(found) == "<Difference: the first run and the second run, 12.7 ms and 12.7 ms, 0 nodes moved>"
    assert repr(outline(example())).startswith("<Outline: ps_training.pbtxt, requested on ps=2,worker=1x2gpu")
    assert [signed_nanos(value) for value in (3_100_000, -12, 0)] == ["+3.1 ms", "-12 ns", "+0 ns"]


def a_loop_and_a_branch() -> Graph:
    """Beside a loop and a branch, whose predicate is fed, an iterator that hands out a batch."""
    rows = begun()
    predicate(rows)
    rows.add("loop/out", "Neg", [counting(rows, "loop", "x", 5)], **typed("Neg", ()))
    rows.add("branch", "Neg", [conditional(rows, "cond", "x", "p")], **typed("Neg", ()))
    shapes = shapes_attr((-1, 9), (-1,))
    rows.add("next", "IteratorGetNext", ["source"], output_types=types_attr(FLOAT, INT32), _output_shapes=shapes)
    rows.add("source", "IteratorV2")
    rows.add("end", "Neg", ["next"], T=type_attr(), _output_shapes=shapes_attr((-1, 9)))
    return rows.built()


def test_a_batch_trips_and_ways_that_differ_are_named_first(tmp_path: Path) -> None:
    """Of an iterator's batch, of trips and of branches a comparison said nothing."""
    earlier = tmp_path / "earlier.json"
    before = run(a_loop_and_a_branch(), cluster="1cpu", batch=32, trips={"*": 3}, branches={"p": False})
    earlier.write_text(before.to_json(), "utf-8")
    step = json.loads(before.to_json())["step"]
    assert (step["batch"], step["branches"]) == (32, {"p": "false"})
    assert list(step["trips"].values()) == [3]
    after = run(a_loop_and_a_branch(), cluster="1cpu", batch=64, contention="fair", against=str(earlier))
    assert after.difference is not None
    named = {
        "batch": ("32", "64"),
        "trips": ("3", "5"),
        "branch p": ("false", "true"),
        "contention": ("serial", "fair"),
    }
    assert list(after.difference.unlike.items()) == list(named.items())
    assert str(after.difference).startswith(
        "Against earlier.json (batch 32, trips 3, branch p false, contention serial): "
    )
    same = run(a_loop_and_a_branch(), cluster="1cpu", batch=32, trips={"*": 3}, branches={"p": False}, against="single")
    assert same.difference is not None
    assert not same.difference.unlike


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"training": "async"}, ("training", "async", "none")),
        ({"microbatches": 2}, ("microbatches", "2", "1")),
        ({"costs": ["times.csv"]}, ("measured ops", "1", "0")),
    ],
)
def test_what_an_earlier_step_was_made_of_is_named(
    options: Mapping[str, Any], named: tuple[str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of a training stood beside a single one as if another placement made the difference."""
    monkeypatch.chdir(tmp_path)
    Path("times.csv").write_text("node,kind,ns\ndense/MatMul,CPU,1234567\n", "utf-8")
    usual: dict[str, Any] = {"cluster": "2gpu", "ignore_devices": True, "algorithm": "heft", "batch": 64}
    Path("earlier.json").write_text(run(EXAMPLE, **usual, **options).to_json(), "utf-8")
    found = run(EXAMPLE, **usual, against="earlier.json").difference
    assert found is not None
    key, earlier, now = named
    assert found.unlike[key] == (earlier, now)
    assert f"{key} {earlier}" in str(found).partition(":")[0]


def test_two_graphs_are_named_and_the_nodes_that_one_alone_has_are_counted(tmp_path: Path) -> None:
    """Two batches of one model, whose nodes have the same names, stood beside each other as if they were one graph."""
    files = [tmp_path / name for name in ("batch8.pbtxt", "batch9.pbtxt", "batch9_and_more.pbtxt")]
    for path, rows, more in zip(files, (8, 9, 9), (0, 0, 2), strict=True):
        draft = Rows()
        draft.add("x", "Placeholder", **typed("Placeholder", (rows, 4)))
        draft.add("y", "Relu", ["x"], **typed("Relu", (rows, 4)))
        for number in range(more):
            draft.add(f"more{number}", "Neg", ["y"], **typed("Neg", (rows, 4)))
        path.write_text(str(graph_def(draft.built())), "utf-8")
    eight, nine, larger = (run(path, cluster="1cpu", fetches="y") for path in files)
    assert compare(eight, nine).unlike["graph"] == ("batch8.pbtxt", "batch9.pbtxt")
    assert str(compare(eight, nine)).startswith("Against the first run (graph batch8.pbtxt")
    assert "only in" not in str(compare(eight, nine))
    assert compare(nine, larger, names=("a", "b")).alone == (0, 2)
    assert str(compare(nine, larger, names=("a", "b"))).endswith("; no node moved; 2 nodes only in b.")
    assert str(compare(larger, nine, names=("a", "b"))).endswith("; no node moved; 2 nodes only in a.")


def test_trips_of_several_loops_are_told_apart() -> None:
    same = circumstances((), {}, {}, {"batch": None, "trips": {"a": 5, "b": 5}, "branches": {}}, {}, None)
    assert same == {"trips": "5"}
    assert circumstances((), {}, {}, {"trips": {"a": 4, "b": 5}}, {}, None) == {"trips": "4 of a, 5 of b"}
