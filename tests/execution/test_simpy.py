"""The engine equals a second, independent implementation: every start and every end, of ops and of transfers."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster, Link
from simulator.cluster.contention import CONTENTIONS, Contention
from simulator.costs.table import CostTable
from simulator.execution.engine import StepRun, run
from simulator.execution.options import SimulationOptions
from simulator.execution.tables import Tables, of_step
from simulator.graph.graph import Graph
from tests.execution import simpy_reference
from tests.execution.cases import PROTOCOLS, attrs_of, cluster, costs, crowded, dags, runs, sizes, whole
from tests.execution.tasks import held
from tests.strategies import Rows

RATES = st.sampled_from([10**8, 7 * 10**8, 10**9, 3 * 10**9])


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_engine_and_simpy_agree_on_every_start_and_end(data: st.DataObject) -> None:
    graph = data.draw(dags())
    on, priced, rows = data.draw(runs(graph))
    on = data.draw(st.just(on) | PROTOCOLS.map(lambda protocol: replace(on, between_tasks=protocol)))
    on = data.draw(st.just(on) | st.just(some_without_contention(on)))
    contention = data.draw(st.sampled_from(CONTENTIONS))
    priority = data.draw(st.none() | st.lists(st.integers(0, 3), min_size=len(graph), max_size=len(graph)))
    agree(graph, on, costs(graph, on, priced.run_ns + 1), rows, contention, priority)  # nothing of no length


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_they_agree_where_many_transfers_share_ports_and_a_switch(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 9))
    made = Rows()
    made.add("x", "Const", **attrs_of("Const", 1, 250))
    for at in range(count):
        size = data.draw(st.sampled_from([1, 2, 250, 999]))
        made.add(f"n{at}", "AddN", ["x"], **attrs_of("AddN", 1, size))
        made.add(f"m{at}", "AddN", [f"n{at}"], **attrs_of("AddN", 1, size))
    graph, on = made.built(), data.draw(fabrics())
    times = data.draw(st.lists(st.sampled_from([1, 2, 100, 500]), min_size=len(graph), max_size=len(graph)))
    rows = data.draw(st.lists(st.integers(0, len(on) - 1), min_size=len(graph), max_size=len(graph)))
    agree(graph, on, costs(graph, on, times), rows, data.draw(st.sampled_from(["serial", "fair"])), None)


@settings(deadline=None, max_examples=30)
@given(crowded())
def test_they_agree_where_routes_meet_in_different_orders(crowd: tuple[Graph, Cluster, list[int], list[int]]) -> None:
    graph, on, times, rows = crowd
    agree(graph, on, costs(graph, on, times), rows, "serial", None)


def agree(
    graph: Graph, on: Cluster, priced: CostTable, rows: list[int], contention: Contention, priority: list[int] | None
) -> None:
    tables = of_step(graph, whole(graph), on, priced)
    ours = run(tables, rows, priority, options=SimulationOptions(contention=contention))
    theirs, sent, held = simpy_reference.simulate(graph, on, priced, rows, contention=contention, priority=priority)
    times = zip(tables.names, ours.start_ns.tolist(), ours.end_ns.tolist(), strict=True)
    assert {name: (start, end) for name, start, end in times} == theirs
    assert transfers(graph, tables, ours) == sent
    assert holds(graph, tables, ours) == held
    assert ours.makespan == max(span[-1] for span in [*theirs.values(), *sent.values()])


@settings(deadline=None, max_examples=30)
@given(sizes(), st.data())
def test_they_agree_where_values_change_their_memory_within_a_gpu(
    case: tuple[Graph, Cluster, list[int]], data: st.DataObject
) -> None:
    graph, on, rows = case
    times = data.draw(st.lists(st.sampled_from([1, 2, 100, 500]), min_size=len(graph), max_size=len(graph)))
    agree(graph, on, costs(graph, on, times), rows, data.draw(st.sampled_from(CONTENTIONS)), None)


@st.composite
def fabrics(draw: st.DrawFn) -> Cluster:
    """Four CPUs, each with a port out and a port in, and a switch between two of them and the others."""
    ports = [
        Link(f"{way} {at}", draw(st.sampled_from([0, 10])), draw(RATES)) for way in ("out", "in") for at in range(4)
    ]
    links = [*ports, Link("switch", 5, draw(RATES), draw(st.sampled_from([None, "none"])))]
    routes = {(s, t): (s, 8, 4 + t) if s // 2 != t // 2 else (s, 4 + t) for s in range(4) for t in range(4) if s != t}
    return cluster([f"w:{at}/CPU:0" for at in range(4)], links, routes, lanes=draw(st.sampled_from([1, 3])))


def some_without_contention(on: Cluster) -> Cluster:
    """Every other link says itself that transfers do not wait for each other on it."""
    return replace(
        on, links=tuple(replace(link, contention=(None, "none")[at % 2]) for at, link in enumerate(on.links))
    )


def transfers(graph: Graph, tables: Tables, outcome: StepRun) -> dict[tuple[str, int, bool], simpy_reference.Sent]:
    """When each value was on the wire to each device, and when its readers had it."""
    columns = (outcome.moments.sent_ns, outcome.moments.arrived_ns, outcome.moments.unpacked_ns)
    spans = zip(*(column.tolist() for column in columns), strict=True)
    return dict(zip(named(graph, tables, outcome), spans, strict=True))


def holds(graph: Graph, tables: Tables, outcome: StepRun) -> dict[tuple[str, int, bool], simpy_reference.Holds]:
    """The links that each value took to each device, and when each began."""
    every = held(outcome.tasks, len(outcome.transfers))
    found = [[(link, begin) for link, begin, _ in rows] for rows in every]
    return dict(zip(named(graph, tables, outcome), found, strict=True))


def named(graph: Graph, tables: Tables, outcome: StepRun) -> list[tuple[str, int, bool]]:
    """What each transfer brings, to which device, and whether into host memory."""
    crossing = outcome.transfers
    rows = tables.tensor_row[crossing.tensor].tolist()
    values = [graph.tensor_name(row) if row >= 0 else "^" + graph.names[-1 - row] for row in rows]
    return list(zip(values, crossing.target.tolist(), crossing.host.tolist(), strict=True))
