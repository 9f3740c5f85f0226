"""A simulated step as RunMetadata: our own reader of measured times gets it back exactly."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from simulator.graph.messages import Event, GraphDef, RunMetadata
from tests.viz.scenes import example, loop
from viz import run
from viz.figures import slice_nodes
from viz.formats.drawing import draw
from viz.formats.output import write
from viz.formats.run_metadata import run_metadata
from viz.formats.tensorboard import _crc32c, event_file
from viz.scene import Scene

GRAPH = "examples/ps_training.pbtxt"


@pytest.mark.parametrize("suffix", [".run_metadata.pb", ".run_metadata.pbtxt"])
def test_costs_read_back_make_the_same_step(tmp_path: Path, suffix: str) -> None:
    scene = run(GRAPH, cluster="ps=2,worker=1x2gpu", algorithm="tensorflow")
    path = tmp_path / f"step{suffix}"
    write(str(path), draw(scene, suffix))
    again = run(GRAPH, cluster="ps=2,worker=1x2gpu", algorithm="tensorflow", costs=str(path))
    assert again.trace.makespan == scene.trace.makespan
    assert again.trace.ops.end_ns.tolist() == scene.trace.ops.end_ns.tolist()


@pytest.mark.parametrize("scene", [example(), loop(trips={"*": 3})], ids=["example", "loop"])
def test_each_run_of_an_op_is_a_line_of_its_device(scene: Scene) -> None:
    found = run_metadata(scene)
    lines = [(one.device, line) for one in found.step_stats.dev_stats for line in one.node_stats]
    ops, inserted = scene.trace.ops, scene.partitions.inserted
    kept = np.flatnonzero(~inserted[ops.node])
    runs = zip(slice_nodes(scene)[kept], ops.device[kept], ops.start_ns[kept], ops.end_ns[kept], strict=True)
    assert sorted(
        (device, line.node_name, line.all_start_nanos, line.op_end_rel_nanos) for device, line in lines
    ) == sorted(
        (scene.cluster.devices[at].name, scene.graph.names[node], start, end - start) for node, at, start, end in runs
    )
    costs = {node.name: node for node in found.cost_graph.node}
    assert {line.node_name for _, line in lines} <= costs.keys()
    ids = {node.id for node in costs.values()}
    assert all(one.preceding_node in ids for node in costs.values() for one in node.input_info)


def test_a_file_of_events_has_the_placed_graph_and_the_step() -> None:
    scene = example()
    data, events = event_file(scene), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        events.append(Event.FromString(data[12 : 12 + length]))
        data = data[16 + length :]
    first, graph, step = events
    assert first.file_version == "brain.Event:2"
    placed = {node.name: node.device for node in GraphDef.FromString(graph.graph_def).node}
    assert placed == {name: scene.assignment.name_of(row) for row, name in enumerate(scene.graph.names)}
    assert RunMetadata.FromString(step.tagged_run_metadata.run_metadata) == run_metadata(scene)
    assert event_file(scene) == event_file(scene)


def test_the_checksum_is_that_of_the_rfc() -> None:
    """RFC 3720, appendix B.4: 32 bytes of zeros, of ones, and 0 to 31."""
    assert _crc32c(bytes(32)) == 0x8A9136AA
    assert _crc32c(b"\xff" * 32) == 0x62A8AB43
    assert _crc32c(bytes(range(32))) == 0x46DD794E
