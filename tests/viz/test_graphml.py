"""GraphML is read back by networkx, whatever the names."""

import io

import networkx

from tests.viz.scenes import example, hostile
from viz import to_networkx
from viz.figures import moved_bytes
from viz.formats.drawing import draw
from viz.formats.graphml import draw_graphml


def test_what_networkx_reads_is_what_was_written() -> None:
    scene = example()
    made = to_networkx(scene)
    read = networkx.read_graphml(io.BytesIO(draw_graphml(scene).encode()), node_type=int)
    assert dict(read.nodes(data=True)) == dict(made.nodes(data=True))
    for *_, one in read.edges(data=True):
        del one["id"]  # GraphML numbers parallel edges
    assert sorted(map(repr, read.edges(data=True))) == sorted(map(repr, made.edges(data=True)))
    assert draw(scene, ".graphml") == draw_graphml(scene).encode()


def test_nodes_and_edges_are_those_of_the_run() -> None:
    scene = example()
    made = to_networkx(scene)
    assert [made.nodes[row]["name"] for row in range(len(scene.graph))] == list(scene.graph.names)
    ops = scene.trace.ops
    assert sum(one["time_ns"] for _, one in made.nodes(data=True)) == int((ops.end_ns - ops.start_ns).sum())
    crossing = {(one["tensor"], made.nodes[dst]["device"]): one["moved_bytes"] for _, dst, one in made.edges(data=True)}
    assert 0 < sum(crossing.values()) <= moved_bytes(scene)
    assert made.graph["makespan_ns"] == scene.trace.makespan


def test_hostile_names_are_read_back() -> None:
    read = networkx.read_graphml(io.BytesIO(draw_graphml(hostile()).encode("utf-8", "replace")), node_type=int)
    assert len(read) == len(hostile().graph)
