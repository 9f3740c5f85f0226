"""Background traffic: what it carries, whom it delays, and that it hides no deadlock."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simulator
from simulator.errors import ClusterError, DeadlockError
from simulator.training.disturbances.background import background
from simulator.training.disturbances.disturbance import read_disturbance
from simulator.training.disturbances.disturbed import disturb
from simulator.training.train import train
from simulator.training.training import Training
from tests.execution.cases import apart
from tests.training.workloads import chain, pushing, updating


def run(*said: str, steps: int = 20, shared: bool = False) -> Training:
    """One worker: 400 ns at w:1, a hop of 104 ns over a link of 1 GB/s, 100 ns at w:0."""
    on = apart(3, shared=shared)
    one, priced = chain(on, "worker:0", [(1, 400), (0, 100)], task=1)
    disturbances = [read_disturbance(text) for text in said]
    return train([one], on, [priced], regime=None, steps=steps, disturbances=disturbances)


def test_traffic_that_meets_nobody_carries_what_was_asked_for_and_delays_nobody() -> None:
    quiet, busy = run(), run("link:w:1->w:2=traffic:500 MB/s,bytes=1000")
    assert busy.update_ns.tolist() == quiet.update_ns.tolist()
    link = busy.links.index("w:1/CPU:0>w:2/CPU:0")
    # A message of 1000 bytes each 2000 ns, 1100 ns on the wire.
    messages = (busy.step_client == 1).sum()
    assert messages == (busy.end_ns - 1100) // 2000 + 1
    assert busy.usage.link_bytes[link] == 1000 * messages
    assert busy.step_start_ns[busy.step_client == 1].tolist() == [2000 * k for k in range(messages)]
    assert busy.clients == ("worker:0", "traffic 0, w:1 to w:2")
    assert busy.is_worker.tolist() == [True, False]


@settings(max_examples=15)
@given(st.integers(1, 3000), st.integers(1, 2000))
def test_traffic_on_the_same_link_delays_and_updates_stay_the_workers(nbytes: int, rate: int) -> None:
    quiet, busy = run(shared=True), run(f"link:w:0->w:2=traffic:{rate} MB/s,bytes={nbytes}", shared=True)
    assert len(busy.update_ns) == len(quiet.update_ns) == 20
    assert set(busy.update_client.tolist()) == {0}
    assert busy.end_ns >= quiet.end_ns
    assert busy.usage.link_bytes[0] <= quiet.usage.link_bytes[0] + rate * busy.end_ns // 1000 + 2 * nbytes


def test_a_full_link_carries_less_than_was_asked_for() -> None:
    busy = run("link:w:0->w:2=traffic:10 GB/s,bytes=1000", shared=True)
    assert busy.usage.link_busy_ns[0] > 0.9 * busy.end_ns
    # Worker and traffic take turns: a step waits for the message before its own hop.
    assert busy.end_ns == pytest.approx(20 * (400 + 104 + 100) + 20 * 1100, rel=0.6)


def test_less_than_was_asked_for_on_a_free_link_is_said() -> None:
    """A message of 1000 bytes is 1100 ns under way: with one at a time there are 909 MB/s at most."""
    busy = run("link:w:1->w:2=traffic:2 GB/s,bytes=1000")
    (note,) = busy.notes
    assert note.startswith("traffic 0, w:1 to w:2: one message after the other, each 1.1 us under way, is no more than")
    begins = busy.step_start_ns[busy.step_client == 1]
    assert (begins[1:] - begins[:-1] == 1100).all()
    assert run("link:w:1->w:2=traffic:500 MB/s,bytes=1000").notes == ()


def test_a_target_without_a_receiving_processor_is_refused() -> None:
    on = simulator.load_cluster("ps=1,worker=1x1gpu")
    one = read_disturbance("link:ps:0->worker:0/GPU:0=traffic:1 GB/s")
    with pytest.raises(ClusterError, match="Traffic to worker:0/GPU:0 is not modelled; let it go to worker:0/CPU:0"):
        background(disturb([one], on))


@settings(max_examples=15)
@given(st.lists(st.sampled_from(["w:1->w:0", "w:0->w:1", "w:2->w:1"]), max_size=3), st.integers(1, 3000))
def test_traffic_hides_no_deadlock(links: list[str], nbytes: int) -> None:
    """The chief waits for three gradients, the only worker for a token that it would get afterwards."""
    on = apart(3)
    workload = [pushing(on, "worker:0", [(1, 400)], task=1), updating(on, aggregate=3, handed=3)]
    disturbances = [read_disturbance(f"link:{link}=traffic:1 GB/s,bytes={nbytes}") for link in links]
    clients, costs = [one for one, _ in workload], [priced for _, priced in workload]
    with pytest.raises(DeadlockError, match=r"After 0 of 3 updates nothing can happen any more: .*worker:0 waits for"):
        train(clients, on, costs, regime=None, steps=3, disturbances=disturbances)
