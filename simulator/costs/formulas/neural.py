"""Convolutions, pooling, normalisation, softmax and recurrent kernels.

An output of a convolution takes one multiplication and one addition per weight of its filter. So the output's number
of elements and the filter's shape, [spatial.., input channels, output channels], decide. Strides, padding, dilation,
data format and groups are in the output's shape.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from simulator.costs.formulas.matrix import Product
from simulator.costs.formulas.shaped_op import Formula, ShapedOp, at, dims, elements, flag, numbers, tensors
from simulator.graph.dimension_numbers import convolution_dimensions
from simulator.graph.dtypes import FLOAT, SIZE, base
from simulator.graph.graph import Shape

# --- convolutions and pooling ----------------------------------------------------------------------------------------


_WORKSPACE_LIMIT = 2**32  # bytes; TF_CUDNN_WORKSPACE_LIMIT_IN_MB, tensorflow/core/kernels/gpu_utils.cc


def _weights(shape: Shape | None, behind: int) -> int:
    """Product of a filter's dimensions without the last `behind` ones."""
    return elements(shape[:-behind]) if shape else 1


def _pixels_and_filters(instance: ShapedOp) -> tuple[Shape | None, Shape | None]:
    """The shapes of the forward output and of the filters, of a convolution or of a gradient of it.

    The forward output has the shape of the incoming gradient. The filters are the result of their own gradient.
    """
    backward, of_filters = "Backprop" in instance.op, "BackpropFilter" in instance.op
    filters = at(instance.outputs, 0) if of_filters else at(instance.inputs, 1)
    return at(instance.inputs, 2) if backward else at(instance.outputs, 0), filters


def convolution(instance: ShapedOp) -> int:
    """2 operations per output and per weight of one output channel; as many for each gradient."""
    pixels, filters = _pixels_and_filters(instance)
    return 2 * elements(pixels) * _weights(filters, 1)


def numbered_convolution(instance: ShapedOp) -> int:
    """The same of a convolution that names its dimensions by number."""
    image, filters = at(instance.inputs, 0) or (), at(instance.inputs, 1) or ()
    found = convolution_dimensions(instance.op, instance.attrs, len(image))
    if found is None or not found.fit(len(image), len(filters)):
        return 0
    return 2 * elements(at(instance.outputs, 0)) * (elements(filters) // max(1, filters[found.filters]))


def depthwise(instance: ShapedOp) -> int:
    """2 operations per output and spatial weight, [spatial.., channels, multiplier]; as many for each gradient."""
    pixels, filters = _pixels_and_filters(instance)
    return 2 * elements(pixels) * _weights(filters, 2)


def dilation(instance: ShapedOp) -> int:
    """An addition and a comparison per output and spatial weight, [spatial.., channels]; as many for each gradient."""
    pixels, filters = _pixels_and_filters(instance)
    return 2 * elements(pixels) * _weights(filters, 1)


class Convolution(NamedTuple):
    """A convolution in two dimensions, or one of its gradients; it reads or writes an image, pixels and filters."""

    of: str  # "" forward, "input" or "filter": the gradient of that
    images: int
    height: int  # of the pixels: the forward output
    width: int
    input_height: int
    input_width: int
    channels: int  # of the image
    filters: int  # channels of the pixels
    taps: tuple[int, int]
    strides: tuple[int, int]
    groups: int
    channels_first: bool
    number_bytes: int

    @property
    def product(self) -> Product:
        """The product as which it can be done: pixels by filters over taps and channels, or a gradient of that."""
        taps, pixels = prod(self.taps), self.images * self.height * self.width
        channels, filters = self.channels // self.groups, self.filters // self.groups
        if self.of == "filter":
            return Product(channels * taps, filters, pixels, self.groups)
        if self.of == "input":  # each number of the image takes part in as many pixels as fit, also at its edge
            image = self.images * self.input_height * self.input_width
            return Product(image, channels, max(1, filters * taps // prod(self.strides)), self.groups)
        return Product(pixels, filters, channels * taps, self.groups)

    @property
    def made(self) -> tuple[int, int]:
        """Height and width of what is computed: pixels, or the image where that is the gradient's."""
        return (self.input_height, self.input_width) if self.of == "input" else (self.height, self.width)

    @property
    def filter_elements(self) -> int:
        """Numbers of all filters."""
        return prod(self.taps) * self.channels * self.filters // self.groups

    @property
    def read_elements(self) -> int:
        """Numbers that it reads, without the filters: of the image, of the incoming gradient, or of both."""
        image = self.images * self.input_height * self.input_width * self.channels
        pixels = self.images * self.height * self.width * self.filters
        return {"": image, "input": pixels, "filter": image + pixels}[self.of]


def convolved(instance: ShapedOp) -> Convolution | None:
    """The convolution that an op is; None where shapes are unknown."""
    of = "filter" if "BackpropFilter" in instance.op else "input" if "BackpropInput" in instance.op else ""
    pixels, taps = _pixels_and_filters(instance)
    image = at(instance.outputs, 0) if of == "input" else at(instance.inputs, 0)
    if not (taps and pixels and image) or any(len(shape) != 4 or min(shape) < 1 for shape in (taps, pixels, image)):
        return None
    layout = instance.attrs.get("data_format")
    first = layout is not None and layout.s == b"NCHW"
    channels, size = (1, slice(2, 4)) if first else (3, slice(1, 3))
    number_bytes = max(1, sum(instance.output_bytes[:1]) // elements(at(instance.outputs, 0)))
    strides = [max(1, stride) for stride in numbers(instance, "strides")[size]]
    return Convolution(
        of=of,
        images=pixels[0],
        height=pixels[size][0],
        width=pixels[size][1],
        input_height=image[size][0],
        input_width=image[size][1],
        channels=image[channels],
        filters=pixels[channels],
        taps=(taps[0], taps[1]),
        strides=(strides[0], strides[1]) if len(strides) > 1 else (1, 1),
        groups=max(1, image[channels] // taps[2]),
        channels_first=first or (instance.channels_first and number_bytes == SIZE[FLOAT]),
        number_bytes=number_bytes,
    )


def unrolled(instance: ShapedOp) -> int:
    """A guess of the workspace: one image's patches as a matrix, for a convolution by one product.

    cuDNN chooses among algorithms that need from nothing to several times this; at most 4 GiB are granted.
    """
    pixels, filters = _pixels_and_filters(instance)
    if not filters or not pixels:
        return 0
    per_pixel = max(1, pixels[0]) * max(1, filters[-1])  # images and channels
    number = SIZE.get(base(instance.output_types[0]), 0) if instance.output_types else 0
    each = number if number > 0 else SIZE[FLOAT]
    return min(_WORKSPACE_LIMIT, each * _weights(filters, 1) * (elements(pixels) // per_pixel))


def window_taps(instance: ShapedOp) -> int:
    """Elements of a pooling window, by `ksize`; where that is an input, the ratio of input and output."""
    sizes = numbers(instance, "ksize")
    if sizes:
        return max(1, prod(sizes))
    return max(1, -(-elements(at(instance.inputs, 0)) // max(1, elements(at(instance.outputs, 0)))))


def _overlapping(instance: ShapedOp) -> bool:
    pairs = zip(numbers(instance, "ksize"), numbers(instance, "strides"), strict=False)
    return any(size > stride for size, stride in pairs)


def max_pool(instance: ShapedOp) -> int:
    """One comparison fewer than the window has elements, per output."""
    return elements(at(instance.outputs, 0)) * max(1, window_taps(instance) - 1)


def compared(instance: ShapedOp) -> int:
    """The elements of all windows, of which each is compared with the largest so far."""
    return elements(at(instance.outputs, 0)) * window_taps(instance)


def max_pool_gradient(instance: ShapedOp) -> int:
    """Comparisons to find the maximum again, per output; then a clear and an addition per input."""
    pooled, whole, window = elements(at(instance.inputs, 1)), elements(at(instance.inputs, 0)), window_taps(instance)
    if window == 1:
        return whole
    return pooled * (window - 1) + whole * (2 if _overlapping(instance) else 1)


def average_pool(instance: ShapedOp) -> int:
    """An addition per element of the window, per output."""
    return elements(at(instance.outputs, 0)) * window_taps(instance)


def average_pool_gradient(instance: ShapedOp) -> int:
    """A division per gradient and a copy per input; an addition per element of the window where windows overlap."""
    pooled, whole = elements(at(instance.inputs, 1)), elements(at(instance.outputs, 0))
    return whole + pooled * (1 + (window_taps(instance) if _overlapping(instance) else 0))


def response_normalization(operations: int) -> Formula:
    """Local response normalisation, per element: 2 operations per neighbouring channel, and `operations` more."""

    def count(instance: ShapedOp) -> int:
        attr = instance.attrs.get("depth_radius")
        radius = min(int(attr.i), 2**16) if attr is not None else 5
        return elements(at(instance.inputs, 0)) * (2 * (2 * max(0, radius) + 1) + operations)

    return count


# --- layers ----------------------------------------------------------------------------------------------------------


_RSQRT = 5
_LSTM_GATES = 3 * 40 + 2 * 36 + 9  # three sigmoids, two tanh, products and sums
_GRU_GATES = 2 * 40 + 36 + 7


def batch_normalization(instance: ShapedOp) -> int:
    """Training: mean, variance, scale and shift, 4 per element; inference: 2 per element."""
    count, channels = elements(at(instance.inputs, 0)), elements(at(instance.inputs, 1))
    return 4 * count + channels * (6 + _RSQRT) if flag(instance, "is_training", True) else 2 * count


def normalized(instance: ShapedOp) -> int:
    """Every tensor once; in training the first input twice, as a first pass takes statistics."""
    training = flag(instance, "is_training", True)
    return tensors(instance) + (instance.input_bytes[0] if training and instance.input_bytes else 0)


def batch_normalization_gradient(instance: ShapedOp) -> int:
    """11 per element of the gradient, and the inverse deviation per channel."""
    return 11 * elements(at(instance.inputs, 0)) + elements(at(instance.inputs, 2)) * (5 + _RSQRT)


def softmax(instance: ShapedOp) -> int:
    """36 per element (exp, a difference, a division by a product) and 4 per row."""
    logits = at(instance.inputs, 0)
    return 36 * elements(logits) + 4 * dims(logits, len(logits or ()) or 1)[0]


def _cell(batch: int, weights: int, gates: int, state: int) -> int:
    return 2 * batch * weights + gates * state


def lstm_cell(instance: ShapedOp) -> int:
    """One product of [x, h] with the four gates' weights, then the gates."""
    batch = dims(at(instance.inputs, 0), 2)[0]
    return _cell(batch, elements(at(instance.inputs, 3)), _LSTM_GATES, elements(at(instance.inputs, 1)))


def lstm_sequence(passes: int) -> Formula:
    """The cell for every step of a sequence [time, batch, inputs]; backward takes two passes."""

    def count(instance: ShapedOp) -> int:
        time, batch, _ = dims(at(instance.inputs, 1), 3)
        state = elements(at(instance.inputs, 2))
        return passes * time * _cell(batch, elements(at(instance.inputs, 4)), _LSTM_GATES, state)

    return count


def gru_cell(instance: ShapedOp) -> int:
    """Products with the weights of the gates and of the candidate, then the gates."""
    batch = dims(at(instance.inputs, 0), 2)[0]
    weights = elements(at(instance.inputs, 2)) + elements(at(instance.inputs, 3))
    return _cell(batch, weights, _GRU_GATES, elements(at(instance.inputs, 1)))


def cudnn_rnn(passes: int) -> Formula:
    """A multiplication and an addition per parameter and step of every sequence; backward takes two passes."""

    def count(instance: ShapedOp) -> int:
        time, batch, _ = dims(at(instance.inputs, 0), 3)
        gates = _LSTM_GATES * time * elements(at(instance.inputs, 1))
        return passes * (2 * time * batch * elements(at(instance.inputs, 3)) + gates)

    return count


def suppression(instance: ShapedOp) -> int:
    """Non-maximum suppression: sort the boxes, then compare each kept box with all, 16 per overlap."""
    boxes = elements(at(instance.inputs, 1))
    return boxes * boxes.bit_length() + 16 * boxes * elements(at(instance.outputs, 0))
