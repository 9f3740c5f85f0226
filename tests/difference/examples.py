"""Cases on which simviz and TensorFlow once differed, made small, and named by the rule that was missed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from simulator.graph.dtypes import BOOL, FLOAT, INT32, RESOURCE
from simulator.graph.messages import AttrValue
from tests.difference.cases import Case
from tests.difference.functions import function, identity_of_handle
from tests.difference.sketch import Sketch, Value, constant, func
from tests.difference.state import UNKNOWN


@dataclass(frozen=True)
class Example:
    """How a case is made; its graph is drawn without chance."""

    draw: Callable[[Sketch], None]
    fetches: tuple[str, ...]
    cluster: str = "4cpu"
    master: str = ""
    soft: bool = True
    feeds: tuple[str, ...] = ()

    @property
    def case(self) -> Case:
        sketch = Sketch(Random(0))
        sketch.control = 0.0
        self.draw(sketch)
        graph = sketch.rows.built(library=sketch.library)
        return Case(graph, self.cluster, self.master, self.soft, self.feeds, self.fetches)


def _const(sketch: Sketch, name: str, dtype: int = FLOAT, *, device: str = "", waits: tuple[str, ...] = ()) -> Value:
    return sketch.node("Const", name=name, device=device, waits=waits, gives=0, **constant(dtype))[0]


def _next_iteration_first(sketch: Sketch) -> None:
    value = _const(sketch, "value")
    sketch.node("NextIteration", [value], name="next")
    start = Value("enter", FLOAT)
    sketch.node("Merge", [start], name="merge", also=["next"], N=2)
    sketch.node("Enter", [_const(sketch, "start")], name="enter", frame_name="loop")


def _integers_of_a_loop_that_stays(sketch: Sketch) -> None:
    given = _const(sketch, "given", INT32, device="/cpu:3")
    test = function(sketch, [INT32], [10], test=True)
    body = function(sketch, [INT32], [INT32])
    sketch.node("StatelessWhile", [given], name="while", cond=func(test), body=func(body))


def _isolated_by_id(sketch: Sketch) -> None:
    for name, handle in (("first", "z"), ("second", "a")):  # their handles come in the other order
        call = {"f": func(identity_of_handle(sketch)), "Tout": [RESOURCE]}
        sketch.node("StatefulPartitionedCall", [Value(handle, RESOURCE)], name=name, **call)
    for handle in ("a", "z"):
        sketch.node("VarHandleOp", name=handle, dtype=FLOAT, shape=UNKNOWN)


def _copied_after_two(sketch: Sketch) -> None:
    first = _const(sketch, "z")
    sketch.node("StopGradient", [first], name="a")
    both = _const(sketch, "both", waits=("z", "a"))
    sketch.node("Neg", [both], name="here")
    sketch.node("Neg", [both], name="there", device="/cpu:1")


def _loops_with_a_way_in_that_does_not_run(sketch: Sketch) -> None:
    """The inner loop could be entered from outside the outer one; in this step it is not."""
    sketch.node("Enter", [_const(sketch, "unused")], name="not_run", frame_name="inner")
    outer = sketch.node("Enter", [_const(sketch, "start")], name="enter", frame_name="outer")
    merge = sketch.node("Merge", [*outer], name="merge", also=["next"], N=2)[0]
    going = sketch.node("LoopCond", sketch.node("IsFinite", [merge], name="test"), name="going")[0]
    pair = sketch.node("Switch", [merge, going], name="switch")
    inner = sketch.node("Enter", [pair[1]], name="inner_enter", frame_name="inner")
    again = sketch.node("Merge", [*inner], name="inner_merge", also=["inner_next"], N=2)[0]
    still = sketch.node("LoopCond", sketch.node("IsFinite", [again], name="inner_test"), name="inner_going")[0]
    two = sketch.node("Switch", [again, still], name="inner_switch")
    sketch.node("NextIteration", sketch.node("Neg", [two[1]], name="far", device="/cpu:1"), name="inner_next")
    left = sketch.node("Exit", [two[0]], name="inner_exit")
    sketch.node("NextIteration", left, name="next")
    sketch.node("Exit", [pair[0]], name="exit")


def _fed_to_many(sketch: Sketch) -> None:
    given = sketch.node("Placeholder", name="given", dtype=FLOAT, shape=UNKNOWN)[0]
    sketch.node("Neg", [given], name="near")
    sketch.node("IdentityN", [given] * 12, name="far", device="/cpu:1")


def _reference_without_a_kernel(sketch: Sketch) -> None:
    """No kernel has that label; one on another task may."""
    far = "/job:worker/replica:0/task:0/device:CPU:0"
    variable = sketch.node("VariableV2", name="variable", device=far, dtype=INT32, shape=UNKNOWN, _kernel="host")[0]
    sketch.node("Neg", [variable], name="read")


def _loop_told_of_host_memory(sketch: Sketch) -> None:
    given = _const(sketch, "given", device="/cpu:3")
    test = function(sketch, [FLOAT], [10], test=True)
    body = function(sketch, [FLOAT], [FLOAT])
    sketch.node("While", [given], name="while", cond=func(test), body=func(body), _input_hostmem=[0])


def _pieces_of_a_sum(sketch: Sketch) -> None:
    given = _const(sketch, "given")
    scalar, beside = AttrValue(shape={}), AttrValue(s=b"loc:@given")
    sketch.node("AccumulateNV2", [given, given], name="sum", shape=scalar, _class=beside)


def _reference_in_the_other_memory(sketch: Sketch) -> None:
    variable = sketch.node("VariableV2", name="variable", dtype=FLOAT, shape=UNKNOWN, _output_hostmem=[0])[0]
    sketch.node("RefSwitch", [variable, _const(sketch, "test", BOOL)], name="switch")


def _way_back_through_the_other_memory(sketch: Sketch) -> None:
    enter = sketch.node("Enter", [_const(sketch, "start")], name="enter", frame_name="loop")[0]
    merge = sketch.node("Merge", [enter], name="merge", also=["next"], N=2)[0]
    going = sketch.node("LoopCond", sketch.node("IsFinite", [merge], name="test"), name="going")[0]
    pair = sketch.node("Switch", [merge, going], name="switch")
    sketch.node("NextIteration", [pair[1]], name="next", _output_hostmem=[0])
    sketch.node("Exit", [pair[0]], name="exit")


def _waited_for_twice(sketch: Sketch) -> None:
    variable = sketch.node("VariableV2", name="variable", dtype=FLOAT, shape=UNKNOWN)[0]
    held = sketch.node("RefIdentity", [variable], name="held", device="/cpu:1")[0]
    sketch.node("Identity", [held], name="read")
    sketch.node("NoOp", name="done", device="/cpu:1", waits=("read", "read"))


EXAMPLES = {
    "a control input that stands twice is one edge: the Identity before it passes on (§3.7)": Example(
        _waited_for_twice, ("done",), "ps=1x3cpu,worker=1x2gpu", "ps:0"
    ),
    "a pair has the type that is read: a reference, where one is wanted (§5.3)": Example(
        _reference_in_the_other_memory, ("switch",), "ps=1,worker=1x1gpu", "ps:0"
    ),
    "a loop whose way back crosses a GPU's two memories is cut (§5.5)": Example(
        _way_back_through_the_other_memory, ("exit",), "ps=1,worker=1x1gpu", "ps:0"
    ),
    "the pieces of an AccumulateNV2 inherit a _class that is no list (§3.9)": Example(_pieces_of_a_sum, ("sum",)),
    "_input_hostmem counts for a node without a kernel, too (§5.5)": Example(_loop_told_of_host_memory, ("while",)),
    "a reference to an integer is not held to be in host memory, where no kernel says so (§5.5)": Example(
        _reference_without_a_kernel, ("read",), "ps=1,worker=1", "ps:0"
    ),
    "a copy of a constant waits in order of names, as its original does (§3.9)": Example(
        _copied_after_two, ("here", "there")
    ),
    "what does not run says nothing about loops (§5.7)": Example(_loops_with_a_way_in_that_does_not_run, ("exit",)),
    "the readers of a fed node have no known order above eight (§6)": Example(_fed_to_many, ("near", "far")),
    "a Merge waits for its Enter, not for a NextIteration that is there before (§3.8)": Example(
        _next_iteration_first, ("merge",)
    ),
    "the integers of a StatelessWhile are in host memory, as those of a While are (§5.5)": Example(
        _integers_of_a_loop_that_stays, ("while",)
    ),
    "calls that hand back resources are isolated in order of ids (§3.6)": Example(_isolated_by_id, ("first", "second")),
}
