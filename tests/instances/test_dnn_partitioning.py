"""Instances of dnn-partitioning, written by hand from the description of their form."""

from __future__ import annotations

import copy
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement import place
from simulator import choose_step, partition, simulate
from simulator.assignment import Assignment, Bound
from simulator.columns import ids
from simulator.errors import GraphError, SimvizError
from simulator.instances.instance import Instance
from simulator.instances.reading import read_instance
from tests.instances.refusing import refusal
from viz import run

MS = 1_000_000
# One CPU node feeds two nodes that no accelerator can hold together; the last one stays beside the first of them.
HAND: dict[str, Any] = {
    "maxSizePerFPGA": 1000000.0,
    "maxFPGAs": 2,
    "maxCPUs": 2,
    "nodes": [
        {"id": 1, "supportedOnFpga": 0, "cpuLatency": 1.0, "fpgaLatency": 0.0, "isBackwardNode": False, "size": 0},
        {"id": 2, "supportedOnFpga": 1, "cpuLatency": 50.0, "fpgaLatency": 5.0, "colorClass": 7, "size": 600000},
        {"id": 3, "supportedOnFpga": 1, "cpuLatency": 50.0, "fpgaLatency": 6.0, "size": 600000.0},
        {"id": 4, "supportedOnFpga": True, "cpuLatency": 3.0, "fpgaLatency": 1.0, "colorClass": 7, "size": 1},
    ],
    "edges": [
        {"sourceId": 1, "destId": 2, "cost": 2.0},
        {"sourceId": 1, "destId": 3, "cost": 2.0},
        {"sourceId": 2, "destId": 4, "cost": 0.5},
        {"sourceId": 3, "destId": 4, "cost": 0.25},
    ],
}


def read(document: object) -> Instance:
    found = read_instance(json.dumps(document).encode())
    assert found is not None
    return found


def takes(instance: Instance, assignment: Assignment) -> int:
    costs = instance.costs(instance.cluster)
    pieces = partition(instance.graph, assignment, instance.cluster, step=choose_step(instance.graph))
    return simulate(pieces, instance.cluster, costs).makespan


def placed(instance: Instance, device: list[int]) -> Assignment:
    names = tuple(one.name for one in instance.cluster.devices)
    return Assignment(names, ids(device), ids(np.zeros(len(device))), "by hand", "by hand")


def test_the_optimum_by_hand(tmp_path: Path) -> None:
    # 1 ms on the CPU, 2 ms to the accelerators; 6 ms there; out and in again 0.25 ms each; the last node 1 ms
    file = tmp_path / "hand.json"
    file.write_text(json.dumps(HAND))
    result = run(file, budget=200)
    assert result.trace.makespan == 10.5 * MS
    result.write(str(tmp_path / "split.placement.json"), str(tmp_path / "placed.pbtxt"))
    split = json.loads((tmp_path / "split.placement.json").read_text())
    assert split["cpus"] == [{"load": 1.0, "nodes": [1]}]
    assert sorted(one["nodes"] for one in split["fpgas"]) == [[2, 4], [3]]
    assert split["maxLoad"] == 8.25  # 2 + 6 + 0.25 where node 3 is, 2 + 0.25 + 5 + 1 where the others are
    assert split["totalLatency"] == 17.5  # called one after the other: 1 + 8.25 + 8.25


def test_the_form_decides_and_not_the_name(tmp_path: Path) -> None:
    file = tmp_path / "hand.pb"
    file.write_bytes(gzip.compress(json.dumps(HAND).encode()))
    assert run(file, algorithm="heft").trace.makespan >= 10.5 * MS


def test_memory_colocation_and_support_bind() -> None:
    instance = read(HAND)
    step = choose_step(instance.graph)
    for algorithm in ("single", "whitepaper", "heft", "search"):
        found = place(
            instance.graph, instance.cluster, instance.costs(instance.cluster), step=step, algorithm=algorithm
        )
        device = found.device.tolist()
        assert device[0] == 0
        assert device[1] == device[3]
        assert device[1] == 0 or device[1] != device[2]


@pytest.mark.parametrize("options", [{"batch": 3}, {"cluster": "4gpu"}, {"check": True}, {"training": "async"}])
def test_options_that_contradict_the_file_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SimvizError, match=f"--{next(iter(options))}: .* is a dnn-partitioning instance"):
        run(json.dumps(HAND).encode(), **options)


def test_without_cpus_all_nodes_are_on_accelerators() -> None:
    document = copy.deepcopy(HAND)
    document["maxCPUs"] = 0
    with pytest.raises(GraphError, match="node 1 needs a CPU, and there is none"):
        read(document)
    document["nodes"][0]["supportedOnFpga"] = 1
    assert 0 not in run(json.dumps(document).encode(), algorithm="heft").assignment.device.tolist()


def test_a_split_beyond_the_limit_says_so() -> None:
    split = json.loads(read(HAND).written(placed(read(HAND), [0, 1, 1, 1])))
    assert split["oversize"] == [200001, 0]
    assert "oversize" not in json.loads(read(HAND).written(placed(read(HAND), [0, 1, 2, 1])))


TIMES = st.integers(0, 20)


@st.composite
def chains(draw: st.DrawFn) -> tuple[dict[str, Any], list[int]]:
    """A chain of nodes and a device for each, 0 for the CPU; an accelerator has its nodes one after the other."""
    count = draw(st.integers(1, 8))
    cuts = draw(st.lists(st.sampled_from([0, 1, 2, 3]), min_size=1, max_size=5))
    parts = [one for at, one in enumerate(cuts) if one == 0 or one not in cuts[:at]]
    ends = sorted(draw(st.lists(st.integers(0, count), min_size=len(parts) - 1, max_size=len(parts) - 1)))
    bounds = [0, *ends, count]
    device = [part for at, part in enumerate(parts) for _ in range(bounds[at], bounds[at + 1])]
    nodes = [
        {"id": 3 * at, "supportedOnFpga": 1, "cpuLatency": draw(TIMES), "fpgaLatency": draw(TIMES), "size": 0}
        for at in range(count)
    ]
    edges = [{"sourceId": 3 * at, "destId": 3 * at + 3, "cost": draw(TIMES)} for at in range(count - 1)]
    size = draw(st.sampled_from([0, 10**6, 10**9, 10**12]))  # another limit, another rate of the links
    return {"maxSizePerFPGA": size, "maxFPGAs": 3, "maxCPUs": 1, "nodes": nodes, "edges": edges}, device


@given(chains())
def test_a_chain_takes_as_long_as_by_the_papers_formulas(drawn: tuple[dict[str, Any], list[int]]) -> None:
    document, device = drawn
    instance = read(document)
    assignment = placed(instance, device)
    split = json.loads(instance.written(assignment))
    assert takes(instance, assignment) == split["totalLatency"] * MS


@given(chains(), st.randoms(use_true_random=False))
def test_a_split_has_each_node_once(drawn: tuple[dict[str, Any], list[int]], chance: Any) -> None:
    document, device = drawn
    chance.shuffle(device)
    instance = read(document)
    split = json.loads(instance.written(placed(instance, device)))
    parts = [*split["cpus"], *split["fpgas"]]
    back = {node: at for at, part in enumerate(parts) for node in part["nodes"]}
    assert [back[node["id"]] for node in document["nodes"]] == device
    assert split["maxLoad"] == max(part["load"] for part in parts)


JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, -1, 0, 1.5, 10**400, float("nan"), "x", [], {}, True, [[]], 2**70]
)


@given(st.data())
def test_bad_values_are_refused_in_one_sentence(data: st.DataObject) -> None:
    document = copy.deepcopy(HAND)
    holder = data.draw(st.sampled_from([document, *document["nodes"], *document["edges"]]))
    holder[data.draw(st.sampled_from(sorted(holder)))] = data.draw(JUNK)
    if "maxFPGAs" not in document:
        return
    said = refusal(json.dumps(document).encode())
    assert not said or (said.startswith("bytes in memory") and "\n" not in said)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"maxFPGAs": 1, "nodes": [', "begins as JSON, but it is cut or damaged"),
        (b'{"maxFPGAs": 1, "maxSizePerFPGA": 1, "nodes": [], "edges": []}', "without nodes"),
    ],
)
def test_damaged_files_are_refused(content: bytes, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        read_instance(content)


def test_other_json_and_graphs_are_no_instances() -> None:
    assert read_instance(b'{"a": 1}') is None
    assert read_instance(b"node {}") is None
    assert read_instance(b"\n{\n\x01a\x12\x04NoOp") is None  # a binary graph whose first node is as long as "{" says


def test_a_cycle_is_refused() -> None:
    document = copy.deepcopy(HAND)
    document["edges"].append({"sourceId": 4, "destId": 1, "cost": 0})
    with pytest.raises(GraphError, match="cycle"):
        read(document)


def test_a_chain_that_no_accelerator_holds_takes_its_bound(tmp_path: Path) -> None:
    """Its memory cuts it twice, so nothing that fits is quicker; what runs out of memory may be."""
    nodes = [
        {"id": at, "supportedOnFpga": 1, "cpuLatency": 900.0, "fpgaLatency": 5.0, "size": 500_000} for at in range(6)
    ]
    edges = [{"sourceId": at, "destId": at + 1, "cost": 2.0} for at in range(5)]
    path = tmp_path / "chain.json"
    path.write_text(json.dumps({**HAND, "maxFPGAs": 3, "nodes": nodes, "edges": edges}))
    found = run(path)
    assert found.trace.makespan == found.bound.ns == (6 * 5 + 2 * 2 * 2) * MS
    assert found.bound.why == "the longest path, which memory cuts"
    plain = Bound(30 * MS, "the longest path", found.bound)
    assert replace(found, bound=plain).memory_bounded().bound == found.bound
    small = replace(found.cluster, devices=tuple(replace(device, memory_bytes=1) for device in found.cluster.devices))
    full = replace(found, bound=plain, cluster=small)
    assert full.out_of_memory is not None
    assert full.memory_bounded().bound.ns == 30 * MS
