"""Place a graph on a cluster: constraints, then an algorithm, then the check that one device would not be faster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from placement.algorithms.heft import heft
from placement.algorithms.requested import requested
from placement.algorithms.single import single
from placement.algorithms.tensorflow import tensorflow
from placement.algorithms.whitepaper import whitepaper
from placement.handing import Algorithm, name_of, plan_by
from placement.judging import verdict
from placement.offering import find
from placement.problem import NEVER, Plan, Problem, pose, require_feasible
from simulator.assignment import COLOCATED, COST, DEFAULT, ONLY, OVERRULED, RELAXED, REQUESTED, Assignment
from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import ANYWHERE, DeviceSpec, matches, parse
from simulator.columns import ids, ints
from simulator.costs.table import CostTable
from simulator.errors import InfeasibleError
from simulator.execution.preparing import Prepared, prepare
from simulator.graph.graph import Graph
from simulator.graph.step import Step
from simulator.placer.constraints import Constraints, constrain
from simulator.units import Nanos, show_nanos

ALGORITHMS: Mapping[str, Algorithm] = {
    "tensorflow": tensorflow,
    "requested": requested,
    "single": single,
    "whitepaper": whitepaper,
    "heft": heft,
}
_WITHOUT_COSTS = ("tensorflow", "requested")  # as TensorFlow, these look at neither costs nor memory
_AS_THEY_ARE = (*_WITHOUT_COSTS, "single")  # never replaced by another algorithm's result


@dataclass(frozen=True, slots=True)
class _Result:
    used: str
    plan: Plan
    notes: tuple[str, ...] = ()


def place(
    graph: Graph,
    cluster: Cluster,
    costs: CostTable,
    *,
    step: Step,
    algorithm: str | Algorithm = "whitepaper",
    soft: bool = True,
    seed: int = 0,
    fallback: bool = True,
    prepared: Prepared | None = None,
    seen: Mapping[str, str] = MappingProxyType({}),
    order: str = "auto",
    contention: str = "serial",
    flavour: str = "auto",
) -> Assignment:
    """Give every node of the graph a device.

    `algorithm` is a key of ALGORITHMS, the name of one that an installed package offers (`offering`), or a function
    Problem -> Plan (docs/algorithms.md). With `fallback`, `whitepaper` and `heft` give way to `single` where the
    simulator finds that one device is faster, or where the algorithm ran out of memory; the result says so. An
    algorithm that is not simviz's own stands, and a note says where one device would be faster. `soft` is soft
    placement as in TensorFlow: a device that does not exist gives way to another of the same task. `seed` is for
    algorithms that draw; none of these does, so the result does not depend on it. `prepared` is what `prepare` makes of
    the same values, where the caller has it already. `seen`, node -> device, is where TensorFlow put nodes: the
    algorithm `tensorflow` takes it over for the few whose device is by chance. `order` and `contention` are those of
    `simulate`, `flavour` is that of `partition`: by these the plans that a search finds are judged.

    Raises InfeasibleError if a group has no device or its memory does not fit, GraphError for a malformed device, and
    SimvizError for an algorithm that there is not, that fails, or whose plan is none.
    """
    name, solver = _named(algorithm)
    constraints = constrain(graph, cluster, soft=soft)
    if prepared is None:
        prepared = prepare(graph, step, cluster, costs)
    problem = pose(
        graph,
        prepared,
        cluster,
        constraints,
        seen=_rows(graph, cluster, seen),
        order=order,
        contention=contention,
        flavour=flavour,
    )
    if name not in _WITHOUT_COSTS or solver is not None:
        require_feasible(problem)
    if solver is not None:
        result = _handed(problem, name, solver, compared=fallback)
    else:
        result = _solve(problem, name, fallback=fallback and name not in _AS_THEY_ARE)
    plan = result.plan
    return Assignment(
        devices=tuple(device.name for device in cluster.devices),
        device=ids([plan.device[row] for row in constraints.group.tolist()]),
        why=ids(_why(problem, constraints, plan, soft=soft)),
        asked=name,
        used=result.used,
        priority=None if plan.priority is None else ints(plan.priority),
        notes=(*constraints.notes, *plan.notes, *result.notes),
        constraints=constraints,
        log_order=None if plan.log_order is None else ids(plan.log_order),
    )


def _named(algorithm: object) -> tuple[str, Algorithm | None]:
    """The name of an algorithm, and its function where it is not simviz's own."""
    if algorithm in tuple(ALGORITHMS):  # which takes what has no hash, too
        return str(algorithm), None
    return name_of(algorithm), algorithm if callable(algorithm) else find(algorithm, tuple(ALGORITHMS))


def _handed(problem: Problem, name: str, algorithm: Algorithm, *, compared: bool) -> _Result:
    """The plan of somebody else's algorithm; a note says where a single device would be faster."""
    plan = plan_by(algorithm, name, problem)
    if not compared:
        return _Result(name, plan)
    try:
        alone = single(problem)
    except InfeasibleError:  # no single device holds the graph
        return _Result(name, plan)
    (full, ours), (alone_full, theirs) = verdict(problem, plan), verdict(problem, alone)
    if (full, ours) <= (alone_full, theirs):
        return _Result(name, plan)
    said = "would run out of memory" if full and not alone_full else f"takes {_shown(ours)}"
    return _Result(name, plan, (f"single takes {show_nanos(theirs)}, and {name}, which is shown, {said}",))


def _rows(graph: Graph, cluster: Cluster, seen: Mapping[str, str]) -> dict[int, int]:
    return {
        graph.index[name]: cluster.index[device]
        for name, device in seen.items()
        if name in graph.index and device in cluster.index
    }


def _solve(problem: Problem, algorithm: str, *, fallback: bool) -> _Result:
    """The algorithm's plan, or that of `single` where it is faster or the only one whose memory holds the step."""
    if not fallback:
        return _Result(algorithm, ALGORITHMS[algorithm](problem))
    try:
        plan = ALGORITHMS[algorithm](problem)
    except InfeasibleError as error:
        said = f"{algorithm} ran out of memory, so this is the result of single: {error}"
        return _Result("single", single(problem), (said,))
    try:
        alone = single(problem)
    except InfeasibleError:  # no single device holds the graph
        return _Result(algorithm, plan)
    ours, theirs = verdict(problem, plan), verdict(problem, alone)
    if ours <= theirs:
        return _Result(algorithm, plan)
    if ours[0] > theirs[0]:
        said = f"{algorithm} would run out of memory in the step, so this is the result of single"
    else:
        said = (
            f"single takes {show_nanos(theirs[1])} and {algorithm} {_shown(ours[1])}, so this is the result of single"
        )
    return _Result("single", alone, (said,))


def _shown(ends: Nanos) -> str:
    return "has no way for some value" if ends == NEVER else show_nanos(ends)


def _why(problem: Problem, constraints: Constraints, plan: Plan, *, soft: bool) -> list[int]:
    """[N] the rule that decided each node's device; what it asked for and did not get comes first."""
    devices = [parse(device.name) for device in problem.cluster.devices]
    decider = plan.decider or [-1] * len(plan.device)
    deciding = {problem.tables.node.item(op) for op in decider[: len(constraints.members)] if op >= 0}
    verdicts: dict[tuple[DeviceSpec, int], int] = {}
    why = []
    for node, row in enumerate(constraints.group.tolist()):
        spec, rule = constraints.specs[node], plan.rule[row] if plan.why is None else plan.why[node]
        if spec != ANYWHERE:
            key = (spec, plan.device[row])
            verdict = verdicts.get(key)
            if verdict is None:
                verdict = verdicts[key] = _verdict(spec, devices[plan.device[row]], soft=soft)
            if verdict != REQUESTED or rule in (DEFAULT, ONLY, COLOCATED):
                rule = verdict
        elif rule == DEFAULT and constraints.asked[row]:
            rule = COLOCATED
        if rule == COST and node not in deciding:
            rule = COLOCATED
        why.append(rule)
    return why


def _verdict(spec: DeviceSpec, device: DeviceSpec, *, soft: bool) -> int:
    """Whether a node has what it asked for; soft placement changes type and number only, a reference anything."""
    if matches(spec, device):
        return REQUESTED
    return RELAXED if soft and matches(spec._replace(type=None, id=None), device) else OVERRULED
