"""A real cluster of local processes: what its clients do, what is said of failures, and that nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from statistics import mean

import numpy as np
import pytest

from simulator.errors import OracleError
from simulator.graph.messages import GraphDef, NodeDef
from tests.oracle.processes import descendants, devices_listened_to, gone, traces
from tests.oracle.real_cluster import RealClient, RealStep, longest, measure, running
from tests.oracle.simulating import Machine, simulate
from tests.oracle.training_graphs import Training, clients, shares, task
from tests.strategies import FLOAT, types_attr

pytestmark = pytest.mark.tensorflow

HERE = Machine(hop_ns=400_000)  # more or less
_STEPS_FOR_EVER = """
from tests.oracle.test_real_cluster import idle
from tests.oracle.real_cluster import measure
measure([idle()], 10**9, tasks=["/job:ps/replica:0/task:0"], timeout_s=100)
"""


def idle() -> RealClient:
    """A client that does nothing, a hundred times a second."""
    node = NodeDef(name="nothing", op="NoOp", device=f"{task('worker', 0)}/device:CPU:0")
    graph = GraphDef(node=[node]).SerializeToString()
    return RealClient("worker:0", task("worker", 0), graph, ("nothing",), gap_s=0.01)


def test_asynchronous_workers_update_as_they_come_and_as_we_say() -> None:
    training = Training("async", sleeps_s=(0.1, 0.3), variables=2)  # long beside what a busy machine adds
    asked = clients(training)
    steps = measure(asked, 30, tasks=training.tasks, timeout_s=60)
    after = [step.notes["after"] for step in steps]
    assert len(set(after)) == 30  # each update counted once
    assert set(after) <= set(range(1, 32))  # the other worker may have made one that it has not told of at the end
    slow = [step for step in steps if step.client == "worker:1"]
    assert min(step.end_ns - step.start_ns for step in slow) >= 300e6
    late = [step.notes["after"] - step.notes["read"] - 1 for step in slow]
    ours = simulate(training, asked, 30, HERE)
    ours_late = ours.update_staleness[ours.update_client == 1].tolist()
    assert mean(late) == pytest.approx(mean(ours_late), rel=0.25)
    assert len(slow) == pytest.approx(len(ours_late), abs=2)


def test_a_backup_worker_drops_the_slowest_gradients_and_as_many_as_we_say() -> None:
    training = Training("sync", sleeps_s=(0.05, 0.05, 0.2), aggregate=2)
    asked = clients(training)
    steps = measure(asked, 20, tasks=training.tasks, timeout_s=60)
    updates = [step for step in steps if step.client == "worker:0 updates"]
    assert len(updates) == 20
    used = [sum(column) for column in zip(*(_of_three(step.notes["mean"]) for step in updates), strict=True)]
    assert sum(used) >= 2 * len(updates)
    pushed = [step for step in steps if step not in updates]
    for step in pushed:
        assert step.notes["local_step"] <= step.notes["read"]
        assert step.start_ns < step.notes["pushed"] < step.end_ns
    ours = simulate(training, asked, 20, HERE)
    share = ours.dropped / (ours.dropped + int(ours.update_gradients.sum()))
    assert 1 - sum(used) / len(pushed) == pytest.approx(share, abs=0.15)
    ours_ns = (ours.update_ns[-1] - ours.update_ns[3]) / 16
    assert (updates[-1].end_ns - updates[3].end_ns) / 16 == pytest.approx(ours_ns, rel=0.3)


def test_a_tower_beside_its_variables_runs_before_another_is_sent_them_as_we_say() -> None:
    training = Training("in", sleeps_s=(0.1, 0.1), ps=0)
    asked = clients(training)
    steps = measure(asked, 12, tasks=training.tasks, timeout_s=60)
    took = sorted(step.end_ns - step.start_ns for step in steps)
    # In the first, requests come before values. Once, beside other work, the median was 153 ms; why is not known.
    assert took[-4] >= 200e6
    ours = simulate(training, asked, 12, HERE)
    assert np.diff(ours.update_ns).min() >= 200e6
    apart = replace(training, ps=1)
    assert (
        np.diff(simulate(apart, clients(apart), 12, HERE).update_ns).max() <= 120e6
    )  # as real ones: benchmarks/RESULTS.md


def _of_three(mean: float) -> list[int]:
    return [*shares(mean, 2), 0, 0][:3]


def test_a_step_that_tensorflow_refuses_is_told_in_its_words() -> None:
    with pytest.raises(OracleError, match=r"worker/replica:0/task:0 of the real cluster failed: .*no_such_node"):
        measure([replace(idle(), targets=("no_such_node",))], 1, timeout_s=60)


def test_a_task_that_dies_is_named_and_nothing_is_left() -> None:
    before = set(descendants(os.getpid()))
    found: list[tuple[list[int], dict[str, str]]] = []

    def kill() -> None:
        deadline = time.monotonic() + 60
        while len(traces(os.getpid())[1]) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(2)  # it steps
        pids, sockets = traces(os.getpid())
        found.append(([pid for pid in pids if pid not in before], sockets))
        os.kill(found[0][0][0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(OracleError, match=r"process of /job:ps/replica:0/task:0 ended too early \(killed by signal 9"):
        measure([idle()], 10**9, tasks=[task("ps", 0)], timeout_s=60)
    killer.join()
    assert len(found[0][0]) == 2
    assert gone(found[0])


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_no_task_outlives_the_caller(blow: signal.Signals) -> None:
    caller = subprocess.Popen([sys.executable, "-c", _STEPS_FOR_EVER], stderr=subprocess.PIPE, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while len((left := traces(caller.pid))[1]) < 2:
            assert time.monotonic() < deadline, "no task serves"
            time.sleep(0.05)
        os.killpg(caller.pid, blow)
        caller.communicate(timeout=20)
        assert caller.returncode != 0
        assert gone(left)
    finally:
        caller.kill()


def test_tasks_listen_to_this_machine_alone() -> None:
    seen: list[set[str]] = []
    measured = threading.Event()

    def look() -> None:
        while {"lo"} not in seen and not measured.is_set():
            time.sleep(0.05)
            if traces(os.getpid())[1]:
                seen[:] = [devices_listened_to(pid) for pid in descendants(os.getpid())]

    looking = threading.Thread(target=look)
    looking.start()
    measure([idle()], 200, timeout_s=60)
    measured.set()
    looking.join()
    assert {"lo"} in seen
    assert not set().union(*seen) - {"lo"}


def test_a_run_that_takes_too_long_is_given_up() -> None:
    types = {"component_types": types_attr(FLOAT)}
    queue = NodeDef(name="queue", op="FIFOQueueV2", attr=types)
    waits = NodeDef(name="waits", op="QueueDequeueV2", input=["queue"], attr=types)  # nobody fills the queue
    graph = GraphDef(node=[queue, waits]).SerializeToString()
    client = RealClient("worker:0", task("worker", 0), graph, ("waits",))
    with pytest.raises(OracleError, match="not done in time; allow it more time or ask for fewer steps"):
        measure([client], 1, timeout_s=3)


def test_steps_that_come_for_ever_are_given_up_in_time() -> None:
    with pytest.raises(OracleError, match="not done in time"):
        measure([idle()], 10**9, timeout_s=8)


def test_who_waited_at_rest_is_not_waited_for_as_long_again() -> None:
    steps = [RealStep("at rest before", 0, 50 * 10**9, {}), RealStep("short", 49 * 10**9, 51 * 10**9, {})]
    assert longest(steps, begun=49 * 10**9) == 2.0


def test_there_is_a_bound_on_tasks_and_an_end_to_the_run() -> None:
    client = RealClient("worker:0", task("worker", 0), b"", ("nothing",))
    with pytest.raises(OracleError, match="17 tasks would need a process each, and 16 are the most"):
        measure([client], 1, tasks=[task("ps", number) for number in range(16)], timeout_s=1)
    with pytest.raises(ValueError, match="no end"):
        measure([replace(client, counted=False)], 1, timeout_s=1)


def test_clients_rest_until_they_are_asked_again_and_go_on_where_they_waited() -> None:
    asked = clients(Training("sync", sleeps_s=(0.02, 0.02)))
    workers, alone = [client.name for client in asked], replace(idle(), name="alone")
    tasks = [task("ps", 0)]
    with running([*asked, alone], tasks=tasks, timeout_s=60) as step:
        assert {one.client for one in step([alone.name], 20)} == {alone.name}
        first = step(workers, 5)
        between = step([alone.name], 20)
        again = step(workers, 5)
    assert {one.client for one in first} == {one.client for one in again} == set(workers)
    assert {one.client for one in between} <= {alone.name, *workers}  # who waited for a token may have ended late
    assert between[-1].client == alone.name
    ended = first[-1].end_ns
    begun = max(one.start_ns for one in between)
    assert not [one for one in (*between, *again) if one.client != alone.name and ended + 1e8 < one.start_ns < begun]
    steps = [one.notes["read"] for one in (*first, *again) if one.client == "worker:1"]
    assert steps == sorted(steps)
    assert steps[-1] >= 8  # the global step went on
    with (
        pytest.raises(ValueError, match="no end"),
        running([replace(alone, counted=False)], timeout_s=1),
    ):
        pass
