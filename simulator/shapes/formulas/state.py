"""Shapes of what is kept: variables, queues, stacks, arrays and lists of tensors, iterators, accumulators.

What is put into them anywhere has a part in the shape of what comes out. Rules: tensorflow/core/ops/state_ops.cc,
resource_variable_ops.cc, training_ops.cc, data_flow_ops.cc, list_ops.cc, dataset_ops.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from simulator.graph import registry
from simulator.graph.dtypes import RESOURCE
from simulator.shapes.dims import SYMBOLS, Dims, as_dim
from simulator.shapes.ranges import greater
from simulator.shapes.site import Handle, Outputs, Rule, ShapeError, Site, either, either_handle, either_value

HANDLE: Dims = ()  # a handle is a scalar
_FEW = 64  # elements of a list whose shapes are known one by one


# ---- variables ------------------------------------------------------------------------------------------------------


def variable(site: Site) -> Outputs:
    """Variable and VariableV2: the declared shape; of the first release's a scalar says nothing."""
    shape = site.declared()
    return (None if site.op == "Variable" and shape == () else shape,)


def variable_handle(site: Site) -> Outputs:
    """VarHandleOp: a handle of the declared shape."""
    site.made[0] = Handle("variable", site.name, (site.declared(),))
    return (HANDLE,)


def _variable(site: Site) -> Dims:
    """The shape of the variable of the first input; where it declares none, of all that is assigned to it."""
    handle = site.handle(0, "variable")
    if handle is None:
        return None
    declared = handle.shapes[0] if handle.shapes else None
    if declared is None or min(declared, default=0) < 0:
        held = site.taken(handle)
        return _joined(site, declared, held[0]) if held else declared
    return declared


def _joined(site: Site, a: Dims, b: Dims) -> Dims:
    """Both shapes, where they agree; else the declared one."""
    try:
        return site.merged(a, b)
    except ShapeError:  # it is what TensorFlow finds out when it runs
        return a


def read(site: Site) -> Outputs:
    """ReadVariableOp: the variable."""
    return (_variable(site),)


def assigned(site: Site) -> Outputs:
    """AssignVariableOp: no output; the value is what a variable without a shape holds."""
    handle = site.handle(0, "variable")
    if handle is not None and handle.shapes and handle.shapes[0] is not None and site.shape(1) is not None:
        site.merged(handle.shapes[0], site.shape(1))
    if handle is not None and handle.shapes:
        site.learn(1, handle.shapes[0])
    site.put(handle, site.shape(1))
    return ()


def applied(site: Site) -> Outputs:
    """ResourceApplyAdam and its kind: no output; the gradient is as large as the variable, rates are single numbers."""
    handle, facts = site.handle(0, "variable"), registry.facts(site.op)
    for slot, argument in enumerate(facts.inputs if facts is not None else ()):
        if argument.name in ("grad", "delta"):
            site.learn(slot, handle.shapes[0] if handle is not None and handle.shapes else None)
        elif argument.dtype != RESOURCE:
            site.learn(slot, ())
    return ()


def assigned_reference(site: Site) -> Outputs:
    """Assign: the variable's shape and the value's, which are one unless `validate_shape` is off."""
    if site.flag("validate_shape", True):
        return (site.agreed((0, 1)),)
    return (site.shape(1),)


def updated_reference(site: Site) -> Outputs:
    """AssignAdd: the variable, which has the shape of the value."""
    return (site.agreed((0, 1)),)


def variable_shape(site: Site) -> Outputs:
    """VariableShape: a vector with an entry per dimension of the variable."""
    shape = _variable(site)
    return (site.ranked(1) if shape is None else (len(shape),),)


# ---- queues and the like --------------------------------------------------------------------------------------------


def queue(site: Site) -> Outputs:
    """Queues: a handle of the declared component shapes; elements of a PriorityQueue have their priority first."""
    first: tuple[Dims, ...] = ((),) if site.op.startswith("Priority") else ()
    shapes = site.listed("shapes")
    site.made[0] = Handle("queue", site.name, first + shapes if shapes else ())
    return (None if site.op.startswith(("FIFO", "Random", "Padding", "Prior")) and "V2" not in site.op else HANDLE,)


def enqueued(site: Site) -> Outputs:
    """QueueEnqueue: what is put in."""
    site.put(site.handle(0, "queue"), *site.shapes[1:])
    return ()


def enqueued_many(site: Site) -> Outputs:
    """QueueEnqueueMany: rows of what is given are put in."""
    site.put(site.handle(0, "queue"), *[shape[1:] if shape else None for shape in site.shapes[1:]])
    return ()


def _components(site: Site) -> list[Dims]:
    handle = site.handle(0, "queue")
    unknown: list[Dims] = [None] * site.outputs
    declared = list(handle.shapes) if handle is not None and handle.shapes else unknown
    held = site.taken(handle) if any(shape is None or min(shape, default=0) < 0 for shape in declared) else ()
    if len(held) == len(declared):
        declared = [_joined(site, own, put) for own, put in zip(declared, held, strict=True)]
    return declared if len(declared) == site.outputs else unknown


def dequeued(site: Site) -> Outputs:
    """QueueDequeue: the components of an element."""
    return _components(site)


def dequeued_many(site: Site) -> Outputs:
    """QueueDequeueMany: as many elements as the second input says; QueueDequeueUpTo gives fewer when a queue ends."""
    rows = site.single(1)
    return [None if shape is None else (rows, *shape) for shape in _components(site)]


def staged(site: Site) -> Outputs:
    """Stage: what is put into the area of that name."""
    site.put(Handle("queue", _area(site)), *site.shapes)
    return ()


def unstaged(site: Site) -> Outputs:
    """Unstage: what was put into the area of that name."""
    held = site.taken(Handle("queue", _area(site)))
    return held if len(held) == site.outputs else [None] * site.outputs


def _area(site: Site) -> str:
    return f"staging area {site.text('container')}/{site.text('shared_name')}"


def staged_by_key(site: Site) -> Outputs:
    """MapStage: parts of what belongs to a key, each at its place."""
    for place, shape in zip(site.wholes(1) or (), site.shapes[2:], strict=False):
        site.put(_part(site, place), shape)
    return ()


def unstaged_by_key(site: Site) -> Outputs:
    """MapUnstage: the parts at these places; where the first input is no key, the key comes first."""
    keyless = site.op.endswith("NoKey")
    places = site.wholes(0 if keyless else 1)
    count = site.outputs - keyless
    if places is None or len(places) != count:
        return [()] * keyless + [None] * count
    held = [site.taken(_part(site, place)) for place in places]
    return [()] * keyless + [shapes[0] if shapes else None for shapes in held]


def _part(site: Site, place: int) -> Handle:
    return Handle("queue", f"{_area(site)}/{place}")


def stack(site: Site) -> Outputs:
    """Stack: a handle; StackV2 is a resource, and kept the shape of the reference to two strings that it was before."""
    site.made[0] = Handle("queue", site.name)
    return ((2,),)


def pushed(site: Site) -> Outputs:
    """StackPush: what is put in is handed on."""
    site.put(site.handle(0, "queue"), site.shape(1), value=site.value(1))
    return (site.shape(1),)


def popped(site: Site) -> Outputs:
    """StackPop: what was put in."""
    held = site.taken(site.handle(0, "queue"))
    return held[:1] or (None,)


def barrier(site: Site) -> Outputs:
    """Barrier: a handle of the declared component shapes."""
    site.made[0] = Handle("barrier", site.name, site.listed("shapes"))
    return ((2,),)


def accumulator(site: Site) -> Outputs:
    """ConditionalAccumulator: the handle of what has the declared shape; a resource's counts as two, too."""
    site.made[0] = Handle("queue", site.name, (site.declared(),))
    return ((2,),)


def accumulated(site: Site) -> Outputs:
    """AccumulatorTakeGradient: the shape that its accumulator declares."""
    handle = site.handle(0, "queue")
    return handle.shapes if handle is not None else (None,)


def listed(name: str) -> Rule:
    """The shapes that an attribute lists."""
    return lambda site: site.listed(name)


def reduced(site: Site) -> Outputs:
    """ReduceDataset: the state that it begins with. Dimensions that its function changes are listed as open."""
    listed = site.listed("output_shapes")
    for slot, shape in enumerate(listed, start=1):
        begun = site.shape(slot)
        if shape is not None and begun is not None and len(shape) == len(begun):
            for x, y in zip(shape, begun, strict=True):
                if x == y:
                    site.equate(x, y)
    return listed


def looked_up(site: Site) -> Outputs:
    """LookupTableFind: a value for each key. A table that the file does not make has single keys.

    Its values are single ones where the value that stands for a missing one is (`CheckFindArguments`).
    """
    handle, keys = site.handle(0, "table"), site.shape(1)
    if handle is None:
        return (keys if site.shape(2) == () else None,)
    if keys is None or not handle.shapes:
        return (keys,)
    key, value = handle.shapes
    if key is None or value is None or len(key) > len(keys):
        return (None,)
    return (keys[: len(keys) - len(key)] + value,)


def table_of_tensors(site: Site) -> Outputs:
    """MutableHashTableOfTensors and MutableDenseHashTable: a handle of a table whose values have a declared shape.

    The keys of a dense one are like the key that stands for none, its first input.
    """
    key: Dims = site.shape(0) if site.shapes else ()
    value = site.declared("value_shape")
    site.made[0] = Handle("table", site.name, (key, () if value is None and "value_shape" not in site.attrs else value))
    return ((2,) if site.op in ("MutableHashTableOfTensors", "MutableDenseHashTable") else HANDLE,)


def table(site: Site) -> Outputs:
    """HashTable: a handle of a table whose values are single ones."""
    site.made[0] = Handle("table", site.name)
    return (HANDLE if site.op.endswith("V2") else (2,),)


# ---- arrays of tensors ----------------------------------------------------------------------------------------------


def array(site: Site) -> Outputs:
    """TensorArray: a handle and its flow; elements have the declared shape."""
    size = site.vector(0, 1)
    grown = site.arrays.get(site.name, SYMBOLS) if site.flag("dynamic_size") else 0
    known = None if size is None or grown == SYMBOLS else as_dim(size[0])
    length = (
        site.algebra.symbol("length", site.node) if known is None else greater(site, known, grown) if grown else known
    )
    site.made[0] = Handle("array", site.name, (site.declared("element_shape"),), length=length)
    return ((2,), ())


def array_gradient(site: Site) -> Outputs:
    """TensorArrayGrad: an array of gradients, as many as the forward array has elements and of their shape."""
    forward = site.handle(0, "array")
    if forward is not None:
        key = f"{forward.key} gradient {site.text('source')}"
        site.made[0] = Handle("array", key, (_element(site, forward),), length=forward.length)
    return ((2,), ())


def array_gradient_of_more(site: Site) -> Outputs:
    """TensorArrayGradWithShape: the same, whose elements have the dimensions of the third input before their own."""
    forward, before = site.handle(0, "array"), site.dims(2)
    if forward is not None:
        own = _element(site, forward)
        element = None if own is None or before is None else before + own
        key = f"{forward.key} gradient {site.text('source')} of more"
        site.made[0] = Handle("array", key, (element,), length=forward.length)
    return ((2,), ())


def _element(site: Site, handle: Handle | None) -> Dims:
    """The shape of an element: as declared, and as all that is put in."""
    if handle is None:
        return None
    declared = handle.shapes[0] if handle.shapes else None
    if declared is not None and min(declared, default=0) >= 0:
        return declared
    held = site.taken(handle)
    return _joined(site, declared, held[0]) if held else declared


def array_written(site: Site) -> Outputs:
    """TensorArrayWrite: an element is put in; the flow goes on."""
    site.put(site.handle(0, "array"), site.shape(2))
    return ((),)


def array_read(site: Site) -> Outputs:
    """TensorArrayRead: an element."""
    return (_element(site, site.handle(0, "array")),)


def array_scattered(site: Site) -> Outputs:
    """TensorArrayScatter: rows of the value are put in."""
    shape, handle = site.shape(2), site.handle(0, "array")
    site.equate_all(shape[:1] if shape else None, site.shape(1))
    if shape and handle is not None:
        site.equate(shape[0], handle.length)  # a whole array stays one
    site.put(handle, shape[1:] if shape else None)
    return ((),)


def array_gathered(site: Site) -> Outputs:
    """TensorArrayGather: an element for each index."""
    index, handle = site.input_of_rank(1, 1), site.handle(0, "array")
    element = _element(site, handle)
    if handle is not None:
        site.equate(index[0], handle.length)  # a whole array stays one
    if element is None:
        element = site.declared("element_shape")
    return (None if element is None else (*index, *element),)


def array_joined(site: Site) -> Outputs:
    """TensorArrayConcat: all elements, one behind the other, and the length of each."""
    handle = site.handle(0, "array")
    element = _element(site, handle)
    count = site.fresh() if handle is None else handle.length
    if not element:
        return (None, (count,))
    return ((site.algebra.times(count, element[0]), *element[1:]), (count,))


def array_split(site: Site) -> Outputs:
    """TensorArraySplit: parts of the value are put in, of the lengths that the third input holds."""
    shape, lengths = site.shape(1), site.value(2)
    if not shape:
        site.put(site.handle(0, "array"), None)
    else:
        equal = lengths is not None and len(set(lengths)) == 1
        rows = as_dim(lengths[0]) if equal and lengths else site.fresh()
        site.put(site.handle(0, "array"), (rows, *shape[1:]))
    return ((),)


# ---- lists of tensors -----------------------------------------------------------------------------------------------


def list_empty(site: Site) -> Outputs:
    """EmptyTensorList: a list without elements, of the shape that the first input holds."""
    return _listed(site, Handle("list", shapes=(site.dims(0),), length=0, form=site.shape(0)))


def list_reserved(site: Site) -> Outputs:
    """TensorListReserve: as many elements as the second input says, which are set later."""
    return _listed(site, _sized(site, Handle("list", shapes=(site.dims(0),), form=site.shape(0)), 1))


def _sized(site: Site, handle: Handle, slot: int) -> Handle:
    """The list with as many elements as an input says."""
    count = site.vector(slot, 1)
    length = SYMBOLS if count is None else as_dim(count[0])
    grows = len(handle.parts) <= length <= _FEW
    parts = (*handle.parts, *[None] * (length - len(handle.parts))) if grows else ()
    return handle._replace(length=length, parts=parts)


def _listed(site: Site, handle: Handle | None) -> Outputs:
    if handle is not None:
        site.made[0] = handle
    return (HANDLE,)


def zeros_like(site: Site) -> Outputs:
    """ZerosLike: the shape of the input; of a list, as many elements that are as large."""
    handle = site.handle(0, "list")
    if handle is not None:
        site.made[0] = _without_values(handle)
    return (site.shape(0),)


def _without_values(handle: Handle) -> Handle:
    inner = None if handle.inner is None else _without_values(handle.inner)
    return handle._replace(value=None, inner=inner)


def added(site: Site) -> Outputs:
    """AddN: the shape of all inputs; of lists, the sums of their elements."""
    found = site.handle(0, "list")
    for at, other in enumerate(site.handles[1:]):
        one, found = found, either_handle(site.algebra, ("added", site.node, at), found, other)
        if found is not None and one is not None and other is not None and False not in (one.held, other.held):
            found = found._replace(held=_joined(site, _held(one), _held(other)))  # elements are added pair by pair
    if found is not None:
        site.made[0] = _without_values(found)
    return (site.agreed(range(len(site.shapes))),)


def _with(site: Site, handle: Handle | None, slot: int, length: int) -> Handle | None:
    """The list with the element in that slot more, or set."""
    if handle is None:
        return None
    element, value, inner = site.shape(slot), site.value(slot), site.handles[slot]
    site.equate_all(element, handle.shapes[0] if handle.shapes else None)
    if handle.held is not False:
        reason = ("list", site.node)
        site.equate_all(element, _held(handle))
        element = either(site.algebra, reason, _held(handle), element)
        value = either_value(site.algebra, reason, handle.value, value)
        inner = either_handle(site.algebra, reason, handle.inner, inner)
    return handle._replace(held=element, value=value, length=length, inner=inner, parts=())


def _held(handle: Handle) -> Dims:
    return None if isinstance(handle.held, bool) else handle.held


def _of_list(site: Site, handle: Handle | None, slot: int | None) -> Dims:
    """The shape of the elements of a list: as declared, as asked for, and as all that are in it."""
    asked = None if slot is None else site.dims(slot)
    if handle is None:
        return asked
    shape = site.merged(handle.shapes[0] if handle.shapes else None, asked)
    if handle.held is False:
        site.wait()
    return _joined(site, shape, _held(handle))


def list_from_tensor(site: Site) -> Outputs:
    """TensorListFromTensor: the rows of a tensor."""
    shape = site.at_least(site.shape(0), 1)
    return _listed(site, _of_rows(site, shape, 1)._replace(length=SYMBOLS if shape is None else shape[0]))


def _of_rows(site: Site, shape: Dims, declared: int) -> Handle:
    """A list of the rows of a tensor, in the shape that the input in that slot declares, too."""
    element = None if shape is None else shape[1:]
    return Handle("list", shapes=(site.merged(site.dims(declared), element),), held=element, form=site.shape(declared))


def list_split(site: Site) -> Outputs:
    """TensorListSplit: rows of a tensor, parted by the lengths of the last input."""
    shape, lengths, values = site.at_least(site.shape(0), 1), site.input_of_rank(2, 1), site.value(2)
    equal = values is not None and len(set(values)) == 1
    rows = as_dim(values[0]) if equal and values else site.fresh()
    parts = None if shape is None else (lengths[0], rows, *shape[1:])
    made = _of_rows(site, parts, 1)._replace(length=lengths[0])
    if shape is not None and values is not None and len(values) <= _FEW:
        made = made._replace(parts=tuple([(as_dim(one), *shape[1:]) for one in values]))
    return _listed(site, made)


def list_pushed(site: Site) -> Outputs:
    """TensorListPushBack: the list with an element more."""
    handle = site.handle(0, "list")
    if handle is not None and handle.shapes:
        site.merged(handle.shapes[0], site.shape(1))
    length = SYMBOLS if handle is None or handle.length == SYMBOLS else site.algebra.plus(handle.length, 1)
    made = _with(site, handle, 1, length)
    if made is not None and handle is not None and len(handle.parts) == length - 1 < _FEW:
        made = made._replace(parts=(*handle.parts, site.shape(1)))
    return _listed(site, made)


def list_popped(site: Site) -> Outputs:
    """TensorListPopBack: the list without its last element, and that element."""
    handle = site.handle(0, "list")
    if handle is not None:
        known = handle.length not in (0, SYMBOLS)
        length = site.algebra.minus(handle.length, 1) if known else SYMBOLS
        site.made[0] = handle._replace(length=length, parts=handle.parts[:-1])
        if handle.inner is not None:
            site.made[1] = handle.inner
    return (HANDLE, _of_list(site, handle, 1))


def list_set(site: Site) -> Outputs:
    """TensorListSetItem: the list with an element set; it may be asked to grow where its index is beyond the end."""
    handle, index = site.handle(0, "list"), site.value(1)
    length = SYMBOLS if handle is None else handle.length
    if site.flag("resize_if_index_out_of_bounds") and length != SYMBOLS:
        end = None if index is None else site.algebra.plus(as_dim(index[0]), 1)
        length = SYMBOLS if end is None else greater(site, length, end)
    made, at = _with(site, handle, 2, length), site.whole(1)
    if made is not None and handle is not None and at is not None and 0 <= at < length <= _FEW:
        parts = (*handle.parts, *[None] * (length - len(handle.parts)))
        if len(handle.parts) == handle.length:
            made = made._replace(parts=(*parts[:at], site.shape(2), *parts[at + 1 :]))
    return _listed(site, made)


def list_taken(site: Site) -> Outputs:
    """TensorListGetItem: an element."""
    handle = site.handle(0, "list")
    if handle is not None and handle.inner is not None:
        site.made[0] = handle.inner
    element, at = _of_list(site, handle, 2), site.whole(1)
    if handle is not None and at is not None and 0 <= at < len(handle.parts):
        element = _joined(site, element, handle.parts[at])
    return (element,)


def list_stacked(site: Site) -> Outputs:
    """TensorListStack: all elements as rows; `num_elements` may say how many."""
    handle = site.handle(0, "list")
    element = _of_list(site, handle, 1)
    count = site.traced_number("num_elements")
    length = SYMBOLS if handle is None else handle.length
    site.equate(count, length)
    count = length if count < 0 else count
    if element is None:
        return (None,)
    return ((site.fresh() if count == SYMBOLS else count, *element),)


def list_gathered(site: Site) -> Outputs:
    """TensorListGather: an element for each index."""
    element, index = _of_list(site, site.handle(0, "list"), 2), site.shape(1)
    return (None if element is None or index is None else index + element,)


def list_scattered(site: Site) -> Outputs:
    """TensorListScatter: rows become elements, of the shape in the third input; in V2 as many as the fourth says."""
    made = _of_rows(site, site.at_least(site.shape(0), 1), 2)
    return _listed(site, _sized(site, made, 3) if site.op == "TensorListScatterV2" else made)


def list_resized(site: Site) -> Outputs:
    """TensorListResize: as many elements as the second input says."""
    handle = site.handle(0, "list")
    return (HANDLE,) if handle is None else _listed(site, _sized(site, handle, 1))


def list_joined(site: Site) -> Outputs:
    """TensorListConcat: all elements one behind the other, and the length of each."""
    handle = site.handle(0, "list")
    element = _of_list(site, handle, 1 if len(site.shapes) > 1 and site.shape(1) is not None else None)
    count = site.fresh() if handle is None or handle.length == SYMBOLS else handle.length
    if not element:
        return (None, (count,))
    return ((_rows_of(site, () if handle is None else handle.parts, count, element[0]), *element[1:]), (count,))


def _rows_of(site: Site, parts: Sequence[Dims], count: int, each: int) -> int:
    """The rows of all elements of a list together."""
    if parts and all(parts):  # none that is not set, or a scalar
        return reduce(site.algebra.plus, [part[0] for part in parts if part])
    return site.algebra.times(count, each) if each >= 0 else site.fresh()


def list_kept(site: Site) -> Outputs:
    """Ops that hand a list on whose elements have the declared shape."""
    handle = site.handle(0, "list")
    gone = None if handle is None else handle._replace(held=None, value=None, length=SYMBOLS, inner=None, parts=())
    return _listed(site, gone)


def element_shape(site: Site) -> Outputs:
    """TensorListElementShape: an entry per dimension, or a scalar where the list was made without dimensions."""
    handle = site.handle(0, "list")
    return (None if handle is None else handle.form,)


# ---- collectives ----------------------------------------------------------------------------------------------------


def gathered_group(site: Site) -> Outputs:
    """CollectiveGather: the rows of all members, one behind the other."""
    shape, size = site.at_least(site.shape(0), 1), site.number("group_size")
    if shape is None:
        return (site.declared(),)
    return ((shape[0] * size if shape[0] >= 0 and size > 0 else site.fresh(), *shape[1:]),)


def gathered_rows(site: Site) -> Outputs:
    """CollectiveGatherV2: the rows of all members; an input says how many these are."""
    shape, size = site.at_least(site.shape(0), 1), site.single(1)
    return (None if shape is None else (site.algebra.times(shape[0], size), *shape[1:]),)


def scattered_rows(site: Site) -> Outputs:
    """CollectiveReduceScatterV2: a part of the rows for each member; an input says how many these are."""
    shape, size = site.at_least(site.shape(0), 1), site.single(1)
    if shape is None:
        return (None,)
    part = site.algebra.quotient(shape[0], size)
    return ((site.fresh() if part is None else part, *shape[1:]),)


def exported(site: Site) -> Outputs:
    """LookupTableExport: an unknown number of keys, and as many values, in the shapes of the table."""
    handle, count = site.handle(0, "table"), site.fresh()
    if handle is None:
        return (None, None)
    key, value = handle.shapes or ((), ())
    return (None if key is None else (count, *key), None if value is None else (count, *value))


def taken_from_barrier(site: Site) -> Outputs:
    """BarrierTakeMany: where each element was put in, its key, and its components."""
    rows = site.single(1)
    shapes = site.handles[0].shapes if site.handles and site.handles[0] is not None else ()
    return ((rows,), (rows,), *[None if shape is None else (rows, *shape) for shape in shapes])
