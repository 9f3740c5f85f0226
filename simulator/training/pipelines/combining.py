"""Find ops by which an example gets something of others: a microbatch has other ones than its batch.

    pairs      products of all examples with all others           [B, n] x [n, B] ─▶ [B, B]
    summaries  values of the batch that go back to each example   [B, n] ─▶ Mean [n] ─▶ Sub [B, n]
    places     examples that change places, or parts of a batch   [B, n] ─▶ ReverseV2, or half of it [B / 2, n]
    rows       examples that are found by numbers which are fed   [B, n], edges [E] ─▶ GatherV2 [E, n]

The gradient of a mean is the mean of those of microbatches only where each example has a gradient of its own. So a loss
that is no linear function of a mean has a summary, too: its gradient reads the mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulator.graph.const_values import constant
from simulator.graph.dataflow import values_in, values_out
from simulator.graph.traversal import closure
from simulator.training.pipelines.means import SIZES, Batches

BATCH_NORMS = ("FusedBatchNorm", "BatchNormWithGlobalNormalization")  # summaries of their own kind
_DRAWN = "CandidateSampler"  # of such an op the samples depend on no example
_ALONG = {"ReverseV2": 1, "Roll": 2, "Cumsum": 1, "Cumprod": 1}  # op -> slot of its axes
_BESIDE = frozenset(("Concat", "ConcatV2", "Pad", "PadV2"))  # values come beside those of examples, not to them
_PARTS = frozenset(("Split", "SplitV", "Slice", "StridedSlice"))
_BY_NUMBERS = {  # ops -> slots of the examples, of their numbers
    **dict.fromkeys(("Gather", "GatherV2"), (0, 1)),
    **{f"{kind}Segment{how}": (0, 1) for kind in ("", "Unsorted") for how in ("Sum", "Prod", "Max", "Min", "Mean")},
    **dict.fromkeys(("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"), (0, 1)),
    "SparseTensorDenseMatMul": (3, 0),
}
_NUMBERED = frozenset(("Where", "Range", "ArgMax", "ArgMin", "TopKV2", "Unique", *SIZES))  # in the microbatch itself


def pairs(of: Batches) -> tuple[int, ...]:
    """The nodes that make a value with the batch in two dimensions, of two values or more with it in one."""

    def compares(row: int) -> bool:
        varying = [count for edge in values_in(of.small, row) if (count := len(of.axes(_tensor(of, edge))))]
        return len(varying) > 1 == max(varying) and any(len(of.axes(tensor)) > 1 for tensor in of.small.outputs(row))

    return tuple(filter(compares, of.copied))


def combined(of: Batches) -> tuple[int, ...]:
    """The nodes that sum up a batch where that goes back to its examples, or that take these from other places."""
    return tuple(sorted({*_summaries(of), *(row for row in of.copied if _moves(of, row) or _takes(of, row))}))


def _summaries(of: Batches) -> Iterator[int]:
    inside, graph = set(of.copied).difference(of.numbers), of.small

    def readers(tensors: Sequence[int]) -> list[int]:
        edges = [edge for row in {int(graph.tensor_node[one]) for one in tensors} for edge in values_out(graph, row)]
        found = [int(graph.edge_dst[edge]) for edge in edges if _tensor(of, edge) in tensors]
        return [row for row in found if row in inside and graph.ops[row] not in SIZES | _BESIDE]

    def still(row: int) -> list[int]:
        """The outputs that do not follow the batch."""
        return [tensor for tensor in graph.outputs(row) if of.known(tensor) and not of.axes(tensor)]

    for row in of.copied:
        op = graph.ops[row]
        if row not in inside or op.startswith(BATCH_NORMS) or op.endswith(_DRAWN) or op in SIZES | _PARTS:
            continue
        if not any(of.axes(_tensor(of, edge)) for edge in values_in(graph, row)):
            continue
        behind = closure(readers(still(row)), lambda at: readers(still(at)))
        if any(of.axes(tensor) for at in behind for tensor in graph.outputs(at)):
            yield row


def _moves(of: Batches, row: int) -> bool:
    """Tell whether an op takes examples from other places of the batch, or a part of them."""
    op, edges = of.small.ops[row], values_in(of.small, row)
    if op in _ALONG:
        return _along(of, edges[0], edges[_ALONG[op]])
    if op == "RandomShuffle":
        return 0 in of.axes(_tensor(of, edges[0]))
    if op not in _PARTS:
        return of.across(row)
    taken = max((len(of.axes(_tensor(of, edge))) for edge in edges), default=0)
    made = [(of.whole.tensor_shape[one] or ())[at] for one in of.small.outputs(row) for at in of.axes(one)]
    return bool(taken) and any(size % of.examples for size in made)


def _takes(of: Batches, row: int) -> bool:
    """Tell whether an op finds examples by their numbers in the whole batch, such as the nodes of a graph by edges."""
    graph, edges = of.small, values_in(of.small, row)
    examples, numbers = _BY_NUMBERS.get(graph.ops[row], (0, len(edges)))
    if max(examples, numbers) >= len(edges) or not of.axes(_tensor(of, edges[examples])):
        return False
    if graph.ops[row] == "GatherV2" and not _along(of, edges[0], edges[2]):
        return False
    behind = closure(
        [int(graph.edge_src[edges[numbers]])],
        lambda at: (int(graph.edge_src[edge]) for edge in values_in(graph, at) if graph.ops[at] not in _NUMBERED),
    )
    return any(graph.ops[at].startswith("Placeholder") or "Iterator" in graph.ops[at] for at in behind)


def _along(of: Batches, edge: int, axes: int) -> bool:
    """Tell whether a tensor follows the batch in one of the axes that another edge says, as a constant."""
    tensor = _tensor(of, edge)
    varying, rank = of.axes(tensor), len(of.small.tensor_shape[tensor] or ())
    said = constant(of.small, int(of.small.edge_src[axes])) or ()
    return any(int(axis) % max(rank, 1) in varying for axis in said)


def _tensor(of: Batches, edge: int) -> int:
    return int(of.small.edge_tensor[edge])
