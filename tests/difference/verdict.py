"""What simviz says of a case, beside what TensorFlow did: nothing, or the first aspect on which the two differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from placement import place
from simulator.assignment import Assignment
from simulator.cluster.cluster import Cluster
from simulator.cluster.master import can_hold_master
from simulator.comparison.comparison import compare_items
from simulator.costs.estimate import estimate
from simulator.errors import GraphError, InfeasibleError
from simulator.execution.loops.choices import EndlessError
from simulator.oracle.child import Asking
from simulator.oracle.dry_runs import DryRun, extended
from simulator.oracle.verification import compare_refusals, complaint, differences
from simulator.partitioning.cut import partition
from tests.difference.asking import ask
from tests.difference.cases import Case

PLACEMENT, ORDER, REFUSAL, CUT = ("placement", "log order", "refusal", "cut")
AGAIN = 4  # questions about what differs
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Verdict:
    """How a case was answered. Without `aspect` both agree."""

    aspect: str = ""
    said: str = ""  # both sides, of the first difference
    refused: bool = False  # by TensorFlow's placer
    elsewhere: bool = False  # TensorFlow refuses before it places: a loop that is none, a call that does not fit
    endless: bool = False  # we refuse a loop that would never end, which TensorFlow places without running it
    placed: int = 0  # nodes
    cut: int = 0  # nodes of the pieces that were compared
    raw: int = 0  # of them equal as they stand
    chance: bool = False  # TensorFlow's own answers differ, and one of them is ours


def verdict_on(asking: Asking, case: Case) -> Verdict | None:
    """Ask about a case and judge it; None if TensorFlow does not import it.

    What differs is asked again: above eight edges, of TensorFlow's own source too, the order of a set of pointers
    decides who is moved first. Raises OracleError as `ask` does.
    """
    first: Verdict | None = None
    for _ in range(1 + AGAIN):
        seen = ask(asking, case)
        if seen is None:
            return None
        verdict = judged(case, seen)
        if not verdict.aspect:
            return replace(verdict, chance=first is not None)
        first = first or verdict
    return first


def judged(case: Case, seen: DryRun) -> Verdict:
    """Hold our answer against TensorFlow's."""
    cluster = extended(case.cluster)
    whole = seen.refusal is None or len(seen.placement) >= len(case.graph)  # later refusals are not the placer's
    if not whole and complaint(str(seen.refusal)) is None:
        return Verdict(elsewhere=True)
    try:
        placed = _placed(case, cluster)
        if compare_items(placed, seen.placement, graph=case.graph).differences:
            placed = _placed(case, cluster, seen.placement)
    except EndlessError:
        return Verdict(endless=True)
    except (InfeasibleError, GraphError) as error:
        return _both_refuse(case, error, seen)
    if not whole:
        return Verdict(REFUSAL, f"only TensorFlow refuses: {seen.refusal}")
    names, logged = case.graph.names, list(seen.placement)
    found = compare_items(placed, seen.placement, graph=case.graph)
    if found.differences:
        first = min(found.differences, key=lambda one: [*logged, one.node].index(one.node))
        said = f"{found.of - found.agree} of {found.of}, first {first.node}: ours {first.ours}, theirs {first.theirs}"
        return Verdict(PLACEMENT, f"{said} ({first.rule})")
    assert placed.log_order is not None
    order = [names[row] for row in placed.log_order.tolist()]
    if order != logged:
        at = next(at for at, pair in enumerate(zip(order, logged, strict=True)) if pair[0] != pair[1])
        return Verdict(ORDER, f"at {at}: ours {order[at]}, theirs {logged[at]}")
    if seen.refusal is not None:
        return Verdict(placed=len(names))
    return _cut(case, placed, cluster, seen)


def _placed(case: Case, cluster: Cluster, seen: Mapping[str, str] = NOTHING) -> Assignment:
    costs = estimate(case.graph, cluster)
    return place(case.graph, cluster, costs, step=case.step, algorithm="tensorflow", soft=case.soft, seen=seen)


def _both_refuse(case: Case, error: InfeasibleError | GraphError, seen: DryRun) -> Verdict:
    found = compare_refusals(case.graph, error, seen)
    return Verdict(refused=True) if found.agree else Verdict(REFUSAL, f"{found.said}\n    ours   {error}".rstrip())


def _cut(case: Case, placed: Assignment, cluster: Cluster, seen: DryRun) -> Verdict:
    _, found = differences(case.graph, cluster, placed, case.step, seen)
    levels = [found]
    if case.real_workers:
        cut = partition(case.graph, placed, cluster, step=case.step, flavour="master")
        tasks = [task for task in cluster.tasks if can_hold_master(replace(cluster, master=task))]
        pieces = (*seen.worker_partitions, *(piece for piece in seen.partitions if _task(piece) not in tasks))
        levels.append(compare_items(cut, pieces, graph=case.graph, tasks=tasks))
    for found in levels:
        if found.differences:
            one = found.differences[0]
            said = f"{found.of - found.agree} of {found.of}, first {one.node}"
            return Verdict(CUT, f"{said}:\n    ours   {one.ours}\n    theirs {one.theirs}\n    {one.rule}")
    of, raw = (sum(getattr(found, what) for found in levels) for what in ("of", "raw"))
    return Verdict(placed=len(case.graph), cut=of, raw=raw)


def _task(piece: Any) -> str:
    return str(piece.node[0].device.partition("/device:")[0])
