"""Shapes that are fed: whether a graph can take them, and which op refuses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simulator.errors import GraphError
from simulator.graph.captured import captured
from simulator.graph.graph import Graph, Shape
from simulator.graph.tensors import sides_text
from simulator.shapes.propagation import Inferred, infer
from simulator.units import is_whole
from simulator.wording import some


def fed_tensor(graph: Graph, name: str) -> int:
    """Row of the tensor "node:port"; "node" means its first output."""
    node, colon, port = name.rpartition(":")
    if not colon or not port.isdecimal():
        node, port = name, "0"
    row = graph.row(node)
    outputs = graph.outputs(row)
    if len(port) > 6 or int(port) >= len(outputs):
        raise GraphError(f"{graph.source}: {node!r} ({graph.ops[row]}) has no output {port} to feed", node=node)
    return outputs[int(port)]


def checked_feeds(feeds: Mapping[str, Shape]) -> Mapping[str, Shape]:
    """The feeds; raise GraphError where one is no shape."""
    for name, shape in feeds.items():
        if not isinstance(shape, Sequence) or not all(is_whole(side) for side in shape):
            raise GraphError(f"{name!r} is fed the shape {shape!r}; give its dimensions as whole numbers", node=name)
    return feeds


def check_fed(graph: Graph, row: int, known: Shape | None, shape: Shape) -> None:
    """Raise GraphError where a fed shape has another rank than the file's, or a negative dimension."""
    name = graph.tensor_name(row)
    if any(side < 0 for side in shape):
        shown = ",".join(map(str, shape))
        raise GraphError(f"the shape {shown} fed to {name!r} has a negative dimension", node=name)
    if known is not None and len(known) != len(shape):
        raise GraphError(
            f"{name!r} has {len(known)} dimensions in {graph.source} ({written(known)}) but is fed {len(shape)} "
            f"({written(shape)}); give {len(known)}",
            node=name,
        )


def contradicts(shape: Shape, known: Shape | None) -> bool:
    """Whether a shape has another number than the file's of the same rank."""
    return known is not None and any(a != b >= 0 for a, b in zip(shape, known, strict=True))


def is_batch(declared: Shape | None, fed: Shape, batch: int | None) -> bool:
    """Whether a feed gives what the batch does, in the place of a number of the file."""
    return bool(declared) and declared is not None and declared[0] > 0 and fed == (batch, *declared[1:])


def blame(
    graph: Graph, declared: Sequence[Shape | None], found: Inferred, given: Mapping[int, Shape], batch: int | None
) -> None:
    """Raise GraphError if an op does not take the user's shapes though it takes those of the file."""
    if not given and batch is None:
        return
    before = {clash.node for clash in infer(graph, {}, declared, batch=None).clashes}
    new = [clash for clash in found.clashes if clash.node not in before]
    if not new:
        return
    asked = [f"{graph.tensor_name(row)}={','.join(map(str, shape))}" for row, shape in given.items()]
    asked += [] if batch is None else [f"a batch of {batch}"]
    first, advice = new[0], ""
    if batch is not None and len(found.batched) > 1:
        went = some(list(map(graph.tensor_name, found.batched)))
        advice = f". Feed the shape of what has no row per example; the batch went to {went}"
    elif batch is None and (examples := _fed_batch(declared, given)):
        advice = (
            f". Other numbers of the file hang on its batch; a batch of {examples} changes them (--batch {examples})"
        )
    elif held := [graph.names[row] for row in captured(graph)]:
        advice = f". Nothing says how large {some(held)} is; give that as the shape of a feed (--feed NAME=6,8)"
    raise GraphError(
        f"{graph.source} does not fit {some(asked)}: {graph.names[first.node]!r} ({graph.ops[first.node]}) refuses "
        f"its inputs: {first.said}{advice}",
        node=graph.names[first.node],
    )


def _fed_batch(declared: Sequence[Shape | None], given: Mapping[int, Shape]) -> int | None:
    """The number of examples that the feeds give in the place of the file's, if they contradict nothing else of it."""
    contradicted = [row for row, shape in given.items() if contradicts(shape, declared[row])]
    examples = {given[row][0] for row in contradicted}
    alone = all(is_batch(declared[row], given[row], given[row][0]) for row in contradicted)
    return examples.pop() if len(examples) == 1 and alone else None


def written(shape: Shape | None) -> str:
    """A shape as the user writes it: 32,?,3."""
    if shape is None:
        return "unknown rank"
    return sides_text(shape) or "a scalar"
