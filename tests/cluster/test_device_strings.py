"""Device strings that are dropped: the graph is the one of a file without them."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.device_strings import without_devices
from simulator.cluster.devicespec import parse
from simulator.graph.building import build
from simulator.graph.graph import Graph
from simulator.graph.importer import read_graph
from simulator.loading import flat, load

EXAMPLE = Path(__file__).parents[2] / "examples" / "ps_training.pbtxt"
CALL = """
node { name: "x" op: "Placeholder" device: "/cpu:0" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "call" op: "PartitionedCall" input: "x" device: "/job:worker/task:1"
  attr { key: "Tin" value { list { type: DT_FLOAT } } } attr { key: "Tout" value { list { type: DT_FLOAT } } }
  attr { key: "f" value { func { name: "twice" } } } }
library { function {
  signature { name: "twice" input_arg { name: "a" type: DT_FLOAT } output_arg { name: "r" type: DT_FLOAT } }
  node_def { name: "sum" op: "AddV2" input: "a" input: "a" device: "/device:GPU:1"
    attr { key: "T" value { type: DT_FLOAT } } }
  ret { key: "r" value: "sum:z:0" } } }
"""


def same(one: Graph, other: Graph) -> None:
    assert one.names == other.names
    assert one.ops == other.ops
    assert one.requested == other.requested
    assert one.attrs == other.attrs
    assert {name: str(body) for name, body in one.library.items()} == {n: str(b) for n, b in other.library.items()}
    for column in ("edge_src", "edge_dst", "edge_tensor", "order", "topological"):
        assert np.array_equal(getattr(one, column), getattr(other, column))
    assert np.array_equal(one.creation.edge, other.creation.edge)


@pytest.mark.parametrize("text", [CALL, EXAMPLE.read_text()], ids=["a call", "the example"])
@pytest.mark.parametrize("keep_calls", [False, True])
def test_the_graph_is_that_of_a_file_without_device_strings(text: str, keep_calls: bool) -> None:
    bare = flat(re.sub(r'device: ".*?"', "", text).encode(), keep_calls=keep_calls)
    free = flat(text.encode(), keep_calls=keep_calls, ignore_devices=True)
    same(free, bare)
    after = without_devices(flat(text.encode(), keep_calls=keep_calls))  # of a graph that was loaded before
    same(after, bare)
    if bare.lowered is not None:
        assert free.lowered is not None
        assert after.lowered is not None
        same(free.lowered.given, bare.lowered.given)
        assert not any(after.lowered.given.requested)
    assert not any(free.requested)
    assert any("ignored" in note for note in free.notes)
    assert not any("ignored" in note for note in bare.notes)


def test_the_strings_of_bodies_count_and_the_source_stays_as_it_was() -> None:
    graph = read_graph(CALL.encode())
    before = str(graph.library["twice"])
    (note,) = without_devices(graph).notes
    assert note.startswith("3 device strings of the graph are ignored: '/cpu:0' 1, ")
    assert str(graph.library["twice"]) == before
    assert "GPU:1" in before


def test_load_takes_it_as_an_option() -> None:
    assert not any(load(EXAMPLE, ignore_devices=True).requested)
    assert any(load(EXAMPLE).requested)


FIELDS = ("/job:ps", "/job:worker", "/task:1", "/cpu:0", "/device:CPU:1", "/device:CPU:*", "/device:GPU:0", "/oops")


@given(st.lists(st.lists(st.sampled_from(FIELDS), max_size=3).map("".join), min_size=1, max_size=6))
def test_of_one_type_only_its_type_and_number_go(strings: list[str]) -> None:
    names = [f"n{row}" for row in range(len(strings))]
    graph = build(names, ["NoOp"] * len(names), strings, [[]] * len(names), [{}] * len(names))
    for text, left in zip(strings, without_devices(graph, "CPU").requested, strict=True):
        if "/oops" in text or parse(text).type != "CPU":
            assert left == text
        else:
            assert parse(left) == parse(text).without_device()
    assert not any(without_devices(graph).requested)
