"""The examples of papers on list scheduling: ten tasks on three processors."""

from collections.abc import Mapping, Sequence

from placement.problem import Problem
from placement.scheduling.insertion import Schedule
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks

# Topcuoglu, Hariri and Wu 2002: figure 2 and its table, ten tasks on three processors
_TOPCUOGLU = {
    (1, 2): 18, (1, 3): 12, (1, 4): 9, (1, 5): 11, (1, 6): 14, (2, 8): 19, (2, 9): 16, (3, 7): 23, (4, 8): 27,
    (4, 9): 23, (5, 9): 13, (6, 8): 15, (7, 10): 17, (8, 10): 11, (9, 10): 13,
}  # fmt: skip
_TOPCUOGLU_RUN = [
    (14, 16, 9), (13, 19, 18), (11, 13, 19), (13, 8, 17), (12, 13, 10),
    (13, 16, 9), (7, 15, 11), (5, 11, 14), (18, 12, 20), (21, 7, 16),
]  # fmt: skip

# Arabnejad and Barbosa 2014: figure 1 and its table
_ARABNEJAD = {
    (1, 2): 17, (1, 3): 31, (1, 4): 29, (1, 5): 13, (1, 6): 7, (2, 8): 3, (2, 9): 30, (3, 7): 16, (4, 8): 11,
    (4, 9): 7, (5, 9): 57, (6, 8): 5, (7, 10): 9, (8, 10): 42, (9, 10): 7,
}  # fmt: skip
_ARABNEJAD_RUN = [
    (22, 21, 36), (22, 18, 18), (32, 27, 43), (7, 10, 4), (29, 27, 35),
    (26, 17, 24), (14, 25, 30), (29, 23, 36), (15, 21, 8), (13, 16, 33),
]  # fmt: skip


def topcuoglu() -> Problem:
    """HEFT takes 80 and CPOP 86."""
    return _posed(_TOPCUOGLU, _TOPCUOGLU_RUN)


def arabnejad() -> Problem:
    """PEFT takes 122 and HEFT 133."""
    return _posed(_ARABNEJAD, _ARABNEJAD_RUN)


def length(made: Schedule) -> int:
    """The time at which the last op of a schedule ends."""
    problem, device = made.problem, made.device
    return max(int(begun) + problem.run[op][device[problem.group[op]]] for op, begun in enumerate(made.start))


def _posed(edges: Mapping[tuple[int, int], int], run_ns: Sequence[tuple[int, ...]]) -> Problem:
    graph = tasks({(f"t{a}", f"t{b}"): nbytes for (a, b), nbytes in edges.items()}, [f"t{n}" for n in range(1, 11)])
    cluster = cluster_of("ccc")  # one byte takes one nanosecond on every link
    return problem_of(graph, cluster, costs_of(cluster, run_ns))
