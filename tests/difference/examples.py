"""Cases on which simviz and TensorFlow once differed, made small, and named by the rule that was missed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from simulator.graph.dtypes import FLOAT, INT32, RESOURCE
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


EXAMPLES = {
    "a Merge waits for its Enter, not for a NextIteration that is there before (§3.8)": Example(
        _next_iteration_first, ("merge",)
    ),
    "the integers of a StatelessWhile are in host memory, as those of a While are (§5.5)": Example(
        _integers_of_a_loop_that_stays, ("while",)
    ),
    "calls that hand back resources are isolated in order of ids (§3.6)": Example(_isolated_by_id, ("first", "second")),
}
