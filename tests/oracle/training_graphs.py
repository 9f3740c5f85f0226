"""Graphs of small distributed trainings, made by TensorFlow as its users make them, in a child process.

A worker reads the variables, sleeps or computes, and has its gradients applied. Its gradient is a number that tells it
from others: 16 to the power of its task, so that a sum of gradients says how many of whom are in it (`shares`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from simulator.oracle import child
from simulator.oracle.processes import RealClient
from simulator.oracle.task import NOW, SLEEP

DIGIT = 16  # more than a worker has gradients in one sum


@dataclass(frozen=True)
class Training:
    """A training: who takes part, how, and what each worker does in a step."""

    how: str  # "async", "sync": between graphs; one client for towers on all workers: "in", or "towers", async
    sleeps_s: tuple[float, ...]  # [workers] how long each sleeps in a step
    ps: int = 1
    aggregate: int = 0  # "sync": gradients per update
    tokens: int = -1  # "sync": at first; -1: as many as SyncReplicasOptimizer likes
    variables: int = 1
    elements: int = 256  # of each variable
    products: tuple[int, ...] = ()  # [workers] how many matrices each multiplies in a step
    side: int = 256  # of the matrices

    @property
    def workers(self) -> int:
        """How many there are."""
        return len(self.products or self.sleeps_s)

    @property
    def alone(self) -> bool:
        """Whether each worker's gradient is an update of its own."""
        return self.how in ("async", "towers")

    @property
    def tasks(self) -> tuple[str, ...]:
        """All tasks, whether a client lives there or not."""
        servers = [task("ps", number) for number in range(self.ps)]
        return (*servers, *(task("worker", number) for number in range(self.workers)))


def task(job: str, number: int) -> str:
    """A task's full name."""
    return f"/job:{job}/replica:0/task:{number}"


def clients(training: Training, *, timeout_s: float = 120) -> tuple[RealClient, ...]:
    """The clients of the training, as TensorFlow makes their graphs."""
    facts, graphs = child.unpack(
        child.run("tests.oracle.training_graphs", child.pack(asdict(training)), timeout_s=timeout_s)
    )
    return tuple(
        RealClient(
            **{
                **one,
                "graph": graph,
                "targets": tuple(one["targets"]),
                "first": tuple(map(tuple, one["first"])),
            }
        )
        for one, graph in zip(facts["clients"], graphs, strict=True)
    )


def shares(mean: float, least: int = 1) -> list[int]:
    """How many gradients of each worker are in a mean of at least so many: the smallest number that makes it one."""
    for count in range(least, least + 64):
        total = round(mean * count)
        digits = []
        while total:
            total, digit = divmod(total, DIGIT)
            digits.append(digit)
        if sum(digits) == count and abs(mean * count - round(mean * count)) < 1e-3:
            return digits
    raise ValueError(f"{mean} is no mean of powers of {DIGIT}")


# --- in the child ----------------------------------------------------------------------------------------------------


def _answer(question: bytes) -> bytes:
    import os

    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    facts, _ = child.unpack(question)
    training = Training(**facts)
    make = {"async": _asynchronous, "towers": _asynchronous, "sync": _synchronous, "in": _in_graph}[training.how]
    made = list(make(training))
    return child.pack({"clients": [described for described, _ in made]}, [graph for _, graph in made])


def _device(job: str, number: int) -> str:
    return f"{task(job, number)}/device:CPU:0"


class _Model:
    """The variables of a training, in the graph that is being made."""

    def __init__(self, training: Training) -> None:
        import tensorflow as tf

        v1 = tf.compat.v1
        self.training = training
        with tf.device(_device("ps", 0)):
            self.step = v1.get_variable(
                "global_step", (), tf.int64, initializer=v1.zeros_initializer(), trainable=False, use_resource=True
            )
        self.variables = []
        for row in range(training.variables):
            with tf.device(_device("ps", row % training.ps)):
                shape = [training.elements]
                self.variables.append(
                    v1.get_variable(f"x{row}", shape, initializer=v1.zeros_initializer(), use_resource=True)
                )

    def gradients(self, worker: int) -> tuple[Any, list[Any]]:
        """The global step that a worker reads first, and its gradients after its work."""
        import tensorflow as tf

        with tf.device(_device("worker", worker)), tf.name_scope(f"tower_{worker}"):
            read = tf.identity(self.step.read_value(), name="read")
            with tf.control_dependencies([read]):
                values = [tf.identity(_read(variable)) for variable in self.variables]
            ready = tf.add_n([tf.reduce_sum(value) for value in values], name="ready")
            done = self._worked(worker, ready)
            gradient = tf.fill([self.training.elements], 0 * done + float(DIGIT**worker))
            return read, [tf.identity(gradient) for _ in values]

    def _worked(self, worker: int, ready: Any) -> Any:
        import tensorflow as tf

        if self.training.products:
            matrix = tf.fill([self.training.side, self.training.side], 0 * ready + 1 / self.training.side)
            for _ in range(self.training.products[worker]):
                matrix = tf.matmul(matrix, matrix)
            return tf.reduce_sum(matrix)
        seconds = tf.constant(self.training.sleeps_s[worker], tf.float32)
        done = tf.raw_ops.PyFunc(input=[ready, seconds], token=SLEEP, Tout=[tf.float32], name="work")[0]
        return tf.reshape(done, ())  # PyFunc does not say its shape


def _read(variable: Any) -> Any:
    import tensorflow as tf

    with tf.device(variable.device):  # what is sent is the value
        return variable.read_value()


def _now(worker: int, after: Sequence[Any], name: str) -> Any:
    import tensorflow as tf

    with tf.device(_device("worker", worker)), tf.control_dependencies(after):
        return tf.raw_ops.PyFunc(input=[], token=NOW, Tout=[tf.int64], name=name)[0]


def _count(step: Any, after: Sequence[Any]) -> Any:
    """The op that counts an update, and the number afterwards."""
    import tensorflow as tf

    with tf.device(step.device), tf.control_dependencies(after):
        return step.assign_add(1, read_value=False, name="count")


def _after(step: Any, count: Any) -> Any:
    import tensorflow as tf

    with tf.device(step.device), tf.control_dependencies([count]):
        return tf.identity(step.read_value(), name="after")


def _made(graph: Any, **described: Any) -> tuple[Mapping[str, Any], bytes]:
    return described, graph.as_graph_def().SerializeToString(deterministic=True)


def _asynchronous(training: Training) -> Iterator[tuple[Mapping[str, Any], bytes]]:
    """Each worker applies its own gradients, whatever others do."""
    import tensorflow as tf

    for worker in range(training.workers):
        with tf.Graph().as_default() as graph:
            model = _Model(training)
            read, gradients = model.gradients(worker)
            count = _count(model.step, _applied(model, gradients))
            first = tf.compat.v1.global_variables_initializer()
            yield _made(
                graph,
                name=f"worker:{worker}" if training.how == "async" else f"worker:0 tower:{worker}",
                task=task("worker", worker if training.how == "async" else 0),
                targets=[count.name],
                notes={"read": read.name, "after": _after(model.step, count).name},
                first=[] if worker else [[first.name]],
            )


def _applied(model: _Model, gradients: Sequence[Any]) -> list[Any]:
    import tensorflow as tf

    applied = []
    for variable, gradient in zip(model.variables, gradients, strict=True):
        with tf.device(variable.device):
            rate = tf.constant(1e-3)
            applied.append(tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=rate, delta=gradient))
    return applied


def _synchronous(training: Training) -> Iterator[tuple[Mapping[str, Any], bytes]]:
    """SyncReplicasOptimizer's graphs; the chief's has the steps of worker 0 and, in a loop of its own, the updates."""
    import tensorflow as tf

    v1 = tf.compat.v1
    total = training.workers
    for worker in range(total):
        with tf.Graph().as_default() as graph, tf.device(_device("worker", worker)):
            model = _Model(training)
            read, gradients = model.gradients(worker)
            optimizer = v1.train.SyncReplicasOptimizer(
                v1.train.GradientDescentOptimizer(1e-3), training.aggregate or total, total
            )
            pairs = list(zip(gradients, model.variables, strict=True))
            trained = optimizer.apply_gradients(pairs, global_step=model.step)
            pushes = [op for op in graph.get_operations() if op.type.endswith("AccumulatorApplyGradient")]
            takes = [op for op in graph.get_operations() if op.type.endswith("AccumulatorTakeGradient")]
            pushed = _now(worker, pushes, "pushed")
            local = next(tensor for tensor in pushes[0].inputs if tensor.dtype == tf.int64)
            with tf.device(takes[0].device):
                mean = tf.reduce_max(takes[0].outputs[0], name="mean")
            (updates,) = optimizer.get_chief_queue_runner().enqueue_ops
            variables = v1.global_variables_initializer()
            tokens = optimizer.get_init_tokens_op(training.tokens)
            first = [[variables.name], [optimizer.chief_init_op.name], [tokens.name]]
            yield _made(
                graph,
                name=f"worker:{worker}",
                task=task("worker", worker),
                targets=[trained.op.name if hasattr(trained, "op") else trained.name],
                notes={"read": read.name, "pushed": pushed.name, "local_step": local.name},
                first=[[optimizer.local_step_init_op.name]] if worker else first,
                counted=False,
            )
            if not worker:
                chief = _made(
                    graph,
                    name="worker:0 updates",
                    task=task("worker", 0),
                    targets=[updates.name],
                    notes={"mean": mean.name},
                    first=[],
                )
    yield chief


def _in_graph(training: Training) -> Iterator[tuple[Mapping[str, Any], bytes]]:
    """One client, with a tower on each worker, whose gradients are averaged where the variable is."""
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        model = _Model(training)
        towers = [model.gradients(worker) for worker in range(training.workers)]
        means = []
        for row, variable in enumerate(model.variables):
            with tf.device(variable.device):
                means.append(tf.add_n([gradients[row] for _, gradients in towers]) / len(towers))
        count = _count(model.step, _applied(model, means))
        first = tf.compat.v1.global_variables_initializer()
        yield _made(
            graph,
            name="worker:0",
            task=task("worker", 0),
            targets=[count.name],
            notes={"read": towers[0][0].name, "after": _after(model.step, count).name},
            first=[[first.name]],
        )


if __name__ == "__main__":
    child.serve(_answer)
