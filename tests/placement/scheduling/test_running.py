"""Functions over columns: machine code gives what Python gives, to the last number."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.algorithms import load
from placement.columns import Columns
from placement.problem import Problem
from placement.scheduling import running
from placement.scheduling.earliest_start import enter_first
from placement.scheduling.heaps import pop, push, replace_first
from placement.scheduling.insertion import enter_all
from placement.scheduling.ranks import mean_transfer, ranks_on, upward_ranks
from placement.scheduling.running import MOST_PS
from simulator.columns import Ints
from simulator.errors import InfeasibleError
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks
from tests.placement.search.test_search import problems

SCHEDULES = ("heft", "cpop", "peft", "etf", "m_etf", "m_sct")


def decided(problem: Problem, name: str, *, compiled: bool) -> object:
    """All that an algorithm decides."""
    with patch.object(running, "pays", lambda *_: compiled):
        try:
            if name not in SCHEDULES:
                plan = load(name)(problem)
                return plan.device, plan.decider
            made = import_module(f"placement.algorithms.{name}").schedule(problem)
        except InfeasibleError as error:
            return str(error)
        return tuple(map(running.listed, (made.device, made.decider, made.start)))


@pytest.mark.parametrize("name", [*SCHEDULES, "whitepaper", "m_topo"])
def test_compiled_code_decides_what_python_decides(name: str) -> None:
    @settings(deadline=None, max_examples=25)
    @given(problems())
    def compare(problem: Problem) -> None:
        if all(problem.allowed):
            assert decided(problem, name, compiled=True) == decided(problem, name, compiled=False)

    compare()


@settings(deadline=None)
@given(problems(), st.data())
def test_a_rank_under_a_placement_is_the_longest_way_to_the_end(problem: Problem, data: st.DataObject) -> None:
    tables = problem.tables
    devices = range(len(problem.capacity))
    device = [data.draw(st.sampled_from(devices)) for _ in problem.group]
    wire_ns = [data.draw(st.integers(0, 9)) for _ in problem.nbytes]

    def longest(op: int) -> int:
        ways = [
            (device[op] != device[reader]) * wire_ns[tensor] + longest(reader)
            for tensor in problem.outputs[op]
            for reader in problem.consumers[tensor]
        ]
        return max(int(tables.run_ns[op, device[op]]), 0) + max(ways, default=0)

    for compiled in (True, False):
        with patch.object(running, "pays", lambda *_, now=compiled: now):
            ranks = ranks_on(problem, np.array(device), np.array(wire_ns, np.float64))
        assert ranks.tolist() == [1000 * longest(op) for op in range(len(device))]


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 9)), max_size=30), st.data())
def test_a_heap_gives_its_pairs_in_order(pairs: Sequence[tuple[int, int]], data: st.DataObject) -> None:
    low = data.draw(st.integers(0, 3))
    keys, items = ([99] * (low + len(pairs)) for _ in range(2))
    for size, (key, item) in enumerate(pairs):
        push(keys, items, low, size, key, item)  # type: ignore[arg-type]  # it runs over lists, too
    found = []
    for size in range(len(pairs), 0, -1):
        found.append((keys[low], items[low]))
        pop(keys, items, low, size)  # type: ignore[arg-type]  # as above
    assert found == sorted(pairs)
    assert keys[:low] == items[:low] == [99] * low


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.lists(st.integers(0, 9), max_size=20))
def test_the_least_of_a_heap_is_replaced(first: list[int], others: Sequence[int]) -> None:
    heap = [99, *sorted(first), 99]
    left = sorted(first)
    for other in others:
        replace_first(heap, 1, len(heap) - 1, other)  # type: ignore[arg-type]  # it runs over lists, too
        left = sorted([*left[1:], other])
        assert (heap[1], sorted(heap[1:-1])) == (left[0], left)


def test_a_functions_file_is_among_its_sources() -> None:
    own = import_module("placement.algorithms.whitepaper").enter_ready
    assert running.sources_of(own).parts[-1] == "../placement/algorithms/whitepaper.py"
    assert {running.sources_of(one).parts[-2] for one in (own, enter_all, enter_first)} == {"../placement/scheduling"}


def test_times_that_64_bits_would_not_hold_are_left_to_python() -> None:
    def columns(run_ns: int) -> Columns:
        one: Ints = np.array([run_ns])
        return Columns(*(one for _ in Columns._fields))

    assert running._longest_ps(columns(10**9)) < MOST_PS < running._longest_ps(columns(10**16))


@pytest.mark.filterwarnings("error")
def test_a_transfer_of_centuries_is_the_longest_that_is_reckoned_with() -> None:
    """A shape in a file may claim 2**55 bytes: as picoseconds they would be a negative number."""
    cluster = cluster_of("gg", bytes_per_s=10**6)
    problem = problem_of(tasks({("a", "b"): 2**55}), cluster, costs_of(cluster, [[1, 1]] * 2))
    assert mean_transfer(problem).tolist() == [MOST_PS]
    assert upward_ranks(problem)[0] == MOST_PS
