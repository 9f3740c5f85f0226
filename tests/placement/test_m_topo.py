"""m-TOPO: shares of memory by hand."""

from dataclasses import replace

import pytest

from placement.algorithms.m_topo import footprints, m_topo
from simulator.errors import InfeasibleError
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks

CHAIN = tasks({("a", "b"): 10, ("b", "c"): 10, ("c", "d"): 10, ("d", "e"): 10, ("e", "f"): 10})


def test_each_device_takes_its_share_and_the_largest_op() -> None:
    cluster = cluster_of("cc")
    problem = problem_of(CHAIN, cluster, costs_of(cluster, [(1, 1)] * 6))
    assert footprints(problem) == [10, 10, 10, 10, 10, 0]
    assert m_topo(problem).device == [0, 0, 0, 1, 1, 1]  # 50 // 2 + 10 bytes hold three of them


def test_gpus_are_filled_and_what_they_may_not_run_goes_to_the_cpu_beside_them() -> None:
    graph = replace(CHAIN, requested=("", "", "/cpu:0", "", "", ""))
    cluster = cluster_of("cgg")
    problem = problem_of(graph, cluster, costs_of(cluster, [(1, 1, 1)] * 6))
    assert m_topo(problem).device == [1, 1, 0, 1, 2, 2]  # 40 // 2 + 10


def test_a_device_takes_no_more_than_it_has() -> None:
    cluster = cluster_of("cc", memory=(20, 99))
    problem = problem_of(CHAIN, cluster, costs_of(cluster, [(1, 1)] * 6))
    assert m_topo(problem).device == [0, 0, 1, 1, 1, 1]


def test_what_stays_resident_must_fit() -> None:
    graph = tasks({}, ["a", "b", "c"])
    for room, fit in ((6, True), (5, False)):
        cluster = cluster_of("ccc", memory=(6, 6, room))
        problem = problem_of(graph, cluster, costs_of(cluster, [(1, 1, 1)] * 3, resident=(6, 6, 6)))
        if fit:
            assert m_topo(problem).device == [0, 1, 2]
        else:
            with pytest.raises(InfeasibleError, match="stay resident with 'c'"):
                m_topo(problem)
