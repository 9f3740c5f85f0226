"""The answer of simviz for a random program against that of a session: nodes that ran, how often, dead fetches."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from placement import place
from simulator.cluster.cluster import Cluster
from simulator.cluster.description import load_cluster
from simulator.costs.estimate import estimate
from simulator.errors import DeadlockError, SimvizError
from simulator.execution.options import SimulationOptions
from simulator.execution.tables import Tables, of_partitions, of_step
from simulator.graph.graph import Graph
from simulator.graph.importer import read_graph
from simulator.graph.inlining.expanding import inline, lower
from simulator.graph.messages import GraphDef
from simulator.graph.step import Step, choose_step
from simulator.oracle import child
from simulator.oracle.child import Asking
from simulator.partitioning.cut import partition

TIMEOUT_S = 120.0
WITHOUT_A_LINE = {"_Send", "_Recv", "_HostSend", "_HostRecv"}  # in the statistics of a session


@dataclass(frozen=True)
class Case:
    """A program, and what a session did with it."""

    message: bytes  # GraphDef
    facts: Mapping[str, Any]  # as `running` tells them

    @property
    def graph(self) -> Graph:
        return lower(inline(read_graph(GraphDef.FromString(self.message))))


@dataclass(frozen=True)
class Verdict:
    """The number of nodes that were compared; without `said` both agree."""

    said: str = ""
    nodes: int = 0  # that ran, in the pieces
    runs: int = 0
    dead: int = 0  # nodes that never ran
    looks: int = 0  # fetches
    dead_looks: int = 0
    of: Mapping[str, int] = field(default_factory=dict)  # nodes of kinds that say what the program had


@contextmanager
def conversation() -> Iterator[Asking]:
    """The conversation with a child that `ask` needs, for as long as the block lasts."""
    with child.conversation("tests.control_flow.running") as asking:
        yield asking


def ask(asking: Asking, seed: int | str, size: int, *, v2: bool) -> Case:
    """Draw a program and have a session run it. Raises OracleError as `running` does, and DIED."""
    facts, (message,) = child.unpack(asking(child.pack({"seed": seed, "size": size, "v2": v2}), TIMEOUT_S))
    return Case(message, facts)


def ask_for(asking: Asking, example: str) -> Case:
    """Have a session run a program that is written by hand."""
    facts, (message,) = child.unpack(asking(child.pack({"example": example}), TIMEOUT_S))
    return Case(message, facts)


def judged(case: Case) -> Verdict:
    """Hold our answer against the session's."""
    facts, graph = case.facts, case.graph
    on = load_cluster(f"{facts['cpus']}cpu")
    step = choose_step(graph, feeds=tuple(facts["feeds"]), fetches=facts["targets"])
    try:
        whole, cut, names = tables_of(graph, step, on, facts)
    except SimvizError as error:
        return Verdict(f"{type(error).__name__}: {error}")
    ours, theirs = counts(cut, names, graph), Counter[str]()
    for name, n in facts["counts"].items():
        theirs[plain(name, graph)] += n
    del theirs["_SOURCE"]
    different = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name, 0) != theirs.get(name, 0))
    if different:
        shown = ", ".join(f"{name}: ours {ours.get(name, 0)}, theirs {theirs.get(name, 0)}" for name in different[:4])
        return Verdict(f"{len(different)} of {len(theirs)} nodes run more or less often: {shown}")
    first = counts(whole, dict.fromkeys(graph.names, ""), graph)
    apart = sorted(name for name in first if name in ours and ours[name] != first[name])
    if apart:
        return Verdict(f"step and pieces differ: {apart[0]}")
    looks = [is_dead(graph, name, on, facts) for name in facts["looks"]]
    for name, ours_dead, theirs_dead in zip(facts["looks"], looks, facts["dead"], strict=True):
        if ours_dead != theirs_dead:
            return Verdict(f"fetch {name}: ours {alive(ours_dead)}, theirs {alive(theirs_dead)}")
    kinds = Counter(graph.ops)
    return Verdict(
        nodes=len(ours),
        runs=sum(ours.values()),
        dead=int(step.runs.sum()) - sum(name in ours for name in graph.names),
        looks=len(looks),
        dead_looks=sum(looks),
        of={kind: kinds[kind] for kind in ("Switch", "_SwitchN", "LoopCond", "ControlTrigger", "StackPopV2")},
    )


def never_ends(case: Case) -> bool:
    """Whether we say that a device waits for ever in the step."""
    facts, graph = case.facts, case.graph
    step = choose_step(graph, feeds=tuple(facts["feeds"]), fetches=facts["targets"])
    try:
        tables_of(graph, step, load_cluster(f"{facts['cpus']}cpu"), facts)
    except SimvizError as error:
        return isinstance(error, DeadlockError)
    return False


def plain(name: str, graph: Graph) -> str:
    """A name without what TensorFlow's cut numbers, and without the edges that it names a control loop after."""
    if name in graph.index:
        return name
    if name.startswith("_cloop") or (re.search(r"/_\d+$", name) and not re.search(r"/(ctrl|replicate)/_\d+$", name)):
        return "_cloop" if name.startswith("_cloop") else "_begin"
    return re.sub(r"/_\d+$", "", name)


def alive(dead: bool) -> str:
    return "dead" if dead else "live"


def counts(tables: Tables, names: Mapping[str, str], graph: Graph) -> Counter[str]:
    """The number of runs of each node that has a line in a session's statistics."""
    rows = [tables.names[row] for row in np.flatnonzero(~tables.silent).tolist()]
    return Counter(plain(name, graph) for name in rows if names.get(name, "_Send") not in WITHOUT_A_LINE)


def tables_of(graph: Graph, step: Step, on: Cluster, facts: Mapping[str, Any]) -> tuple[Tables, Tables, dict[str, str]]:
    """The step and its pieces, as TensorFlow places them, and the op of each node of the pieces."""
    costs, known = estimate(graph, on), options(graph, step, on, facts)
    whole = of_step(graph, step, on, costs, known)
    placed = place(graph, on, costs, step=step, algorithm="tensorflow", soft=True)
    pieces = partition(graph, placed, on, step=step)
    cut, _ = of_partitions(pieces, on, costs, known)
    return whole, cut, dict(zip(pieces.graph.names, pieces.graph.ops, strict=True))


def is_dead(graph: Graph, name: str, on: Cluster, facts: Mapping[str, Any]) -> bool:
    """Whether nothing comes where the client fetches a tensor, or it is refused for that."""
    step = choose_step(graph, feeds=tuple(facts["feeds"]), fetches=[name])
    try:
        tables = of_step(graph, step, on, estimate(graph, on), options(graph, step, on, facts))
    except SimvizError as error:
        if f"The fetch {name!r} is dead with" not in str(error):
            raise
        return True
    fetched = f"{name} (fetched)"
    return fetched not in tables.names or bool(tables.silent[tables.names.index(fetched)])


def options(graph: Graph, step: Step, on: Cluster, facts: Mapping[str, Any]) -> SimulationOptions:
    """Trips and branches that the data decides, for those loops and predicates that the step has."""
    frames = {
        attrs["frame_name"].s.decode()
        for row, attrs in enumerate(graph.attrs)
        if step.runs[row] and "frame_name" in attrs
    }
    trips = {frame: n for name, n in facts["trips"].items() for frame in frames if forward(frame, name)}
    branches = {
        node: value
        for name, value in facts["branches"].items()
        for node in graph.names
        if node.split("/")[-1] == name.split("/")[-1] and "grad" not in node
    }
    while True:  # a predicate may be there without anybody who asks it
        try:
            of_step(graph, step, on, estimate(graph, on), SimulationOptions(trips=trips, branches=branches))
        except SimvizError as error:
            said = str(error)
            wrong = next(
                (name for name in branches if re.search(rf"no predicate {name!r};|^{name!r} chooses", said)), None
            )
            if wrong is None:
                raise
            if sides := re.search(r"chooses among (\d+) branches", said):  # TensorFlow takes the last one
                branches[wrong] = int(sides[1]) - 1
            else:
                del branches[wrong]
        else:
            return SimulationOptions(trips=trips, branches=branches)


def forward(frame: str, name: str) -> bool:
    """Whether a frame is that of the loop, which a function's gradient renames, and not of its gradient."""
    parts = frame.removesuffix("/while_context").split("/")
    return parts[-1] in (name, f"{name}_0") and "grad" not in frame


def written(case: Case) -> bytes:
    """A case for a file."""
    return child.pack(dict(case.facts), [case.message])


def read(body: bytes) -> Case:
    """A case from a file."""
    facts, (message,) = child.unpack(body)
    return Case(message, json.loads(json.dumps(facts)))
