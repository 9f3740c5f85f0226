"""Make examples/ps_training.pbtxt: one worker of a between-graph ps/worker training, as TensorFlow 1 and 2 write it.

A small convolution network for 28x28 images, its variables on two parameter servers (replica_device_setter), momentum
SGD. Needs TensorFlow; the file that it writes is part of the repository, so only those who change it run this.

    python examples/make_ps_training.py examples/ps_training.pbtxt
"""

import sys

try:
    import tensorflow as tf
except ModuleNotFoundError:
    sys.exit('TensorFlow is needed to make these graphs: pip install "simviz[tensorflow]"')

BATCH = 64
v1 = tf.compat.v1


def layer(x, name, shape, *, conv):
    with v1.variable_scope(name):
        weights = v1.get_variable("weights", shape, initializer=v1.glorot_uniform_initializer(seed=1))
        bias = v1.get_variable("bias", shape[-1:], initializer=v1.zeros_initializer())
        product = tf.nn.conv2d(x, weights, 1, "SAME") if conv else tf.matmul(x, weights)
        return tf.nn.bias_add(product, bias)


def network(images):
    x = tf.nn.max_pool2d(tf.nn.relu(layer(images, "conv1", [5, 5, 1, 32], conv=True)), 2, 2, "SAME")
    x = tf.nn.max_pool2d(tf.nn.relu(layer(x, "conv2", [5, 5, 32, 64], conv=True)), 2, 2, "SAME")
    x = tf.nn.relu(layer(tf.reshape(x, [BATCH, 7 * 7 * 64]), "dense", [7 * 7 * 64, 1024], conv=False))
    return layer(x, "logits", [1024, 10], conv=False)


def training_graph():
    graph = tf.Graph()
    with graph.as_default(), v1.device(v1.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")):
        images = v1.placeholder(tf.float32, [BATCH, 28, 28, 1], name="images")
        labels = v1.placeholder(tf.int64, [BATCH], name="labels")
        logits = network(images)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits), name="loss")
        step = v1.train.get_or_create_global_step()
        v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss, global_step=step, name="train")
        v1.global_variables_initializer()
    return graph


if __name__ == "__main__":
    v1.disable_eager_execution()
    with open(sys.argv[1], "w", encoding="utf-8", newline="\n") as file:
        file.write(str(training_graph().as_graph_def(add_shapes=True)))
