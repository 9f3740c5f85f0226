"""Units of work of scalar kernels, each of which takes a time on a core: numbers, strings, boxes, samples of images."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from simulator.costs.formulas.matrix import sparse_dense_matmul
from simulator.costs.formulas.shaped_op import Formula, ShapedOp, at, dims, elements, flag, written
from simulator.graph.dtypes import FLOAT, INT32, INT64, STRING, base
from simulator.graph.graph import Shape

IMAGE = (375, 500, 3)
"""The assumed image where the graph does not hold its size: the most frequent size in ImageNet (ILSVRC2012)."""
FILE_BYTES = 110_000
"""The assumed file where the graph does not hold its size: a JPEG of that image, 0.6 bytes per pixel."""

_MANY = 2**30  # more than any device has cores
_UNIQUE_NUMBER, _UNIQUE_STRING = 14, 36  # ns
_BEAM_WIDTH = 100  # the default
_KEPT = 100  # boxes
_ROW_NS, _NUMBER_NS = 43, 2
_PACKED_PATCH, _LONE_PATCH = 18, 60  # tenths of a nanosecond
_INTEGER_REST, _FLOAT_REST = 18, 130
_WIDE_COLUMNS, _WIDE_PS, _NARROW_PS = 32, 950, 190  # SparseTensorDenseMatMulFunctor's kNumVectorize; ps per operation
_IMAGE_WORDS, _FILE_WORDS = "images of 500 x 375", "files of 110 kB"


def of_core(call_ns: int, *terms: tuple[int, Formula]) -> Formula:
    """Picoseconds of one core: nanoseconds per call, and for each term its picoseconds per unit."""
    return lambda instance: 1000 * call_ns + sum(each_ps * units(instance) for each_ps, units in terms)


def alone(instance: ShapedOp) -> int:
    """One part: one thread runs the kernel."""
    return 1


def divided(instance: ShapedOp) -> int:
    """Parts for any number of threads."""
    return _MANY


def of_vector(instance: ShapedOp) -> int:
    """Parts: a vector is for any number of threads, rows are for one."""
    return _MANY if len(at(instance.inputs, 0) or ()) <= 1 else 1


def of_input(slot: int) -> Formula:
    """The numbers or strings of that input."""
    return lambda instance: elements(at(instance.inputs, slot))


def of_types(units: Formula, *types: int) -> Formula:
    """These units where the last input has one of the types, for which the kernel has no vector code; else none."""
    return lambda instance: units(instance) if instance.input_types and base(instance.input_types[-1]) in types else 0


def of_inputs(instance: ShapedOp) -> int:
    """The numbers or strings of all inputs."""
    return sum(map(elements, instance.inputs))


def of_outputs(instance: ShapedOp) -> int:
    """The numbers or strings of all outputs."""
    return sum(map(elements, instance.outputs))


def _rows(shape: Shape | None) -> int:
    """The first dimension; of a scalar, and where it is unknown, 1."""
    return shape[0] if shape and shape[0] >= 0 else 1


def rows_of(slot: int) -> Formula:
    """The rows of that input."""
    return lambda instance: _rows(at(instance.inputs, slot))


def rows_out(instance: ShapedOp) -> int:
    """The rows of the longest output."""
    return max(map(_rows, instance.outputs), default=1)


def steps_of(slot: int) -> Formula:
    """The steps of all sequences of that input, [batch, time, ..] or [time, batch, ..]."""
    return lambda instance: elements((at(instance.inputs, slot) or ())[:2])


def rows_in(instance: ShapedOp) -> int:
    """The rows of the longest input."""
    return max(map(_rows, instance.inputs), default=1)


def rows_before(slot: int) -> Formula:
    """The rows, or pixels, that all dimensions of that input but the last make."""
    return lambda instance: elements((at(instance.inputs, slot) or ())[:-1])


def pixels_out(instance: ShapedOp) -> int:
    """The pixels of the output image, each of as many numbers as there are channels."""
    return elements((at(instance.outputs, 0) or ())[:-1])


def remainders(instance: ShapedOp) -> int:
    """Nanoseconds, times ten, to divide each number and keep the rest: of floats the C library does it."""
    dtype = base(instance.input_types[0]) if instance.input_types else FLOAT
    return of_outputs(instance) * (_INTEGER_REST if dtype in (INT32, INT64) else _FLOAT_REST)


def patched(instance: ShapedOp) -> int:
    """Nanoseconds, times ten, to copy the patches' numbers: four at a time only where they have channels for that."""
    channels = (at(instance.inputs, 0) or (1,))[-1]
    return elements(at(instance.outputs, 0)) * (_PACKED_PATCH if channels % 4 == 0 else _LONE_PATCH)


def leapt(instance: ShapedOp) -> int:
    """Nanoseconds, times ten, to find each number of a slice that leaps, by its dimensions; others are copied."""
    return elements(at(instance.outputs, 0)) * (28 * len(at(instance.inputs, 0) or (1,)) - 13) * instance.leaping


def taken_rows(instance: ShapedOp) -> int:
    """The rows that Gather takes, each of the dimensions in which the first input and the output end alike."""
    whole, taken = at(instance.inputs, 0) or (), at(instance.outputs, 0) or ()
    row = 1
    for side, other in zip(whole[:0:-1], taken[::-1], strict=False):
        if side != other:
            break
        row *= max(side, 1)
    return elements(taken) // row


def drawn(instance: ShapedOp) -> int:
    """Halvings of the classes that find each sample."""
    return elements(at(instance.outputs, 0)) * dims(at(instance.inputs, 0), 1)[0].bit_length()


def searched(instance: ShapedOp) -> int:
    """Comparisons of a binary search in the rows of the first input, for each number of the second."""
    row = dims(at(instance.inputs, 0), 1)[0]
    return elements(at(instance.inputs, 1)) * row.bit_length()


def put_back(instance: ShapedOp) -> int:
    """Nanoseconds, times ten, to put each number of a slice into its whole, by the dimensions of the slice."""
    slice_ = at(instance.inputs, -1) or (1,)
    return elements(slice_) * max(1, 32 * len(slice_) - 19)


def stitched(instance: ShapedOp) -> int:
    """The rows that lists of indices name, which are the first half of the inputs."""
    return sum(map(elements, instance.inputs[: len(instance.inputs) // 2]))


def _indices(instance: ShapedOp) -> int:
    """The slot of an update's indices, its only vector of integers; its gradient is in the slot before. -1: none."""
    for slot, (dtype, shape) in enumerate(zip(instance.input_types, instance.inputs, strict=False)):
        if base(dtype) in (INT32, INT64) and len(shape or ()) == 1:
            return slot
    return -1


def updated_rows(instance: ShapedOp) -> int:
    """The rows that an optimizer updates, one for each index."""
    slot = _indices(instance)
    return elements(at(instance.inputs, slot)) if slot > 0 else 1


def updated_numbers(instance: ShapedOp) -> int:
    """The numbers of the gradient for these rows."""
    slot = _indices(instance)
    return elements(at(instance.inputs, slot - 1)) if slot > 0 else 1


def chosen(instance: ShapedOp) -> int:
    """The numbers of the first output."""
    return elements(at(instance.outputs, 0))


def features(instance: ShapedOp) -> int:
    """Examples times features; each output is a feature."""
    return elements(at(instance.inputs, 0)) * len(instance.outputs)


def elements_in(instance: ShapedOp) -> int:
    """Elements put into a queue: the rows of the last input."""
    return _rows(at(instance.inputs, -1))


def hashed(instance: ShapedOp) -> int:
    """Nanoseconds to look up each element, a number or a string, in a set."""
    strings = bool(instance.input_types) and base(instance.input_types[0]) == STRING
    return elements(at(instance.inputs, 0)) * (_UNIQUE_STRING if strings else _UNIQUE_NUMBER)


def beams(instance: ShapedOp) -> int:
    """Logits times the beam's width."""
    attr = instance.attrs.get("beam_width")
    width = min(int(attr.i), 2**16) if attr is not None else _BEAM_WIDTH
    return elements(at(instance.inputs, 0)) * max(1, width)


def decoded(instance: ShapedOp) -> int:
    """The samples of the output image; of `IMAGE` where only a run gives its size."""
    shape = at(instance.outputs, 0)
    if shape and -1 not in shape:
        return elements(shape)
    channels = shape[-1] if shape and shape[-1] > 0 else IMAGE[-1]
    frames = [size for size in (shape or ())[:-3] if size > 0]
    return prod(frames) * prod(IMAGE[:2]) * channels


def encoded(instance: ShapedOp) -> int:
    """The samples of the image in the first input; of `IMAGE` where its size is unknown."""
    shape = at(instance.inputs, 0)
    return elements(shape) if shape and -1 not in shape else prod(IMAGE)


def summarised(instance: ShapedOp) -> int:
    """The samples of the images of a summary: the first `max_images` of a batch, three by default."""
    images = at(instance.inputs, 1)
    if not images or -1 in images:
        return prod(IMAGE)
    attr = instance.attrs.get("max_images")
    most = min(images[0], max(1, int(attr.i)) if attr is not None else 3)
    return most * elements(images[1:])


def kept_pairs(instance: ShapedOp) -> int:
    """Pairs of kept boxes: each is compared with those before it. Their number is an input's value."""
    known = not unsized_boxes(instance)
    kept = elements(at(instance.outputs, 0)) if known else min(_KEPT, elements(at(instance.inputs, 1)))
    return kept * kept // 2


def decoded_bytes(instance: ShapedOp) -> int:
    """The bytes of the outputs; `FILE_BYTES` where their number is unknown."""
    return FILE_BYTES if unsized_bytes(instance) else written(instance)


def partitioned(instance: ShapedOp) -> int:
    """Nanoseconds to move each row: a number is copied, a row of several by a slice of a tensor."""
    data, parts = at(instance.inputs, 0), at(instance.inputs, 1)
    return _rows(data) * (_ROW_NS if len(data or ()) > len(parts or (1,)) else _NUMBER_NS)


def sparse_product_ps(instance: ShapedOp) -> int:
    """Picoseconds of a sparse product; from 32 columns on, TensorFlow takes slices of tensors, which cost more."""
    rows, columns = dims(at(instance.inputs, 3), 2)
    wide = (rows if flag(instance, "adjoint_b") else columns) >= _WIDE_COLUMNS
    return sparse_dense_matmul(instance) * (_WIDE_PS if wide else _NARROW_PS)


def _unless_known(words: str, side: str, slot: int, rank: int = 0) -> Callable[[ShapedOp], str]:
    """The words for an assumed size; "" where that input's or output's shape is known, of that rank at least."""

    def assumed(instance: ShapedOp) -> str:
        shape = at(getattr(instance, side), slot)
        return "" if shape is not None and len(shape) >= rank and -1 not in shape else words

    return assumed


# Assumptions of `decoded`, `encoded`, `summarised`, `kept_pairs` and `decoded_bytes`
unsized_output = _unless_known(_IMAGE_WORDS, "outputs", 0, rank=1)
unsized_input = _unless_known(_IMAGE_WORDS, "inputs", 0, rank=1)
unsized_images = _unless_known(_IMAGE_WORDS, "inputs", 1, rank=1)
unsized_boxes = _unless_known("100 boxes that are kept", "outputs", 0)
unsized_bytes = _unless_known(_FILE_WORDS, "outputs", 0)


def unsized_strings(instance: ShapedOp) -> str:
    """The assumption for strings, whose size no graph holds."""
    return "strings of 16 bytes"


def unsized_file(instance: ShapedOp) -> str:
    """The assumption for files, whose size no graph holds."""
    return _FILE_WORDS
