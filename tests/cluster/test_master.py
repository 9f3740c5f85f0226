"""The device by which a session reaches its task."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster
from simulator.cluster.description import load_cluster
from simulator.cluster.master import session_devices


@given(
    st.sampled_from(["4gpu", "ps=2,worker=3x2gpu", "host=2,b=2x1gpu", "a=2x1gpu"]), st.randoms(use_true_random=False)
)
def test_the_device_of_a_session_at_each_task_is_that_of_a_cluster_connected_there(text: str, random: Random) -> None:
    """Whatever the order of the devices, and whether or not a task has a CPU, or one of number 0."""
    whole = load_cluster(text)
    rows = random.sample(range(len(whole)), max(1, len(whole) // 2))
    cluster = Cluster(tuple(whole.devices[row] for row in rows), (), ((None,) * len(rows),) * len(rows))
    assert session_devices(cluster) == {task: replace(cluster, master=task).client for task in cluster.tasks}
