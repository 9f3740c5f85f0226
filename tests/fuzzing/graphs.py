"""Graphs of the fuzzer: by a grammar over the registry of ops, and by changes of fields of a message.

The grammar writes nodes whose number and types of inputs mostly fit their ops. The rest is hostile: attributes of other
kinds, huge and negative figures, names of every script, functions that call each other, loops that are not closed.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any  # Any: fields of a message, whatever their type

from simulator.graph import registry
from simulator.graph.graph_def import graph_def
from simulator.graph.messages import GraphDef, MetaGraphDef, Proto, RunMetadata, SavedModel
from simulator.graph.text_format import parse
from tests.fuzzing.texts import NAMES, Chance
from tests.strategies import Rows, loop, shape_attr, type_attr, typed

EXAMPLE = Path(__file__).parents[2] / "examples" / "ps_training.pbtxt"
INTEGERS = (
    0, 1, -1, 2, 3, 7, 64, 254, 255, 65_535, 65_537, 10**6, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53, 2**55, 2**62,
    2**63 - 1, -(2**63),
)  # fmt: skip
DEVICES = (
    "", "", "", "/cpu:0", "/gpu:0", "/device:GPU:1", "/job:ps/task:0", "/job:worker/task:1",
    "/job:ps/replica:1/task:2",
    "/job:a b", "gpu:0", "/device:TPU:0", "/cpu:*", "/job:ps/task:2147483647", "/job:ps/task:99999999999", "//",
    "/job:", "/device:CPU:" + "9" * 400, "/job:" + "x" * 500, "/device:GPU:0/device:CPU:0",
)  # fmt: skip
_LIKELY = (
    "Const", "Placeholder", "VariableV2", "VarHandleOp", "ReadVariableOp", "Identity", "AddV2", "MatMul", "Neg", "NoOp",
    "Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "Assign", "AssignAdd", "ApplyMomentum", "Conv2D",
    "ResourceApplyAdam", "FIFOQueueV2", "QueueEnqueueV2", "QueueDequeueManyV2", "ConcatV2", "Split", "Shape",
    "Reshape",
    "PartitionedCall", "StatefulPartitionedCall", "If", "While", "Case", "StatelessIf", "SymbolicGradient", "IdentityN",
    "Stack", "TensorArrayV3", "TensorArrayWriteV3", "IteratorGetNext", "MapDataset", "BatchDatasetV2", "_Arg",
    "_Retval",
    "_Send", "_Recv", "Assert", "Print", "Fill", "Range", "Less", "Pack", "GatherV2", "SparseApplyAdagrad", "Einsum",
    "ConditionalAccumulator", "QueueDequeueV2", "DecodeJpeg", "RandomUniform", "Unpack", "Sum", "f", "g", "unheard_of",
)  # fmt: skip


# ---- by a grammar ---------------------------------------------------------------------------------------------------


def any_graph(random: Chance) -> Proto:
    """A GraphDef of up to 24 nodes and four functions."""
    message = GraphDef()
    message.versions.producer = random.choice((0, 24, 1882, 2**31 - 1, -1))
    for name in ("f", "g", "h", "f" * 200)[: random.choice((0, 0, 1, 2, 4))]:
        _function(message.library.function.add(), name, random)
    if random.random() < 0.1:
        made = message.library.gradient.add(function_name=random.choice("fgx"), gradient_func=random.choice("fgx"))
        made.function_name = random.choice(("f", "g", made.function_name))
    _nodes(message.node, random, random.choice((1, 2, 5, 12, 24)))
    if random.random() < 0.03:
        message.MergeFrom(doubling(random.choice((3, 8, 14, 16, 20, 40, 120))))
    if random.random() < 0.01:
        _tie(message.node, random.choice((20, 200, 600)))
    if random.random() < 0.15:
        rows = Rows()
        start = rows.add("start", "Const", **typed("Const"))
        end = loop(rows, start=start, parallel=random.choice(INTEGERS))
        rows.add("after", "Neg", [end], **typed("Neg"))
        message.MergeFrom(
            changed_message(graph_def(rows.built()), random) if random.random() < 0.5 else graph_def(rows.built())
        )
    return message


def _tie(nodes: Any, count: int) -> None:
    """Nodes each of which waits for all before it."""
    for at in range(count):
        nodes.add(name=f"t{at}", op="NoOp", input=[f"^t{before}" for before in range(at)])


def _name(random: Chance, names: Sequence[str]) -> str:
    if not random.bad:
        return f"{random.choice(('', '', 'a/', 'a/b/', 'gradients/'))}n{len(names)}"
    return random.choice((*NAMES, *names[-3:]))


def _device(random: Chance) -> str:
    return random.choice(DEVICES) if random.bad else random.choice(("", "", "", "/cpu:0", "/device:GPU:1"))


def _nodes(nodes: Any, random: Chance, count: int) -> None:
    names: list[str] = []
    for _ in range(count):
        op = random.choice(_LIKELY if random.random() < 0.8 else registry.names())
        node = nodes.add(
            name=_name(random, names), op=op, device=random.choice(DEVICES) if random.random() < 0.3 else ""
        )
        given = registry.facts(op)
        wanted = len(given.inputs) if given else random.randrange(3)
        if random.bad:
            wanted += random.choice((-1, 1, 2, 40))
        for _ in range(wanted if names else 0):
            source = random.choice(names)
            node.input.append(source if not random.bad else f"{source}:{random.choice((1, 2, 7, 65535, 10**9, -1))}")
        if names and random.random() < 0.2:
            node.input.append(f"^{random.choice(names)}")
        if random.random() < 0.05:
            node.input.append(
                random.choice(("missing", "", "^", ":", ":0", "^^a", f"n{len(names)}", f"n{len(names) + 1}"))
            )
        for name, kind in (given.attrs if given else {"T": "type"}).items():
            if not random.bad:
                fill(node.attr[name], random.choice(KINDS) if random.bad else kind, random)
        if random.bad:
            extra = random.choice(("_class", "_output_shapes", "_XlaCluster", "_gradient_op_type", "_kernel", "N", "T"))
            fill(node.attr[extra], random.choice(KINDS), random)
        names.append(node.name)


KINDS = ("type", "int", "bool", "string", "float", "shape", "tensor", "func", "list(type)", "list(int)",
          "list(string)", "list(shape)", "list(func)", "list(float)", "list(bool)", "list(tensor)")  # fmt: skip


def fill(value: Any, kind: str, random: Chance) -> None:
    """Write an attribute of that kind."""
    if kind.startswith("list("):
        value.list.SetInParent()
        for _ in range(random.choice((0, 1, 1, 2, 3, 70))):
            one = type(value)()
            fill(one, kind[5:-1], random)
            field = one.WhichOneof("value")
            held = getattr(value.list, field)
            if field in ("shape", "tensor", "func"):
                held.add().CopyFrom(getattr(one, field))
            else:
                held.append(getattr(one, field))
    elif kind == "type":
        value.type = random.choice((3, 7, 9, 10, 20, 21, 101, 103, 0, 99, 119, 2**31 - 1) if random.bad else (1, 1, 3))
    elif kind == "int":
        value.i = random.choice(INTEGERS) if random.bad else random.choice((1, 2, 3))
    elif kind == "bool":
        value.b = random.random() < 0.5
    elif kind == "float":
        value.f = random.choice((-1.0, 1e38, float("inf"), float("nan")) if random.bad else (0.0, 1.0))
    elif kind == "shape":
        _shape(value.shape, random)
    elif kind == "tensor":
        _tensor(value.tensor, random)
    elif kind == "func":
        value.func.name = random.choice(("missing", "")) if random.bad else random.choice("fgh")
        if random.bad:
            value.func.attr["T"].type = 1
    else:
        value.s = random.choice(
            (b"NHWC", b"SAME", b"VALID", b"while", b"loc:@n0", b"loc:@n1", b"loc:@x", b"\xff\xfe", b"", b"ab,bc->ac")
        )


def _shape(shape: Any, random: Chance) -> None:
    shape.SetInParent()
    if random.bad:
        shape.unknown_rank = True
    for _ in range(random.choice((5, 255, 300) if random.bad else (0, 1, 2, 4))):
        shape.dim.add(size=random.choice(INTEGERS) if random.bad else random.choice((1, 2, 3, 8, -1)))


def _tensor(tensor: Any, random: Chance) -> None:
    tensor.dtype = random.choice((7, 9, 10, 0, 77) if random.bad else (1, 3))
    _shape(tensor.tensor_shape, random)
    way = random.randrange(6)
    if way < 2:
        tensor.int_val.extend(random.choice((0, 1, 2, -1, 2**31 - 1)) for _ in range(random.randrange(5)))
    elif way == 2:
        tensor.tensor_content = random.randbytes(random.choice((0, 4, 8, 12, 15, 64)))
    elif way == 3:
        tensor.int64_val.extend(random.choice(INTEGERS) for _ in range(random.randrange(5)))
    elif way == 4:
        tensor.bool_val.append(random.random() < 0.5)
    else:
        tensor.string_val.append(random.choice((b"", b"x", b"\xff", b"a" * 1000)))


def _function(function: Any, name: str, random: Chance) -> None:
    signature = function.signature
    signature.name = random.choice(NAMES[:20]) if random.bad else name
    inputs = random.randrange(3) if random.bad else 1
    for number in range(inputs):
        argument = signature.input_arg.add(
            name=f"x{number}", type=random.choice((3, 10, 20, 0) if random.bad else (1,))
        )
        if random.bad:
            argument.type_attr, argument.number_attr = random.choice(("T", "")), random.choice(("N", ""))
    signature.output_arg.add(name="y", type=random.choice((10, 0) if random.bad else (1,)))
    if random.bad:
        signature.attr.add(name=random.choice("TN"), type=random.choice(("type", "int", "list(type)", "?")))
    _nodes(function.node_def, random, random.choice((0, 1, 2, 4)))
    for _ in range(random.choice((0, 1, 2, 3))):
        body = function.node_def.add(
            name=f"c{len(function.node_def)}",
            op=random.choice("fgh"[("fgh".index(name) + 1) if name in "fg" else 2 :] or "h"),
        )
        body.input.extend(
            random.choices(("x1", "n0:y:0", "n0:output:0", "c0:y:0") if random.bad else ("x0",), k=inputs)
        )
    source = random.choice(("n0:output:0", "n0:z:0", "c0:y:0", "missing", "n0:y:99") if random.bad else ("x0",))
    function.ret["y"] = source
    if random.bad:
        function.control_ret["c"] = random.choice(("n0", "missing"))


def meta_graph_of(random: Chance) -> Proto:
    """A MetaGraphDef with collections and signatures that name something, or nothing."""
    made = MetaGraphDef(graph_def=any_graph(random))
    names = [node.name for node in made.graph_def.node] + ["missing", "n0:0", ""]
    made.meta_info_def.tags.extend(random.sample(("serve", "train", "", "tpu"), random.randrange(3)))
    for key in random.sample(("train_op", "queue_runners", "variables", "trainable_variables", "while_context"), 2):
        kept = made.collection_def[key]
        if random.random() < 0.5:
            kept.node_list.value.append(random.choice(names))
        else:
            kept.bytes_list.value.append(random.choice((b"", b"\xff", b"\x0a\x01x", random.randbytes(9))))
    for key in ("serving_default", "__saved_model_train_op", "")[: random.randrange(4)]:
        made.signature_def[key].outputs["y"].name = random.choice(names)
        made.signature_def[key].inputs["x"].name = random.choice(names)
    return made


def saved_model_of(random: Chance) -> Proto:
    """A SavedModel of up to two MetaGraphs."""
    return SavedModel(meta_graphs=[meta_graph_of(random) for _ in range(random.choice((1, 1, 2, 0)))])


# ---- seeds ----------------------------------------------------------------------------------------------------------


@cache
def seeds() -> dict[str, Sequence[bytes]]:
    """Small good inputs by kind, made by code: graphs of every sort of structure, what carries them, and costs."""
    graphs = [_looped(), _called(), _referring(), _queued(), doubling(3)]
    graphs.append(_first(graph_def_of(EXAMPLE.read_text(encoding="utf-8")), 60))
    train = _training()
    metas = [MetaGraphDef(graph_def=graph) for graph in (graphs[0], train)]
    metas[0].signature_def["serving_default"].inputs["x"].name = "start:0"
    metas[0].signature_def["serving_default"].outputs["y"].name = "after:0"
    metas[0].collection_def["train_op"].node_list.value.append("after")
    metas[0].meta_info_def.tags.append("serve")
    costs = RunMetadata()
    for device in ("/job:localhost/replica:0/task:0/device:CPU:0", "/device:GPU:0/stream:all"):
        for name, op in (("x", "Placeholder"), ("y", "MatMul"), ("w", "VariableV2")):
            of = costs.step_stats.dev_stats.add(device=device).node_stats.add(
                node_name=name, timeline_label=f"{name} = {op}(x, w)"
            )
            of.all_start_micros, of.op_end_rel_micros, of.all_end_rel_micros = 1000, 30, 40
    return {
        "graph": [one.SerializeToString() for one in (*graphs, train)],
        "meta graph": [one.SerializeToString() for one in metas],
        "saved model": [
            SavedModel(saved_model_schema_version=1, meta_graphs=[one]).SerializeToString() for one in metas
        ],
        "costs": [costs.SerializeToString()],
        "train": [EXAMPLE.read_bytes()],
        "loop": [graphs[0].SerializeToString()],
        "calls": [graphs[1].SerializeToString()],
    }


def graph_def_of(text: str) -> Proto:
    """A GraphDef from its text."""
    return parse(text, GraphDef(), "a seed", 1)


def _first(message: Proto, count: int) -> Proto:
    del message.node[count:]
    kept = {node.name for node in message.node}
    for node in message.node:
        good = [one for one in node.input if one.lstrip("^").partition(":")[0] in kept]
        del node.input[:]
        node.input.extend(good)
    return message


def _looped() -> Proto:
    rows = Rows()
    rows.add("start", "Const", **typed("Const"))
    end = loop(rows, start="start")
    rows.add("after", "Neg", [end], **typed("Neg"))
    return graph_def(rows.built())


def _referring() -> Proto:
    rows = Rows()
    rows.add("v", "VariableV2", device="/job:ps/task:0", **typed("VariableV2", (8, 8)))
    rows.add("c", "Const", **typed("Const", (8, 8)))
    rows.add("v/Assign", "Assign", ["v", "c"], T=type_attr())
    rows.add("v/read", "Identity", ["v", "^v/Assign"], **typed("Identity", (8, 8)))
    rows.add("update", "AssignAdd", ["v", "v/read"], T=type_attr())
    rows.add("choose", "RefSwitch", ["v", "c"], T=type_attr())
    return graph_def(rows.built())


def _queued() -> Proto:
    text = """
    node { name: "q" op: "FIFOQueueV2" attr { key: "component_types" value { list { type: DT_FLOAT } } }
      attr { key: "shapes" value { list { shape { dim { size: 4 } } } } } attr { key: "capacity" value { i: 32 } } }
    node { name: "file" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
      attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 4 } } float_val: 1 } } } }
    node { name: "put" op: "QueueEnqueueV2" input: "q" input: "file"
      attr { key: "Tcomponents" value { list { type: DT_FLOAT } } } }
    node { name: "n" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
      attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 8 } } } }
    node { name: "get" op: "QueueDequeueManyV2" input: "q" input: "n"
      attr { key: "component_types" value { list { type: DT_FLOAT } } } }
    node { name: "y" op: "Square" input: "get" attr { key: "T" value { type: DT_FLOAT } } }
    """
    return graph_def_of(text)


def _called() -> Proto:
    message = graph_def_of("""
    node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "p" op: "Placeholder" attr { key: "dtype" value { type: DT_BOOL } } }
    node { name: "y" op: "PartitionedCall" input: "x" attr { key: "f" value { func { name: "f" } } }
      attr { key: "Tin" value { list { type: DT_FLOAT } } } attr { key: "Tout" value { list { type: DT_FLOAT } } } }
    node { name: "z" op: "If" input: "p" input: "y" attr { key: "Tcond" value { type: DT_BOOL } }
      attr { key: "Tin" value { list { type: DT_FLOAT } } } attr { key: "Tout" value { list { type: DT_FLOAT } } }
      attr { key: "then_branch" value { func { name: "f" } } } attr { key: "else_branch" value { func { name: "g" } } }
      attr { key: "_lower_using_switch_merge" value { b: true } } }
    node { name: "l" op: "While" input: "z" attr { key: "T" value { list { type: DT_FLOAT } } }
      attr { key: "cond" value { func { name: "c" } } } attr { key: "body" value { func { name: "f" } } }
      attr { key: "_lower_using_switch_merge" value { b: true } } }
    """)
    for name, op in (("f", "Neg"), ("g", "Square"), ("c", "Less")):
        function = message.library.function.add()
        function.signature.name = name
        function.signature.input_arg.add(name="a", type=1)
        function.signature.output_arg.add(name="b", type=10 if name == "c" else 1)
        node = function.node_def.add(name="n", op=op, input=["a", "a"] if name == "c" else ["a"])
        node.attr["T"].type = 1
        function.ret["b"] = "n:z:0" if name == "c" else "n:y:0"
    return message


def doubling(depth: int) -> Proto:
    """Functions of which each calls the next one twice."""
    message = GraphDef()
    message.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    message.node.add(name="y", op="f0", input=["x"])
    for number in range(depth + 1):
        function = message.library.function.add()
        function.signature.name = f"f{number}"
        function.signature.input_arg.add(name="a", type=1)
        function.signature.output_arg.add(name="b", type=1)
        last = number == depth
        for row, source in enumerate(("a", "n0:b:0")):
            node = function.node_def.add(name=f"n{row}", op="Neg" if last else f"f{number + 1}", input=[source])
            if last:
                node.attr["T"].type = 1
                node.input[:] = ["a"]
        function.ret["b"] = "n1:y:0" if last else "n1:b:0"
    return message


def _training() -> Proto:
    """A variable, a product, its gradient, and an update, on a parameter server and a worker."""
    rows = Rows()
    rows.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(-1, 8))
    rows.add("w", "VariableV2", device="/job:ps/task:0", dtype=type_attr(), shape=shape_attr(8, 4))
    rows.add("y", "MatMul", ["x", "w"], device="/job:worker/task:0", T=type_attr())
    rows.add("g", "MatMul", ["x", "y"], device="/job:worker/task:0", T=type_attr())
    rows.add("rate", "Const", **typed("Const"))
    rows.add("u", "ApplyGradientDescent", ["w", "rate", "g"], device="/job:ps/task:0", T=type_attr())
    rows.add("train", "NoOp", ["^u"])
    return graph_def(rows.built())


# ---- by changes -----------------------------------------------------------------------------------------------------


def changed_message(message: Proto, random: Chance) -> Proto:
    """A copy with one field removed, doubled, swapped, or filled with a hostile value; with up to six if it is bad."""
    made = type(message)()
    made.CopyFrom(message)
    for _ in range(random.randrange(2, 7) if random.bad else 1):
        _change(made, random)
    return made


def _change(message: Any, random: Chance) -> None:
    """Walk down to a random field and change it."""
    while True:
        fields = message.ListFields()
        inner = [(field, value) for field, value in fields if field.message_type is not None]
        if inner and random.random() < 0.85:
            field, value = random.choice(inner)
            entry = field.message_type.GetOptions().map_entry
            if entry:
                keys = sorted(value)
                if random.random() < 0.15:
                    del value[random.choice(keys)]
                    return
                if field.message_type.fields_by_name["value"].message_type is None:
                    value[random.choice(keys)] = random.choice(NAMES[:20]) if isinstance(value[keys[0]], str) else 1
                    return
                message = value[random.choice(keys)]
            elif field.is_repeated:
                if random.random() < 0.15:
                    _repeat(value, random)
                    return
                message = random.choice(list(value))
            else:
                message = value
            continue
        _set(message, random)
        return


def _repeat(value: Any, random: Chance) -> None:
    """Remove, double or swap an element of a repeated message."""
    at, to = random.randrange(len(value)), random.randrange(len(value))
    way = random.randrange(4)
    if way == 0:
        del value[at]
    elif way == 1:
        value.add().CopyFrom(value[at])
    else:
        held = type(value[at])()
        held.CopyFrom(value[at])
        value[at].CopyFrom(value[to])
        if way == 2:
            value[to].CopyFrom(held)


def _set(message: Any, random: Chance) -> None:
    """Give a field of the message a new value, or none."""
    fields = list(message.DESCRIPTOR.fields)
    present = [field for field, _ in message.ListFields()]
    field = random.choice(present if present and random.random() < 0.7 else fields) if fields else None
    if field is None:
        return
    if field.message_type is not None:
        if not field.is_repeated:
            message.ClearField(field.name) if random.random() < 0.3 else getattr(message, field.name).SetInParent()
        elif not field.message_type.GetOptions().map_entry:
            getattr(message, field.name).add()
        return
    if random.random() < 0.15:
        message.ClearField(field.name)
        return
    value = _value(field, message, random)
    try:
        if not field.is_repeated:
            setattr(message, field.name, value)
        else:
            held = getattr(message, field.name)
            if len(held) and random.random() < 0.5:
                held[random.randrange(len(held))] = value
            else:
                held.extend([value] * random.choice((1, 1, 2, 50)))
    except ValueError:  # a number outside of the field's range
        message.ClearField(field.name)


def _value(field: Any, message: Any, random: Chance) -> Any:
    """A value for a plain field; for a name sometimes another name of the same message."""
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING:
        text = random.choice((*NAMES, *DEVICES, "x", "x:1", "^x", "while/Exit", "a", "n:y:0"))
        return text.encode("utf-8", "surrogatepass") if field.type == field.TYPE_BYTES else text
    if kind == field.CPPTYPE_BOOL:
        return random.random() < 0.5
    if kind in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return random.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
    return random.choice(INTEGERS)


@cache
def _bomb(size: int, times: int, members: int) -> bytes:
    """Zeros as gzip of gzip, with small members behind."""
    made = bytes(size)
    for _ in range(times):
        made = gzip.compress(made, mtime=0)
    return made + gzip.compress(b" ", mtime=0) * (members - 1)


def zipped(raw: bytes, random: Chance) -> bytes:
    """The bytes as gzip: whole, in several members, cut, changed, or with a bomb behind or around."""
    if random.random() < 0.01:
        return _bomb(random.choice((10**6, 10**8)), random.choice((1, 2)), random.choice((1, 50_000)))
    way = random.randrange(6)
    made = gzip.compress(raw, mtime=0)
    if way == 0:
        at = random.randrange(len(raw) + 1)
        return gzip.compress(raw[:at], mtime=0) + gzip.compress(raw[at:], mtime=0)
    if way == 1:
        return made[: random.randrange(len(made) + 1)]
    if way == 2:
        at = random.randrange(len(made))
        return made[:at] + bytes([made[at] ^ 1 << random.randrange(8)]) + made[at + 1 :]
    if way == 3:
        return made + random.randbytes(random.choice((1, 20)))
    if way == 4 and random.random() < 0.1:
        return made + gzip.compress(bytes(random.choice((10**6, 10**8))), mtime=0)
    return gzip.compress(made, mtime=0) if way == 5 else made
