"""Random graphs, judged: our shapes beside those of TensorFlow and those of the run."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from simulator.errors import OracleError
from simulator.graph.dtypes import RESOURCE, VARIANT, base
from simulator.graph.graph import Graph, Shape
from simulator.loading import flat
from simulator.oracle import child
from simulator.shapes.propagation import Inferred, infer

STEPS = 25  # ops that are tried per graph; some make several nodes
_TIMEOUT_S = 120.0

Answer: TypeAlias = Mapping[str, Any]  # Any: what the child wrote as JSON


@dataclass
class Verdict:
    """What became of the graphs."""

    counts: Counter[str] = field(default_factory=Counter)
    other: list[str] = field(default_factory=list)  # tensors of another shape than TensorFlow's
    untrue: list[str] = field(default_factory=list)  # tensors of another shape when they run
    alone: list[str] = field(default_factory=list)  # graphs that only one side refuses
    less: Counter[str] = field(default_factory=Counter)  # op -> tensors of which TensorFlow knows more


def judged(numbers: Iterable[int], verdict: Verdict | None = None) -> Verdict:
    """Draw the graphs of these numbers in a child process and compare; a number makes the same graph again."""
    found = Verdict() if verdict is None else verdict
    with child.conversation("tests.oracle.random_shapes") as ask:
        for number in numbers:
            question = json.dumps({"seeds": [f"s{number}"], "steps": STEPS}).encode()
            try:
                (answer,) = json.loads(ask(question, _TIMEOUT_S))
            except OracleError:  # TensorFlow dies of a few graphs
                found.counts["died"] += 1
                continue
            found.counts["graphs"] += 1
            _compare(number, answer, found)
    return found


def _compare(number: int, answer: Answer, found: Verdict) -> None:
    graph = flat(base64.b64decode(answer["graph"]))
    real = {} if isinstance(answer["fed"], str) else answer["real"]  # eagerly some kernels take what is refused
    for kind in ("open", "fed"):
        given = _given(graph, answer["feeds"]) if kind == "fed" else {}
        ours = infer(graph, given, [None] * len(graph.tensor_node))
        listed = answer[kind]
        if isinstance(listed, str):
            found.counts["refused"] += 1
            found.counts["refused alike"] += bool(ours.clashes)
            if not ours.clashes:
                found.alone.append(f"{number} {kind}: {listed}")
            continue
        found.counts["refused by us alone"] += bool(ours.clashes)
        found.alone += [f"{number} {kind}: {graph.names[clash.node]}: {clash.said}" for clash in ours.clashes[:1]]
        theirs = [None if sides is None else tuple(sides) for outputs in listed for sides in outputs]
        _tensors(f"{number} {kind}", graph, ours, theirs, real, found)


def _given(graph: Graph, feeds: Mapping[str, list[int]]) -> dict[int, Shape]:
    return {int(graph.tensor_ptr[graph.row(name.partition(":")[0])]): tuple(dims) for name, dims in feeds.items()}


def _tensors(
    where: str,
    graph: Graph,
    inferred: Inferred,
    theirs: list[Shape | None],
    real: Mapping[str, list[int]],
    found: Verdict,
) -> None:
    for row, (known, their) in enumerate(zip(inferred.shapes, theirs, strict=True)):
        if base(int(graph.tensor_dtype[row])) in (RESOURCE, VARIANT):
            continue
        ours = None if known is None else tuple([max(side, -1) for side in known])
        name, op = graph.tensor_name(row), graph.ops[graph.tensor_node[row]]
        found.counts["tensors"] += 1
        found.counts["known"] += ours is not None and -1 not in ours
        run = real.get(name)
        if run is not None and their is not None and 0 not in run and _differ(tuple(run), their):
            found.counts["untrue of TensorFlow"] += 1  # its SplitV takes an axis that is computed for the last one
            if ours is not None and not _differ(ours, their):
                run = None  # eagerly Conv2D takes a window that is wider than its input
        elif their is not None and ours is not None and _differ(ours, their):
            found.other.append(f"{where}: {name} ({op}) is {ours}, by TensorFlow {their}")
        elif _knows_less(ours, their):
            found.counts["less"] += 1
            found.less[op] += 1
        elif ours != their:
            found.counts["more"] += 1
        if run is not None and 0 not in run:  # kernels do as they like with nothing
            found.counts["run"] += 1
            if ours is not None and _differ(ours, tuple(run)):
                found.untrue.append(f"{where}: {name} ({op}) is {ours}, when it runs {run}")


def _differ(ours: Shape, theirs: Shape) -> bool:
    return len(ours) != len(theirs) or any(a != b and min(a, b) >= 0 for a, b in zip(ours, theirs, strict=True))


def _knows_less(ours: Shape | None, theirs: Shape | None) -> bool:
    if theirs is None:
        return False
    return ours is None or any(a < 0 <= b for a, b in zip(ours, theirs, strict=True))
