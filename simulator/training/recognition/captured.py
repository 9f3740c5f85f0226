"""Functions that train variables which they capture: their slots and updates, set beside the variable.

Keras's slots, and the ops of an update, are colocated with their variable, as `tf.distribute`'s `extended.update` and
the optimizers of TensorFlow 1 do it. Keras hands all gradients on at once, by an IdentityN. Where it adds them up in
variables first, each has an Identity of its own, beside its variable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from simulator.errors import GraphError
from simulator.graph.attributes import COLOCATION, colocation, typed
from simulator.graph.captured import captured, captures, own_variables, read_whole
from simulator.graph.dataflow import readers, values_in
from simulator.graph.editor import edited
from simulator.graph.graph import Graph, Shape
from simulator.graph.messages import Proto
from simulator.graph.op_classes import SWITCHES
from simulator.graph.traversal import closure
from simulator.training.recognition.plain_updates import plain_updates
from simulator.training.recognition.variable_flow import BY_ELEMENT, WRITES, on_examples
from simulator.training.recognition.ways_back import walk_back
from simulator.wording import some


def with_variables(graph: Graph, shapes: Mapping[str, Shape] = {}) -> Graph:
    """The graph with variables of its own in place of those that a function captured, and what trains them beside them.

    A graph without such variables, none of whose calls was expanded, is returned as it is. Raises GraphError for a
    variable of unknown shape (`own_variables`).
    """
    made = own_variables(graph, shapes)
    made = each_alone(made, _mixing(made))
    if refusal := unsized_variables(made, of=len(captured(graph))):
        raise refusal
    return _beside(made) if captures(made) or graph.ends else made


def unsized_variables(graph: Graph, of: int = 0) -> GraphError | None:
    """The error that names the variables of unknown shape that the graph captures, `of` so many; None for none."""
    held = captured(graph)
    unknown = [graph.names[row] for row in held]
    if not unknown:
        return None
    file = "Write it with the shapes, as concrete_function.graph.as_graph_def(add_shapes=True) has them, or give"
    advice = file if any(read_whole(graph, users) for users in held.values()) else "Give"
    return GraphError(
        f"{graph.source} is the graph of a function that captures its variables, and does not say how large "
        f"{len(unknown)} of these {of or len(held)} are: {some(unknown)}. {advice} what is "
        "missing as the shape of a feed (--feed NAME=6,8).",
        node=unknown[0],
    )


def each_alone(graph: Graph, handing: Iterable[int]) -> Graph:
    """The graph with an Identity for each value that these IdentityNs hand on, where they ask for no device."""
    rows = [row for row in handing if not graph.requested[row] and graph.names[row] not in graph.ends]
    if not rows:
        return graph
    editor = edited(graph, as_made=False)
    for row in rows:
        controls, outputs = editor.controls_of(row), list[int]()
        for port, value in enumerate(editor.inputs_of(row)):
            tensor = int(graph.tensor_ptr[row]) + port
            name = editor.free(f"{graph.names[row]}/{port}")
            outputs.append(editor.add(name, "Identity", [value], controls, typed(int(graph.tensor_dtype[tensor]))))
            editor.shapes[outputs[-1]] = [graph.tensor_shape[tensor]]
        waiting = any(graph.edge_tensor[edge] < 0 for edge in graph.out_edges(row))
        done = editor.add(editor.free(f"{graph.names[row]}/all"), "NoOp", (), outputs) if waiting else row
        editor.redirect_readers(row, outputs, done)
        editor.remove(row)
    return editor.built()


def _mixing(graph: Graph) -> list[int]:
    """The nodes that hand on at once what was made from several variables, and lead to updates, such as gradients."""
    live, found = on_examples(graph), []
    for row in handing_to(graph, {row for row, op in enumerate(graph.ops) if op in WRITES}):
        reads = [frozenset(walk_back(graph, [edge], live).reads) for edge in values_in(graph, row)]
        if len(set(reads)) > 1:
            found.append(row)
    return found


def handing_to(graph: Graph, updates: Collection[int]) -> list[int]:
    """The IdentityNs that lead to these nodes by ops that work element by element; what loops hand on leads to none."""
    handing = BY_ELEMENT | SWITCHES

    def leads(row: int) -> bool:
        reached = closure(readers(graph, row), lambda at: readers(graph, at) if graph.ops[at] in handing else ())
        return any(at in updates for at in reached)

    return [row for row, op in enumerate(graph.ops) if op == "IdentityN" and leads(row)]


def _beside(graph: Graph) -> Graph:
    """The graph with slots, and the ops of an update of plain ops, colocated with the variable that they train."""
    homes: dict[int, int] = {}
    twice: set[int] = set()
    for update in plain_updates(graph, range(len(graph))):
        for row in (*update.slots, *update.nodes):
            if homes.setdefault(row, update.variable) != update.variable:
                twice.add(row)
    attrs: list[Mapping[str, Proto]] = list(graph.attrs)
    free = [row for row in homes if row not in twice and COLOCATION not in attrs[row] and not graph.requested[row]]
    for row in free:
        attrs[row] = {**attrs[row], COLOCATION: colocation([graph.names[homes[row]]])}
    return replace(graph, attrs=tuple(attrs)) if free else graph
