"""The compiled loop's rates of flows, found anew only where a change reaches, against those found from nothing.

What is compiled runs here as it stands, in plain Python, in a process of its own: numba makes no such function that
could be called by itself.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np

from simulator.columns import ids, ints
from simulator.execution.compiled.filling import fill
from simulator.execution.compiled.shares import clear_flows, join, leave, serve, settle
from simulator.execution.flattening import fresh
from simulator.execution.flows import Fair, Shared
from simulator.execution.sharing import shares

ROOM = 40  # flows of one way


def test_rates_are_those_found_from_nothing_after_every_change() -> None:
    """Few bytes per second, so that rounding matters; many of one size, so that ties are common."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    asked = [sys.executable, "-m", "tests.execution.test_filling"]
    done = subprocess.run(asked, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    changed, filled = map(int, done.stdout.split())
    assert changed > 5_000
    assert filled < changed / 2, "of the ways with flows far from all were looked at"


def begin_and_end_flows(chance: random.Random) -> tuple[int, int]:
    """One or several flows begin or end, again and again: how many ways had flows then, and how many were looked at."""
    links, ways = chance.choice([(2, 2), (4, 5), (8, 15), (20, 60), (40, 60)])
    on = [tuple(chance.sample(range(links), chance.randint(1, min(links, 3)))) for _ in range(ways)]
    sizes = [chance.randint(20, 60) * chance.choice([1, 1, 1000]) for _ in range(chance.choice([1, 2, 5]))]
    capacity = [chance.choice(sizes) * chance.choice([1, 1, 1, 10]) for _ in range(links)]
    some = chance.random() < 0.5
    cap = [chance.choice([0, 0, chance.randint(1, 40)]) if some else 0 for _ in on]
    link = ids([one for route in on for one in route])
    ends = ids(np.cumsum([0, *map(len, on)])), ids(np.append(0, np.cumsum(np.bincount(link, minlength=links))))
    shared = Shared(ends[0], link, ends[1], ints(cap), ints(capacity))
    fair: Fair = fresh([Fair], {"W": ways, "L": links, "U": len(link), "2": 2, "V": ROOM * ways})[0]
    base = ids(np.arange(ways) * ROOM)
    clear_flows(fair)
    flows: dict[int, int] = {}
    known = looked_at = 0
    for now in range(1, 40):
        for _ in range(chance.choice([1, 1, 1, 2, 5])):
            way = chance.randrange(ways)
            if chance.random() < 0.55 and sum(flows.values()) < min(capacity) and flows.get(way, 0) < ROOM:
                join(fair, base[way], way, 0, 10**6, now, now)
                flows[way] = flows.get(way, 0) + 1
            elif flows.get(way, 0):
                serve(fair, way, now, now)
                leave(fair, base[way], way)
                flows[way] -= 1
        flows = {way: count for way, count in flows.items() if count}
        settle(fair, shared, base, now, now)
        assert {way: int(fair.rate[way]) for way in flows} == shares(flows, on, capacity, cap)
        for one in range(links):
            users = fair.user[shared.user_ptr[one] : shared.user_ptr[one] + fair.users[one]].tolist()
            assert sorted(users) == [way for way in sorted(flows) if one in on[way]]
            assert fair.many[one] == sum(flows[way] for way in users)
            assert fair.load[one] == sum(flows[way] * fair.rate[way] for way in users)
        known += len(flows)
        looked_at += int((fair.seen == now).sum())
    return known, looked_at


if __name__ == "__main__":
    assert not hasattr(fill, "py_func"), "plain Python"
    print(*map(sum, zip(*(begin_and_end_flows(random.Random(seed)) for seed in range(120)), strict=True)))
