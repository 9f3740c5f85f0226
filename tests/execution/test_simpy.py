"""The engine equals a second, independent implementation: every start and every end."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.execution.engine import run
from simulator.execution.tables import of_step
from tests.execution import simpy_reference
from tests.execution.cases import costs, dags, runs, whole


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_engine_and_simpy_agree_on_every_start_and_end(data: st.DataObject) -> None:
    graph = data.draw(dags())
    on, priced, rows = data.draw(runs(graph))
    priced = costs(graph, on, priced.run_ns + 1)  # nothing of no length
    step = whole(graph)
    tables = of_step(graph, step, on, priced)

    ours = run(tables, rows)
    theirs = simpy_reference.simulate(graph, on, priced, rows)

    times = zip(tables.names, ours.start_ns.tolist(), ours.end_ns.tolist(), strict=True)
    assert {name: (start, end) for name, start, end in times} == theirs
    assert ours.makespan >= max(end for _, end in theirs.values())
