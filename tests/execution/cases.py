"""Clusters, costs, steps and assignments for the tests of time: by hand and at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from simulator.assignment import Assignment
from simulator.cluster.chips import Chip
from simulator.cluster.cluster import Cluster, Device, Link
from simulator.cluster.contention import CONTENTIONS
from simulator.cluster.protocols import Protocol
from simulator.columns import ids, ints
from simulator.costs.table import CostTable
from simulator.execution.options import SimulationOptions
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.graph.step import Step, choose_step
from tests.strategies import INT32, Rows, shapes_attr, type_attr

Routes = Mapping[tuple[int, int], tuple[int, ...] | None]


def device(name: str, *, lanes: int = 1, memory: int = 10**9, kind: str = "", cores: int = 1) -> Device:
    """ "worker:0/CPU:1" as a device whose kind is its type, or the given one."""
    task, _, own = name.partition("/")
    job, _, number = task.partition(":")
    type_ = own.split(":")[0]
    full = f"/job:{job}/replica:0/task:{number}/device:{own}"
    return Device(full, type_, kind or type_, memory, 10**12, 10**11, 1000, lanes, host=task, cores=cores)


def cluster(
    names: Sequence[str], links: Sequence[Link] = (), routes: Routes = MappingProxyType({}), **options: Any
) -> Cluster:
    """Devices with the given routes; otherwise a link of its own per pair: 100 ns, 1 GB/s (1 ns per byte)."""
    made = [device(name, **options) for name in names]
    wires = list(links)
    table: list[tuple[tuple[int, ...] | None, ...]] = []
    for s, a in enumerate(made):
        row: list[tuple[int, ...] | None] = []
        for t, b in enumerate(made):
            if s == t or (a.task == b.task and a.type == b.type == "CPU" and (s, t) not in routes):
                row.append(())
            elif (s, t) in routes:
                row.append(routes[s, t])
            else:
                wires.append(Link(f"{a.short}>{b.short}", 100, 10**9))
                row.append((len(wires) - 1,))
        table.append(tuple(row))
    return Cluster(tuple(made), tuple(wires), tuple(table), handover_ns=7)


def apart(count: int, *, shared: bool = False, **options: Any) -> Cluster:
    """`count` CPUs of as many tasks: a link per pair, or one that all share."""
    names = [f"w:{task}/CPU:0" for task in range(count)]
    if not shared:
        return cluster(names, **options)
    routes = {(s, t): (0,) for s in range(count) for t in range(count) if s != t}
    return cluster(names, [Link("bus", 100, 10**9)], routes, **options)


def routed(random: Random, count: int, **options: Any) -> Cluster:
    """`count` CPUs of as many tasks, with routes of one to four of a few links, which meet in any order."""
    links = [Link(f"l{at}", random.choice([0, 0, 10]), random.choice([10**9, 10**7])) for at in range(5)]
    pairs = [(s, t) for s in range(count) for t in range(count) if s != t]
    routes = {pair: tuple(random.sample(range(len(links)), random.randint(1, 4))) for pair in pairs}
    return cluster([f"w:{task}/CPU:0" for task in range(count)], links, routes, **options)


def costs(graph: Graph | int, on: Cluster, run_ns: npt.ArrayLike = 1000, **rest: Any) -> CostTable:
    """The same or the given times on every kind of device, of a graph or of so many nodes.

    `scratch` and `resident` are bytes per node.
    """
    n = graph if isinstance(graph, int) else len(graph)
    column = np.asarray(run_ns, np.int64)
    times = np.broadcast_to(column[:, None] if column.ndim == 1 else column, (n, len(on.kinds)))
    nothing = ints(np.zeros(n))
    return CostTable(
        kinds=on.kinds,
        run_ns=times,
        scratch_bytes=ints(rest.get("scratch", nothing)),
        resident_bytes=ints(rest.get("resident", nothing)),
        source=ids(nothing),
        flops=nothing,
        moved_bytes=nothing,
    )


def whole(graph: Graph) -> Step:
    """Everything runs but placeholders, which are fed."""
    held = np.array([op == "Placeholder" for op in graph.ops], bool)
    fed = [f"{graph.names[row]}:0" for row in np.flatnonzero(held).tolist()]
    return Step(tuple(sorted(fed)), (), ~held, "all of it")


@st.composite
def steps(draw: st.DrawFn, graph: Graph) -> Step:
    """Any tensors fed and any fetched, some of them of one node; some nodes only have to run."""
    tensors = [graph.tensor_name(row) for row in range(len(graph.tensor_node))]
    some = st.lists(st.sampled_from(tensors), max_size=4, unique=True) if tensors else st.just([])
    fed, fetched = draw(some), draw(some)
    targets = draw(st.lists(st.sampled_from(graph.names), min_size=0 if fetched else 1, max_size=3, unique=True))
    return choose_step(graph, feeds=fed, fetches=[*fetched, *targets])


def assigned(on: Cluster, rows: Sequence[int]) -> Assignment:
    """An assignment by hand."""
    return Assignment(tuple(d.name for d in on.devices), ids(rows), ids(np.zeros(len(rows))), "by hand", "by hand")


TWO_BY_TWO = cluster(["a:0/CPU:0", "b:0/CPU:0", "b:0/GPU:0", "b:0/GPU:1"])
CLUSTERS = st.sampled_from(
    [
        TWO_BY_TWO,
        apart(1),
        apart(3),
        apart(3, shared=True),
        apart(2, lanes=2),
        cluster(["w:0/CPU:0", "w:0/CPU:1", "w:1/CPU:0"]),
        cluster(["w:0/CPU:0", "w:0/GPU:0", "w:0/GPU:1", "w:1/CPU:0"]),
        cluster(
            ["a:0/CPU:0", "b:0/CPU:0", "c:0/CPU:0"],
            [Link("a", 0, 10**9), Link("switch", 3, 10**8), Link("c", 0, 10**10)],
            {(0, 1): (0, 1), (1, 0): (1, 0), (0, 2): (0, 1, 2), (2, 0): (2, 1, 0), (1, 2): (1, 2), (2, 1): ()},
            lanes=2,
        ),
        replace(apart(3, shared=True), between_tasks=Protocol("copies", 30, 5, 7, 300, 400)),
        replace(apart(2, cores=20), between_tasks=Protocol("many", send_ps_per_byte=9000, receive_ps_per_byte=1000)),
        replace(
            cluster(["w:0/CPU:0", "w:0/GPU:0", "w:1/CPU:0", "w:1/GPU:0"]),
            between_tasks=Protocol("asks", request_ns=150, receive_ps_per_byte=900, latency_ns=9),
        ),
    ]
)


DISPATCH_NS = 1_000


def with_chips(on: Cluster, dispatch_ns: Sequence[int] = (DISPATCH_NS,)) -> Cluster:
    """The cluster whose GPUs have chips, with hosts that take so long for a copy, from the first again for others."""
    chips = [Chip(1, own_dispatch_ns=dispatch_ns[row % len(dispatch_ns)]) for row in range(len(on))]
    devices = zip(on.devices, chips, strict=True)
    return replace(on, devices=tuple(replace(one, chip=chip) if one.type == "GPU" else one for one, chip in devices))


_HOSTS = st.lists(st.sampled_from([1, 107, DISPATCH_NS, 5_000]), min_size=1, max_size=3)
CHIPPED = CLUSTERS | st.builds(with_chips, CLUSTERS, _HOSTS)


@st.composite
def runs(draw: st.DrawFn, graph: Graph, *, ties: bool = True) -> tuple[Cluster, CostTable, list[int]]:
    """A cluster, costs and a device per node; few distinct times and some zeros, so that ties are common."""
    on = draw(CHIPPED)
    times = st.sampled_from([0, 1, 2, 100, 107, 1000]) if ties else st.integers(0, 5000)
    per_node = [[draw(times) for _ in on.kinds] for _ in range(len(graph))]
    amounts = st.sampled_from([0, 8, 100])
    # a constant has none, and the copies of one that is read on several CPUs are of the cut's making
    scratch = [0 if op == "Const" else draw(amounts) for op in graph.ops]
    sizes = [
        int(graph.tensor_bytes[first]) if first < last else 0 for first, last in pairwise(graph.tensor_ptr.tolist())
    ]
    resident = [
        {"VariableV2": 64, "Const": max(nbytes, 0)}.get(op, 0) for op, nbytes in zip(graph.ops, sizes, strict=True)
    ]
    rows = [draw(st.integers(0, len(on) - 1)) for _ in range(len(graph))]
    return on, costs(graph, on, per_node, scratch=scratch, resident=resident), rows


CORES = st.lists(st.sampled_from([1, 2, 3, 20]), min_size=4, max_size=4)


def with_cores(on: Cluster, cores: Sequence[int]) -> Cluster:
    """The cluster with so many cores behind the lanes of each device, from the first again where there are more."""
    devices = [replace(one, cores=cores[row % len(cores)]) for row, one in enumerate(on.devices)]
    return replace(on, devices=tuple(devices))


PROTOCOLS = st.builds(
    Protocol,
    st.just("drawn"),
    request_ns=st.sampled_from([0, 50, 107, 1000]),
    latency_ns=st.sampled_from([0, 3, 1000]),
    send_ns=st.sampled_from([0, 1, 100]),
    receive_ns=st.sampled_from([0, 7]),
    send_ps_per_byte=st.sampled_from([0, 300, 1000]),
    receive_ps_per_byte=st.sampled_from([0, 10]),
    threads=st.sampled_from([0, 0, 1, 2, 8]),
)


@st.composite
def worlds(draw: st.DrawFn, graph: Graph) -> tuple[Cluster, CostTable, list[int], SimulationOptions]:
    """As `runs`, with a protocol between the tasks, and in any order, with any contention."""
    on, priced, rows = draw(runs(graph))
    on = draw(st.just(on) | PROTOCOLS.map(lambda protocol: replace(on, between_tasks=protocol)))
    on = draw(st.just(on) | CORES.map(lambda cores: with_cores(on, cores)))
    contention, order = draw(st.sampled_from(CONTENTIONS)), draw(st.sampled_from(["fifo", "tensorflow"]))
    return on, priced, rows, SimulationOptions(order, contention)


@st.composite
def dags(
    draw: st.DrawFn,
    *,
    max_nodes: int = 20,
    ops: Sequence[str] = ("AddN", "Identity", "Merge", "Unpack", "NoOp"),
    source: str = "Const",
) -> Graph:
    """Sums, identities, unpacks and merges of float vectors, with control edges; `source` is what has no inputs.

    Its constants lack a value, so that they are too large to be copied for all one knows.
    """
    made = Rows()
    values: list[str] = []
    for at in range(draw(st.integers(1, max_nodes))):
        op = draw(st.sampled_from(ops)) if values else source
        arity = {"AddN": draw(st.integers(1, 4)), "Merge": 2, "NoOp": 0, source: 0}.get(op, 1)
        inputs = [draw(st.sampled_from(values)) for _ in range(arity)]
        controls = draw(st.lists(st.sampled_from(made.names), max_size=2, unique=True)) if made.names else []
        name = f"n{at}"
        size = draw(st.sampled_from([1, 2, 25, 250, -1]))
        made.add(name, op, [*inputs, *("^" + control for control in controls)], **attrs_of(op, arity, size))
        if op != "NoOp":
            values.append(name)
        if op == "Unpack":
            values.append(f"{name}:1")
    return made.built()


def attrs_of(op: str, arity: int = 1, size: int = 1) -> dict[str, Any]:
    """Attributes of a node of `dags` whose outputs are float vectors of `size` elements."""
    if op == "NoOp":
        return {}
    attrs = {"dtype" if op in ("Placeholder", "Const") else "T": type_attr()}
    shapes: list[tuple[int, ...]] = [(size,)]
    if op in ("AddN", "Merge"):
        attrs["N"] = AttrValue(i=arity)
    if op == "Merge":
        shapes.append(())
    if op == "Unpack":
        attrs["num"] = AttrValue(i=2)
        shapes.append((size,))
    return {**attrs, "_output_shapes": shapes_attr(*shapes)}


@st.composite
def sizes(draw: st.DrawFn, *, fed: bool = False) -> tuple[Graph, Cluster, list[int]]:
    """Shapes and numbers that GPUs make or read in host memory, and values that they do not; devices of nodes."""
    made = Rows()
    made.add("x", "Placeholder" if fed else "Const", **attrs_of("Placeholder" if fed else "Const", 1, 250))
    reals, numbers = ["x"], list[str]()
    for at in range(draw(st.integers(1, 14))):
        kinds = ["Shape", "AddN", *["Reshape", "Cast", "Identity"] * bool(numbers)]
        name, op = f"n{at}", draw(st.sampled_from(kinds))
        real = draw(st.sampled_from(reals))
        number = draw(st.sampled_from(numbers or ["x"]))
        shape = shapes_attr((draw(st.sampled_from([1, 2, 250])),))
        if op == "Shape":
            made.add(name, op, [real], T=type_attr(), out_type=type_attr(INT32), _output_shapes=shape)
        elif op == "Reshape":
            made.add(name, op, [real, number], T=type_attr(), Tshape=type_attr(INT32), _output_shapes=shape)
        elif op == "Cast":
            made.add(name, op, [number], SrcT=type_attr(INT32), DstT=type_attr(), _output_shapes=shape)
        elif op == "Identity":
            made.add(name, op, [number], T=type_attr(INT32), _output_shapes=shape)
        else:
            made.add(name, op, [real, real], T=type_attr(), N=AttrValue(i=2), _output_shapes=shape)
        (numbers if op in ("Shape", "Identity") else reals).append(name)
    tasks = [["w:0/CPU:0", "w:0/GPU:0"], ["w:1/CPU:0", "w:1/GPU:0"], ["w:0/GPU:1", "w:1/CPU:0"]]
    on = cluster(draw(st.sampled_from([tasks[0], [*tasks[0], *tasks[1]], [*tasks[0], *tasks[2]]])))
    on = draw(st.just(on) | PROTOCOLS.map(lambda protocol: replace(on, between_tasks=protocol)))
    on = with_chips(on) if draw(st.booleans()) else on
    graph = made.built()
    return graph, on, draw(st.lists(st.integers(0, len(on) - 1), min_size=len(graph), max_size=len(graph)))


@st.composite
def crowded(draw: st.DrawFn) -> tuple[Graph, Cluster, list[int], list[int]]:
    """Messages of few sizes over routes of one to four links that meet in different orders; times, devices of nodes."""
    count, links = draw(st.integers(2, 12)), draw(st.integers(2, 5))
    made = Rows()
    made.add("x", "Const", **attrs_of("Const", 1, 250))
    for at in range(count):
        size = draw(st.sampled_from([1, 25, 250, 250, 999]))
        made.add(f"n{at}", "AddN", ["x"], **attrs_of("AddN", 1, size))
        made.add(f"m{at}", "AddN", [f"n{at}"], **attrs_of("AddN", 1, size))
        made.add(f"c{at}", "NoOp", [f"^n{at}"])
    graph = made.built()
    orders = st.permutations(range(links)).flatmap(lambda rows: st.integers(1, 4).map(lambda most: tuple(rows[:most])))
    routes = {(s, t): draw(orders) for s in range(4) for t in range(4) if s != t}
    rates, latency = st.sampled_from([10**9, 10**9, 10**8]), st.sampled_from([0, 0, 10])
    none = draw(st.sampled_from([-1, 0]))  # a link on which nobody waits
    wires = [Link(f"l{at}", draw(latency), draw(rates), "none" if at == none else None) for at in range(links)]
    on = cluster([f"w:{at}/CPU:0" for at in range(4)], wires, routes, lanes=4)
    times = draw(st.lists(st.sampled_from([1, 2, 100, 1000]), min_size=len(graph), max_size=len(graph)))
    rows = draw(st.lists(st.integers(0, 3), min_size=len(graph), max_size=len(graph)))
    return graph, on, times, rows
