"""Devices as TensorFlow's `replica_device_setter` gives them, had the graph been built under it.

TensorFlow calls the setter for every op as the op is made, which is the order of the nodes of a GraphDef. A variable
goes to the task that the strategy names, any other op to the worker. A variable is any op of `PS_OPS`, also a slot, the
global step or a table. A node that is colocated with another one takes that node's device afterwards. So slots end up
beside their variables, though the strategy has moved on. Sources: `device_setter.py` (tensorflow/python/training),
`_create_op_helper` (tensorflow/python/framework/ops.py), `variables.py` and `resource_variable_ops.py`
(tensorflow/python/ops).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias, get_args

import numpy as np

from simulator.cluster.devicespec import ANYWHERE, parse, specialise
from simulator.errors import GraphError, SimvizError
from simulator.graph.attributes import colocated_with
from simulator.graph.editor import edited
from simulator.graph.graph import Graph
from simulator.graph.op_classes import VARIABLES
from simulator.training.recognition.variables import (
    colocated_rows,
    variable_bytes,
    variable_of,
)
from simulator.wording import near

PsStrategy: TypeAlias = Literal["round_robin", "bytes", "random"]

# STANDARD_PS_OPS of device_setter.py
PS_OPS = frozenset(
    """
    Variable VariableV2 AutoReloadVariable VarHandleOp MutableHashTable MutableHashTableV2 MutableHashTableOfTensors
    MutableHashTableOfTensorsV2 MutableDenseHashTable MutableDenseHashTableV2 ResourceConditionalAccumulator
    DecisionTreeResource BoostedTreesEnsembleResourceHandleOp BoostedTreesQuantileStreamResourceHandleOp
    """.split()  # noqa: SIM905  # a list of quoted names would be twice as long
)
_TENSOR_ARRAYS = frozenset(("TensorArrayV2", "TensorArrayV3"))
_ASSIGNS = frozenset(("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"))


@dataclass(frozen=True, slots=True)
class Setter:
    """A device setter: the tasks that keep variables, and the strategy that spreads these."""

    ps: Sequence[str]  # "/job:ps/task:0", or a device; none: variables stand on the worker
    strategy: PsStrategy = "round_robin"
    seed: int = 0  # of the strategy "random"

    def devices(self, graph: Graph, worker: str) -> tuple[str, ...]:
        """[N] the device string of each node: on one of the tasks `ps`, or on `worker`.

        Fields that the graph's own strings set win, as they do in TensorFlow; a variable that names another job does
        not ask the strategy. A node that is colocated with a later one, such as a first value with its variable, has no
        device of its own. Raises GraphError where the strategy needs a size that the graph does not say, and
        SimvizError for another strategy.
        """
        ps, choose, scoped = self.ps, _strategy(graph, self), _scopes(graph)
        given: list[str] = []
        read: set[int] = set()
        for row, (op, requested) in enumerate(zip(graph.ops, graph.requested, strict=True)):
            own, others = parse(requested), colocated_rows(graph, row)
            where = parse(worker)
            if op in PS_OPS and ps:
                asks = own.job in (None, parse(ps[0]).job)
                where = parse(ps[choose(row)]) if asks else parse(ps[0])._replace(task=None)
            merged = specialise(where, own)
            device = "" if merged == ANYWHERE else str(merged)
            if others:
                _first_read(graph, row, read)
                given.append(next((given[other] for other in others if other < row), ""))
            elif _is_group(graph, row):
                homes = {given[source] if source < row else "" for source in _members(graph, row, scoped)}
                given.append(next(iter(homes)) or device if len(homes) == 1 else device)
            else:
                given.append(_exception(graph, row, device, given, read))
        return _with_late_homes(graph, given)


def _with_late_homes(graph: Graph, given: Sequence[str]) -> tuple[str, ...]:
    """[N] the same devices, and those of variables that are colocated with a later one.

    TensorFlow makes no slot before its variable, but the writer of a graph may sort its nodes.
    """
    homes = list(given)
    for row, op in enumerate(graph.ops):
        if op in PS_OPS and not given[row]:
            homes[row] = next((given[other] for other in colocated_rows(graph, row) if given[other]), "")
    return tuple(homes)


def _is_group(graph: Graph, row: int) -> bool:
    """Tell whether `tf.group` made a node, as far as a graph shows: a NoOp that waits, without a device of its own.

    It has none, or the one of all nodes for which it waits. A bare `tf.no_op()` is recognised by its name alone.
    """
    first, last = int(graph.in_ptr[row]), int(graph.in_ptr[row + 1])
    if graph.ops[row] != "NoOp" or first == last or graph.names[row].rpartition("/")[2].startswith("NoOp"):
        return False
    place = graph.requested[row]
    return not place or all(graph.requested[source] == place for source in graph.edge_src[first:last].tolist())


def _members(graph: Graph, row: int, scoped: frozenset[int]) -> list[int]:
    """The nodes for which a group waits by itself, without those of its control scope (`_scopes`)."""
    sources = graph.sources(row)
    return [source for source in sources if source not in scoped]


def _scopes(graph: Graph) -> frozenset[int]:
    """The nodes for which a control scope waits: constants made within it wait for them, and have no other reason."""
    constant = np.fromiter((op == "Const" for op in graph.ops), bool, len(graph))
    return frozenset(graph.edge_src[constant[graph.edge_dst]].tolist())


def _exception(graph: Graph, row: int, device: str, given: Sequence[str], read: set[int]) -> str:
    """The device of a node around which TensorFlow's own code opens or closes device scopes, else `device`.

    Assignments to a handle, the read that is made with a variable, and values that a Saver assigns stand on the
    variable's device. Other reads of a handle, the Enter that takes it into a loop, and TensorArrays are made outside
    of all scopes.
    """
    op, requested = graph.ops[row], graph.requested[row]
    if op == "ReadVariableOp":
        first = _first_read(graph, row, read)
        variable = variable_of(graph, row)
        if first and variable is not None and variable < row:
            return given[variable]
        return device if _after_assignment(graph, row) else requested
    if op == "AssignVariableOp" or (
        op == "Identity" and [graph.ops[at] for at in graph.sources(row)[:1]] == ["RestoreV2"]
    ):
        assign = row if op == "AssignVariableOp" else _reader(graph, row, "AssignVariableOp")
        variable = None if assign is None else variable_of(graph, assign)
        return device if variable is None or variable > row else given[variable]
    if op in _TENSOR_ARRAYS or (op == "Const" and _is_size_of_array(graph, row)):
        return requested
    if op == "Enter" and variable_of(graph, row) is not None and _reader(graph, row, "ReadVariableOp") is not None:
        return requested
    return device


def _first_read(graph: Graph, row: int, read: set[int]) -> bool:
    """Tell whether the node is the first to read its handle; `read` has the handles read so far, and gets this one."""
    variable = variable_of(graph, row) if graph.ops[row] == "ReadVariableOp" else None
    if variable is None or variable in read:
        return False
    read.add(variable)
    return True


def _after_assignment(graph: Graph, row: int) -> bool:
    """Tell whether a read waits for an assignment to its own handle, and for no scatter: it is the assigned value."""
    handle, *waits = graph.sources(row)
    writes = [graph.ops[at] for at in waits if "Resource" in graph.ops[at] or graph.ops[at] in _ASSIGNS]
    own = any(graph.edge_src[graph.in_ptr[at]] == handle for at in waits if graph.ops[at] in _ASSIGNS)
    return own and all(op in _ASSIGNS for op in writes)


def _is_size_of_array(graph: Graph, row: int) -> bool:
    array, _, last = graph.names[row].rpartition("/")
    return last == "size" and array in graph.index and graph.ops[graph.index[array]] in _TENSOR_ARRAYS


def _reader(graph: Graph, row: int, op: str) -> int | None:
    """The first node of that op among those that follow a node."""
    followers = sorted(int(graph.edge_dst[edge]) for edge in graph.out_edges(row))
    return next((reader for reader in followers if graph.ops[reader] == op), None)


def _strategy(graph: Graph, setter: Setter) -> Callable[[int], int]:
    """The task for each variable in turn; every call moves the strategy on."""
    known, strategy, count = get_args(PsStrategy), setter.strategy, len(setter.ps)
    if strategy not in known:
        raise SimvizError(
            f"there is no strategy {strategy!r} for parameter servers; give one of {', '.join(known)}."
            f"{near(strategy, known)}"
        )
    if strategy == "round_robin":
        turn = iter(range(len(graph)))
        return lambda row: next(turn) % count
    if strategy == "random":
        random = Random(setter.seed)
        return lambda row: random.randrange(count)
    loads = [0] * count

    def lightest(row: int) -> int:
        task = loads.index(min(loads))
        loads[task] += _load(graph, row)
        return task

    return lightest


def _load(graph: Graph, row: int) -> int:
    """Bytes of a variable; a table counts nothing, as its rows come later."""
    if graph.ops[row] not in VARIABLES:
        return 0
    size = variable_bytes(graph, row)
    if size < 0:
        name = graph.names[row]
        raise GraphError(
            f"{graph.source}: the variable {name!r} does not say how large it is, which the strategy 'bytes' asks for; "
            "declare its shape, or take round_robin.",
            node=name,
        )
    return size


# ---- groups over several tasks, as `tf.group` makes them ------------------------------------------------------------
# `tf.group` makes a NoOp on each device first, then one that waits for these. So one signal comes from each task, and
# not one per variable (tensorflow/python/ops/control_flow_ops.py).
#
#     update_w (ps 0) ─┐                     update_w ─▶ update/NoOp   (ps 0) ─┐
#     update_b (ps 1) ─┼─▶ update     ─▶     update_b ─▶ update/NoOp_1 (ps 1) ─┴─▶ update
#     update_v (ps 1) ─┘                     update_v ─┘


_ELSEWHERE = "/job:worker"


def grouped(graph: Graph, setter: Setter) -> Graph:
    """The graph with its groups in two levels where they wait for nodes on several of the setter's tasks.

    A NoOp that is added for one of these tasks asks for it; the rest is as the graph has it. Raises as
    `Setter.devices`.
    """
    if not setter.ps:
        return graph
    given = setter.devices(graph, _ELSEWHERE)
    jobs = {parse(task).job for task in setter.ps}
    editor = edited(graph, as_made=False)
    scoped = _scopes(graph)
    for row in range(len(graph)):
        if not _is_group(graph, row) or colocated_with(graph.attrs[row]):
            continue
        own = _members(graph, row, scoped)
        waits: dict[str, list[int]] = {}
        for source in own:
            waits.setdefault(given[source], []).append(source)
        if len(waits) < 2:
            continue
        around = [source for source in editor.controls_of(row) if source not in own]
        for edge in list(editor.ins[row]):
            if editor.edges[edge][0] in own:
                editor.remove_edge(edge)
        editor.devices[row] = ""
        for device in sorted(waits):
            name, home = editor.free(f"{graph.names[row]}/NoOp"), device if parse(device).job in jobs else ""
            editor.add_control_edge(editor.add(name, "NoOp", (), [*waits[device], *around], device=home), row)
    return graph if len(editor.names) == len(graph) else editor.built()
