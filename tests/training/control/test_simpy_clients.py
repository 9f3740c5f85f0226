"""Random clients against a second implementation by SimPy: every step, every update, what came too late."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.execution.cases import apart
from tests.training import simpy_clients
from tests.training.workloads import Priced, chain, pushing, ran, step_rows, update_rows, updating

LONG = 10**6  # ns: two random times are hardly ever equal
SEEDED = st.integers(0, 2**32).map(Random)  # not drawn one by one, which would make them equal


@settings(max_examples=25)
@given(
    st.integers(2, 4),
    st.integers(1, 5),
    st.integers(1, 2),
    st.integers(0, 3),
    st.sampled_from(["fifo", "tensorflow"]),
    SEEDED,
)
def test_synchronous_clients(
    workers: int, aggregate: int, variables: int, more: int, order: str, random: Random
) -> None:
    """Backup workers where fewer gradients are needed than workers push, several rounds per update where more are."""
    on = apart(workers + 1, lanes=64)
    workload: list[Priced] = [
        pushing(
            on,
            f"worker:{k}",
            [(k, random.randrange(1, LONG))],
            variables=variables,
            apply_ns=random.randrange(LONG // 10),
            task=k,
        )
        for k in range(1, workers + 1)
    ]
    rest = {"take_ns": random.randrange(LONG // 10), "update_ns": random.randrange(LONG // 10)}
    handed, tokens = max(workers, aggregate), aggregate + more
    workload.append(updating(on, aggregate=aggregate, handed=handed, variables=variables, **rest))
    ours = ran(workload, on, steps=6, tokens=tokens, order=order, contention="none")
    theirs = simpy_clients.simulate(workload, on, updates=6, tokens=tokens)
    assert finished([(a, b, c, d) for a, b, c, d, *_ in step_rows(ours)], theirs) == finished(theirs.steps, theirs)
    assert [update[:3] for update in update_rows(ours)] == theirs.updates
    assert ours.dropped == theirs.dropped


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(-1, 3), SEEDED)
def test_clients_without_a_common_update(workers: int, bound: int, random: Random) -> None:
    """Asynchronous, and with bounded clocks: each worker is faster or slower than the others by up to a hundred."""
    on = apart(workers + 1, lanes=64)
    times = [random.choice([LONG, 10 * LONG, 100 * LONG]) for _ in range(workers)]
    workload = [
        chain(on, f"worker:{k}", [(k, random.randrange(1, longest)), (0, random.randrange(1, LONG)), (k, 7)], task=k)
        for k, longest in enumerate(times, 1)
    ]
    regime = "async" if bound < 0 else f"ssp:bound={bound}"
    ours = ran(workload, on, steps=8, regime=regime, contention="none")
    theirs = simpy_clients.simulate(workload, on, updates=8 * workers, bound=bound)
    assert finished([(a, b, c, d) for a, b, c, d, *_ in step_rows(ours)], theirs) == finished(theirs.steps, theirs)
    assert [update[:3] for update in update_rows(ours)] == theirs.updates


def finished(steps: Sequence[simpy_clients.Step], world: simpy_clients.World) -> list[simpy_clients.Step]:
    """Those that ended before the run did."""
    return sorted(step for step in steps if step[3] < world.env.now)
