"""What a training graph is made of: variables, gradients, updates, the global step and the batch, told from its ops.

    variables ─▶ forward, backward ─▶ gradients ─▶ updates ─▶ variables
    batch ─────▶                                   learning rate, slots

A gradient is where a replica ends: what comes before it is computed per replica, what comes after it once per update.
Names say nothing here, for they are the user's; which input of an update is a gradient the op's registration says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.errors import GraphError
from simulator.graph.dtypes import SIZE, base
from simulator.graph.graph import Graph, Shape
from simulator.graph.inlining.attributes import COLOCATION
from simulator.graph.ops import registry
from simulator.graph.step import Step, choose_step
from simulator.graph.step.fanin import fan_in
from simulator.graph.tensors import shape_of
from simulator.training.programs.batches import batch_of

VARIABLES = frozenset(("Variable", "VariableV2", "AutoReloadVariable", "VarHandleOp"))
_APPLY_GRADIENT = ("grad", "delta")  # what optimizers' registrations call it (tensorflow/core/ops/training_ops.cc)
_SCATTERS = frozenset(
    f"{prefix}Scatter{kind}"
    for prefix in ("", "Resource")
    for kind in ("Add", "Sub", "Update", "NdAdd", "NdSub", "NdUpdate")
)
_ADDS = frozenset(("AssignAdd", "AssignAddVariableOp"))
_BY_HAND = frozenset(("AssignSub", "AssignSubVariableOp", *_ADDS))
_UNIQUES = frozenset(("Unique", "UniqueV2"))
_SEGMENTS = frozenset(("UnsortedSegmentSum", "UnsortedSegmentSumV2"))
_WHOLE_NUMBERS = frozenset((3, 9))  # int32, int64: what a global step is
_HANDING_ON = 16  # ops through which a reference or handle passes on its way to an update


@dataclass(frozen=True, slots=True)
class Gradient:
    """What one update takes from the backward pass, as edges of the graph.

    A dense one is a single edge. A sparse one, rows of a table, has a second: the numbers of the rows. Where an
    optimizer first adds up the rows that come twice, the edges lead into that sum.
    """

    variable: int  # node
    values: int  # edge
    indices: int | None = None  # edge


@dataclass(frozen=True, eq=False)
class Anatomy:
    """The parts of a training graph; rows of nodes unless said otherwise."""

    step: Step  # what one step runs
    variables: tuple[int, ...]  # in order of creation, slots and the global step among them
    slot_of: Mapping[int, int]  # variable -> the one beside which its optimizer keeps it
    gradients: tuple[Gradient, ...]  # in order of the nodes that they enter
    global_step: int | None  # the variable
    counts: tuple[int, ...]  # what adds to the global step in this step
    batched: tuple[int, ...]  # fed tensors whose first dimension is the batch
    batch: int  # examples of a step; 0: the graph does not say


def anatomy(graph: Graph, *, fetches: Sequence[str] | None = None) -> Anatomy:
    """Find the parts of a training graph; the step is the one that `choose_step` chooses.

    Updates are what optimizers' ops do, and scatters into variables; where there is neither, what is added to or
    subtracted from a variable of numbers and comes from what is fed or read. Raises GraphError for a graph whose step
    updates nothing by a gradient, and as `choose_step`.
    """
    step = choose_step(graph, fetches=fetches)
    runs = np.flatnonzero(step.runs).tolist()
    variables = tuple(row for row, op in enumerate(graph.ops) if op in VARIABLES)
    counts, global_step = _counting(graph, runs)
    slots = _slots(graph, variables)
    gradients = _of_variables(_gradients(graph, runs, set(counts)), slots)
    if not gradients:
        hidden = "; functions that it calls may hold them: inline it first" if graph.library else ""
        raise GraphError(
            f"{graph.source} is a graph without gradients: no op of an optimizer runs in its step{hidden}. Give "
            "a graph that trains, or fetch its train op."
        )
    batched, batch = batch_of(graph, step, [(one.variable, one.values) for one in gradients])
    return Anatomy(step, variables, slots, gradients, global_step, counts, batched, batch)


def trained(graph: Graph) -> frozenset[int]:
    """The variables to which some op of the graph applies a gradient; the graph may be that of a step's pieces."""
    runs = range(len(graph))
    variables = [row for row, op in enumerate(graph.ops) if op in VARIABLES]
    found = _gradients(graph, runs, set(_counting(graph, runs)[0]))
    return frozenset(one.variable for one in _of_variables(found, _slots(graph, variables)))


def variable_of(graph: Graph, row: int, slot: int = 0) -> int | None:
    """The variable whose reference or handle comes in at that input; None: it is no variable's."""
    edge = int(graph.in_ptr[row]) + slot
    for _ in range(_HANDING_ON):
        if edge >= graph.in_ptr[row + 1] or graph.edge_tensor[edge] < 0:
            return None
        row = int(graph.edge_src[edge])
        if graph.ops[row] in VARIABLES:
            return row
        edge = int(graph.in_ptr[row])
    return None


def beside(graph: Graph, row: int) -> list[str]:
    """The names that a node asks to stand beside (`_class`), in the file's order."""
    listed = graph.attrs[row].get(COLOCATION)
    if listed is None:
        return []
    names = [text.decode("utf-8", "replace") for text in listed.list.s]
    return [name.removeprefix("loc:@") for name in names if name.startswith("loc:@")]


def variable_shape(graph: Graph, row: int) -> Shape | None:
    """The shape that a variable declares; None: it does not, or not even its rank."""
    attrs = graph.attrs[row]
    return shape_of(attrs["shape"].shape) if "shape" in attrs else None


def variable_bytes(graph: Graph, row: int) -> int:
    """How large a variable is by its declaration, -1 where that leaves a dimension open."""
    attrs, shape = graph.attrs[row], variable_shape(graph, row)
    size = SIZE.get(base(int(attrs["dtype"].type)), -1) if "dtype" in attrs else -1
    return -1 if shape is None or -1 in shape or size < 0 else int(np.prod(shape, dtype=object)) * size


def _of_variables(gradients: Sequence[Gradient], slots: Mapping[int, int]) -> tuple[Gradient, ...]:
    """An optimizer of plain ops begins with its slots: what it does to one is done to the variable beside it."""
    return tuple(replace(one, variable=slots.get(one.variable, one.variable)) for one in gradients)


def _counting(graph: Graph, runs: Sequence[int]) -> tuple[tuple[int, ...], int | None]:
    """What adds to whole numbers without dimensions; the variable of the first is the global step."""
    found = {}
    for row in runs:
        if graph.ops[row] in _ADDS:
            variable = variable_of(graph, row)
            if variable is not None and _is_counter(graph, variable):
                found[row] = variable
    first = next(iter(found.values()), None)
    return tuple(row for row, variable in found.items() if variable == first), first


def _is_counter(graph: Graph, variable: int) -> bool:
    attrs = graph.attrs[variable]
    return _is_whole(graph, variable) and "shape" in attrs and shape_of(attrs["shape"].shape) in ((), None)


def _is_whole(graph: Graph, variable: int) -> bool:
    """Whether a variable holds whole numbers, which count and do not learn."""
    attrs = graph.attrs[variable]
    return "dtype" in attrs and base(int(attrs["dtype"].type)) in _WHOLE_NUMBERS


def _gradients(graph: Graph, runs: Sequence[int], counts: set[int]) -> tuple[Gradient, ...]:
    found: dict[int, Gradient] = {}  # by the edge of the values: two updates may take the same sum
    for row in runs:
        gradient = _of_update(graph, row)
        if gradient is not None:
            found.setdefault(gradient.values, gradient)
    if not found:
        for row in runs:
            variable = variable_of(graph, row) if graph.ops[row] in _BY_HAND and row not in counts else None
            if variable is not None and not _is_whole(graph, variable) and _is_computed(graph, row):
                found[row] = Gradient(variable, int(graph.in_ptr[row]) + 1)
    return tuple(found.values())


def _is_computed(graph: Graph, row: int) -> bool:
    """Whether what an update adds or subtracts is more than a constant: something in its fan-in has another source."""
    needed = fan_in(graph, [int(graph.edge_src[graph.in_ptr[row] + 1])])
    sources = needed & (np.diff(graph.in_ptr) == 0)
    return any(graph.ops[at] != "Const" for at in np.flatnonzero(sources).tolist())


def _of_update(graph: Graph, row: int) -> Gradient | None:
    """The gradient that the op takes, None if it is none of an optimizer's."""
    facts = registry.facts(graph.ops[row])
    variable = variable_of(graph, row) if facts is not None else None
    if facts is None or variable is None or _is_whole(graph, variable):
        return None
    names, first = [argument.name for argument in facts.inputs], int(graph.in_ptr[row])
    if graph.ops[row] in _SCATTERS:
        given = Gradient(variable, first + 2, first + 1)
        added = _before_the_sum(graph, given)
        return (
            None if added == given and "Update" in graph.ops[row] else added
        )  # rows that are only set are no gradient
    values = next((names.index(name) for name in _APPLY_GRADIENT if name in names), None)
    if values is None or "Apply" not in graph.ops[row]:
        return None
    if "indices" not in names:
        return Gradient(variable, first + values)
    return _before_the_sum(graph, Gradient(variable, first + values, first + names.index("indices")))


def _before_the_sum(graph: Graph, gradient: Gradient) -> Gradient:
    """The same gradient before its optimizer adds up rows that come twice: Unique numbers and a sum per number.

    What an optimizer makes of the sum need not be linear, so replicas are joined before it.
    """
    assert gradient.indices is not None
    unique = int(graph.edge_src[gradient.indices])
    if graph.ops[unique] not in _UNIQUES:
        return gradient
    for edge in graph.out_edge[graph.out_ptr[unique] : graph.out_ptr[unique + 1]].tolist():
        reader = int(graph.edge_dst[edge])
        if graph.ops[reader] in _SEGMENTS and graph.edge_tensor[edge] == graph.tensor_ptr[unique] + 1:
            return Gradient(gradient.variable, int(graph.in_ptr[reader]), int(graph.in_ptr[unique]))
    return gradient


def _slots(graph: Graph, variables: Sequence[int]) -> dict[int, int]:
    """Variables that were made beside another one: an optimizer's slots, and what it keeps once."""
    known = set(variables)
    slots = {}
    for row in variables:
        for name in beside(graph, row):
            other = graph.index.get(name, row)
            if other != row and other in known:
                slots[row] = other
    return slots
