"""Graphs of small distributed trainings, made by TensorFlow as its users make them, in a child process.

A worker reads the variables, sleeps or computes, and has its gradients applied. Its gradient is a number that tells it
from others: 16 to the power of its task, so that a sum of gradients says how many of whom are in it (`shares`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from simulator.oracle import child
from tests.oracle.real_cluster import RealClient
from tests.oracle.real_task import NOW, SLEEP

DIGIT = 16  # more than a worker has gradients in one sum


@dataclass(frozen=True)
class Training:
    """A training: who takes part, how, and what each worker does in a step."""

    # between graphs "async", "sync" or "ssp"; one client for towers on all workers: "in", or "towers", which don't wait
    how: str
    sleeps_s: tuple[float, ...]  # [workers] how long each sleeps in a step
    ps: int = 1  # 0: the first worker keeps the variables
    aggregate: int = 0  # "sync": gradients per update
    tokens: int = -1  # "sync": at first; -1: as many as SyncReplicasOptimizer likes
    bound: int = 0  # "ssp": how many steps a worker may be ahead of the slowest
    variables: int = 1
    elements: int = 256  # of each variable
    products: tuple[int, ...] = ()  # [workers] how many matrices each multiplies in a step
    side: int = 256  # of the matrices
    rows: int = 0  # of the first of them, a batch; 0: as many as columns
    floats: str = "float32"  # all numbers that are learnt
    trips: int = 0  # how often a number goes back to where the variables are, and comes again, before a worker works
    clocked: bool = False  # "async": notes when a step begins and when it is counted, on the task with the variables
    container: str = ""  # apart from other trainings on the same tasks

    @property
    def workers(self) -> int:
        """How many there are."""
        return len(self.products or self.sleeps_s)

    @property
    def alone(self) -> bool:
        """Whether each worker's gradient is an update of its own."""
        return self.how in ("async", "towers", "ssp")

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
    (made,) = clients_of([training], timeout_s=timeout_s)
    return made


def clients_of(trainings: Sequence[Training], *, timeout_s: float = 120) -> Iterator[tuple[RealClient, ...]]:
    """The clients of each, all from one process."""
    with child.conversation("tests.oracle.training_graphs") as ask:
        for training in trainings:
            facts, graphs = child.unpack(ask(child.pack(asdict(training)), timeout_s))
            yield tuple(
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
    make = {"sync": _synchronous, "in": _in_graph}.get(training.how, _asynchronous)
    made = list(make(training))
    return child.pack({"clients": [described for described, _ in made]}, [graph for _, graph in made])


def _device(job: str, number: int) -> str:
    return f"{task(job, number)}/device:CPU:0"


def _held(training: Training, row: int) -> str:
    """Where a variable lies."""
    return _device("ps", row % training.ps) if training.ps else _device("worker", 0)


class _Model:
    """The variables of a training, in the graph that is being made."""

    def __init__(self, training: Training) -> None:
        import tensorflow as tf

        v1 = tf.compat.v1
        self.training = training
        with tf.device(_held(training, 0)):
            self.step = v1.get_variable(
                "global_step", (), tf.int64, initializer=v1.zeros_initializer(), trainable=False, use_resource=True
            )
        self.variables = []
        for row in range(training.variables):
            with tf.device(_held(training, row)):
                shape, zeros = [training.elements], v1.zeros_initializer()
                self.variables.append(
                    v1.get_variable(f"x{row}", shape, training.floats, initializer=zeros, use_resource=True)
                )

    def gradients(self, worker: int, after: Sequence[Any] = ()) -> tuple[Any, list[Any]]:
        """The global step that a worker reads first, and its gradients after its work."""
        import tensorflow as tf

        where, scope = tf.device(_device("worker", worker)), tf.name_scope(f"tower_{worker}")
        with where, scope, tf.control_dependencies(after):
            read = tf.identity(self.step.read_value(), name="read")
            at_home = read.op.inputs[0].op.inputs[0].op  # before it crosses: no round trip lies in between
            assert at_home.type == "ReadVariableOp"
            with tf.control_dependencies([at_home]):
                values = [tf.identity(_read(variable)) for variable in self.variables]
            ready = tf.add_n([tf.reduce_sum(value) for value in values], name="ready")
            for _ in range(self.training.trips):
                with tf.device(_held(self.training, 0)):
                    there = tf.identity(ready)
                ready = tf.identity(there)
            done = self._worked(worker, ready)
            gradient = tf.fill([self.training.elements], 0 * done + float(DIGIT**worker))
            return read, [tf.identity(gradient) for _ in values]

    def _worked(self, worker: int, ready: Any) -> Any:
        import tensorflow as tf

        if self.training.products:
            side = self.training.side
            weights = tf.fill([side, side], 0 * ready + 1 / side)
            matrix = tf.fill([self.training.rows, side], 0 * ready + 1) if self.training.rows else weights
            for _ in range(self.training.products[worker]):
                matrix = tf.matmul(matrix, weights)
            return tf.reduce_sum(matrix)
        seconds = tf.constant(self.training.sleeps_s[worker], tf.float32)
        done = tf.raw_ops.PyFunc(input=[ready, seconds], token=SLEEP, Tout=[ready.dtype], name="work")[0]
        return tf.reshape(done, ())  # PyFunc does not say its shape


def _read(variable: Any) -> Any:
    import tensorflow as tf

    with tf.device(variable.device):  # what is sent is the value
        return variable.read_value()


def _now(device: str, after: Sequence[Any], name: str) -> Any:
    import tensorflow as tf

    with tf.device(device), tf.control_dependencies(after):
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
    return described, graph.as_graph_def(add_shapes=True).SerializeToString(deterministic=True)


def _asynchronous(training: Training) -> Iterator[tuple[Mapping[str, Any], bytes]]:
    """Each worker applies its own gradients, whatever others do."""
    import tensorflow as tf

    for worker in range(training.workers):
        with tf.Graph().as_default() as graph, graph.container(training.container):
            model = _Model(training)
            inward, outward, fill = _allowances(training, worker) if training.how == "ssp" else ([], [], [])
            began = (
                _now(_device("worker", worker), inward, "began") if inward else None
            )  # not behind the sleep, for the only thread
            read, gradients = model.gradients(worker, [] if began is None else [began.op])
            count = _count(model.step, _applied(model, gradients))
            notes = {"read": read.name, "after": _after(model.step, count).name}
            if began is not None:
                notes["began"] = began.name
            if training.clocked:
                notes["reading"] = _now(model.step.device, [], "reading").name
                notes["counted"] = _now(model.step.device, [count], "counted").name
            with tf.control_dependencies([count]):
                ended = tf.group(*[queue.enqueue([0]) for queue in outward], name="ended")
            first = tf.compat.v1.global_variables_initializer()
            apart = training.how == "towers"  # in sessions of one client
            yield _made(
                graph,
                name=f"worker:0 tower:{worker}" if apart else f"worker:{worker}",
                task=task("worker", 0 if apart else worker),
                targets=[ended.name if outward else count.name],
                notes=notes,
                first=[] if worker else [[first.name, *(op.name for op in fill)]],
            )


def _allowances(training: Training, worker: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Stale synchronous parallel out of TensorFlow's ops: what a step waits for, queues that it fills, and at first.

    From each worker to each other a queue holds how many steps the other may still begin: one more than the bound at
    first, and one for each step that the worker ends.
    """
    import tensorflow as tf

    queues = {}
    with tf.device(_held(training, 0)):
        for source in range(training.workers):
            for target in range(training.workers):
                if source != target:
                    name = f"allowance_{source}_{target}"
                    queues[source, target] = tf.queue.FIFOQueue(-1, [tf.int32], [()], shared_name=name)
    inward = [queue.dequeue() for (_, target), queue in queues.items() if target == worker]
    outward = [queue for (source, _), queue in queues.items() if source == worker]
    fill = [queue.enqueue_many([[0] * (training.bound + 1)]) for queue in queues.values()]
    return [value.op for value in inward], outward, fill


def _applied(model: _Model, gradients: Sequence[Any]) -> list[Any]:
    import tensorflow as tf

    applied = []
    for variable, gradient in zip(model.variables, gradients, strict=True):
        with tf.device(variable.device):
            rate = tf.constant(1e-3, gradient.dtype)
            applied.append(tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=rate, delta=gradient))
    return applied


def _synchronous(training: Training) -> Iterator[tuple[Mapping[str, Any], bytes]]:
    """SyncReplicasOptimizer's graphs; the chief's has the steps of worker 0 and, in a loop of its own, the updates."""
    import tensorflow as tf

    v1 = tf.compat.v1
    total = training.workers
    for worker in range(total):
        with (
            tf.Graph().as_default() as graph,
            graph.container(training.container),
            tf.device(_device("worker", worker)),
        ):
            model = _Model(training)
            read, gradients = model.gradients(worker)
            optimizer = v1.train.SyncReplicasOptimizer(
                v1.train.GradientDescentOptimizer(1e-3), training.aggregate or total, total
            )
            pairs = list(zip(gradients, model.variables, strict=True))
            trained = optimizer.apply_gradients(pairs, global_step=model.step)
            pushes = [op for op in graph.get_operations() if op.type.endswith("AccumulatorApplyGradient")]
            takes = [op for op in graph.get_operations() if op.type.endswith("AccumulatorTakeGradient")]
            pushed = _now(_device("worker", worker), pushes, "pushed")
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

    with tf.Graph().as_default() as graph, graph.container(training.container):
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
