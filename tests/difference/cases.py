"""Cases: a random graph, the cluster that it meets, and what the step feeds and fetches.

`drawn(random)` draws one from any Random: a seeded one, or hypothesis's own, with which a case shrinks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.cluster.description import load_cluster
from simulator.cluster.master import connected
from simulator.graph.dtypes import BOOL, FLOAT, INT32, STRING
from simulator.graph.graph import Graph
from simulator.graph.inlining.expanding import inline, lower
from simulator.graph.messages import AttrValue
from simulator.graph.step import Step, choose_step
from tests.difference import anything, computing, flow, functions, state
from tests.difference.sketch import Sketch, chance

# Clusters by notation, with the task of the session or by custom; "" is a local session's own process.
LOCAL = (("1cpu", ""), ("2cpu", ""), ("4cpu", ""), ("12cpu", ""))
STOOD_IN = (
    ("1gpu", ""),
    ("4gpu", ""),
    ("2cpu,3gpu", ""),
    ("ps=1,worker=1", ""),
    ("ps=2,worker=2", "ps:1"),
    ("ps=2,worker=2", "standin_client"),
    ("ps=1,worker=2x2gpu", ""),
    ("ps=2,worker=2x2gpu", "ps:0"),
    ("ps=1x1gpu,worker=2x1gpu", ""),
    ("a=12x1gpu", ""),
    ("ps=3,w=11", "w:10"),
    ("ps=1,worker=1x12gpu", "ps:0"),
)

# Tasks of CPUs alone get real workers behind their stand-ins, which show how they cut what the master sends them.
REAL_WORKERS = (
    ("ps=2x2cpu,worker=2x3cpu", ""),
    ("ps=1x3cpu,worker=1x2gpu", "ps:0"),
    ("a=1x11cpu,b=1x2cpu", "b:0"),
)

# Device strings of every form of C++'s parser (device_name_utils.cc), by what they ask for
ANYWHERE = ("", "/", "/job:*", "/replica:0", "/replica:*/task:*", "/device:*")
CPUS = ("/cpu:0", "/CPU:0", "/cpu:1", "/device:CPU:1", "/device:CPU:*", "/cpu:*", "/device:CPU:01", "/gpu:0/cpu:0")
GPUS = ("/gpu:0", "/GPU:1", "/device:GPU:0", "/device:GPU:*", "/device:GPU", "/gpu:*", "/device:GPU:2", "/cpu:0/gpu:1")
PARTIAL = ("/device:*:1", "/device:*:0", "/task:0", "/task:1", "/task:00", "/job:*/task:1", "/task:0/device:CPU:1")
ABSENT = (
    "/device:CPU:7",
    "/device:cpu:1",
    "/device:gpu:0",
    "/device:TPU:0",
    "/gpu:9",
    "/device:*:9",
    "/device:XLA_CPU:0",
)
ELSEWHERE = ("/job:nowhere", "/replica:1", "/task:77", "/job:ps/task:0", "/job:worker")
MALFORMED = (
    "cpu:1",
    "//cpu:1",
    "/cpu",
    "/Cpu:1",
    "/job:a-b",
    "/device:CPU:x",
    "/cpu:1/",
    "/task:x",
    "/job:",
    "/gpu:-1",
)


@dataclass(frozen=True, eq=False)
class Case:
    """One question to both sides."""

    given: Graph  # what both are handed
    notation: str
    master: str
    soft: bool
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    sorts: tuple[str, ...] = ()  # of the patterns that were drawn

    @property
    def real_workers(self) -> bool:
        """Whether the second level of the cut is asked for, too."""
        return (self.notation, self.master) in REAL_WORKERS

    @cached_property
    def graph(self) -> Graph:
        """What is placed: a session lowers If, While and Case that are marked for it."""
        return lower(self.given)

    @property
    def cluster(self) -> Cluster:
        cluster = load_cluster(self.notation)
        return connected(cluster, self.master) if self.master else cluster

    @property
    def step(self) -> Step:
        return choose_step(self.graph, feeds=self.feeds, fetches=self.fetches)


def step_of(sketch: Sketch) -> None:
    """One pattern of those that may stand inside of others."""
    chosen = sketch.random.choice(_INNER)
    if chosen is flow.loop and len(sketch.scopes) > flow.DEEPEST:
        chosen = computing.unary
    if chosen is flow.branch or chosen is flow.loop:
        if len(sketch.scopes) <= flow.DEEPEST:
            chosen(sketch, step_of)
    else:
        chosen(sketch)


_PLAIN = [*(make for makes in computing.PATTERNS.values() for make in makes), anything.any_op]
_STATE = [make for makes in state.PATTERNS.values() for make in makes]
_INNER: list[Callable[..., None]] = [*_PLAIN, *_PLAIN, *_PLAIN, *_STATE, *[flow.branch] * 2, *[flow.loop] * 2]
# Within functions: no loops of version 1, whose frames the runtime would have to name anew
_BODY = [*_PLAIN, *_PLAIN, state.resource_variable, state.use_handles, state.table]


def body_step(sketch: Sketch) -> None:
    """One pattern of a function's body, a call of another function among them."""
    if sketch.chance(0.1) and len(sketch.library) < 8:
        sketch.random.choice([functions.call, functions.conditional, functions.repeat])(sketch, body_step)
    else:
        sketch.random.choice(_BODY)(sketch)


SORTS: dict[str, tuple[Callable[[Sketch], None], ...]] = {
    **computing.PATTERNS,
    **state.PATTERNS,
    "any op": (anything.any_op,),
    "conditionals": (lambda sketch: flow.branch(sketch, step_of), flow.ref_branch),
    "loops": (lambda sketch: flow.loop(sketch, step_of), flow.ref_loop),
}
CALLS: dict[str, tuple[Callable[[Sketch], None], ...]] = {
    "calls": (lambda sketch: functions.call(sketch, body_step),),
    "functional conditionals": (lambda sketch: functions.conditional(sketch, body_step),),
    "functional loops": (lambda sketch: functions.repeat(sketch, body_step),),
}
RESOURCE_CALLS: dict[str, tuple[Callable[[Sketch], None], ...]] = {
    "calls that give resources": (functions.resource_call,)
}


def drawn(
    random: Random, clusters: Sequence[tuple[str, str]] = LOCAL, *, keep_calls: bool = True, most: int = 14
) -> Case:
    """A case on one of the clusters. Without `keep_calls` the graph is expanded: both sides get the flat one."""
    notation, master = random.choice(clusters)
    sketch = Sketch(random, _requests(random, notation))
    sketch.control = random.choice([0.0, 0.1, 0.3])
    sorts = _sorts(random)
    computing.unary(sketch)  # something to hold on to
    for _ in range(random.randint(1, 4 * most if chance(random, 0.05) else most)):
        random.choice(SORTS_ALL[random.choice(sorts)])(sketch)
    _tie(sketch)
    _mark(sketch)
    graph = _shuffled(random, sketch)
    graph = graph if keep_calls else inline(graph)
    feeds, fetches = _ends(random, graph)
    return Case(graph, notation, master, chance(random, 0.65), feeds, fetches, tuple(sorts))


SORTS_ALL = {**SORTS, **CALLS, **RESOURCE_CALLS}


def _sorts(random: Random) -> list[str]:
    """A few sorts, so that a small graph has much of each; functions in one case of four."""
    chosen = ["arithmetic", *random.sample(sorted(SORTS), random.randint(1, 5))]
    if chance(random, 0.25):
        chosen += random.sample(sorted(CALLS), random.randint(1, 2))
        if chance(random, 0.2):
            chosen += ["resource variables", *RESOURCE_CALLS]
    return list(dict.fromkeys(chosen))


def _requests(random: Random, notation: str) -> list[str]:
    """A palette of device strings: few, so that they meet again, and more often good than bad."""
    names = [device.name for device in load_cluster(notation).devices]
    shorter = [name.partition("/device")[0] for name in names] + [name.replace("/replica:0", "") for name in names]
    jobs = [name.partition("/replica")[0] for name in names]
    kinds = [*[names, shorter, jobs] * 2, ANYWHERE, CPUS, CPUS, GPUS, GPUS, PARTIAL, ABSENT]
    chosen = [random.choice(random.choice(kinds)) for _ in range(random.randint(1, 6))]
    if chance(random, 0.06):
        chosen.append(random.choice(ELSEWHERE))
    if chance(random, 0.02):
        chosen.append(random.choice(MALFORMED))
    return [*[""] * random.choice([0, len(chosen), 2 * len(chosen)]), *chosen]


def _tie(sketch: Sketch) -> None:
    """Colocation of every sort: with others, earlier or later, with itself, with names of nothing, in odd forms."""
    random = sketch.random
    share = random.choice([0.0, 0.0, 0.0, 0.1, 0.3])
    names = sketch.rows.names
    targets = [random.choice(names) for _ in range(random.randint(1, 4))]
    for row, attrs in enumerate(sketch.rows.attrs):
        if not chance(random, share):
            continue
        made = AttrValue()
        for _ in range(random.choice([1, 1, 1, 2, 3])):
            kinds = [names[row], "ghost", "other ghost", *targets, *targets, random.choice(names)]
            made.list.s.append(f"loc:@{random.choice(kinds)}".encode())
        if chance(random, 0.1):
            made.list.s.insert(0, random.choice([b"", b"loc:", b"ghost", names[0].encode()]))
        attrs["_class"] = AttrValue(s=made.list.s[0]) if chance(random, 0.05) else made


def _mark(sketch: Sketch) -> None:
    """Attributes that change which kernel and which memory a node has."""
    random = sketch.random
    if not chance(random, 0.1):
        return
    for attrs in sketch.rows.attrs:
        if chance(random, 0.2):
            attrs[random.choice(["_input_hostmem", "_output_hostmem"])] = AttrValue(list={"i": [random.choice([0, 1])]})
        if chance(random, 0.01):
            attrs["_kernel"] = AttrValue(s=random.choice([b"", b"host", b"eigen_tensor"]))


def _shuffled(random: Random, sketch: Sketch) -> Graph:
    """The graph; its nodes in the order drawn or in any other, as a file may hold them."""
    rows = sketch.rows
    if chance(random, 0.4):
        order = list(range(len(rows.names)))
        random.shuffle(order)
        for column in ("names", "ops", "requested", "inputs", "attrs"):
            values = getattr(rows, column)
            setattr(rows, column, [values[at] for at in order])
    return rows.built(library=sketch.library, producer=2000)


_FETCHED = frozenset({FLOAT, INT32, STRING, BOOL, 2, 9})


def _ends(random: Random, graph: Graph) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is fed and fetched: tensors and nodes, mostly the ends of the graph so that much of it runs."""
    outdegree = np.bincount(graph.edge_src, minlength=len(graph))
    sinks = [graph.names[row] for row in np.flatnonzero(outdegree == 0).tolist()] or [graph.names[-1]]
    if chance(random, 0.3):
        sinks = random.sample(sinks, random.randint(1, len(sinks)))
    plain = [at for at, dtype in enumerate(graph.tensor_dtype.tolist()) if dtype in _FETCHED]
    loops = _in_loops(graph)
    plain = [at for at in plain if not loops[int(graph.tensor_node[at])]]
    fetched = [graph.tensor_name(random.choice(plain)) for _ in range(random.choice([0, 0, 1, 3]))] if plain else []
    fed = [graph.tensor_name(random.choice(plain)) for _ in range(random.choice([0, 0, 0, 1, 2]))] if plain else []
    fetched = [name for name in dict.fromkeys(fetched) if name not in fed]
    return tuple(dict.fromkeys(fed)), (*sinks, *fetched)


def _in_loops(graph: Graph) -> list[bool]:
    """Whether a node stands inside a loop: what runs there can be neither fed nor fetched."""
    inside = [False] * len(graph)
    for row in graph.order.tolist():
        edges = range(int(graph.in_ptr[row]), int(graph.in_ptr[row + 1]))
        before = any(inside[int(graph.edge_src[edge])] for edge in edges)
        inside[row] = graph.ops[row] in ("Enter", "RefEnter") or (before and graph.ops[row] != "Exit")
    return inside
