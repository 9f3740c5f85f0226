"""Ops that exchange tensors without an edge: worked by hand, and on meshes."""

from dataclasses import replace
from typing import Any

import pytest

from simulator import load_cluster
from simulator.costs.estimate import estimate
from simulator.costs.estimates.collectives import collective_ns
from simulator.costs.estimates.nccl import Ring, all_reduce_ns, ring_of
from simulator.graph.dtypes import INT32
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from tests.strategies import FLOAT, Rows, shapes_attr, type_attr, typed
from viz import run


def test_a_ring_by_hand() -> None:
    """Of 8 GB each of 4 GPUs sends 6 times a quarter: 12 GB at 10 GB/s, and 6 latencies."""
    assert all_reduce_ns(8 * 10**9, 4, Ring(10**10, 1000)) == 1_200_000_000 + 6 * 1000
    assert all_reduce_ns(0, 2, Ring(10**10, 1000)) == 2000
    assert all_reduce_ns(0, 2, Ring(10**10, 1000, 500)) == 2500
    gathered, spread = (
        collective_ns(f"Collective{what}V2", 0, 8, Ring(10**10, 1000, 500)) for what in ("Gather", "BcastSend")
    )
    assert gathered == 500 + 7 * 1000, "it begins once, and has half of the rounds"
    assert spread == 500 + 3 * 1000


@pytest.mark.parametrize(
    ("name", "gpus", "rate"),
    [
        ("dgx1-p100", 8, 20e9),  # a ring over NVLink alone, though not in the order of numbers
        ("dgx1-v100", 8, 150e9),  # six links of each GPU, in rings; their PCIe is in none
        ("hgx-h100", 8, 450e9),  # one way to an NVSwitch
        ("dgx1-v100", 2, 25e9),
        ("8p100", 8, 12.36e9),  # PCIe 3.0
        ("pcie-box", 2, None),
    ],
)
def test_the_slowest_hop_is_as_fast_as_can_be(name: str, gpus: int, rate: float | None) -> None:
    ring = ring_of(load_cluster(name), gpus)
    assert ring is not None
    assert rate is None or ring.bytes_per_s == pytest.approx(0.87 * rate)  # NCCL reaches that part


def test_more_gpus_than_a_task_has_make_no_ring() -> None:
    assert ring_of(load_cluster("2v100"), 3) is None
    assert ring_of(load_cluster("ps=1,worker=2x1gpu"), 2) is None
    assert ring_of(load_cluster("2v100"), 1) is None


def test_a_sum_over_gpus_takes_the_time_of_its_ring() -> None:
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", (1000, 1000)))
    attrs = {"T": type_attr(FLOAT), "_output_shapes": shapes_attr((1000, 1000))}
    made.add("sum", "NcclAllReduce", ["x"], num_devices=AttrValue(i=8), **attrs)
    graph, cluster = made.built(), load_cluster("dgx1-p100")
    costs = estimate(graph, cluster)
    column, ring = costs.kinds.index("p100"), ring_of(cluster, 8)
    assert ring is not None
    assert costs.run_ns[1, column] == 4000 + all_reduce_ns(4 * 10**6, 8, ring)


# ---- collectives ----------------------------------------------------------------------------------------------------

SIDE = 4096  # 64 MiB of float32
NIC = 3_125_000_000  # bytes per second of a default host
HOP_NS = 110_000  # gRPC: work of 40 us at each end, 28 us, and 2 us of the wires


def grouped(op: str, members: int, size: int, *, v2: bool = True, key: bool = True) -> Graph:
    """So many members of a group of that size, each on a task of its own."""
    made = Rows()
    tensor = {"T": type_attr(FLOAT), "_output_shapes": shapes_attr((SIDE, SIDE))}
    for task in range(members):
        device = f"/job:worker/task:{task}"
        made.add(f"x{task}", "Placeholder", device=device, **typed("Placeholder", (SIDE, SIDE)))
        numbers = {"group_size": size, "group_key": 3, "instance_key": 7}
        if not v2:
            of = {name: AttrValue(i=value) for name, value in numbers.items()}
            made.add(f"red{task}", op, [f"x{task}"], device=device, **tensor, **of)
            continue
        for name, value in numbers.items():
            if key or name != "group_key":
                made.add(f"{name}{task}", "Const", device=device, dtype=type_attr(INT32), value=_number(value))
            else:
                made.add(f"{name}{task}", "Placeholder", device=device, dtype=type_attr(INT32))
        inputs = [f"x{task}", *(f"{name}{task}" for name in numbers)]
        made.add(f"red{task}", op, inputs, device=device, **tensor, Nordering_token=AttrValue(i=0))
    return made.built()


def _number(value: int) -> Any:
    made = AttrValue()
    made.tensor.dtype = INT32
    made.tensor.tensor_shape.SetInParent()
    made.tensor.int_val.append(value)
    return made


@pytest.mark.parametrize(
    ("op", "v2", "members", "size", "shares", "rounds"),
    [
        ("CollectiveReduceV2", True, 2, 2, (2, 2), 2),
        ("CollectiveReduce", False, 2, 2, (2, 2), 2),
        ("CollectiveReduceV2", True, 1, 2, (2, 2), 2),  # the other member is in another worker's graph
        ("CollectiveReduceV2", True, 4, 4, (6, 4), 6),
        ("CollectiveAllToAllV2", True, 4, 4, (3, 4), 3),
        ("CollectiveBcastSendV2", True, 1, 4, (2, 1), 2),  # two levels of a tree
    ],
)
def test_a_collective_takes_the_time_of_its_ring(
    op: str, v2: bool, members: int, size: int, shares: tuple[int, int], rounds: int
) -> None:
    graph, cluster = grouped(op, members, size, v2=v2), load_cluster("worker=4")
    costs = estimate(graph, cluster)
    sent = shares[0] * 4 * SIDE * SIDE / shares[1]
    for task in range(members):
        took = costs.run_ns[graph.index[f"red{task}"], 0]
        assert took == pytest.approx(sent / NIC * 1e9 + rounds * HOP_NS, abs=2 * rounds)
    assert any("they wait for no other member here" in note and op in note for note in costs.notes)


@pytest.mark.parametrize(("key", "size"), [(False, 2), (True, 9)])
def test_a_collective_of_an_unknown_group_says_so(key: bool, size: int) -> None:
    """Nothing says the key; or the cluster has no such ring."""
    graph, cluster = grouped("CollectiveReduceV2", 2, size, key=key), load_cluster("worker=2")
    costs = estimate(graph, cluster)
    assert costs.run_ns[graph.index["red0"], 0] < 2_000_000
    assert any("so the step takes longer: CollectiveReduceV2 2" in note for note in costs.notes)


@pytest.mark.parametrize(("cluster", "kinds"), [("1v100,1t4", 2), ("2v100", 1), ("worker=1x1v100,worker=1x1t4", 2)])
def test_members_may_be_of_several_kinds(cluster: str, kinds: int) -> None:
    """Whichever kind it is, a member takes the time of the same ring: over PCIe, or over the network."""
    graph = grouped("CollectiveReduceV2", 1, 2)
    graph = replace(graph, requested=("",) * len(graph))
    costs = estimate(graph, load_cluster(cluster))
    took = [costs.run_ns[graph.index["red0"], costs.kinds.index(kind)] for kind in costs.kinds if kind != "cpu"]
    assert len(took) == kinds
    assert len(set(took)) == 1
    assert took[0] > 4 * SIDE * SIDE / 16e9 * 1e9


def test_a_row_with_fewer_devices_than_members_is_refused() -> None:
    """TensorFlow would wait for them for ever, and no step is as short as one whose sums take nothing."""
    graph = grouped("CollectiveReduceV2", 2, 2)
    result = run(graph, cluster="worker=2", fetches=["red0", "red1"], algorithm="requested", what_if="kept")
    assert result.what_if is not None
    rows = {row.after: row for row in result.what_if.rows if row.what == "devices"}
    assert "lacks devices or links for the group of red0, red1" in rows["worker=1"].refused
    assert rows["worker=3"].change == 0


def test_a_group_of_one_exchanges_nothing() -> None:
    graph = grouped("CollectiveReduceV2", 1, 1)
    costs = estimate(graph, load_cluster("worker=2"))
    assert costs.run_ns[graph.index["red0"], 0] < 2_000_000
    assert not any("collectives" in note for note in costs.notes)


def test_a_step_with_collectives_claims_no_optimum() -> None:
    scene = run(grouped("CollectiveReduceV2", 2, 2), cluster="worker=2", fetches=["red0", "red1"])
    assert "optimum" not in scene.summary()
    assert "without the waits of 2 members of collectives for each other" in scene.summary()
