"""Shapes of ops that keep, stretch or reduce their inputs, element by element."""

from __future__ import annotations

from simulator.shapes.dims import Dims
from simulator.shapes.site import Outputs, Rule, ShapeError, Site


def same(site: Site) -> Outputs:
    """The shape of the first input."""
    return (site.shape(0),)


def same_for_both(site: Site) -> Outputs:
    """The shape of the first input; the kernel asks for as many elements in the second, which no inference does."""
    site.equate_all(site.shape(0), site.shape(1))
    return (site.shape(0),)


def as_input(slot: int) -> Rule:
    """The shape of that input."""
    return lambda site: (site.shape(slot),)


def as_inputs(*slots: int) -> Rule:
    """An output for each of those inputs."""
    return lambda site: [site.shape(slot) for slot in slots]


def as_all(site: Site) -> Outputs:
    """An output like each input."""
    return site.shapes


def at_least(rank: int) -> Rule:
    """The shape of the first input, which has at least that rank."""
    return lambda site: (site.at_least(site.shape(0), rank),)


def of_rank(rank: int, slot: int = 0) -> Rule:
    """The shape of that input, which has that rank."""
    return lambda site: (site.input_of_rank(slot, rank),)


def gradient_of_rank(rank: int) -> Rule:
    """The shape of the first input, which has that rank, of the inputs: forward input, forward output, gradient."""

    def rule(site: Site) -> Outputs:
        site.equate_all(site.shape(1), site.shape(2))
        return (site.input_of_rank(0, rank),)

    return rule


def scalar(site: Site) -> Outputs:
    """A single element for each output."""
    return ((),) * site.outputs


def constant(*shapes: Dims) -> Rule:
    """Always the same shapes."""
    return lambda site: shapes


def vector(site: Site) -> Outputs:
    """A vector of unknown length for each output."""
    return [site.ranked(1) for _ in range(site.outputs)]


def ranked(*ranks: int) -> Rule:
    """Outputs of which only the rank is known."""
    return lambda site: [site.ranked(rank) for rank in ranks]


def merged(site: Site) -> Outputs:
    """All that is known of any input: all have the same shape."""
    return (site.agreed(range(len(site.shapes))),)


def merged_pair(site: Site) -> Outputs:
    """All that is known of the first two inputs, which have the same shape; the others are scalars."""
    return (site.agreed((0, 1)),)


def broadcast(site: Site) -> Outputs:
    """All inputs are stretched to one shape."""
    shape = site.shape(0)
    for other in site.shapes[1:]:
        shape = site.broadcast(shape, other)
    return (shape,)


def broadcast_pair(site: Site) -> Outputs:
    """The first two inputs are stretched to one shape."""
    return (site.broadcast(site.shape(0), site.shape(1)),)


def comparison(site: Site) -> Outputs:
    """As `broadcast`; inputs that don't fit are unequal where the op says so (`incompatible_shape_error`)."""
    if site.flag("incompatible_shape_error", True):
        return broadcast(site)
    a, b = site.shape(0), site.shape(1)
    if a is None or b is None:
        return (None,)
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    return broadcast(site) if all(x == y or 1 in (x, y) for x, y in pairs) else (None,)


def select(site: Site) -> Outputs:
    """Select: both cases have one shape; the condition has it too, or one row, or one element (math_ops.cc)."""
    condition, shape = site.shape(0), site.agreed((1, 2))
    if condition is not None and shape is not None and len(condition) == 1 and len(shape) > 1:
        return ((site.equal(shape[0], condition[0], shape, condition), *shape[1:]),)
    if condition is not None and len(condition) != 0 and (shape is None or len(condition) == len(shape)):
        return (site.merged(shape, condition) if len(condition) > 1 or shape is not None else None,)
    if condition is not None and shape is not None and len(condition) not in (0, len(shape)):
        raise ShapeError(f"the condition has {len(condition)} dimensions, the cases {len(shape)}")
    return (shape,)


def reduced(site: Site) -> Outputs:
    """The dimensions that the second input names are dropped, or 1 with `keep_dims`."""
    shape, axes = site.shape(0), site.wholes(1)
    keeps = site.flag("keep_dims")
    if shape is None or (axes is None and not keeps):
        return ((),) if axes is None and site.shape(1) is None and shape == () else (None,)
    if axes is None:
        return (site.ranked(len(shape)),)
    gone = {site.axis(axis, len(shape)) for axis in axes}
    if keeps:
        return (tuple([1 if at in gone else side for at, side in enumerate(shape)]),)
    return (tuple([side for at, side in enumerate(shape) if at not in gone]),)


def best_along(site: Site) -> Outputs:
    """ArgMax: the axis that the second input names is dropped (`ArgOpShape`, math_ops.cc)."""
    shape, axis = site.shape(0), site.whole(1)
    if shape is None:
        return (None,)
    if len(shape) <= 1:
        return ((),)
    if axis is None:
        return (site.ranked(len(shape) - 1),)
    gone = site.axis(axis, len(shape))
    return (shape[:gone] + shape[gone + 1 :],)


def with_aggregate(site: Site) -> Outputs:
    """Ops of quantised numbers: the shape of the first input, then its least and largest number."""
    return (site.shape(0), *[()] * (site.outputs - 1))


def quantised_along(site: Site) -> Outputs:
    """QuantizeV2: the numbers, then the least and the largest one, of each slice along its axis if it has one."""
    axis, shape = site.number("axis", -1), site.shape(0)
    if axis < 0:
        return (shape, (), ())
    slices, shape = site.input_of_rank(2, 1)[0], site.at_least(shape, axis + 1)
    limits = (slices if shape is None else site.equal(slices, shape[axis]),)
    return (shape, limits, limits)


def quantised(rule: Rule) -> Rule:
    """Another rule's output, then its least and largest number."""

    def with_range(site: Site) -> Outputs:
        return (*rule(site)[:1], (), ())

    return with_range


def quantised_by_channel(rule: Rule, slot: int) -> Rule:
    """Another rule's output, then its least and largest numbers: as many as the filters have, which that input says."""
    return lambda site: (*rule(site)[:1], site.at_most(slot, 1), site.at_most(slot, 1))


def accumulated(site: Site) -> Outputs:
    """AccumulateNV2: the declared shape."""
    return (site.declared(),)


def joined_strings(site: Site) -> Outputs:
    """StringJoin: scalars among the inputs are stretched to the shape of the others."""
    shape: Dims = ()
    for other in site.shapes:
        if other is None:
            return (None,)
        if other != ():
            shape = other if shape == () else site.merged(shape, other)
    return (shape,)


def switched(site: Site) -> Outputs:
    """Switch: the first input, whichever way a scalar sends it."""
    site.input_of_rank(1, 0)
    return [site.shape(0)] * site.outputs


def by_example(rule: Rule, *slots: int) -> Rule:
    """The rule of an op that takes as many examples by each of these inputs: their first sides are one number."""

    def tied(site: Site) -> Outputs:
        first, *others = [site.shape(slot) for slot in slots]
        for shape in others:
            site.equate_all((first or ())[:1], (shape or ())[:1])
        return rule(site)

    return tied


def agreeing(rule: Rule, *sides: tuple[tuple[int, int], tuple[int, int]]) -> Rule:
    """The rule of an op that asks for pairs of equal sides, each as an input and an axis of it."""

    def asked(site: Site) -> Outputs:
        for (slot, axis), (other, at) in sides:
            a, b = site.shape(slot), site.shape(other)
            if a is not None and b is not None and len(a) > axis and len(b) > at:
                site.equal(a[axis], b[at], a, b)
        return rule(site)

    return asked


def sparse(rule: Rule, sides: int = 2) -> Rule:
    """The rule of an op that takes indices and, in the slot `sides`, a dense shape.

    Where `Where` has found the indices in a tensor, as in `tf.sparse.from_dense`, the dense shape is that tensor's.
    """

    def asked(site: Site) -> Outputs:
        found = site.handle(0, "places")
        if found is not None:
            site.equate_all(found.shapes[0], site.value(sides))
        return rule(site)

    return asked
