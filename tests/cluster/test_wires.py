"""Wires that are shared: half duplex, contention of each, racks with an uplink, NVLink beside a PCIe switch."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster
from simulator.cluster.contention import CONTENTIONS
from simulator.cluster.models import find_model
from simulator.cluster.notation import read_notation
from simulator.cluster.protocols import GRPC, NCCL, RDMA, Protocol
from simulator.cluster.toml_file import read_toml
from simulator.cluster.topology import LOOPBACK, NIC_25GBE, PCIE4, Host, Rack, Task, Wire, connect
from simulator.errors import ClusterError
from tests.cluster.routes import names, route

HEAD = """\
name = "boxes"
protocol = "rdma"

[[host]]
name = "box"
count = 4
nic = { bandwidth = "10 Gbit/s", latency = "2 us", contention = "fair", duplex = "half" }

[[host]]
name = "big"
gpus = "4 v100"
switches = [[0, 1], [2, 3]]
pcie = { bandwidth = "15.75 GB/s", contention = "serial" }
loopback = { bandwidth = "5 GB/s", contention = "none" }

[[host.nvlink]]
between = [0, 1]
bandwidth = "50 GB/s"
latency = "2 us"
duplex = "half"

[[rack]]
name = "left"
hosts = ["box0", "box1"]
uplink = { bandwidth = "40 Gbit/s", latency = "1 us", contention = "fair" }

[[rack]]
name = "right"
hosts = ["box2", "box3"]
uplink = { bandwidth = "40 Gbit/s", duplex = "half" }

[[task]]
job = "worker"
host = "box"
count = 4

[[task]]
job = "big"
host = "big"
gpus = [0, 1, 2]

[[task]]
job = "big"
host = "big"
gpus = [3]
"""
WORKER = ["worker:0/CPU:0", "worker:1/CPU:0", "worker:2/CPU:0", "worker:3/CPU:0"]


def named(cluster: Cluster, source: str, target: str) -> list[str]:
    at = {device.short: row for row, device in enumerate(cluster.devices)}
    return names(cluster, at[source], at[target])


def test_routes_between_racks_cross_both_uplinks() -> None:
    cluster = read_toml(HEAD, "boxes.toml")
    assert named(cluster, WORKER[0], WORKER[1]) == ["box0 nic", "box1 nic"], "within a rack"
    assert named(cluster, WORKER[0], WORKER[2]) == ["box0 nic", "left uplink out", "right uplink", "box2 nic"]
    assert named(cluster, WORKER[3], WORKER[1]) == ["box3 nic", "right uplink", "left uplink in", "box1 nic"]
    assert named(cluster, WORKER[1], "big:0/CPU:0") == ["box1 nic", "left uplink out", "big nic in"], "in no rack"
    assert named(cluster, "big:0/CPU:0", WORKER[2]) == ["big nic out", "right uplink", "box2 nic"]
    assert cluster.transfer_ns(0, 2, 1_250_000_000) == 2_000 + 1_000 + 300 + 2_000 + RDMA.latency_ns + 10**9


def test_nvlink_joins_some_gpus_and_a_pcie_switch_the_others() -> None:
    cluster = read_toml(HEAD, "boxes.toml")
    gpu = [f"big:0/GPU:{number}" for number in range(3)]
    assert named(cluster, gpu[0], gpu[1]) == named(cluster, gpu[1], gpu[0]) == ["big nvlink 0-1"], "half duplex"
    assert named(cluster, gpu[0], gpu[2]) == [
        "big gpu0 pcie out",
        "big switch0 out",
        "big switch1 in",
        "big gpu2 pcie in",
    ]
    assert named(cluster, gpu[2], gpu[1]) == [
        "big gpu2 pcie out",
        "big switch1 out",
        "big switch0 in",
        "big gpu1 pcie in",
    ]
    assert named(cluster, gpu[0], "big:0/CPU:0") == ["big gpu0 pcie out", "big switch0 out"]
    assert named(cluster, gpu[2], "big:1/GPU:0") == [
        "big gpu2 pcie out", "big switch1 out", "big loopback", "big switch1 in", "big gpu3 pcie in",
    ]  # fmt: skip


def test_each_wire_says_how_it_is_shared() -> None:
    cluster = read_toml(HEAD, "boxes.toml")
    said = {link.name: link.contention for link in cluster.links}
    assert said["box0 nic"] == said["left uplink out"] == said["left uplink in"] == "fair"
    assert said["big gpu0 pcie out"] == said["big switch1 in"] == "serial", "a switch's uplink is as its PCIe"
    assert said["big loopback"] == "none"
    assert said["big nic out"] is said["right uplink"] is said["big nvlink 0-1"] is None


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('"rdma"', '"rdam"', 2, "Did you mean 'rdma'"),
        ('"10 Gbit/s"', '"0 Gbit/s"', 7, "bandwidth from 1 to"),
        ('"2 us", contention = "fair"', '"2 us", contention = "unfair"', 7, "serial, fair, none"),
        ('duplex = "half" }\n\n[[host]]', 'duplex = "semi" }\n\n[[host]]', 7, "one of full, half"),
        ('"15.75 GB/s"', '"15.75 EB/s"', 13, "unknown unit"),
        ('"15.75 GB/s"', '"15 PB/s"', 13, "bandwidth from 1 to 1,000,000,000,000,000"),
        ('GB/s"\nlatency = "2 us"', 'GB/s"\nlatency = "2e9 s"', 18, "latency from 0 to"),
        ('"box0", "box1"', '"box0", "bix1"', 24, "no host 'bix1'"),
        ('["box2", "box3"]', '["box2", "box0"]', 29, "'box0' is in rack 'left' already"),
        ('["box2", "box3"]', '["box2", "box2"]', 29, "'box2' is in rack 'right' already"),
        ('["box2", "box3"]', '["box"]', 29, "'box0' is in rack 'left' already"),
        ('["box2", "box3"]', "[]", 29, "must list names of hosts"),
        ('name = "right"', 'name = "left"', 28, "a rack 'left' already"),
        ('uplink = { bandwidth = "40 Gbit/s", duplex = "half" }', "", 27, "needs an uplink"),
        ('uplink = { bandwidth = "40 Gbit/s", duplex = "half" }', "uplink = 3", 30, "needs an uplink"),
        ('name = "right"', 'nome = "right"', 28, "unknown key 'nome'"),
        ('[[rack]]\nname = "right"', '[[wreck]]\nname = "right"', 27, "unknown key 'wreck'"),
    ],
)  # fmt: skip
def test_a_wrong_wire_or_rack_is_named_by_its_line(old: str, new: str, line: int, words: str) -> None:
    assert HEAD.count(old) == 1
    with pytest.raises(ClusterError, match=words) as caught:
        read_toml(HEAD.replace(old, new), "boxes.toml")
    assert caught.value.line == line


TWO = """\
[[host]]
name = "a"
gpus = "2 a100"
[[host.nvlink]]
between = [0, 1]

[[host]]
name = "b"
gpus = "2 a100"
nic = { bandwidth = "100 Gbit/s" }
[[host.nvlink]]
between = [0, 1]

[[task]]
job = "worker"
host = "a"

[[task]]
job = "worker"
host = "b"
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('[[host.nvlink]]\nbetween = [0, 1]\n\n[[host]]', "nvlink = 3\n\n[[host]]", 4, "two brackets"),
        ('[[host.nvlink]]\nbetween = [0, 1]\n\n[[host]]', "[host.nvlink]\n[[host]]", 4, "two brackets"),
        ("between = [0, 1]\n\n[[task]]", "between = [0, 5]\n\n[[task]]", 12, "from 0 to 1"),
        ("nic =", "switches = [[0, 1], [1]]\nnic =", 10, "must name GPU 1 once"),
        ("nic =", "sockets = [[0], [1]]\nnic =", 10, "needs between_sockets"),
        ('host = "b"\n', 'host = "b"\ngpus = [1, 1]', None, "GPU 1 of host 'b' belongs to .* list it once"),
    ],
)  # fmt: skip
def test_wires_and_gpus_that_would_count_nothing_or_twice_are_refused(
    old: str, new: str, line: int | None, words: str
) -> None:
    assert TWO.count(old) == 1
    with pytest.raises(ClusterError, match=words) as caught:
        read_toml(TWO.replace(old, new), "two.toml")
    assert caught.value.line == line


def test_hosts_of_different_wires_are_all_in_the_notes() -> None:
    text = TWO.replace("[[host.nvlink]]\nbetween = [0, 1]\n", "").replace(
        "nic =", 'pcie = { bandwidth = "12 GB/s" }\nnic ='
    )
    notes = read_toml(text, "two.toml").notes
    assert "GPUs of a host are joined by PCIe 4.0 x16, 25 GB/s each way and PCIe, 12 GB/s each way" in notes
    said = "hosts are joined by 25 Gbit/s Ethernet, 3.12 GB/s each way and a network, 12.5 GB/s each way"
    assert said in notes


def test_a_name_with_a_count_stands_for_all_its_hosts() -> None:
    text = HEAD.replace('["box0", "box1"]', '["box"]').replace('["box2", "box3"]', '["big"]')
    cluster = read_toml(text, "boxes.toml")
    assert named(cluster, WORKER[0], WORKER[3]) == ["box0 nic", "box3 nic"]
    assert named(cluster, WORKER[0], "big:0/CPU:0") == ["box0 nic", "left uplink out", "right uplink", "big nic in"]


OWN = """\
[protocol]
name = "calls"
like = "grpc"
latency = "1.5 us"
send_per_byte = "0.3 ns"
threads = 3

[[host]]
"""


def test_a_protocol_of_ones_own_is_like_another() -> None:
    protocol = read_toml(OWN, "own.toml").between_tasks
    assert protocol == replace(GRPC, name="calls", source="", latency_ns=1_500, send_ps_per_byte=300, threads=3)
    bare = read_toml(OWN.replace('like = "grpc"\n', "").replace('name = "calls"\n', ""), "own.toml").between_tasks
    assert bare == Protocol("own", latency_ns=1_500, send_ps_per_byte=300, threads=3)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('"grpc"', '"http"', 3, "no protocol 'http'"),
        ('"1.5 us"', "1.5", 4, "needs a unit"),
        ('"1.5 us"', '"12 weeks"', 4, "unknown unit 'weeks'"),
        ('"0.3 ns"', '"0.25 s"', 5, "use ps, ns or us"),
        ('"0.3 ns"', '"2 us"', 1, "send_ps_per_byte 2000000"),
        ("threads = 3", "threads = 2.5", 1, "has 2.5 threads"),
        ("threads = 3", 'threads = "3"', 1, "has '3' threads"),
        ("latency", "latenty", 4, "Did you mean 'latency'"),
        ("[protocol]", "[[protocol]]", 1, "must be a table"),
        (OWN, "protocol = 3\n[[host]]\n", 1, "must be a table"),
        (OWN, '\nprotocol = { name = "x", lake = "grpc" }\n[[host]]\n', 2, "Did you mean 'like'"),
    ],
)
def test_a_wrong_protocol_is_named_by_its_line(old: str, new: str, line: int, words: str) -> None:
    with pytest.raises(ClusterError, match=words) as caught:
        read_toml(OWN.replace(old, new), "own.toml")
    assert caught.value.line == line


def test_the_compact_notation_names_a_protocol() -> None:
    assert read_notation("ps=1,worker=2").between_tasks is GRPC
    assert read_notation("ps=1,protocol=rdma,worker=2").between_tasks is RDMA
    assert read_notation("worker=2x1gpu, protocol=nccl").between_tasks is NCCL
    assert [device.short for device in read_notation("protocol=2").devices] == ["protocol:0/CPU:0", "protocol:1/CPU:0"]
    with pytest.raises(ClusterError, match="no protocol 'rmda'"):
        read_notation("worker=2,protocol=rmda")
    with pytest.raises(ClusterError, match="names 2 protocols"):
        read_notation("worker=2,protocol=rdma,protocol=grpc")


def test_a_rack_of_the_interface_is_checked_too() -> None:
    hosts = [Host("a", find_model("cpu")), Host("b", find_model("cpu"))]
    tasks = [Task("w", 0, "a"), Task("w", 1, "b")]
    with pytest.raises(ClusterError, match="rack 'r' holds host 'c', which is not described"):
        connect(hosts, tasks, name="two", racks=[Rack("r", ("c",), PCIE4)])
    with pytest.raises(ClusterError, match="host 'a' is in rack 'r' and in rack 's'"):
        connect(hosts, tasks, name="two", racks=[Rack("r", ("a",), PCIE4), Rack("s", ("b", "a"), PCIE4)])


def wires() -> Any:
    return st.builds(
        Wire, st.integers(0, 10**6), st.integers(1, 10**12), st.sampled_from((None, *CONTENTIONS)), st.booleans()
    )


@st.composite
def clusters(draw: st.DrawFn) -> Any:
    """Hosts with NVLinks between some pairs, switches, sockets and racks, and one or two tasks on each."""
    pairs = [(0, 1), (0, 2), (1, 2)]
    hosts, tasks = [], []
    for number in range(draw(st.integers(1, 3))):
        hosts.append(
            Host(
                f"h{number}",
                find_model("cpu"),
                (find_model("t4"),) * 3,
                pcie=draw(wires()),
                nic=draw(wires()),
                loopback=draw(wires()),
                switches=draw(st.sampled_from([(), ((0, 1),), ((0,), (1, 2)), ((0, 1, 2),)])),
                nvlinks=draw(st.dictionaries(st.sampled_from(pairs), wires())),
                sockets=draw(st.sampled_from([(), ((0, 1), (2,))])),
                between_sockets=draw(st.none() | wires()),
            )
        )
        split = draw(st.integers(0, 3))
        tasks.append(Task("a", number, f"h{number}", 1, tuple(range(split))))
        tasks.append(Task("b", number, f"h{number}", 2, tuple(range(split, 3))))
    inside = draw(st.lists(st.integers(0, 2), min_size=len(hosts), max_size=len(hosts)))
    racks = [
        Rack(f"r{rack}", tuple(h.name for h, at in zip(hosts, inside, strict=True) if at == rack), draw(wires()))
        for rack in (1, 2)
    ]
    return hosts, racks, connect(hosts, tasks, name="drawn", racks=racks)


def undirected(links: Sequence[str]) -> list[str]:
    """Without their directions; NVLinks are one a direction."""
    return [name.rsplit(" ", 1)[0] for name in links if ">" not in name]


@given(clusters())
def test_every_route_is_made_of_different_links_and_leads_back_the_same_way(drawn: Any) -> None:
    _, _, cluster = drawn
    assert len({link.name for link in cluster.links}) == len(cluster.links)
    used = set()
    for s, t in product(range(len(cluster)), repeat=2):
        there, back = names(cluster, s, t), names(cluster, t, s)
        used |= set(there)
        assert len(set(there)) == len(there)
        handed = cluster.task_of[s] == cluster.task_of[t] and {cluster.devices[k].type for k in (s, t)} == {"CPU"}
        assert (not there) == (s == t or handed)
        assert sorted(undirected(there)) == sorted(undirected(back))
    assert len(used) == len(cluster.links), "every link is on a way"


@given(clusters())
def test_half_duplex_shares_one_link_and_full_duplex_none(drawn: Any) -> None:
    hosts, racks, cluster = drawn
    at = {host.name: host for host in hosts} | {rack.name: rack for rack in racks}
    for s, t in product(range(len(cluster)), repeat=2):
        here, there = cluster.devices[s].host, cluster.devices[t].host
        if here == there:
            continue
        both = set(names(cluster, s, t)) & set(names(cluster, t, s))
        shared = {f"{host} nic" for host in (here, there) if at[host].nic.half}
        of = {host: next((rack for rack in racks if host in rack.hosts), None) for host in (here, there)}
        if of[here] is not of[there]:
            shared |= {f"{rack.name} uplink" for rack in of.values() if rack and rack.uplink.half}
        inside = {name for name in both if "gpu" in name or "switch" in name}
        assert all(at[name.split()[0]].pcie.half for name in inside)
        assert both - inside == shared


def test_defaults_are_those_of_the_module() -> None:
    cluster = read_toml('[[host]]\nname = "a"\ncount = 2\n[[task]]\njob = "w"\nhost = "a"\ncount = 2\n', "a.toml")
    link = route(cluster, 0, 1)[0]
    assert (link.latency_ns, link.bytes_per_s, link.contention) == (NIC_25GBE.latency_ns, NIC_25GBE.bytes_per_s, None)
    assert cluster.between_tasks is GRPC
    assert LOOPBACK.latency_ns == 2 * NIC_25GBE.latency_ns, "one hop of a protocol fits both"
