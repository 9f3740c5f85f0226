"""Any op of the registry whose inputs can be had: what no other pattern thought of."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from simulator.graph import registry
from simulator.graph.dtypes import BOOL, FLOAT, REF, RESOURCE, STRING, VARIANT
from simulator.graph.registry import Argument
from tests.difference.functions import function
from tests.difference.sketch import INT64, LOOSE, NUMBERS, Sketch, Value, func, shapes
from tests.difference.state import UNKNOWN

_BASIC = frozenset({*NUMBERS, BOOL, STRING})
# Runtime and devices that need a set-up; control flow has its patterns; DumpTensor makes files when its kernel is made.
_ODD = ("_", "Xla", "TPU", "Tpu", "Collective", "Nccl", "Recv", "Send", "Infeed", "Outfeed", "DTensor", "Dist")
_LEFT_OUT = frozenset(
    {
        "Abort",
        "DumpTensor",
        "PyFunc",
        "PyFuncStateless",
        "EagerPyFunc",
        "LoopCond",
        "PartitionedCall",
        "StatefulPartitionedCall",
    }
    | {"RemoteCall", "SymbolicGradient", "If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile", "For"}
)
_PLAIN: dict[str, Any] = {
    "int": 1,
    "bool": False,
    "string": "a",
    "float": 1.0,
    "list(int)": [1],
    "list(string)": ["a"],
    "list(type)": [FLOAT],
    "shape": UNKNOWN,
}


def any_op(sketch: Sketch) -> None:
    op = sketch.random.choice(_ops())
    types: dict[str, int] = {}
    inputs = [value for argument in registry.registered(op).inputs for value in _taken(sketch, op, argument, types)]
    attrs = {key: _attribute(sketch, op, key, kind) for key, kind in _lacking(op).items()}
    for value in sketch.node(op, inputs, **attrs):
        if value.dtype in _BASIC:
            sketch.give(value)
        elif value.dtype == VARIANT:
            sketch.handles(VARIANT).append(value)


def _taken(sketch: Sketch, op: str, argument: Argument, types: dict[str, int]) -> list[Value]:
    """What is handed in for an argument; `types` are those that were chosen for attributes."""
    if argument.list_attr:
        return [sketch.take(*_BASIC) for _ in range(sketch.random.randint(1, 3))]
    dtype = argument.dtype or types.get(argument.type_attr, 0)
    if not dtype:
        dtype = types[argument.type_attr] = sketch.random.choice(_allowed(op, argument.type_attr))
    return [_value(sketch, dtype, ref=argument.is_ref)] * (2 if argument.number_attr else 1)


def _value(sketch: Sketch, dtype: int, *, ref: bool) -> Value:
    if ref:
        return _known(sketch, dtype + REF) or sketch.node("VariableV2", dtype=dtype, shape=UNKNOWN)[0]
    if dtype == RESOURCE:
        return _known(sketch, FLOAT) or _kept(sketch, FLOAT, "VarHandleOp", dtype=FLOAT, shape=UNKNOWN)
    if dtype == VARIANT:
        return _known(sketch, VARIANT) or _kept(sketch, VARIANT, "OptionalNone")
    return sketch.take(dtype, fits=LOOSE)


def _known(sketch: Sketch, key: int) -> Value | None:
    there = sketch.handles(key)
    return sketch.random.choice(there) if there and sketch.chance(0.7) else None


def _kept(sketch: Sketch, key: int, op: str, **attrs: Any) -> Value:
    made = sketch.node(op, **attrs)[0]
    sketch.handles(key).append(made)
    return made


def _attribute(sketch: Sketch, op: str, key: str, kind: str) -> Any:
    if kind == "type":
        return sketch.random.choice(_allowed(op, key))
    if kind == "func":
        return func(function(sketch, [INT64], [INT64]))
    return shapes() if kind == "list(shape)" else _PLAIN[kind]


@lru_cache(maxsize=4096)
def _allowed(op: str, name: str) -> list[int]:
    """Basic types for which some kernel of the op is registered."""
    listed = [dict(kernel.constraints).get(name) for kernel in registry.registered(op).kernels]
    return sorted(_BASIC if None in listed else _BASIC & {one for some in listed for one in some or ()})


@lru_cache(maxsize=4096)
def _lacking(op: str) -> dict[str, str]:
    """Attributes that neither the inputs nor defaults give."""
    facts = registry.registered(op)
    inferred = {name for arg in facts.inputs for name in (arg.type_attr, arg.number_attr, arg.list_attr)}
    return {key: kind for key, kind in facts.attrs.items() if key not in inferred and key not in facts.defaults}


@lru_cache(maxsize=1)
def _ops() -> tuple[str, ...]:
    return tuple(op for op in registry.names() if op not in _LEFT_OUT and _can_be_had(op))


def _can_be_had(op: str) -> bool:
    facts = registry.registered(op)
    typed = {argument.type_attr for argument in facts.inputs if argument.type_attr}
    typed |= {key for key, kind in _lacking(op).items() if kind == "type"}
    several = sum(bool(argument.number_attr or argument.list_attr) for argument in facts.inputs)
    return (
        bool(facts.inputs and facts.kernels)
        and several < 2
        and not op.startswith(_ODD)
        and all(kind in _PLAIN or kind in ("type", "func", "list(shape)") for kind in _lacking(op).values())
        and all(_allowed(op, key) for key in typed)
        and all(one.dtype in (0, RESOURCE, VARIANT) or one.dtype in _BASIC for one in facts.inputs)
    )
