"""A training's steps choose trips and branches as the single step does."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement import clients
from simulator import estimate, estimate_each, load_cluster, read_regime, replicate
from simulator.execution.options import SimulationOptions
from simulator.execution.tables import of_step
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.graph.step import choose_step
from simulator.training.clients import combine_tables
from tests.execution.loops.cases import conditional, counting, live_counts, predicate, scalars
from tests.strategies import BOOL, FLOAT, Rows, type_attr, typed
from tests.training.queues import variable


def trained(trips: int, *, live: bool) -> Graph:
    """A branch in a loop, and an update that runs only where another predicate is `live`."""
    rows = Rows()
    rows.add("x", "Placeholder", **typed("Placeholder", ()))
    for name in ("inside", "after"):
        predicate(rows, name)

    def body(value: str, _: str) -> str:
        frame = {"frame_name": AttrValue(s=b"loop"), "is_constant": AttrValue(b=True)}
        asked = rows.add("loop/inside", "Enter", ["inside"], **frame, T=type_attr(BOOL), _output_shapes=scalars(1))
        return conditional(rows, "loop/cond", value, asked)

    left = counting(rows, "loop", "x", trips, body)
    rows.add("after/Switch", "Switch", [left, "after"], T=type_attr(FLOAT), _output_shapes=scalars(2))
    rows.add("gradient", "Relu", ["after/Switch:1" if live else "after/Switch"], **typed("Relu", ()))
    variable(rows, "w", device="")
    rows.add("rate", "Const", **typed("Const", ()))
    rows.add("update", "ApplyGradientDescent", ["w", "rate", "gradient"], T=type_attr())
    return rows.built()


def forward(ran: Counter[str]) -> dict[str, int]:
    return {name: times for name, times in ran.items() if name.startswith(("loop/", "after/")) or name == "gradient"}


@pytest.mark.parametrize("regime", ["async", "sync"])
@settings(max_examples=10, deadline=None)
@given(trips=st.integers(0, 3), live=st.booleans(), branches=st.sampled_from([{}, {"inside": False}]))
def test_every_worker_takes_the_trips_and_ways_of_the_step(
    regime: str, trips: int, live: bool, branches: dict[str, bool]
) -> None:
    graph, how = trained(trips, live=live), SimulationOptions(branches=branches)
    alone, cluster = load_cluster("1cpu"), load_cluster("ps=1,worker=2")
    step = choose_step(graph, fetches=["update"])
    expected = forward(live_counts(of_step(graph, step, alone, estimate(graph, alone), how)))
    assert expected["gradient"] == 1
    assert expected.get("loop/cond/false" if branches else "loop/cond/true", 0) == trips

    programs = replicate(graph, cluster, regime=read_regime(regime))
    costs = estimate_each(programs, cluster)
    made = clients(programs, cluster, costs, options=how)
    combined = combine_tables(made, cluster, costs, how)
    workers = [at for at, client in enumerate(made) if client.program.role == "worker"]
    assert len(workers) == 2
    for at in workers:
        rows = range(combined.op_ptr[at], combined.op_ptr[at + 1])
        ran = Counter(combined.tables.names[row] for row in rows if not combined.tables.silent[row])
        assert forward(ran) == expected
