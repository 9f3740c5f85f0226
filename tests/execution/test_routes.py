"""The routes between devices say what the cluster says of each pair."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster, Link
from simulator.cluster.contention import CONTENTIONS, Contention
from simulator.cluster.description import load_cluster
from simulator.cluster.protocols import Protocol
from simulator.columns import ints
from simulator.errors import ClusterError
from simulator.execution.discipline import discipline
from simulator.execution.routes import SAME_DEVICE, alone_ns, routes_of
from tests.execution.cases import apart, cluster, with_cores

OWN = Protocol("own", 5, 30, 40, 500, 1250, latency_ns=7)
CLUSTERS = {
    "one device": cluster(["w:0/CPU:0"]),
    "hand-overs": replace(cluster(["w:0/CPU:0", "w:0/CPU:1", "w:1/CPU:0"]), handover_ns=9, between_tasks=OWN),
    "some ways": cluster(
        ["a:0/CPU:0", "b:0/CPU:0", "c:0/CPU:0"],
        [Link("a", 3, 10**9), Link("switch", 4, 10**8), Link("c", 5, 10**10)],
        {(0, 1): (0, 1), (1, 0): (), (0, 2): (0, 1, 2), (2, 1): ()},
    ),
    "some cores": replace(with_cores(cluster(["w:0/CPU:0", "w:0/GPU:0", "w:1/CPU:0"]), [3, 5, 7]), between_tasks=OWN),
    "cores differ on one link": replace(with_cores(apart(3, shared=True), [1, 4, 4, 8]), between_tasks=OWN),
    "one link": replace(apart(3, shared=True), between_tasks=OWN),
    "presets": load_cluster("ps=2,worker=2x2gpu"),
    "a machine": load_cluster("dgx-a100"),
}


@pytest.mark.parametrize("on", CLUSTERS.values(), ids=CLUSTERS)
def test_the_columns_of_a_route_are_those_of_its_pair(on: Cluster) -> None:
    routes = routes_of(on)
    kind, paces = routes.paces
    seen = []
    for source, row in enumerate(on.routes):
        for target, taken in enumerate(row):
            route, pace = int(routes.of[source, target]), paces[kind[source, target]]
            if taken is None or source == target:
                assert route == -1
                assert pace == (None if taken is None else SAME_DEVICE)
                continue
            seen.append(route)
            protocol = on.protocol(source, target)
            assert routes.links[route] == taken
            assert routes.latency_ns[routes.pace[route]] == with_cores(on, [1]).latency_ns(source, target)
            cores = (routes.send_cores[routes.pace[route]], routes.receive_cores[routes.pace[route]])
            assert cores == (on.cores(source, target) if protocol.pack_ns(1) else (1, 1))
            assert routes.request_ns[routes.pace[route]] == protocol.request_ns
            assert pace is not None
            for nbytes in (0, 1, 12_345):
                ends = on.pack_ns(source, target, nbytes) + on.unpack_ns(source, target, nbytes)
                assert alone_ns(pace, nbytes) == on.transfer_ns(source, target, nbytes) + ends
    assert list(dict.fromkeys(seen)) == list(range(len(routes.links) - (routes.at_hand >= 0)))  # numbered in order


@given(data=st.data())
@pytest.mark.parametrize("on", CLUSTERS.values(), ids=CLUSTERS)
def test_the_routes_of_some_pairs_are_those_of_all(on: Cluster, data: st.DataObject) -> None:
    count = len(on)
    pairs = ints(sorted(data.draw(st.sets(st.integers(0, count * count - 1)))))
    every, some = routes_of(on), routes_of(on, pairs)
    source, target = pairs // count, pairs % count
    mine, whole = some.between(source, target), every.between(source, target)
    for route, same in zip(mine.tolist(), whole.tolist(), strict=True):
        assert (route < 0) == (same < 0)
        if route >= 0:
            assert some.links[route] == every.links[same]
            for name in (
                "latency_ns",
                "bytes_per_s",
                "request_ns",
                "send_ns",
                "receive_ns",
                "staging_ps_per_byte",
                "send_cores",
                "receive_cores",
            ):
                assert getattr(some, name)[some.pace[route]] == getattr(every, name)[every.pace[same]]
    assert len(some.links) == len({*mine.tolist(), some.at_hand} - {-1})
    assert len({*mine.tolist(), some.at_hand}) == len({*whole.tolist(), every.at_hand})
    rest = ints(sorted({*range(count * count)} - {*pairs.tolist()}))
    assert (some.between(rest // count, rest % count) == -1).all()


@given(contention=st.sampled_from(CONTENTIONS), own=st.lists(st.sampled_from((None, *CONTENTIONS)), min_size=1))
@pytest.mark.parametrize("on", [CLUSTERS["some ways"], CLUSTERS["presets"]], ids=["some ways", "presets"])
def test_a_link_is_held_or_shared_as_it_says_itself_or_else_as_the_simulation(
    on: Cluster, contention: Contention, own: list[Contention | None]
) -> None:
    links = tuple(replace(link, contention=said) for link, said in zip(on.links, cycle(own), strict=False))
    routes = routes_of(replace(on, links=links))
    of = [link.contention or contention for link in links]
    held, shared = ([tuple(k for k in route if of[k] == one) for route in routes.links] for one in ("serial", "fair"))
    if any(waits and flows for waits, flows in zip(held, shared, strict=True)):
        with pytest.raises(ClusterError, match="is serial and"):
            discipline(routes, contention)
        return
    found = discipline(routes, contention)
    assert (list(found.held), list(found.shared)) == (held, shared)
    assert found.flows.tolist() == [bool(flows) for flows in shared]
    others = [[links[k].bytes_per_s for k in route if of[k] != "fair"] for route in routes.links]
    assert list(found.cap) == [
        min(rates, default=0) if flows else 0 for rates, flows in zip(others, shared, strict=True)
    ]
    assert [found.held.item[a:b].tolist() for a, b in pairwise(found.held.ptr.tolist())] == [*map(list, held)]
    assert discipline(routes, contention) is found
