"""Shapes of slices, gathers, scatters and segments. Their rules: tensorflow/core/ops/array_ops.cc and state_ops.cc."""

from __future__ import annotations

from simulator.shapes.dims import SYMBOLS, Dims, Value, as_dim, known
from simulator.shapes.ranges import bounds
from simulator.shapes.site import Handle, Outputs, Rule, ShapeError, Site, written


def sliced(site: Site) -> Outputs:
    """Slice: sizes from begins on; a size of -1 is all that is left."""
    shape, rank = site.shape(0), _common_rank(site)
    if rank is None:
        return (None,)
    sides, begins, sizes = site.input_of_rank(0, rank), site.vector(1, rank), site.vector(2, rank)
    if sizes is None:
        return (site.ranked(rank),)
    made = []
    for at, side in enumerate(sides):
        size = as_dim(sizes[at])
        begin = site.fresh() if begins is None else as_dim(begins[at])
        if size == -1:
            size = side if begin == 0 else site.algebra.minus(side, begin)
        elif begin >= 0 and begin + size == side:
            site.equate(begin + size, side)  # a slice to the end stays one
        elif begin < 0 and size == side:
            site.equate(size, side)  # as does a slice of all, which begins at 0 whatever its begin is called
        if SYMBOLS < size < 0 or (min(size, side, begin) >= 0 and begin + size > side):
            raise ShapeError(f"a slice of {size} from {begin} on does not fit dimension {at} of {written(shape)}")
        made.append(size)
    return (tuple(made),)


def _common_rank(site: Site) -> int | None:
    if (shape := site.shape(0)) is not None:
        return len(shape)
    for slot in (1, 2):
        if (rank := site.length(slot)) is not None:
            return rank
    return None


def strided(site: Site) -> Outputs:
    """StridedSlice: as `ValidateStridedSliceOp` of tensorflow/core/util/strided_slice_op.cc."""
    shape = site.shape(0)
    for slot in range(1, 4):
        site.input_of_rank(slot, 1)
    site.agreed((1, 2, 3))
    entries = strided_entries(site, shape)
    return (None,) if entries is None else (tuple([entry[3] for entry in entries if entry[0] != "drop"]),)


def strided_gradient(site: Site) -> Outputs:
    """StridedSliceGrad: the shape that was sliced, which the first input holds.

    TensorFlow's rule says no more; its kernel refuses a gradient (slot 4) of another shape than the slice.
    """
    whole = site.dims(0)
    entries = strided_entries(site, whole)
    if entries is not None:
        site.equate_all([entry[3] for entry in entries if entry[0] != "drop"], site.shape(4))
    return (whole,)


# The way of one dimension through a slice: ("keep", begin, stride, size), ("drop", index, 1, 1), ("new", 0, 1, 1)
_Entry = tuple[str, int, int, int]


def strided_entries(site: Site, shape: Dims) -> list[_Entry] | None:
    """The part of each dimension that a strided slice takes, in the order of the result; None: the shape is not known.

    Begins, ends and strides are the three inputs behind the first one.
    """
    begins, ends, strides = (site.value(slot) for slot in (1, 2, 3))
    count = _length(site)
    if count is None or shape is None:
        return None
    masks = {name: site.number(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    ellipsis = masks["ellipsis"]
    if ellipsis & (ellipsis - 1):
        raise ShapeError("multiple ellipses in slice spec not allowed")
    after = bin(masks["new_axis"] & ~((ellipsis << 1) - 1) if ellipsis else 0).count("1")
    entries: list[_Entry] = []
    at = 0
    for place in range(count):
        bit = 1 << place
        if ellipsis & bit:
            new = bin(masks["new_axis"] >> (place + 1)).count("1") if ellipsis else after
            left = len(shape) - at - (count - place - 1 - new)
            for _ in range(max(0, left)):
                entries.append(("keep", 0, 1, shape[at]))
                at += 1
        elif masks["new_axis"] & bit:
            entries.append(("new", 0, 1, 1))
        else:
            if at >= len(shape):
                raise ShapeError(f"index out of range using input dim {at}; input has only {len(shape)} dims")
            numbers = [SYMBOLS if one is None else as_dim(one[place]) for one in (begins, ends, strides)]
            numbers[2] = int(numbers[2])  # no batch
            entries.append(_taken(site, shape[at], numbers, masks, bit))
            at += 1
    entries += [("keep", 0, 1, side) for side in shape[at:]]
    return entries


def _length(site: Site) -> int | None:
    """The number of begins, ends and strides, which are equally many; None: nothing says it."""
    slots = (1, 2, 3)
    known = next((len(value) for slot in slots if (value := site.value(slot)) is not None), None)
    if known is None:
        return next((length for slot in slots if (length := site.length(slot)) is not None), None)
    for slot in slots:
        site.vector(slot, known)
    return known


def _taken(site: Site, side: int, numbers: list[int], masks: dict[str, int], bit: int) -> _Entry:
    """The part of one dimension that is taken."""
    begin, end, stride = numbers
    if stride == 0:
        raise ShapeError("strides must be non-zero")
    if masks["shrink_axis"] & bit:
        if begin > SYMBOLS and side >= 0 and not -side <= begin < side:
            raise ShapeError(f"slice index {begin} of dimension {side} out of bounds")
        return "drop", begin + side if SYMBOLS < begin < 0 <= side else begin, 1, 1
    open_begin, open_end = bool(masks["begin"] & bit), bool(masks["end"] & bit)
    if stride <= SYMBOLS:
        return "keep", SYMBOLS, SYMBOLS, site.fresh()
    if open_begin and open_end:
        size = side if stride in (1, -1) else _steps(site, side, abs(stride))
        return "keep", 0 if stride > 0 else _last(site, side), stride, size
    if side >= 0 and (begin > SYMBOLS or open_begin) and (end > SYMBOLS or open_end):
        low, high = (0, side) if stride > 0 else (-1, side - 1)
        start = (low if stride > 0 else high) if open_begin else _clipped(begin, side, low, high)
        stop = (high if stride > 0 else low) if open_end else _clipped(end, side, low, high)
        if start == 0 and stop == side > 1:
            site.equate(stop, side)  # a slice of all stays one
        return "keep", start, stride, max(0, -(-(stop - start) // stride))
    if stride == 1 and (open_begin or begin == 0) and end == side:
        return "keep", 0, 1, side
    if stride > 0 and (moved := _within(site, side, 0 if open_begin else begin, side if open_end else end)) is not None:
        return "keep", begin, stride, site.algebra.ceil_divided(moved, stride)
    same_end = min(begin, end) > SYMBOLS and (begin < 0) == (end < 0) and not open_begin and not open_end
    if same_end and ((end <= begin) if stride > 0 else (end >= begin)):
        return "keep", begin, stride, 0
    return "keep", SYMBOLS, stride, site.fresh()


def _within(site: Site, side: int, begin: int, end: int) -> int | None:
    """The known size of a slice that a loop's counter moves, where no iteration moves it beyond the dimension."""
    size = site.algebra.minus(end, begin)
    if side < 0 or size < 0 or bounds(site, begin)[0] < 0 or bounds(site, end)[1] > side:
        return None
    return size


def _clipped(index: int, side: int, low: int, high: int) -> int:
    return min(max(index + side if index < 0 else index, low), high)


def _steps(site: Site, side: int, stride: int) -> int:
    return -(-side // stride) if side >= 0 else site.algebra.ceil_divided(side, stride)


def _last(site: Site, side: int) -> int:
    return side - 1 if side >= 0 else site.algebra.minus(side, 1)


def gathered(site: Site) -> Outputs:
    """Gather: a row of the first input for each index."""
    shape, index = site.at_least(site.shape(0), 1), site.shape(1)
    return (None if shape is None or index is None else index + shape[1:],)


def gathered_v2(site: Site) -> Outputs:
    """GatherV2: slices along the axis that the third input names, within `batch_dims`."""
    shape, index, axis = site.shape(0), site.shape(1), site.whole(2)
    batch = site.number("batch_dims")
    if shape is None or index is None:
        return (None,)
    if batch < 0:
        batch += len(index)
    if axis is None:
        return (site.ranked(len(shape) + len(index) - 1 - batch),)
    at = site.axis(axis, len(shape))
    if not 0 <= batch <= min(at, len(index)):
        raise ShapeError(f"batch_dims {batch} must be within axis {at} and the rank {len(index)} of the indices")
    lead = site.merged(shape[:batch], index[:batch]) or ()
    return (lead + shape[batch:at] + index[batch:] + shape[at + 1 :],)


def gathered_nd(site: Site) -> Outputs:
    """GatherNd: the last dimension of the indices is a place in the first input."""
    shape, index = site.shape(0), site.at_least(site.shape(1), 1)
    if shape is None or index is None or index[-1] < 0:
        return (None,)
    if index[-1] > len(shape):
        raise ShapeError(f"indices of {index[-1]} dimensions for {written(shape)}")
    return (index[:-1] + shape[index[-1] :],)


def of_variable(rule: Rule) -> Rule:
    """Another rule, applied to the variable that the first input refers to."""

    def held(site: Site) -> Outputs:
        handle = site.handle(0, "variable")
        site.shapes = [handle.shapes[0] if handle is not None and handle.shapes else None, *site.shapes[1:]]
        return rule(site)

    return held


def resource_gathered(site: Site) -> Outputs:
    """ResourceGather: rows of a variable, within `batch_dims`."""
    shape, index, batch = site.shape(0), site.shape(1), site.number("batch_dims")
    if shape is None or index is None:
        return (None,)
    return (index + (site.at_least(shape, batch + 1) or ())[batch + 1 :],)


def scattered_into(site: Site) -> Outputs:
    """ScatterNd: the shape that the third input holds."""
    whole = site.dims(2)
    _one_for_each_place(site, whole, 0)
    return (whole,)


def scattered_nd(site: Site) -> Outputs:
    """TensorScatterUpdate and its kind: the first input; the last dimension of the indices is a place in it."""
    _one_for_each_place(site, site.shape(0), 1)
    return (site.shape(0),)


def _one_for_each_place(site: Site, whole: Dims, slot: int) -> None:
    """Note that the updates, after the indices, have a slice of the whole for each place (`ScatterNdShapeHelper`)."""
    index, updates = site.shape(slot), site.shape(slot + 1)
    if index and updates:  # a scalar goes to each place
        lead = len(index) - 1
        site.merged(index[:-1], updates[:lead])
        if whole is not None and index[-1] >= 0:
            site.merged(whole[index[-1] :], updates[lead:])


def scattered_by_row(site: Site) -> Outputs:
    """ScatterUpdate and its kind: the first input; the updates have a row of it for each index."""
    whole, index, updates = site.at_least(site.shape(0), 1), site.shape(1), site.shape(2)
    if whole is not None and index is not None and updates:  # a scalar goes to each row
        site.merged(index + whole[1:], updates)
    return (whole,)


def places(site: Site) -> Outputs:
    """Where: a row per true element, which only a known value counts, with a place in each dimension."""
    shape, value = site.shape(0), counted(site, 0)
    if shape is not None:
        site.made[0] = Handle("places", shapes=(shape,))
    count = site.fresh() if value is None else sum(map(bool, value))
    return ((count, site.fresh() if shape is None else len(shape)),)


def unique(site: Site) -> Outputs:
    """Unique: the different elements, which only a known value counts, and for each element its place among them."""
    (size,), value = site.input_of_rank(0, 1), counted(site, 0)
    count = site.fresh() if value is None else len(set(value))
    return ((count,), (size,), (count,))


def counted(site: Site, slot: int) -> Value | None:
    """The elements of an input whose values give a size, if all are known.

    The numbers of a file do not show how such a size hangs on its batch, so it is unknown while origins are traced.
    """
    found = site.value(slot)
    return found if found is not None and known(found) and site.origins is None else None


def unique_v2(site: Site) -> Outputs:
    """UniqueV2: the same along the axis that the second input names."""
    shape, axes = site.shape(0), site.wholes(1)
    count = site.fresh()
    if shape is None or axes is None:
        return (None, site.ranked(1), (count,))
    if not axes:
        return ((count,), (site.of_rank(shape, 1)[0],), (count,))
    at = site.axis(axes[0], len(shape))
    return ((*shape[:at], count, *shape[at + 1 :]), (shape[at],), (count,))


def top(site: Site) -> Outputs:
    """TopK: as many elements of the last dimension as are asked for, and their places."""
    shape = site.at_least(site.shape(0), 1)
    count = site.number("k") if site.op == "TopK" else site.single(1)
    if shape is None:
        return (None, None)
    if count == shape[-1]:
        site.equate(count, shape[-1])  # a sort of all stays one
    if count >= 0 and 0 <= shape[-1] < count:
        raise ShapeError(f"input must have last dimension >= k = {count} but is {shape[-1]}")
    return ((*shape[:-1], count), (*shape[:-1], count))


def categories(site: Site) -> Outputs:
    """Multinomial: for each row of logits as many samples as the second input says."""
    return ((site.input_of_rank(0, 2)[0], site.single(1)),)


def shuffled_index(site: Site) -> Outputs:
    """RandomIndexShuffle: a number for each index, seed and end; single ones are stretched."""
    inputs = site.shape(0), None if site.shape(1) is None else (site.shape(1) or ())[:-1], site.shape(2)
    shape: Dims = ()
    for one in inputs:
        shape = site.broadcast(shape, one)
    return (shape,)


def nth(site: Site) -> Outputs:
    """NthElement: the last dimension is dropped."""
    shape = site.at_least(site.shape(0), 1)
    return (None if shape is None else shape[:-1],)


def found_within(site: Site) -> Outputs:
    """InTopK: a truth value per row of the predictions."""
    return ((site.equal(site.input_of_rank(0, 2)[0], site.input_of_rank(1, 1)[0]),),)


def segmented(slot: int) -> Rule:
    """SegmentSum and the like: as many rows as the last of the sorted indices in that slot says."""

    def rule(site: Site) -> Outputs:
        shape, ids = site.shape(0), counted(site, slot)
        site.equate_all(
            (site.shape(slot - 1) or ())[:1], site.shape(slot)
        )  # an index for each row, or for each one taken
        count = site.fresh() if ids is None else as_dim(ids[-1]) + 1 if ids else 0
        return (None if shape is None else (count, *shape[1:]),)

    return rule


def segmented_with_number(slot: int) -> Rule:
    """SparseSegmentSumWithNumSegments and the like: an input has the number of segments."""

    def rule(site: Site) -> Outputs:
        shape = site.shape(0)
        return (None if shape is None else (site.single(slot), *shape[1:]),)

    return rule


def unsorted_segments(site: Site) -> Outputs:
    """UnsortedSegmentSum: the third input has the number of segments, the second an index per leading dimensions."""
    shape, index = site.shape(0), site.shape(1)
    if shape is None or index is None:
        return (None,)
    if len(index) > len(shape):
        raise ShapeError(f"segment_ids {written(index)} must be a prefix of {written(shape)}")
    site.merged(shape[: len(index)], index)
    return ((site.single(2), *shape[len(index) :]),)


def parted(site: Site) -> Outputs:
    """DynamicPartition: rows of the first input, in parts that only known indices count."""
    shape, index, value = site.shape(0), site.shape(1), counted(site, 1)
    parts = site.number("num_partitions", site.outputs)
    if shape is None or index is None:
        return (None,) * parts
    site.merged(shape[: len(index)], index)
    if (places := site.handle(0, "places")) is not None:
        part = Handle("part", site.name, ((places.length,),), length=parts)
        site.made.update(dict.fromkeys(range(parts), part))
    return [(site.fresh() if value is None else value.count(at), *shape[len(index) :]) for at in range(parts)]


def stitched(site: Site) -> Outputs:
    """DynamicStitch: a row for each index up to the largest (`DynamicStitchShapeFunction`, data_flow_ops.cc)."""
    parts = len(site.shapes) // 2
    rest: Dims = None
    largest: int | None = -1
    for at in range(parts):
        index, given = site.shape(at), site.shape(at + parts)
        values = site.wholes(at)
        largest = None if values is None or largest is None else max([largest, *values])
        if index is not None and given is not None:
            site.merged(given[: len(index)], index)
            rest = site.merged(rest, given[len(index) :])
    if rest is None:
        return (None,)
    whole = _put_together(site, parts)
    rows = site.fresh() if largest is None else largest + 1
    return ((rows if whole is None else whole, *rest),)


def _put_together(site: Site, parts: int) -> int | None:
    """The number of places that a DynamicPartition dealt out, where each part comes back: as in a lookup in shards."""
    dealt = {site.handle(at, "part") for at in range(parts)}
    one = dealt.pop() if len(dealt) == 1 else None
    if one is None or len({*site.tensors[:parts]}) < one.length or not one.shapes[0]:
        return None
    return one.shapes[0][0]


def counted_into(slot: int) -> Rule:
    """Bincount: as many bins as an input says."""
    return lambda site: ((site.single(slot),),)


def dense_counts(site: Site) -> Outputs:
    """DenseBincount: bins, for each row of a matrix."""
    shape = site.shape(0)
    if shape is None:
        return (None,)
    return ((*shape[: len(shape) - 1], site.single(1)),)


def counts_of_rows(site: Site) -> Outputs:
    """RaggedBincount: bins for each row of a ragged tensor."""
    splits = site.input_of_rank(0, 1)[0]
    return ((site.algebra.minus(splits, 1) if splits < 0 else splits - 1, site.single(2)),)


def segments_back(site: Site) -> Outputs:
    """SparseSegmentSumGradV2 and the like: a row for each different index, and these indices."""
    shape, count = site.at_least(site.shape(0), 1), site.fresh()
    return (None if shape is None else (count, *shape[1:]), (count,))


def unraveled(site: Site) -> Outputs:
    """UnravelIndex: a row for each dimension, with a place for each index."""
    index, rows = site.shape(0), site.input_of_rank(1, 1)[0]
    if index is None:
        return (None,)
    return ((rows,) if index == () else (rows, site.elements(index)),)


def top_about(site: Site) -> Outputs:
    """ApproxTopK: along one dimension as many elements as are asked for, and their places."""
    shape = site.at_least(site.shape(0), 1)
    if shape is None:
        return (None, None)
    at = site.axis(site.number("reduction_dimension", -1), len(shape))
    count = site.number("k") if site.flag("aggregate_to_topk", True) else site.fresh()
    made = (*shape[:at], count, *shape[at + 1 :])
    return (made, made)


def fingerprinted(site: Site) -> Outputs:
    """Fingerprint: eight bytes of farmhash64, the one method that there is, for each row."""
    shape = site.at_least(site.shape(0), 1)
    return ((site.fresh() if shape is None else shape[0], 8),)
