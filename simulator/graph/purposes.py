"""Purposes of nodes: to train, or only to prepare, save, watch or feed the computation.

The ops in a node's fan-in decide, never names: a name is the user's, an op is TensorFlow's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from simulator.columns import Flags, flags
from simulator.graph import registry
from simulator.graph.captured import captures
from simulator.graph.dataflow import readers
from simulator.graph.graph import Graph
from simulator.graph.messages import Proto
from simulator.graph.op_classes import functions_of
from simulator.graph.traversal import PLACEHOLDERS, all_sources, closure, fan_in, fan_out, gathered, sinks

# Optimizers' update ops (tensorflow/core/ops/training_ops.cc).
_APPLY = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]\w*")
_GRADIENT = ("grad", "delta")  # its names in their registrations
# With SyncReplicasOptimizer the gradients pass through an accumulator, which no edge shows: one client's step fills it,
# the chief takes from it and updates (tensorflow/python/training/sync_replicas_optimizer.py).
_FILL = re.compile(r"(Resource|Sparse)?AccumulatorApplyGradient")
_TAKE = re.compile(r"(Resource|Sparse)?AccumulatorTakeGradient")
SAVES = re.compile(r"Save(V2|Slices)?|Restore(V2|Slice)?|MergeV2Checkpoints|ShardedFilename|ShardedFilespec")
_CHECK = re.compile(r"IsVariableInitialized|VarIsInitializedOp|Is\w+Initialized")
_SUMMARY = re.compile(r"\w*Summary\w*")
_SIDE = re.compile(
    rf"{_SUMMARY.pattern}"
    r"|(Queue|Barrier)(Enqueue|EnqueueMany|Close|InsertMany)(V2)?"
    r"|InitializeTable\w*|LookupTableImport(V2)?|MakeIterator|DestroyResourceOp"
)
_ASSIGN = re.compile(r"Assign(VariableOp)?")
_ADD = re.compile(r"AssignAdd(VariableOp)?")
_WRITE = re.compile(r"Assign(Add|Sub)?(VariableOp)?|(Resource)?Scatter(Nd)?(Add|Div|Max|Min|Mul|Sub|Update)")
_LIVE = re.compile(r"Placeholder(V2|WithDefault)?|\w*Dequeue\w*|Iterator\w*GetNext\w*|Reader(Read|ReadUpTo)(V2)?|_Arg")
# Ops that change what is kept between steps, besides variables; what a dequeue takes is an input of the step
_KEPT = re.compile(r"\w*Accumulator(Apply|Take)Gradient|(Queue|Barrier)(Enqueue|EnqueueMany|Close|InsertMany)(V2)?")
# Ops that compute nothing by themselves: a sink of this kind is a leftover.
_IDLE = re.compile(
    r"Const|Placeholder(V2|WithDefault)?|Variable(V2)?|VarHandleOp|_Arg|\w*Queue(V2)?|HashTable(V2)?|Iterator(V2)?"
)

_GROUP = re.compile(r"NoOp|Identity|IdentityN|ReadVariableOp")
Sources: TypeAlias = list[list[int]]  # as of `all_sources`
_ARGUMENT = "_user_specified_name"  # attribute of a function's arguments
_GROUPS = 8  # sets of control inputs that are compared
MAX_INITIAL_VALUE = 5000  # nodes; a value that needs more is computed, not given


def _is_apply(op: str) -> bool:
    """Tell whether the op updates a variable by an optimizer's rule."""
    return bool(_APPLY.fullmatch(op))


def apply_nodes(graph: Graph) -> list[int]:
    """The nodes that update variables by an optimizer's rule, themselves or in a function that they call."""
    training = _training_functions(graph.library)
    chosen = {op for op in set(graph.ops) if _is_apply(op) or op in training}
    rows = {row for row, op in enumerate(graph.ops) if op in chosen}
    if training:
        rows |= {row for row, attrs in enumerate(graph.attrs) if not training.isdisjoint(functions_of(attrs))}
    return sorted(rows)


def gradient_slot(op: str) -> int | None:
    """The place of the gradient among the inputs of an optimizer's update; None for any other op."""
    facts = registry.facts(op) if _is_apply(op) else None
    names = [] if facts is None else [argument.name for argument in facts.inputs]
    return next((names.index(name) for name in _GRADIENT if name in names), None)


def filling_nodes(graph: Graph, rows: Sequence[int]) -> list[int]:
    """The nodes that hand over the gradients of a step which computes none itself, by the nodes that it is to run.

    It takes them from accumulators, or reads variables in which other steps add them up.
    """
    taking, adding = _kinds(graph, _TAKE), _kinds(graph, _ADD)
    if not taking.any() and not adding.any():
        return []
    runs = fan_in(graph, rows)
    if np.any(taking & runs):
        filling: list[int] = np.flatnonzero(_kinds(graph, _FILL) & ~runs).tolist()
        return filling
    adds: list[int] = np.flatnonzero(adding & ~runs).tolist()
    return _adding_examples(graph, runs, adds) if adds else []


def _adding_examples(graph: Graph, runs: Flags, adds: list[int]) -> list[int]:
    """Those additions of examples that the step's updates read; none if one of these has examples by itself."""
    sources = all_sources(graph)
    slots = [(row, gradient_slot(graph.ops[row])) for row in np.flatnonzero(runs).tolist()]
    gradients = [sources[row][slot] for row, slot in slots if slot is not None]
    live = _below(graph, sources, _LIVE)
    if live[gradients].any():
        return []
    read = fan_in(graph, gradients)
    return [row for row in adds if live[row] and read[sources[row][0]]]


def first_values(graph: Graph) -> list[int]:
    """Per variable the first node that assigns a value which needs nothing from outside."""
    sources = all_sources(graph)
    rows = _kinds(graph, _ASSIGN) & ~_below(graph, sources, _LIVE) & ~_below(graph, sources, SAVES)
    found: dict[int, int] = {}
    for row in np.flatnonzero(rows).tolist():
        if _initialises(row, sources):
            found.setdefault(sources[row][0], row)
    return list(found.values())


def _training_functions(library: Mapping[str, Proto]) -> set[str]:
    """The functions with an optimizer's update in their body, or in that of a function that they call."""
    callers: dict[str, list[str]] = {}
    updating = set()
    for name, function in library.items():
        for node in function.node_def:
            if _is_apply(node.op):
                updating.add(name)
            for called in (node.op, *functions_of(node.attr)):
                if called in library:
                    callers.setdefault(called, []).append(name)
    return closure(updating, lambda name: callers.get(name, ()))


def computes(graph: Graph, candidates: list[int]) -> list[int]:
    """The nodes that are not initialisers, savers, readiness checks, queue runners, summaries or leftovers."""
    side = _side_work(graph)
    return [row for row in candidates if not side[row]]


def preparing(graph: Graph) -> Flags:
    """[N] the nodes that initialise, save, check readiness, feed queues or are left over; summaries are not among them.

    Other steps than those of the computation run them, mostly without its feeds.
    """
    return flags(np.array(_side_work(graph), bool) & ~_below(graph, all_sources(graph), _SUMMARY))


def groups_of(graph: Graph, trained: list[int]) -> list[int]:
    """Groups of the train ops with more, such as moving averages: a `tf.group`, or a `tf.no_op` that waits.

    Groups count only where the train ops cover all updates of the graph; else somebody chose some of them.
    """
    if not fan_in(graph, trained)[apply_nodes(graph)].all():
        return []
    above = set.intersection(*(set(fan_out(graph, [row])) for row in trained)) - set(trained)
    ends = sorted(row for row in above.intersection(sinks(graph)) if graph.ops[row] == "NoOp")
    return computes(graph, ends) if ends else []


def returned(graph: Graph, ends: list[int]) -> list[int]:
    """The values among these sinks that a traced function returns; [] where nothing tells them from other sinks.

    The function returns an Identity of each result, with a control input for all that changes state or reads it
    (tensorflow/python/framework/auto_control_deps.py). Other sinks of its body never run. So these wait for all updates
    of variables. Where a function that captures variables updates none, they wait for all reads that an op uses. One
    that does neither is known by its arguments (func_graph.py, `_get_defun_input`), and returns its Identities.
    """
    awaited = updates(graph)
    if not awaited and captures(graph):
        awaited = [row for row, op in enumerate(graph.ops) if op == "ReadVariableOp" and readers(graph, row)]
    if not awaited:
        given = [_ARGUMENT in attrs for op, attrs in zip(graph.ops, graph.attrs, strict=True) if op in PLACEHOLDERS]
        return [row for row in ends if graph.ops[row] == "Identity"] if given and all(given) else []
    groups = waiting(graph, ends)
    if len(groups) > _GROUPS:
        return []
    return sorted(row for rows in groups.values() if fan_in(graph, rows[:1])[awaited].all() for row in rows)


def updates(graph: Graph) -> list[int]:
    """The nodes that change variables, by an optimizer's rule or by plain ops, and give no first values."""
    side = _side_work(graph)
    written = [row for row in np.flatnonzero(_kinds(graph, _WRITE)).tolist() if not side[row]]
    return sorted({*written, *apply_nodes(graph)})


def changing(graph: Graph) -> list[int]:
    """The nodes that change variables as `updates` does, or what queues and accumulators hold."""
    return sorted({*updates(graph), *np.flatnonzero(_kinds(graph, _KEPT)).tolist()})


def inputs_of(graph: Graph, feeds: Sequence[str]) -> list[int]:
    """[N] bits of the tensors from outside from which each node is computed: fed, of placeholders, or dequeued.

    `feeds` names the tensors that a step is fed besides. Back edges of loops do not count.
    """
    live = _kinds(graph, _LIVE)
    given = {graph.tensor_row(name) for name in feeds}
    given.update(np.flatnonzero(live[graph.tensor_node]).tolist())
    bit = {tensor: 1 << at for at, tensor in enumerate(sorted(given))}
    own = [0] * len(graph)
    for tensor, one in bit.items():
        own[graph.tensor_node[tensor]] |= one
    all_of, before = list(own), [list[int]() for _ in own]
    for src, dst, tensor in zip(
        graph.edge_src.tolist(), graph.edge_dst.tolist(), graph.edge_tensor.tolist(), strict=True
    ):
        if tensor in bit:
            own[dst] |= bit[tensor]
        elif live[src]:
            own[dst] |= all_of[src]
        else:
            before[dst].append(src)
    return gathered(graph.topological.tolist(), before, own, loops=False)


def waiting(graph: Graph, ends: list[int]) -> dict[tuple[int, ...], list[int]]:
    """The Identities among these sinks that wait for others by control inputs, by those for which they wait."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for row in ends:
        edges = range(graph.in_ptr[row], graph.in_ptr[row + 1]) if graph.ops[row] == "Identity" else ()
        control = tuple(int(graph.edge_src[edge]) for edge in edges if graph.edge_tensor[edge] < 0)
        if control:
            groups.setdefault(control, []).append(row)
    return groups


def _kinds(graph: Graph, pattern: re.Pattern[str]) -> Flags:
    chosen = {op for op in set(graph.ops) if pattern.fullmatch(op)}
    return flags(np.fromiter(map(chosen.__contains__, graph.ops), bool, len(graph)))


def _below(graph: Graph, sources: Sources, pattern: re.Pattern[str]) -> Flags:
    """[N] true where a node's fan-in, with itself, holds an op of that kind; back edges of loops do not count."""
    mark = _kinds(graph, pattern).tolist()
    if True in mark:
        for row in graph.topological.tolist():
            mark[row] = mark[row] or any(mark[source] for source in sources[row])
    return flags(mark)


def _side_work(graph: Graph) -> list[bool]:
    sources = all_sources(graph)
    live, saves, checks = (_below(graph, sources, pattern) for pattern in (_LIVE, SAVES, _CHECK))
    side = _kinds(graph, _SIDE) | _kinds(graph, _IDLE) | saves | (checks & ~live)
    work: list[bool] = side.tolist()
    for row in np.flatnonzero(_kinds(graph, _ASSIGN) & ~side & ~live).tolist():
        work[row] = _initialises(row, sources)
    # A NoOp that groups others, or an Identity (a read) after them, has their purpose.
    for row in graph.topological[_kinds(graph, _GROUP)[graph.topological]].tolist():
        work[row] = work[row] or all(work[source] for source in sources[row])
    return work


def _initialises(row: int, sources: Sources) -> bool:
    """Tell whether an Assign without live inputs gives a first value, which is not made from the variable."""
    variable, *pending = sources[row] or [-1]
    seen = set(pending)
    while pending and len(seen) < MAX_INITIAL_VALUE:
        new = [source for source in sources[pending.pop()] if source not in seen]
        seen.update(new)
        pending += new
    return not pending and variable not in seen
