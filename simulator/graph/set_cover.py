"""Set cover: the smallest set of sinks whose fan-in holds all given nodes.

The search is exact while few sinks compete, and greedy (Chvátal 1979) beyond. In practice one train op holds all nodes,
or every optimizer has one of its own, and the reductions alone decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from itertools import combinations
from operator import or_

from simulator.graph.graph import Graph
from simulator.graph.traversal import all_sources, fan_in, fan_out, gathered, own_sinks, sinks

MAX_EXACT = 12  # sinks that still compete after the reductions: at most 4096 sets are tried
MAX_COMPARED = 300  # sinks that are compared pair by pair


def smallest_cover(graph: Graph, rows: list[int], avoid: Callable[[list[int]], list[int]]) -> list[int]:
    """The sinks to run so that all of `rows` run, ascending; [] where no sink depends on one of them.

    Sinks inside expanded bodies are taken only where those of the file don't suffice. Ties: a sink that `avoid` keeps
    before one that it drops, then the smaller fan-in, then the lower row.
    """
    reached = _reached_by(graph, rows)
    for candidates in (own_sinks(graph), sinks(graph)):
        sets = {row: reached[row] for row in candidates if row in reached}
        if _union(sets.values()) == (1 << len(rows)) - 1:
            break
    else:
        return []
    chosen, open_bits = _needed(sets)
    rivals = [row for row, bits in sets.items() if bits & open_bits]  # a fan-in of each takes time
    if not rivals:
        return sorted(chosen)
    preferred = set(avoid(rivals))
    sizes = {row: int(fan_in(graph, [row]).sum()) for row in rivals}
    ranked = sorted(rivals, key=lambda row: (row not in preferred, sizes[row], row))
    return sorted(chosen + cover({row: sets[row] & open_bits for row in ranked}))


def cover(sets: Mapping[int, int]) -> list[int]:
    """Keys of the fewest bit sets whose union is the union of all; earlier keys win ties."""
    chosen, open_bits = _needed(sets)
    left: dict[int, int] = {}  # distinct remainders, the earliest key of each
    for key, bits in sets.items():
        if bits & open_bits:
            left.setdefault(bits & open_bits, key)
    rivals = {key: bits for bits, key in left.items()}
    if len(rivals) <= MAX_COMPARED:
        rivals = {
            key: bits
            for key, bits in rivals.items()
            if not any(bits != other and bits | other == other for other in rivals.values())
        }
    return chosen + (_exact(rivals, open_bits) if len(rivals) <= MAX_EXACT else _greedy(rivals, open_bits))


def _needed(sets: Mapping[int, int]) -> tuple[list[int], int]:
    """The keys that alone hold some bit, and the bits that none of these holds."""
    seen = twice = 0
    for bits in sets.values():
        twice |= seen & bits
        seen |= bits
    chosen = [key for key, bits in sets.items() if bits & ~twice]
    return chosen, seen & ~_union(sets[key] for key in chosen)


def _union(sets: Iterable[int]) -> int:
    return reduce(or_, sets, 0)


def _exact(sets: Mapping[int, int], wanted: int) -> list[int]:
    for count in range(len(sets) + 1):
        for keys in combinations(sets, count):
            if _union(sets[key] for key in keys) == wanted:
                return list(keys)
    return list(sets)


def _greedy(sets: Mapping[int, int], wanted: int) -> list[int]:
    chosen: list[int] = []
    while wanted:
        best = max(sets, key=lambda key: (sets[key] & wanted).bit_count())  # the first of equals
        chosen.append(best)
        wanted &= ~sets[best]
    return chosen


def _reached_by(graph: Graph, rows: list[int]) -> dict[int, int]:
    """A bit set of the rows per node that depends on some of them."""
    own = [0] * len(graph)
    for bit, row in enumerate(rows):
        own[row] |= 1 << bit
    inside = set(fan_out(graph, rows))
    order = [row for row in graph.topological.tolist() if row in inside]
    found = gathered(order, all_sources(graph), own, loops=bool(graph.edge_back.any()))
    return {row: found[row] for row in order}
