"""Orders that a real step may have by chance, for `accuracy.py`.

TensorFlow keeps the edges of a node with more than eight of them in a set of pointers (docs/tensorflow.md). So its
executor takes the readers of such a node in an order that each process draws anew. The simulation takes them in the
order of the graph's nodes. Where those nodes change places in the file, it takes another of the orders.
"""

from __future__ import annotations

import random

from simulator.graph.messages import GraphDef

ARRAY = 8  # edges that TensorFlow keeps in an array, in order (graph/edgeset.h)


def redrawn(graph: bytes, seed: int) -> bytes:
    """The same graph, in which readers of one node on one device have exchanged their places, where they are many."""
    message = GraphDef.FromString(graph)
    nodes = list(message.node)
    place = {node.name: row for row, node in enumerate(nodes)}
    readers: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        sources = [name.lstrip("^").split(":")[0] for name in node.input] or [
            ""
        ]  # all others follow a source of its own
        for source in sources:
            readers.setdefault((source, node.device), []).append(node.name)
    chance = random.Random(seed)
    for reading in readers.values():
        if len(reading) > ARRAY:
            names = list(dict.fromkeys(reading))
            places = [place[name] for name in names]
            chance.shuffle(places)
            place.update(zip(names, places, strict=True))
    found = GraphDef()
    found.CopyFrom(message)
    del found.node[:]
    found.node.extend(sorted(nodes, key=lambda node: place[node.name]))
    return bytes(found.SerializeToString(deterministic=True))
