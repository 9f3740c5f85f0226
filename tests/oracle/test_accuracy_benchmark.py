"""The orders by chance of `benchmarks/accuracy.py`."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.graph.messages import GraphDef, NodeDef

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def chance() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        return importlib.import_module("accuracy_chance")


def read_by(readers: list[int]) -> bytes:
    """A constant, and as many readers of it on each device."""
    nodes = [NodeDef(name="x", op="Const", device="here")]
    for device, count in enumerate(readers):
        nodes += [NodeDef(name=f"{device}/{row}", op="Neg", input=["x"], device=str(device)) for row in range(count)]
    return bytes(GraphDef(node=nodes).SerializeToString(deterministic=True))


@given(readers=st.lists(st.integers(0, 20), max_size=3), seed=st.integers(0, 9))
def test_many_readers_on_a_device_change_places_and_nothing_else_does(
    chance: ModuleType, readers: list[int], seed: int
) -> None:
    before = GraphDef.FromString(read_by(readers)).node
    after = GraphDef.FromString(chance.redrawn(read_by(readers), seed)).node
    assert sorted(map(str, before)) == sorted(map(str, after))
    assert [node.device for node in before] == [node.device for node in after]
    few = {"here", *(str(device) for device, count in enumerate(readers) if count <= 8)}
    assert all(one.name == other.name for one, other in zip(before, after, strict=True) if one.device in few)


def test_seeds_draw_several_orders(chance: ModuleType) -> None:
    assert len({chance.redrawn(read_by([9]), seed) for seed in range(9)}) > 1
