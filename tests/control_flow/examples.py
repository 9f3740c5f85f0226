"""In the child: small programs on which simviz and a session once differed, each named by the case that was missed.

They are written by hand, so that they stay what their names say however random programs are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

SIZE = 2


@dataclass(frozen=True)
class Example:
    """A program, with the branches and trips that its data decides; keys as in `drawing.Program`."""

    write: Callable[[Any], None]  # into the default graph, given TensorFlow
    v2: bool
    feeds: Mapping[str, Any] = field(default_factory=dict)
    branches: Mapping[str, bool | int] = field(default_factory=dict)
    trips: Mapping[str, int] = field(default_factory=dict)
    cpus: int = 1
    targets: tuple[str, ...] = ()  # without them all that nobody reads


X, NUMBER, TRUTH = {"x:0": [0.25, -0.5]}, {"number:0": 2}, {"truth:0": True}


def _x(tf: Any) -> Any:
    return tf.compat.v1.placeholder(tf.float32, [SIZE], name="x")


def _number(tf: Any, name: str = "number") -> Any:
    return tf.compat.v1.placeholder(tf.int32, [], name=name)


def _loop(tf: Any, limit: Any, body: Callable[[Any, Any], Any], value: Any, name: str, parallel: int = 10) -> Any:
    """A loop with a counter and one value, which is returned."""
    made = tf.compat.v1.while_loop(
        lambda i, _: i < limit,
        lambda i, value: (i + 1, body(i, value)),
        [tf.constant(0), value],
        parallel_iterations=parallel,
        name=name,
    )
    return made[1]


def _gradient(tf: Any, of: Any, by: Any) -> None:
    tf.identity(tf.gradients(of, by)[0], name="gradient")


def _inner_count_from_a_stack(tf: Any) -> None:
    x = _x(tf)
    end = _loop(
        tf, 3, lambda i, value: _loop(tf, i, lambda _, inner: tf.tanh(inner) * value, value, "inner"), x, "outer"
    )
    _gradient(tf, end, x)


def _gradient_loop_in_a_branch(tf: Any) -> None:
    x, limit = _x(tf), _number(tf)
    truth = tf.compat.v1.placeholder(tf.bool, [], name="truth")
    end = tf.cond(truth, lambda: _loop(tf, limit, lambda _, value: tf.tanh(value), x, "loop"), lambda: tf.sin(x))
    _gradient(tf, end, x)


def _count_from_both_branches(tf: Any) -> None:
    """Each branch has a loop, so that both hand a count to the gradient."""
    x = _x(tf)
    truth = tf.compat.v1.placeholder(tf.bool, [], name="truth")
    sides = [lambda n=n: _loop(tf, n, lambda _, value: tf.tanh(value), x, f"loop{n}") for n in (2, 3)]
    _gradient(tf, tf.cond(truth, *sides), x)


def _trigger(tf: Any, after: Any) -> Any:
    from tensorflow.python.ops import control_flow_ops

    with tf.control_dependencies([after]):
        return control_flow_ops.control_trigger()


def _one_more_iteration(tf: Any) -> None:
    """The trigger runs though the loop is over, and the op after it reads only from outside."""
    x, limit = _x(tf), _number(tf)

    def body(_: Any, value: Any) -> Any:
        with tf.control_dependencies([_trigger(tf, tf.tanh(value))]):
            return tf.sin(x)

    tf.identity(_loop(tf, limit, body, x, "loop"), name="end")


def _one_more_iteration_on_one_device(tf: Any) -> None:
    """The other device has as many iterations as the condition allows, and waits for no more."""
    x, limit = _x(tf), _number(tf)

    def body(_: Any, value: Any) -> Any:
        seen = tf.tanh(value)
        with tf.device("/cpu:1"), tf.control_dependencies([_trigger(tf, seen)]):
            made = tf.sin(x)
        return tf.identity(made)

    with tf.device("/cpu:0"):
        tf.identity(_loop(tf, limit, body, x, "loop"), name="end")


def _never_runs(tf: Any) -> None:
    """An op that waits for a value of a loop after its last iteration never runs, and no op reads it."""
    x, limit = _x(tf), _number(tf)

    def body(_: Any, value: Any) -> Any:
        with tf.control_dependencies([_trigger(tf, tf.tanh(value))]):
            made = tf.sin(x)
        tf.tanh(value + made, name="unread")
        return made

    end = _loop(tf, limit, body, x, "loop")
    tf.raw_ops.Switch(data=end, pred=tf.constant(True), name="both")
    no, _ = tf.raw_ops.Switch(data=end, pred=tf.constant(True))
    tf.tanh(no, name="end")


def _now_one_side(tf: Any) -> None:
    """A predicate is that of another branch in the first iterations, and its opposite later."""
    x = _x(tf)

    def body(i: Any, value: Any) -> Any:
        truth = tf.cond(i < 1, lambda: tf.identity(i < 0), lambda: tf.identity(i < 5))
        return tf.cond(truth, lambda: tf.tanh(value), lambda: tf.sin(value))

    _gradient(tf, _loop(tf, 3, body, x, "loop"), x)


def _nested_branches(tf: Any) -> None:
    x = _x(tf)

    def body(i: Any, value: Any) -> Any:
        inner = lambda: tf.cond(tf.equal(i, 1), lambda: tf.tanh(value), lambda: value * value)  # noqa: E731
        return tf.cond(i > 0, inner, lambda: tf.sin(value))

    _gradient(tf, _loop(tf, 3, body, x, "loop"), x)


def _linear_case(tf: Any, index: Any, value: Any) -> Any:
    """The gradient of its branches needs nothing of the forward pass."""
    return tf.switch_case(index, [lambda factor=factor: factor * value for factor in (0.5, 2.0, -1.0)])


def _index_goes_round(tf: Any) -> None:
    """The gradient reads a Case's index where it comes out of the loop of the forward pass, which needs no Case."""
    x, index = _x(tf), _number(tf)

    def body(i: Any, value: Any) -> Any:
        return tf.cond(i < 5, lambda: _linear_case(tf, index, value), lambda: 0.5 * value)

    _gradient(tf, _loop(tf, 2, body, x, "loop"), x)


def _index_goes_round_two_loops(tf: Any) -> None:
    x, index = _x(tf), _number(tf)

    def inner(_: Any, value: Any) -> Any:
        return _linear_case(tf, index, value)

    _gradient(tf, _loop(tf, 2, lambda _, value: _loop(tf, 2, inner, value, "inner"), x, "outer"), x)


def _endless(tf: Any, parallel: int) -> None:
    """The Case gives a value from outside whatever the loop's condition; the loop in its other branch waits for one
    of the iteration, which never comes, so that the iteration never ends and no more than `parallel` begin after it."""
    x, index = _x(tf), _number(tf)

    def body(_: Any, value: Any) -> Any:
        looped = lambda: _loop(tf, 2, lambda _, inner: tf.tanh(inner), value, "inner")  # noqa: E731
        return tf.switch_case(index, [looped, lambda: tf.identity(x)])

    tf.identity(_loop(tf, 1, body, x, "loop", parallel), name="end")


def _endless_with_branch_0(tf: Any) -> None:
    """Without options branch 0 is taken, which gives a value from outside; with it the step would never end."""
    x, index = _x(tf), _number(tf)

    def body(_: Any, value: Any) -> Any:
        return tf.switch_case(index, [lambda: tf.identity(x), lambda: tf.tanh(value), lambda: tf.sin(value)])

    tf.identity(_loop(tf, 1, body, x, "loop"), name="end")


_FIRST = {**X, "number:0": 1}

EXAMPLES: dict[str, Example] = {
    "the count of an inner loop, taken from a stack": Example(_inner_count_from_a_stack, False, X),
    "a gradient's loop in a branch": Example(
        _gradient_loop_in_a_branch, True, {**X, **NUMBER, **TRUTH}, {"truth": True}, {"loop": 2}
    ),
    "a loop's count where both branches hand one on": Example(
        _count_from_both_branches, True, {**X, "truth:0": False}, {"truth": False}
    ),
    "what follows a ControlTrigger begins one more iteration": Example(
        _one_more_iteration, False, {**X, **NUMBER}, {}, {"loop": 2}
    ),
    "one more iteration on one device": Example(
        _one_more_iteration_on_one_device, False, {**X, **NUMBER}, {}, {"loop": 2}, cpus=2
    ),
    "an op that never runs, which nobody fetches": Example(_never_runs, False, {**X, **NUMBER}, {}, {"loop": 2}),
    "a predicate that takes now one side of a Merge, now the other": Example(_now_one_side, True, X),
    "nested branches in a loop and in its gradient": Example(_nested_branches, True, X),
    "a Case's index that goes round a loop": Example(
        _index_goes_round, True, {**X, **NUMBER}, {"number": 2}, targets=("gradient",)
    ),
    "a Case's index that goes round two loops": Example(
        _index_goes_round_two_loops, True, {**X, **NUMBER}, {"number": 2}, targets=("gradient",)
    ),
    "a loop that never ends, one iteration at a time": Example(
        lambda tf: _endless(tf, 1), False, _FIRST, {"number": 1}
    ),
    "a loop that never ends, ten at a time": Example(lambda tf: _endless(tf, 10), False, _FIRST, {"number": 1}),
    "a loop that never ends, forty at a time": Example(lambda tf: _endless(tf, 40), False, _FIRST, {"number": 1}),
    "a step that never ends unless a branch is taken": Example(
        _endless_with_branch_0, False, {**X, **NUMBER}, {"number": 2}
    ),
}
