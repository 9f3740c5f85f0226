"""Arguments of public functions: a value of another type is refused in a sentence, before something fails far inside.

The types are those that the signature writes. They are looked at by the names of classes, so that nothing is loaded
for it. Only what a user calls is looked at: within the house mypy has done so. Numbers of numpy become Python's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Any, TypeAlias, TypeVar

from simulator.errors import SimvizError
from simulator.units import as_python, is_quantity, is_whole
from simulator.wording import shortened

_Test: TypeAlias = Callable[[Any], bool]
_Function = TypeVar("_Function", bound=Callable[..., Any])  # Any: whatever the function takes and returns

# Classes of values, and where a user gets them.
MADE_BY: Mapping[str, str] = {
    "Assignment": "placement.place",
    "BenchRequest": "viz.read_bench",
    "Client": "placement.clients",
    "Cluster": "simulator.load_cluster",
    "Constraints": "simulator.placer.constraints.constrain",
    "CostTable": "simulator.estimate",
    "Disturbance": "simulator.read_disturbance",
    "Effort": "placement.Effort",
    "Graph": "simulator.load",
    "Measured": "simulator.comparison.comparison.Measured",
    "MeasuredTimes": "simulator.read_measurement",
    "ObservedStep": "simulator.read_observed",
    "Outline": "viz.difference.outline",
    "Partitions": "simulator.partition",
    "InputPipelines": "simulator.training.inputs.finding.inputs_of",
    "Plan": "an algorithm",
    "Prepared": "simulator.prepare",
    "Problem": "placement.problem",
    "Profile": "simulator.read_profile",
    "Program": "simulator.distributed",
    "Regime": "simulator.read_regime",
    "Scene": "viz.run",
    "SimulationOptions": "simulator.SimulationOptions",
    "Step": "simulator.choose_step",
    "Trace": "simulator.simulate",
    "Training": "simulator.train",
}
_ALIASES = {
    "Text": "str | os.PathLike[str]",
    "Bytes": "int",
    **dict.fromkeys(("Algorithm", "CostModel"), "Callable"),
    **dict.fromkeys(("Replication", "PsStrategy", "Home", "Order"), "str"),
}
_DIGITS = 14_000  # bits of a number that Python does not print any more
_PART = re.compile(r"(?:[^|\[]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])+")  # of a union, with brackets within brackets


def checked(function: _Function, public: str) -> _Function:
    """The function under its public name, such as `simulator.load`, with its arguments looked at."""
    shape = signature(function)
    tests = {name: _test_of(str(one.annotation), one.annotation) for name, one in shape.parameters.items()}

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:  # Any: as above
        try:
            bound = shape.bind(*given, **named)
        except TypeError:  # Python says itself what is missing
            return function(*given, **named)
        for name, handed in bound.arguments.items():
            value = bound.arguments[name] = as_python(handed)
            wanted, fits = tests[name]
            if not fits(value):
                raise SimvizError(f"{public}: {name} is {shown(value)}; give {wanted}.")
            if _endless(value):
                raise SimvizError(f"{public}: {name} has a number of thousands of digits; give another.")
        return function(*bound.args, **bound.kwargs)

    call.__module__, call.__qualname__ = public.rpartition(".")[::2]  # so that it is pickled by its public name
    return call  # type: ignore[return-value]  # it takes and returns the same


def shown(value: object) -> str:
    """A value in a sentence: a number or a text as it is written, all else by its type."""
    if value is None or isinstance(value, bool | str | int | float):
        return "a number of thousands of digits" if _endless(value) else shortened(repr(value))
    return _with_article(type(value).__name__)


def _with_article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _endless(value: object, depth: int = 2) -> bool:
    """Whether there is a number of thousands of digits, which Python does not print."""
    if isinstance(value, int):
        return abs(value).bit_length() > _DIGITS
    if isinstance(value, Mapping) and depth:
        return any(_endless(one, depth - 1) for pair in value.items() for one in pair)
    return isinstance(value, list | tuple | set) and depth > 0 and any(_endless(one, depth - 1) for one in value)


def _test_of(text: str, annotation: object) -> tuple[str, _Test]:
    """The words for what fits, and the test. What the table does not know always fits."""
    parts = [_ALIASES.get(part.strip(), part.strip()) for part in _PART.findall(text)]
    parts = [part.strip() for whole in parts for part in _PART.findall(whole)]
    tests = [_test_of_part(part) for part in parts]
    if not isinstance(annotation, str) or any(test is None for test in tests):
        return text, lambda value: True
    known = [test for test in tests if test is not None]
    return " or ".join(map(_words, parts)), lambda value: any(test(value) for test in known)


def _test_of_part(part: str) -> _Test | None:
    name, _, inner = part.partition("[")
    inner = inner.removesuffix("]")
    if part in _PLAIN:
        return _PLAIN[part]
    if part in MADE_BY:
        return lambda value: any(base.__name__ == part for base in type(value).__mro__)
    if name == "Callable":
        return callable
    if name == "Mapping":
        return lambda value: isinstance(value, Mapping)
    if name == "Sequence":
        one = _test_of_part(inner) if inner in MADE_BY or inner == "str" or inner.startswith("tuple[") else None
        return lambda value: _is_sequence(value) and (one is None or all(map(one, value)))
    if name == "Collection" and inner == "str":
        return lambda value: _is_collection(value) and all(isinstance(one, str) for one in value)
    if name == "tuple":
        tests = [_test_of_part(one) for one in inner.split(", ")]
        known = [test for test in tests if test is not None]
        if len(known) == len(tests):
            return lambda value: isinstance(value, tuple) and len(value) == len(known) and _all_fit(known, value)
    return None


def _all_fit(tests: Sequence[_Test], values: Sequence[Any]) -> bool:
    return all(test(value) for test, value in zip(tests, values, strict=True))


def _is_sequence(value: object) -> bool:
    """Whether it has a length and an order; a text is no sequence of names."""
    if isinstance(value, Mapping | str | bytes | set | frozenset):
        return False
    try:
        len(value), iter(value)  # type: ignore[arg-type, call-overload]  # it is tried whether it has parts
    except TypeError:  # also an array without dimensions
        return False
    return True


def _is_collection(value: object) -> bool:
    """Whether it has members; a text and a mapping are no names."""
    return isinstance(value, Collection) and not isinstance(value, Mapping | str | bytes)


def _words(part: str) -> str:
    name, _, inner = part.partition("[")
    inner = inner.removesuffix("]")
    if part in MADE_BY:
        return f"{_with_article(part)}, as of {MADE_BY[part]}"
    if name == "Sequence":
        return {"str": "a list of texts"}.get(inner, f"a list of {inner}")
    if part == "Collection[str]":
        return "a list or set of texts"
    return _WORDS.get(part) or _WORDS.get(name) or part


_PLAIN: Mapping[str, _Test] = {
    "None": lambda value: value is None,
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: is_whole(value) and value >= 0,  # what is given by number is a quantity
    "float": is_quantity,
    "str": lambda value: isinstance(value, str),
    "os.PathLike[str]": lambda value: hasattr(value, "__fspath__"),
}
_WORDS = {
    "None": "None",
    "bool": "True or False",
    "int": "a natural number",  # whether 0 is one, the function says: a batch begins with 1
    "float": "a finite number from 0",
    "str": "a text",
    "os.PathLike[str]": "a path",
    "Callable": "a function",
    "Mapping": "a mapping",
}
