"""ETF: by hand, against every pair tried, and its authors' bound."""

from itertools import permutations, product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from placement.algorithms.etf import schedule
from placement.problem import Problem
from placement.scheduling.insertion import plans
from placement.scheduling.ranks import levels
from tests.placement.papers import arabnejad, length, topcuoglu
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks


@st.composite
def programs(draw: st.DrawFn, *, most: int, equal: bool = False) -> Problem:
    """Tasks on two or three processors, with a transfer per edge."""
    count, devices = draw(st.integers(1, most)), draw(st.integers(2, 3))
    pairs = [(a, b) for b in range(count) for a in range(b)]
    edges = {(f"t{a}", f"t{b}"): draw(st.integers(0, 20)) for a, b in pairs if draw(st.integers(0, 2)) == 0}
    times = st.integers(1, 20)
    run = [[draw(times)] * devices if equal else [draw(times) for _ in range(devices)] for _ in range(count)]
    cluster = cluster_of("c" * devices)
    return problem_of(tasks(edges, [f"t{row}" for row in range(count)]), cluster, costs_of(cluster, run))


def by_trying(problem: Problem) -> list[int]:
    """[n] the starts, by a look at every pair in every step, as the paper has it."""
    level, devices = levels(problem), range(len(problem.capacity))
    free, where, start = [0 for _ in devices], dict[int, int](), dict[int, int]()

    def there(op: int, device: int) -> int:
        found = [0]
        for tensor in problem.inputs[op]:
            source = int(problem.tables.tensor_op[tensor])
            away = 0 if where[source] == device else problem.transfer_ns(where[source], device, problem.nbytes[tensor])
            found.append(start[source] + problem.run[source][where[source]] + away)
        return max(found)

    while len(start) < len(level):
        sources = [{int(problem.tables.tensor_op[tensor]) for tensor in tensors} for tensors in problem.inputs]
        ready = [op for op in range(len(level)) if op not in start and sources[op] <= start.keys()]
        begun, _, op, device = min(
            (max(free[device], there(op, device)), -level[op], op, device) for op, device in product(ready, devices)
        )
        start[op], where[op], free[device] = begun, device, begun + problem.run[op][device]
    return [start[op] for op in range(len(level))]


@settings(max_examples=25)
@given(problem=programs(most=9))
def test_the_heaps_find_what_a_look_at_every_pair_finds(problem: Any) -> None:
    assert schedule(problem).start == by_trying(problem)


def test_the_examples_of_other_papers() -> None:
    for problem, ends in ((topcuoglu(), 93), (arabnejad(), 125)):
        made = schedule(problem)
        assert (made.start, length(made)) == (by_trying(problem), ends)


def test_the_pair_that_starts_first_wins_whatever_it_takes() -> None:
    graph = tasks({}, ["long", "short"])
    cluster = cluster_of("cc")
    made = schedule(problem_of(graph, cluster, costs_of(cluster, [(9, 9), (2, 10)])))
    assert made.start == [0, 0]
    assert plans(made)[0].device == [0, 1]  # the higher level first, the other one at once, though it is slow there


def without_transfers(problem: Problem) -> int:
    """The optimum on equal processors if transfers took no time: some list schedule reaches it."""
    run, sources = (
        [times[0] for times in problem.run],
        [{int(problem.tables.tensor_op[tensor]) for tensor in tensors} for tensors in problem.inputs],
    )
    best = sum(run)
    for order in permutations(range(len(run))):
        free, end = [0] * len(problem.capacity), dict[int, int]()
        for op in order:
            if not sources[op] <= end.keys():
                break
            device = min(range(len(free)), key=free.__getitem__)
            end[op] = free[device] = max([free[device], *(end[source] for source in sources[op])]) + run[op]
        else:
            best = min(best, max(end.values()))
    return best


def longest_transfers(problem: Problem) -> int:
    """The largest sum of transfers along a chain."""
    behind = [0] * len(problem.group)
    for op in reversed(range(len(behind))):
        hops = [(tensor, reader) for tensor in problem.outputs[op] for reader in problem.consumers[tensor]]
        behind[op] = max((problem.nbytes[tensor] + behind[reader] for tensor, reader in hops), default=0)
    return max(behind)


@settings(max_examples=16)
@given(problem=programs(most=5, equal=True))
def test_its_authors_bound(problem: Any) -> None:
    """Theorem 3.1: at most (2 - 1/n) times the optimum without transfers, and the transfers along some chain."""
    count = len(problem.capacity)
    assert length(schedule(problem)) <= (2 - 1 / count) * without_transfers(problem) + longest_transfers(problem)
