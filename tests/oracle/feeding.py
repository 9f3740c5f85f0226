"""Child process: small trainings fed by queue runners or by tf.data, as TensorFlow 1's scripts write them.

Asked: a list of cases, a folder and a number of steps on the command line. The MetaGraph of each case is written to
`0.meta`, `1.meta` and so on there; with a number of steps it runs, too. Told: a line of JSON with the seconds that
these steps took.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

WIDTH, SETTLES = 8, 12  # of an example; steps until queues are as full as they will be
THREADS = 16  # of the session for ops


def slept(tf: Any, value: Any, sleep_s: float, name: str) -> Any:
    """The value, after a sleep in Python, which lets others run."""

    def sleep(given: Any) -> Any:
        time.sleep(sleep_s)
        return given

    passed = tf.compat.v1.py_func(sleep, [value], value.dtype, name=name)
    passed.set_shape(value.shape)
    return passed


def by_queue(tf: Any, case: dict[str, Any]) -> Any:
    """Threads make examples, a queue makes batches of them."""
    example = slept(tf, tf.zeros([WIDTH]), case["make_s"], "make")
    options = {"num_threads": case["threads"], "capacity": case["capacity"]}
    if case["kind"] == "shuffled":
        return tf.compat.v1.train.shuffle_batch([example], case["batch"], min_after_dequeue=case["reserve"], **options)
    return tf.compat.v1.train.batch([example], case["batch"], **options)


def by_chain(tf: Any, case: dict[str, Any]) -> Any:
    """One queue of examples, another of what is made of several of them, and a third of batches."""
    v1 = tf.compat.v1
    first = v1.FIFOQueue(case["capacity"], [tf.float32], [[WIDTH]], name="first")
    made = first.enqueue([slept(tf, tf.zeros([WIDTH]), case["make_s"], "make")])
    v1.train.add_queue_runner(v1.train.QueueRunner(first, [made] * case["threads"]))
    second = v1.FIFOQueue(case["capacity"], [tf.float32], [[WIDTH]], name="second")
    several = slept(tf, first.dequeue_many(4), case["again_s"], "again")
    v1.train.add_queue_runner(v1.train.QueueRunner(second, [second.enqueue_many([several])]))
    return v1.train.batch([second.dequeue()], case["batch"], capacity=2 * case["batch"])


def by_dataset(tf: Any, case: dict[str, Any]) -> Any:
    """A dataset that sleeps before each example, or a function of it that does."""
    from tensorflow.python.data.experimental.ops.testing import sleep

    data = tf.compat.v1.data.Dataset.from_tensors([0.0] * WIDTH).repeat()
    if case["kind"] == "mapped":
        data = data.map(lambda one: slept(tf, one, case["make_s"], "make"), num_parallel_calls=case["threads"])
    else:
        data = data.apply(sleep(round(case["make_s"] * 1e6)))
    data = data.batch(case["batch"], drop_remainder=True)
    return tf.compat.v1.data.make_initializable_iterator(data).get_next()


def by_pipeline(tf: Any, case: dict[str, Any]) -> Any:
    """A dataset of this case's stages, one after the other: a name, and perhaps a number."""
    data_of, v1 = tf.compat.v1.data.Dataset, tf.compat.v1

    def product(one: Any) -> Any:
        return tf.reshape(tf.matmul(tf.ones([256, 256]), tf.ones([256, 256])), [-1])[:WIDTH] + one

    def drawn(one: Any) -> Any:
        return product(one) + tf.random.uniform([])

    data = data_of.from_tensors([0.0] * WIDTH).repeat()
    for stage, number in case["stages"]:
        if stage == "map":
            data = data.map(product if number == 0 else drawn)
        elif stage == "parallel_map":
            data = data.map(product, num_parallel_calls=number)
        elif stage == "interleave":
            data = data.interleave(lambda one: data_of.from_tensors(one).repeat().map(drawn), cycle_length=2)
        elif stage == "zip":
            data = data_of.zip((data, data)).map(lambda one, _: one)
        elif stage == "cache":
            data = data.cache()
        elif stage in ("shuffle", "prefetch", "repeat", "take"):
            data = getattr(data, stage)(number)
        elif stage == "shard":
            data = data.shard(number, 0)
        elif stage == "generator":
            data = data_of.from_generator(lambda: iter(()), tf.float32, tf.TensorShape([WIDTH]))
    data = data.batch(case["batch"], drop_remainder=True)
    make = v1.data.make_one_shot_iterator if case.get("one_shot") else v1.data.make_initializable_iterator
    return make(data).get_next()


def of_batches(tf: Any, case: dict[str, Any]) -> Any:
    """A dataset that makes batches in this case's way; the last one may be smaller unless the case drops it."""
    data_of, batch, drop = tf.compat.v1.data.Dataset, case["batch"], case["drop"]
    weights = tf.ones([WIDTH, WIDTH])

    def product(one: Any) -> Any:
        return tf.matmul(tf.ones([64, 64]), tf.ones([64, 64]))[0, :WIDTH] + one

    def weighed(many: Any) -> Any:
        return tf.matmul(many, tf.ones([WIDTH, WIDTH]))

    def made(rows: int) -> Any:
        data = data_of.from_tensors([0.0] * WIDTH).repeat(1000).map(product, num_parallel_calls=2)
        return data.batch(rows, drop_remainder=drop)

    def at_once(data: Any) -> Any:
        return data.apply(tf.data.experimental.map_and_batch(product, batch, num_parallel_calls=2, drop_remainder=drop))

    data = {
        "plain": lambda: made(batch),
        "weighed": lambda: made(batch).map(weighed, num_parallel_calls=1),
        "captured": lambda: made(batch).map(lambda many: tf.matmul(many, weights), num_parallel_calls=1),
        "nested": lambda: made(3).map(weighed).batch(batch, drop_remainder=drop).map(lambda many: many[:, 0]),
        "apart": lambda: made(5).map(weighed).unbatch().batch(batch, drop_remainder=drop),
        "padded": lambda: made(2).unbatch().padded_batch(batch, [WIDTH], drop_remainder=drop).map(weighed),
        "at once": lambda: at_once(data_of.from_tensors([0.0] * WIDTH).repeat(1000)),
        "parallel": lambda: made(1).unbatch().batch(batch, drop_remainder=drop, num_parallel_calls=2).prefetch(3),
        "zipped": lambda: data_of.zip((made(batch), made(batch))).map(tf.add),
        "interleaved": lambda: data_of.range(4).interleave(lambda _: made(batch), cycle_length=2),
        "halves": lambda: made(2 * batch).map(lambda many: tf.reshape(many, [-1, 2 * WIDTH])[:, :WIDTH]),
        "cast": lambda: data_of.from_tensors(tf.zeros([batch, WIDTH])).repeat(1000).map(weighed),
        "filled": lambda: data_of.range(1000).map(lambda _: tf.ones([batch, WIDTH])),
        "windows": lambda: (
            data_of.from_tensors([0.0] * WIDTH)
            .repeat(1000)
            .window(batch)
            .flat_map(lambda window: window.batch(batch, drop_remainder=drop))
        ),
    }[case["way"]]()
    make = (
        tf.compat.v1.data.make_one_shot_iterator if case["one_shot"] else tf.compat.v1.data.make_initializable_iterator
    )
    return make(data).get_next()


WAYS = {
    "queue": by_queue,
    "shuffled": by_queue,
    "chain": by_chain,
    "dataset": by_dataset,
    "mapped": by_dataset,
    "stages": by_pipeline,
    "batches": of_batches,
}


def train_op(tf: Any, case: dict[str, Any]) -> Any:
    """A step that sleeps after it has its batch."""
    v1 = tf.compat.v1
    batch = slept(tf, WAYS[case["kind"]](tf, case), case["step_s"], "step")
    weights = v1.get_variable("w", [WIDTH, 1])
    count = v1.train.get_or_create_global_step()
    loss = tf.reduce_mean(tf.square(tf.matmul(batch, weights) - 1))
    return v1.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=count)


def timed(tf: Any, step: Any, steps: int) -> float:
    """Seconds that so many steps take once the queues are as full as they will be."""
    v1 = tf.compat.v1
    iterators = [op for op in v1.get_default_graph().get_operations() if op.type == "MakeIterator"]
    threads = v1.ConfigProto(inter_op_parallelism_threads=THREADS)  # who sleeps keeps one
    with v1.Session(config=threads) as session:
        session.run([v1.global_variables_initializer(), *iterators])
        coordinator = v1.train.Coordinator()
        v1.train.start_queue_runners(session, coordinator)
        for _ in range(SETTLES):
            session.run(step)
        began = time.monotonic()
        for _ in range(steps):
            session.run(step)
        took = time.monotonic() - began
        coordinator.request_stop()
    return took


def main() -> None:
    """Build the cases, run them if asked to."""
    import tensorflow as tf

    cases, folder, steps = json.loads(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    took = []
    for row, case in enumerate(cases):
        with v1.Graph().as_default():
            step = train_op(tf, case)
            v1.add_to_collection("train_op", step)
            v1.train.export_meta_graph(str(folder / f"{row}.meta"))
            took.append(timed(tf, step, steps) if steps else 0.0)
    print(json.dumps({"seconds": took}), flush=True)
    os._exit(0)  # threads of queue runners may still sleep


if __name__ == "__main__":
    main()
