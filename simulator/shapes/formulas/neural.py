"""Shapes of the ops of neural networks. Rules: tensorflow/core/framework/common_shape_fns.cc and ops/nn_ops.cc."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.shapes.dims import SYMBOLS, Dims, as_dim
from simulator.shapes.site import Outputs, Rule, ShapeError, Site

_CHANNELS_FIRST = ("NCHW", "NCDHW", "CHANNELS_FIRST", "NCW")


def windowed(
    site: Site, size: int, window: int, stride: int, padding: str, pads: Sequence[int] = (), dilation: int = 1
) -> int:
    """The number of windows along a dimension (`GetWindowedOutputSizeFromDimsV2`)."""
    if stride <= 0:
        raise ShapeError(f"stride must be > 0, but got {stride}")
    if dilation < 1:
        raise ShapeError(f"dilation rate must be >= 1, but got {dilation}")
    algebra = site.algebra
    if padding == "SAME":
        return algebra.ceil_divided(size, stride)
    if window < 0:
        return site.fresh()
    extent = (window - 1) * dilation + 1
    wide = algebra.plus(size, sum(pads)) if padding == "EXPLICIT" else size
    left = algebra.minus(wide, extent)
    if SYMBOLS < left < 0:
        raise ShapeError(f"negative dimension size caused by subtracting {extent} from {wide}")
    return algebra.floor_divided(algebra.plus(left, stride), stride)


def _spatial(form: str, rank: int) -> tuple[int, list[int]]:
    """The axis of the channels, and those of space."""
    if form in _CHANNELS_FIRST:
        return 1, list(range(2, rank))
    return rank - 1, list(range(1, rank - 1))


def _convolved(site: Site, depthwise: bool) -> Dims:
    form = site.text("data_format") or ("NHWC" if "2" in site.op or "2d" in site.op else "NDHWC")
    if form == "NCHW_VECT_C":
        return site.ranked(5)
    filters = site.shape(1)
    rank = 5 if "3D" in site.op else 4
    if site.op == "Conv":  # of any dimension
        rank = len(site.at_least(filters, 3) or site.at_least(site.shape(0), 3) or ())
        if not rank:
            return None
        form = site.text("data_format", "CHANNELS_LAST")
    shape, filters = site.input_of_rank(0, rank), site.input_of_rank(1, rank)
    channels, space = _spatial(form, rank)
    strides, dilations = site.numbers("strides"), site.numbers("dilations") or [1] * rank
    pads, padding = site.numbers("explicit_paddings"), site.text("padding")
    if len(strides) != rank or len(dilations) != rank:
        raise ShapeError(f"{site.op} needs {rank} strides and dilations, not {len(strides)} and {len(dilations)}")
    made = list(shape)
    for at, axis in enumerate(space):
        own = pads[2 * axis : 2 * axis + 2]
        made[axis] = windowed(site, shape[axis], filters[at], strides[axis], padding, own, dilations[axis])
    if depthwise:
        site.equal(shape[channels], filters[2], shape, filters)
        made[channels] = site.algebra.times(filters[2], filters[3])
        return tuple(made)
    site.equate(shape[channels], filters[-2])
    if min(shape[channels], filters[-2]) > 0 and shape[channels] % filters[-2]:
        raise ShapeError(f"depth of input ({shape[channels]}) is not a multiple of that of filters ({filters[-2]})")
    made[channels] = filters[-1]
    return tuple(made)


def convolution(site: Site) -> Outputs:
    """Convolutions, of which a filter may see a group of the channels."""
    return (_convolved(site, depthwise=False),)


def depthwise(site: Site) -> Outputs:
    """Depthwise convolutions: a number of filters for each channel."""
    return (_convolved(site, depthwise=True),)


def convolution_gradient(rank: int, sizes: int) -> Rule:
    """The forward shape, which an input holds; of the input of a Conv2D its height and width are enough."""

    def rule(site: Site) -> Outputs:
        shape = site.dims(sizes)
        if shape is not None and len(shape) == 2 and site.op == "Conv2DBackpropInput":
            back, filters = site.input_of_rank(2, 4), site.input_of_rank(1, 4)
            first = site.text("data_format", "NHWC") == "NCHW"
            return ((back[0], filters[2], *shape) if first else (back[0], *shape, filters[2]),)
        if shape and sizes == 0:
            site.equate_all(shape[:1], site.input_of_rank(2, rank)[:1])
        return (site.of_rank(shape, rank),)

    return rule


def dilation(site: Site) -> Outputs:
    """Dilation2D: the largest sum in windows that are spread by `rates`."""
    shape, filters = site.input_of_rank(0, 4), site.input_of_rank(1, 3)
    strides, rates = (site.listed_numbers(name, 4) for name in ("strides", "rates"))
    padding = site.text("padding")
    height, width = (
        windowed(site, shape[at + 1], filters[at], strides[at + 1], padding, (), rates[at + 1]) for at in (0, 1)
    )
    return ((shape[0], height, width, site.equal(shape[3], filters[2])),)


def pooled(rank: int) -> Rule:
    """Pools over windows of the size `ksize`."""

    def rule(site: Site) -> Outputs:
        return [_pooled(site, rank, site.numbers("ksize"), site.numbers("strides"))] * site.outputs

    return rule


def pooled_v2(site: Site) -> Outputs:
    """MaxPoolV2: window and strides are inputs."""
    ksize, strides = site.wholes(1), site.wholes(2)
    if ksize is None or strides is None:
        return (site.ranked(4),)
    return (_pooled(site, 4, ksize, strides),)


def _pooled(site: Site, rank: int, ksize: Sequence[int], strides: Sequence[int]) -> Dims:
    form = site.text("data_format") or "NHWC"
    if form == "NCHW_VECT_C":
        return site.ranked(5)
    shape = site.input_of_rank(0, rank)
    if len(ksize) != rank or len(strides) != rank:
        raise ShapeError(f"{site.op} needs {rank} window sizes and strides, not {len(ksize)} and {len(strides)}")
    channels, space = _spatial(form, rank)
    made, pads = list(shape), site.numbers("explicit_paddings")
    for axis in (*space, channels):
        if axis == channels and ksize[axis] == strides[axis] == 1:
            continue
        if axis == channels:  # depth-wise pooling
            made[axis] = windowed(site, shape[axis], ksize[axis], strides[axis], site.text("padding"))
            continue
        own = pads[2 * axis : 2 * axis + 2]
        made[axis] = windowed(site, shape[axis], ksize[axis], strides[axis], site.text("padding"), own)
    return tuple(made)


def mean_pool_gradient(site: Site) -> Outputs:
    """AvgPoolGrad: the forward shape, which the first input holds, with the examples of the gradient."""
    site.input_of_rank(0, 1)
    shape, gradient = site.dims(0), site.shape(1)
    if shape and gradient:
        site.equate_all(shape[:1], gradient[:1])
    return (shape,)


def cudnn_weights(site: Site) -> Outputs:
    """CudnnRNNParamsToCanonical: matrices, then vectors, of sizes that only the run knows."""
    weights = site.number("num_params", site.number("num_params_weights", site.outputs))
    biases = site.outputs - weights
    return [*[site.ranked(2) for _ in range(weights)], *[site.ranked(1) for _ in range(biases)]]


def fractionally_pooled(site: Site) -> Outputs:
    """FractionalMaxPool: each dimension divided by its ratio and rounded down; borders around and between these.

    TensorFlow's rule says a border less than the kernel makes (tensorflow/core/kernels/fractional_max_pool_op.cc).
    """
    shape = site.input_of_rank(0, 4)
    ratios = site.attrs["pooling_ratio"].list.f if "pooling_ratio" in site.attrs else ()
    if len(ratios) != 4:
        raise ShapeError(f"pooling_ratio has {len(ratios)} elements, not 4")
    made = [
        side if ratio == 1 else int(side / ratio) if side >= 0 else site.fresh()
        for side, ratio in zip(shape, ratios, strict=True)
    ]
    return (tuple(made), (site.algebra.plus(made[1], 1),), (site.algebra.plus(made[2], 1),))


def fake_quantised_back(site: Site) -> Outputs:
    """FakeQuantWithMinMaxVarsGradient: as the gradients and the inputs, then both limits."""
    limits = site.merged(site.shape(2), site.shape(3))
    return (site.merged(site.shape(0), site.shape(1)), limits, limits)


def batch_normalized(site: Site) -> Outputs:
    """FusedBatchNorm: the normalised tensor, and a vector over the channels for each further output."""
    form = site.text("data_format", "NHWC")
    shape: Dims = site.input_of_rank(0, 5 if "D" in form else 4)
    channels = (shape or ())[1 if form in _CHANNELS_FIRST else -1]
    for slot in range(1, 5):
        sides = site.input_of_rank(slot, 1)
        if slot < 3 or not site.flag("is_training", True):
            channels = site.equal(channels, sides[0], shape, site.shape(slot))
    if shape is not None:
        at = 1 if form in _CHANNELS_FIRST else len(shape) - 1
        shape = (*shape[:at], channels, *shape[at + 1 :])
    vectors = [(channels,)] * min(4, site.outputs - 1)
    return (shape, *vectors)


def batch_normalized_gradient(site: Site) -> Outputs:
    """FusedBatchNormGrad: as the gradient, a vector over the channels twice, and two outputs that are reserved."""
    shape = site.at_least(site.agreed((0, 1)), 4)
    channels = site.fresh()
    if shape is not None:
        at = 1 if site.text("data_format") in _CHANNELS_FIRST else len(shape) - 1
        channels = shape[at]
        scale = site.shape(2)
        if scale is not None and len(scale) == 1:
            channels = site.equal(channels, scale[0], shape, scale)
            shape = (*shape[:at], channels, *shape[at + 1 :])
    return (shape, (channels,), (channels,), (0,), (0,))


def biased(site: Site) -> Outputs:
    """BiasAdd: the second input has an element per channel."""
    shape, bias = site.shape(0), site.input_of_rank(1, 1)
    if shape is None:
        return (None,)
    site.at_least(shape, 2)
    at = 1 if site.text("data_format") in _CHANNELS_FIRST and len(shape) > 2 else len(shape) - 1
    return ((*shape[:at], site.equal(shape[at], bias[0], shape, bias), *shape[at + 1 :]),)


def bias_gradient(site: Site) -> Outputs:
    """BiasAddGrad: an element per channel."""
    shape = site.at_least(site.shape(0), 2)
    if shape is None:
        return (site.ranked(1),)
    return ((shape[1 if site.text("data_format") in _CHANNELS_FIRST and len(shape) > 2 else -1],),)


def cross_entropy(site: Site) -> Outputs:
    """SoftmaxCrossEntropyWithLogits: a loss per row, and the gradient of the logits."""
    sides = site.of_rank(site.broadcast(site.input_of_rank(0, 2), site.input_of_rank(1, 2)), 2)
    return (sides[:1], sides)


def sparse_cross_entropy(site: Site) -> Outputs:
    """SparseSoftmaxCrossEntropyWithLogits: labels are one number per row."""
    sides, labels = site.input_of_rank(0, 2), site.input_of_rank(1, 1)
    rows = site.equal(sides[0], labels[0], sides, labels)
    return ((rows,), (rows, sides[1]))


def cell(site: Site) -> Outputs:
    """LSTMBlockCell: seven outputs of examples by units."""
    shape = site.agreed((1, 2))
    return [site.of_rank(shape, 2)] * site.outputs


def sequence(site: Site) -> Outputs:
    """BlockLSTM: seven outputs of time by examples by units; the peephole weights have one number per unit."""
    inputs, units = site.input_of_rank(1, 3), site.input_of_rank(-1, 1)
    quarter = site.algebra.quotient(units[0], 4)
    return [(inputs[0], inputs[1], site.fresh() if quarter is None else quarter)] * site.outputs


def gated_cell(site: Site) -> Outputs:
    """GRUBlockCell: four outputs of examples by units, r and u and c and h."""
    return [site.input_of_rank(1, 2)] * site.outputs


def cell_back(site: Site) -> Outputs:
    """LSTMBlockCellGrad: gradients of the state, of its four gates beside each other, and of the peephole weights."""
    rows, units = site.input_of_rank(0, 2)[0], site.input_of_rank(1, 2)[1]
    return ((rows, units), (rows, site.algebra.times(units, 4)), (units,), (units,), (units,))


def gated_cell_back(site: Site) -> Outputs:
    """GRUBlockCellGrad: gradients of the input, of the state, and of the gates: c, then r and u beside each other."""
    inputs, units = site.input_of_rank(0, 2), site.input_of_rank(1, 2)[1]
    state = (inputs[0], units)
    return (inputs, state, state, (inputs[0], site.input_of_rank(2, 2)[1]))


def cudnn_rnn(site: Site) -> Outputs:
    """CudnnRNN: outputs per step, then hidden and cell states; workspace comes last."""
    inputs, hidden = site.input_of_rank(0, 3), site.input_of_rank(1, 3)
    both = site.text("direction", "unidirectional") == "bidirectional"
    units = site.algebra.times(hidden[2], 2 if both else 1)
    lstm = site.text("rnn_mode", "lstm") == "lstm"
    return ((inputs[0], inputs[1], units), hidden, hidden if lstm else None)


def connectionist_loss(site: Site) -> Outputs:
    """CTCLoss: a loss per example, and the gradient of the inputs (time, examples, classes)."""
    shape, rows = _sequences(site, 3)
    return ((rows,), (shape[0], rows, shape[2]))


def greedy_decoded(site: Site) -> Outputs:
    """CTCGreedyDecoder: a sparse tensor, and a probability per example."""
    count, rows = site.fresh(), _sequences(site, 1)[1]
    return ((count, 2), (count,), (2,), (rows, 1))


def beams_decoded(site: Site) -> Outputs:
    """CTCBeamSearchDecoder: sparse tensors for each of the best paths, and their probabilities."""
    rows, paths = _sequences(site, 1)[1], site.number("top_paths", 1)
    counts = [site.fresh() for _ in range(paths)]
    parts = ([(one, 2) for one in counts], [(one,) for one in counts], [(2,)] * paths)
    return [*parts[0], *parts[1], *parts[2], (rows, paths)]


def _sequences(site: Site, lengths: int) -> tuple[tuple[int, ...], int]:
    """The inputs (time, examples, classes), and the number of examples, as a slot has their lengths, too."""
    shape, told = site.input_of_rank(0, 3), site.shape(lengths)
    return shape, site.equal(shape[1], told[0]) if told is not None and len(told) == 1 else shape[1]


def sampled(site: Site) -> Outputs:
    """Candidate samplers: the candidates, and how often each of the true classes and of them is expected."""
    count = site.number("num_sampled")
    rows = site.input_of_rank(0, 2)[0]
    return ((count,), (rows, site.number("num_true", 1)), (count,))


def padded_convolution(paddings: int) -> Rule:
    """FusedPadConv2D: a convolution of what is resized and padded first; an input has the paddings."""

    def rule(site: Site) -> Outputs:
        image, by = site.input_of_rank(0, 4), site.vector(paddings, 8)
        if paddings == 2:  # a size comes before the paddings
            size = site.vector(1, 2)
            height, width = site.pair(size)
            image = (image[0], height, width, image[3])
        sides = []
        for at, side in enumerate(image):
            more = None if by is None or min(by[2 * at : 2 * at + 2]) < 0 else as_dim(by[2 * at] + by[2 * at + 1])
            sides.append(side if more == 0 else site.fresh() if more is None or side < 0 else side + more)
        site.shapes = [tuple(sides), site.shape(paddings + 1)]
        return convolution(site)

    return rule


def quantised_back(site: Site) -> Outputs:
    """QuantizeAndDequantizeV4Grad: a gradient for the numbers, the least and the largest one."""
    limits = site.agreed((2, 3))
    return (site.agreed((0, 1)), limits, limits)
