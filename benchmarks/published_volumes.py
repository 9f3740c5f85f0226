"""Build the steps of V-Net (Milletari et al. 2016) whose times NVIDIA published, for published_graphs.py.

The network is that of DeepLearningExamples' V-Net_tf by its options' defaults, on volumes of 32 x 32 x 32, channels
last. It has three levels down and two up, each with three convolutions. Batch normalisation is made of single ops, as
no fused kernel takes rank 5. Volumes come from the host in each step. A training is by centred RMSProp, without XLA. A
forward step hands the labels of all voxels to the host.
"""

from typing import Any  # Any: what TensorFlow makes

import tensorflow as tf

v1 = tf.compat.v1
SIDE, WIDTH, CLASSES, DOWN, UP, DEPTH = 32, 16, 3, 3, 2, 3
MOMENTUM, SMALL = 0.99, 1e-3  # of batch normalisation


class Maker:
    """One copy of the network in the making."""

    def __init__(self, *, training: bool) -> None:
        self.training = training
        self.count = 0

    def variable(self, *shape: int, trainable: bool = True) -> Any:
        """A new variable."""
        self.count += 1
        return v1.get_variable(f"v{self.count}", shape, trainable=trainable)

    def normalised(self, x: Any) -> Any:
        """Batch normalisation; moving averages are updated in training."""
        width = int(x.shape[-1])
        beta, gamma = self.variable(width), self.variable(width)
        moving = [self.variable(width, trainable=False) for _ in range(2)]
        if not self.training:
            return tf.nn.batch_normalization(x, moving[0], moving[1], beta, gamma, SMALL)
        found = tf.nn.moments(x, [0, 1, 2, 3])
        for average, one in zip(moving, found, strict=True):
            v1.add_to_collection("updates", v1.assign_sub(average, (average - one) * (1 - MOMENTUM)))
        return tf.nn.batch_normalization(x, found[0], found[1], beta, gamma, SMALL)

    def convolved(self, x: Any, width: int, size: int = 3, stride: int = 1) -> Any:
        """A convolution with bias, normalised, and ReLU."""
        kernel = self.variable(size, size, size, int(x.shape[-1]), width)
        y = tf.nn.conv3d(x, kernel, [1, stride, stride, stride, 1], "SAME")
        return tf.nn.relu(self.normalised(tf.nn.bias_add(y, self.variable(width))))

    def enlarged(self, x: Any, width: int) -> Any:
        """A transposed convolution to twice the sides, normalised, and ReLU."""
        batch, side, *_, channels = (int(size) for size in x.shape)
        kernel = self.variable(2, 2, 2, width, channels)
        y = tf.nn.conv3d_transpose(x, kernel, [batch, *[2 * side] * 3, width], [1, 2, 2, 2, 1], "SAME")
        return tf.nn.relu(self.normalised(tf.nn.bias_add(y, self.variable(width))))

    def residual(self, x: Any) -> Any:
        """Convolutions of one width, and what they began with."""
        y = x
        for _ in range(DEPTH):
            y = self.convolved(y, int(x.shape[-1]))
        return y + x


def vnet(batch: int, *, training: bool) -> None:
    """Make the step."""
    make = Maker(training=training)
    with tf.device("/cpu:0"):
        x = v1.placeholder(tf.float32, [batch, SIDE, SIDE, SIDE, 1], "volumes")
        labels = v1.placeholder(tf.int32, [batch, SIDE**3], "labels")
    with tf.device("/gpu:0"):
        levels = [make.convolved(x, WIDTH) + x]
        for _ in range(DOWN):
            levels.append(make.residual(make.convolved(levels[-1], 2 * int(levels[-1].shape[-1]), size=2, stride=2)))
        y = levels.pop()
        for _ in range(UP):
            beside = levels.pop()
            y = make.residual(tf.concat([make.enlarged(y, int(beside.shape[-1])), beside], -1))
        y = make.enlarged(y, int(levels.pop().shape[-1]))
        y = tf.nn.conv3d(y, make.variable(3, 3, 3, int(y.shape[-1]), CLASSES), [1, 1, 1, 1, 1], "SAME")
        found = tf.nn.softmax(tf.nn.bias_add(y, make.variable(CLASSES)))
        if training:
            _trained(tf.reshape(found, [tf.shape(y)[0], -1, CLASSES]), labels)
            return
        chosen = tf.argmax(found, -1)
    with tf.device("/cpu:0"):
        tf.identity(chosen, name="train")


def _trained(found: Any, labels: Any) -> None:
    """Lessen the Dice loss, with epsilon, after the moving averages."""
    true = tf.one_hot(labels, CLASSES)
    both, either = tf.reduce_sum(found * true, 1), tf.reduce_sum(found + true, 1)
    loss = tf.reduce_sum(1.0 - tf.reduce_mean((2 * both + 1e-6) / (either + 1e-6), 0))
    with tf.control_dependencies(v1.get_collection("updates")):
        v1.train.RMSPropOptimizer(1e-4, momentum=0.0, centered=True).minimize(loss, name="train")
