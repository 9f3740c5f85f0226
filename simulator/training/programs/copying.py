"""Copies of parts of a graph under a prefix."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from simulator.graph.attributes import COLOCATION, texts
from simulator.graph.dtypes import base
from simulator.graph.editor import Editor, Endpoint, Output
from simulator.graph.graph import Attrs, Graph, Shape
from simulator.graph.messages import AttrValue
from simulator.graph.op_classes import ENTERS
from simulator.training.recognition.variables import VARIABLES, colocated_with


def unused_prefix(graph: Graph, wanted: str) -> str:
    """ "wanted/", or with further "_" before the slash, so that no name of the graph begins with it."""
    scopes = {name.partition("/")[0] for name in graph.names}
    while wanted in scopes:
        wanted += "_"
    return f"{wanted}/"


def copied(
    editor: Editor,
    rows: Sequence[int],
    prefix: str,
    devices: Mapping[int, str],
    replaced: Mapping[Endpoint, Endpoint] = {},
    dropped: Collection[int] = (),
) -> dict[int, int]:
    """Append copies of the given graph's rows under a prefix, each with its device; row -> its copy.

    Copies read the copies of one another, the outputs in `replaced` in place of the originals, and else the same as the
    originals. They don't wait for the nodes in `dropped`. Loops get frames of their own, and variables storage of their
    own.
    """
    graph = editor.given
    mine = {graph.names[row] for row in rows}
    copies = {}
    for row in rows:
        attrs = _copied_attrs(graph, row, prefix, mine)
        copies[row] = editor.add(
            editor.free(prefix + graph.names[row]), graph.ops[row], attrs=attrs, device=devices[row]
        )
    editor.copied.update({copy: row for row, copy in copies.items()})
    source, tensor, first = graph.edge_src.tolist(), graph.edge_tensor.tolist(), graph.in_ptr.tolist()
    port = graph.tensor_port.tolist()
    for row, copy in copies.items():
        for slot, edge in enumerate(range(first[row], first[row + 1])):
            src = source[edge]
            if tensor[edge] >= 0:
                output = (src, port[tensor[edge]])
                editor.add_edge((copies[src], output[1]) if src in copies else replaced.get(output, output), copy, slot)
            elif src in copies or src not in dropped:
                editor.add_control_edge(copies.get(src, src), copy)
    return copies


def redirect(editor: Editor, edge: int, output: Output, copies: Mapping[int, int] = {}) -> None:
    """Let the input at an edge of the given graph come from another output; in the node's copy if `copies` has one."""
    row = int(editor.given.edge_dst[edge])
    editor.redirect_input(copies.get(row, row), edge - int(editor.given.in_ptr[row]), output)


def output_on(graph: Graph, edge: int) -> Endpoint:
    """The output that an edge carries."""
    return int(graph.edge_src[edge]), int(graph.tensor_port[graph.edge_tensor[edge]])


def times(shape: Shape | None, count: int) -> Shape | None:
    """The shape with its first dimension so many times as large; an open one stays open."""
    return shape if not shape or shape[0] < 0 else (shape[0] * count, *shape[1:])


def dtype_of(graph: Graph, edge: int) -> int:
    """DataType of the tensor on an edge."""
    return base(int(graph.tensor_dtype[graph.edge_tensor[edge]]))


def shape_on(graph: Graph, edge: int) -> Shape | None:
    """The shape of the tensor on an edge; None: its rank is unknown."""
    known: Shape | None = graph.tensor_shape[graph.edge_tensor[edge]]
    return known


def _copied_attrs(graph: Graph, row: int, prefix: str, mine: Collection[str]) -> Attrs:
    attrs = dict(graph.attrs[row])
    others = colocated_with(graph, row)
    if any(name in mine for name in others):
        attrs[COLOCATION] = texts([f"loc:@{prefix + name if name in mine else name}" for name in others])
    for key in ("frame_name",) if graph.ops[row] in ENTERS else ("shared_name",) if graph.ops[row] in VARIABLES else ():
        if key in attrs and attrs[key].s:
            attrs[key] = AttrValue(s=prefix.encode() + attrs[key].s)
    return attrs
