"""Turns of Recvs under TensorFlow's executor: an order of chance for each GPU, in which no name counts."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.columns import flags
from simulator.execution.arrays import MOST_IN_ORDER
from simulator.execution.options import SimulationOptions
from simulator.execution.recvs import turns
from simulator.execution.simulate import simulate
from simulator.partitioning.cut import partition
from simulator.partitioning.partitions import Partitions
from tests.execution.cases import assigned, cluster, costs, whole
from tests.execution.test_engine import story

ON = cluster(["w:0/CPU:0", "w:0/GPU:0", "w:0/GPU:1"])
EXECUTOR = SimulationOptions(order="tensorflow")
MANY = MOST_IN_ORDER + 4


def towers(variables: int, *, prefix: str = "", shuffle: int | None = None, size: int = 2500) -> Partitions:
    """Variables on the CPU, and on each of two GPUs a chain of ops that read them, cut."""
    nodes = [(f"{prefix}v{v} = Variable", 0) for v in range(variables)]
    for gpu in (1, 2):
        for v in range(variables):
            before = f" {prefix}t{gpu}.{v - 1}" if v else ""
            nodes.append((f"{prefix}t{gpu}.{v} = AddN {prefix}v{v}{before}", gpu))
    if shuffle is not None:
        Random(shuffle).shuffle(nodes)
    graph = story(*(node for node, _ in nodes), size=size).built()
    placed = {node.split()[0]: where for node, where in nodes}
    return partition(graph, assigned(ON, [placed[name] for name in graph.names]), ON, step=whole(graph))


def of_gpu(cut: Partitions, gpu: int, seed: int = 0) -> list[int]:
    """The turns of the Recvs of a GPU, by the order of its tensors."""
    found: list[int] = turns(cut, ON, seed)[cut.dst_device == gpu].tolist()
    return found


@given(seed=st.integers(0, 2**64 - 1), variables=st.integers(MOST_IN_ORDER + 1, 20))
def test_each_gpu_comes_to_its_recvs_one_after_the_other(seed: int, variables: int) -> None:
    cut = towers(variables)
    for gpu in (1, 2):
        assert sorted(of_gpu(cut, gpu, seed)) == [at * ON.devices[gpu].launch_ns for at in range(variables)]


def test_the_order_is_another_for_each_gpu_and_seed() -> None:
    cut = towers(MANY)
    orders = [of_gpu(cut, gpu, seed) for gpu in (1, 2) for seed in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4


def test_a_recv_in_host_memory_enqueues_nothing() -> None:
    cut = towers(MANY)
    both = replace(cut, host=flags(np.arange(len(cut.host)) % 2))
    turn_ns, launch_ns = turns(both, ON, 0), ON.devices[1].launch_ns
    mine = np.flatnonzero(cut.dst_device == 1)
    copies = mine[~both.host[mine]]
    assert sorted(turn_ns[copies].tolist()) == [at * launch_ns for at in range(len(copies))]
    assert (turn_ns[mine] <= len(copies) * launch_ns).all()


def test_the_order_of_few_is_known() -> None:
    assert of_gpu(towers(MOST_IN_ORDER), 1) == [0] * MOST_IN_ORDER
    assert any(of_gpu(towers(MOST_IN_ORDER + 1), 1))


@given(seed=st.integers(0, 2**64 - 1))
def test_one_more_variable_leaves_the_others_in_their_order(seed: int) -> None:
    few, more = of_gpu(towers(MANY), 1, seed), of_gpu(towers(MANY + 1), 1, seed)
    assert np.argsort(few).tolist() == [row for row in np.argsort(more).tolist() if row < MANY]


def makespan(cut: Partitions, options: SimulationOptions) -> int:
    return simulate(cut, ON, costs(cut.nodes, ON, 1000), options).makespan


@given(seed=st.integers(0, 2**64 - 1), engine=st.sampled_from(["python", "compiled"]))
def test_renaming_the_nodes_changes_no_turn_and_no_makespan(seed: int, engine: str) -> None:
    options = replace(EXECUTOR, seed=seed, engine=engine)
    names = [makespan(towers(MANY, prefix=prefix), options) for prefix in ("", "z/", "a/b/")]
    assert len(set(names)) == 1
    assert names[0] == makespan(towers(MANY), replace(options, engine="python"))


def test_nodes_in_another_order_are_another_draw_of_the_same_turns() -> None:
    found, given_order = set(), sorted(of_gpu(towers(MANY), 1))
    for shuffle in range(5):
        cut = towers(MANY, shuffle=shuffle)
        assert sorted(of_gpu(cut, 1)) == given_order
        found.add(makespan(cut, EXECUTOR))
    seeds = {makespan(towers(MANY), replace(EXECUTOR, seed=seed)) for seed in range(5)}
    assert len(found) > 1
    assert len(seeds) > 1
    spread = [*found, *seeds]
    assert max(spread) < 2 * min(spread)


@pytest.mark.parametrize("order", ["fifo", "auto"])
def test_other_orders_know_no_turns(order: str) -> None:
    times = {makespan(towers(MANY), SimulationOptions(order=order, seed=seed)) for seed in range(5)}
    assert len(times) == 1


def test_a_chain_that_reads_in_order_waits_for_what_comes_by_chance() -> None:
    first = makespan(towers(MANY), SimulationOptions())
    assert makespan(towers(MANY), EXECUTOR) > first
