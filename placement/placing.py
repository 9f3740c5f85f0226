"""Place a graph on a cluster: find the constraints, run an algorithm, and check that one device would not be faster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypedDict

from placement.algorithms import TABLE, load
from placement.algorithms.single import single
from placement.effort import DEFAULT_EFFORT, Effort
from placement.plan import Algorithm, Plan, completed, plan_by, verdict
from placement.plugins import find
from placement.problem import NEVER, Problem, pose, require_feasible
from simulator.assignment import COLOCATED, COST, DEFAULT, ONLY, OVERRULED, RELAXED, REQUESTED, Assignment
from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import ANYWHERE, DeviceSpec, matches, parse
from simulator.columns import ids, ints
from simulator.costs.table import CostTable
from simulator.errors import InfeasibleError
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import Prepared, prepare
from simulator.graph.attributes import is_true
from simulator.graph.dataflow import data_inputs
from simulator.graph.graph import Graph
from simulator.graph.op_classes import ENTERS, MERGES, SWITCHES
from simulator.graph.step import Step
from simulator.placer.constraints import Constraints, constrain
from simulator.units import Nanos, show_nanos


class PlacementOptions(TypedDict):
    """Keywords of `place` that are the same for all graphs of a run."""

    algorithm: str | Algorithm
    soft: bool
    flavour: str
    effort: Effort


ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType({name: load(name) for name in TABLE})


def place(
    graph: Graph,
    cluster: Cluster,
    costs: CostTable,
    *,
    step: Step,
    algorithm: str | Algorithm = "search",
    soft: bool = True,
    fallback: bool = True,
    prepared: Prepared | None = None,
    seen: Mapping[str, str] = MappingProxyType({}),
    options: SimulationOptions | None = None,
    flavour: str = "auto",
    effort: Effort = DEFAULT_EFFORT,
) -> Assignment:
    """Give every node of the graph a device.

    `algorithm` is a key of ALGORITHMS, the name of one that an installed package offers (`plugins`), or a function
    Problem -> Plan (docs/algorithms.md). With `fallback`, `single` replaces a greedy algorithm's plan where the
    simulator finds that one device is faster, or where the algorithm ran out of memory. The result says so. The plan of
    an algorithm that is not simviz's own stays, and a note says where one device would be faster.

    `soft` is soft placement as in TensorFlow: another device of the same task replaces one that does not exist.
    `options` are those of `simulate`, `flavour` is that of `partition`: by these the plans of a search are judged.
    `effort` is what a search may spend, such as `Effort(judged=20_000)` placements or `Effort(seconds=5)`.
    `prepared` is the result of `prepare` for the same values, where the caller has it already; it has options of its
    own. `seen`, node -> device, is where TensorFlow put nodes: the algorithm `tensorflow` takes it over for the few
    whose device is by chance.

    Raises InfeasibleError if a group has no device or its memory does not fit, and GraphError for a malformed device.
    Raises SimvizError for an algorithm that is unknown, fails, or returns no valid plan, and as `prepare` does.
    """
    if own := algorithm in tuple(TABLE):  # a tuple, as an algorithm may have no hash
        name, solver = str(algorithm), ALGORITHMS[str(algorithm)]
    else:
        name, solver = name_of(algorithm), algorithm if callable(algorithm) else find(algorithm, tuple(TABLE))
    constraints = constrain(graph, cluster, soft=soft)
    if prepared is None:
        prepared = prepare(graph, step, cluster, costs, options or SimulationOptions())
    elif options is not None:
        prepared = prepared.under(options)
    prepared.check(graph, cluster)
    problem = pose(
        graph,
        prepared,
        cluster,
        constraints,
        seen=_rows(graph, cluster, seen),
        flavour=flavour,
        effort=effort,
    )
    if not own or TABLE[name].by_cost:
        require_feasible(problem)
    used, plan, notes = _solve(problem, name, solver, own=own, fallback=fallback)
    plan = completed(problem, _beside_conditions(problem, plan) if not own or TABLE[name].by_cost else plan)
    return Assignment(
        devices=cluster.device_names,
        device=ids([plan.device[row] for row in constraints.group.tolist()]),
        why=ids(_why(problem, constraints, plan, soft=soft)),
        asked=name,
        used=used,
        priority=None if plan.priority is None else ints(plan.priority),
        notes=(*constraints.notes, *plan.notes, *notes),
        constraints=constraints,
        log_order=None if plan.log_order is None else ids(plan.log_order),
        search=plan.search,
        proven=plan.proven,
    )


def name_of(algorithm: object) -> str:
    """The name of an algorithm in results and messages."""
    return algorithm if isinstance(algorithm, str) else str(getattr(algorithm, "__name__", type(algorithm).__name__))


def _rows(graph: Graph, cluster: Cluster, seen: Mapping[str, str]) -> dict[int, int]:
    return {
        graph.index[name]: cluster.index[device]
        for name, device in seen.items()
        if name in graph.index and device in cluster.index
    }


def _solve(
    problem: Problem, name: str, algorithm: Algorithm, *, own: bool, fallback: bool
) -> tuple[str, Plan, tuple[str, ...]]:
    """The algorithm whose plan is taken, that plan, and notes.

    With `fallback`, the plan of `single` replaces one of simviz's own that is slower or whose memory does not hold the
    step. Beside somebody else's plan it is a note.
    """
    replaceable = own and fallback and TABLE[name].replaceable
    try:
        plan = algorithm(problem) if own else plan_by(algorithm, name, problem)
    except InfeasibleError as error:
        if not replaceable:
            raise
        return "single", single(problem), (f"{name} ran out of memory, so this is the result of single: {error}",)
    if not (replaceable if own else fallback):
        return name, plan, ()
    try:
        alone = single(problem)
    except InfeasibleError:  # no single device holds the graph
        return name, plan, ()
    ours, theirs = verdict(problem, plan), verdict(problem, alone)
    if ours <= theirs:
        return name, plan, ()
    full, faster = ours.full > theirs.full, f"single takes {show_nanos(theirs.ns)}"
    if not own:
        said = "would run out of memory" if full else f"takes {_shown(ours.ns)}"
        return name, plan, (f"{faster}, and {name}, which is shown, {said}",)
    why = f"{name} would run out of memory in the step" if full else f"{faster} and {name} {_shown(ours.ns)}"
    return "single", alone, (f"{why}, so this is the result of single",)


def _shown(ends: Nanos) -> str:
    return "has no route for some value" if ends == NEVER else show_nanos(ends)


def _beside_conditions(problem: Problem, plan: Plan) -> Plan:
    """The plan with Enters of what stays the same in a loop on the device of its condition, where they are free to go.

    A session moves such an Enter to its first reader when it cuts the graph, wherever a plan has it
    (`OptimizeControlFlowColocation`, graph_partition.cc). Before that Grappler puts a constant into the loop on the
    Enter's device, behind it (`MoveConstantsPastEnter`, constant_folding.cc). Nothing else of the loop may be on that
    device. Then it learns of the first iteration alone, sends the constant once, and the step never ends. The device of
    the condition learns of all iterations.
    """
    graph, rules = problem.graph, problem.constraints
    conditions = _conditions(graph)
    device = list(plan.device)
    for node, op in enumerate(graph.ops):
        if op != "Enter" or not is_true(graph.attrs[node], "is_constant"):
            continue
        group, condition = int(rules.group[node]), conditions.get(_frame(graph, node), -1)
        if condition >= 0 and len(rules.members[group]) == 1:
            beside = plan.device[int(rules.group[condition])]
            device[group] = beside if beside in problem.allowed[group] else device[group]
    return replace(plan, device=device)


def _conditions(graph: Graph) -> dict[bytes, int]:
    """The LoopCond of each frame."""
    if "LoopCond" not in graph.ops:
        return {}
    inputs, source = data_inputs(graph), graph.tensor_node.tolist()
    found: dict[bytes, int] = {}
    for node, op in enumerate(graph.ops):
        if op in SWITCHES and len(inputs[node]) == 2:
            merge, condition = (source[tensor] for tensor in inputs[node])
            if graph.ops[condition] == "LoopCond" and graph.ops[merge] in MERGES:
                makers = (source[tensor] for tensor in inputs[merge])
                found.update({_frame(graph, one): condition for one in makers if graph.ops[one] in ENTERS})
    return found


def _frame(graph: Graph, node: int) -> bytes:
    value = graph.attrs[node].get("frame_name")
    return b"" if value is None else bytes(value.s)


def _why(problem: Problem, constraints: Constraints, plan: Plan, *, soft: bool) -> list[int]:
    """[N] the rule that decided each node's device; a request that was not met comes first."""
    devices = [parse(device.name) for device in problem.cluster.devices]
    decider = (plan.decider or [])[: len(constraints.members)]
    deciding = set(problem.tables.node[[op for op in decider if op >= 0]].tolist())
    known: dict[tuple[DeviceSpec, int], int] = {}
    why = []
    for node, row in enumerate(constraints.group.tolist()):
        spec, rule = constraints.specs[node], plan.rule[row] if plan.why is None else plan.why[node]
        if spec != ANYWHERE:
            key = (spec, plan.device[row])
            if key not in known:
                known[key] = _met(spec, devices[plan.device[row]], soft=soft)
            if known[key] != REQUESTED or rule in (DEFAULT, ONLY, COLOCATED):
                rule = known[key]
        elif rule == DEFAULT and constraints.asked[row]:
            rule = COLOCATED
        if rule == COST and node not in deciding:
            rule = COLOCATED
        why.append(rule)
    return why


def _met(spec: DeviceSpec, device: DeviceSpec, *, soft: bool) -> int:
    """The rule by which a node got its device: soft placement gives up type and number, a reference gives up all."""
    if matches(spec, device):
        return REQUESTED
    return RELAXED if soft and matches(spec.without_device(), device) else OVERRULED
