"""A library function's body as a graph of its own: arguments as `_Arg` nodes, attributes filled in by the caller.

In a FunctionDef an input reads "argument", "node:output argument:index" or "^node", and an attribute may be a
placeholder for one of the function's own. TensorFlow's rules: `tensorflow/core/framework/function.cc`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from simulator import limits
from simulator.errors import GraphError
from simulator.graph import ops, registry
from simulator.graph.attributes import typed
from simulator.graph.building import build
from simulator.graph.editor import Endpoint
from simulator.graph.graph import Attrs, Graph
from simulator.graph.messages import AttrValue, Proto
from simulator.graph.ops import Ranges, ranges_of, values_of


@dataclass(frozen=True, slots=True)
class Body:
    """A function made ready for one set of attribute values. Rows 0 .. A-1 of the graph are its arguments."""

    name: str
    graph: Graph
    argument_types: tuple[int, ...]  # [A] DataType
    result_types: tuple[int, ...]  # [R] DataType
    results: tuple[Endpoint, ...]  # [R] what is handed back
    side_effects: tuple[int, ...]  # rows that run whatever is used of the results, in the order of their ids


def instantiate(function: Proto, attrs: Attrs, library: Mapping[str, Proto], source: str) -> Body:
    """Make the body of a FunctionDef for a call with those attributes.

    Raises GraphError where an input, a result or an attribute of the body refers to nothing; it names the function.
    """
    name = function.signature.name
    where = f"function {name!r} of {source}"
    given = registry.signature(function)
    known = values_of(given, attrs)
    argument_ranges, result_ranges = (
        ranges_of(side, known, limits.CLAIMED.most) for side in (given.inputs, given.outputs)
    )
    types, result_types = ops.inputs(name, attrs, library), ops.outputs(name, attrs, library)
    if argument_ranges is None or result_ranges is None or types is None or result_types is None:
        raise GraphError(
            f"A call of {where} lacks an attribute that says how many arguments it has. Write the file anew with "
            "TensorFlow.",
            node=name,
        )
    node_attrs = [_filled(node.attr, attrs, where) for node in function.node_def]
    names = _argument_names(argument_ranges)
    endpoints = _Endpoints(function.node_def, node_attrs, argument_ranges, names, library, where)
    graph = build(
        (*names, *(node.name for node in function.node_def)),
        ("_Arg",) * len(names) + tuple(node.op for node in function.node_def),
        ("",) * len(names) + tuple(node.device for node in function.node_def),
        [()] * len(names) + [endpoints.inputs(node) for node in function.node_def],
        [*map(typed, types), *node_attrs],
        library=library,
        source=where,
    )
    return Body(
        name,
        graph,
        types,
        result_types,
        tuple(_row(graph, text) for text in endpoints.results(function.ret, result_ranges)),
        tuple(sorted({graph.row(name) for name in function.control_ret.values()}, key=graph.place.__getitem__)),
    )


def _row(graph: Graph, text: str) -> Endpoint:
    name, _, port = text.rpartition(":")
    row = graph.row(name)
    if int(port) >= len(graph.outputs(row)):
        raise GraphError(f"{graph.source}: it returns {text!r}, an output that the node does not have.", node=name)
    return row, int(port)


def _argument_names(ranges: Ranges) -> list[str]:
    """TensorFlow's names of flat arguments: a list's members are numbered."""
    return [
        name if last - first == 1 else f"{name}_{slot - first}"
        for name, first, last in ranges
        for slot in range(first, last)
    ]


class _Endpoints:
    """Resolves what the inputs and results of one function body refer to."""

    def __init__(
        self,
        nodes: Sequence[Proto],
        attrs: Sequence[Attrs],
        arguments: Ranges,
        names: Sequence[str],
        library: Mapping[str, Proto],
        where: str,
    ) -> None:
        self._arguments = {name: names[first:last] for name, first, last in arguments}
        self._nodes = {node.name: (node.op, attr) for node, attr in zip(nodes, attrs, strict=True)}
        self._library = library
        self._where = where

    def inputs(self, node: Proto) -> list[str]:
        """The inputs of a NodeDef of the body, written as in a GraphDef."""
        written: list[str] = []
        for text in node.input:
            if text.startswith("^"):
                written.append(text)
            else:
                written += self._tensors(text, node.name)
        return written

    def results(self, returned: Mapping[str, str], ranges: Ranges) -> Iterator[str]:
        """The returned outputs, as "node:port", one per flat result."""
        for name, first, last in ranges:
            if last == first:
                continue
            found = self._tensors(returned[name], name) if name in returned else []
            if len(found) != last - first:
                raise GraphError(f"{self._where}: it returns {len(found)} tensors as {name!r}, not {last - first}.")
            yield from found

    def _tensors(self, text: str, reader: str) -> list[str]:
        name, *rest = text.split(":")
        if name in self._arguments:
            flat = self._arguments[name]
            chosen = flat if not rest else flat[_index(rest[0]) :][:1]
            found = [f"{argument}:0" for argument in chosen]
        elif name in self._nodes:
            found = [f"{name}:{port}" for port in self._ports(name, rest)]
        else:
            found = []
        if not found:
            raise GraphError(
                f"{self._where}: {reader!r} reads {text!r}, which is not in the function. Write the file anew with "
                "TensorFlow.",
                node=reader,
            )
        return found

    def _ports(self, name: str, rest: Sequence[str]) -> Sequence[int]:
        """The flat output ports of "name:argument[:index]"; a custom op is taken to have one argument."""
        ranges = ops.output_ranges(*self._nodes[name], self._library)
        if not rest:
            return ()
        index = _index(rest[1]) if len(rest) > 1 else None
        if ranges is None:
            return (index or 0,)
        for argument, first, last in ranges:
            if argument == rest[0]:
                return range(first, last) if index is None else range(first, last)[index:][:1]
        return ()


def _index(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else limits.CLAIMED.most


def _filled(written: Attrs, given: Attrs, where: str) -> Attrs:
    """A node's attributes with the function's placeholders replaced by what the caller gives."""
    filled = dict(written)
    for name, value in written.items():
        if _open(value):
            filled[name] = _fill(value, given, where)
    return filled


def _open(value: Proto) -> bool:
    kind = value.WhichOneof("value")
    if kind == "func":
        return any(_open(inner) for inner in value.func.attr.values())
    if kind == "list":
        return any(_open(inner) for function in value.list.func for inner in function.attr.values())
    return bool(kind == "placeholder")


def _fill(value: Proto, given: Attrs, where: str) -> Proto:
    kind = value.WhichOneof("value")
    if kind == "placeholder":
        found = given.get(value.placeholder)
        if found is None:
            raise GraphError(
                f"A call of {where} does not give the attribute {value.placeholder!r}. Write the file anew with "
                "TensorFlow."
            )
        return found
    copy = AttrValue()
    copy.CopyFrom(value)
    for function in (copy.func,) if kind == "func" else copy.list.func:
        for inner in function.attr.values():
            if _open(inner):
                inner.CopyFrom(_fill(inner, given, where))
    return copy
