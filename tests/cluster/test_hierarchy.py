"""Routes by hierarchy are those of a table of all pairs, whatever is made of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster
from simulator.cluster.description import load_cluster, presets
from simulator.cluster.hierarchy import Hierarchy
from simulator.cluster.master import with_client
from simulator.cluster.models import DEFAULT_CPU, find_model
from simulator.cluster.parts import part, without_others_links
from simulator.cluster.topology import PCIE4, UPLINK, Host, Rack, Task, Wire, connect
from simulator.errors import ClusterError
from simulator.execution.table_columns import cluster_columns
from simulator.limits import DEVICES
from tests.cluster.routes import names

NVLINK = Wire(2_000, 25_000_000_000)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Clusters with wires of every kind within hosts, tasks that share a host, and racks."""
    hosts: list[Host] = []
    tasks: list[Task] = []
    cpu = find_model(DEFAULT_CPU)
    for number in range(draw(st.integers(1, 4))):
        count = draw(st.integers(0, 3))
        pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
        made = Host(
            name=f"h{number}",
            cpu=cpu,
            gpus=(find_model("v100"),) * count,
            pcie=replace(PCIE4, half=draw(st.booleans())),
            switches=draw(st.sampled_from([(), ((0, 1),)])) if count > 1 else (),
            nvlinks={pair: NVLINK for pair in pairs if draw(st.booleans())},
            nvswitch=draw(st.sampled_from([None, NVLINK])),
            sockets=draw(st.sampled_from([(), ((0,), (1,))])) if count > 1 else (),
            between_sockets=draw(st.sampled_from([None, NVLINK])),
        )
        hosts.append(made)
        split = draw(st.integers(0, count))
        tasks.append(Task("w", len(tasks), made.name, draw(st.integers(1, 2)), tuple(range(split))))
        if split < count or draw(st.booleans()):
            tasks.append(Task("w", len(tasks), made.name, 1, tuple(range(split, count))))
    standing = draw(st.lists(st.sampled_from(["", "a", "b"]), min_size=len(hosts), max_size=len(hosts)))
    racks = [
        Rack(rack, members, UPLINK)
        for rack in ("a", "b")
        if (members := tuple(host.name for host, place in zip(hosts, standing, strict=True) if place == rack))
    ]
    order = draw(st.permutations(tasks))
    return connect(hosts, order, name="drawn", racks=racks)


def as_table(cluster: Cluster) -> Cluster:
    """The cluster with a table of all pairs in place of the rule."""
    return replace(cluster, routes=tuple(tuple(row) for row in cluster.routes))


def same(one: Cluster, other: Cluster) -> None:
    """Assert that both have the same devices, links and routes."""
    assert (one.devices, one.links, one.master) == (other.devices, other.links, other.master)
    assert [list(row) for row in one.routes] == [list(row) for row in other.routes]


def named(cluster: Cluster) -> list[list[list[str]]]:
    """The names of the links of each route."""
    return [[[cluster.links[link].name for link in route or ()] for route in row] for row in cluster.routes]


@given(clusters(), st.data())
def test_a_part_a_client_and_fewer_links_are_those_of_the_table(on: Cluster, data: st.DataObject) -> None:
    table = as_table(on)
    assert isinstance(on.routes, Hierarchy)
    same(with_client(on), with_client(table))
    rows = data.draw(st.lists(st.integers(0, len(on) - 1), min_size=1, unique=True))
    less, lesser = part(on, rows, "some"), part(table, rows, "some")
    same(less, lesser)
    for each in (less, lesser):
        few = without_others_links(each)
        assert set(few.links) <= set(each.links)
        assert named(few) == named(each)


@given(clusters())
def test_every_route_has_its_way_back_over_the_same_kinds_of_links(on: Cluster) -> None:
    for source, row in enumerate(on.routes):
        for target, route in enumerate(row):
            assert route is not None
            kinds = [on.links[link].kind for link in route]
            back = [on.links[link].kind for link in on.routes[target][source] or ()]
            assert sorted(kinds) == sorted(back)
            assert len(set(route)) == len(route)
            assert ("nic" in kinds) == (on.devices[source].host != on.devices[target].host)


@given(clusters())
def test_the_columns_of_a_step_are_those_of_the_table(on: Cluster) -> None:
    mine, table = cluster_columns(on), cluster_columns(as_table(on))
    assert list(mine.routes.links) == list(table.routes.links)
    assert mine.routes.paces[0].tolist() == table.routes.paces[0].tolist()
    assert mine.routes.paces[1] == table.routes.paces[1]
    assert mine.routes.of.tolist() == table.routes.of.tolist()


@pytest.mark.parametrize("name", presets())
def test_slices_and_ends_of_rows_are_those_of_a_sequence(name: str) -> None:
    routes = load_cluster(name).routes
    table = tuple(tuple(row) for row in routes)
    assert [list(row) for row in routes[1:]] == [list(row) for row in table[1:]]
    assert list(routes[-1][-2:]) == list(table[-1][-2:])
    with pytest.raises(IndexError):
        routes[len(table)]


def test_sixteen_thousand_devices_are_no_table() -> None:
    on = load_cluster("worker=2048x7gpu")
    assert len(on) == 16_384
    assert isinstance(on.routes, Hierarchy)
    assert len(on.routes.direct) == 0
    assert names(on, 1, 16_383) == [
        "worker0 gpu0 pcie out",
        "worker0 nic out",
        "worker2047 nic in",
        "worker2047 gpu6 pcie in",
    ]
    with pytest.raises(ClusterError, match="a simulation takes at most 2,560"):
        cluster_columns(on)


def test_more_devices_or_pairs_than_fit_are_refused() -> None:
    with pytest.raises(ClusterError, match=f"{DEVICES.default:,} devices.*--limit devices=N"):
        load_cluster("worker=2048x7gpu,ps=60000")
    cpu, gpu = find_model(DEFAULT_CPU), find_model("v100")
    host = Host("h", cpu, (gpu,) * 2049, nvswitch=NVLINK)
    with pytest.raises(ClusterError, match="pairs with NVLinks"):
        connect([host], [Task("w", 0, "h")], name="wires")
