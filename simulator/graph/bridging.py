"""Graphs from networkx; `Graph.to_networkx` is the way there, for analyses that simviz does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.errors import GraphError
from simulator.graph.building import build
from simulator.graph.graph import WHOLE, Graph

if TYPE_CHECKING:
    import networkx


def from_networkx(made: networkx.DiGraph) -> Graph:
    """The graph of a networkx digraph: the inverse of `Graph.to_networkx`, lenient about what is missing.

    A node without `op` becomes a "NoOp" if nothing but control edges leave it, else an op of its own kind, "Unknown";
    an edge without `tensor` carries the source's output 0, one whose `tensor` is None is a control edge. Inputs stand
    in the order of `slot`, those without in the order of the edges. Raises GraphError for an undirected graph and for
    whatever `build` refuses.
    """
    if not made.is_directed():
        raise GraphError("from_networkx wants a directed graph: edges point from producer to consumer.")
    names = [str(name) for name in made.nodes]
    inputs: dict[str, list[tuple[bool, int, str]]] = {name: [] for name in names}
    gives_data = set()
    for source, target, facts in made.edges(data=True):
        tensor = facts.get("tensor", f"{source}:0")
        if tensor is not None:
            gives_data.add(str(source))
        written = f"^{source}" if tensor is None else str(tensor)
        entering = inputs[str(target)]
        entering.append((tensor is None, int(facts.get("slot", len(entering))), written))
    facts_of = [made.nodes[name] for name in made.nodes]
    return build(
        names,
        [
            str(facts.get("op", "Unknown" if name in gives_data else "NoOp"))
            for name, facts in zip(names, facts_of, strict=True)
        ],
        [str(facts.get("requested", "")) for facts in facts_of],
        [[written for _, _, written in sorted(inputs[name], key=lambda entry: entry[:2])] for name in names],
        [facts.get("attrs", {}) for facts in facts_of],
        **{"source": "a networkx graph", **{key: made.graph[key] for key in WHOLE if key in made.graph}},
    )
