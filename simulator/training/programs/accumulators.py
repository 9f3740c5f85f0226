"""Accumulators, a token queue and a local step around the updates of a worker's graph: synchronous training.

    worker   gradients ──▶ AccumulatorApplyGradient ... ══▶ dequeue a token ──▶ local step
                                  │ accumulator, on the variable's device
    chief              AccumulatorTakeGradient ──▶ the graph's own updates ──▶ global step + 1 ══▶ enqueue tokens

Both parts stand in one graph, which TensorFlow imports; a client runs one of them. They are those of
SyncReplicasOptimizer.apply_gradients (tensorflow/python/training/sync_replicas_optimizer.py), with its shared names, so
that all workers share them. Other names stand under a prefix of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simulator.cluster.devicespec import parse
from simulator.errors import GraphError
from simulator.graph.dtypes import INT32, base
from simulator.graph.graph import Attrs, Graph
from simulator.graph.inlining.attributes import SCALAR, number, shaped, typed, types
from simulator.graph.messages import AttrValue, Proto, TensorShapeProto
from simulator.graph.step import choose_step
from simulator.graph.tensors import tensor_sizes
from simulator.training.programs.program import Program, updates_of
from simulator.training.programs.replication.copying import Draft, draft_of, dtype_of
from simulator.training.programs.tasks import in_graph_text, of_task
from simulator.training.recognition.anatomy import Anatomy, Gradient, anatomy
from simulator.training.recognition.parts import Separated, held_by, separate
from simulator.training.recognition.variables import colocated_with
from simulator.training.regimes import Regime, settled, tokens_per_update, workers_of

INT64 = 9
_UNKNOWN_SHAPE = TensorShapeProto(unknown_rank=True)


@dataclass(frozen=True, slots=True)
class Accumulating:
    """A worker's graph with its accumulators; names of nodes."""

    graph: Graph
    worker: str  # its task, as the devices of the new nodes name it
    train: tuple[str, ...]  # what its step runs
    updates: tuple[str, ...]  # what the chief's loop runs
    counts: tuple[str, ...]  # what counts updates
    moved: frozenset[int]  # rows that stood on the worker and now stand beside the global step


@dataclass(frozen=True, slots=True)
class _Steps:
    """Where the steps are counted, and how their numbers are read."""

    draft: Draft
    prefix: str
    worker: str  # device string of the worker's task
    home: str  # that of the global step's task
    variable: str
    dtype: int
    is_handle: bool  # a resource variable

    def add(self, name: str, op: str, inputs: Sequence[str], device: str, attrs: Attrs) -> str:
        return self.draft.add(self.prefix + name, op, inputs, device, attrs)

    def assign(self, name: str, variable: str, value: str) -> str:
        """Let the worker's own variable, which is no resource, have a value."""
        return self.add(name, "Assign", [variable, value], self.worker, {**typed(self.dtype), **shaped([SCALAR])})

    def read(self, name: str, device: str, after: Sequence[str] = ()) -> str:
        """The global step as it is once those nodes have ended."""
        attrs = {"dtype": AttrValue(type=self.dtype)} if self.is_handle else typed(self.dtype)
        op = "ReadVariableOp" if self.is_handle else "Identity"
        controls = [f"^{node}" for node in dict.fromkeys(after)]
        return self.add(name, op, [self.variable, *controls], device, {**attrs, **shaped([SCALAR])})

    def wide(self, name: str, step: str, device: str) -> str:
        """A step's number as accumulators take it."""
        if self.dtype == INT64:
            return step
        kinds = {"SrcT": AttrValue(type=self.dtype), "DstT": AttrValue(type=INT64)}
        return self.add(name, "Cast", [step], device, {**kinds, **shaped([SCALAR])})


def accumulating(program: Program, regime: Regime, *, alone: bool = False) -> Accumulating:
    """The graph of a worker under a settled synchronous regime; `alone`: there is no other worker.

    Raises GraphError for a graph without gradients, and for variables that workers do not share.
    """
    graph = program.graph
    found = anatomy(graph, fetches=program.fetches)
    parted = separate(graph, found)
    # an optimizer without an op for sparse gradients first adds them to a slot, but they are its variable's
    gradients = [replace(one, variable=found.slot_of.get(one.variable, one.variable)) for one in found.gradients]
    places = [_place(graph, one.variable, program, alone=alone) for one in gradients]
    draft = draft_of(graph, graph.requested)
    _drop(draft, parted.cut)
    counted = min(places) if found.global_step is None else graph.requested[found.global_step]
    home = str(parse(counted)._replace(type=None, id=None))
    moved = _moved(graph, parted.after, program)
    for row in moved:
        draft.devices[row] = home
    steps, counts, done = _counted(draft, found, parted, home, in_graph_text(program.task))

    local = steps.add("local_step", "VariableV2", (), steps.worker, {"dtype": AttrValue(type=steps.dtype), **_SHAPED})
    now = steps.add("local_step/read", "Identity", [local], steps.worker, {**typed(steps.dtype), **shaped([SCALAR])})
    now = steps.wide("local_step/cast", now, steps.worker)
    steps.assign("local_step/start", local, steps.read("local_step/global", steps.worker))
    start = steps.wide("start/cast", steps.read("start", steps.home), steps.home)
    pushed = []
    for row, (gradient, where) in enumerate(zip(gradients, places, strict=True)):
        again = [one.variable for one in gradients[:row]].count(gradient.variable)
        pushed.append(_accumulate(steps, gradient, where, again, regime.aggregate or 1, (now, start)))

    ends = [f"^{name}" for name in (*pushed, *(graph.names[row] for row in parted.beside))]
    queue = steps.add("token_queue", "FIFOQueueV2", (), steps.home, _queue_attrs(steps.dtype))
    attrs = {"component_types": types([steps.dtype]), **shaped([SCALAR])}
    token = steps.add("token", "QueueDequeueV2", [queue, *ends], steps.home, attrs)
    train = steps.assign("train", local, token)
    tokens = _hand_out(steps, "tokens", queue, tokens_per_update(regime), done)
    _hand_out(steps, "first_tokens", queue, regime.tokens or 0, ())
    made = _shaped_as(draft.built(), graph)
    return Accumulating(made, steps.worker, (train, *parted.fetches), (tokens,), counts, moved)


def _place(graph: Graph, variable: int, program: Program, *, alone: bool) -> str:
    """The device string of a variable, or its task's where accumulators have no kernel; refuse what is not shared."""
    spec = parse(graph.requested[variable])
    own = of_task(parse(program.task))
    if not alone and (spec.job is None or of_task(spec) == own):
        name = graph.names[variable]
        raise GraphError(
            f"{graph.source}: the variable {name!r} stands on the worker itself ({graph.requested[variable]!r}), so "
            "workers can't average its gradients. Put variables on a ps task, as replica_device_setter does.",
            node=name,
        )
    return str(spec if spec.type in (None, "CPU") else spec._replace(type=None, id=None))


def _moved(graph: Graph, update: Sequence[int], program: Program) -> frozenset[int]:
    """What of an update a plain optimizer leaves to the worker, such as the NoOp that gathers what was applied.

    SyncReplicasOptimizer lets the optimizer write it all with `ops.device(global_step.device)`: otherwise each update
    would take a way to the worker and back before it is counted. What stands beside a variable stays there.
    """
    here = (of_task(parse("")), of_task(parse(program.task)))
    stays = (row for row in update if of_task(parse(graph.requested[row])) not in here)
    held = (row for row in update if colocated_with(graph, row) or held_by(graph, row) is not None)
    return frozenset(update).difference(stays, held)


def _drop(draft: Draft, cut: Sequence[int]) -> None:
    """Take control edges out."""
    graph = draft.graph
    for edge in cut:
        draft.inputs[int(graph.edge_dst[edge])].remove(f"^{graph.names[int(graph.edge_src[edge])]}")


# ---- the global step ------------------------------------------------------------------------------------------------


def _counted(
    draft: Draft, found: Anatomy, parted: Separated, home: str, worker: str
) -> tuple[_Steps, tuple[str, ...], list[str]]:
    """The steps, what counts them, and what has ended when an update is made; the step is added where there is none."""
    graph, prefix = draft.graph, draft.prefix("sync_replicas")
    ends = _grouped(draft, prefix, parted.ends)
    if found.global_step is not None:
        variable = found.global_step
        dtype = base(int(graph.attrs[variable]["dtype"].type))
        is_handle = graph.ops[variable] == "VarHandleOp"
        counts = tuple(graph.names[row] for row in found.counts)
        return _Steps(draft, prefix, worker, home, graph.names[variable], dtype, is_handle), counts, [*ends, *counts]
    name = draft.add("global_step", "VariableV2", (), home, {"dtype": AttrValue(type=INT64), **_SHAPED})
    zero, one = (draft.constant(f"{name}/{what}", number_, INT64, home) for what, number_ in (("zero", 0), ("one", 1)))
    attrs = {**typed(INT64), **shaped([SCALAR])}
    draft.add(f"{name}/Assign", "Assign", [name, zero], home, attrs)
    count = draft.add(f"{name}/count", "AssignAdd", [name, one, *(f"^{end}" for end in ends)], home, attrs)
    return _Steps(draft, prefix, worker, home, name, INT64, False), (count,), [count]


def _grouped(draft: Draft, prefix: str, ends: Sequence[int]) -> list[str]:
    """The ends, as one per device where there are many: a control edge between devices is a message."""
    by_device: dict[str, list[str]] = {}
    for row in ends:
        by_device.setdefault(draft.devices[row], []).append(draft.names[row])
    return [
        names[0]
        if len(names) == 1
        else draft.add(f"{prefix}updated", "NoOp", [f"^{name}" for name in names], device, {})
        for device, names in sorted(by_device.items())
    ]


# ---- accumulators and tokens ----------------------------------------------------------------------------------------


def _accumulate(
    steps: _Steps, gradient: Gradient, where: str, again: int, needed: int, numbers: tuple[str, str]
) -> str:
    """An accumulator for a gradient: the update reads what is taken from it. Returns the node that pushes."""
    draft, graph = steps.draft, steps.draft.graph
    variable = graph.names[gradient.variable]
    shared = f"{variable}:0/grad_accum" + (f"_{again}" if again else "")
    kind = {"dtype": AttrValue(type=dtype_of(graph, gradient.values))}
    shape = _UNKNOWN_SHAPE if gradient.indices is not None else _declared(graph, gradient.variable)
    family = "Sparse" if gradient.indices is not None else ""
    local, start = numbers

    attrs = {**kind, "shape": AttrValue(shape=shape), "shared_name": _text(shared), "container": _text("")}
    name = f"{variable}/accumulator"
    made = steps.add(name, f"{family}ConditionalAccumulator", (), where, {**attrs, "reduction_type": _text("MEAN")})
    count = draft.constant(f"{made}/needed", needed, INT32, where)
    steps.add(f"{variable}/start", "AccumulatorSetGlobalStep", [made, start], where, {})
    values = _input(graph, gradient.values)
    if gradient.indices is None:
        push = steps.add(f"{variable}/push", "AccumulatorApplyGradient", [made, local, values], where, kind)
        outputs = shaped([_shape_of(graph, gradient.values) or shape])
        take = steps.add(f"{variable}/take", "AccumulatorTakeGradient", [made, count], where, {**kind, **outputs})
        for edge in gradient.all_values:
            draft.reads(edge, take)
        return push
    index = dtype_of(graph, gradient.indices)
    rows = _index(steps, f"{variable}/rows", _input(graph, gradient.indices), index, INT64, where)
    nothing = draft.constant(f"{made}/shape", [], INT64, where)
    inputs = [made, local, rows, values, nothing]
    unsaid = AttrValue(b=False)
    push = steps.add(
        f"{variable}/push", "SparseAccumulatorApplyGradient", inputs, where, {**kind, "has_known_shape": unsaid}
    )
    outputs = shaped([_shape_of(graph, gradient.indices), _shape_of(graph, gradient.values), None])
    take = steps.add(f"{variable}/take", "SparseAccumulatorTakeGradient", [made, count], where, {**kind, **outputs})
    taken = _index(steps, f"{variable}/taken_rows", take, INT64, index, where)
    for edge in gradient.all_indices:
        draft.reads(edge, taken)
    for edge in gradient.all_values:
        draft.reads(edge, f"{take}:1")
    return push


def _index(steps: _Steps, name: str, rows: str, given: int, wanted: int, where: str) -> str:
    """Numbers of rows as another type of whole numbers."""
    kinds = {"SrcT": AttrValue(type=given), "DstT": AttrValue(type=wanted)}
    return rows if given == wanted else steps.add(name, "Cast", [rows], where, kinds)


def _hand_out(steps: _Steps, name: str, queue: str, count: int, after: Sequence[str]) -> str:
    """Enqueue that many tokens, which carry the global step once those nodes have ended."""
    dims = steps.draft.constant(f"{steps.prefix}{name}/dims", [count], INT32, steps.home)
    step = steps.read(f"{name}/step", steps.home, after)
    shape = TensorShapeProto()
    shape.dim.add(size=count)
    attrs = {**typed(steps.dtype), "index_type": AttrValue(type=INT32), **shaped([shape])}
    fill = steps.add(f"{name}/fill", "Fill", [dims, step], steps.home, attrs)
    kinds = {"Tcomponents": types([steps.dtype]), "timeout_ms": number(-1)}
    return steps.add(name, "QueueEnqueueManyV2", [queue, fill], steps.home, kinds)


# ---- attributes -----------------------------------------------------------------------------------------------------


def _text(value: str) -> Proto:
    return AttrValue(s=value.encode())


_SHAPED: Attrs = {"shape": AttrValue(shape=SCALAR), "container": _text(""), "shared_name": _text("")}


def _queue_attrs(dtype: int) -> Attrs:
    shapes = AttrValue()
    shapes.list.shape.append(SCALAR)
    kind = {"component_types": types([dtype]), "shapes": shapes, "capacity": number(-1)}
    return {**kind, "container": _text(""), "shared_name": _text("sync_token_q")}


def _declared(graph: Graph, variable: int) -> Proto:
    found = graph.attrs[variable].get("shape")
    return _UNKNOWN_SHAPE if found is None else found.shape


def _shape_of(graph: Graph, edge: int) -> Proto | None:
    """The shape of what an edge carries, None where its rank is unknown."""
    known = graph.tensor_shape[graph.edge_tensor[edge]]
    if known is None:
        return None
    shape = TensorShapeProto()
    for size in known:
        shape.dim.add(size=size)
    return shape


def _shaped_as(made: Graph, given: Graph) -> Graph:
    """The graph with the shapes that were found for the nodes that it was made of."""
    found = [new or old for new, old in zip(made.tensor_shape, given.tensor_shape, strict=False)]
    shapes = (*found, *made.tensor_shape[len(found) :])
    return replace(made, tensor_shape=shapes, tensor_bytes=tensor_sizes(made.tensor_dtype.tolist(), shapes)[0])


def _input(graph: Graph, edge: int) -> str:
    row = int(graph.edge_dst[edge])
    return graph.inputs_of(row)[edge - int(graph.in_ptr[row])]


# ---- the programs ---------------------------------------------------------------------------------------------------


def with_accumulators(programs: Sequence[Program], regime: Regime | None) -> tuple[Program, ...]:
    """The programs of synchronous training: each worker pushes its gradients, the first one's task makes the updates.

    The program of the updates comes last. A graph without a global step gets one on the first task that keeps
    variables. Programs stay as they are in another regime, and where a single worker averages only its own gradients.

    Raises SimvizError for no workers, GraphError for a graph without gradients, or whose variables are not on a task
    that all share, and as `regimes.settled`.
    """
    if regime is None or regime.kind != "sync":
        return tuple(programs)
    workers = workers_of(programs)
    known = settled(regime, len(workers))
    if len(workers) == known.aggregate == 1:
        return tuple(programs)
    made: dict[int, Accumulating] = {}
    changed: list[Program] = []
    for row, program in enumerate(programs):
        if program.role != "worker":
            changed.append(program)
        elif program.like is None:
            made[row] = accumulating(program, known, alone=len(workers) == 1)
            changed.append(_first(program, made[row]))
        else:
            changed.append(_identical(program, changed[program.like], made[program.like]))
    chief = programs.index(workers[0])
    return (*changed, _updates(changed[chief], made[chief]))


def _first(program: Program, made: Accumulating) -> Program:
    """A worker with its new graph."""
    feeds = _needed(program.feeds, made.graph, made.train)
    step = choose_step(made.graph, feeds=feeds, fetches=made.train)
    return replace(program, graph=made.graph, fetches=step.fetches, feeds=step.feeds, counts=())


def _identical(program: Program, first: Program, made: Accumulating) -> Program:
    """A worker with the new graph of the one with which it is identical, on its own devices."""
    own = in_graph_text(program.task)
    added = made.graph.requested[len(program.graph) :]
    kept = (
        made.graph.requested[row] if row in made.moved else text for row, text in enumerate(program.graph.requested)
    )
    devices = (*kept, *(own if text == made.worker else text for text in added))
    graph = replace(made.graph, requested=devices)
    return replace(program, graph=graph, fetches=first.fetches, feeds=first.feeds, counts=())


def _updates(worker: Program, made: Accumulating) -> Program:
    feeds = _needed(worker.feeds, worker.graph, made.updates)
    step = choose_step(worker.graph, feeds=feeds, fetches=made.updates)
    return updates_of(worker, step, made.counts)


def _needed(feeds: Sequence[str], graph: Graph, fetches: Sequence[str]) -> list[str]:
    """Those of the feeds that the fetches read."""
    runs = choose_step(graph, fetches=fetches).runs
    return [name for name in feeds if runs[graph.row(name.partition(":")[0])]]
