"""Max-min fair rates found from nothing, by progressive filling: the reference for `execution.sharing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def shares(
    flows: Mapping[int, int], links_of: Sequence[Sequence[int]], capacity: Sequence[int], cap: Sequence[int]
) -> dict[int, int]:
    """Bytes per second of each flow, by class; `flows` says how many each class has, none of them zero.

    Repeat: the link with the smallest share (what is left of its capacity over the flows that have no rate yet, rounded
    down; ties: the lowest link) gives that rate to its classes. A class whose `cap` (0: none) is not larger than that
    share takes its cap first; ties: the lowest class.
    """
    left: dict[int, int] = {}
    waiting: dict[int, int] = {}  # link -> flows without a rate; no link without such
    routes_of: dict[int, list[int]] = {}
    for route in sorted(flows):
        for link in links_of[route]:
            left[link] = capacity[link]
            waiting[link] = waiting.get(link, 0) + flows[route]
            routes_of.setdefault(link, []).append(route)
    capped = sorted(((cap[route], route) for route in flows if cap[route]), reverse=True)
    rates: dict[int, int] = {}
    while waiting:
        share, tightest = min([(left[link] // many, link) for link, many in waiting.items()])
        while capped and capped[-1][1] in rates:
            capped.pop()
        if capped and capped[-1][0] <= share:
            share, fixed = capped[-1][0], [capped[-1][1]]
        else:
            fixed = [route for route in routes_of[tightest] if route not in rates]
        for route in fixed:
            rates[route] = share
            for link in links_of[route]:
                left[link] -= share * flows[route]
                waiting[link] -= flows[route]
                if not waiting[link]:
                    del waiting[link]
    return rates
