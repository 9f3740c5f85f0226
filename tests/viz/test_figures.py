"""The figures of a scene: the report, the summary and the JSON say the same."""

import json
from dataclasses import replace

import numpy as np

from simulator.execution.memory import out_of_memory
from simulator.execution.receiving import Received
from tests.viz.scenes import example, shown
from viz.command.summary import MOST_NOTES, summarise
from viz.figures import critical_shares, late, notes, peaks, result_notes
from viz.formats.json_object import record
from viz.scene import Scene

PARTS = ("graph", "cluster", "costs", "assignment", "partitions", "trace")


def annotated() -> Scene:
    """The example where every value has a note of its own."""
    scene = example()
    values = {part: replace(getattr(scene, part), notes=(f"said by {part}",)) for part in PARTS}
    return replace(scene, **values, notes=("said by the scene",))


def test_every_note_is_shown_by_every_window() -> None:
    scene = annotated()
    said = [*(f"said by {part}" for part in PARTS), "said by the scene"]
    assert len(said) <= MOST_NOTES
    assert sorted(notes(scene)) == sorted(said)
    summary, described = summarise(scene, verbose=True), json.dumps(record(scene))
    assert shown(scene)["tables"]["notes"] == notes(scene)
    for sentence in said:
        assert summary.count(sentence) == 1
        assert described.count(sentence) == 1


def test_a_note_that_two_values_make_is_said_once() -> None:
    scene = annotated()
    scene = replace(scene, notes=scene.trace.notes)
    assert result_notes(scene).count("said by trace") == 1


def test_sizes_that_are_unknown_count_alike_everywhere() -> None:
    scene = example()
    graph = scene.graph
    unknown = graph.tensor_bytes.copy()
    unknown[::3] = -1
    scene = replace(scene, graph=replace(graph, tensor_bytes=unknown))
    listed = sum(count for _, count in shown(scene)["tables"]["unknown"])
    assert listed == record(scene)["counts"]["unknown_shapes"] > 0
    assert f"{listed} tensors of unknown size" in summarise(scene, verbose=True)


def test_what_is_alive_at_a_peak_is_told_alike_everywhere() -> None:
    scene = example()
    rows = peaks(scene)
    assert {row.device for row in rows} == set(np.flatnonzero(scene.trace.peak_bytes).tolist())
    told, of_page = record(scene)["devices"], shown(scene)["tables"]["peaks"]
    for row, drawn in zip(rows, of_page, strict=True):
        at_peak = told[scene.cluster.devices[row.device].name]["at_peak"]
        assert sum(row.kinds.values()) == scene.trace.peak_bytes[row.device]
        assert sum(one.nbytes for one in row.live) + row.rest_bytes == scene.trace.peak_bytes[row.device]
        assert at_peak["kinds"] == drawn["kinds"] == row.kinds
        assert [one["what"] for one in at_peak["live"]] == [one["what"] for one in drawn["live"]]
        for one in row.live:
            if one.kind == "resident":  # the page goes to that node
                assert scene.graph.names[one.origin] == one.what
    fullest = max(rows, key=lambda row: row.peak_bytes / scene.cluster.devices[row.device].memory_bytes)
    short, cause = scene.cluster.devices[fullest.device].short, fullest.cause
    line = next(line for line in summarise(scene, verbose=True).splitlines() if line.startswith("memory "))
    assert line.startswith(f"memory     {short} peaks after ")
    assert f" by {cause}: " in line


def test_what_does_not_fit_is_told_alike_everywhere() -> None:
    scene = example()
    assert record(scene)["out_of_memory"] is None
    assert shown(scene)["tables"]["full"] is None
    small = [replace(device, memory_bytes=10**6) for device in scene.cluster.devices]
    scene = replace(scene, cluster=replace(scene.cluster, devices=tuple(small)))
    full, told = out_of_memory(scene.trace, scene.partitions, scene.cluster), record(scene)["out_of_memory"]
    assert told["message"] == shown(scene)["tables"]["full"] == str(full)
    assert full is not None
    assert [(one["what"], one["bytes"]) for one in told["live"]] == list(full.live)
    assert len(told["live"]) == 5
    assert told["needed_bytes"] > told["free_bytes"]
    assert "OUT OF MEMORY" in summarise(scene, verbose=True)


def test_what_late_recvs_change_is_told_alike_everywhere() -> None:
    scene = example()
    assert record(scene)["recv_scheduling"] is None
    assert "late " not in summarise(scene, verbose=True)
    slower = replace(scene.trace, makespan=scene.trace.makespan + 1, peak_bytes=scene.trace.peak_bytes // 2)
    received = Received("whitepaper", scene.partitions, scene.partitions, scene.trace, slower)
    scene = replace(scene, trace=slower, received=received)
    row, told = late(scene), record(scene)["recv_scheduling"]
    assert row is not None
    assert shown(scene)["tables"]["late"]["peak_bytes"] == [list(pair) for pair in row.peak_bytes]
    assert list(told["makespan_ns"].values()) == list(row.makespan_ns)
    assert [list(pair.values()) for pair in told["peak_bytes"].values()] == [list(pair) for pair in row.peak_bytes]
    line = next(line for line in summarise(scene, verbose=True).splitlines() if line.startswith("late "))
    assert "0 of 25 Recvs wait, copies are held 0% less" in line
    assert " instead of " in line


def test_a_device_that_holds_nothing_has_no_peak() -> None:
    scene = example()
    idle = [row for row, device in enumerate(scene.cluster.devices) if device.short == "worker:0/GPU:1"]
    assert [record(scene)["devices"][scene.cluster.devices[row].name]["at_peak"] for row in idle] == [None]


def test_the_critical_path_explains_the_whole_makespan() -> None:
    scene = example()
    assert sum(share.nanos for share in critical_shares(scene)) == scene.trace.makespan
