"""Accumulators, a token queue and a local step around the updates of a worker's graph: synchronous training.

    worker   gradients ──▶ AccumulatorApplyGradient ... ══▶ dequeue a token ──▶ local step
                                  │ accumulator, on the variable's device
    chief              AccumulatorTakeGradient ──▶ the graph's own updates ──▶ global step + 1 ══▶ enqueue tokens

Both parts stand in one graph, which TensorFlow imports; a client runs one of them. They are those of
SyncReplicasOptimizer.apply_gradients (tensorflow/python/training/sync_replicas_optimizer.py), with its shared names, so
that all workers share them. Other names stand under a prefix of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from simulator.cluster.devicespec import parse
from simulator.errors import GraphError
from simulator.graph.attributes import (
    COLOCATION,
    SCALAR,
    colocated_with,
    colocation,
    number,
    text_value,
    type_value,
    typed,
    types,
)
from simulator.graph.dtypes import INT32, INT64, base
from simulator.graph.editor import Editor, Output, edited
from simulator.graph.graph import Attrs, Graph
from simulator.graph.messages import AttrValue
from simulator.graph.step import Step, choose_step
from simulator.graph.tensors import shape_message
from simulator.graph.traversal import closure
from simulator.training.programs.edits import (
    TensorOps,
    dtype_of,
    output_on,
    redirect,
    reshaped,
    shape_on,
    unused_prefix,
)
from simulator.training.programs.program import Program, updates_of
from simulator.training.programs.rows_of_all import with_rows_of_all
from simulator.training.programs.tasks import in_graph_text, of_task
from simulator.training.programs.towers import mean_shape
from simulator.training.recognition.anatomy import Anatomy, Gradient, anatomy
from simulator.training.recognition.clipping import as_computed
from simulator.training.recognition.parts import Separated, separate
from simulator.training.recognition.sharing import held_by
from simulator.training.recognition.sync_replicas import workers_of
from simulator.training.recognition.variables import variable_shape
from simulator.training.regimes import Regime, tokens_per_update, with_defaults


@dataclass(frozen=True, slots=True)
class Accumulating:
    """A worker's graph with its accumulators; names of nodes."""

    graph: Graph
    worker: str  # its task, as the devices of the new nodes name it
    train: tuple[str, ...]  # fetches of its step
    updates: tuple[str, ...]  # fetches of the chief's loop
    counts: tuple[str, ...]  # nodes whose end is an update
    moved: frozenset[int]  # rows that were on the worker and are now beside the global step


@dataclass(frozen=True, slots=True)
class _Steps:
    """The global step, and ops on its number on two devices."""

    worker: TensorOps
    home: TensorOps  # on the task of the global step
    variable: int
    is_handle: bool  # a resource variable

    def assign(self, name: str, variable: int, value: int) -> int:
        """Assign to the worker's own variable, which is no resource."""
        return self.worker.apply(name, "Assign", [variable, value], ())

    def read(self, name: str, at: TensorOps, after: Sequence[int] = ()) -> int:
        """A read of the global step that waits for some nodes."""
        op, attrs = ("ReadVariableOp", _kind(at.dtype)) if self.is_handle else ("Identity", typed(at.dtype))
        return at.add(name, op, [self.variable], attrs, [()], [*dict.fromkeys(after)])


def accumulating(program: Program, regime: Regime, *, alone: bool = False) -> Accumulating:
    """The graph of a worker under a synchronous regime with its defaults; `alone`: there is no other worker.

    Raises GraphError for a graph without gradients, and for variables that workers do not share.
    """
    graph = program.graph
    found = anatomy(graph, fetches=program.fetches)
    parted = separate(graph, found)
    if parted.lent:  # the chief has no examples to compute them
        found = as_computed(graph, found)
        parted = separate(graph, found)
    places = [_place(graph, one.variable, program, alone=alone) for one in found.gradients]
    graph = with_rows_of_all(graph, found, parted.after, regime.aggregate or 1)
    editor = edited(graph, as_made=False)
    for edge in parted.cut:  # the editor numbers the graph's edges as the graph does
        editor.remove_edge(edge)
    counted = min(places) if found.global_step is None else graph.requested[found.global_step]
    home = str(parse(counted).without_device())
    moved = _moved(graph, parted.after, program)
    for row in moved:
        editor.devices[row] = home
    steps, counts, done = _counted(editor, found, parted, home, in_graph_text(program.task))

    worker, home_ops = steps.worker, steps.home
    local = worker.add("local_step", "VariableV2", (), {**_kind(worker.dtype), **_SHAPED}, [()])
    now = worker.cast("local_step/cast", worker.apply("local_step/read", "Identity", [local], ()), INT64, ())
    steps.assign("local_step/start", local, steps.read("local_step/global", worker))
    start = home_ops.cast("start/cast", steps.read("start", home_ops), INT64, ())
    pushed = []
    colocated: dict[str, list[int]] = {}  # with a name, nodes of the update
    for row in parted.after:
        for name in colocated_with(graph.attrs[row]):
            colocated.setdefault(name, []).append(row)
    for row, (gradient, where) in enumerate(zip(found.gradients, places, strict=True)):
        again = [one.variable for one in found.gradients[:row]].count(gradient.variable)
        at = replace(home_ops, device=where, dtype=dtype_of(graph, gradient.values[0]))
        pushed.append(_accumulate(at, gradient, again, regime.aggregate or 1, (now, start)))
        for reader in _beside(graph, gradient, colocated):
            editor.devices[reader] = where
            editor.attrs[reader] = {**graph.attrs[reader], COLOCATION: colocation([graph.names[gradient.variable]])}

    queue = home_ops.add("token_queue", "FIFOQueueV2", (), _queue_attrs(home_ops.dtype), [()])
    kinds = {"component_types": types([home_ops.dtype])}
    token = home_ops.add("token", "QueueDequeueV2", [queue], kinds, [()], [*pushed, *parted.beside])
    train = steps.assign("train", local, token)
    updated = steps.read("tokens/step", steps.home, done)
    tokens = _hand_out(steps, "tokens", queue, tokens_per_update(regime), updated)
    _hand_out(steps, "first_tokens", queue, regime.tokens or 0, steps.read("first_tokens/step", steps.home))
    names = editor.names
    counting = tuple(names[row] for row in counts or [updated])
    takes = [row for row, op in enumerate(editor.ops) if row >= len(graph) and op == "SparseAccumulatorTakeGradient"]
    return Accumulating(
        reshaped(editor.built(), takes),
        worker.device,
        (names[train], *parted.fetches),
        (names[tokens],),
        counting,
        moved,
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
    return str(spec if spec.type in (None, "CPU") else spec.without_device())


def _beside(graph: Graph, gradient: Gradient, colocated: Mapping[str, Sequence[int]]) -> set[int]:
    """The nodes of an update that stand beside what computes the gradient, such as the Switches of a branch.

    The chief takes the gradient where the variable is, so they come there.
    """
    group = [int(graph.edge_src[edge]) for edge in (*gradient.values, *gradient.indices)]
    return closure(group, lambda row: colocated.get(graph.names[row], ())).difference(group)


def _moved(graph: Graph, update: Sequence[int], program: Program) -> frozenset[int]:
    """Nodes of an update that a plain optimizer leaves on the worker, such as the NoOp that groups the updates.

    SyncReplicasOptimizer lets the optimizer write them with `ops.device(global_step.device)`. Otherwise each update
    would travel to the worker and back before it is counted. Nodes that are colocated with a variable stay there.
    """
    here = (of_task(parse("")), of_task(parse(program.task)))
    stays = (row for row in update if of_task(parse(graph.requested[row])) not in here)
    held = (row for row in update if colocated_with(graph.attrs[row]) or held_by(graph, row) is not None)
    return frozenset(update).difference(stays, held)


# ---- the global step ------------------------------------------------------------------------------------------------


def _counted(
    editor: Editor, found: Anatomy, parted: Separated, home: str, worker: str
) -> tuple[_Steps, tuple[int, ...], list[int]]:
    """The steps, the nodes that count updates, and the ends of one; a global step is added where there is none.

    A count that comes before its update, as Keras's does, counts none.
    """
    graph = editor.given
    prefix = unused_prefix(graph, "sync_replicas")
    ends = _grouped(editor, prefix, parted.ends)
    step, counts, done = found.global_step, found.ends, [*ends, *parted.counted]
    if step is None:
        ops = TensorOps(editor, home, INT64)
        step = ops.add("global_step", "VariableV2", (), {**_kind(INT64), **_SHAPED}, [()])
        name = editor.names[step]
        zero, one = ops.constant(f"{name}/zero", 0, INT64), ops.constant(f"{name}/one", 1, INT64)
        ops.apply(f"{name}/Assign", "Assign", [step, zero], ())
        done = [ops.apply(f"{name}/count", "AssignAdd", [step, one], (), ends)]
        counts = tuple(done)
    dtype = base(int(editor.attrs[step]["dtype"].type))
    at_worker, at_home = (TensorOps(editor, device, dtype, prefix) for device in (worker, home))
    return _Steps(at_worker, at_home, step, editor.ops[step] == "VarHandleOp"), counts, done


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


def _accumulate(at: TensorOps, gradient: Gradient, again: int, needed: int, numbers: tuple[Output, Output]) -> int:
    """Add an accumulator for a gradient, from which the update takes; return the node that pushes."""
    editor, graph, kind = at.editor, at.editor.given, _kind(at.dtype)
    variable = graph.names[gradient.variable]
    shared = f"{variable}:0/grad_accum" + (f"_{again}" if again else "")
    size = None if gradient.indices else mean_shape(graph, gradient)
    family = "Sparse" if gradient.indices else ""
    local, start = numbers

    found = {
        "shape": AttrValue(shape=shape_message(size)),
        "shared_name": text_value(shared),
        "container": text_value(""),
    }
    attrs = {**kind, **found, "reduction_type": text_value("MEAN")}
    made = at.add(
        f"{variable}/accumulator", f"{family}ConditionalAccumulator", (), attrs, [(2,)]
    )  # a container and a name
    constants = TensorOps(editor, at.device)
    count = constants.constant(f"{editor.names[made]}/needed", needed)
    at.add(f"{variable}/start", "AccumulatorSetGlobalStep", [made, start])
    values = output_on(graph, gradient.values[0])
    if not gradient.indices:
        push = at.add(f"{variable}/push", "AccumulatorApplyGradient", [made, local, values], kind)
        take = at.add(f"{variable}/take", "AccumulatorTakeGradient", [made, count], kind, [size])
        for edge in gradient.values:
            redirect(editor, edge, take)
        return push
    numbering = gradient.indices[0]
    of_rows = dtype_of(graph, numbering)
    listed = shape_on(graph, numbering)
    rows = replace(at, dtype=of_rows).cast(f"{variable}/rows", output_on(graph, numbering), INT64, listed)
    inputs = [made, local, rows, values, constants.constant(f"{editor.names[made]}/shape", [], INT64)]
    unsaid = {**kind, "has_known_shape": AttrValue(b=False)}
    push = at.add(f"{variable}/push", "SparseAccumulatorApplyGradient", inputs, unsaid)
    count_of_all = _rows_of_all(graph, gradient, needed)
    rows_of_one = shape_on(graph, gradient.values[0])
    sizes = [(count_of_all,), None if rows_of_one is None else (count_of_all, *rows_of_one[1:]), None]
    take = at.add(f"{variable}/take", "SparseAccumulatorTakeGradient", [made, count], kind, sizes)
    taken = replace(at, dtype=INT64).cast(f"{variable}/taken_rows", take, of_rows, (count_of_all,))
    for edge in gradient.indices:
        redirect(editor, edge, taken)
    for edge in gradient.values:
        redirect(editor, edge, (take, 1))
    return push


def _rows_of_all(graph: Graph, gradient: Gradient, needed: int) -> int:
    """The rows of the mean of so many sparse gradients, as if no row occurred in two, and at most the table's."""
    shape, whole = shape_on(graph, gradient.indices[0]), variable_shape(graph, gradient.variable)
    if not shape or shape[0] < 0:
        return -1
    return min(needed * shape[0], max(whole[0], shape[0])) if whole and whole[0] >= 0 else needed * shape[0]


def _hand_out(steps: _Steps, name: str, queue: int, count: int, step: int) -> int:
    """Enqueue that many tokens with the number of a step."""
    home = steps.home
    dims = home.constant(f"{name}/dims", [count])
    kinds = {**typed(home.dtype), "index_type": type_value(INT32)}
    fill = home.add(f"{name}/fill", "Fill", [dims, step], kinds, [(count,)])
    kinds = {"Tcomponents": types([home.dtype]), "timeout_ms": number(-1)}
    return home.add(name, "QueueEnqueueManyV2", [queue, fill], kinds)


# ---- attributes -----------------------------------------------------------------------------------------------------


_SHAPED: Attrs = {"shape": AttrValue(shape=SCALAR), "container": text_value(""), "shared_name": text_value("")}


def _kind(dtype: int) -> Attrs:
    return {"dtype": type_value(dtype)}


def _queue_attrs(dtype: int) -> Attrs:
    shapes = AttrValue()
    shapes.list.shape.append(SCALAR)
    kind = {"component_types": types([dtype]), "shapes": shapes, "capacity": number(-1)}
    return {**kind, "container": text_value(""), "shared_name": text_value("sync_token_q")}


# ---- the programs ---------------------------------------------------------------------------------------------------


def with_accumulators(programs: Sequence[Program], regime: Regime | None) -> tuple[Program, ...]:
    """The programs of synchronous training: each worker pushes its gradients, the first one's task makes the updates.

    The program of the updates comes last. A graph without a global step gets one on the first task that keeps
    variables. Programs stay as they are in another regime, where a single worker averages only its own gradients, and
    where collectives join the workers.

    Raises SimvizError for no workers, GraphError for a graph without gradients, or whose variables are not on a task
    that all share, and as `regimes.with_defaults`.
    """
    if regime is None or not regime.averages:
        return tuple(programs)
    workers = workers_of(programs)
    if workers[0].joined > 1:
        return tuple(programs)
    known = with_defaults(regime, len(workers))
    if len(workers) == known.aggregate == 1:
        return tuple(programs)
    made: dict[int, Accumulating] = {}
    changed: list[Program] = []
    for row, program in enumerate(programs):
        if program.role != "worker":
            changed.append(program)
        elif program.like is None:
            made[row] = new = accumulating(program, known, alone=len(workers) == 1)
            step = _step(new.graph, program.feeds, new.train)
            changed.append(replace(program, graph=new.graph, fetches=step.fetches, feeds=step.feeds, counts=()))
        else:
            changed.append(_identical(program, changed[program.like], made[program.like]))
    chief = programs.index(workers[0])
    worker, own = changed[chief], made[chief]
    return (*changed, updates_of(worker, _step(worker.graph, worker.feeds, own.updates), own.counts))


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


def _step(graph: Graph, feeds: Sequence[str], fetches: Sequence[str]) -> Step:
    """The step of these fetches, with those of the feeds that they need."""
    runs = choose_step(graph, fetches=fetches).runs
    return choose_step(
        graph, feeds=[name for name in feeds if runs[graph.row(name.partition(":")[0])]], fetches=fetches
    )
