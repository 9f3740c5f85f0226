"""The placed graph for networkx, and as GraphML for yEd, Gephi, Cytoscape and others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.costs.rules import category
from simulator.wording import printable
from viz.figures import bytes_by_pair, devices_of_nodes, node_ns, pair_of_edges, taking_part
from viz.scene import Scene

if TYPE_CHECKING:
    import networkx


def to_networkx(scene: Scene) -> networkx.MultiDiGraph:
    """The graph with what the run says of it: a node for each node by its row, an edge for each edge.

    Nodes have `name`, `op`, `category`, `device`, `requested`, `runs`, and `time_ns`, the time of all its ops in the
    step. What is fed counts as running, on the client's device; an op of control flow is where the cut moves it.

    Edges have `tensor` ("node:port", "^node" for a control edge), `bytes` (-1 unknown), and `back` for a loop's back
    edge. They also have `moved_bytes`, what the edge's transfer carries to another device (-1 unknown); 0 where
    nothing crosses.
    """
    import networkx  # late: it loads much

    graph = scene.graph
    made = networkx.MultiDiGraph(name=scene.title, cluster=scene.cluster.name, makespan_ns=int(scene.trace.makespan))
    device, runs = devices_of_nodes(scene).tolist(), taking_part(scene).tolist()
    took = node_ns(scene)
    for row, (name, op) in enumerate(zip(graph.names, graph.ops, strict=True)):
        made.add_node(
            row,
            name=name,
            op=op,
            category=category(op),
            device=scene.cluster.devices[device[row]].name,
            requested=graph.requested[row],
            runs=bool(runs[row]),
            time_ns=int(took[row]),
        )
    moved, pairs = bytes_by_pair(scene), pair_of_edges(scene).tolist()
    columns = (graph.edge_src, graph.edge_dst, graph.edge_tensor, graph.edge_back)
    for (src, dst, tensor, back), pair in zip(zip(*(one.tolist() for one in columns), strict=True), pairs, strict=True):
        made.add_edge(
            src,
            dst,
            tensor=graph.tensor_name(tensor) if tensor >= 0 else f"^{graph.names[src]}",
            bytes=int(graph.tensor_bytes[tensor]) if tensor >= 0 else 0,
            back=bool(back),
            moved_bytes=int(moved[pair]) if pair >= 0 else 0,
        )
    return made


def draw_graphml(scene: Scene) -> str:
    """GraphML text of `to_networkx`; what XML can't hold in a name is replaced."""
    import networkx

    made = to_networkx(scene)
    parts = [made.graph, *(one for _, one in made.nodes(data=True)), *(one for _, _, one in made.edges(data=True))]
    for values in parts:
        for key, value in values.items():
            if isinstance(value, str):
                values[key] = printable(value)
    return "\n".join(networkx.generate_graphml(made)) + "\n"
