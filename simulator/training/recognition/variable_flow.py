"""The flow of values between variables: who writes and reads them, and what a variable reaches.

variable ── any ops ──▶ written values, or a result                `reach_of`, such as a loss
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from simulator.columns import Flags
from simulator.graph.captured import captures
from simulator.graph.dataflow import depending_on, source_of, values_out
from simulator.graph.dtypes import TRAINED, base
from simulator.graph.graph import Graph
from simulator.graph.op_classes import ENTERS, SWITCHES, VARIABLES
from simulator.graph.purposes import SAVES
from simulator.graph.step import Step
from simulator.graph.traversal import gathered
from simulator.partitioning.partitions import SENDS
from simulator.training.recognition.variables import variable_of

ADDS = frozenset(("AssignAdd", "AssignAddVariableOp"))
ASSIGNS = frozenset(("Assign", "AssignVariableOp"))
SCATTERS = frozenset(("ScatterAdd", "ScatterSub", "ResourceScatterAdd", "ResourceScatterSub"))  # add to some rows
WRITES = frozenset(("AssignSub", "AssignSubVariableOp")) | ADDS | ASSIGNS | SCATTERS
BY_ELEMENT = frozenset(
    """
    Abs Add AddV2 Cast CheckNumerics ClipByValue Div DivNoNan Exp Identity Log Maximum Minimum Mul MulNoNan Neg Pow
    RealDiv Reciprocal Rsqrt Select SelectV2 Sigmoid Sign Sqrt Square SquaredDifference StopGradient Sub Tanh ZerosLike
    Greater GreaterEqual Less LessEqual LogicalAnd LogicalNot LogicalOr OnesLike Xdivy
    """.split()  # noqa: SIM905  # a list of quoted names would be twice as long
)
_UNIQUES = frozenset(("Unique", "UniqueV2"))
SUMS_OF_ROWS = frozenset(("UnsortedSegmentSum", "UnsortedSegmentSumV2"))  # these make sparse gradients dense
REDUCTIONS = frozenset(("Mean", "Sum", "Max", "ExpandDims", "Reshape", "BroadcastTo"))  # such as Adafactor's
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


def holds_examples(graph: Graph, step: Step) -> bool:
    """Whether nodes of a step write what they make of variables, and none brings examples: constants hold them.

    Counters and the state of a generator of random numbers are no model.
    """
    runs = step.runs
    if step.feeds or any(runs[row] and graph.outputs(row) for row in origins_of_examples(graph)):
        return False
    made = depending_on(graph, [row for row, op in enumerate(graph.ops) if op in VARIABLES])
    writes = [row for row, op in enumerate(graph.ops) if op in WRITES and runs[row]]
    edges = [value_edge(graph, row) for row in writes]
    return any(made[graph.edge_src[edge]] and graph.tensor_dtype[graph.edge_tensor[edge]] in TRAINED for edge in edges)


def written_by(graph: Graph, row: int) -> int:
    """The variable to which a node writes; -1: there is none."""
    variable = variable_of(graph, row)
    return -1 if variable is None else variable


def read_by(graph: Graph, row: int) -> int:
    """The variable whose value a node hands out; -1: there is none."""
    while row >= 0 and graph.ops[row] in _READS:
        row = source_of(graph, row)
    return row if row >= 0 and graph.ops[row] in VARIABLES else -1


def before_the_sum(graph: Graph, numbers: int) -> tuple[int, int] | None:
    """The edges of rows and of their numbers that enter a sum of rows that occur twice, given the edge behind it.

    Unique tells each number once, and a sum per number follows. None: nothing adds up, or the model reads rows by
    these numbers, so that replicas have numbers of their own.
    """
    unique = int(graph.edge_src[numbers])
    if graph.ops[unique] not in _UNIQUES:
        return None
    for edge in values_out(graph, unique):
        reader = int(graph.edge_dst[edge])
        if graph.ops[reader] in SUMS_OF_ROWS and graph.edge_tensor[edge] == graph.tensor_ptr[unique] + 1:
            rows = int(graph.in_ptr[reader])
            model = depending_on(graph, [unique])[graph.edge_src[rows]]
            return None if model else (rows, int(graph.in_ptr[unique]))
    return None


def value_edge(graph: Graph, row: int) -> int:
    """The edge of the written value, behind that of the numbers of rows."""
    return int(graph.in_ptr[row]) + 1 + (graph.ops[row] in SCATTERS)


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
    of_function = captures(graph)
    is_end = [bool(live[row]) and not out[row] and _is_result(graph, row, of_function) for row in range(len(graph))]
    own = [bit[-1] if end else 0 for end in is_end]
    for row, edges in enumerate(out):
        for edge in edges:
            own[row] |= given.get(edge, 0)
    after = [[reader[edge] for edge in edges] for edges in out]
    found = gathered(reversed(graph.topological.tolist()), after, own, loops=bool(graph.edge_back.any()))
    return Reach(tuple(bit), {variable: found[variable] for variable in writes})


def _is_result(graph: Graph, row: int, of_function: bool) -> bool:
    """Tell whether a node without readers hands out real numbers, as a loss, and is no dead end that was left over.

    A function's results are Identities that wait for its updates. A branch that was expanded leaves an IdentityN.
    """
    outputs, edges = graph.outputs(row), graph.in_edges(row)
    if not outputs or base(int(graph.tensor_dtype[outputs[0]])) not in TRAINED:
        return False
    if not of_function and graph.ops[row] not in ("Identity", "IdentityN"):
        return True
    return graph.ops[row] == "Identity" and bool(edges) and int(graph.edge_tensor[edges[-1]]) < 0


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
