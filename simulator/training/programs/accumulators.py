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
from simulator.graph.attributes import SCALAR, number, shaped, typed, types
from simulator.graph.dtypes import INT32, base
from simulator.graph.editor import Editor, Output, edited
from simulator.graph.graph import Attrs, Graph
from simulator.graph.messages import AttrValue, Proto, TensorShapeProto
from simulator.graph.step import choose_step
from simulator.training.programs.copying import dtype_of, output_on, redirect, unused_prefix
from simulator.training.programs.program import Program, updates_of
from simulator.training.programs.tasks import in_graph_text, of_task
from simulator.training.programs.tensor_ops import TensorOps, shape_message
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
    train: tuple[str, ...]  # fetches of its step
    updates: tuple[str, ...]  # fetches of the chief's loop
    counts: tuple[str, ...]  # nodes that count updates
    moved: frozenset[int]  # rows that were on the worker and are now beside the global step


@dataclass(frozen=True, slots=True)
class _Steps:
    """The global step: its place and type, and ops that read and assign it."""

    editor: Editor
    prefix: str
    worker: str  # device string of the worker's task
    home: str  # that of the global step's task
    variable: int
    dtype: int
    is_handle: bool  # a resource variable

    def add(
        self, name: str, op: str, inputs: Sequence[Output], device: str, attrs: Attrs, after: Sequence[int] = ()
    ) -> int:
        return self.editor.add(self.editor.free(self.prefix + name), op, inputs, after, attrs, device=device)

    def assign(self, name: str, variable: int, value: int) -> int:
        """Assign to the worker's own variable, which is no resource."""
        return self.add(name, "Assign", [variable, value], self.worker, {**typed(self.dtype), **shaped([SCALAR])})

    def read(self, name: str, device: str, after: Sequence[int] = ()) -> int:
        """A read of the global step that waits for some nodes."""
        attrs = {"dtype": AttrValue(type=self.dtype)} if self.is_handle else typed(self.dtype)
        op = "ReadVariableOp" if self.is_handle else "Identity"
        return self.add(name, op, [self.variable], device, {**attrs, **shaped([SCALAR])}, [*dict.fromkeys(after)])

    def wide(self, name: str, step: int, device: str) -> int:
        """A step's number as int64, the type of accumulators."""
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
    places = [_place(graph, one.variable, program, alone=alone) for one in found.gradients]
    editor = edited(graph, as_made=False)
    for edge in parted.cut:  # the editor numbers the graph's edges as the graph does
        editor.cut(edge)
    counted = min(places) if found.global_step is None else graph.requested[found.global_step]
    home = str(parse(counted)._replace(type=None, id=None))
    moved = _moved(graph, parted.after, program)
    for row in moved:
        editor.devices[row] = home
    steps, counts, done = _counted(editor, found, parted, home, in_graph_text(program.task))

    local = steps.add("local_step", "VariableV2", (), steps.worker, {"dtype": AttrValue(type=steps.dtype), **_SHAPED})
    now = steps.add("local_step/read", "Identity", [local], steps.worker, {**typed(steps.dtype), **shaped([SCALAR])})
    now = steps.wide("local_step/cast", now, steps.worker)
    steps.assign("local_step/start", local, steps.read("local_step/global", steps.worker))
    start = steps.wide("start/cast", steps.read("start", steps.home), steps.home)
    pushed = []
    for row, (gradient, where) in enumerate(zip(found.gradients, places, strict=True)):
        again = [one.variable for one in found.gradients[:row]].count(gradient.variable)
        pushed.append(_accumulate(steps, gradient, where, again, regime.aggregate or 1, (now, start)))

    queue = steps.add("token_queue", "FIFOQueueV2", (), steps.home, _queue_attrs(steps.dtype))
    attrs = {"component_types": types([steps.dtype]), **shaped([SCALAR])}
    token = steps.add("token", "QueueDequeueV2", [queue], steps.home, attrs, [*pushed, *parted.beside])
    train = steps.assign("train", local, token)
    tokens = _hand_out(steps, "tokens", queue, tokens_per_update(regime), done)
    _hand_out(steps, "first_tokens", queue, regime.tokens or 0, ())
    names = editor.names
    counting = tuple(names[row] for row in counts)
    return Accumulating(
        editor.built(), steps.worker, (names[train], *parted.fetches), (names[tokens],), counting, moved
    )


def _place(graph: Graph, variable: int, program: Program, *, alone: bool) -> str:
    """The device string of a variable, or its task's where accumulators have no kernel; GraphError if unshared."""
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
    """Nodes of an update that a plain optimizer leaves on the worker, such as the NoOp that groups the updates.

    SyncReplicasOptimizer lets the optimizer write them with `ops.device(global_step.device)`. Otherwise each update
    would travel to the worker and back before it is counted. Nodes that are colocated with a variable stay there.
    """
    here = (of_task(parse("")), of_task(parse(program.task)))
    stays = (row for row in update if of_task(parse(graph.requested[row])) not in here)
    held = (row for row in update if colocated_with(graph, row) or held_by(graph, row) is not None)
    return frozenset(update).difference(stays, held)


# ---- the global step ------------------------------------------------------------------------------------------------


def _counted(
    editor: Editor, found: Anatomy, parted: Separated, home: str, worker: str
) -> tuple[_Steps, tuple[int, ...], list[int]]:
    """The steps, the nodes that count them, and the ends of an update; a global step is added where there is none."""
    graph = editor.given
    prefix = unused_prefix(graph, "sync_replicas")
    ends = _grouped(editor, prefix, parted.ends)
    if found.global_step is not None:
        variable = found.global_step
        dtype = base(int(graph.attrs[variable]["dtype"].type))
        is_handle = graph.ops[variable] == "VarHandleOp"
        steps = _Steps(editor, prefix, worker, home, variable, dtype, is_handle)
        return steps, tuple(found.counts), [*ends, *found.counts]
    ops = TensorOps(editor, home, INT64)
    step = ops.add("global_step", "VariableV2", (), {"dtype": AttrValue(type=INT64), **_SHAPED})
    name = editor.names[step]
    zero, one = ops.constant(f"{name}/zero", 0, INT64), ops.constant(f"{name}/one", 1, INT64)
    attrs = {**typed(INT64), **shaped([SCALAR])}
    ops.add(f"{name}/Assign", "Assign", [step, zero], attrs)
    count = editor.add(editor.free(f"{name}/count"), "AssignAdd", [step, one], ends, attrs, device=home)
    return _Steps(editor, prefix, worker, home, step, INT64, False), (count,), [count]


def _grouped(editor: Editor, prefix: str, ends: Sequence[int]) -> list[int]:
    """The ends of an update, grouped by device, as a control edge between devices is a message."""
    by_device: dict[str, list[int]] = {}
    for row in ends:
        by_device.setdefault(editor.devices[row], []).append(row)
    return [
        rows[0] if len(rows) == 1 else editor.add(editor.free(f"{prefix}updated"), "NoOp", (), rows, device=device)
        for device, rows in sorted(by_device.items())
    ]


# ---- accumulators and tokens ----------------------------------------------------------------------------------------


def _accumulate(
    steps: _Steps, gradient: Gradient, where: str, again: int, needed: int, numbers: tuple[int, int]
) -> int:
    """Add an accumulator for a gradient, from which the update takes; return the node that pushes."""
    editor, graph, ops = steps.editor, steps.editor.given, TensorOps(steps.editor, where)
    variable = graph.names[gradient.variable]
    shared = f"{variable}:0/grad_accum" + (f"_{again}" if again else "")
    kind = {"dtype": AttrValue(type=dtype_of(graph, gradient.values))}
    shape = _UNKNOWN_SHAPE if gradient.indices is not None else _declared(graph, gradient.variable)
    family = "Sparse" if gradient.indices is not None else ""
    local, start = numbers

    attrs = {**kind, "shape": AttrValue(shape=shape), "shared_name": _text(shared), "container": _text("")}
    name = f"{variable}/accumulator"
    made = steps.add(name, f"{family}ConditionalAccumulator", (), where, {**attrs, "reduction_type": _text("MEAN")})
    count = ops.constant(f"{editor.names[made]}/needed", needed)
    steps.add(f"{variable}/start", "AccumulatorSetGlobalStep", [made, start], where, {})
    values = output_on(graph, gradient.values)
    if gradient.indices is None:
        push = steps.add(f"{variable}/push", "AccumulatorApplyGradient", [made, local, values], where, kind)
        outputs = shaped([_shape_of(graph, gradient.values) or shape])
        take = steps.add(f"{variable}/take", "AccumulatorTakeGradient", [made, count], where, {**kind, **outputs})
        for edge in gradient.all_values:
            redirect(editor, edge, take)
        return push
    index = dtype_of(graph, gradient.indices)
    rows = _index(steps, f"{variable}/rows", output_on(graph, gradient.indices), index, INT64, where)
    nothing = ops.constant(f"{editor.names[made]}/shape", [], INT64)
    inputs = [made, local, rows, values, nothing]
    unsaid = AttrValue(b=False)
    push = steps.add(
        f"{variable}/push", "SparseAccumulatorApplyGradient", inputs, where, {**kind, "has_known_shape": unsaid}
    )
    outputs = shaped([_shape_of(graph, gradient.indices), _shape_of(graph, gradient.values), None])
    take = steps.add(f"{variable}/take", "SparseAccumulatorTakeGradient", [made, count], where, {**kind, **outputs})
    taken = _index(steps, f"{variable}/taken_rows", take, INT64, index, where)
    for edge in gradient.all_indices:
        redirect(editor, edge, taken)
    for edge in gradient.all_values:
        redirect(editor, edge, (take, 1))
    return push


def _index(steps: _Steps, name: str, rows: Output, given: int, wanted: int, where: str) -> Output:
    """Numbers of rows in another integer type."""
    kinds = {"SrcT": AttrValue(type=given), "DstT": AttrValue(type=wanted)}
    return rows if given == wanted else steps.add(name, "Cast", [rows], where, kinds)


def _hand_out(steps: _Steps, name: str, queue: int, count: int, after: Sequence[int]) -> int:
    """Enqueue that many tokens with the global step, after some nodes."""
    dims = TensorOps(steps.editor, steps.home).constant(f"{steps.prefix}{name}/dims", [count])
    step = steps.read(f"{name}/step", steps.home, after)
    attrs = {**typed(steps.dtype), "index_type": AttrValue(type=INT32), **shaped([shape_message((count,))])}
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
    """The shape of the tensor on an edge; None: its rank is unknown."""
    known = graph.tensor_shape[graph.edge_tensor[edge]]
    return None if known is None else shape_message(known)


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
    """The feeds that the fetches need."""
    runs = choose_step(graph, fetches=fetches).runs
    return [name for name in feeds if runs[graph.row(name.partition(":")[0])]]
