"""In the child: random programs with loops and branches, as TensorFlow's own Python writes them, in both generations.

The values of all predicates and the trips of all loops are known to the program that draws them. Predicates are fed,
constant, compared with a loop's counter, or computed from data with a known result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

CPUS = 3
DEEPEST = 3
SIZE = 2  # elements of every tensor


@dataclass
class Program:
    """One program while it is built."""

    tf: Any
    random: Random
    v2: bool
    cpus: int
    graph: Any
    feeds: dict[str, Any] = field(default_factory=dict)  # placeholder -> its value
    branches: dict[str, bool | int] = field(default_factory=dict)  # predicate -> its value
    trips: dict[str, int] = field(default_factory=dict)  # loop -> trips
    counters: list[Any] = field(default_factory=list)  # of the loops around
    before: list[Any] = field(default_factory=list)  # tensors that something here may wait for
    looks: list[Any] = field(default_factory=list)  # tensors inside branches that may be fetched
    fed_truths: list[tuple[Any, bool]] = field(default_factory=list)
    fed_numbers: list[tuple[Any, int]] = field(default_factory=list)
    left: int = 0  # patterns that may still be drawn
    made: int = 0

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def name(self, kind: str) -> str:
        self.made += 1
        return f"{kind}{self.made}"

    def take(self, scope: Sequence[Any]) -> Any:
        return self.random.choice(scope[-6:])

    @contextmanager
    def somewhere(self) -> Iterator[None]:
        """A device and what to wait for, by chance."""
        with ExitStack() as stack:
            if self.cpus > 1 and self.chance(0.3):
                stack.enter_context(self.tf.device(f"/cpu:{self.random.randrange(self.cpus)}"))
            if self.before and self.chance(0.15):
                stack.enter_context(self.tf.control_dependencies([self.random.choice(self.before)]))
            yield


def build(tf: Any, random: Random, size: int, *, v2: bool, cpus: int) -> tuple[Any, Program]:
    """A graph of about `size` patterns, and what is known of it."""
    v1 = tf.compat.v1
    (v1.enable_control_flow_v2 if v2 else v1.disable_control_flow_v2)()
    graph = tf.Graph()
    program = Program(tf, random, v2, cpus, graph, left=size)
    with graph.as_default():
        scope = [_placeholder(program, tf.float32, [SIZE], [0.25, -0.5]) for _ in range(2)]
        inputs = list(scope)
        for _ in range(2):
            truth, number = random.random() < 0.5, random.randrange(4)
            program.fed_truths.append((_placeholder(program, tf.bool, [], truth, "truth"), truth))
            program.fed_numbers.append((_placeholder(program, tf.int32, [], number, "number"), number))
        while program.left > 0:
            step(program, scope, 0)
        if program.chance(0.6):
            _differentiate(program, scope, inputs)
        tf.identity(scope[-1], name="end")
    return graph, program


def _placeholder(program: Program, dtype: Any, shape: list[int], value: Any, kind: str = "x") -> Any:
    made = program.tf.compat.v1.placeholder(dtype, shape, name=program.name(kind))
    program.feeds[made.name] = value
    return made


def _differentiate(program: Program, scope: list[Any], inputs: list[Any]) -> None:
    tf = program.tf
    ends = program.random.sample(scope[2:] or scope, min(2, len(scope[2:] or scope)))
    for gradient in tf.gradients(ends, inputs):
        if gradient is not None:
            tf.identity(gradient, name=program.name("gradient"))


def step(program: Program, scope: list[Any], depth: int) -> None:
    """One pattern, its outputs appended to the scope."""
    program.left -= 1
    nested = [conditional, conditional, several, loop, loop, arrays] if depth < DEEPEST else []
    own = [] if program.v2 else [hand_written, trigger]
    chosen = program.random.choice([plain, plain, plain, waiting, asserted, *own, *nested])
    with program.somewhere():
        chosen(program, scope, depth)


def plain(program: Program, scope: list[Any], depth: int) -> None:
    tf, a, b = program.tf, program.take(scope), program.take(scope)
    made = program.random.choice(  # type: ignore[no-untyped-call]
        [
            lambda: tf.tanh(a),
            lambda: tf.sin(a),
            lambda: tf.tanh(a + b),
            lambda: a * tf.tanh(b),
            lambda: tf.maximum(a, tf.tanh(b)),
            lambda: tf.identity(a),
            lambda: tf.tanh(a) + tf.constant([0.5, 0.25]),
            lambda: tf.stop_gradient(a),
        ]
    )()
    scope.append(made)
    program.before.append(made)


def waiting(program: Program, scope: list[Any], depth: int) -> None:
    tf = program.tf
    with tf.control_dependencies([tf.no_op(), program.take(scope)]):
        scope.append(tf.identity(program.take(scope)))


def trigger(program: Program, scope: list[Any], depth: int) -> None:
    from tensorflow.python.ops import control_flow_ops

    tf, seen = program.tf, [program.take(scope), *program.before[-6:]]
    with tf.control_dependencies([program.random.choice(seen) for _ in range(2)]):
        made = control_flow_ops.control_trigger(name=program.name("trigger"))
    with tf.control_dependencies([made]):
        scope.append(tf.tanh(program.take(scope)))


def asserted(program: Program, scope: list[Any], depth: int) -> None:
    tf, value = program.tf, program.take(scope)
    holds = tf.identity(tf.reduce_sum(value * value) > -1.0, name=program.name("pred"))
    program.branches[holds.op.name] = True
    with tf.control_dependencies([tf.debugging.Assert(holds, [value])]):
        scope.append(tf.identity(value))


def hand_written(program: Program, scope: list[Any], depth: int) -> None:
    """A Switch and a Merge without a context; the branches are read from outside, too."""
    tf, truth = program.tf, predicate(program, scope)
    no, yes = tf.raw_ops.Switch(data=program.take(scope), pred=truth)
    sides = [tf.tanh(no), tf.sin(yes)]
    program.before.append(sides[0])
    if not program.counters:
        program.looks += sides
    merged, index = tf.raw_ops.Merge(inputs=sides)
    scope.append(merged + tf.cast(index, tf.float32) * 0.0)


def predicate(program: Program, scope: Sequence[Any]) -> Any:
    """A truth that is fed, constant, computed, or compared with a loop's counter."""
    tf, chosen = program.tf, program.random.random()
    if chosen < 0.3:
        found, truth = program.random.choice(program.fed_truths)
        program.branches[found.op.name] = truth
    elif chosen < 0.45:
        found = tf.constant(program.chance(0.5))
    elif chosen < 0.7 and program.counters:
        compare = program.random.choice([tf.less, tf.greater, tf.equal, tf.not_equal, tf.greater_equal])
        return compare(program.random.choice(program.counters), tf.constant(program.random.randrange(3)))
    else:
        truth, value = program.chance(0.5), program.take(scope)
        total = tf.reduce_sum(value * value)
        found = tf.identity(total > -1.0 if truth else total < -1.0, name=program.name("pred"))
        program.branches[found.op.name] = truth
    return tf.logical_not(found) if program.chance(0.2) else found


def body_of(program: Program, scope: Sequence[Any], depth: int, gives: int) -> list[Any]:
    """The values that one body returns; nothing else inside may be read outside."""
    mine, kept, program.before = list(scope), program.before, []
    for _ in range(program.random.randrange(3)):
        if program.left > 0:
            step(program, mine, depth)
    inside = mine[len(scope) :]
    if not program.counters and all(one.graph is program.graph for one in inside):  # no body of version 2
        program.looks += inside
        kept += inside[-1:]
    program.before = kept
    return [program.tf.identity(program.random.choice(mine[-4:])) for _ in range(gives)]


def conditional(program: Program, scope: list[Any], depth: int) -> None:
    truth, gives = predicate(program, scope), program.random.randint(1, 2)
    sides = [lambda: body_of(program, scope, depth + 1, gives) for _ in range(2)]
    scope += listed(program.tf.cond(truth, *sides, name=program.name("cond")))


def several(program: Program, scope: list[Any], depth: int) -> None:
    """A Case by index, or by predicates one after the other."""
    tf, count = program.tf, program.random.randint(2, 4)
    sides = [lambda: body_of(program, scope, depth + 1, 1) for _ in range(count)]
    if program.chance(0.5):
        found = [(predicate(program, scope), side) for side in sides[1:]]
        scope += listed(tf.case(found, default=sides[0], exclusive=False, name=program.name("case")))
        return
    index, number = program.random.choice(program.fed_numbers)
    if program.chance(0.5):
        number = program.random.randint(-1, count)
        zero = tf.cast(tf.reduce_sum(program.take(scope)) * 0.0, tf.int32)
        index = tf.identity(zero + number, name=program.name("pred"))
    program.branches[index.op.name] = number
    scope += listed(tf.switch_case(index, sides, name=program.name("case")))


def loop(program: Program, scope: list[Any], depth: int) -> None:
    tf, gives, name = program.tf, program.random.randint(1, 2), program.name("loop")
    trips = program.random.choice([0, 1, 1, 2, 2, 3])
    starts = [program.take(scope) for _ in range(gives)]
    limit, most = _limit(program, scope, trips, name)

    def body(i: Any, *values: Any) -> list[Any]:
        kept, program.before = program.before, []
        program.counters.append(i)
        try:
            given = body_of(program, [*scope[:2], *values], depth + 1, gives)
        finally:
            program.counters.pop()
            program.before = kept
        return [i + 1, *given]

    made = tf.compat.v1.while_loop(
        lambda i, *_: i < limit,
        body,
        [tf.constant(0), *starts],
        parallel_iterations=program.random.choice([1, 2, 10]),
        swap_memory=program.chance(0.3),
        maximum_iterations=most,
        name=name,
    )
    left = tf.nest.flatten(made)[1 : 1 + gives]
    scope += left
    program.before += left[:1]


def _limit(program: Program, scope: Sequence[Any], trips: int, name: str) -> tuple[Any, int | None]:
    """The bound of the counter, and the most iterations."""
    tf, chosen = program.tf, program.random.random()
    if chosen < 0.4:
        return tf.constant(trips), None
    if chosen < 0.55:
        return tf.constant(trips + 2), trips
    if chosen < 0.75:
        limit, trips = program.random.choice(program.fed_numbers)
    else:
        limit = tf.cast(tf.reduce_sum(program.take(scope)) * 0.0, tf.int32) + trips
    program.trips[name] = trips
    return limit, None


def arrays(program: Program, scope: list[Any], depth: int) -> None:
    """A loop that reads one TensorArray and writes another one."""
    tf, trips = program.tf, program.random.choice([1, 2, 3])
    given = tf.TensorArray(tf.float32, trips, element_shape=[SIZE])
    given = given.unstack(tf.stack([program.take(scope) for _ in range(trips)]))
    written = tf.TensorArray(tf.float32, trips, element_shape=[SIZE])

    def body(i: Any, value: Any, out: Any) -> tuple[Any, Any, Any]:
        kept, program.before = program.before, []
        program.counters.append(i)
        try:
            (new,) = body_of(program, [*scope[:1], value, given.read(i)], depth + 1, 1)
        finally:
            program.counters.pop()
            program.before = kept
        return i + 1, new, out.write(i, new)

    _, value, out = tf.compat.v1.while_loop(
        lambda i, *_: i < trips,
        body,
        [tf.constant(0), program.take(scope), written],
        parallel_iterations=program.random.choice([1, 2, 10]),
        swap_memory=program.chance(0.3),
        name=program.name("loop"),
    )
    scope += [value, tf.reduce_sum(out.stack(), axis=0)]


def listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, list | tuple) else [made]
