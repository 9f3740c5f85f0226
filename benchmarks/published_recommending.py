"""Build the steps of recommenders whose times NVIDIA published, for published_graphs.py.

Both are of DeepLearningExamples, for MovieLens 20M, in single precision and without XLA:

- NeuMF (He et al. 2017) has 64 factors and layers of 256, 128 and 64, over tables of 138,493 users and 26,744 films.
  Halves of the tables are sliced in each step. Inputs come from the client. An evaluation has 101 films for each user.
- The variational autoencoder is that of Liang et al. (2018), with 20,112 films, 600 and 200 hidden numbers. A user has
  73 films, the mean of the training set. The gradient of the sparse product is that of TensorFlow 1.15, written out.
"""

from typing import Any  # Any: what TensorFlow makes

import tensorflow as tf

v1 = tf.compat.v1
USERS, ITEMS, FACTORS, LAYERS = 138_493, 26_744, 64, (256, 256, 128, 64)
CANDIDATES, HITS = 101, 10  # films of a user in an evaluation, and those that count
FILMS, HIDDEN, LATENT, FILMS_EACH = 20_112, 600, 200, 73


def dense(x: Any, width: int, name: str) -> Any:
    """A layer with bias."""
    with v1.variable_scope(name):
        kernel = v1.get_variable("kernel", [int(x.shape[-1]), width])
        return tf.nn.bias_add(tf.matmul(x, kernel), v1.get_variable("bias", [width]))


def neumf(batch: int, *, training: bool) -> None:
    """Make the step of NeuMF."""
    with tf.device("/cpu:0"):
        users, items, labels = (v1.placeholder(tf.int32, [batch], name) for name in ("users", "items", "labels"))
        twice = v1.placeholder(tf.float32, [batch], "twice")  # films that a user has twice
    with tf.device("/gpu:0"):
        width = FACTORS + LAYERS[0] // 2
        tables = v1.get_variable("users_table", [USERS, width]), v1.get_variable("items_table", [ITEMS, width])
        rows = list(zip(tables, (users, items), strict=True))
        factors, features = (
            [v1.nn.embedding_lookup(table[:, part], one) for table, one in rows]
            for part in (slice(FACTORS), slice(FACTORS, None))
        )
        x = tf.concat(features, 1)
        for place, size in enumerate(LAYERS[1:]):
            x = tf.nn.relu(dense(x, size, f"layer{place}"))
        logits = tf.squeeze(dense(tf.concat([factors[0] * factors[1], x], 1), 1, "last"))
        if not training:
            _evaluated(logits, twice)
            return
        loss = v1.losses.sigmoid_cross_entropy(
            tf.reshape(labels, [-1, 1]), tf.reshape(logits, [-1, 1]), reduction=v1.losses.Reduction.MEAN
        )
        v1.train.AdamOptimizer(0.0045, 0.25, 0.5).minimize(loss, name="train")


def _evaluated(logits: Any, twice: Any) -> None:
    """Count the users whose film is among the first, and how far in front it is."""
    logits = logits * (1.0 - twice) + twice * logits.dtype.min
    first = tf.math.top_k(tf.reshape(logits, [-1, CANDIDATES]), HITS)[1]
    true = tf.cast(tf.equal(first, CANDIDATES - 1), tf.int32)
    found = tf.reduce_sum(true, axis=1)
    place = tf.reduce_sum(true * tf.expand_dims(tf.range(HITS), 0), axis=1)
    gain = tf.math.log(2.0) / tf.math.log(tf.cast(place, tf.float32) + 2) * tf.cast(found, tf.float32)
    tf.group(v1.metrics.mean(found)[1], v1.metrics.mean(gain)[1], name="train")


def vaecf(batch: int, *, training: bool) -> None:
    """Make a training step of the autoencoder. Raises ValueError for another one."""
    if not training:
        raise ValueError("the autoencoder has no forward step here")
    with tf.device("/cpu:0"):
        indices = v1.placeholder(tf.int64, [batch * FILMS_EACH, 2], "indices")
        values = v1.placeholder(tf.float32, [batch * FILMS_EACH], "values")
    with tf.device("/gpu:0"):
        kernel = v1.get_variable("kernel", [FILMS, HIDDEN])
        x = _sparse_product(indices, values, batch, kernel)
        x = tf.tanh(tf.nn.bias_add(x, v1.get_variable("bias", [HIDDEN])))
        both = tf.reshape(dense(x, 2 * LATENT, "encoded"), [-1, 2, LATENT])
        mean, spread = both[:, 0], both[:, 1]  # of the spread its logarithm
        drawn = v1.random_normal([tf.shape(mean)[0], tf.shape(mean)[1]])
        x = tf.tanh(dense(mean + tf.exp(0.5 * spread) * drawn, HIDDEN, "decoded"))
        logits = tf.nn.log_softmax(dense(x, FILMS, "films"))
        steps = v1.train.get_or_create_global_step()
        share = tf.minimum(tf.cast(steps, tf.float32) / 15_000, 0.1)
        far = tf.reduce_mean(tf.reduce_sum((-spread + tf.exp(spread) + mean**2 - 1) / 2, axis=1))
        loss = -tf.reduce_sum(tf.gather_nd(logits, indices)) / batch + share * far
        v1.train.AdamOptimizer(0.004, 0.9, 0.9).minimize(loss, global_step=steps, name="train")


def _sparse_product(indices: Any, values: Any, batch: int, kernel: Any) -> Any:
    """The product of a sparse matrix and a kernel; its gradients wait for each other, as those of any op do."""
    shape = tf.constant([batch, FILMS], tf.int64)

    @tf.custom_gradient  # type: ignore[untyped-decorator]  # TensorFlow has no types here
    def product(values: Any, kernel: Any) -> Any:
        def gradients(above: Any) -> Any:
            back = tf.raw_ops.SparseTensorDenseMatMul(
                a_indices=indices, a_values=values, a_shape=shape, b=above, adjoint_a=True
            )
            taken = tf.gather(above, indices[:, 0]), tf.gather(kernel, indices[:, 1])
            return tf.reduce_sum(taken[0] * taken[1], axis=1), back

        made = tf.raw_ops.SparseTensorDenseMatMul(a_indices=indices, a_values=values, a_shape=shape, b=kernel)
        return made, gradients

    return product(values, kernel)
