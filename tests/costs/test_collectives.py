"""All-reduce over a ring of GPUs: worked by hand, and on meshes."""

import pytest

from simulator import load_cluster
from simulator.costs.estimate import estimate
from simulator.costs.estimates.collectives import Ring, all_reduce_ns, ring_of
from simulator.graph.messages import AttrValue
from tests.strategies import FLOAT, Rows, shapes_attr, type_attr, typed


def test_a_ring_by_hand() -> None:
    """Of 8 GB each of 4 GPUs sends 6 times a quarter: 12 GB at 10 GB/s, and 6 latencies."""
    assert all_reduce_ns(8 * 10**9, 4, Ring(10**10, 1000)) == 1_200_000_000 + 6 * 1000
    assert all_reduce_ns(0, 2, Ring(10**10, 1000)) == 2000


@pytest.mark.parametrize(
    ("name", "gpus", "rate"),
    [
        ("dgx1-p100", 8, 20e9),  # a ring over NVLink alone, though not in the order of numbers
        ("dgx1-v100", 8, 50e9),  # the bonds of two links make a ring
        ("dgx1-v100", 2, 25e9),
        ("8p100", 8, 12.36e9),  # PCIe 3.0
        ("pcie-box", 2, None),
    ],
)
def test_the_slowest_hop_is_as_fast_as_can_be(name: str, gpus: int, rate: float | None) -> None:
    ring = ring_of(load_cluster(name), gpus)
    assert ring is not None
    assert rate is None or ring.bytes_per_s == rate


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
