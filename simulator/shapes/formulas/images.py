"""Shapes of images, files and records. Their rules: tensorflow/core/ops/image_ops.cc, io_ops.cc, parsing_ops.cc."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import ceil

from simulator.graph.dtypes import SIZE
from simulator.shapes.dims import SYMBOLS, Dims, Value, as_dim
from simulator.shapes.formulas.elementwise import reduced
from simulator.shapes.formulas.indexing import counted
from simulator.shapes.site import Handle, Outputs, Rule, Site

_PARTITIONS = 3  # the first of the inputs of RaggedTensorToTensor that part its values


def _channels(site: Site) -> int:
    return site.number("channels") or site.fresh()


def encoded(site: Site) -> Outputs:
    """EncodeJpeg and the like: a string, which keeps the size of its picture."""
    site.made[0] = Handle("picture", shapes=(site.shape(0),))
    return ((),)


def decoded(site: Site) -> Outputs:
    """DecodeJpeg and the like: a picture of unknown height and width, if it was not encoded beside."""
    picture = site.handle(0, "picture")
    sides = None if picture is None or site.number("ratio", 1) != 1 else picture.shapes[0]
    if sides is None or len(sides) != 3:
        sides = site.ranked(3)
    return ((*sides[:2], site.number("channels") or sides[2]),)


def decoded_part(site: Site) -> Outputs:
    """DecodeAndCropJpeg: as much of a picture as the second input says."""
    window = site.vector(1, 4)
    height, width = site.pair(None if window is None else window[2:])
    return ((height, width, _channels(site)),)


def decoded_any(site: Site) -> Outputs:
    """DecodeImage: a picture, or the pictures of a film; only the run knows, if it was not encoded beside."""
    alone = not site.flag("expand_animations", True) or site.handle(0, "picture") is not None
    return decoded(site) if alone else (None,)


def decoded_film(site: Site) -> Outputs:
    """DecodeGif: pictures of three channels."""
    return ((site.fresh(), site.fresh(), site.fresh(), 3),)


def decoded_raw(site: Site) -> Outputs:
    """DecodeRaw: a further dimension, as long as the strings."""
    shape = site.shape(0)
    return (None if shape is None else (*shape, site.fresh()),)


def resized(site: Site) -> Outputs:
    """Resizes: height and width are the value of the second input."""
    shape, size = site.input_of_rank(0, 4), site.vector(1, 2)
    height, width = site.pair(size)
    return ((shape[0], height, width, shape[3]),)


def resized_with_range(site: Site) -> Outputs:
    """QuantizedResizeBilinear: the image, then its least and largest number."""
    return (*resized(site), (), ())


def resize_gradient(site: Site) -> Outputs:
    """ResizeBilinearGrad: as the image that was resized, with the examples and channels of the gradient."""
    gradient, image = site.input_of_rank(0, 4), site.input_of_rank(1, 4)
    return ((gradient[0], image[1], image[2], gradient[3]),)


def cropped(site: Site) -> Outputs:
    """CropAndResize: a crop per box, of the size that the fourth input holds."""
    image, boxes, size = site.input_of_rank(0, 4), site.input_of_rank(1, 2), site.vector(3, 2)
    height, width = site.pair(size)
    count, numbers = site.equal(boxes[0], site.input_of_rank(2, 1)[0]), site.value(2)
    if numbers and image[0] > 1 and not len(numbers) % image[0]:  # boxes in order, as many for each picture
        each = len(numbers) // image[0]
        if numbers == tuple([at // each for at in range(len(numbers))]):
            count = site.equal(count, image[0] * each)
    return ((count, height, width, image[3]),)


def crop_gradients(site: Site) -> Outputs:
    """CropAndResizeGradImage: of the size that the last input holds; CropAndResizeGradBoxes: as the boxes."""
    image = site.op == "CropAndResizeGradImage"
    boxes = site.input_of_rank(1 if image else 2, 2)
    numbers = site.input_of_rank(2 if image else 3, 1)
    count = site.equal(site.equal(site.input_of_rank(0, 4)[0], boxes[0]), numbers[0])
    return (site.dims(3),) if image else ((count, boxes[1]),)


def glimpsed(site: Site) -> Outputs:
    """ExtractGlimpse: a window of the size that the second input holds, around an offset for each image."""
    image, size, offsets = site.input_of_rank(0, 4), site.vector(1, 2), site.input_of_rank(2, 2)
    height, width = site.pair(size)
    return ((site.equal(image[0], offsets[0]), height, width, image[3]),)


def suppressed(site: Site) -> Outputs:
    """NonMaxSuppression: as many boxes as are kept; with padding as many as are allowed."""
    most = site.whole(2)
    padded = site.flag("pad_to_max_output_size")
    count = most if most is not None and padded else site.fresh()
    if site.op == "NonMaxSuppressionV4":
        return ((count,), ())
    if site.op == "NonMaxSuppressionV5":
        return ((count,), (count,), ())
    return ((count,),)


def combined_suppressed(site: Site) -> Outputs:
    """CombinedNonMaxSuppression: boxes, scores and classes for each image, and how many count."""
    boxes, scores = site.input_of_rank(0, 4), site.shape(1)
    per_class, most = site.whole(2), site.whole(3)
    if most is None:
        count = site.fresh()
    elif site.flag("pad_per_class"):
        classes = scores[2] if scores is not None and len(scores) == 3 else -1
        count = min(most, per_class * classes) if per_class is not None and classes >= 0 else site.fresh()
    else:
        count = most
    return ((boxes[0], count, 4), (boxes[0], count), (boxes[0], count), (boxes[0],))


def distorted_box(site: Site) -> Outputs:
    """SampleDistortedBoundingBox: where it begins, how large it is, and the box itself."""
    return ((3,), (3,), (1, 1, 4))


def patches(site: Site) -> Outputs:
    """ExtractImagePatches: windows become channels."""
    from simulator.shapes.formulas.neural import windowed

    shape = site.input_of_rank(0, 4)
    ksizes, strides, rates = (site.listed_numbers(name, 4) for name in ("ksizes", "strides", "rates"))
    padding = site.text("padding")
    height, width = (windowed(site, shape[at], ksizes[at], strides[at], padding, (), rates[at]) for at in (1, 2))
    return ((shape[0], height, width, site.algebra.times(shape[3], ksizes[1] * ksizes[2])),)


def parsed(site: Site) -> Outputs:
    """ParseExample: sparse tensors of unknown size, then dense ones of the declared shapes for each example."""
    rows = site.shape(0)
    return _features(site, rows, site.number("Nsparse", site.number("num_sparse")))


def parsed_v2(site: Site) -> Outputs:
    """ParseExampleV2: the same, then ragged tensors."""
    rows = site.shape(0)
    listed = [site.attrs.get(name) for name in ("ragged_value_types", "ragged_split_types")]
    values, splits = [0 if types is None else len(types.list.type) for types in listed]
    ends = site.ranked(1) if rows is None else (rows[0] + 1 if rows and rows[0] >= 0 else site.fresh(),)
    ragged: list[Dims] = [site.ranked(1) for _ in range(values)]
    return [*_features(site, rows, site.number("num_sparse")), *ragged, *[ends] * splits]


def parsed_single(site: Site) -> Outputs:
    """ParseSingleExample: the same of one example."""
    return _features(site, (), site.number("num_sparse"))


def _features(site: Site, rows: Dims, sparse: int) -> Outputs:
    rank = None if rows is None else len(rows) + 1
    counts = [site.fresh() for _ in range(sparse)]
    made: list[Dims] = [(one, site.fresh() if rank is None else rank) for one in counts]
    made += [(one,) for one in counts]
    made += [(site.fresh() if rank is None else rank,) for _ in counts]
    made += [None if rows is None or shape is None else rows + shape for shape in site.listed("dense_shapes")]
    return made


def decoded_lines(site: Site) -> Outputs:
    """DecodeCSV: a column for each field, as long as there are lines."""
    return [site.shape(0)] * site.outputs


def split_strings(site: Site) -> Outputs:
    """StringSplit: a sparse tensor of unknown size."""
    count = site.fresh()
    return ((count, 2), (count,), (2,))


def transformed(site: Site) -> Outputs:
    """ImageProjectiveTransform: the image in the size that the third input holds."""
    image, size = site.input_of_rank(0, 4), site.vector(2, 2)
    if (each := site.shape(1)) and each[0] != 1:
        site.equate(image[0], each[0])  # a transformation for each image, or one for all
    if size is None or min(size) <= SYMBOLS:
        height, width = site.fresh(), site.fresh()
    else:
        height, width = as_dim(size[0]), as_dim(size[1])
    return ((image[0], height, width, image[3]),)


def sparse_to_dense(site: Site) -> Outputs:
    """SparseToDense: the shape that the second input holds."""
    return (site.dims(1),)


def sparse_reordered(site: Site) -> Outputs:
    """SparseReorder: indices and values as they were."""
    site.made.update({0: found} if (found := site.handle(0, "places")) is not None else {})
    return (site.shape(0), site.shape(1))


def sparse_reshaped(site: Site) -> Outputs:
    """SparseReshape: the same number of indices, of the new rank."""
    indices, shape = site.input_of_rank(0, 2), site.input_of_rank(2, 1)
    return ((indices[0], shape[0]), (shape[0],))


def sparse_like_first(site: Site) -> Outputs:
    """SparseAdd and its kind: an unknown number of entries, of the rank of the shape in the third input."""
    count, rank = site.fresh(), site.input_of_rank(2, 1)[0]
    return ((count, rank), (count,), (rank,))


def sparse_joined(site: Site) -> Outputs:
    """SparseConcat: indices, values and shapes of N tensors become one."""
    parts = site.number("N", len(site.shapes) // 3)
    counts = [site.input_of_rank(slot, 2)[0] for slot in range(parts)]
    count = sum(counts) if min(counts, default=-1) >= 0 else site.fresh()
    rank = site.input_of_rank(2 * parts, 1)[0]
    return ((count, rank), (count,), (rank,))


def sparse_crossed(site: Site) -> Outputs:
    """SparseCross: a matrix with an entry per combination of a row's features; sparse ones have any number of them."""
    sparse, dense = site.number("N"), _listed_types(site, "dense_types")
    count = site.fresh() if sparse else _combinations(site, site.shapes[:dense])
    return ((count, 2), (count,), (2,))


def _combinations(site: Site, columns: Sequence[Dims]) -> int:
    """The number of combinations of an element of each of these matrices, over all rows."""
    matrices = [shape for shape in columns if shape is not None and len(shape) == 2]
    if not matrices or len(matrices) < len(columns):
        return site.fresh()
    return site.algebra.product((matrices[0][0], *[columns for _, columns in matrices]))


def sparse_split(site: Site) -> Outputs:
    """SparseSplit: indices of all parts, then their values, then their shapes."""
    parts, rank = site.number("num_split", 1), site.input_of_rank(3, 1)[0]
    counts = [site.fresh() for _ in range(parts)]
    return [*[(count, rank) for count in counts], *[(count,) for count in counts], *[(rank,)] * parts]


def rows_of_sparse(site: Site) -> Outputs:
    """SparseFillEmptyRows: entries, one more for each empty row of known indices, and a truth value per row."""
    entries, rank = site.input_of_rank(0, 2)
    dense, indices = site.dims(2), counted(site, 0)
    site.made.update({0: found} if (found := site.handle(0, "places")) is not None else {})
    rows = dense[0] if dense else site.fresh()
    filled = None if indices is None or min(rows, entries, rank - 1) < 0 else rows - len(set(indices[::rank]))
    count = site.fresh() if filled is None else entries + filled
    return ((count, rank), (count,), (rows,), (site.input_of_rank(1, 1)[0],))


def image_colours(site: Site) -> Outputs:
    """RGBToHSV: three channels come last."""
    shape = site.at_least(site.shape(0), 1)
    return (None if shape is None else (*shape[:-1], site.equal(shape[-1], 3, shape)),)


def proposed(site: Site) -> Outputs:
    """GenerateBoundingBoxProposals: boxes for each image, and how likely each is."""
    images, count = site.input_of_rank(0, 4)[0], site.number("post_nms_topn", 300)
    return ((images, count, 4), (images, count))


def joined_quantised(site: Site) -> Outputs:
    """QuantizedConcat: the tensors behind one axis, joined, then the least and the largest number."""
    from simulator.shapes.formulas.arrays import concat

    parts = site.number("N", (len(site.shapes) - 1) // 3)
    site.shapes, site.values = site.shapes[: parts + 1], site.values[: parts + 1]
    return (*concat(site)[:1], (), ())


def decoded_fixed(site: Site) -> Outputs:
    """DecodePaddedRaw: a further dimension, as long as the second input says in bytes."""
    shape, length = site.shape(0), site.whole(1)
    value = site.attrs.get("out_type")
    width = SIZE.get(0 if value is None else int(value.type), 0)
    count = length // width if length is not None and length >= 0 and width else site.fresh()
    return (None if shape is None else (*shape, count),)


def decoded_sound(site: Site) -> Outputs:
    """DecodeWav: samples of channels, and their rate."""
    samples, channels = site.number("desired_samples", -1), site.number("desired_channels", -1)
    return ((samples if samples >= 0 else site.fresh(), channels if channels >= 0 else site.fresh()), ())


def split_characters(site: Site) -> Outputs:
    """UnicodeDecode: where each string begins, then characters, and then perhaps where these begin."""
    strings, count = site.elements(site.shape(0)), site.fresh()
    splits = strings + 1 if strings >= 0 else site.fresh()
    return [(splits,), *[(count,)] * (site.outputs - 1)]


def joined_characters(site: Site) -> Outputs:
    """UnicodeEncode: a string for each row."""
    splits = site.input_of_rank(1, 1)[0]
    return ((splits - 1 if splits > 0 else site.fresh(),),)


def n_grams(site: Site) -> Outputs:
    """StringNGrams: an unknown number of strings, and where each row begins."""
    return ((site.fresh(),), site.shape(1))


def filled_up(site: Site) -> Outputs:
    """RaggedTensorToTensor: a dimension per partition, then those of the values; the first input may say more.

    Rows are as long as the longest, which partitions of known elements show.
    """
    value, values, wanted = site.attrs.get("row_partition_types"), site.shape(1), site.dims(0)
    kinds = [] if value is None else [bytes(kind) for kind in value.list.s]
    if values is None or not kinds:
        return (wanted,)
    rows = site.algebra.minus(site.input_of_rank(_PARTITIONS, 1)[0], 1) if kinds[0] == b"ROW_SPLITS" else site.fresh()
    lead = [] if kinds[0] == b"FIRST_DIM_SIZE" else [rows]
    for slot, kind in enumerate(kinds, start=_PARTITIONS):
        lead.append(site.single(slot) if kind == b"FIRST_DIM_SIZE" else _longest_row(site, slot, kind))
    return (site.merged((*lead, *values[1:]), wanted),)


def _longest_row(site: Site, slot: int, kind: bytes) -> int:
    found = counted(site, slot)
    if found is None:
        return site.fresh()
    lengths = Counter(found).values() if kind == b"VALUE_ROWIDS" else [int(b - a) for a, b in pairwise(found)]
    return max(lengths, default=0)


def sparse_reduced(site: Site) -> Outputs:
    """SparseReduceSum: as a reduction of the shape that the third input holds along the axes of the fourth."""
    site.shapes, site.values = [site.dims(2), site.shape(3)], [None, site.value(3)]
    return reduced(site)


def per_entry(site: Site) -> Outputs:
    """SparseDenseCwiseMul and the like: a number for each entry."""
    return ((site.input_of_rank(0, 2)[0],),)


def per_sliced_entry(site: Site) -> Outputs:
    """SparseSliceGrad: a number for each entry of the tensor that was sliced, whose indices are the second input."""
    return (site.input_of_rank(1, 2)[:1],)


def serialised_rows(site: Site) -> Outputs:
    """SerializeManySparse: three strings for each row."""
    dense = site.dims(2)
    return ((dense[0] if dense else site.fresh(), 3),)


def sparse_with(rank: Callable[[Site], int]) -> Rule:
    """A sparse tensor with an unknown number of entries, of a rank that follows from the inputs."""

    def rule(site: Site) -> Outputs:
        count, axes = site.fresh(), rank(site)
        return ((count, axes), (count,), (axes,))

    return rule


def any_rank(site: Site) -> int:
    """A rank that only the run knows."""
    return site.fresh()


def matrix_rank(site: Site) -> int:
    """The rank of a matrix."""
    return 2


def rank_of_dense(site: Site) -> int:
    """The rank of the first input."""
    shape = site.shape(0)
    return site.fresh() if shape is None else len(shape)


def rank_of_sparse(site: Site) -> int:
    """The rank of the sparse tensor that the first three inputs are."""
    return site.input_of_rank(2, 1)[0]


def set_sizes(site: Site) -> Outputs:
    """SetSize: a number for each set; these are the last dimension."""
    dense = site.dims(2)
    return (dense[:-1] if dense else None,)


def edited(site: Site) -> Outputs:
    """EditDistance: a number for each pair of sequences; these are the last dimension."""
    a, b = site.dims(2), site.dims(5)
    if a is None or b is None or len(a) != len(b) or not a:
        return (None,)
    return (tuple([max(x, y) if min(x, y) >= 0 else site.fresh() for x, y in zip(a[:-1], b[:-1], strict=True)]),)


def parsed_sequences(site: Site) -> Outputs:
    """ParseSequenceExample: features of each context, then lists of features of each step, and their lengths."""
    rows = site.shape(0)
    if rows is None:
        return ()
    ends: Dims = (site.algebra.plus(site.elements(rows), 1),)
    made: list[Dims] = [*_sparse_lists(site, "context_sparse", len(rows) + 1)]
    made += [rows + shape if shape is not None else None for shape in site.listed("context_dense_shapes")]
    made += [*_ragged_lists(site, "context_ragged", [ends])]
    made += [*_sparse_lists(site, "feature_list_sparse", len(rows) + 2)]
    steps = [None if s is None else (*rows, site.fresh(), *s) for s in site.listed("feature_list_dense_shapes")]
    made += [*steps, *[rows] * len(steps)]
    return [*made, *_ragged_lists(site, "feature_list_ragged", [ends, site.ranked(1)])]


def parsed_sequence(site: Site) -> Outputs:
    """ParseSingleSequenceExample: the same of one example, without lengths."""
    made: list[Dims] = [*_sparse_lists(site, "context_sparse", 1), *site.listed("context_dense_shapes")]
    made += [*_sparse_lists(site, "feature_list_sparse", 2)]
    dense = site.listed("feature_list_dense_shapes")
    return [*made, *[None if shape is None else (site.fresh(), *shape) for shape in dense]]


def _sparse_lists(site: Site, name: str, rank: int) -> Outputs:
    """Indices, values and shapes of an unknown number of entries for each type that the attribute lists."""
    counts = [site.fresh() for _ in range(_listed_types(site, f"{name}_types"))]
    return [*[(one, rank) for one in counts], *[(one,) for one in counts], *[(rank,) for _ in counts]]


def _ragged_lists(site: Site, name: str, splits: list[Dims]) -> Outputs:
    """Values of unknown number for each type that the attribute lists, and where their rows begin."""
    count = _listed_types(site, f"{name}_value_types")
    return [*[site.ranked(1) for _ in range(count)], *[one for one in splits for _ in range(count)]]


def _listed_types(site: Site, name: str) -> int:
    value = site.attrs.get(name)
    return 0 if value is None else len(value.list.type)


def decoded_messages(site: Site) -> Outputs:
    """DecodeProtoV2: how often each field stands in each message, and values up to the largest number."""
    shape, names = site.shape(0), site.attrs.get("field_names")
    if shape is None:
        return ()
    sizes = (*shape, 0 if names is None else len(names.list.s))
    return [sizes, *[(*shape, site.fresh()) for _ in range(site.outputs - 1)]]


def encoded_messages(site: Site) -> Outputs:
    """EncodeProto: a message for each row of sizes."""
    sizes = site.at_least(site.shape(0), 1)
    return (None if sizes is None else sizes[:-1],)


def vocabulary_mapped(site: Site) -> Outputs:
    """GenerateVocabRemapping: a place for each new word, and how many were found."""
    return ((site.number("num_new_vocab"),), ())


def matrix_mapped(site: Site) -> Outputs:
    """LoadAndRemapMatrix: a matrix of the declared size."""
    return ((site.number("num_rows"), site.number("num_cols")),)


def ragged_range(site: Site) -> Outputs:
    """RaggedRange: where the row of each start begins, and all numbers; single starts, ends and steps are stretched."""
    given = [shape for shape in (site.at_most(slot, 1) for slot in range(3)) if shape != ()]
    vectors = [shape for shape in given if shape is not None]
    rows = vectors[0][0] if vectors else site.fresh() if given else 1
    for shape in vectors[1:]:
        rows = site.equal(rows, shape[0])
    counts = lengths_of_ranges(site)
    return ((site.algebra.plus(rows, 1),), (site.fresh() if counts is None else sum(counts),))


def lengths_of_ranges(site: Site) -> list[int] | None:
    """The length of each row of a RaggedRange whose starts, ends and steps are known."""
    known = [counted(site, slot) for slot in range(3)]
    given = [one for one in known if one is not None]
    rows = max(map(len, given), default=0)
    if len(given) < len(known) or any(len(one) not in (1, rows) for one in given) or not all(given[2]):
        return None
    each = zip(*[one * rows if len(one) == 1 else one for one in given], strict=False)
    return [max(0, ceil((end - start) / step)) for start, end, step in each]


def ragged_gathered(site: Site) -> Outputs:
    """RaggedGather: where rows begin for each dimension of the indices, and then within; and rows of the values."""
    within, splits = site.number("PARAMS_RAGGED_RANK", 1), site.number("OUTPUT_RAGGED_RANK")
    values, index = site.at_least(site.shape(within), 1), site.shape(within + 1)
    made: list[Dims] = []
    rows = 1
    for side in index or ():
        rows = site.algebra.times(rows, side)
        made.append((site.algebra.plus(rows, 1),))
    made = [*made[:splits], *[site.ranked(1) for _ in range(splits - len(made))]]
    parts, places = [counted(site, slot) for slot in range(within)], counted(site, within + 1)
    known = [part for part in parts if part is not None]
    count = _gathered_rows(known, places) if places is not None and len(known) == within else None
    return [*made, None if values is None else (site.fresh() if count is None else count, *values[1:])]


def _gathered_rows(splits: Sequence[Value], places: Value) -> int | None:
    """The number of values in these rows of a ragged tensor; None where one is none of its rows."""
    total = 0
    for place in map(as_dim, places):
        begin, end = place, place + 1
        for part in splits:
            if not 0 <= begin <= end < len(part):
                return None
            begin, end = as_dim(part[begin]), as_dim(part[end])
        total += end - begin
    return total


def ragged_as_sparse(site: Site) -> Outputs:
    """RaggedTensorToSparse: an entry for each element, with a place in each dimension."""
    splits = site.number("RAGGED_RANK", 1)
    values = site.at_least(site.shape(splits), 1)
    count = site.elements(values)
    rank = site.fresh() if values is None else len(values) + splits
    return ((count, rank), (count,), (rank,))


def ragged_as_variant(site: Site) -> Outputs:
    """RaggedTensorToVariant: a variant for each row, or for all of them."""
    if not site.flag("batched_input"):
        return ((),)
    return ((site.algebra.minus(site.input_of_rank(0, 1)[0], 1),),)


def ragged_of_variant(site: Site) -> Outputs:
    """RaggedTensorFromVariant: where rows begin; only the run knows the values."""
    return [site.ranked(1) for _ in range(site.number("output_ragged_rank"))]


def ragged_filled(site: Site) -> Outputs:
    """RaggedFillEmptyRows: rows and values of an unknown number, a truth for each row, and where values went."""
    count, rows = site.fresh(), site.whole(2)
    return ((count,), (count,), (site.fresh() if rows is None else rows,), site.shape(0))


def ragged_crossed(site: Site) -> Outputs:
    """RaggedCross: a value per combination of a row's features, and where the rows of the batch begin."""
    ragged, dense = _listed_types(site, "ragged_values_types"), _listed_types(site, "dense_types")
    fixed = not ragged and not site.number("Nsparse")
    ends: Dims = None
    for slot in range(ragged, 2 * ragged):
        ends = site.merged(ends, site.shape(slot))
    for slot in range(len(site.shapes) - dense, len(site.shapes)):
        if shape := site.shape(slot):
            ends = site.merged(ends, (site.algebra.plus(shape[0], 1),))
    count = _combinations(site, site.shapes[len(site.shapes) - dense :]) if fixed else site.fresh()
    return ((count,), site.ranked(1) if ends is None else ends)


def entries_added_back(site: Site) -> Outputs:
    """SparseAddGrad: a number for each entry of both sparse tensors."""
    return (site.input_of_rank(1, 2)[:1], site.input_of_rank(2, 2)[:1])


def filled_back(site: Site) -> Outputs:
    """SparseFillEmptyRowsGrad: a number for each entry that there was, and one for the default."""
    return (site.input_of_rank(0, 1), ())


def entries_counted(site: Site) -> Outputs:
    """SparseBincount: bins, for each row of a sparse matrix."""
    shape, bins = site.value(2), site.single(3)
    if shape is None:
        return (None,)
    return ((*[as_dim(one) for one in shape[:-1]], bins),)


def unbatched(site: Site) -> Outputs:
    """Unbatch: rows of one of the batched tensors."""
    shape = site.at_least(site.shape(0), 1)
    return (None if shape is None else (site.fresh(), *shape[1:]),)


def unbatched_back(site: Site) -> Outputs:
    """UnbatchGrad: gradients of the rank of those that come in."""
    shape = site.shape(2)
    return (None if shape is None else site.ranked(len(shape)),)


def batched(site: Site) -> Outputs:
    """Batch: rows of several calls, whose they are, and an id."""
    rows = site.fresh()
    return [*[None if not shape else (rows, *shape[1:]) for shape in site.shapes], (site.fresh(), 3), ()]


def quasi_random(site: Site) -> Outputs:
    """SobolSample: as many points as the second input says, of as many numbers as the first one says."""
    return ((site.single(1), site.single(0)),)


def volumes(site: Site) -> Outputs:
    """ExtractVolumePatches: windows become channels."""
    from simulator.shapes.formulas.neural import windowed

    shape = site.input_of_rank(0, 5)
    ksizes, strides = (site.listed_numbers(name, 5) for name in ("ksizes", "strides"))
    padding = site.text("padding")
    sides = [windowed(site, shape[at], ksizes[at], strides[at], padding) for at in (1, 2, 3)]
    return ((shape[0], *sides, site.algebra.times(shape[4], ksizes[1] * ksizes[2] * ksizes[3])),)


def fingerprints(site: Site) -> Outputs:
    """SdcaFprint: two numbers for each text."""
    return ((*site.input_of_rank(0, 1), 2),)
