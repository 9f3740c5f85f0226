"""The ends of links, against the sets of all devices at them."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement import clients
from simulator import distributed, estimate_each, load, read_regime
from simulator.cluster.cluster import Cluster, Link
from simulator.cluster.description import load_cluster
from simulator.cluster.hierarchy import Hierarchy, telling_pairs
from simulator.training.answers.reliefs import ends_of_links
from simulator.training.clients import combine_tables
from tests.cluster.test_hierarchy import clusters


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


@given(clusters())
def test_a_hierarchy_needs_few_routes_for_that(cluster: Cluster) -> None:
    assert isinstance(cluster.routes, Hierarchy)
    _check(cluster)


@pytest.mark.parametrize("text", ["ps=2,worker=9x2gpu", "worker=40", "a=3x1gpu,b=4x2gpu"])
def test_their_number_grows_with_the_devices(text: str) -> None:
    cluster = load_cluster(text)
    _check(cluster)
    assert len(telling_pairs(cluster.routes)) <= 16 * len(cluster)


def test_the_routes_of_a_training_are_those_that_its_clients_take() -> None:
    """Not of all pairs, whose number grows with the square of the workers."""
    cluster = load_cluster("ps=2,worker=40")
    graph = load("examples/ps_training.pbtxt")
    programs = distributed(graph, cluster, regime=read_regime("async"))
    prices = estimate_each(programs, cluster)
    routes = combine_tables(clients(programs, cluster, prices), cluster, prices).tables.routes
    assert routes.pairs is not None
    assert len(routes.pairs) == 2 * 2 * 40  # to and from each of two parameter servers


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
    for found, side in ((ends.senders, 0), (ends.receivers, 1)):
        devices = [{pair[side] for pair in pairs if pair[2] == link} for link in range(count)]
        tasks = [{task_of[device] for device in those} for those in devices]
        assert [found.device(link) for link in range(count)] == [min(d) if len(d) == 1 else None for d in devices]
        assert [found.task(link) for link in range(count)] == [min(t) if len(t) == 1 else None for t in tasks]
        for task in range(len(cluster.tasks)):
            assert found.of_task(task) == [link for link in range(count) if tasks[link] == {task}]
