"""Rates of flows, found anew only where a change reaches, against those found from nothing."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from simulator.execution.arrays import INFINITE, Flows, SharedLinks, filled, listed
from simulator.execution.sharing import finish, join, settle
from tests.execution.reference_shares import shares

ROOM = 40  # flows of one route


def test_rates_are_those_found_from_nothing_after_every_change() -> None:
    """Few bytes per second, so that rounding matters; many of one size, so that ties are common."""
    counts = [begin_and_end_flows(random.Random(seed)) for seed in range(120)]
    changed, filled_anew = map(sum, zip(*counts, strict=True))
    assert changed > 5_000
    assert filled_anew < changed / 1.5, "of the routes with flows far from all were looked at"


def begin_and_end_flows(chance: random.Random) -> tuple[int, int]:
    """One or several flows begin or end, again and again: how many routes had flows, and how many were looked at."""
    links, routes = chance.choice([(2, 2), (4, 5), (8, 15), (20, 60), (40, 60)])
    on = [tuple(chance.sample(range(links), chance.randint(1, min(links, 3)))) for _ in range(routes)]
    sizes = [chance.randint(20, 60) * chance.choice([1, 1, 1000]) for _ in range(chance.choice([1, 2, 5]))]
    capacity = [chance.choice(sizes) * chance.choice([1, 1, 1, 10]) for _ in range(links)]
    some = chance.random() < 0.5
    cap = [chance.choice([0, 0, chance.randint(1, 40)]) if some else 0 for _ in on]
    link = [one for route in on for one in route]
    users = np.append(0, np.cumsum(np.bincount(link, minlength=links)))
    shared: SharedLinks = listed(
        filled(
            SharedLinks, link_ptr=np.cumsum([0, *map(len, on)]), link=link, user_ptr=users, cap=cap, capacity=capacity
        )
    )
    axes = {"W": routes, "L": links, "U": len(link), "F": ROOM * routes, "2": 2}
    base = np.arange(routes) * ROOM
    flows: Flows = listed(filled(Flows, axes, base=base, rank=np.full(routes, -1), level=np.full(links, INFINITE)))
    known = looked_at = now = 0
    active = [0] * routes
    of_task = dict[int, int]()
    ended: Any = [0] * (ROOM * routes)  # Any: a list in the place of an array
    upcoming = INFINITE
    for turn in range(1, 60):
        now = (
            upcoming if upcoming < INFINITE and chance.random() < 0.6 else min(now + chance.randrange(10**6), upcoming)
        )
        for at in range(finish(flows, now, turn, ended, 0)):
            active[of_task.pop(ended[at])] -= 1
        for _ in range(chance.choice([0, 1, 1, 2, 5])):
            route = chance.randrange(routes)
            if sum(active) < min(capacity) and active[route] < ROOM:
                task = turn * 10 + len(of_task) * 1000
                while task in of_task:
                    task += 1
                join(flows, route, task, chance.choice([1, 5, 5, 100]), now, turn)
                of_task[task] = route
                active[route] += 1
        upcoming = settle(flows, shared, now, turn)
        there = {route: count for route, count in enumerate(active) if count}
        assert {route: flows.rate[route] for route in there} == shares(there, on, capacity, cap)
        for one in range(links):
            first = shared.user_ptr[one]
            mine = flows.user[first : first + flows.users[one]]
            assert sorted(mine) == [route for route in sorted(there) if one in on[route]]
            assert flows.many[one] == sum(there[route] for route in mine)
            assert flows.load[one] == sum(there[route] * flows.rate[route] for route in mine)
        known += len(there)
        looked_at += sum(seen == turn for seen in flows.seen)
    return known, looked_at
