"""What a protocol adds to the wires, and that no impossible figure gets into a cluster."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.cluster import MAX_RATE, Cluster, Link, with_protocol
from simulator.cluster.contention import CONTENTIONS
from simulator.cluster.copies import LOOK_NS, dispatch_ns, staging_ps_per_byte
from simulator.cluster.description import load_cluster
from simulator.cluster.master import connected
from simulator.cluster.protocols import (
    GRPC,
    IN_PROCESS,
    MAX_LATENCY_NS,
    MAX_PS_PER_BYTE,
    NCCL,
    PLAIN,
    RDMA,
    Protocol,
    find_protocol,
    protocol_note,
)
from simulator.cluster.toml_file import read_toml
from simulator.errors import ClusterError
from simulator.units import parse_picos, show_nanos

GUIDE = (Path(__file__).parents[2] / "docs" / "clusters.md").read_text(encoding="utf-8")
PROTOCOLS = (PLAIN, GRPC, RDMA, NCCL)
Routes: TypeAlias = Sequence[Sequence[tuple[int, ...] | None]]
TWO = load_cluster("worker=2x1gpu")  # worker:0/CPU:0, worker:0/GPU:0, worker:1/CPU:0, worker:1/GPU:0


@given(st.integers(0, 2**50), st.integers(0, MAX_LATENCY_NS), st.integers(0, MAX_PS_PER_BYTE))
def test_work_is_counted_per_message_and_per_byte_and_rounded_up(nbytes: int, fixed: int, per_byte: int) -> None:
    sends = Protocol("p", send_ns=fixed, send_ps_per_byte=per_byte)
    receives = Protocol("p", receive_ns=fixed, receive_ps_per_byte=per_byte)
    exact = fixed + ceil(Fraction(nbytes * per_byte, 1000))
    assert sends.pack_ns(nbytes) == receives.unpack_ns(nbytes) == exact
    assert sends.unpack_ns(nbytes) == receives.pack_ns(nbytes) == 0


def test_tasks_talk_by_grpc_and_a_process_to_itself() -> None:
    assert TWO.between_tasks == GRPC
    assert [[TWO.protocol(s, t).name for t in range(4)] for s in range(2)] == [
        ["in-process", "in-process", "grpc", "grpc"],
        ["in-process", "in-process", "grpc", "grpc"],
    ]
    assert (TWO.pack_ns(0, 1, 10**9), TWO.unpack_ns(0, 1, 10**9)) == (0, 0)
    assert TWO.pack_ns(1, 0, 10**9) == dispatch_ns(TWO.devices[1].chip)
    assert (TWO.pack_ns(0, 2, 10**9), TWO.unpack_ns(0, 2, 10**9)) == (31_255_000, 50_005_000), "one of 8 threads"


@pytest.mark.parametrize("text", ["ps=1,worker=1", "ps-10gbe", "ps-25gbe", "ps-100gbe"])
def test_a_small_message_takes_the_hop_that_was_measured(text: str) -> None:
    cluster = load_cluster(text)
    there = next(row for row, task in enumerate(cluster.task_of) if task)
    ends = cluster.pack_ns(0, there, 4) + cluster.unpack_ns(0, there, 4)
    assert 105_000 <= ends + cluster.transfer_ns(0, there, 4) <= 130_000


def test_over_the_loopback_a_byte_takes_what_was_measured_in_all(tmp_path: Path) -> None:
    """With a core to spare both ends work at once; on one core each, one after the other."""
    nbytes, many = 10**9, load_cluster({"worker": ["a:1", "a:2"]})
    one = replace(many, devices=tuple(replace(device, cores=1) for device in many.devices))
    for cluster, least, most in ((many, 2.2, 3.6), (one, 0.9, 1.9)):
        whole = cluster.pack_ns(0, 1, nbytes) + cluster.transfer_ns(0, 1, nbytes) + cluster.unpack_ns(0, 1, nbytes)
        assert least <= nbytes / whole <= most  # GB/s


def test_another_protocol_changes_the_hop_and_not_the_wires() -> None:
    direct = with_protocol(TWO, "rdma")
    assert (direct.links, direct.routes) == (TWO.links, TWO.routes)
    assert direct.transfer_ns(0, 2, 0) == 4_000
    assert with_protocol(TWO, "nccl").transfer_ns(1, 3, 0) == 22_400 + dispatch_ns(TWO.devices[1].chip) + LOOK_NS
    assert with_protocol(TWO, "plain").transfer_ns(0, 2, 0) == 2_000
    assert with_protocol(direct, "grpc").notes == TWO.notes
    assert [note for note in direct.notes if "tasks talk by" in note] == [protocol_note(RDMA)]


@pytest.mark.parametrize(
    ("protocol", "ends", "copies"),
    [
        ("grpc", (1, 3), 2), ("grpc", (1, 2), 1), ("grpc", (0, 3), 1), ("grpc", (0, 2), 0),
        ("rdma", (1, 3), 1), ("rdma", (0, 3), 1), ("nccl", (1, 3), 1), ("plain", (1, 2), 1), ("plain", (0, 2), 0),
    ],
)  # fmt: skip
def test_a_message_has_a_copy_for_each_gpu_through_hosts_else_one(
    protocol: str, ends: tuple[int, int], copies: int
) -> None:
    on = with_protocol(TWO, protocol)
    ideal = replace(on, devices=tuple(replace(device, chip=None) for device in on.devices))
    copy_ns = dispatch_ns(on.devices[1].chip) + LOOK_NS
    assert on.transfer_ns(*ends, 4) - ideal.transfer_ns(*ends, 4) == copies * copy_ns + (
        protocol == "grpc" and copies > 0
    )
    assert on.pack_ns(*ends, 4) == ideal.pack_ns(*ends, 4)


@pytest.mark.parametrize("network", [3.125e9, 12.5e9, 100e9, None])
@pytest.mark.parametrize(
    ("protocol", "ends", "copies"),
    [("grpc", (1, 3), 2), ("grpc", (0, 3), 1), ("grpc", (1, 2), 1), ("grpc", (0, 2), 0), ("rdma", (1, 3), 0)],
)
def test_a_message_through_hosts_is_copied_whole_before_it_leaves_and_after_it_came(
    protocol: str, ends: tuple[int, int], copies: int, network: float | None
) -> None:
    """PCIe, wires and PCIe come one after the other, whichever is the slowest; None: the tasks share a host."""
    on, nbytes = with_protocol(TWO, protocol), 10**8
    nics = [row for row, link in enumerate(on.links) if "nic" in link.name]
    if network is None:
        routes = [[way and tuple(link for link in way if link not in nics) for way in row] for row in on.routes]
        on = replace(on, routes=tuple(map(tuple, routes)))
    else:
        rated = [replace(link, bytes_per_s=int(network)) if row in nics else link for row, link in enumerate(on.links)]
        on = replace(on, links=tuple(rated))
    if on.routes[ends[0]][ends[1]] == ():
        return  # two processors of a host hand it over
    stretches = ends[0] % 2 + ends[1] % 2
    wires = [nbytes / 25e9] * stretches + ([] if network is None else [nbytes / network])
    one_after_the_other = sum(wires) if copies else max(wires)
    alone = on.transfer_ns(*ends, nbytes) + on.pack_ns(*ends, nbytes) + on.unpack_ns(*ends, nbytes)
    empty = on.transfer_ns(*ends, 0) + on.pack_ns(*ends, 0) + on.unpack_ns(*ends, 0)
    work = 0.4e-9 * nbytes if protocol == "grpc" else 0  # of a core at the receiver, while bytes are on the wires
    # what lanes do of the work per message is within the bytes' time, hence the tolerance
    longest = max(one_after_the_other, one_after_the_other - max(wires) + work)
    assert (alone - empty) / 1e9 == pytest.approx(longest, rel=0.01)


def test_within_a_task_the_protocol_between_tasks_counts_for_nothing() -> None:
    plain, slow = (
        replace(TWO, between_tasks=how) for how in (PLAIN, Protocol("slow", latency_ns=10**9, send_ns=10**9))
    )
    assert slow.transfer_ns(0, 1, 1000) == plain.transfer_ns(0, 1, 1000)
    assert slow.transfer_ns(0, 2, 1000) == plain.transfer_ns(0, 2, 1000) + 10**9 + 10**9 * 19 // 20


def test_what_goes_to_a_client_that_was_added_takes_no_time() -> None:
    cluster = connected(load_cluster("ps=1,worker=1"), "standin_client:0")
    assert cluster.protocol(0, 2) is IN_PROCESS
    assert cluster.pack_ns(0, 2, 10**9) == 0
    assert cluster.transfer_ns(0, 2, 10**9) == cluster.handover_ns


def test_an_unknown_protocol_is_named_with_the_known_ones() -> None:
    with pytest.raises(ClusterError, match="no protocol 'grcp'; known are plain, grpc, rdma, nccl"):
        with_protocol(TWO, "grcp")
    own = replace(TWO, between_tasks=Protocol("mine", latency_ns=7))
    assert with_protocol(own, "mine").between_tasks == own.between_tasks


def test_one_task_alone_talks_to_nobody() -> None:
    alone = load_cluster("4gpu")
    assert with_protocol(alone, "rdma").notes == alone.notes
    assert not any("tasks talk" in note for note in alone.notes)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_every_protocol_is_found_by_its_name_and_says_who_says_so(protocol: Protocol) -> None:
    assert find_protocol(protocol.name) is protocol
    assert protocol.source


def test_the_guide_gives_the_figures_of_the_code() -> None:
    rows = [
        line.split("|")[1:8] for line in GUIDE.splitlines() if line.startswith(("| `grpc`", "| `rdma`", "| `nccl`"))
    ]
    for name, request, latency, *work, threads in rows:
        protocol = find_protocol(name.strip(" `"))
        assert (request.strip() or "0 ns") == show_nanos(protocol.request_ns)
        assert (latency.strip() or "0 ns") == show_nanos(protocol.latency_ns)
        each, sent, received = (parse_picos(one.strip() or "0 ns") for one in work)
        assert (protocol.send_ns, protocol.receive_ns) == (each // 1000, each // 1000)
        assert (protocol.send_ps_per_byte, protocol.receive_ps_per_byte) == (sent, received)
        assert protocol.threads == int(threads.strip() or 0)
    assert len(rows) == len(PROTOCOLS) - 1


def test_the_guide_s_examples_are_read() -> None:
    blocks = re.findall(r"\n\n((?:(?:    .*)?\n)+)", GUIDE)
    host, protocol = [block for block in blocks if "[[host]]" in block or "[protocol]" in block]
    cluster = read_toml(dedent(host), "clusters.md")
    assert [device.short for device in cluster.devices if device.type == "CPU"] == [
        "worker:0/CPU:0", "worker:1/CPU:0", "ps:0/CPU:0",
    ]  # fmt: skip
    own = read_toml(dedent(protocol) + "[[host]]\n", "clusters.md").between_tasks
    assert own == replace(GRPC, name="pinned", source="", latency_ns=8_000, send_ns=50_000, receive_ns=50_000), (
        "a hop as long as gRPC's"
    )
    assert own.pack_ns(0) + own.latency_ns + own.unpack_ns(0) == GRPC.pack_ns(0) + GRPC.latency_ns + GRPC.unpack_ns(0)


@pytest.mark.parametrize(
    "figures",
    [
        {"send_ns": -1},
        {"latency_ns": MAX_LATENCY_NS + 1},
        {"request_ns": 2**63},
        {"send_ps_per_byte": 10**7},
        {"send_ns": 0.5},
        {"threads": -1},
        {"threads": 2.5},
        {"threads": 10**9},
    ],
)
def test_an_impossible_protocol_is_refused(figures: Mapping[str, Any]) -> None:
    with pytest.raises(ClusterError, match=f"Protocol 'bad' has (.* )?{next(iter(figures))}"):
        Protocol("bad", **figures)


@pytest.mark.parametrize(
    ("latency", "rate", "contention"),
    [
        (-1, 1, None),
        (2**63, 1, None),
        (0, 0, None),
        (0, -5, None),
        (0, MAX_RATE + 1, None),
        (0, 1, "unfair"),
        (0, 1.5, None),
        (0.5, 1, None),
    ],
)
def test_an_impossible_link_is_refused(latency: Any, rate: Any, contention: Any) -> None:
    with pytest.raises(ClusterError, match="Link 'bad' has"):
        Link("bad", latency, rate, contention)


def test_a_route_that_no_table_of_links_has_is_refused() -> None:
    links = tuple(Link(name, 1, 1, contention) for name, contention in zip("abc", CONTENTIONS, strict=True))
    routes: Routes = [[(), (0, 1)], [None, ()]]
    devices = (TWO.devices[0], TWO.devices[2])

    def made(routes: Routes, **rest: Any) -> Cluster:
        return Cluster(devices, links, tuple(map(tuple, routes)), **rest)

    cluster = made(routes)
    assert cluster.transfer_ns(0, 1, 1) == 2 + 10**9
    with pytest.raises(LookupError, match="no route from /job:worker/replica:0/task:1"):
        cluster.transfer_ns(1, 0, 1)
    for wrong in (3, -1):
        with pytest.raises(ClusterError, match=f"crosses link {wrong}; it has 3 links"):
            made([[(), (0, wrong)], [None, ()]])
    with pytest.raises(ClusterError, match="2 by 2"):
        made(routes[:1])
    with pytest.raises(ClusterError, match="hands over in -1 ns"):
        made(routes, handover_ns=-1)


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=2), st.integers(0, 10**12), st.integers(1, 10**12))
def test_whole_copies_never_make_a_message_quicker(copies: list[int], network: int, slowest: int) -> None:
    """Also where a file's route between tasks has a slower link than the copies take."""
    found = staging_ps_per_byte(copies, network, slowest)
    assert found >= 0
    assert found == 0 or any(copies)
