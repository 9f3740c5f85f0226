"""A minimum cut by a maximum flow: Dinic's algorithm, which fills all shortest ways at once, then all longer ones.

Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", Soviet Mathematics
Doklady 11, 1970. A library has it too, but its import takes longer than a search of a large step may.

Plain Python over arrays, to be compiled.
"""

from __future__ import annotations

from typing import NamedTuple

from simulator.columns import Ints


class Network(NamedTuple):
    """A network of arcs, each with its reverse. Axes: N nodes, of which the last two are source and sink; A arcs."""

    first: Ints  # [N+1] first arc from each node
    head: Ints  # [A] node to which it leads
    reverse: Ints  # [A] arc
    left: Ints  # [A] capacity; what is left of it in the end
    level: Ints  # [N] the result: -1 on the side of the sink
    current: Ints  # [N] working memory: arc of each node that is tried next
    queue: Ints  # [N] working memory: nodes, or arcs of a way
    looks: Ints  # [1] the result: at how many arcs it looked
    flow: Ints  # [1] the result: what flows in all


def cut(network: Network, most: int) -> None:
    """Find a cut of least capacity, the one with the fewest nodes on the side of the source.

    It gives up where it looks at more than so many arcs, as the flow is then long on its way. The sink keeps a level in
    that case.
    """
    count = len(network.level)
    source, sink = count - 2, count - 1
    network.looks[0], network.flow[0] = 0, 0
    while _ranked(network, source, sink) and network.looks[0] <= most:
        for node in range(count):
            network.current[node] = network.first[node]
        _fill(network, source, sink, most)


def _ranked(network: Network, source: int, sink: int) -> bool:
    """Find how far each node is from the source over arcs with some capacity left; tell whether the sink is reached."""
    level, queue = network.level, network.queue
    for node in range(len(level)):
        level[node] = -1
    level[source], queue[0] = 0, source
    done, known = 0, 1
    while done < known:
        node = queue[done]
        done += 1
        network.looks[0] += network.first[node + 1] - network.first[node]
        for arc in range(network.first[node], network.first[node + 1]):
            head = network.head[arc]
            if network.left[arc] > 0 and level[head] < 0:
                level[head] = level[node] + 1
                queue[known] = head
                known += 1
    return bool(level[sink] >= 0)


def _fill(network: Network, source: int, sink: int, most: int) -> None:
    """Fill all shortest ways from source to sink."""
    level, current, left, head, way = network.level, network.current, network.left, network.head, network.queue
    node, steps = source, 0
    while network.looks[0] <= most:
        if node == sink:
            room = left[way[0]]
            for at in range(1, steps):
                room = min(room, left[way[at]])
            network.looks[0] += 2 * steps
            network.flow[0] += room
            full = 0
            for at in range(steps - 1, -1, -1):
                left[way[at]] -= room
                left[network.reverse[way[at]]] += room
                if left[way[at]] == 0:
                    full = at
            steps = full
            node = head[network.reverse[way[full]]]
        arc = current[node]
        while arc < network.first[node + 1] and not (left[arc] > 0 and level[head[arc]] == level[node] + 1):
            arc += 1
        network.looks[0] += arc - current[node] + 1
        current[node] = arc
        if arc < network.first[node + 1]:
            way[steps] = arc
            steps += 1
            node = head[arc]
        elif steps == 0:
            break
        else:
            level[node] = -1  # it leads nowhere
            steps -= 1
            node = head[network.reverse[way[steps]]]
