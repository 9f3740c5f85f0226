"""The ends of links, against the sets of all devices at them."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster, Link
from simulator.cluster.description import load_cluster
from simulator.training.answers.reliefs import ends_of_links


@given(st.sampled_from(["ps=2,worker=3x2gpu", "a=2,b=1x2gpu", "4gpu"]), st.randoms(use_true_random=False))
def test_the_only_device_and_the_only_task_are_those_of_all_routes(text: str, random: Random) -> None:
    """Over random routes, and those of real clusters; a link may be on none."""
    real = load_cluster(text)
    links = tuple(Link(f"link{row}", 0, 1) for row in range(random.randint(1, 9)))
    rows = range(len(links))
    drawn = Cluster(
        real.devices,
        links,
        tuple(
            tuple(
                None if random.random() < 0.7 else tuple(random.sample(rows, random.randint(0, min(3, len(links)))))
                for _ in real.devices
            )
            for _ in real.devices
        ),
    )
    for cluster in (real, drawn):
        _check(cluster)


def _check(cluster: Cluster) -> None:
    count, ends = len(cluster.links), ends_of_links(cluster)
    pairs = [
        (source, target, link)
        for source, row in enumerate(cluster.routes)
        for target, route in enumerate(row)
        for link in route or ()
        if source != target
    ]
    task_of = cluster.task_of
    within = {link for source, target, link in pairs if task_of[source] == task_of[target]}
    assert ends.between.tolist() == [link not in within for link in range(count)]
    for found, side in ((ends.senders, 0), (ends.getters, 1)):
        devices = [{pair[side] for pair in pairs if pair[2] == link} for link in range(count)]
        tasks = [{task_of[device] for device in those} for those in devices]
        assert [found.device(link) for link in range(count)] == [min(d) if len(d) == 1 else None for d in devices]
        assert [found.task(link) for link in range(count)] == [min(t) if len(t) == 1 else None for t in tasks]
        for task in range(len(cluster.tasks)):
            assert found.of_task(task) == [link for link in range(count) if tasks[link] == {task}]
