"""The trace for Perfetto: well-formed events, lanes without overlaps, arrows forwards in time, exact times."""

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.columns import ints
from simulator.costs.rules import category
from simulator.execution.options import SimulationOptions
from simulator.execution.trace import Kind
from tests.viz.scenes import EXAMPLE, HOSTILE, example, hostile, loop
from viz import draw_timeline
from viz.command.request import Request
from viz.command.running import run
from viz.figures import critical_shares
from viz.formats.trace_events import _duration
from viz.palette import PACKING, UNPACKING
from viz.scene import Scene
from viz.timeline.step_timeline import step_timeline


@cache
def looped() -> Scene:
    """A loop that crosses tasks in each of four iterations."""
    return loop("/job:a", "/job:b", cluster="a=1,b=1", trips={"while": 4})


@cache
def shared() -> Scene:
    """The example with fair links and a protocol that has processors work."""
    return run(
        Request(
            str(EXAMPLE),
            simulation=SimulationOptions(contention="fair"),
            cluster="ps=2,worker=1x2gpu",
            algorithm="requested",
        )
    )


Event: TypeAlias = dict[str, Any]  # as JSON has it
SCENES = (example, shared, looped)


def events(scene: Scene, **options: Any) -> list[Event]:
    found: list[Event] = json.loads(draw_timeline(scene, **options))["traceEvents"]
    return found


@pytest.fixture(scope="module")
def drawn() -> list[Event]:
    return events(example())


def of_phase(drawn: Sequence[Event], phase: str) -> list[Event]:
    return [event for event in drawn if event["ph"] == phase]


def nanos(micros: float) -> int:
    return round(micros * 1000)


def spans_of(
    drawn: Sequence[Event],
) -> list[Event]:
    """What begins and ends, slices and instants, in the order in which they are drawn."""
    return [event for event in drawn if event["ph"] in "Xi"]


def reach(event: Event) -> tuple[float, float]:
    """From where to where, as a reader adds it up, in microseconds."""
    return event["ts"], event["ts"] + event.get("dur", 0)


def test_every_slice_lies_in_a_named_lane(drawn: Sequence[Event]) -> None:
    threads = {(e["pid"], e["tid"]) for e in of_phase(drawn, "M") if e["name"] == "thread_name"}
    processes = {e["pid"]: e["args"]["name"] for e in of_phase(drawn, "M") if e["name"] == "process_name"}
    assert all((event["pid"], event["tid"]) in threads for event in spans_of(drawn))
    assert {pid for pid, _ in threads} <= set(processes)
    assert list(processes.values()) == ["ps:0", "ps:1", "worker:0", "links"]


def test_slices_are_those_of_the_trace_to_the_nanosecond(
    drawn: Sequence[Event],
) -> None:
    trace = example().trace
    ops = [e for e in spans_of(drawn) if "op" in e["args"]]
    assert [nanos(e["ts"]) for e in ops] == trace.ops.start_ns.tolist()
    assert [nanos(reach(e)[1]) for e in ops] == trace.ops.end_ns.tolist()


@pytest.mark.parametrize("scene", [example, shared], ids=lambda scene: scene.__name__)  # the loop has no such ops
def test_what_takes_no_time_is_an_instant_of_its_thread(scene: Any) -> None:
    drawn = events(scene())
    assert all(nanos(event["dur"]) > 0 for event in of_phase(drawn, "X"))
    instants = of_phase(drawn, "i")
    assert instants
    assert all(event["s"] == "t" and "dur" not in event for event in instants)


def test_a_transfer_is_on_every_link_of_its_route(
    drawn: Sequence[Event],
) -> None:
    scene = example()
    cut, routes = scene.partitions, scene.cluster.routes
    took = scene.trace.moments.sent_ns >= 0
    pairs = zip(cut.src_device[took].tolist(), cut.dst_device[took].tolist(), strict=True)
    expected = sum(len(routes[src][dst]) or 1 for src, dst in pairs)
    assert sum(e["cat"] == "transfer" for e in spans_of(drawn)) == expected > 0


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_nothing_overlaps_within_a_lane(scene: Any) -> None:
    lanes = defaultdict(list)
    for event in of_phase(events(scene()), "X"):
        # as a reader adds them up: a trace viewer knows no nanoseconds, and a sum that rounds up would overlap
        lanes[event["pid"], event["tid"]].append(reach(event))
    for spans in lanes.values():
        spans.sort()
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_processors_pack_and_unpack_in_their_lanes(scene: Any) -> None:
    scene = scene()
    drawn, trace = events(scene), scene.trace
    told = defaultdict(list)
    for event in spans_of(drawn):
        if event["cat"] in ("packing", "unpacking"):
            verb = {"packing": "send ", "unpacking": "receive "}[event["cat"]]
            assert event["name"].startswith(verb)
            told[event["cat"]].append((nanos(event["ts"]), nanos(reach(event)[1])))
    for name, kind in (("packing", Kind.PACK), ("unpacking", Kind.UNPACK)):
        rows = trace.tasks.rows(kind)
        spans = zip(trace.tasks.start_ns[rows].tolist(), trace.tasks.end_ns[rows].tolist(), strict=True)
        assert sorted(told[name]) == sorted(spans)
        assert told[name]
    by_device = sum(end - start for spans in told.values() for start, end in spans)
    by_device += int((trace.ops.end_ns - trace.ops.start_ns).sum())
    assert by_device == trace.busy_ns.sum()


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_the_stages_of_a_transfer_are_in_order(scene: Any) -> None:
    for event in of_phase(events(scene()), "X"):
        if event["cat"] == "transfer":
            args = event["args"]
            names = ("asked", "packed", "on the wire", "off the wire", "arrives", "unpacked")
            stages = [args[f"{stage} ns"] for stage in names]
            assert stages == sorted(stages)
            assert stages[2] <= nanos(event["ts"]) <= nanos(reach(event)[1]) <= stages[3]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_what_is_marked_as_critical_covers_the_critical_path(scene: Any) -> None:
    scene = scene()
    longest: dict[tuple[str, str, float], int] = {}
    for event in spans_of(events(scene)):
        if event["args"].get("critical path") == "yes":  # a transfer is on several links, and longest on the slowest
            span = (event["name"], event["cat"], event["ts"])
            longest[span] = max(longest.get(span, 0), nanos(reach(event)[1]) - nanos(event["ts"]))
    marked = sum(longest.values())
    waiting = sum(share.nanos for share in critical_shares(scene) if share.what == "waiting")
    path, tasks = scene.trace.critical, scene.trace.tasks
    latent = path[tasks.kind[path] == Kind.LATENCY]
    latent = latent[tasks.start_ns[latent] >= scene.trace.moments.through_ns[tasks.of[latent]]]  # after its bytes
    latency = int((tasks.end_ns[latent] - tasks.start_ns[latent]).sum())  # on no link
    assert marked == scene.trace.makespan - waiting - latency


@pytest.mark.parametrize("scene", [example, looped], ids=lambda scene: scene.__name__)
def test_a_link_that_serves_in_turn_has_one_track(scene: Any) -> None:
    scene = scene()
    assert {link.contention or scene.trace.contention for link in scene.cluster.links} == {"serial"}
    links = [lane for lane in step_timeline(scene).lanes if lane.kind == "link" and lane.row >= 0]
    assert links
    assert all(lane.number == 0 for lane in links)


def test_iterations_are_told_apart() -> None:
    drawn = spans_of(events(looped()))
    for name in ("body", "send body:0", "body:0", "receive body:0"):
        found = [event for event in drawn if event["name"].startswith(f"{name}#")]
        count = 4 if name == "body" else 5  # the last of them is dead, and packed and unpacked all the same
        assert {event["name"] for event in found} == {f"{name}#{row}" for row in range(count)}
    assert [e["args"]["iteration"] for e in drawn if e["name"].startswith("body#")] == ["0", "1", "2", "3"]


def test_an_arrow_begins_at_the_maker_of_its_iteration() -> None:
    drawn = events(looped())
    slices = [e for e in spans_of(drawn) if "op" in e["args"]]
    named = {(e["pid"], e["tid"], nanos(reach(e)[1]) - 1): e["name"] for e in slices}
    wires = {(e["pid"], e["tid"], e["ts"]): e["name"] for e in spans_of(drawn) if e["cat"] == "transfer"}
    arrows = defaultdict(list)
    for event in drawn:
        if event["ph"] in "st":
            arrows[event["id"]].append(event)
    found = []
    for first, *stops in arrows.values():
        wire = next(name for e in stops if (name := wires.get((e["pid"], e["tid"], e["ts"]))))
        if wire.startswith("body:0#"):
            found.append((named[first["pid"], first["tid"], nanos(first["ts"])], wire))
    assert sorted(found) == [(f"body#{row}", f"body:0#{row}") for row in range(4)]


@given(st.integers(0, 10**14), st.integers(0, 10**12))
def test_start_and_duration_never_add_up_to_more_than_the_next_start(start: int, took: int) -> None:
    reached = start / 1000 + _duration(start, start + took)
    assert reached <= (start + took) / 1000
    assert nanos(reached) == start + took


def test_arrows_run_from_the_maker_over_the_transfer_to_a_reader(
    drawn: Sequence[Event],
) -> None:
    arrows = defaultdict(list)
    for event in drawn:
        if event["ph"] in "stf":
            arrows[event["id"]].append(event)
    assert arrows
    spans = defaultdict(list)
    for event in spans_of(drawn):
        spans[event["pid"], event["tid"]].append((nanos(event["ts"]), nanos(reach(event)[1])))
    for parts in arrows.values():
        assert re.fullmatch("st{0,3}f", "".join(part["ph"] for part in parts))
        times = [nanos(part["ts"]) for part in parts]
        assert times == sorted(times)
        for part, time in zip(parts, times, strict=True):
            assert any(start <= time < max(end, start + 1) for start, end in spans[part["pid"], part["tid"]])


def test_the_memory_counter_reaches_the_peak(
    drawn: Sequence[Event],
) -> None:
    scene = example()
    levels = defaultdict(list)
    for event in of_phase(drawn, "C"):
        levels[event["name"]].append(event["args"]["bytes"])
    for device, peak in zip(scene.cluster.devices, scene.trace.peak_bytes.tolist(), strict=True):
        assert max(levels[f"memory {device.short}"]) == peak


def test_names_from_the_file_stay_names_and_are_cut() -> None:
    names = {event["name"] for event in events(hostile())}
    assert HOSTILE[0] in names
    assert max(map(len, names)) <= 420


def test_the_bound_on_the_size_holds_and_what_is_missing_is_said() -> None:
    text = draw_timeline(example(), max_bytes=20_000)
    assert len(text.encode()) <= 20_000
    found = json.loads(text)
    whole = len(events(example()))
    assert found["otherData"]["left_out"].startswith(f"{whole - len(found['traceEvents'])} events")
    assert "left_out" not in json.loads(draw_timeline(example()))["otherData"]


def test_transfers_that_overlap_on_a_link_get_tracks_of_their_own() -> None:
    scene = example()
    trace = scene.trace
    tasks, start = trace.tasks, trace.tasks.start_ns.copy()
    wires = tasks.rows(Kind.LINK, Kind.FLOW)
    start[wires] = np.maximum(0, start[wires] - 1000 * tasks.of[wires])
    stretched = replace(trace, tasks=replace(tasks, start_ns=ints(start)))
    lanes = defaultdict(list)
    for event in of_phase(events(replace(scene, trace=stretched)), "X"):
        lanes[event["pid"], event["tid"]].append((nanos(event["ts"]), nanos(reach(event)[1])))
    for spans in lanes.values():
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(sorted(spans)))
    assert len(lanes) > len({(e["pid"], e["tid"]) for e in spans_of(events(scene))})


def test_no_thread_is_taken_for_the_main_thread_of_its_process(drawn: Sequence[Event]) -> None:
    """Perfetto takes one for it that has the process's number, and shows it before all others."""
    assert all(event["pid"] != event["tid"] for event in drawn)


@pytest.mark.parametrize("scene", SCENES)
def test_labels_made_on_demand_are_those_of_what_ran_and_moved(scene: Callable[[], Scene]) -> None:
    made = step_timeline(scene())
    graph, trace, slices = scene().graph, scene().trace, made.slices
    assert len(made.labels) == len(made.labels[:]) > slices.label.max()
    for row in range(len(slices.lane)):
        label, op, transfer = made.labels[slices.label[row]], int(slices.op[row]), int(slices.transfer[row])
        if op >= 0:
            node = int(scene().partitions.origin[trace.ops.node[op]])
            tag = ",".join(map(str, trace.iterations[trace.ops.iteration[op]]))
            assert label == (f"{graph.names[node]}{'#' * bool(tag)}{tag}", graph.ops[node], category(graph.ops[node]))
            continue
        tensor = int(scene().partitions.tensor[trace.transfers.row[transfer]])
        name = graph.tensor_name(tensor) if tensor >= 0 else f"^{graph.names[-1 - tensor]}"
        on_link = made.lanes[slices.lane[row]].kind == "link"
        verb, kind = (
            ("", "transfer") if on_link else ("send ", PACKING) if slices.packs[row] else ("receive ", UNPACKING)
        )
        assert label.name.partition("#")[0] == verb + name
        assert label.kind == kind
