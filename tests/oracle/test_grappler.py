"""Where Grappler's virtual scheduler is wrong, and that we are right: what it says, and the step worked out by hand.

Op costs are Grappler's own, but where launching is the point, so that only the simulation differs. A square of 1024 x
1024 floats takes `OP` on a processor of one operation per nanosecond: 2**20 ns, and 1 ns for memory that is endlessly
fast. Of one float it takes `TINY`, and what Grappler holds to be free, as reading a variable, takes 1 ns.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from simulator.cluster.cluster import Cluster
from simulator.costs.estimate import estimate
from simulator.costs.table import CostTable
from simulator.errors import OracleError
from simulator.execution.options import SimulationOptions
from simulator.execution.simulate import simulate
from simulator.graph.graph import Graph
from simulator.graph.step import choose_step
from simulator.oracle.child import Asking
from simulator.partitioning.cut import partition
from simulator.units import Nanos
from tests.execution.cases import apart, assigned, costs
from tests.oracle import grappler
from tests.oracle.grappler import Prediction
from tests.strategies import Rows, loop, typed

pytestmark = pytest.mark.tensorflow

SIDE = (1024, 1024)
NBYTES = 4 * 2**20
OP, TINY, READ = 2**20 + 1, 2, 1
WIRE = 100 + NBYTES  # of a link of `apart`: latency, and 1 ns per byte

Times = dict[str, tuple[Nanos, Nanos]]


@pytest.fixture(scope="module")
def asking() -> Iterator[Asking]:
    with grappler.conversation() as ask:
        yield ask


def chain(made: Rows, names: Sequence[str], shape: tuple[int, ...] = SIDE) -> None:
    """A variable, and each name the square of what stands before it."""
    attrs = typed("VariableV2", shape)
    for size in shape:
        attrs["shape"].shape.dim.add(size=size)
    last = made.add(f"{names[0]}_in", "VariableV2", **attrs)
    for name in names:
        last = made.add(name, "Square", [last], **typed("Relu", shape))


def in_order_of_names(made: Rows) -> Rows:
    """The same rows sorted: Grappler takes nodes of one instant by name, we by row."""
    order = sorted(range(len(made.names)), key=made.names.__getitem__)
    columns: tuple[list[Any], ...] = (made.names, made.ops, made.requested, made.inputs, made.attrs)
    return Rows(*([column[row] for row in order] for column in columns))


def fast(on: Cluster) -> Cluster:
    """One operation per nanosecond, memory without limit."""
    return replace(on, devices=tuple(replace(one, flop_per_s=10**9, bytes_per_s=10**18) for one in on.devices))


def asked(graph: Graph, on: Cluster, rows: Sequence[int], fetch: str, asking: Asking) -> Prediction:
    devices = [on.devices[row].name for row in rows]
    return grappler.predict(graph, on, step=choose_step(graph, fetches=[fetch]), devices=devices, asking=asking)


def simulated(
    graph: Graph,
    on: Cluster,
    rows: Sequence[int],
    fetch: str,
    priced: CostTable,
    trips: Mapping[str, int] | None = None,
) -> Times:
    """Start and end of every op in our simulation; where one runs several times, of its last run."""
    pieces = partition(graph, assigned(on, rows), on, legal=False, step=choose_step(graph, fetches=[fetch]))
    trace = simulate(pieces, on, priced, SimulationOptions(trips=trips or {}))
    spans = zip(trace.ops.start_ns.tolist(), trace.ops.end_ns.tolist(), strict=True)
    return dict(zip((pieces.graph.names[row] for row in trace.ops.node.tolist()), spans, strict=True))


def both(graph: Graph, on: Cluster, rows: Sequence[int], fetch: str, asking: Asking) -> tuple[Times, Times]:
    """What Grappler says, and our simulation at Grappler's prices."""
    theirs = asked(graph, on, rows, fetch, asking).times
    priced = costs(graph, on, [theirs[name][1] - theirs[name][0] for name in graph.names])
    return dict(theirs), simulated(graph, on, rows, fetch, priced)


def test_on_one_device_without_faults_every_start_and_end_is_equal(asking: Asking) -> None:
    chance, made, on = random.Random(1), Rows(), fast(apart(1))
    for number in range(60):
        chain(made, [f"{name}{number}" for name in "abc"], (chance.randrange(1, 10**6),))
        before = chance.sample(made.names[:-3], min(number, 3))
        made.inputs[-1] += ["^" + name for name in before]
    made.add("last", "NoOp", ["^" + name for name in made.names])
    made = in_order_of_names(made)
    graph = made.built()

    theirs, ours = both(graph, on, [0] * len(graph), "last", asking)

    assert len(set(theirs.values())) == len(graph)
    assert ours == theirs


def test_a_transfer_is_not_free(asking: Asking) -> None:
    made, on = Rows(), fast(apart(2))
    chain(made, ["a", "b"])

    theirs, ours = both(made.built(), on, [0, 0, 1], "b", asking)

    received = READ + OP + 1 + 1  # Send, Recv: 4 MiB in 2 ns
    assert theirs["b"] == (received, received + OP)
    assert ours["b"] == (READ + OP + WIRE, READ + OP + WIRE + OP)


def test_transfers_over_one_link_wait_for_each_other(asking: Asking) -> None:
    made, rows = Rows(), [0, 0, 1, 1, 2]
    chain(made, ["a"])
    chain(made, ["b"])
    made.add("c", "Mul", ["a", "b"], **typed("Mul", SIDE))

    theirs, ours = both(made.built(), fast(apart(3, shared=True)), rows, "c", asking)
    _, unshared = both(made.built(), fast(apart(3)), rows, "c", asking)

    sends = [span for name, span in theirs.items() if name.startswith("Send_")]
    assert sends == [(READ + OP, READ + OP + 1)] * 2
    assert ours["c"][0] == READ + OP + 2 * WIRE - 100, "of the two latencies, only the second is waited for"
    assert unshared["c"][0] == READ + OP + WIRE


def test_a_control_input_from_another_device_is_waited_for(asking: Asking) -> None:
    made, on = Rows(), fast(apart(2))
    chain(made, ["slow"])
    chain(made, ["early", "mid"], ())
    made.add("late", "Square", ["mid", "^slow"], **typed("Relu", ()))

    theirs, ours = both(made.built(), on, [0, 0, 1, 1, 1, 1], "late", asking)

    assert theirs["slow"][1] == READ + OP
    assert theirs["late"][0] == READ + 2 * TINY, "a millisecond before the end of what it waits for"
    assert ours["late"][0] == READ + OP + 100, "the latency of the link: there is no value to send"


def test_launching_takes_time(asking: Asking) -> None:
    made, on = Rows(), fast(apart(1))
    chain(made, ["a", "b", "c"], ())
    graph, rows = made.built(), [0] * 4

    theirs = asked(graph, on, rows, "c", asking)
    ours = simulated(graph, on, rows, "c", estimate(graph, on))

    assert theirs.makespan == READ + 3 * TINY
    assert ours["c"][1] - ours["a"][0] == 3 * (on.devices[0].launch_ns + 1)


def test_a_loop_runs_as_often_as_it_does(asking: Asking) -> None:
    made, on = Rows(), fast(apart(1))
    chain(made, ["a"], ())
    loop(made, start="a")
    graph, rows = made.built(), [0] * 11

    theirs = asked(graph, on, rows, "while/Exit", asking)
    took = {name: end - start for name, (start, end) in theirs.times.items()}
    took["while/Merge"] = 1  # Grappler takes it twice, once for each input, and shows them as one long run
    priced = costs(graph, on, [took[name] for name in graph.names])
    ours = {trips: simulated(graph, on, rows, "while/Exit", priced, trips={"while": trips}) for trips in (0, 1, 10)}

    before, test, body = READ + TINY + 1, 1 + TINY + 1 + 1, TINY + 1
    assert took["while/Neg"] == TINY
    assert theirs.makespan == before + 1 + test + body + 1 + 1, "one trip, and another Merge"
    for trips, times in ours.items():
        assert max(end for _, end in times.values()) == before + trips * (test + body) + test + 1


def test_what_one_call_takes_and_what_cannot_be_asked(asking: Asking) -> None:
    made, on = Rows(), fast(apart(1))
    chain(made, ["a"])
    graph = made.built()
    devices = [on.devices[0].name] * len(graph)

    found = grappler.predict(graph, on, step=choose_step(graph), devices=devices, calls=3, asking=asking)

    assert 0 < found.call_s < 1
    assert found.tensorflow
    fed = choose_step(graph, feeds=["a_in:0"], fetches=["a"])
    with pytest.raises(OracleError, match="placeholders only, not 'a_in'"):
        grappler.predict(graph, on, step=fed, devices=devices, asking=asking)
    made.ops[1] = "NoSuchOp"
    with pytest.raises(OracleError, match="NoSuchOp"):
        grappler.predict(made.built(), on, step=choose_step(graph), devices=devices, asking=asking)
