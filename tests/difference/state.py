"""Patterns that keep state: variables of both kinds, tables, queues, readers, lists, datasets."""

from __future__ import annotations

from collections.abc import Callable

from simulator.graph.dtypes import BOOL, FLOAT, INT32, RESOURCE, STRING
from simulator.graph.messages import AttrValue
from tests.difference.functions import function
from tests.difference.sketch import INT64, LOOSE, Sketch, Value, attr_types, func, shapes

UNKNOWN = AttrValue(shape={"unknown_rank": True})


def ref_variable(sketch: Sketch) -> None:
    """A reference: what updates it is tied to it, what reads it is not."""
    dtype = sketch.random.choice([FLOAT, FLOAT, INT32, INT64, STRING])
    op = sketch.random.choice(["VariableV2", "VariableV2", "Variable", "TemporaryVariable"])
    variable = sketch.node(op, dtype=dtype, shape=UNKNOWN)[0]
    for _ in range(sketch.random.randint(1, 4)):
        whats = ["Assign", "read", "read", "RefIdentity", "initialized"]
        what = sketch.random.choice(whats if dtype == STRING else [*whats, "AssignAdd", "square", "descent"])
        if what in ("Assign", "AssignAdd"):
            made = sketch.node(what, [variable, sketch.take(dtype)])
            if sketch.chance(0.3):
                sketch.give(*sketch.node("Identity", [Value(made[0].text, dtype)]))
        elif what == "read":
            sketch.give(*sketch.node(sketch.random.choice(["Identity", "Snapshot"]), [variable]))
        elif what == "square":
            sketch.give(*sketch.node("Mul", [variable, sketch.random.choice([variable, sketch.take(dtype)])]))
        elif what == "RefIdentity":
            variable = sketch.node("RefIdentity", [variable])[0]
        elif what == "descent":
            sketch.node("ApplyGradientDescent", [variable, sketch.take(dtype, fits=0), sketch.take(dtype, fits=LOOSE)])
        else:
            sketch.give(*sketch.node("IsVariableInitialized", [variable], dtype=dtype))


def resource_variable(sketch: Sketch) -> None:
    dtype = sketch.random.choice([FLOAT, FLOAT, INT32, INT64, STRING, BOOL])
    handle = sketch.node("VarHandleOp", dtype=dtype, shape=UNKNOWN, shared_name=sketch.name("v"))[0]
    sketch.handles(dtype).append(handle)
    use_handles(sketch, dtype)


def use_handles(sketch: Sketch, dtype: int = 0) -> None:
    """Read, write, pass on handles of variables; ops that take two tie their variables."""
    known = [one for one in (FLOAT, INT32, INT64, STRING, BOOL) if sketch.handles(one)]
    if not known:
        return
    dtype = dtype or sketch.random.choice(known)
    for _ in range(sketch.random.randint(1, 4)):
        handle = sketch.random.choice(sketch.handles(dtype))
        whats = ["read", "read", "assign", "there", "identity", "identities", "switch", "captured"]
        what = sketch.random.choice(whats if dtype not in (FLOAT, INT32) else [*whats, "add", "descent", "momentum"])
        if what == "read":
            sketch.give(*sketch.node("ReadVariableOp", [handle], dtype=dtype))
        elif what in ("assign", "add"):
            op = "AssignVariableOp" if what == "assign" else "AssignAddVariableOp"
            sketch.node(op, [handle, sketch.take(dtype)])
        elif what == "there":
            sketch.give(*sketch.node("VarIsInitializedOp", [handle]))
        elif what == "identity":
            sketch.handles(dtype).extend(sketch.node("Identity", [handle]))
        elif what == "identities":
            sketch.handles(dtype).append(sketch.node("IdentityN", [handle, sketch.take(FLOAT)])[0])
        elif what == "switch":
            pair = sketch.node("Switch", [handle, sketch.take(BOOL, fits=0)])
            sketch.handles(dtype).extend(pair if sketch.chance(0.5) else sketch.node("Merge", pair)[:1])
        elif what == "captured":
            captured_by_dataset(sketch, handle)
        elif what == "descent":
            given = [handle, sketch.take(dtype, fits=0), sketch.take(dtype, fits=LOOSE)]
            sketch.node("ResourceApplyGradientDescent", given)
        else:
            other = sketch.random.choice(sketch.handles(dtype))
            rate = sketch.take(dtype, fits=0)
            sketch.node("ResourceApplyMomentum", [handle, other, rate, sketch.take(dtype, fits=LOOSE), rate])


def queue(sketch: Sketch) -> None:
    """A queue by resource or by reference, its users, and perhaps a reader of what is in it."""
    dtype = sketch.random.choice([FLOAT, INT32, RESOURCE, STRING])
    types = attr_types([dtype])
    if sketch.chance(0.6):
        ops = ["FIFOQueueV2", "RandomShuffleQueueV2", "PriorityQueueV2"][: 3 if dtype == STRING else 2]
        made, end = sketch.random.choice(ops[:2]), "V2"
    else:
        made, end = sketch.random.choice(["FIFOQueue", "RandomShuffleQueue"]), ""
    handle = sketch.node(made, component_types=types)[0]
    for _ in range(sketch.random.randint(1, 3)):
        what = sketch.random.choice(["put", "take", "size", "close", "read"])
        if what == "put":
            sketch.node(f"QueueEnqueue{end}", [handle, sketch.take(dtype)])
        elif what == "take":
            sketch.give(*sketch.node(f"QueueDequeue{end}", [handle], component_types=types))
        elif what == "size":
            sketch.give(*sketch.node(f"QueueSize{end}", [handle], gives=0))
        elif what == "close":
            sketch.node(f"QueueClose{end}", [handle])
        else:
            kind = sketch.random.choice(["WholeFileReader", "TextLineReader", "IdentityReader"])
            reader = sketch.node(f"{kind}{end}")[0]
            sketch.give(*sketch.node(f"ReaderRead{end}", [reader, handle], gives=0))


def table(sketch: Sketch) -> None:
    key, value = STRING, sketch.random.choice([INT64, FLOAT])
    op = sketch.random.choice(["HashTableV2", "MutableHashTableV2"])
    handle = sketch.node(op, key_dtype=key, value_dtype=value)[0]
    asked, default = sketch.take(key), sketch.take(value, fits=0)
    sketch.give(*sketch.node("LookupTableFindV2", [handle, asked, default]))
    if sketch.chance(0.5):
        sketch.node("LookupTableInsertV2", [handle, asked, sketch.take(value, fits=LOOSE)])
    if sketch.chance(0.3):
        sketch.give(*sketch.node("LookupTableSizeV2", [handle], gives=0))


def tensor_array(sketch: Sketch) -> None:
    dtype = sketch.random.choice([FLOAT, INT32, RESOURCE, STRING])
    handle, flow = sketch.node("TensorArrayV3", [sketch.take(INT32, fits=0)], dtype=dtype)
    flow = Value(flow.text, FLOAT, 0)
    for _ in range(sketch.random.randint(1, 3)):
        at, value = sketch.take(INT32, fits=0), sketch.take(dtype)
        if sketch.chance(0.5):
            flow = sketch.node("TensorArrayWriteV3", [handle, at, value, flow], gives=0)[0]
        else:
            sketch.give(*sketch.node("TensorArrayReadV3", [handle, at, flow], dtype=dtype))
    if sketch.chance(0.3):
        sketch.give(*sketch.node("TensorArraySizeV3", [handle, flow], gives=0))


def stack(sketch: Sketch) -> None:
    dtype = sketch.random.choice([FLOAT, INT32])
    handle = sketch.node("StackV2", [sketch.take(INT32, fits=0)], elem_type=dtype)[0]
    sketch.give(*sketch.node("StackPushV2", [handle, sketch.take(dtype)]))
    sketch.give(*sketch.node("StackPopV2", [handle], elem_type=dtype))


def tensor_list(sketch: Sketch) -> None:
    """Lists as variants: those of strings keep their readers, though not themselves, on CPUs."""
    dtype = sketch.random.choice([FLOAT, INT32, RESOURCE, STRING, STRING])
    shape = sketch.take(INT32, fits=LOOSE)
    if sketch.chance(0.5):
        made = sketch.node("TensorListReserve", [shape, sketch.take(INT32, fits=0)], element_dtype=dtype)[0]
    else:
        made = sketch.node("EmptyTensorList", [shape, sketch.take(INT32, fits=0)], element_dtype=dtype)[0]
    for _ in range(sketch.random.randint(1, 4)):
        what = sketch.random.choice(["set", "push", "get", "stack", "length", "Identity", "IdentityN", "zeros"])
        if what == "set":
            given = [made, sketch.take(INT32, fits=0), sketch.take(dtype)]
            made = sketch.node("TensorListSetItem", given)[0]
        elif what == "push":
            made = sketch.node("TensorListPushBack", [made, sketch.take(dtype)])[0]
        elif what == "get":
            given = [made, sketch.take(INT32, fits=0), shape]
            sketch.give(*sketch.node("TensorListGetItem", given, element_dtype=dtype))
        elif what == "stack":
            sketch.give(*sketch.node("TensorListStack", [made, shape], element_dtype=dtype))
        elif what == "length":
            sketch.give(*sketch.node("TensorListLength", [made], gives=0))
        elif what == "zeros":
            made = sketch.node("ZerosLike", [made])[0]
        else:
            made = sketch.node(what, [made])[0]


def dataset(sketch: Sketch) -> None:
    """A dataset, what it is made into, and an iterator over it."""
    types, shape = attr_types([INT64]), shapes()
    kinds = {"output_types": types, "output_shapes": shape}
    start = sketch.take(INT64, fits=0)
    made = sketch.node("RangeDataset", [start, start, start], **kinds)[0]
    for _ in range(sketch.random.randint(0, 3)):
        number = sketch.take(INT64, fits=0)
        op = sketch.random.choice(["RepeatDataset", "PrefetchDataset", "TakeDataset", "BatchDatasetV2", "MapDataset"])
        if op == "BatchDatasetV2":
            made = sketch.node(op, [made, number, sketch.take(BOOL, fits=0)], **kinds)[0]
        elif op == "MapDataset":
            made = sketch.node(op, [made], f=func(function(sketch, [INT64], [INT64])), Targuments=[], **kinds)[0]
        else:
            made = sketch.node(op, [made, number], **kinds)[0]
    if sketch.chance(0.2):
        made = sketch.node("Identity", [made])[0]
    if sketch.chance(0.8):
        iterator = sketch.node("IteratorV2", shared_name="", container="", **kinds)[0]
        sketch.node("MakeIterator", [made, iterator])
        sketch.give(*sketch.node("IteratorGetNext", [iterator], **kinds))
        if sketch.chance(0.3):
            sketch.give(*sketch.node("IteratorToStringHandle", [iterator], gives=0))
        if sketch.chance(0.3):
            wrapped = sketch.node("IteratorGetNextAsOptional", [iterator], **kinds)[0]
            sketch.give(*sketch.node("OptionalGetValue", [wrapped], **kinds))


def captured_by_dataset(sketch: Sketch, handle: Value) -> None:
    """A function over a dataset that takes a resource from wherever it is."""
    kinds = {"output_types": attr_types([INT64]), "output_shapes": shapes()}
    start = sketch.take(INT64, fits=0)
    numbers = sketch.node("RangeDataset", [start, start, start], **kinds)[0]
    mapped = func(function(sketch, [INT64, RESOURCE], [INT64]))
    sketch.node("MapDataset", [numbers, handle], f=mapped, **kinds)


def accumulator(sketch: Sketch) -> None:
    by_resource = sketch.chance(0.5)
    begin = "Resource" if by_resource else ""
    made = sketch.node(f"{begin}ConditionalAccumulator", dtype=FLOAT, shape=UNKNOWN)[0]
    at = sketch.take(INT64, fits=0)
    sketch.node(f"{begin}AccumulatorApplyGradient", [made, at, sketch.take(FLOAT)])
    count = sketch.take(INT32, fits=0)
    sketch.give(*sketch.node(f"{begin}AccumulatorTakeGradient", [made, count], dtype=FLOAT))


def summary(sketch: Sketch) -> None:
    tag = sketch.node("ScalarSummary", [sketch.take(STRING, fits=0), sketch.take(FLOAT, fits=0)], gives=0)[0]
    sketch.give(*sketch.node("MergeSummary", [tag, tag], gives=0))
    if sketch.chance(0.3):
        writer = sketch.node("SummaryWriter")[0]
        sketch.node("WriteScalarSummary", [writer, sketch.take(INT64, fits=0), tag, sketch.take(FLOAT, fits=0)])


def saver(sketch: Sketch) -> None:
    name = sketch.source(STRING)
    names = sketch.source(STRING, LOOSE)
    if sketch.chance(0.5):
        sketch.give(*sketch.node("RestoreV2", [name, names, names], dtypes=[FLOAT, INT64]))
    else:
        sketch.node("SaveV2", [name, names, names, sketch.take(FLOAT), sketch.take(INT32)])


def mutex(sketch: Sketch) -> None:
    lock = sketch.node("MutexV2")[0]
    held = sketch.node("MutexLock", [lock])[0]
    sketch.node("ConsumeMutexLock", [held])


PATTERNS: dict[str, tuple[Callable[[Sketch], None], ...]] = {
    "reference variables": (ref_variable,),
    "resource variables": (resource_variable, resource_variable, use_handles),
    "queues and readers": (queue,),
    "tables": (table,),
    "tensor arrays and stacks": (tensor_array, stack),
    "tensor lists": (tensor_list,),
    "datasets": (dataset,),
    "accumulators": (accumulator,),
    "summaries and savers": (summary, saver, mutex),
}
