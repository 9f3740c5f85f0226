"""Child process: sample every op of TensorFlow with random attributes and say what TensorFlow makes of it.

Types come from TensorFlow itself (the node is imported with inputs of the types that its OpDef says). Kernels and host
memory are looked up in the KernelDefs by a straightforward reading of TensorFlow's rules, which shares nothing with
the product.
"""

import base64
import json
import random
from typing import Any

from simulator.oracle.child import serve

TYPES = [1, 2, 3, 6, 7, 9, 10, 14, 19, 20, 21]
SAMPLES = 3


def answer(payload: bytes) -> bytes:
    seed = int(payload)
    import tensorflow as tf
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session
    from tensorflow.python.framework import kernels

    ops = op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())).op
    by_op: dict[str, list[Any]] = {}
    for kernel in kernels.get_all_registered_kernels().kernel:
        by_op.setdefault(kernel.op, []).append(kernel)
    rng = random.Random(seed)
    cases = []
    for op in sorted(ops, key=lambda op: op.name):
        for _ in range(SAMPLES):
            node = sample(tf, op, rng)
            cases.append(
                {
                    "node": base64.b64encode(node.SerializeToString()).decode(),
                    "types": imported(tf, op, node),
                    "kernels": {kind: found(kind, op, node, by_op) for kind in ("CPU", "GPU")},
                    "stateful": op.is_stateful,
                }
            )
    return json.dumps(cases).encode()


def sample(tf: Any, op: Any, rng: Any) -> Any:
    """A node of that op with attributes drawn from what the OpDef allows; defaulted ones are left out half the time."""
    node = tf.compat.v1.NodeDef(name="sampled", op=op.name)
    for attr in op.attr:
        if attr.HasField("default_value") and rng.random() < 0.5:
            continue
        allowed = attr.allowed_values.list
        value = node.attr[attr.name]
        if attr.type == "type":
            value.type = rng.choice(list(allowed.type) or TYPES)
        elif attr.type == "list(type)":
            length = rng.randint(max(1, attr.minimum), max(3, attr.minimum))
            value.list.type.extend(rng.choice(list(allowed.type) or TYPES) for _ in range(length))
        elif attr.type == "int" and not attr.HasField("default_value"):
            value.i = max(attr.minimum, rng.randint(1, 4)) if attr.has_minimum else rng.randint(1, 4)
        elif attr.type == "string" and allowed.s:
            value.s = rng.choice(list(allowed.s))
        elif attr.HasField("default_value"):
            value.CopyFrom(attr.default_value)
        elif attr.type == "string":
            value.s = b"text"
        elif attr.type == "func":
            value.func.name = "some_function"
        else:
            default = {"bool": ("b", True), "float": ("f", 1.0)}.get(attr.type)
            if default:
                setattr(value, *default)
            elif attr.type == "shape":
                value.shape.unknown_rank = True
            elif attr.type == "tensor":
                value.tensor.CopyFrom(tf.make_tensor_proto(1.0))
            else:
                value.list.SetInParent()
    return node


def value(op: Any, node: Any, name: Any) -> Any:
    """An attribute's value, or its default; None where there is neither."""
    if name in node.attr:
        return node.attr[name]
    return next((attr.default_value for attr in op.attr if attr.name == name and attr.HasField("default_value")), None)


def flat(op: Any, node: Any, arguments: Any) -> Any:
    """(argument name, type) per flat slot."""
    slots = []
    for argument in arguments:
        if argument.type_list_attr:
            kinds = list(value(op, node, argument.type_list_attr).list.type)
        else:
            kind = value(op, node, argument.type_attr).type if argument.type_attr else argument.type
            kinds = [kind] * (value(op, node, argument.number_attr).i if argument.number_attr else 1)
        slots += [(argument.name, kind + (100 if argument.is_ref else 0)) for kind in kinds]
    return slots


def imported(tf: Any, op: Any, node: Any) -> Any:
    """What TensorFlow says that the node takes and gives; None if it does not import it (shapes, functions, ...)."""
    if op.name.startswith("_"):
        return None  # internal: not for import, and the shape function of _QuantizedMatMul crashes
    graph = tf.compat.v1.GraphDef()
    graph.node.add().CopyFrom(node)
    slots = flat(op, node, op.input_arg)
    for at, (_, kind) in enumerate(slots):
        graph.node[0].input.append(f"input_{at}")
        given = graph.node.add(name=f"input_{at}", op="VariableV2" if kind > 100 else "Placeholder")
        given.attr["dtype"].type = kind % 100
        if kind > 100:
            given.attr["shape"].shape.unknown_rank = True
    try:
        with tf.Graph().as_default():
            tf.import_graph_def(graph, name="")
            made = tf.compat.v1.get_default_graph().get_operation_by_name("sampled")
            return {"inputs": [kind for _, kind in slots], "outputs": [o.dtype.as_datatype_enum for o in made.outputs]}
    except Exception:  # noqa: BLE001  # a shape function refuses, or a function is missing: nothing to compare
        return None


def matches(op: Any, node: Any, kernel: Any) -> Any:
    """Whether every constraint of a registration holds; one on an attribute that the op does not have counts so."""
    for constraint in kernel.constraint:
        given = value(op, node, constraint.name)
        if given is None:
            continue
        kind = given.WhichOneof("value")
        allowed = constraint.allowed_values.list
        if kind == "list":
            fine = all(item in allowed.type for item in given.list.type)
        else:
            fine = getattr(given, kind) in getattr(allowed, kind)
        if not fine:
            return False
    return True


def found(kind: Any, op: Any, node: Any, by_op: Any) -> Any:
    """Priority of the kernel for a device type, and the flat slots and ports that it keeps in host memory."""
    matching: list[Any] = []
    for device_type in (kind, "DEFAULT"):
        matching = matching or [
            kernel
            for kernel in by_op.get(op.name, ())
            if kernel.device_type == device_type and not kernel.label and matches(op, node, kernel)
        ]
    inputs, outputs = flat(op, node, op.input_arg), flat(op, node, op.output_arg)
    call = op.name in ("PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient", "While", "StatelessWhile")
    if matching and not call:
        kernel = max(matching, key=lambda kernel: kernel.priority)
        host = [
            [at for at, (name, dtype) in enumerate(side) if name in kernel.host_memory_arg or dtype % 100 in (7, 20)]
            for side in (inputs, outputs)
        ]
    else:
        # a reference to int32 is another type (memory_types.cc, MTypeFromDType), one to a string is not
        host = [
            [at for at, (_, dtype) in enumerate(side) if dtype == 3 or dtype % 100 in (7, 20)]
            for side in (inputs, outputs)
        ]
    return {"priority": max((kernel.priority for kernel in matching), default=None), "host": host}


if __name__ == "__main__":
    serve(answer)
