"""The flow of values between variables: those that a written value is made from, and those that a variable reaches.

reads ◀── ops that work element by element ── written value        `walk_back`, up to what brings examples
variable ── any ops ──▶ written values, or a result                `reach_of`, such as a loss
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from simulator.columns import Flags
from simulator.graph.dataflow import depending_on, source_of
from simulator.graph.dtypes import base
from simulator.graph.graph import Graph
from simulator.graph.op_classes import ENTERS, MERGES, SWITCHES, VARIABLES
from simulator.graph.purposes import SAVES
from simulator.partitioning.partitions import SENDS
from simulator.training.recognition.variables import variable_of

ADDS = frozenset(("AssignAdd", "AssignAddVariableOp"))
ASSIGNS = frozenset(("Assign", "AssignVariableOp"))
WRITES = frozenset(("AssignSub", "AssignSubVariableOp")) | ADDS | ASSIGNS
BY_ELEMENT = frozenset(
    """
    Abs Add AddV2 Cast CheckNumerics ClipByValue Div DivNoNan Exp Identity Log Maximum Minimum Mul MulNoNan Neg Pow
    RealDiv Reciprocal Rsqrt Select SelectV2 Sigmoid Sign Sqrt Square SquaredDifference StopGradient Sub Tanh ZerosLike
    Greater GreaterEqual Less LessEqual LogicalAnd LogicalNot LogicalOr OnesLike Xdivy
    """.split()  # noqa: SIM905  # a list of quoted names would be twice as long
)
SUMS_OF_ROWS = frozenset(("UnsortedSegmentSum", "UnsortedSegmentSumV2"))  # these make sparse gradients dense
_REDUCTIONS = frozenset(("Mean", "Sum", "Max", "ExpandDims", "Reshape", "BroadcastTo"))  # such as Adafactor's
_REAL = frozenset((1, 2, 14, 19))  # float, double, bfloat16, half
FARTHEST = 2  # by element; through sums of rows, too; through reductions, too
# A variable's value passes through these ops; an assignment hands out the variable.
_READS = ENTERS | SWITCHES | WRITES | {"Identity", "RefIdentity", "ReadVariableOp"}


def on_examples(graph: Graph) -> Flags:
    """[N] whether a node's value depends on examples: on more than constants and variables."""
    return depending_on(graph, origins_of_examples(graph))


def origins_of_examples(graph: Graph) -> list[int]:
    """The nodes that read no value and are neither constant nor variable, such as placeholders and dequeues."""
    reads = np.bincount(graph.edge_dst[graph.edge_tensor >= 0], minlength=len(graph)).tolist()
    return [row for row, op in enumerate(graph.ops) if not reads[row] and op not in VARIABLES and op != "Const"]


def written_by(graph: Graph, row: int) -> int:
    """The variable to which a node writes; -1: there is none."""
    variable = variable_of(graph, row)
    return -1 if variable is None else variable


def read_by(graph: Graph, row: int) -> int:
    """The variable whose value a node hands out; -1: there is none."""
    while row >= 0 and graph.ops[row] in _READS:
        row = source_of(graph, row)
    return row if row >= 0 and graph.ops[row] in VARIABLES else -1


def value_edge(graph: Graph, row: int) -> int:
    """The edge of the written value."""
    return int(graph.in_ptr[row]) + 1


# ---- the variables that a value is made from ------------------------------------------------------------------------


@dataclass(slots=True)
class Walk:
    """The nodes and variables behind some edges, as far as ops work element by element."""

    nodes: set[int] = field(default_factory=set)
    reads: set[int] = field(default_factory=set)  # variables
    ends: set[int] = field(default_factory=set)  # edges that bring values of examples
    stopped: set[int] = field(default_factory=set)  # edges that carry the tensor at which the walk was to stop
    indices: set[int] = field(default_factory=set)  # edges that number the rows of sums by row


def walk_back(graph: Graph, edges: Sequence[int], live: Flags, stop: int = -1, *, further: int = 0) -> Walk:
    """Walk back from the edges by ops that work element by element, or `further`; not beyond the tensor `stop`."""
    walk, pending = Walk(), list(edges)
    while pending:
        edge = pending.pop()
        row, tensor = int(graph.edge_src[edge]), int(graph.edge_tensor[edge])
        if tensor < 0:
            continue
        variable = read_by(graph, row)
        if tensor == stop:
            walk.stopped.add(edge)
        elif variable >= 0:
            walk.reads.add(variable)
        elif graph.ops[row] in SWITCHES:
            walk.nodes.add(row)
            pending.append(int(graph.in_ptr[row]))
        elif further and graph.ops[row] in SUMS_OF_ROWS:
            walk.nodes.add(row)
            walk.indices.add(int(graph.in_ptr[row]) + 1)
            pending.append(int(graph.in_ptr[row]))
        elif graph.ops[row] == "IdentityN":
            pending.append(int(graph.in_ptr[row]) + int(graph.tensor_port[tensor]))
        elif graph.ops[row] not in BY_ELEMENT and not (further == FARTHEST and graph.ops[row] in _REDUCTIONS):
            if live[row]:
                walk.ends.add(edge)
        elif row not in walk.nodes:
            walk.nodes.add(row)
            pending += graph.in_edges(row)
    return walk


# ---- the variables that a variable reaches --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reach:
    """The written variables whose new values depend on the value of each, as bits: there are many of many."""

    order: tuple[int, ...]  # of the bits; the first, -1, is a result
    bits: Mapping[int, int]

    def has_result(self, variable: int) -> bool:
        """Tell whether a variable reaches a result."""
        return bool(self.bits[variable] & 1)

    def of(self, variable: int) -> list[int]:
        """The variables that a variable reaches."""
        return [self.order[place] for place in places(self.bits[variable]) if place]

    def sources(self, variables: Collection[int]) -> dict[int, list[int]]:
        """The other variables that reach each of these."""
        kept = self._mask(variables)
        found: dict[int, list[int]] = {variable: [] for variable in variables}
        for source, reached in self.bits.items():
            for place in places(reached & kept):
                if self.order[place] != source:
                    found[self.order[place]].append(source)
        return found

    def served(self, variables: Collection[int], trained: Collection[int]) -> dict[int, list[int]]:
        """The other trained variables that each reaches by itself or by way of others, such as slots; at most two."""
        ends, found = self._mask(trained), {}
        for place, variable in enumerate(self.order):
            if variable in variables:
                goal, seen = ends & ~(1 << place), self.bits[variable]
                pending = seen & ~ends & ~1
                while pending and (seen & goal).bit_count() < 2:
                    last = pending.bit_length() - 1
                    new = self.bits[self.order[last]] & ~seen
                    seen, pending = seen | new, (pending | new & ~ends & ~1) & ~(1 << last)
                found[variable] = [self.order[at] for at in islice(places(seen & goal), 2)]
        return found

    def _mask(self, variables: Collection[int]) -> int:
        kept = frozenset(variables)
        return sum(1 << place for place, one in enumerate(self.order) if one in kept)


def places(bits: int) -> Iterator[int]:
    """The places of the ones of a number, ascending."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def reach_of(graph: Graph, writes: Mapping[int, list[int]], live: Flags) -> Reach:
    """The written variables that each one reaches; a result is any other value, such as a loss."""
    bit = {variable: 1 << place for place, variable in enumerate((-1, *writes))}
    given = {value_edge(graph, row): bit[variable] for variable, rows in writes.items() for row in rows}
    reader, carries = graph.edge_dst.tolist(), (graph.edge_tensor >= 0).tolist()
    for row, op in enumerate(graph.ops):
        if op in SWITCHES:
            carries[int(graph.in_ptr[row]) + 1] = False  # a predicate says where a value goes, not what it is
    out = [[edge for edge in graph.out_edges(row) if carries[edge]] for row in range(len(graph))]
    is_end = [bool(live[row]) and not out[row] and _is_result(graph, row) for row in range(len(graph))]
    found = [bit[-1] if end else 0 for end in is_end]
    again = True
    while again:  # a loop's values go round
        again = False
        for row in reversed(graph.topological.tolist()):
            mask = found[row]
            for edge in out[row]:
                mask |= found[reader[edge]] | given.get(edge, 0)
            again |= mask != found[row] and graph.ops[row] in MERGES
            found[row] = mask
    return Reach(tuple(bit), {variable: found[variable] for variable in writes})


def _is_result(graph: Graph, row: int) -> bool:
    """Tell whether a node without readers hands out real numbers, as a loss, and is no Identity that was left over."""
    outputs, last = graph.outputs(row), int(graph.in_ptr[row + 1])
    # a function's results wait for its updates
    left = graph.ops[row] == "Identity" and graph.edge_tensor[last - 1] >= 0
    return bool(outputs) and base(int(graph.tensor_dtype[outputs[0]])) in _REAL and not left


def is_used(graph: Graph, variable: int, inside: Collection[int], live: Flags) -> bool:
    """Tell whether an op outside the updates uses the variable's value with examples, or sends it to another device.

    A checkpoint, whose path is fed, uses no examples.
    """
    pending, seen = [variable], {variable}
    while pending:
        row = pending.pop()
        for edge in graph.out_edges(row):
            reader = int(graph.edge_dst[edge])
            if graph.edge_tensor[edge] < 0 or reader in inside or reader in seen or graph.ops[reader] in WRITES:
                continue
            if SAVES.fullmatch(graph.ops[reader]):
                continue
            if live[reader] or graph.ops[reader] in SENDS:
                return True
            seen.add(reader)
            pending.append(reader)
    return False
