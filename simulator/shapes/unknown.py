"""Tensors of unknown size: which they are, how many, and what would make them known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints, flags, ids
from simulator.graph.captured import captured, is_table, read_whole, said_by
from simulator.graph.dataflow import data_inputs
from simulator.graph.dtypes import REF, STRING
from simulator.graph.graph import Graph, Shape
from simulator.graph.op_classes import CONTROL_FLOW
from simulator.graph.step import Step, exchange
from simulator.graph.tensors import sides_text
from simulator.graph.traversal import PLACEHOLDERS
from simulator.shapes.feeds import written
from simulator.shapes.propagation import ARGUMENTS, EDGE
from simulator.shapes.rules import RULES
from simulator.wording import counted, most_first, some

OPAQUE = frozenset(
    (
        ("FusedBatchNormV3", 5),
        ("_FusedBatchNormEx", 5),
        ("CudnnRNN", 3),
        *((op, port) for op in ("CudnnRNNV2", "CudnnRNNV3") for port in (3, 4)),
    )
)
"""Workspace that cuDNN passes from forward to backward, by op and port: TensorFlow does not know its size."""


def unsized(graph: Graph, sizes: Ints, *, ends: bool = False) -> Flags:
    """[T] true for a tensor with a reader whose size is unknown though its type has one.

    Strings, whose size is never known, and workspace do not count. With `ends` also a tensor of a node of which nothing
    is read: it may be fetched.
    """
    taken = graph.edge_tensor
    if ends:
        is_read = np.zeros(len(graph), bool)
        is_read[graph.tensor_node[taken[taken >= 0]]] = True
        taken = ids(np.concatenate([taken, np.flatnonzero(~is_read[graph.tensor_node])]))
    return _unsized(graph, sizes, taken)


def unknown_shapes(graph: Graph, step: Step | None = None) -> Mapping[str, int]:
    """Number of tensors of unknown size per op, most first, ties by name; they count 0 bytes.

    As `unsized`; in a step only tensors that its nodes or its client read, fed ones included. A variable that a
    function captures counts by its handle where nothing says its size, but for tables (`is_table`).
    """
    rows = np.flatnonzero(_unsized(graph, graph.tensor_bytes, _read(graph, step)))
    counts = Counter(graph.ops[graph.tensor_node[row]] for row in rows.tolist())
    counts.update(graph.ops[row] for row in _held(graph, step) if not is_table(graph, row))
    return dict(most_first(counts))


def unfed(graph: Graph, step: Step) -> str:
    """A sentence on the placeholders of a step whose size only a feed can give; "" if there are none."""
    rows = np.flatnonzero(_unsized(graph, graph.tensor_bytes, _read(graph, step))).tolist()
    names = [
        f"{graph.tensor_name(row)} ({written(graph.tensor_shape[row])})"
        for row in rows
        if graph.ops[graph.tensor_node[row]] in ARGUMENTS
    ]
    said = f"the size of {some(names)} is unknown, and so is what depends on it: give the shape as a feed"
    return said if names else ""


def _read(graph: Graph, step: Step | None) -> Ids:
    """The tensors that are read, as often as they are; in a step those that its nodes or its client read."""
    if step is None:
        return graph.edge_tensor
    client = exchange(graph, step)
    return ids(np.concatenate([graph.edge_tensor[client.edges], client.fetched]))


def _held(graph: Graph, step: Step | None) -> dict[int, list[int]]:
    """The handles of variables of unknown size that a function captures, with their users; in a step those that run."""
    held = captured(graph)
    if step is None:
        return held
    running = {row: [one for one in users if step.runs[one]] for row, users in held.items()}
    return {row: users for row, users in running.items() if users}


def _unsized(graph: Graph, sizes: Ints, taken: Ids) -> Flags:
    """[T] as `unsized`, for the readers `taken`, in which -1 is a control edge."""
    read = np.zeros(len(sizes), bool)
    read[taken[taken >= 0]] = True
    found: npt.NDArray[np.bool_] = read & (sizes < 0)
    found &= graph.tensor_dtype % REF != STRING
    rows = np.flatnonzero(found)
    made = map(graph.ops.__getitem__, graph.tensor_node[rows].tolist())
    found[rows] = [one not in OPAQUE for one in zip(made, graph.tensor_port[rows].tolist(), strict=True)]
    return flags(found)


_COMPUTED = (RULES.keys() | CONTROL_FLOW) - EDGE  # ops whose sizes hang on what comes to them
_WITH_SHAPES = "a file that has them: write it from as_graph_def(add_shapes=True)"

# --- what would make them known --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unsized:
    """The tensors of a step whose size is unknown: they count 0 bytes, and what computes on them too little.

    So do tables, captured variables of which rows alone are taken. But no time hangs on how many rows these have.
    """

    ops: Mapping[str, int]  # op -> number of its tensors, most first, ties by name; without tables
    remedy: str  # the option or file that makes most of them known, "?" for what to fill in; "" if all sizes are known
    tables: int = 0

    @property
    def tensors(self) -> int:
        """How many there are."""
        return sum(self.ops.values())

    @property
    def least(self) -> str:
        """The mark of a time or of what is moved, which these tensors would make larger; "" if none would."""
        return "≥ " if self.tensors else ""

    @property
    def least_held(self) -> str:
        """The mark of memory, which these tensors and tables would make larger; "" if all sizes are known."""
        return "≥ " if self.tensors or self.tables else ""

    @property
    def most(self) -> str:
        """The mark of a rate, which these tensors would make smaller; "" if all sizes are known."""
        return "≤ " if self.tensors else ""

    @property
    def words(self) -> str:
        """How many there are, as a phrase; "" if all sizes are known."""
        return f"{counted(self.tensors, 'tensor')} of unknown size" if self.tensors else ""

    @property
    def cure(self) -> str:
        """The remedy, as a sentence that follows `words`, without its full stop; "" if there is none."""
        many = (self.tensors or self.tables) > 1
        known = "most become known by" if many else "it becomes known by"
        said = f"{'They count' if many else 'It counts'} nothing"
        if not self.tensors:
            said = f"Memory lacks {counted(self.tables, 'table')} of unknown size"
        return f"{said}; {known} {self.remedy}" if self.remedy else ""

    @property
    def sentences(self) -> str:
        """`words` and `cure`, without the last full stop."""
        return ". ".join(filter(None, (self.words, self.cure)))

    def facts(self) -> Mapping[str, Any]:
        """The keys of docs/json.md that say so. Any: JSON."""
        return {
            "memory_is_lower_bound": bool(self.least_held),
            "unsized_tensors": self.tensors,
            "unsized_tables": self.tables,
            "unsized_ops": dict(self.ops),
            "unsized_remedy": self.remedy or None,
        }


SIZED = Unsized({}, "")  # all sizes are known


def unsized_of(graph: Graph, step: Step) -> Unsized:
    """The tensors of unknown size that a step reads, and the feed for which most of them wait.

    A placeholder is preferred, as a feed of anything else replaces what makes it. Then come variables that a function
    captures, as no step is observed without their sizes. Several are too many to be fed. TensorFlow writes the sizes of
    those that are read whole if asked to. Ties: the tensor that comes first. Where the size hangs on what the
    step computes, such as boxes that are left, an observed step shows it.
    """
    ops, held = unknown_shapes(graph, step), _held(graph, step)
    tables = sum(is_table(graph, row) for row in held)
    if not ops and not tables:
        return SIZED
    return Unsized(ops, _remedy(graph, step, held), tables)


def _remedy(graph: Graph, step: Step, held: Mapping[int, Sequence[int]]) -> str:
    """The option or file that makes most sizes known, where some are unknown."""
    sized = graph.tensor_bytes >= 0
    closed = sized | (graph.tensor_dtype % REF == STRING)
    inputs = [[row for row in one if not closed[row]] for one in data_inputs(graph)]
    source = graph.tensor_node.tolist()
    waiting: dict[int, set[int]] = {}  # tensor -> the first ones on which its size hangs
    roots: Counter[int] = Counter()
    for node in graph.topological.tolist():
        rows = [row for row in graph.outputs(node) if not closed[row]]
        behind = set().union(*(waiting.get(row, set()) for row in inputs[node]))
        for row in rows:
            waiting[row] = behind or {row}
            if step.runs[node]:
                roots.update(waiting[row])
    fed = [row for row in roots if graph.ops[source[row]] in PLACEHOLDERS]  # sizes may hang on their values, too
    if held and not fed:
        if sum(read_whole(graph, users) for users in held.values()) > 1:
            return _WITH_SHAPES
        first, users = next(iter(held.items()))
        return _feed(f"{graph.names[first]}:0", said_by(graph, users))
    if not roots:
        return ""
    row = min(fed or roots, key=lambda row: (-roots[row], row))
    if graph.ops[source[row]] in _COMPUTED:
        return "--observe"
    return _feed(graph.tensor_name(row), graph.tensor_shape[row])


def _feed(tensor: str, shape: Shape | None) -> str:
    asked = "SHAPE" if shape is None else sides_text(shape)
    return f"--feed {tensor}={asked}"
