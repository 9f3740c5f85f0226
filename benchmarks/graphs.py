"""Build ResNet-50 training graphs with TensorFlow: one tower (5.4k nodes), three (10k) or eight (22k), with shapes.

python benchmarks/graphs.py FOLDER     writes resnet50_1.pb, .pbtxt and so on for 3 and 8
"""

import sys
from pathlib import Path
from typing import Any  # Any: what TensorFlow makes

try:
    import tensorflow as tf
except ModuleNotFoundError:
    sys.exit('TensorFlow is needed to make these graphs: pip install "simviz[tensorflow]"')

v1 = tf.compat.v1
BLOCKS = (3, 4, 6, 3)  # He et al. 2015, table 1, the 50-layer column
BATCH = 32


def conv(x: Any, name: str, width: int, size: int, stride: int = 1) -> Any:
    """A convolution with batch normalisation."""
    with v1.variable_scope(name):
        weights = v1.get_variable("weights", [size, size, x.shape[-1], width])
        x = tf.nn.conv2d(x, weights, stride, "SAME")
        scale = v1.get_variable("gamma", [width], initializer=v1.ones_initializer())
        offset = v1.get_variable("beta", [width], initializer=v1.zeros_initializer())
        y, mean, variance = v1.nn.fused_batch_norm(x, scale, offset, is_training=True)
        for stat, value in (("moving_mean", mean), ("moving_variance", variance)):
            kept = v1.get_variable(stat, [width], trainable=False)
            v1.add_to_collection("updates", v1.assign_sub(kept, (kept - value) * 0.1, name=f"update_{stat}"))
        return y


def resnet50(x: Any) -> Any:
    """Logits of a batch of images."""
    x = tf.nn.max_pool2d(tf.nn.relu(conv(x, "stem", 64, 7, 2)), 3, 2, "SAME")
    for stage, blocks in enumerate(BLOCKS):
        for block in range(blocks):
            width, stride = 64 << stage, 2 if stage and not block else 1
            with v1.variable_scope(f"stage{stage}/block{block}"):
                shortcut = x if block else conv(x, "shortcut", 4 * width, 1, stride)
                y = tf.nn.relu(conv(x, "a", width, 1, stride))
                y = tf.nn.relu(conv(y, "b", width, 3))
                x = tf.nn.relu(conv(y, "c", 4 * width, 1) + shortcut)
    x = tf.reduce_mean(x, [1, 2])
    return tf.matmul(x, v1.get_variable("logits/weights", [x.shape[-1], 1000])) + v1.get_variable("logits/bias", [1000])


def training_graph(towers: int) -> Any:
    """In-graph replication: variables on the CPU, one tower per GPU, averaged gradients, momentum."""
    graph = tf.Graph()
    with graph.as_default(), tf.device("/cpu:0"):
        optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
        every = []
        for tower in range(towers):
            with tf.device(f"/gpu:{tower}"), tf.name_scope(f"tower_{tower}"):
                images = v1.placeholder(tf.float32, [BATCH, 224, 224, 3], name="images")
                labels = v1.placeholder(tf.int64, [BATCH], name="labels")
                with v1.variable_scope("model", reuse=tower > 0), v1.variable_scope("", use_resource=False):
                    logits = resnet50(images)
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
                decay = [tf.nn.l2_loss(w) for w in v1.trainable_variables()]
                loss = tf.reduce_mean(losses) + 1e-4 * tf.add_n(decay)
                every.append(optimizer.compute_gradients(loss))
        averaged = []
        for pairs in zip(*every, strict=True):
            gradients = [gradient for gradient, _ in pairs]
            averaged.append((tf.add_n(gradients) / towers if towers > 1 else gradients[0], pairs[0][1]))
        step = v1.train.get_or_create_global_step()
        updates = v1.get_collection("updates")
        with tf.control_dependencies([optimizer.apply_gradients(averaged, global_step=step), *updates]):
            tf.no_op(name="train")
        v1.global_variables_initializer()
    return graph.as_graph_def(add_shapes=True)


def write(folder: Path) -> None:
    """Write the files into a folder, those that are not there yet."""
    v1.disable_eager_execution()
    v1.disable_resource_variables()
    for towers in (1, 3, 8):
        stem = folder / f"resnet50_{towers}"
        if stem.with_suffix(".pbtxt").exists():
            continue
        graph = training_graph(towers)
        print(f"{stem.name}: {len(graph.node)} nodes", file=sys.stderr)
        stem.with_suffix(".pb").write_bytes(graph.SerializeToString(deterministic=True))
        stem.with_suffix(".pbtxt").write_text(str(graph), encoding="utf-8")


if __name__ == "__main__":
    chosen = Path(sys.argv[1])
    chosen.mkdir(parents=True, exist_ok=True)
    write(chosen)
