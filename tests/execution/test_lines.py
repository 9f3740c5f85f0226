"""Serial links: each has a line of its own, and serves whenever somebody stands in it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings

from simulator.cluster.cluster import Cluster, Link
from simulator.execution.engine import Outcome, run
from simulator.execution.laws import check_trace
from simulator.execution.simulate import simulate
from simulator.execution.tables import of_step
from simulator.graph.graph import Graph
from simulator.partitioning import partition
from tests.execution.cases import assigned, attrs_of, cluster, costs, crowded, whole
from tests.strategies import Rows

Crowd = tuple[Graph, Cluster, list[int], list[int]]


def sent(on: Cluster, messages: dict[str, tuple[int, int, int]]) -> tuple[Outcome, list[str]]:
    """Messages that are there from the beginning: (source, target, ns on the wire at 1 GB/s, or 0: control); names."""
    made = Rows()
    for name, (_, _, length) in messages.items():
        made.add(name, "Const", **attrs_of("Const", 1, max(length // 4, 1)))
        made.add(f"read_{name}", "NoOp" if not length else "Neg", [name if length else f"^{name}"], **attrs_of("Neg"))
    graph = made.built()
    rows = [messages[name.removeprefix("read_")][name.startswith("read_")] for name in graph.names]
    tables = of_step(graph, whole(graph), on, costs(graph, on, 0))
    outcome = run(tables, rows)
    return outcome, [tables.names[op] for op in tables.tensor_op[outcome.crossings.tensor].tolist()]


def held(outcome: Outcome, names: list[str]) -> dict[str, list[tuple[int, int, int]]]:
    """(link, from, to) of each message."""
    columns = (outcome.hold_link, outcome.hold_start_ns, outcome.hold_end_ns)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    return {name: rows[a:b] for name, (a, b) in zip(names, pairwise(outcome.hold_ptr.tolist()), strict=True)}


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
    assert outcome.transfer_start_ns.tolist() == [0, 0, 100]
    assert outcome.wire_end_ns.tolist() == [100, 200, 200]
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


def test_what_has_no_bytes_waits_in_each_line_and_keeps_nobody() -> None:
    links = [Link(name, 0, 10**9) for name in "ab"]
    on = cluster([f"{name}:0/CPU:0" for name in "pqr"], links, {(0, 1): (0, 1), (2, 1): (1,), (0, 2): (0,)})
    outcome, names = sent(on, {"large": (2, 1, 100), "none": (0, 1, 0), "after": (0, 2, 100)})
    assert held(outcome, names) == {
        "large": [(1, 0, 100)],
        "none": [(0, 0, 0), (1, 100, 100)],
        "after": [(0, 0, 100)],  # does not wait with it for b
    }


@settings(deadline=None, max_examples=80)
@given(crowded())
def test_no_serial_link_idles_while_somebody_stands_in_its_line(crowd: Crowd) -> None:
    """Counted anew, link by link, in order of joining: each begins at once, or when the one before it is through."""
    graph, on, times, rows = crowd
    tables = of_step(graph, whole(graph), on, costs(graph, on, times))
    outcome = run(tables, rows)
    lines: dict[int, list[tuple[int, int, int]]] = {}
    for transfer, (a, b) in enumerate(pairwise(outcome.hold_ptr.tolist())):
        joined = int(outcome.pack_end_ns[transfer])
        for hold in range(a, b):
            begin = int(outcome.hold_start_ns[hold])
            lasts = int(outcome.crossings.wire_ns[transfer])
            assert outcome.hold_end_ns[hold] == begin + lasts
            lines.setdefault(int(outcome.hold_link[hold]), []).append((joined, begin, lasts))
            joined = begin
    for line in lines.values():
        free = 0
        for joined, begin, lasts in sorted(line, key=lambda turn: turn[:2]):
            assert begin == max(joined, free)
            free = begin + lasts


@settings(deadline=None, max_examples=80)
@given(crowded())
def test_the_laws_of_lines_hold_for_pieces(crowd: Crowd) -> None:
    graph, on, times, rows = crowd
    pieces = partition(graph, assigned(on, rows), on, step=whole(graph))
    assert check_trace(simulate(pieces, on, costs(graph, on, times), engine="python"), pieces, on) == []


def test_whoever_meets_nobody_takes_what_the_way_takes() -> None:
    links = [Link("slow", 10, 10**8), Link("fast", 10, 10**9), Link("last", 10, 10**9)]
    on = cluster(["p:0/CPU:0", "q:0/CPU:0"], links, {(0, 1): (1, 0, 2)})
    outcome, names = sent(on, {"a": (0, 1, 100)})
    assert held(outcome, names) == {"a": [(1, 0, 1000), (0, 0, 1000), (2, 0, 1000)]}
    assert outcome.makespan == 1000 + 30 == on.transfer_ns(0, 1, 100)
