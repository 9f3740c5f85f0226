"""A table of costs that somebody else made is refused where no step could be simulated by it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import partition, simulate
from simulator.costs.table import MAX_OP_NS, CostTable
from simulator.errors import SimvizError
from tests.execution.cases import apart, assigned, cluster, costs, whole
from tests.strategies import Rows, typed

_COLUMNS = ("run_ns", "scratch_bytes", "resident_bytes", "source", "flops", "moved_bytes")
_TABLE = CostTable(
    kinds=("cpu", "gpu"),
    run_ns=np.full((3, 2), 10),
    scratch_bytes=np.zeros(3, np.int64),
    resident_bytes=np.zeros(3, np.int64),
    source=np.zeros(3, np.int32),
    flops=np.zeros(3, np.int64),
    moved_bytes=np.zeros(3, np.int64),
)


def _with(name: str, column: Any) -> CostTable:
    return replace(_TABLE, **{name: column})


@pytest.mark.parametrize("name", _COLUMNS)
@pytest.mark.parametrize("made", [lambda x: x.astype(float), lambda x: x.tolist(), lambda x: x > 0])
def test_what_is_no_array_of_whole_numbers_is_refused(name: str, made: Any) -> None:
    with pytest.raises(SimvizError, match=f"CostTable: {name} is .*; give a numpy array of whole numbers"):
        _with(name, made(getattr(_TABLE, name)))


@given(st.sampled_from(_COLUMNS), st.sampled_from([-(2**62), -2, 2**61, 2**62]), st.integers(0, 2))
def test_a_number_that_no_cost_can_be_is_named_with_its_place(name: str, wrong: int, row: int) -> None:
    column = getattr(_TABLE, name).astype(np.int64)
    column[row] = wrong
    with pytest.raises(SimvizError, match=rf"CostTable: {name}\[{row}.*\] is {wrong}; give a whole number from"):
        _with(name, column)


@pytest.mark.parametrize("name", _COLUMNS)
def test_a_column_of_another_shape_is_refused(name: str) -> None:
    column = getattr(_TABLE, name)
    for other in (column[:-1], np.concatenate([column, column]), column[None]):
        with pytest.raises(SimvizError, match=r"has the shape .*; give"):
            _with(name, other)


def test_all_that_a_cost_can_be_is_taken() -> None:
    made = _with("run_ns", np.array([[-1, 0], [MAX_OP_NS, 1], [2, 3]]))
    assert made.run_ns.tolist() == [[-1, 0], [MAX_OP_NS, 1], [2, 3]]
    assert len(_with("flops", np.array([1, 2, 3], np.uint8))) == 3


def test_pieces_take_the_costs_and_the_devices_by_which_they_were_made_alone() -> None:
    rows = Rows()
    rows.add("x", "Const", **typed("Const", (4,)))
    rows.add("a", "Neg", ["x"], **typed("Neg", (4,)))
    graph, on = rows.built(), apart(2)
    rows.add("b", "Neg", ["a"], **typed("Neg", (4,)))
    larger = rows.built()
    pieces = partition(graph, assigned(on, [0, 1]), on, step=whole(graph))
    assert simulate(pieces, on, costs(graph, on)).makespan > 0
    with pytest.raises(SimvizError, match="of a graph of 3 nodes, not of this one of 2; estimate costs"):
        simulate(pieces, on, costs(larger, on))
    others = cluster(["v:0/CPU:0", "v:1/CPU:0"])
    with pytest.raises(SimvizError, match="cut for 2 devices, which are not the 2 of"):
        simulate(pieces, others, costs(graph, others))
