"""The compact notation of clusters, and the cluster that a graph names."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.cluster import with_protocol
from simulator.cluster.copies import LOOK_NS, dispatch_ns
from simulator.cluster.notation import read_notation
from simulator.errors import ClusterError
from tests.cluster.routes import names


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("1cpu", ["localhost:0/CPU:0"]),
        ("2gpu", ["localhost:0/CPU:0", "localhost:0/GPU:0", "localhost:0/GPU:1"]),
        ("gpu=2", ["localhost:0/CPU:0", "localhost:0/GPU:0", "localhost:0/GPU:1"]),
        ("cpu=2,gpu=1", ["localhost:0/CPU:0", "localhost:0/CPU:1", "localhost:0/GPU:0"]),
        ("1v100,1t4", ["localhost:0/CPU:0", "localhost:0/GPU:0", "localhost:0/GPU:1"]),
        ("ps=1,worker=2", ["ps:0/CPU:0", "worker:0/CPU:0", "worker:1/CPU:0"]),
        ("worker=1x2gpu", ["worker:0/CPU:0", "worker:0/GPU:0", "worker:0/GPU:1"]),
        ("worker=1x2cpu", ["worker:0/CPU:0", "worker:0/CPU:1"]),
        ("worker=1,worker=1x1gpu", ["worker:0/CPU:0", "worker:1/CPU:0", "worker:1/GPU:0"]),
    ],
)
def test_notation_makes_these_devices(text: str, devices: Sequence[str]) -> None:
    assert [device.short for device in read_notation(text).devices] == devices


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "''"),
        ("4", "'4'"),
        ("ps=0", "zero"),
        ("0gpu", "zero"),
        ("ps=1,", "''"),
        ("worker=2x", "'worker=2x'"),
        ("gpu=2x2gpu", "reserved"),
        ("4xpu", "xpu"),
        ("65536gpu", "65,536"),  # and the CPU
        ("99999999999gpu", "65,536"),
        ("worker=100001", "65,536"),
        ("worker=1x99999999999gpu", "65,536"),
        ("40000gpu,40000gpu", "65,536"),
        ("worker=8192x8gpu", "65,536"),
        ("wor-ker=1", "wor-ker"),
        (f"gpu=4,{'z' * 70_000}=6x4096v100", "70,000 characters"),
    ],
)
def test_a_wrong_part_is_named(text: str, part: str) -> None:
    with pytest.raises(ClusterError, match=part):
        read_notation(text)


def test_models_are_mixed_and_priced_apart() -> None:
    cluster = read_notation("1v100,1h100")
    assert cluster.kinds == ("cpu", "v100", "h100")
    assert cluster.kind_of == (0, 1, 2)


def test_cpu_devices_of_a_host_share_its_processor() -> None:
    one, four = read_notation("1cpu"), read_notation("4cpu")
    assert sum(d.flop_per_s for d in four.devices) == one.devices[0].flop_per_s
    assert sum(d.memory_bytes for d in four.devices) == one.devices[0].memory_bytes
    assert (one.devices[0].cores, [d.cores for d in four.devices]) == (20, [5] * 4)
    assert {d.cores for d in read_notation("worker=1x32cpu").devices} == {1}, "a part of a core counts as one"
    assert {d.cores for d in read_notation("4gpu").devices if d.type == "GPU"} == {1}


def test_routes_of_one_host() -> None:
    cluster = read_notation("2gpu,2cpu")
    cpu0, cpu1, gpu0, gpu1 = range(4)
    assert names(cluster, cpu0, cpu1) == []
    assert cluster.transfer_ns(cpu0, cpu1, 1) == cluster.transfer_ns(cpu0, cpu1, 2**30) == cluster.handover_ns
    assert names(cluster, gpu0, cpu0) == ["localhost gpu0 pcie out"]
    assert names(cluster, cpu1, gpu1) == ["localhost gpu1 pcie in"]
    assert names(cluster, gpu0, gpu1) == ["localhost gpu0 pcie out", "localhost gpu1 pcie in"]


def test_gpus_have_the_pcie_of_their_model() -> None:
    rates = {}
    for model in ("k80", "p100", "v100", "t4", "rtx2080ti", "a100", "l4", "h100", "h200", "b200"):
        cluster = read_notation(f"1{model}")
        rates[model] = cluster.links[0].bytes_per_s / 1e9
    assert rates == {
        "k80": 12.36, "p100": 12.36, "v100": 12.36, "t4": 12.36, "rtx2080ti": 12.36, "a100": 25.0, "l4": 25.0,
        "h100": 52.8, "h200": 52.8, "b200": 52.8,
    }  # fmt: skip
    mixed = read_notation("2v100,1h100")
    assert [link.bytes_per_s / 1e9 for link in mixed.links if link.name.endswith("out")] == [12.36, 12.36, 52.8]
    (said,) = [note for note in mixed.notes if "joined" in note]
    assert "PCIe 3.0 x16, 12.4 GB/s each way and PCIe 5.0 x16, 52.8 GB/s each way" in said


def test_routes_between_hosts_share_the_nic() -> None:
    cluster = read_notation("ps=1,worker=1x2gpu")
    ps, cpu, gpu0, gpu1 = range(4)
    assert names(cluster, ps, cpu) == ["ps0 nic out", "worker0 nic in"]
    assert names(cluster, gpu0, ps) == ["worker0 gpu0 pcie out", "worker0 nic out", "ps0 nic in"]
    assert names(cluster, gpu0, ps)[1:] == names(cluster, gpu1, ps)[1:]


def test_transfer_time_adds_latencies_and_takes_the_slowest_link() -> None:
    cluster = read_notation("ps=1,worker=1x1gpu")
    pcie, nic = 5_000, 55_000
    ends = cluster.pack_ns(0, 2, 0) + cluster.unpack_ns(0, 2, 0)
    copy = dispatch_ns(cluster.devices[2].chip) + LOOK_NS
    assert cluster.transfer_ns(0, 2, 0) + ends == pcie + 2 * nic + copy
    bare = with_protocol(cluster, "plain")
    assert bare.transfer_ns(0, 2, 3_125_000_000) == pcie + 2_000 + 10**9 + copy
    assert bare.transfer_ns(0, 2, 1) == pcie + 2_000 + 1 + copy, "rounded up"


@given(
    st.lists(
        st.tuples(st.sampled_from(["ps", "worker", "chief"]), st.integers(1, 4), st.integers(0, 3)),
        min_size=1,
        max_size=3,
        unique_by=lambda part: part[0],
    )
)
def test_every_pair_has_a_route_of_distinct_links(parts: Sequence[tuple[str, int, int]]) -> None:
    cluster = read_notation(",".join(f"{job}={tasks}" + (f"x{gpus}gpu" if gpus else "") for job, tasks, gpus in parts))
    assert len(cluster) == sum(tasks * (1 + gpus) for _, tasks, gpus in parts)
    assert len({device.name for device in cluster.devices}) == len(cluster)
    for s, t in product(range(len(cluster)), repeat=2):
        there, back = names(cluster, s, t), names(cluster, t, s)
        assert len(set(there)) == len(there)
        assert bool(there) == (s != t)
        assert {name.replace(" out", "").replace(" in", "") for name in back} == {
            name.replace(" out", "").replace(" in", "") for name in there
        }
