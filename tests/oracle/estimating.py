"""Child process: a spread of ops, what Grappler counts for each, and the graph.

One operation takes 1 ns on a device whose memory is endlessly fast, one byte takes 1 ns on a device whose processor is
endlessly fast; so Grappler's times are its counts (1 stands for 0 in either).
"""

import base64
import json
from collections.abc import Iterator
from typing import Any

from simulator.oracle.child import serve

UNARY = (
    "Square Neg Sigmoid Tanh Exp Expm1 Log Log1p Sqrt Rsqrt Sin Cos Tan Acos Asin Atan Floor Ceil Sign Reciprocal Inv "
    "Erf Erfc Lgamma Rint Round"
)
BINARY = "Add AddV2 Sub Mul Maximum Minimum Div RealDiv FloorDiv SquaredDifference FloorMod Mod Equal Less Greater"
REDUCTIONS = ("Sum", "Max", "Min", "Prod", "Mean")


def ops(tf: Any) -> Iterator[Any]:
    raw = tf.raw_ops

    def f(*shape: Any) -> Any:
        return tf.placeholder(tf.float32, shape)

    def ints(*shape: Any) -> Any:
        return tf.placeholder(tf.int32, shape)

    yield tf.matmul(f(5, 7), f(7, 11))
    yield tf.matmul(f(7, 5), f(11, 7), transpose_a=True, transpose_b=True)
    yield raw.BatchMatMulV2(x=f(3, 1, 5, 7), y=f(4, 7, 2))
    yield raw.BatchMatMul(x=f(3, 5, 7), y=f(3, 2, 7), adj_y=True)
    yield raw.Einsum(inputs=[f(2, 3, 4), f(4, 5)], equation="bij,jk->bik")
    yield raw.SparseTensorDenseMatMul(
        a_indices=tf.placeholder(tf.int64, [20, 2]), a_values=f(20), a_shape=[10, 12], b=f(12, 5)
    )
    yield from convolutions(raw, f)
    yield from pools(raw, f)
    for name in UNARY.split():
        yield getattr(raw, name)(x=f(11, 13))
    for name in BINARY.split():
        yield getattr(raw, name)(x=f(11, 1), y=f(1, 13))
    for name in REDUCTIONS:
        yield getattr(raw, name)(input=f(11, 13), axis=[0])
    yield raw.Relu(features=f(5, 5))
    yield raw.ReluGrad(gradients=f(4, 5), features=f(4, 5))
    yield raw.BiasAdd(value=f(2, 3, 8), bias=f(8))
    yield raw.AddN(inputs=[f(5, 5)] * 4)
    yield raw.Softmax(logits=f(6, 10))
    yield raw.Cast(x=f(3, 4), DstT=tf.int32)
    yield raw.SelectV2(condition=tf.placeholder(tf.bool, [5, 1]), t=f(5, 6), e=f(5, 6))
    yield raw.ArgMax(input=f(11, 13), dimension=1)
    yield raw.TopKV2(input=f(3, 40), k=3).values
    yield raw.ConcatV2(values=[f(3, 4), f(5, 4)], axis=0)
    yield raw.Transpose(x=f(3, 4), perm=[1, 0])
    yield raw.Pack(values=[f(3, 4)] * 2)
    yield raw.Unpack(value=f(3, 4), num=3)[0]
    yield raw.Split(axis=0, value=f(4, 4), num_split=2)[0]
    yield raw.Tile(input=f(3, 4), multiples=[2, 2])
    yield raw.Pad(input=f(3, 4), paddings=[[1, 1], [1, 1]])
    yield raw.SpaceToDepth(input=f(1, 4, 4, 2), block_size=2)
    yield raw.GatherV2(params=f(100, 9), indices=ints(5), axis=0)
    yield raw.Slice(input=f(10, 9), begin=[1, 1], size=[3, 4])
    yield raw.Fill(dims=[7, 7], value=1.0)
    yield raw.OneHot(indices=ints(5), depth=10, on_value=1.0, off_value=0.0)
    yield raw.Pow(x=f(3, 4), y=f(3, 4))
    yield raw.L2Loss(t=f(3, 4))
    yield raw.SigmoidGrad(y=f(3, 4), dy=f(3, 4))
    yield from variables(tf, raw, f, ints)


def convolutions(raw: Any, f: Any) -> Iterator[Any]:
    x, w, deep = f(4, 14, 14, 8), f(3, 3, 8, 16), f(3, 3, 8, 2)
    for padding, side in (("SAME", 7), ("VALID", 6)):
        options = {"strides": [1, 2, 2, 1], "padding": padding}
        yield raw.Conv2D(input=x, filter=w, **options)
        dy = f(4, side, side, 16)
        yield raw.Conv2DBackpropInput(input_sizes=[4, 14, 14, 8], filter=w, out_backprop=dy, **options)
        yield raw.Conv2DBackpropFilter(input=x, filter_sizes=[3, 3, 8, 16], out_backprop=dy, **options)
    options = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    yield raw.Conv2D(input=f(4, 8, 14, 14), filter=w, data_format="NCHW", **options)
    yield raw.DepthwiseConv2dNative(input=x, filter=deep, **options)
    dy = f(4, 14, 14, 16)
    yield raw.DepthwiseConv2dNativeBackpropInput(input_sizes=[4, 14, 14, 8], filter=deep, out_backprop=dy, **options)
    yield raw.DepthwiseConv2dNativeBackpropFilter(input=x, filter_sizes=[3, 3, 8, 2], out_backprop=dy, **options)


def pools(raw: Any, f: Any) -> Iterator[Any]:
    x = f(4, 14, 14, 8)
    for size, stride in ((2, 2), (3, 2), (3, 1)):
        options = {"ksize": [1, size, size, 1], "strides": [1, stride, stride, 1], "padding": "VALID"}
        pooled = raw.MaxPool(input=x, **options)
        small = pooled.shape.as_list()
        yield pooled
        yield raw.AvgPool(value=x, **options)
        yield raw.MaxPoolGrad(orig_input=x, orig_output=f(*small), grad=f(*small), **options)
        yield raw.AvgPoolGrad(orig_input_shape=[4, 14, 14, 8], grad=f(*small), **options)
    for training in (True, False):
        stale = f(0) if training else f(8)
        yield raw.FusedBatchNorm(x=x, scale=f(8), offset=f(8), mean=stale, variance=stale, is_training=training).y
    yield raw.FusedBatchNormGrad(
        y_backprop=x, x=f(4, 14, 14, 8), scale=f(8), reserve_space_1=f(8), reserve_space_2=f(8)
    ).x_backprop


def variables(tf: Any, raw: Any, f: Any, ints: Any) -> Iterator[Any]:
    with tf.device(""):
        old = tf.Variable(tf.zeros([6, 7]), use_resource=False)
        new = tf.Variable(tf.zeros([6, 7]), use_resource=True)
    yield tf.assign(old, f(6, 7)).op
    yield tf.scatter_add(old, ints(3), f(3, 7)).op
    yield new.assign(f(6, 7)).op
    yield new.assign_add(f(6, 7)).op
    yield raw.ResourceApplyGradientDescent(var=new.handle, alpha=0.1, delta=f(6, 7))


def counted(meta: Any, frequency_mhz: Any, bandwidth_kb_per_s: Any) -> Any:
    from tensorflow.core.protobuf import device_properties_pb2
    from tensorflow.python.grappler import cluster, item

    properties = device_properties_pb2.DeviceProperties(
        type="CPU", vendor="none", model="none", frequency=frequency_mhz, num_cores=1, bandwidth=bandwidth_kb_per_s
    )
    device = device_properties_pb2.NamedDevice(
        name="/job:localhost/replica:0/task:0/device:CPU:0", properties=properties
    )
    made = cluster.Cluster(devices=[device], disable_timeline=False, disable_detailed_stats=False)
    _, _, stats = made.MeasureCosts(item.Item(meta))
    nodes = [node for device in stats.dev_stats for node in device.node_stats]
    return {node.node_name: node.op_end_rel_nanos - node.op_start_rel_nanos for node in nodes}


def answer(payload: bytes) -> bytes:
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    graph = tf.Graph()
    with graph.as_default():
        fetched = [getattr(made, "op", made) for made in ops(tf)]
        for op in fetched:
            tf.add_to_collection("train_op", op)
    meta = tf.train.export_meta_graph(graph=graph)
    work, traffic = counted(meta, 1000, 2**60), counted(meta, 2**40, 10**6)
    return json.dumps(
        {
            "graph": base64.b64encode(graph.as_graph_def(add_shapes=True).SerializeToString()).decode(),
            "counts": {op.name: [work[op.name], traffic[op.name]] for op in fetched},
        }
    ).encode()


if __name__ == "__main__":
    serve(answer)
