"""The footprint of a step, held against the memory of a simulated one, and what it changes in a profile's prices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import choose_step, estimate, load_cluster, partition, simulate
from simulator.columns import flags
from simulator.costs.estimate import works_of
from simulator.costs.estimates.memory import NO_KERNEL, far_weights, footprint_bytes
from simulator.costs.profile import Figure
from simulator.graph.graph import Graph
from simulator.graph.handing_on import REUSES, handed_on
from simulator.graph.traversal import loop_depths
from tests.costs.test_profile import made
from tests.execution.cases import assigned
from tests.execution.loops.cases import begun, counting
from tests.strategies import INT32, Rows, shape_attr, shapes_attr, type_attr, typed
from viz import run

FAR = ((2**16, 0.25), (2**20, 0.25), (2**24, 2.25))  # bytes, nanoseconds of a byte


def of(graph: Graph) -> int | None:
    """The footprint of all nodes."""
    handing = handed_on(graph)
    moved = works_of(graph, handing).ints(lambda work: work.moved if work.rule.launches else NO_KERNEL)
    everywhere = flags(np.ones(len(graph), bool))
    return footprint_bytes(graph, everywhere, moved, handing, flags(np.array(loop_depths(graph)) > 0))


@st.composite
def chains(draw: st.DrawFn) -> Graph:
    """Ops that run one by one, none of which writes over its input; some hand theirs on."""
    rows = Rows()
    wide = {name: draw(st.integers(1, 9)) for name in ("x", "y")}
    for name, size in wide.items():
        rows.add(name, "Placeholder", **typed("Placeholder", (size, 8)))
    rows.add("w", "VariableV2", **typed("VariableV2", (8, 8)))
    for row in range(draw(st.integers(2, 14))):
        taken = ("x", "y")[row] if row < 2 else draw(st.sampled_from(sorted(wide)))
        op = "MatMul" if row < 2 else draw(st.sampled_from(("MatMul", "Identity")))
        inputs = [taken, "w"] if op == "MatMul" else [taken]
        before = [f"^{rows.names[-1]}"] if row else []
        wide[f"{row:03d}"] = wide[taken]
        rows.add(f"{row:03d}", op, [*inputs, *before], **typed(op, (wide[taken], 8)))
    rows.add("end", "NoOp", [f"^{rows.names[-1]}"])
    return rows.built()


@given(graph=chains())
def test_the_footprint_is_the_peak_of_a_step_whose_ops_run_one_by_one(graph: Graph) -> None:
    assert not REUSES.keys() & set(graph.ops)
    cluster = load_cluster("worker=1")
    costs, step = estimate(graph, cluster), choose_step(graph, fetches=("end",))
    here = assigned(cluster, [0] * len(graph))
    assert of(graph) == simulate(partition(graph, here, cluster, step=step), cluster, costs).peak_bytes[0]


def test_only_the_rows_that_kernels_take_of_a_variable_are_touched() -> None:
    """8 of 1,000 rows of 16 numbers, read by one kernel and changed by another; a sum of all reads the whole."""
    rows = Rows()
    rows.add("v", "VarHandleOp", dtype=type_attr(), shape=shape_attr(1000, 16), _output_shapes=shapes_attr(()))
    rows.add("at", "Const", dtype=type_attr(INT32), _output_shapes=shapes_attr((8,)))
    attrs = {"dtype": type_attr(), "Tindices": type_attr(INT32)}
    rows.add("read", "ResourceGather", ["v", "at"], _output_shapes=shapes_attr((8, 16)), **attrs)
    rows.add("changed", "ResourceScatterSub", ["v", "at", "read"], **attrs)
    few = of(rows.built())
    assert few is not None
    assert 8 * 64 <= few - 8 * 64 <= 2 * 8 * 64
    rows.add("all", "ReadVariableOp", ["v"], dtype=type_attr(), _output_shapes=shapes_attr((1000, 16)))
    rows.add("exp", "Exp", ["all"], **typed("Exp", (1000, 16)))
    whole = of(rows.built())
    assert whole is not None
    assert whole >= 1000 * 64


def test_loops_that_keep_values_have_no_footprint() -> None:
    rows = begun()
    counting(rows, "loop", "x", 5)
    assert of(rows.built()) is not None
    rows = begun()
    rows.add("list", "Placeholder", **typed("Placeholder", ()))

    def pushed(value: str, pivot: str) -> str:
        return rows.add("push", "TensorListPushBack", [value, value], element_dtype=type_attr())

    counting(rows, "loop", "x", 5, pushed)
    assert of(rows.built()) is None


def wide(size: int) -> Graph:
    """A kernel of that many numbers, and another one."""
    rows = Rows()
    rows.add("a", "Placeholder", **typed("Placeholder", (size,)))
    rows.add("b", "Exp", ["a"], **typed("Exp", (size,)))
    rows.add("c", "Neg", ["b"], **typed("Neg", (size,)))
    return rows.built()


@pytest.mark.parametrize(("power", "nanos_of_a_byte"), [(10, 0.0), (16, -0.6), (22, 1.0), (23, 1.0)])
def test_a_byte_takes_more_in_a_large_step_and_less_in_a_small_one(power: int, nanos_of_a_byte: float) -> None:
    """By streams of 0.25 and 2.25 ns: 0.8 of a large step is far, and 0.3 of a calibration.

    Half of a time is left. Kernels of few bytes find their data in a core's own cache.
    """
    profile = made()
    graph, cluster = wide(2**power), load_cluster("worker=1")
    before = estimate(graph, cluster, profile).run_ns[2, 0]
    now = estimate(graph, cluster, replace(profile, streams=FAR)).run_ns[2, 0]
    assert now == pytest.approx(max(before / 2, before + nanos_of_a_byte * 4 * 2**power), rel=0.01)


def test_a_longer_time_of_a_smaller_stream_is_noise() -> None:
    graph, cluster, noisy = wide(2**23), load_cluster("worker=1"), ((2**16, 0.25), (2**20, 2.25), (2**24, 2.0))
    prices = [estimate(graph, cluster, replace(made(), streams=one)).run_ns[2, 0] for one in (FAR, noisy)]
    assert prices[0] == prices[1]


def test_the_nodes_of_the_step_that_is_asked_for_say_what_the_caches_hold() -> None:
    """A small op beside a large one, which is run by default."""
    rows = Rows()
    rows.add("a", "Placeholder", **typed("Placeholder", (2**14,)))
    rows.add("b", "Exp", ["a"], **typed("Exp", (2**14,)))
    rows.add("x", "Placeholder", **typed("Placeholder", (2**23,)))
    rows.add("y", "Exp", ["x"], **typed("Exp", (2**23,)))
    graph, cluster, profile = rows.built(), load_cluster("worker=1"), replace(made(), streams=FAR)
    both, alone = (
        estimate(graph, cluster, profile, step=choose_step(graph, fetches=fetches)).run_ns[1, 0]
        for fetches in (("b", "y"), ("b",))
    )
    assert alone < both == estimate(graph, cluster, profile).run_ns[1, 0]
    assert run(graph, cluster=cluster, profile=profile, fetches=["b"]).costs.run_ns[1, 0] == alone


def weighted(readers: int, width: int = 1024) -> Graph:
    """Products of one row each with the same variable, all of one input."""
    rows = Rows()
    rows.add("x", "Placeholder", **typed("Placeholder", (1, width)))
    rows.add("v", "VarHandleOp", dtype=type_attr(), shape=shape_attr(width, width), _output_shapes=shapes_attr(()))
    rows.add("read", "ReadVariableOp", ["v"], dtype=type_attr(), _output_shapes=shapes_attr((width, width)))
    for row in range(readers):
        rows.add(f"y{row}", "MatMul", ["x", "read"], T=type_attr(), _output_shapes=shapes_attr((1, width)))
    rows.add("d", "Placeholder", **typed("Placeholder", (width, width)))
    rows.add("a", "Const", **typed("Const", ()))
    rows.add(
        "apply", "ResourceApplyGradientDescent", ["v", "a", "d", *(f"^y{row}" for row in range(readers))], T=type_attr()
    )
    return rows.built()


@pytest.mark.parametrize(("readers", "each"), [(1, 1.0), (2, 1.0), (3, 2 / 3), (8, 1 / 4)])
def test_weights_are_read_from_afar_twice_by_all_their_readers(readers: int, each: float) -> None:
    """4 MB of weights. An update takes the variable itself, and was timed so."""
    graph = weighted(readers)
    handing, runs = handed_on(graph), flags(np.ones(len(graph), bool))
    moved = works_of(graph, handing).ints(lambda work: work.moved if work.rule.launches else NO_KERNEL)
    far = far_weights(graph, runs, moved, handing, flags(np.zeros(len(graph), bool)))
    wanted = [round(each * 2**22) if graph.ops[node] == "MatMul" else 0 for node in range(len(graph))]
    assert far.tolist() == pytest.approx(wanted, abs=4)  # a rate of learning is a weight, too
    assert not far_weights(graph, runs, moved, handing, runs).any()  # in a loop the second trip finds them near


def test_a_product_with_one_row_waits_for_its_weights_in_a_large_step() -> None:
    """4 MB at 2 ns a byte where the step is beyond the caches, as much as before where it is not."""
    graph, cluster = weighted(1), load_cluster("worker=1")

    def took_ns(byte_ns: float, smallest: int) -> int:
        streams = ((smallest, 0.25), (4 * smallest, 2.25))
        profile = replace(made(), streams=streams)
        figures = {**profile.figures, "read_byte": Figure(byte_ns, 0.0)}
        return int(estimate(graph, cluster, replace(profile, figures=figures)).run_ns[graph.row("y0"), 0])

    assert took_ns(2.0, 2**26) == took_ns(0.0, 2**26) < 2**22
    assert took_ns(2.0, 2**16) == pytest.approx(2 * 2**22, rel=0.01)
