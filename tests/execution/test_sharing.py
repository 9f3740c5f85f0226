"""Max-min shares against a brute-force solver, and flows against a simulation in exact fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster, Link
from simulator.cluster.contention import Contention
from simulator.errors import ClusterError
from simulator.execution.engine import run
from simulator.execution.options import SimulationOptions
from simulator.execution.sharing import MAX_FLOW_BYTES
from simulator.execution.tables import of_step
from simulator.graph.graph import Graph
from tests.execution.cases import apart, cluster, costs, dags, runs, whole
from tests.execution.reference_shares import shares
from tests.execution.test_engine import story

LINKS = 4
WAYS = st.lists(
    st.lists(st.integers(0, LINKS - 1), min_size=1, max_size=3, unique=True).map(tuple), min_size=1, max_size=5
)
CAPACITY = st.lists(st.integers(20, 200), min_size=LINKS, max_size=LINKS)


def feasible(
    rates: dict[int, Fraction], flows: dict[int, int], ways: list[tuple[int, ...]], capacity: list[int]
) -> bool:
    load = [sum(rates[way] * flows[way] for way in flows if link in ways[way]) for link in range(len(capacity))]
    return all(used <= room for used, room in zip(load, capacity, strict=True))


def brute_force(
    flows: dict[int, int], ways: list[tuple[int, ...]], capacity: list[int], cap: list[int]
) -> dict[int, Fraction]:
    """The max-min allocation by its definition: the sorted rates are the largest in lexicographic order.

    Every class has one of the rates that some set of classes gets when it shares some link evenly after others have
    taken theirs; so the levels are tried from below, and each class stops where some limit of its own is reached.
    """
    fixed: dict[int, Fraction] = {}
    while len(fixed) < len(flows):
        left = [way for way in flows if way not in fixed]
        level = min(
            chain(
                (
                    (capacity[link] - sum(fixed[w] * flows[w] for w in fixed if link in ways[w])) / Fraction(many)
                    for link in range(len(capacity))
                    if (many := sum(flows[w] for w in left if link in ways[w]))
                ),
                (Fraction(cap[way]) for way in left if cap[way]),
            )
        )
        # whoever can't have more than the level, whatever the others would give up
        for way in left:
            tight = any(
                sum(fixed.get(w, level) * flows[w] for w in flows if link in ways[w]) == capacity[link]
                for link in ways[way]
            )
            if tight or (cap[way] and cap[way] == level):
                fixed[way] = level
    return fixed


@settings(deadline=None)
@given(WAYS, CAPACITY, st.data())
def test_shares_are_max_min_but_for_rounding_down(
    ways: list[tuple[int, ...]], capacity: list[int], data: st.DataObject
) -> None:
    flows = {way: data.draw(st.integers(1, 4)) for way in range(len(ways))}
    cap = [data.draw(st.sampled_from([0, 0, 7, 30])) for _ in ways]
    scale = 10**6  # so that what rounding takes is small beside the rates
    found = shares(flows, ways, [room * scale for room in capacity], [most * scale for most in cap])
    exact = brute_force(flows, ways, capacity, cap)
    assert feasible({w: Fraction(rate) for w, rate in found.items()}, flows, ways, [room * scale for room in capacity])
    for way, rate in found.items():
        assert abs(rate - exact[way] * scale) <= 10 * len(flows) * sum(flows.values())


def literal(flows: dict[int, int], ways: list[tuple[int, ...]], capacity: list[int], cap: list[int]) -> dict[int, int]:
    """The rule of `shares`, sentence by sentence: of all that may come next, by share, caps first, then by number."""
    fixed: dict[int, int] = {}
    while len(fixed) < len(flows):
        offers = [(cap[way], 0, way) for way in flows if way not in fixed and cap[way]]
        for link in range(len(capacity)):
            on = [way for way in flows if link in ways[way]]
            waiting = sum(flows[way] for way in on if way not in fixed)
            left = capacity[link] - sum(flows[way] * fixed[way] for way in on if way in fixed)
            offers += [(left // waiting, 1, link)] if waiting else []
        share, by_link, row = min(offers)
        taking = [way for way in flows if way not in fixed and row in ways[way]] if by_link else [row]
        fixed |= dict.fromkeys(taking, share)
    return fixed


@settings(deadline=None)
@given(WAYS, CAPACITY, st.data())
def test_shares_are_what_their_rule_says_to_the_byte(
    ways: list[tuple[int, ...]], capacity: list[int], data: st.DataObject
) -> None:
    flows = {way: data.draw(st.integers(1, 4)) for way in data.draw(st.permutations(range(len(ways))))}
    cap = [data.draw(st.sampled_from([0, 0, 5, 7, 30])) for _ in ways]
    assert shares(flows, ways, capacity, cap) == literal(flows, ways, capacity, cap)


@settings(deadline=None)
@given(WAYS, CAPACITY, st.data())
def test_no_rate_can_grow_without_a_smaller_one_shrinking(
    ways: list[tuple[int, ...]], capacity: list[int], data: st.DataObject
) -> None:
    flows = {way: data.draw(st.integers(1, 4)) for way in range(len(ways))}
    found = shares(flows, ways, capacity, [0] * len(ways))
    many = sum(flows.values())
    for way, rate in found.items():  # some link on its way has nothing to give and nobody on it has more
        assert any(
            sum(found[w] * flows[w] for w in flows if link in ways[w]) > capacity[link] - many
            and all(found[w] <= rate + many for w in flows if link in ways[w])
            for link in ways[way]
        )


def test_a_link_with_a_remainder_gives_it_to_nobody() -> None:
    assert shares({0: 3}, [(0,)], [100], [0]) == {0: 33}
    assert shares({0: 1, 1: 1}, [(0, 1), (0,)], [100, 30], [0, 0]) == {0: 30, 1: 70}
    assert shares({0: 2, 1: 1}, [(0,), (0,)], [100], [20, 0]) == {0: 20, 1: 60}


def fluid(flows: list[tuple[int, int, tuple[int, ...], int]], capacity: list[int]) -> list[float]:
    """Ends of flows (start, bytes, links, latency) when rates are exact: a second, slow simulation."""
    left = [Fraction(nbytes * 10**9) for _, nbytes, _, _ in flows]
    begins = [Fraction(start + latency) for start, _, _, latency in flows]
    ways = [links for _, _, links, _ in flows]
    ends: list[float] = [0.0] * len(left)
    now = Fraction(0)
    done = [nbytes == 0 for _, nbytes, _, _ in flows]
    for row, finished in enumerate(done):
        if finished:
            ends[row] = float(begins[row])
    while not all(done):
        active = {row: 1 for row in range(len(left)) if not done[row] and begins[row] <= now}
        rates = brute_force(active, ways, capacity, [0] * len(ways)) if active else {}
        upcoming = [begin for row, begin in enumerate(begins) if not done[row] and begin > now]
        upcoming += [now + left[row] / rate for row, rate in rates.items()]
        step = min(upcoming) - now
        for row, rate in rates.items():
            left[row] -= rate * step
            if left[row] <= 0:
                done[row], ends[row] = True, float(now + step)
        now += step
    return ends


@settings(deadline=None, max_examples=25)
@given(dags(max_nodes=10), st.data())
def test_flows_end_when_a_fluid_would(graph: Graph, data: st.DataObject) -> None:
    on = data.draw(st.sampled_from([apart(3, shared=True), star(3)]))
    priced = costs(graph, on, [data.draw(st.integers(1, 500)) for _ in graph.names])
    tables = of_step(graph, whole(graph), on, priced)
    rows = [data.draw(st.integers(0, 2)) for _ in graph.names]
    outcome = run(tables, rows, options=SimulationOptions(contention="fair"))
    routes, crossing = tables.routes, outcome.transfers
    flows = [
        (
            int(outcome.moments.sent_ns[x]),
            int(tables.tensor_bytes[crossing.tensor[x]]),
            routes.links[crossing.route[x]],
            int(crossing.latency_ns[x]),
        )
        for x in range(len(crossing))
    ]
    exact = fluid(flows, routes.link_bytes_per_s.tolist())
    for x, end in enumerate(exact):  # each end is rounded up, and what began later at such an end began late, too
        assert -1e-3 <= outcome.moments.arrived_ns[x] - end <= 2 * len(flows)


def star(count: int) -> Cluster:
    """`count` hosts, each with a wire out and a wire in of another speed."""
    links = [Link(f"{way} {host}", 3, 10**9 // (host + 1)) for host in range(count) for way in ("out", "in")]
    routes = {(s, t): (2 * s, 2 * t + 1) for s in range(count) for t in range(count) if s != t}
    return cluster([f"w:{task}/CPU:0" for task in range(count)], links, routes)


@settings(deadline=None, max_examples=25)
@given(dags(), st.data())
def test_transfers_that_never_meet_take_the_same_time_in_every_discipline(graph: Graph, data: st.DataObject) -> None:
    on, priced, rows = data.draw(runs(graph))
    tables = of_step(graph, whole(graph), on, priced)
    one, fair, none = (
        run(tables, rows, options=SimulationOptions(contention=kind)) for kind in ("serial", "fair", "none")
    )
    crossing = none.transfers
    spans: dict[int, list[tuple[int, int]]] = {}
    for x in range(len(crossing)):
        for link in tables.routes.links[crossing.route[x]]:
            spans.setdefault(link, []).append((int(none.moments.sent_ns[x]), int(none.moments.arrived_ns[x])))
    met = any(a[0] <= b[1] and b[0] <= a[1] for rows_ in spans.values() for a, b in combinations(sorted(rows_), 2))
    if not met:
        for ran in (one, fair):
            assert np.array_equal(ran.start_ns, none.start_ns)
            assert np.array_equal(ran.end_ns, none.end_ns)
            assert np.array_equal(ran.moments.sent_ns, none.moments.sent_ns)
            assert np.array_equal(ran.moments.arrived_ns, none.moments.arrived_ns)


def test_two_flows_share_and_the_longer_one_speeds_up() -> None:
    on = apart(3, shared=True)  # 100 ns, one byte per ns
    graph = story("x = Const", "a = Neg x", "b = Neg x", "to_a = Neg a", "to_b = Neg b", size=250).built()
    tables = of_step(graph, whole(graph), on, costs(graph, on, [0, 10, 510, 1, 1]))
    outcome = run(
        tables, [0, 0, 0, 1, 2], options=SimulationOptions(contention="fair")
    )  # 1000 bytes each; lanes: a till 10, b till 520
    # a alone from 110 to 620: 510 bytes; then both at half: 490 more take 980; then b has 510 left, alone
    assert outcome.moments.arrived_ns.tolist() == [1600, 2110]


def test_a_link_may_have_a_contention_of_its_own() -> None:
    graph = story("x = Const", "a = Neg x", "b = Neg x", "to_a = Neg a", "to_b = Neg b").built()
    for own, ends in (("none", [210, 210]), ("serial", [210, 310]), ("fair", [310, 310])):
        bus = apart(2, shared=True, lanes=2)
        on = replace(bus, links=(replace(bus.links[0], contention=own),))  # type: ignore[arg-type]
        tables = of_step(graph, whole(graph), on, costs(graph, on, [0, 10, 10, 1, 1]))
        for everywhere in ("serial", "fair", "none"):
            assert (
                run(
                    tables, [0, 0, 0, 1, 1], options=SimulationOptions(contention=everywhere)
                ).moments.arrived_ns.tolist()
                == ends
            )


def test_an_unshared_link_on_the_way_caps_a_flow() -> None:
    links = [Link("bus", 0, 10**9, "fair"), Link("port", 0, 10**8, "none")]
    on = cluster(["a:0/CPU:0", "b:0/CPU:0", "c:0/CPU:0"], links, {(0, 1): (0, 1), (0, 2): (0,)})
    graph = story("x = Const", "a = Neg x", "to_b = Neg a", "to_c = Neg a").built()
    tables = of_step(graph, whole(graph), on, costs(graph, on, 1))
    # 100 bytes at 0.1 byte/ns beside 100 bytes at 0.9
    assert run(tables, [0, 0, 1, 2], options=SimulationOptions(contention="serial")).moments.arrived_ns.tolist() == [
        1001,
        113,
    ]


def test_what_sharing_cannot_count_is_refused() -> None:
    slow = cluster(["a:0/CPU:0", "b:0/CPU:0"], [Link("thread", 0, 1)], {(0, 1): (0,), (1, 0): (0,)})
    graph = story("x = Const", "a = Neg x", "b = Neg x", "to_a = Neg a", "to_b = Neg b").built()
    tables = of_step(graph, whole(graph), slow, costs(graph, slow))
    with pytest.raises(ClusterError, match=r"2 transfers may share a link of 1 bytes/s"):
        run(tables, [0, 0, 0, 1, 1], options=SimulationOptions(contention="fair"))
    on = apart(2)
    tables = of_step(graph, whole(graph), on, costs(graph, on))
    large = replace(tables, tensor_bytes=np.full(len(tables.tensor_bytes), MAX_FLOW_BYTES + 1))
    with pytest.raises(ClusterError, match=r"'a' has 4611686019 bytes, .* 4611686018 at most"):
        run(large, [0, 0, 0, 1, 1], options=SimulationOptions(contention="fair"))
    mixed = cluster(["a:0/CPU:0", "b:0/CPU:0"], [Link("x", 0, 9, "fair"), Link("y", 0, 9, "serial")], {(0, 1): (0, 1)})
    tables = of_step(graph, whole(graph), mixed, costs(graph, mixed))
    with pytest.raises(ClusterError, match=r"'y' is serial and 'x' is shared fairly.*Give them one contention"):
        run(tables, [0] * 5)


def test_who_can_mend_a_way_with_two_contentions_is_said() -> None:
    graph = story("x = Const").built()
    pairs: list[tuple[Contention, str]] = [("fair", "serial"), ("serial", "fair")]
    for own, other in pairs:
        links = [Link("nic", 0, 9, own), Link("pcie", 0, 9)]
        on = cluster(["a:0/CPU:0", "b:0/CPU:0"], links, {(0, 1): (0, 1)})
        tables = of_step(graph, whole(graph), on, costs(graph, on))
        run(tables, [0], options=SimulationOptions(contention=own))
        with pytest.raises(ClusterError, match=f"Simulate with the contention '{own}', as 'nic' says itself"):
            run(tables, [0], options=SimulationOptions(contention=other))
