"""Serial links: each has a line of its own, and serves whenever somebody stands in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster, Link
from simulator.execution.engine import StepRun, run
from simulator.execution.laws import check_trace
from simulator.execution.options import SimulationOptions
from simulator.execution.simulate import simulate
from simulator.execution.tables import of_step
from simulator.graph.graph import Graph
from simulator.partitioning.cut import partition
from tests.execution import tasks
from tests.execution.cases import assigned, attrs_of, cluster, costs, crowded, whole
from tests.strategies import Rows

Crowd = tuple[Graph, Cluster, list[int], list[int]]


def sent(
    on: Cluster, messages: dict[str, tuple[int, int, int]], engine: Callable[..., StepRun] = run
) -> tuple[StepRun, list[str]]:
    """Messages that are there from the beginning: (source, target, ns on the wire at 1 GB/s, or 0: control); names."""
    made = Rows()
    for name, (_, _, length) in messages.items():
        made.add(name, "Const", **attrs_of("Const", 1, max(length // 4, 1)))
        made.add(f"read_{name}", "NoOp" if not length else "Neg", [name if length else f"^{name}"], **attrs_of("Neg"))
    graph = made.built()
    rows = [messages[name.removeprefix("read_")][name.startswith("read_")] for name in graph.names]
    tables = of_step(graph, whole(graph), on, costs(graph, on, 0))
    outcome = engine(tables, rows)
    return outcome, [tables.names[op] for op in tables.tensor_op[outcome.transfers.tensor].tolist()]


def held(outcome: StepRun, names: list[str]) -> dict[str, list[tuple[int, int, int]]]:
    """(link, from, to) of each message."""
    return dict(zip(names, tasks.held(outcome.tasks, len(names)), strict=True))


def test_a_source_goes_on_with_the_next_while_a_target_is_busy() -> None:
    """p and q send to s, and q to t as well. Who had to have both of its links at once would let q wait until 100."""
    links = [Link(name, 10, 10**9) for name in ("p out", "q out", "s in", "t in")]
    on = cluster([f"{name}:0/CPU:0" for name in "pqst"], links, {(0, 2): (0, 2), (1, 2): (1, 2), (1, 3): (1, 3)})
    outcome, names = sent(on, {"a": (0, 2, 100), "b": (1, 2, 100), "c": (1, 3, 100)})
    assert held(outcome, names) == {
        "a": [(0, 0, 100), (2, 0, 100)],
        "b": [(1, 0, 100), (2, 100, 200)],  # buffered before s
        "c": [(1, 100, 200), (3, 100, 200)],
    }
    assert outcome.moments.sent_ns.tolist() == [0, 0, 100]
    assert outcome.moments.through_ns.tolist() == [100, 200, 200]
    assert outcome.makespan == 200 + 20


def test_those_that_come_to_a_link_at_the_same_instant_go_in_order() -> None:
    """b and c begin on their first links at 100 and 0; both come to s at 100, c when its second link begins with it."""
    links = [Link(name, 0, 10**9) for name in ("p out", "q out", "hub", "s in")]
    routes = {(0, 3): (0, 3), (1, 3): (1, 2, 3), (0, 2): (0,), (1, 2): (1, 2), (2, 3): (2,)}
    on = cluster([f"{name}:0/CPU:0" for name in "pqrs"], links, routes)
    messages = {"a": (0, 2, 100), "b": (0, 3, 100), "c": (1, 3, 100), "d": (2, 3, 100)}
    for order in (("a", "b", "d", "c"), ("a", "d", "c", "b")):
        found = held(*sent(on, {name: messages[name] for name in order}))
        at_s = sorted((begin, name) for name in "bc" for link, begin, _ in found[name] if link == 3)
        assert [begin for begin, _ in at_s] == [100, 200]
        assert [name for _, name in at_s] == [name for name in order if name in "bc"]


def test_all_join_their_first_links_before_any_joins_its_second() -> None:
    """The example of decision 0035: x goes over a and b, y over b alone; x has the lower number."""
    links = [Link(name, 0, 10**9) for name in "ab"]
    on = cluster([f"{name}:0/CPU:0" for name in "pqr"], links, {(0, 2): (0, 1), (1, 2): (1,)})
    for engine in (run, partial(run, compiled=True)):
        outcome, names = sent(on, {"x": (0, 2, 100), "y": (1, 2, 100)}, engine)
        assert held(outcome, names) == {"x": [(0, 0, 100), (1, 100, 200)], "y": [(1, 0, 100)]}


def test_what_has_no_bytes_waits_in_each_line_and_keeps_nobody() -> None:
    links = [Link(name, 0, 10**9) for name in "ab"]
    on = cluster([f"{name}:0/CPU:0" for name in "pqr"], links, {(0, 1): (0, 1), (2, 1): (1,), (0, 2): (0,)})
    outcome, names = sent(on, {"large": (2, 1, 100), "none": (0, 1, 0), "after": (0, 2, 100)})
    assert held(outcome, names) == {
        "large": [(1, 0, 100)],
        "none": [(0, 0, 0), (1, 100, 100)],
        "after": [(0, 0, 100)],  # does not wait with it for b
    }


@settings(deadline=None, max_examples=30)
@given(crowded())
def test_no_serial_link_idles_while_somebody_stands_in_its_line(crowd: Crowd) -> None:
    """Counted anew, link by link, in order of joining: each begins at once, or when the one before it is through."""
    graph, on, times, rows = crowd
    tables = of_step(graph, whole(graph), on, costs(graph, on, times))
    outcome = run(tables, rows)
    lines: dict[int, list[tuple[int, int, int]]] = {}
    for transfer, found in enumerate(tasks.held(outcome.tasks, len(outcome.transfers))):
        joined = int(outcome.moments.packed_ns[transfer])
        for link, begin, until in found:
            nbytes = int(tables.tensor_bytes[outcome.transfers.tensor[transfer]])
            lasts = -(-nbytes * 10**9 // on.links[link].bytes_per_s)
            assert until == begin + lasts
            lines.setdefault(link, []).append((joined, begin, lasts))
            joined = begin
    for line in lines.values():
        free = 0
        for joined, begin, lasts in sorted(line):
            assert begin == max(joined, free)
            free = begin + lasts


@settings(deadline=None, max_examples=30)
@given(crowded())
def test_the_laws_of_lines_hold_for_pieces(crowd: Crowd) -> None:
    graph, on, times, rows = crowd
    pieces = partition(graph, assigned(on, rows), on, legal=False, step=whole(graph))
    assert (
        check_trace(simulate(pieces, on, costs(graph, on, times), SimulationOptions(engine="python")), pieces, on) == []
    )


def test_whoever_meets_nobody_takes_what_the_way_takes() -> None:
    links = [Link("slow", 10, 10**8), Link("fast", 10, 10**9), Link("last", 10, 10**9)]
    on = cluster(["p:0/CPU:0", "q:0/CPU:0"], links, {(0, 1): (1, 0, 2)})
    outcome, names = sent(on, {"a": (0, 1, 100)})
    assert held(outcome, names) == {"a": [(1, 0, 100), (0, 0, 1000), (2, 0, 100)]}
    assert outcome.makespan == 1000 + 30 == on.transfer_ns(0, 1, 100)


def spoked(workers: int, ways: dict[tuple[int, int], tuple[int, ...]], links: list[Link]) -> Cluster:
    return cluster(["ps:0/CPU:0", *(f"worker:{at}/CPU:0" for at in range(workers))], links, ways)


def test_ten_slow_workers_send_into_one_fast_server_at_once() -> None:
    """A tenth of its rate each: all are through together, and the server's link was never idle."""
    links = [Link("ps in", 10, 10**9), *(Link(f"worker {at} out", 10, 10**8) for at in range(10))]
    on = spoked(10, {(1 + at, 0): (1 + at, 0) for at in range(10)}, links)
    outcome, names = sent(on, {f"m{at}": (1 + at, 0, 100) for at in range(10)})
    assert held(outcome, names) == {f"m{at}": [(1 + at, 0, 1000), (0, 100 * at, 100 * at + 100)] for at in range(10)}
    assert outcome.moments.through_ns.tolist() == [1000] * 10
    assert outcome.makespan == 1000 + 20


def test_a_fast_server_sends_to_ten_slow_workers_at_its_own_rate() -> None:
    """The next has its turn as soon as the server has handed a message to the network, which still carries it on."""
    links = [Link("ps out", 10, 10**9), *(Link(f"worker {at} in", 10, 10**8) for at in range(10))]
    on = spoked(10, {(0, 1 + at): (0, 1 + at) for at in range(10)}, links)
    outcome, names = sent(on, {f"m{at}": (0, 1 + at, 100) for at in range(10)})
    assert held(outcome, names) == {
        f"m{at}": [(0, 100 * at, 100 * at + 100), (1 + at, 100 * at, 100 * at + 1000)] for at in range(10)
    }
    assert outcome.moments.through_ns.tolist() == [100 * at + 1000 for at in range(10)]


def test_an_uplink_of_a_rack_serves_its_hosts_by_its_own_rate() -> None:
    """Twice as fast as a host's port: two at a time, as it were, where it served one."""
    links = [Link("uplink", 0, 2 * 10**9), *(Link(f"{at} {way}", 0, 10**9) for at in range(4) for way in ("out", "in"))]
    names = [f"w:{at}/CPU:0" for at in range(4)]
    on = cluster(names, links, {(s, t): (1 + 2 * s, 0, 2 + 2 * t) for s in (0, 1) for t in (2, 3)})
    outcome, order = sent(on, {"a": (0, 2, 100), "b": (1, 3, 100)})
    assert held(outcome, order) == {
        "a": [(1, 0, 100), (0, 0, 50), (6, 0, 100)],
        "b": [(3, 0, 100), (0, 50, 100), (8, 50, 150)],
    }
    assert outcome.moments.through_ns.tolist() == [100, 150]


def test_bytes_are_not_through_before_a_link_upstream_has_had_its_time_with_them() -> None:
    """b is through its last, fast link when that has had its time, and not before its slow first one has."""
    links = [Link("slow", 0, 10**8), Link("fast", 0, 10**9), Link("other", 0, 10**9)]
    on = cluster([f"{name}:0/CPU:0" for name in "pqr"], links, {(0, 2): (0, 1), (1, 2): (2, 1)})
    outcome, names = sent(on, {"a": (1, 2, 960), "b": (0, 2, 100)})
    assert held(outcome, names) == {"a": [(2, 0, 960), (1, 0, 960)], "b": [(0, 0, 1000), (1, 960, 1060)]}
    assert outcome.moments.through_ns.tolist() == [960, 1060]
    outcome, names = sent(on, {"a": (1, 2, 400), "b": (0, 2, 100)})
    assert held(outcome, names)["b"] == [(0, 0, 1000), (1, 400, 500)]
    assert outcome.moments.through_ns.tolist() == [400, 1000]


def test_a_slow_link_on_which_nobody_waits_lets_what_is_small_overtake() -> None:
    """It carries all at once, each at its rate: b, behind a on the first link, is through before it."""
    links = [Link("port", 0, 10**9), Link("slow", 0, 10**8, "none")]
    on = cluster(["p:0/CPU:0", "q:0/CPU:0"], links, {(0, 1): (0, 1)})
    for engine in (run, partial(run, compiled=True)):
        outcome, names = sent(on, {"a": (0, 1, 100), "b": (0, 1, 40)}, engine)
        assert held(outcome, names) == {"a": [(0, 0, 100)], "b": [(0, 100, 140)]}
        assert outcome.moments.through_ns.tolist() == [1000, 500]


@settings(deadline=None, max_examples=30)
@given(crowded())
def test_nobody_is_earlier_than_alone_and_links_carry_their_bytes(crowd: Crowd) -> None:
    graph, on, times, rows = crowd
    tables = of_step(graph, whole(graph), on, costs(graph, on, times))
    outcome = run(tables, rows)
    crossing = outcome.transfers
    nbytes = tables.tensor_bytes[crossing.tensor].tolist()
    spent = [0] * len(on.links)
    for link, begin, until in chain.from_iterable(tasks.held(outcome.tasks, len(crossing))):
        spent[link] += until - begin
    owed = [0] * len(on.links)
    last: dict[tuple[int, int], int] = {}  # when the one before arrived, by way
    order = sorted(range(len(crossing)), key=lambda row: (int(outcome.moments.sent_ns[row]), row))
    for row in order:
        source, target = int(crossing.source[row]), int(crossing.target[row])
        start, end = int(outcome.moments.sent_ns[row]), int(outcome.moments.arrived_ns[row])
        assert end - start >= on.transfer_ns(source, target, nbytes[row])
        route = on.routes[source][target] or ()
        rates = {link: on.links[link].bytes_per_s for link in route if on.links[link].contention is None}
        for link, rate in rates.items():
            owed[link] += -(-nbytes[row] * 10**9 // rate)
        slowest = min((on.links[link].bytes_per_s for link in route), default=1)
        if nbytes[row] and slowest in rates.values():
            assert last.get((source, target), 0) < end  # nobody overtakes within a way
            last[source, target] = end
    assert spent == owed


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 6), st.lists(st.sampled_from([4, 100, 400, 1000]), min_size=1, max_size=3), st.data())
def test_alike_workers_may_change_their_places(workers: int, sizes: list[int], data: st.DataObject) -> None:
    """Whoever is who, the link of the server is busy at the same moments, and as many are through at each."""
    links = [Link("ps in", 10, 10**9), *(Link(f"worker {at} out", 10, 3 * 10**8) for at in range(workers))]
    on = spoked(workers, {(1 + at, 0): (1 + at, 0) for at in range(workers)}, links)
    places = data.draw(st.permutations(range(workers)))
    found = []
    for order in (range(workers), places):
        outcome, _ = sent(
            on,
            {f"m{at}_{size}": (1 + order[at], 0, sizes[size]) for at in range(workers) for size in range(len(sizes))},
        )
        found.append((sorted(outcome.moments.through_ns.tolist()), outcome.makespan))
    assert found[0] == found[1]
