"""Tasks that are alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.sessions import elsewhere
from simulator.cluster.cluster import Cluster
from simulator.cluster.description import load_cluster
from simulator.cluster.master import rows_by_task
from simulator.training.programs.tasks import first_identical


def unlike(random: Random) -> Cluster:
    """A cluster in which some devices are slower than others or have less memory, and some are missing."""
    whole = load_cluster("ps=2,worker=4x2gpu,chief=1x2gpu")
    devices = [
        replace(
            device, kind=random.choice([device.kind, "other"]), memory_bytes=random.choice([1, device.memory_bytes])
        )
        for device in whole.devices
        if device.name.endswith("CPU:0") or random.random() < 0.7
    ]
    count = len(devices)
    return Cluster(tuple(devices), (), ((None,) * count,) * count)


@given(st.randoms(use_true_random=False))
def test_a_task_is_like_the_first_with_such_devices_that_does_the_same(random: Random) -> None:
    cluster = unlike(random)
    tasks = random.sample(cluster.tasks, len(cluster.tasks))
    doing = [random.randrange(2) for _ in tasks]

    def facts(row: int) -> object:
        job, own = tasks[row].split("/")[1], [one for one in cluster.devices if one.task == tasks[row]]
        return job, doing[row], [(one.name.split("device:")[1], one.type, one.kind, one.memory_bytes) for one in own]

    for row, found in enumerate(first_identical(cluster, tasks, doing)):
        same = [other for other in range(row) if facts(other) == facts(row)]
        assert found == (same[0] if same else None)


@pytest.mark.parametrize(("key", "value"), [("nic", "1 GB/s"), ("pcie", "1 GB/s"), ("nvswitch", "300 GB/s")])
def test_tasks_whose_wires_differ_are_placed_by_their_own(key: str, value: str, tmp_path: Path) -> None:
    """The session of a worker behind a slow PCIe would compute on its CPU, whichever number that worker has."""
    text = '[[host]]\nname = "p"\n[[task]]\njob = "ps"\nhost = "p"\n'
    for worker in range(3):
        own = f'{key} = {{ bandwidth = "{value}", latency = "1 us" }}\n' if worker == 1 else ""
        text += f'[[host]]\nname = "w{worker}"\ngpus = "2 v100"\n{own}[[task]]\njob = "worker"\nhost = "w{worker}"\n'
    (tmp_path / "cluster.toml").write_text(text)
    cluster = load_cluster(tmp_path / "cluster.toml")
    assert first_identical(cluster, cluster.tasks[1:], [0, 0, 0]) == [None, None, 0]


def test_devices_of_a_task_are_those_of_the_same_names_elsewhere() -> None:
    cluster = load_cluster("ps=1,worker=3x2gpu")
    names = [device.short for device in cluster.devices]
    there = elsewhere(cluster, rows_by_task(cluster)[cluster.tasks[1]], cluster.tasks[3])
    assert [names[row] for row in there] == [name.replace("worker:0/", "worker:2/") for name in names]
