"""Child process: programs as GraphDefs, and the nodes that a session of this machine's TensorFlow runs of some of them.

The session cuts the graph that Grappler made for one device, so the pieces have its nodes, a Send or Recv at most more.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from simulator.costs.measurements.runs import without_mkl
from simulator.oracle.child import pack, serve
from simulator.oracle.session import quiet

_EXCHANGED = ("_Recv", "_Send", "_HostRecv", "_HostSend", "_Arg", "_Retval")
SIDE = 16


def convolutions(tf: Any) -> tuple[list[Any], list[Any]]:
    """Two convolutions, a product, and Adam."""
    image = tf.placeholder(tf.float32, [None, SIDE, SIDE, 3])
    found = image
    for name, channels in (("first", 3), ("second", 8)):
        taps, bias = tf.get_variable(name, [3, 3, channels, 8]), tf.get_variable(f"{name}_bias", [8])
        found = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(found, taps, strides=1, padding="SAME"), bias))
    flat = tf.reshape(found, [-1, SIDE * SIDE * 8])
    loss = tf.reduce_mean(tf.square(tf.matmul(flat, tf.get_variable("last", [SIDE * SIDE * 8, 10]))))
    return [image], [loss, tf.train.AdamOptimizer(0.1).minimize(loss)]


def looped(tf: Any) -> tuple[list[Any], list[Any]]:
    """A loop over a product."""
    given, weights = tf.placeholder(tf.float32, [None, 8]), tf.get_variable("weights", [8, 8])
    _, found = tf.while_loop(
        lambda number, _: number < 10,
        lambda number, last: (number + 1, tf.tanh(tf.matmul(last, weights) + tf.constant(1.0) * 0)),
        [0, given],
    )
    return [given], [tf.reduce_sum(found) * 1 + 0]


def branched(tf: Any) -> tuple[list[Any], list[Any]]:
    """A branch, of which one way reads a variable."""
    given, weights = tf.placeholder(tf.float32, [None, 8]), tf.get_variable("weights", [8, 8])
    return [given], [tf.cond(tf.reduce_sum(given) > 0, lambda: tf.matmul(given, weights), lambda: given * 2)]


def attention(tf: Any) -> tuple[list[Any], list[Any]]:
    """Attention of a sequence to itself, and momentum."""
    given = tf.placeholder(tf.float32, [None, SIDE, 32])
    keys = tf.nn.relu(tf.einsum("abc,cd->abd", given, tf.get_variable("keys", [32, 32])))
    scores = tf.nn.softmax(tf.matmul(keys, keys, transpose_b=True) / tf.sqrt(32.0))
    loss = tf.reduce_mean(tf.square(tf.matmul(scores, keys)))
    return [given], [loss, tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)]


def inferred(tf: Any) -> tuple[list[Any], list[Any]]:
    """Convolutions with a sum as bias, as Keras writes it: Grappler joins them where oneDNN computes them."""
    image = tf.placeholder(tf.float32, [8, SIDE, SIDE, 3])
    found = image
    for name in ("first", "second"):
        taps, bias = tf.get_variable(name, [3, 3, found.shape[-1], 8]), tf.get_variable(f"{name}_bias", [8])
        found = tf.nn.relu(tf.nn.conv2d(found, taps, strides=1, padding="SAME") + tf.reshape(bias, [1, 1, 1, 8]))
    return [image], [tf.reduce_mean(found, [1, 2])]


def apart(tf: Any) -> tuple[list[Any], list[Any]]:
    """A convolution, and on another device its bias and ReLU, which Grappler joins with it all the same."""
    image = tf.placeholder(tf.float32, [8, SIDE, SIDE, 3])
    found = tf.nn.conv2d(image, tf.get_variable("taps", [3, 3, 3, 8]), strides=1, padding="SAME")
    with tf.device("/cpu:1"):
        return [image], [tf.nn.relu(tf.nn.bias_add(found, tf.get_variable("bias", [8]))) * 2]


def composed(tf: Any) -> tuple[list[Any], list[Any]]:
    """Ops by element behind each other, and a product of batches with a factor and a mask: joined on a processor."""
    given, mask = tf.placeholder(tf.float32, [8, 4, SIDE, SIDE]), tf.placeholder(tf.float32, [8, 1, SIDE, SIDE])
    scores = tf.matmul(given, given, transpose_b=True) * tf.constant(0.25) + mask
    return [given, mask], [tf.exp(tf.tanh(tf.sqrt(tf.abs(scores)))) * 2]


Program: TypeAlias = Callable[[Any], tuple[list[Any], list[Any]]]
RUN: tuple[Program, ...] = (convolutions, looped, branched, attention, inferred, apart, composed)


def joined(tf: Any) -> Iterator[Any]:
    """Convolutions and normalisations in front of a ReLU, as Grappler joins them on a GPU, and as it does not."""
    image = tf.placeholder(tf.float32, [8, SIDE, SIDE, SIDE])
    first = tf.Variable(tf.ones([8, SIDE, SIDE, SIDE])) * 2
    side = tf.Variable(tf.ones([SIDE]))

    def convolved(*taps: int, dtype: Any = tf.float32, groups: int = 1, **options: Any) -> Any:
        filters = tf.Variable(tf.ones([*taps, SIDE // groups, SIDE], dtype))
        return tf.nn.conv2d(tf.cast(image, dtype), filters, strides=1, padding="SAME", **options)

    def biased(given: Any) -> Any:
        return tf.nn.bias_add(given, tf.Variable(tf.ones([SIDE], given.dtype)))

    def normed(given: Any, *, training: bool = False) -> Any:
        statistics = {} if training else {"mean": side, "variance": side}
        return tf.nn.fused_batch_norm(given, side, side, is_training=training, **statistics)[0]

    for taps in ((3, 3), (1, 1), (3, 1), (1, 3), (5, 5)):
        yield tf.nn.relu(biased(convolved(*taps)))
    yield tf.nn.relu(biased(convolved(3, 3, groups=2)))
    yield tf.nn.relu(biased(convolved(3, 3, dilations=2)))
    for dtype in (tf.float16, tf.bfloat16, tf.float64):
        yield tf.nn.relu(biased(convolved(3, 3, dtype=dtype)))
    for dtype in (tf.float16, tf.bfloat16):
        yield tf.nn.relu(normed(tf.cast(first, dtype)))
    yield tf.nn.relu(convolved(3, 3))
    yield tf.nn.relu6(biased(convolved(3, 3)))
    yield biased(convolved(3, 3))
    read_twice = biased(convolved(3, 3))
    yield from (tf.nn.relu(read_twice), read_twice * 3)
    read_twice = convolved(3, 3)
    yield from (tf.nn.relu(biased(read_twice)), read_twice * 3)
    for waits_for in ("convolution", "bias", "relu"):
        made = {"convolution": convolved(3, 3)}
        made["bias"] = biased(made["convolution"])
        made["relu"] = tf.nn.relu(made["bias"])
        yield made["relu"]
        with tf.control_dependencies([made[waits_for]]):
            yield image * 5
    yield tf.nn.relu(normed(first))
    yield tf.nn.relu(normed(first) + first)
    yield tf.nn.relu(first + normed(first))
    yield tf.nn.relu(normed(first, training=True))
    yield tf.nn.relu(normed(first, training=True) + first)
    yield tf.nn.relu(normed(first) + side)
    read_twice = normed(first)
    yield from (tf.nn.relu(read_twice), read_twice * 3)
    for adds in (False, True):
        apart = normed(first)
        yield tf.nn.relu(apart + first if adds else apart)
        with tf.control_dependencies([apart]):
            yield image * 7


def _work(question: bytes) -> bytes:
    quiet()
    import numpy as np
    import tensorflow

    tf = tensorflow.compat.v1
    tf.disable_eager_execution()
    programs, graphs, traces = [], [], []
    for make in RUN:
        with tf.Graph().as_default() as graph:
            fed, fetched = make(tf)
            init = tf.global_variables_initializer()
            config = tf.ConfigProto(device_count={"GPU": 0, "CPU": 2})
            config.graph_options.optimizer_options.opt_level = -1  # what changes a piece after the cut
            with tf.Session(config=config) as session:
                session.run(init)
                told = tf.RunMetadata()
                values = {one: np.zeros([side or 2 for side in one.shape.as_list()], np.float32) for one in fed}
                session.run(fetched, values)
                options = tf.RunOptions(output_partition_graphs=True, trace_level=tf.RunOptions.FULL_TRACE)
                session.run(fetched, values, options=options, run_metadata=told)
        ran = [node for piece in told.partition_graphs for node in piece.node if node.op not in _EXCHANGED]
        programs.append(
            {
                "name": make.__name__,
                "fetches": [one.name for one in fetched],
                "ran": sorted([node.name, without_mkl(node.op)] for node in ran),
                "devices": {node.name: node.device for node in ran},
            }
        )
        graphs.append(graph.as_graph_def(add_shapes=True).SerializeToString())
        traces.append(told.SerializeToString())
    with tf.Graph().as_default() as graph:
        ends = [tf.identity(one, f"end{number}") for number, one in enumerate(joined(tf))]
    programs.append({"name": "joined", "fetches": [one.name for one in ends], "ran": []})
    graphs.append(graph.as_graph_def(add_shapes=True).SerializeToString())
    return pack({"programs": programs}, [*graphs, *traces])


if __name__ == "__main__":
    serve(_work)
