"""Ops that take part in the kernel of a batch normalisation or a convolution: worked by hand."""

import pytest

from simulator.costs.estimate import estimate
from simulator.costs.estimates.fusion import fused
from simulator.costs.roofline import EXECUTOR_NS
from simulator.graph.messages import AttrValue
from tests.costs.test_estimate import BOTH
from tests.strategies import FLOAT, Rows, shapes_attr, type_attr, typed

SHAPE = (8, 8, 8, 16)


def block(*, training: bool = False, readers: int = 1, adds: bool = True) -> Rows:
    """A normalisation, an addition of a shortcut, and a ReLU."""
    made = Rows()
    for name, shape in (("x", SHAPE), ("shortcut", SHAPE), *((name, (16,)) for name in "abcd")):
        made.add(name, "Placeholder", **typed("Placeholder", shape))
    outputs = [SHAPE, *[(16,)] * 5]
    attrs = {"T": type_attr(FLOAT), "U": type_attr(FLOAT), "_output_shapes": shapes_attr(*outputs)}
    made.add("norm", "FusedBatchNormV3", ["x", *"abcd"], is_training=AttrValue(b=training), **attrs)
    if adds:
        made.add("add", "AddV2", ["shortcut", "norm"], **typed("AddV2", SHAPE))
    made.add("relu", "Relu", ["add" if adds else "norm"], **typed("Relu", SHAPE))
    for reader in range(readers - 1):
        made.add(f"reader{reader}", "Neg", ["norm"], **typed("Neg", SHAPE))
    return made


@pytest.mark.parametrize(("adds", "names"), [(True, ("relu", "add")), (False, ("relu",))])
def test_a_relu_behind_a_normalisation_takes_part(adds: bool, names: tuple[str, ...]) -> None:
    graph = block(adds=adds).built()
    found = fused(graph)
    assert (
        *[graph.names[node] for node in found.without_reads],
        *[graph.names[node] for node in found.additions],
    ) == names


@pytest.mark.parametrize("adds", [True, False])
def test_what_trains_or_is_read_twice_stays_apart(adds: bool) -> None:
    for made in (block(training=True, adds=adds), block(readers=2, adds=adds)):
        assert fused(made.built()) == ([], [])


def test_a_kernel_that_takes_part_costs_what_it_reads_besides() -> None:
    graph = block().built()
    costs = estimate(graph, BOTH)
    apart = estimate(block(training=True).built(), BOTH)
    add, relu = graph.index["add"], graph.index["relu"]
    nbytes = 4 * 8 * 8 * 8 * 16
    assert costs.run_ns[relu].tolist() == [apart.run_ns[relu, 0], EXECUTOR_NS]
    assert costs.run_ns[add].tolist() == [apart.run_ns[add, 0], EXECUTOR_NS - -nbytes // 1000]  # at 1 TB/s
