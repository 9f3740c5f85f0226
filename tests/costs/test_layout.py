"""The order of axes that a session takes for convolutions: worked by hand."""

import pytest

from simulator.costs.estimate import works_of
from simulator.costs.formulas.neural import Convolution
from simulator.graph.handing_on import handed_on
from simulator.graph.messages import AttrValue
from tests.strategies import FLOAT, Rows, shapes_attr, type_attr

IMAGE, TAPS, HALF = (8, 16, 16, 64), (3, 3, 64, 64), 19


@pytest.mark.parametrize(("trains", "dtype"), [(True, FLOAT), (False, FLOAT), (True, HALF)])
def test_a_session_trains_in_float32_with_channels_first(trains: bool, dtype: int) -> None:
    """The file has them last; tests/oracle/test_optimizing.py asks Grappler for the same."""
    made = Rows()
    usual = {"strides": AttrValue(list=AttrValue.ListValue(i=[1, 1, 1, 1])), "data_format": AttrValue(s=b"NHWC")}

    def add(name: str, op: str, shape: tuple[int, ...], *inputs: str, key: str = "T") -> None:
        attrs = {key: type_attr(dtype), "_output_shapes": shapes_attr(shape)}
        made.add(name, op, list(inputs), **attrs, **(usual if op.startswith("Conv2D") else {}))

    add("image", "Placeholder", IMAGE, key="dtype")
    add("taps", "Placeholder", TAPS, key="dtype")
    add("pixels", "Conv2D", IMAGE, "image", "taps")
    if trains:
        sizes = {"dtype": type_attr(3), "_output_shapes": shapes_attr((4,))}
        made.add("sizes", "Placeholder", **sizes)
        add("gradient", "Conv2DBackpropFilter", TAPS, "image", "sizes", "pixels")
    graph = made.built()
    works = works_of(graph, handed_on(graph)).different
    kernels = [work.kernel for work in works if isinstance(work.kernel, Convolution)]
    assert len(kernels) == 1 + trains
    assert {kernel.channels_first for kernel in kernels} == {trains and dtype == FLOAT}
    assert {(kernel.height, kernel.width, kernel.channels) for kernel in kernels} == {(16, 16, 64)}
