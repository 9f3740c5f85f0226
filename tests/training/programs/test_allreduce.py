"""All-reduce by plain ops: what each device gets, and how many transfers and bytes that takes after the cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement import place
from simulator import choose_step, estimate, load_cluster, partition
from simulator.errors import GraphError, SimvizError
from simulator.graph.editor import Endpoint, Output, edited
from simulator.graph.graph import Graph
from simulator.training.programs.allreduce import COLLECTIVES, Reduced, buckets, reduce_together
from simulator.training.programs.replicated import replicate
from simulator.training.regimes import read_regime
from tests.strategies import Rows, type_attr, typed
from tests.training.programs.test_between import momentum, variable
from tests.training.programs.test_towers import device, inputs, sparse


def reduction(shape: tuple[int, ...], where: list[str], collective: str) -> tuple[Graph, list[str]]:
    """A graph in which each device reduces a constant of its own, and the results."""
    made = Rows()
    for row, there in enumerate(where):
        made.add(f"g{row}", "Const", device=there, **typed("Const", shape))
    editor = edited(made.built(), as_made=False)
    results = COLLECTIVES[collective](editor, Reduced("all", range(len(where)), where, 1, shape, len(where)))
    return editor.built(), [editor.names[row] for row, _ in map(endpoint, results)]


def endpoint(output: Output) -> Endpoint:
    return output if isinstance(output, tuple) else (output, 0)


RULES: dict[str, Callable[[list[Any]], Any]] = {
    "AddV2": lambda given: given[0] + given[1],
    "AddN": sum,
    "RealDiv": lambda given: given[0] / given[1],
    "Identity": lambda given: given[0],
    "ConcatV2": lambda given: np.concatenate(given[:-1]),
    "Reshape": lambda given: given[0].reshape(given[1]),
}


def computed(graph: Graph, values: dict[str, Any]) -> dict[str, list[Any]]:
    """What every node of a reduction hands out: arrays."""
    known: dict[str, list[Any]] = {}
    for row in graph.topological.tolist():
        name, op, attrs = graph.names[row], graph.ops[row], graph.attrs[row]
        taken = [known[text.partition(":")[0]][int(text.partition(":")[2] or 0)] for text in graph.inputs_of(row)]
        if op == "Const" and name in values:
            known[name] = [values[name]]
        elif op == "Const":
            tensor = attrs["value"].tensor
            held = np.frombuffer(tensor.tensor_content, {1: "<f4", 3: "<i4"}[tensor.dtype])
            known[name] = [held.reshape([dim.size for dim in tensor.tensor_shape.dim])]
        elif op == "SplitV":
            known[name] = np.split(taken[0], np.cumsum(taken[1])[:-1])
        else:
            known[name] = [np.asarray(RULES[op](taken))]
        for port, value in enumerate(known[name]):
            assert graph.tensor_shape[graph.tensor_ptr[row] + port] == value.shape  # what the cut reckons with
    return known


def crossing(graph: Graph, results: list[str], cluster_text: str) -> list[tuple[str, str, int]]:
    """Source, destination and bytes of each transfer, the empty ones of constants' control edges left out."""
    cluster = load_cluster(cluster_text)
    step = choose_step(graph, fetches=results)
    assignment = place(graph, cluster, estimate(graph, cluster), step=step, algorithm="requested")
    cut = partition(graph, assignment, cluster, step=step)
    names = [one.short for one in cluster.devices]
    columns = (cut.src_device.tolist(), cut.dst_device.tolist(), cut.nbytes.tolist())
    return [(names[src], names[dst], nbytes) for src, dst, nbytes in zip(*columns, strict=True)]


def gpus(count: int) -> list[str]:
    return [f"/job:localhost/task:0/device:GPU:{number}" for number in range(count)]


@given(
    st.lists(st.integers(1, 7), max_size=3).map(tuple),
    st.lists(st.integers(1, 3), min_size=1, max_size=4),
    st.sampled_from(sorted(COLLECTIVES)),
)
def test_every_device_gets_the_mean_of_all(shape: tuple[int, ...], tasks: list[int], collective: str) -> None:
    where = [f"/job:worker/task:{task}/device:GPU:{gpu}" for task, count in enumerate(tasks) for gpu in range(count)]
    graph, results = reduction(shape, where, collective)
    drawn = np.random.default_rng(prod(shape))
    values = {f"g{row}": drawn.integers(-9, 9, shape).astype("f4") for row in range(len(where))}
    known = computed(graph, values)
    for there, name in zip(where, results, strict=True):
        assert np.allclose(known[name][0], sum(values.values()) / len(where), atol=1e-5)
        assert device(graph, name) == there


@pytest.mark.parametrize(("count", "elements"), [(2, 10), (4, 16), (4, 18), (5, 3), (8, 1000)])
def test_a_ring_takes_two_rounds_of_chunks_between_neighbours(count: int, elements: int) -> None:
    """Every device sends 2 (n - 1) chunks to the next one: all but one in each round, and nothing to any other."""
    graph, results = reduction((elements,), gpus(count), "ring")
    sizes = [4 * len(part) for part in np.array_split(np.arange(elements), count)]
    sent: dict[tuple[str, str], list[int]] = {}
    for source, target, nbytes in crossing(graph, results, f"{count}gpu"):
        sent.setdefault((source, target), []).append(nbytes)
    for place_ in range(count):
        here, there = f"localhost:0/GPU:{place_}", f"localhost:0/GPU:{(place_ + 1) % count}"
        first = [size for chunk, size in enumerate(sizes) if chunk != (place_ + 1) % count]
        second = [size for chunk, size in enumerate(sizes) if chunk != (place_ + 2) % count]
        assert sorted(sent.pop((here, there))) == sorted(size for size in first + second if size)
    assert {pair for pair in sent if "GPU" in pair[0] and "GPU" in pair[1]} == set()


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8])
def test_a_tree_sends_all_bytes_up_and_down_once(count: int) -> None:
    graph, results = reduction((6,), gpus(count), "tree")
    pairs = Counter(
        (src[-1], dst[-1], size) for src, dst, size in crossing(graph, results, f"{count}gpu") if size >= 24
    )
    expected = [(str(k), str((k - 1) // 2), 24) for k in range(1, count)]
    assert pairs == Counter([*expected, *((dst, src, size) for src, dst, size in expected)])


def test_only_the_first_devices_of_tasks_send_to_other_tasks() -> None:
    """Three tasks of two GPUs, 12 numbers: within a task 48 bytes in and out, between tasks a ring of chunks of 16."""
    where = [f"/job:worker/task:{task}/device:GPU:{gpu}" for task in range(3) for gpu in range(2)]
    graph, results = reduction((12,), where, "hierarchical")
    found = Counter(one for one in crossing(graph, results, "worker=3x2gpu") if "GPU" in one[0] and "GPU" in one[1])
    within = [(f"worker:{t}/GPU:{a}", f"worker:{t}/GPU:{1 - a}", 48) for t in range(3) for a in range(2)]
    between = [(f"worker:{t}/GPU:0", f"worker:{(t + 1) % 3}/GPU:0", 16) for t in range(3)] * 4
    assert found == Counter([*within, *between])


def test_each_replica_has_variables_of_its_own_and_makes_the_same_update() -> None:
    (program,) = replicate(momentum(), load_cluster("worker=2x1gpu"), how="allreduce:ring", batch=8)
    graph = program.graph
    assert program.fetches == ("train", "replica_1/train")
    assert (program.counts, program.examples) == (("count",), 16)
    assert inputs(graph, "replica_1/y") == ("split/x:1", "replica_1/w/read")
    assert inputs(graph, "update_w") == ("w", "w/Momentum", "rate", "allreduce/w/result_0", "rate")
    assert inputs(graph, "replica_1/update_w") == (
        "replica_1/w",
        "replica_1/w/Momentum",
        "replica_1/rate",
        "allreduce/w/result_1",
        "replica_1/rate",
    )
    assert device(graph, "replica_1/w/Momentum") == device(graph, "replica_1/y") == "/job:worker/task:1/device:GPU:0"
    assert graph.attrs[graph.row("replica_1/w/Momentum")]["_class"].list.s == [b"loc:@replica_1/w"]


def test_sparse_gradients_are_gathered() -> None:
    graph = replicate(sparse(), load_cluster("2gpu"), how="allreduce:tree")[0].graph
    for place_, prefix in enumerate(("", "replica_1/")):
        assert inputs(graph, f"allreduce/table/rows_{place_}")[:2] == ("rows", "replica_1/rows")
        assert inputs(graph, f"allreduce/table/indices_{place_}")[:2] == ("split/words", "split/words:1")
        assert inputs(graph, f"{prefix}unique") == (f"allreduce/table/indices_{place_}",)
        assert inputs(graph, f"{prefix}sum")[0] == f"allreduce/table/mean_{place_}"


def trained(*, declared: bool) -> Graph:
    made = Rows()
    if declared:
        made.add("x", "Const", **typed("Const", (2,)))
        variable(made, "w", 2)
    else:
        made.add("x", "Placeholder", dtype=type_attr())
        made.add("w", "VariableV2", dtype=type_attr())
    made.add("first", "Const", **typed("Const", (2,)))
    made.add("w/Assign", "Assign", ["w", "first"], T=type_attr())
    made.add("update", "ApplyGradientDescent", ["w", "x", "x"], T=type_attr())
    made.add("init", "NoOp", ["^w/Assign"])
    return made.built()


def test_first_values_and_restored_ones_are_given_to_all_copies() -> None:
    graph = replicate(trained(declared=True), load_cluster("2gpu"), how="allreduce:tree", fetch=["update"])[0].graph
    assert inputs(graph, "replica_1/w/Assign") == ("replica_1/w", "first")
    assert inputs(graph, "init") == ("^w/Assign", "^replica_1/w/Assign")


def test_a_gradient_of_unknown_size_cannot_be_cut() -> None:
    with pytest.raises(GraphError, match="'w' does not say its shape"):
        replicate(trained(declared=False), load_cluster("2gpu"), how="allreduce:ring", fetch=["update"])


def test_an_all_reduce_cannot_be_asynchronous() -> None:
    with pytest.raises(SimvizError, match="waits for all replicas"):
        replicate(momentum(), load_cluster("2gpu"), how="allreduce:ring", regime=read_regime("async"))


@given(
    st.lists(st.lists(st.integers(1, 4), max_size=2).map(tuple), min_size=1, max_size=5),
    st.integers(1, 4),
    st.integers(0, 90),
    st.sampled_from(sorted(COLLECTIVES)),
)
def test_fused_gradients_are_the_same_means_in_as_few_buckets_as_fit(
    shapes: list[tuple[int, ...]], devices: int, most: int, collective: str
) -> None:
    where = [f"/job:worker/task:{place // 2}/device:CPU:{place % 2}" for place in range(devices)]
    made, values = Rows(), {}
    for row, shape in enumerate(shapes):
        for at, there in enumerate(where):
            made.add(f"g{row}_{at}", "Const", device=there, **typed("Const", shape))
            values[f"g{row}_{at}"] = np.arange(prod(shape), dtype="f").reshape(shape) * (at + 1) + row
    editor = edited(made.built(), as_made=False)
    given = [
        Reduced(f"all{row}", range(row * devices, (row + 1) * devices), where, 1, shape, devices)
        for row, shape in enumerate(shapes)
    ]
    sizes = [4 * prod(shape) for shape in shapes]
    packed = buckets(given, most)
    assert sorted(place for bucket in packed for place in bucket) == list(range(len(shapes)))
    assert all(len(bucket) == 1 or sum(sizes[place] for place in bucket) <= most for bucket in packed)
    if most:
        filled = [sum(sizes[place] for place in bucket) for bucket in packed]
        firsts = [sizes[bucket[0]] for bucket in packed[1:]]
        assert all(before + first > most for before, first in zip(filled, firsts, strict=False))
    means: dict[int, list[Output]] = {}
    for number, bucket in enumerate(packed):
        results = reduce_together(
            editor, f"fused_{number}", [given[place] for place in bucket], COLLECTIVES[collective]
        )
        means.update(zip(bucket, results, strict=True))
    known = computed(editor.built(), values)
    for row in range(len(shapes)):
        mean = np.mean([values[f"g{row}_{place}"] for place in range(devices)], axis=0)
        for made_row, port in map(endpoint, means[row]):
            assert known[editor.names[made_row]][port] == pytest.approx(mean)


def test_what_is_fused_crosses_in_fewer_messages() -> None:
    def transfers(fuse: int) -> int:
        (program,) = replicate(momentum(), load_cluster("worker=2"), how="allreduce:ring", fuse=fuse)
        on, step = load_cluster("worker=2"), choose_step(program.graph, fetches=program.fetches)
        costs = estimate(program.graph, on)
        return len(
            partition(
                program.graph, place(program.graph, on, costs, step=step, algorithm="whitepaper"), on, step=step
            ).send
        )

    assert transfers(1 << 20) < transfers(0)
    with pytest.raises(SimvizError, match="only an all-reduce"):
        replicate(momentum(), load_cluster("2gpu"), how="in", fuse=64)
