"""The number of a worker makes no difference, but where several join one queue at the same instant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster
from simulator.training.training import Training
from tests.execution.cases import apart
from tests.training.workloads import Priced, chain, pushing, ran, step_rows, update_rows, updating

LONG = 10**8  # ns: two random times are hardly ever equal
REGIMES = ("async", "ssp:bound=0", "ssp:bound=1", "ssp:bound=2", "ssp:bound=3")
SEEDED = st.integers(0, 2**32).map(Random)  # not drawn one by one, which would make them equal
Made = Callable[[int, int], Priced]  # a worker, on the task under whose number it goes


def renumbered(
    made: Made, on: Cluster, random: Random, more: Sequence[Priced] = (), **options: object
) -> list[tuple[Training, list[str]]]:
    """Two runs, and the names of their clients: workers as they are, and under other numbers."""
    count = len(on) - 1
    runs, start = [], [random.randrange(LONG) for _ in range(count)]
    for who in (range(count), random.sample(range(count), count)):
        workload = [made(one, row) for row, one in enumerate(who, 1)]
        begins = [*(start[one] for one in who), *[0] * len(more)]
        names = [client.program.name for client, _ in [*workload, *more]]
        runs.append((ran([*workload, *more], on, start=begins, **options), names))  # type: ignore[arg-type]
    return runs


def done(run: Training, names: list[str]) -> list[tuple[object, ...]]:
    """All updates and all steps that ended before the run did, by their makers' names."""
    end = update_rows(run)[-1][0]
    updates = [("update", names[client], now, *rest) for now, client, *rest in update_rows(run)]
    steps = [("step", names[client], *rest) for client, *rest in step_rows(run) if rest[2] < end]
    return sorted([*updates, *steps])


@settings(max_examples=20)
@given(st.integers(2, 5), st.sampled_from(REGIMES), st.booleans(), SEEDED)
def test_asynchronous_workers_and_bounded_clocks(workers: int, regime: str, shared: bool, random: Random) -> None:
    """Of any speed, at a busy parameter server, all over one bus or not: alike to the nanosecond."""
    on = apart(workers + 1, shared=shared)
    load, work = ([random.randrange(1, LONG) for _ in range(workers)] for _ in range(2))
    read_ns, apply_ns = (random.randrange(1, LONG // 2) for _ in range(2))

    def made(one: int, row: int) -> Priced:
        return chain(on, f"{one}", [(row, load[one]), (0, read_ns), (row, work[one]), (0, apply_ns)], task=row)

    first, second = renumbered(made, on, random, steps=12, regime=regime)
    assert done(*first) == done(*second)


@settings(max_examples=20)
@given(st.integers(2, 5), st.integers(1, 5), st.integers(0, 2), SEEDED)
def test_synchronous_workers(workers: int, aggregate: int, more: int, random: Random) -> None:
    """Also backup workers, and such as make several gradients, where no link has a queue.

    Tokens come to several workers at once; where these then meet in a queue they go by number.
    """
    on = apart(workers + 1, lanes=64)
    work = [random.randrange(LONG) for _ in range(workers)]
    chief = updating(on, aggregate=aggregate, handed=max(workers, aggregate), update_ns=random.randrange(LONG // 3))

    def made(one: int, row: int) -> Priced:
        return pushing(on, f"{one}", [(row, work[one])], task=row, apply_ns=LONG // 7)

    tokens = max(0, aggregate - workers) + more
    first, second = renumbered(made, on, random, [chief], steps=8, tokens=tokens, contention="none")
    assert done(*first) == done(*second)
