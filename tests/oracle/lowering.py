"""Child process: what TensorFlow makes of functions and functional control flow.

`build`: build the models that are kept as they are, and those that are lowered too, and answer their GraphDefs.
`lower`: build every model, let a session lower and inline it, answer per model the graph before and after that pass
and the values that it computes. `run`: import graphs that the product made and answer the values that they compute.
"""

import base64
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from simulator.oracle.child import serve

X = [[0.1, 0.2], [0.3, 0.4]]


def conditionals(tf: Any, x: Any, p: Any) -> Any:
    """If within Case within a call; branches that capture, a branch on a device, control edges in and out."""

    @tf.function
    def shared(a: Any, b: Any) -> Any:
        return tf.matmul(a, b, name="mm"), a + b

    with tf.device("/cpu:1"):
        y = tf.cond(p, lambda: shared(x, x)[0], lambda: x * 2.0)
    k = tf.cast(y[0, 0] * 4.0, tf.int32)
    with tf.control_dependencies([y]):
        z = tf.switch_case(k, [lambda: x, lambda: tf.cond(p, lambda: y, lambda: shared(x, y)[1]), lambda: y + 1.0])
    with tf.compat.v1.colocate_with(z), tf.control_dependencies([z]):
        w = tf.cond(tf.logical_not(p), lambda: z + tf.constant(1.0), lambda: z - tf.constant(1.0))
    return [y, z, w]


def loops(tf: Any, x: Any, p: Any) -> Any:
    """Nested While with a conditional inside, a resource that is no loop variable, control edges."""
    v = tf.compat.v1.get_variable("v", [2, 2], use_resource=True, initializer=tf.compat.v1.ones_initializer())

    def inner(i: Any, a: Any) -> Any:
        return i + 1, tf.cond(p, lambda: tf.matmul(a, v), lambda: a - v)

    def outer(i: Any, a: Any) -> Any:
        return i + 1, tf.while_loop(lambda j, _: j < 2, inner, [0, a])[1] + v

    with tf.control_dependencies([tf.identity(x, name="first")]):
        y = tf.while_loop(lambda i, _: i < 3, outer, [0, x])[1]
    with tf.control_dependencies([y]):
        z = tf.identity(v, name="after")
    return [y, z, tf.compat.v1.gradients(_triangle(tf, x), x)[0]]


def _triangle(tf: Any, x: Any) -> Any:
    """Loops that their own counters and that of the loop around them end."""

    def row(i: Any, a: Any) -> Any:
        j, a = tf.while_loop(lambda j, _: j < i, lambda j, b: (j + 1, tf.tanh(b)), [0, a])
        a = tf.while_loop(lambda k, _: k < 2 * j, lambda k, b: (k + 1, b * b), [1, a])[1]
        return i + 1, tf.while_loop(lambda n, _: n > 0, lambda n, b: (n // 2, b + 1.0), [i, a])[1]

    return tf.while_loop(lambda i, _: i < 5, row, [0, x])[1]


def arrays(tf: Any, x: Any, p: Any) -> list[Any]:
    """Loops that end by an element of an array, and a branch that one decides, by a place that a loop counts."""
    ends = tf.constant([2, 0, 3])

    def times(n: Any, a: Any) -> Any:
        return tf.while_loop(lambda j, _: j < n, lambda j, b: (j + 1, tf.tanh(b)), [0, a])[1]

    def sliced(i: Any, a: Any) -> Any:
        return i + 1, tf.cond(ends[-1 - i] > 2, lambda: a * 2.0, lambda: times(ends[i], a))

    def gathered(i: Any, a: Any) -> Any:
        return i + 2, times(tf.gather(ends, i), a)

    def first_longer(a: Any, n: Any) -> Any:
        return times(n, a)

    mapped = tf.map_fn(lambda n: times(2 * n, x), tf.range(4), fn_output_signature=tf.float32)
    mapped = tf.cond(p, lambda: mapped * 2.0, lambda: mapped + 1.0)
    scanned = tf.scan(first_longer, tf.one_hot(0, 4, 3, 1, dtype=tf.int32), x)
    return [
        mapped,
        scanned,
        tf.while_loop(lambda i, _: i < 3, sliced, [0, x])[1],
        tf.while_loop(lambda i, _: i < 3, gathered, [0, x])[1],
        tf.compat.v1.gradients(mapped, x)[0],
    ]


def arrays_of_version_1(tf: Any, x: Any, p: Any) -> list[Any]:
    """The same with the control flow of TensorFlow 1."""
    tf.compat.v1.disable_control_flow_v2()
    try:
        return arrays(tf, x, p)
    finally:
        tf.compat.v1.enable_control_flow_v2()


def state(tf: Any, x: Any, p: Any) -> Any:
    """Calls with side effects, devices inside and outside, a call without results."""
    v = tf.compat.v1.get_variable("v", [2, 2], use_resource=True, initializer=tf.compat.v1.zeros_initializer())

    @tf.function
    def add() -> None:
        v.assign_add(tf.ones([2, 2]))

    @tf.function
    def twice(a: Any) -> Any:
        add()
        with tf.device("/cpu:2"):
            b = tf.matmul(a, v, name="mm")
        return tf.cond(tf.reduce_sum(b) > 0, lambda: b + 1.0, lambda: b - v)

    with tf.device("/cpu:1"):
        y = twice(x)
    with tf.control_dependencies([y]):
        add()
    return [y]


def legacy(tf: Any, x: Any, p: Any) -> Any:
    """Ops that name a function, one within the other, with old-style loops and colocation in the body."""
    from tensorflow.python.framework import function

    tf.compat.v1.disable_control_flow_v2()

    @function.Defun(tf.float32, tf.float32)
    def product(a: Any, b: Any) -> Any:
        with tf.device("/cpu:1"):
            m = tf.matmul(a, b)
        return m + 1.0, a * b

    @function.Defun(tf.float32)
    def body(a: Any) -> Any:
        r = tf.while_loop(lambda i, _: i < 3, lambda i, z: (i + 1, tf.matmul(z, a)), [0, a])[1]
        with tf.compat.v1.colocate_with(r):
            s = tf.identity(r, name="beside")
        with tf.compat.v1.colocate_with(a):
            return product(s + 1.0, a)[1]

    with tf.device("/cpu:2"):
        y = body(x)
    z = product(y, x)
    with tf.control_dependencies(z):
        w = body(z[0])
    tf.compat.v1.enable_control_flow_v2()
    return [y, *z, w]


def lists(tf: Any, x: Any, p: Any) -> Any:
    """TensorLists, the gradient of a While, map_fn."""
    array = tf.TensorArray(tf.float32, 2).unstack(x)

    def body(i: Any, total: Any, out: Any) -> Any:
        row = array.read(i)
        return i + 1, total + row, out.write(i, total * row)

    start = [0, tf.zeros([2]), tf.TensorArray(tf.float32, 2)]
    y = tf.while_loop(lambda i, *_: i < 2, body, start)[2].stack()
    return [y, tf.compat.v1.gradients(tf.reduce_sum(y * y), x)[0], tf.map_fn(lambda row: tf.reduce_sum(row) * row, x)]


def calls(tf: Any, x: Any, p: Any) -> Any:
    """Calls within branches, loops and calls, on devices; one without arguments."""
    p = tf.identity(p)  # what is fed has few readers: TensorFlow numbers the edges of many by chance
    v = tf.compat.v1.get_variable("v", [2, 2], use_resource=True)

    @tf.function
    def one() -> Any:
        return tf.constant(1.0)

    @tf.function
    def twice(a: Any) -> Any:
        with tf.device("/cpu:1"):
            return a * 2.0 + v

    @tf.function
    def outer(a: Any) -> Any:
        return tf.cond(p, lambda: twice(a), lambda: a)

    with tf.device("/cpu:2"):
        y = tf.cond(p, lambda: twice(x), lambda: x + one())
        y = tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, twice(a)), [0, y])[1]
    k = tf.cast(y[0, 0], tf.int32)
    z = tf.switch_case(k, [lambda: twice(y), lambda: tf.cond(p, lambda: x, lambda: outer(y)), lambda: y])
    return [outer(z), one()]


def ends(tf: Any, x: Any, p: Any) -> Any:
    """What nobody reads, conditionals without results, and shapes that wait: they follow the edge made first."""
    p = tf.identity(p)
    v = tf.compat.v1.get_variable("v", [2, 2], use_resource=True)
    old = tf.compat.v1.get_variable("old", [2, 2], use_resource=False)

    def update() -> Any:
        with tf.control_dependencies([v.assign_add(x)]):
            return tf.no_op()

    def shapes(a: Any) -> Any:
        with tf.device("/cpu:1"):
            before = tf.negative(a)
        inside = tf.cond(p, lambda: a, lambda: a + 1.0)
        with tf.control_dependencies([before]):
            one, two = tf.raw_ops.Shape(input=a), tf.raw_ops.Rank(input=inside)
        with tf.control_dependencies([inside]):
            return one, two, tf.raw_ops.Size(input=a), tf.identity(a)

    with tf.device("/cpu:2"):
        source = tf.negative(x)
    with tf.control_dependencies([tf.cond(p, update, tf.no_op)]):
        waits = tf.raw_ops.Shape(input=source)
    y = tf.cond(p, lambda: source + old, lambda: source - v)
    with tf.control_dependencies([y]):
        after = tf.raw_ops.Shape(input=y), tf.raw_ops.Shape(input=source), tf.identity(tf.identity(y))
    return [waits, *after, *tf.cond(p, lambda: shapes(source), lambda: shapes(y))]


def rewritten(tf: Any, x: Any, p: Any) -> Any:
    """Ops that TensorFlow replaces by others before it places them, in the graph, in a branch and in a loop."""
    a = tf.parallel_stack([x, x + 1.0])
    with tf.control_dependencies([a]), tf.device("/cpu:1"):
        b = tf.raw_ops.AccumulateNV2(inputs=[x, a[0], x + 2.0], shape=[2, 2])
    c = tf.cond(p, lambda: tf.parallel_stack([x, x]), lambda: tf.stack([b, x]))
    tf.compat.v1.disable_control_flow_v2()

    def step(i: Any, z: Any) -> Any:
        return i + 1, tf.raw_ops.AccumulateNV2(inputs=[z, x], shape=[2, 2])

    d = tf.while_loop(lambda i, _: i < 3, step, [0, x])[1]
    tf.compat.v1.enable_control_flow_v2()
    return [a, b + 1.0, c, d]


def resources(tf: Any, x: Any, p: Any) -> Any:
    """Calls that hand back a resource that they were given, or one that they make."""
    with tf.device("/cpu:1"):
        v = tf.compat.v1.get_variable("v", [2, 2], use_resource=True)

    @tf.function
    def given(a: Any) -> Any:
        return a + 1.0, v.handle

    @tf.function
    def made(a: Any) -> Any:
        with tf.device("/cpu:2"):
            return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[2, 2], shared_name="q"), a

    a, handle = given(x)
    other, b = made(a)
    with tf.control_dependencies([tf.raw_ops.AssignVariableOp(resource=other, value=b)]):
        read = tf.raw_ops.ReadVariableOp(resource=other, dtype=tf.float32)
    return [tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32) + a, read, given(read)[0]]


def data(tf: Any, x: Any, p: Any) -> Any:
    """Functions that are attributes of datasets stay where they are."""
    numbers = tf.data.Dataset.range(10).map(lambda i: tf.cond(i > 3, lambda: i * 2, lambda: i)).batch(2)
    once = tf.compat.v1.data.make_one_shot_iterator(numbers)
    again = tf.compat.v1.data.make_initializable_iterator(numbers)
    return [once.get_next(), again.get_next()]


MODELS = {made.__name__: made for made in (conditionals, loops, state, legacy, lists)}
KEPT = {
    made.__name__: made
    for made in (*MODELS.values(), calls, ends, rewritten, resources, data, arrays, arrays_of_version_1)
}


def session(tf: Any, graph: Any) -> Any:
    config = tf.compat.v1.ConfigProto(device_count={"CPU": 3})
    config.graph_options.optimizer_options.do_function_inlining = True
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.compat.v1.Session(graph=graph, config=config)


def values(tf: Any, graph: Any, fetches: Any, p: Any) -> Any:
    """What the graph computes from fresh variables."""
    with session(tf, graph) as running:
        if "init" in {operation.name for operation in graph.get_operations()}:
            running.run("init")
        return [value.tolist() for value in running.run(fetches, {"x:0": X, "p:0": p})]


def built(tf: Any, model: Any) -> Any:
    """The graph of a model, and what it returns."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [2, 2], name="x")
        fetches = model(tf, x, tf.compat.v1.placeholder(tf.bool, [], name="p"))
        tf.compat.v1.global_variables_initializer()
    return graph, fetches


def written(graph: Any) -> Any:
    return base64.b64encode(graph.as_graph_def(add_shapes=True).SerializeToString()).decode()


def build(tf: Any) -> Any:
    return {name: written(built(tf, model)[0]) for name, model in KEPT.items()}


def lower(tf: Any, dumps: Any) -> Any:
    answers = {}
    for name, model in MODELS.items():
        graph, fetches = built(tf, model)
        names = [tensor.name for tensor in fetches]
        computed = [values(tf, graph, names, p) for p in (True, False)]
        files = sorted(dumps.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        before = [file for file in files if "before_opt_group_pre_placement" in file.name][-1]
        after = [file for file in files if "LowerFunctionalOpsPass" in file.name][-1]
        answers[name] = {
            "graph": written(graph),
            "before": before.read_text("latin-1"),
            "after": after.read_text("latin-1"),
            "fetches": names,
            "values": computed,
        }
        for file in files:
            file.unlink()
    return answers


def run(tf: Any, given: Any) -> Any:
    answers = {}
    for name, (text, fetches) in given.items():
        graph = tf.Graph()
        with graph.as_default():
            definition = tf.compat.v1.GraphDef.FromString(base64.b64decode(text))
            tf.import_graph_def(definition, name="")
        answers[name] = [values(tf, graph, fetches, p) for p in (True, False)]
    return answers


def answer(payload: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TF_DUMP_GRAPH_PREFIX": folder, "TF_DUMP_GRAPH_FMT": "TXT", "TF_CPP_MIN_LOG_LEVEL": "0"}
        if sys.argv[1] == "lower":
            os.environ["TF_CPP_VMODULE"] = "optimization_registry=5"
        import tensorflow as tf

        match sys.argv[1]:
            case "build":
                found = build(tf)
            case "lower":
                found = lower(tf, Path(folder))
            case "run":
                found = run(tf, json.loads(payload))
        return json.dumps(found).encode()


if __name__ == "__main__":
    serve(answer)
