"""Read what options say as NAME=VALUE: shapes to feed, trips of loops, ways of branches.

Each raises ValueError that shows what was given and the form that is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from simulator.graph.graph import Shape

MOST = 2**31  # of a dimension, a batch, the trips of a loop
_Value = TypeVar("_Value")


def gathered(texts: Iterable[str], parse: Callable[[str], tuple[str, _Value]]) -> Mapping[str, _Value]:
    """Name -> value of an option that may be repeated; a name may come once."""
    found: dict[str, _Value] = {}
    for text in texts:
        name, value = parse(text)
        if name in found:
            raise ValueError(f"{name!r} is given twice; give it once")
        found[name] = value
    return found


def parse_feed(text: str) -> tuple[str, Shape]:
    """Read NAME=32,224,224,3 (NAME= for a scalar)."""
    name, dims, form = _split(text, "NAME=32,224,224,3")
    try:
        shape = tuple(int(dim) for dim in dims.replace("x", ",").split(",")) if dims.strip() else ()
    except ValueError:
        raise ValueError(form) from None
    if any(dim < 0 or dim > MOST for dim in shape):
        raise ValueError(f"{form}: a dimension is a number from 0 to 2^31")
    return name, shape


def parse_trips(text: str) -> tuple[str, int]:
    """Read FRAME=N; the frame "*" is every loop."""
    name, count, form = _split(text, "FRAME=10 or '*=10' for every loop")
    try:
        trips = int(count)
    except ValueError:
        raise ValueError(form) from None
    if not 0 <= trips <= MOST:
        raise ValueError(f"{form}: a loop runs from 0 to 2^31 times")
    return name, trips


def parse_branch(text: str) -> tuple[str, bool | float | int]:
    """Read NAME=true, NAME=false, NAME=0.3 (how likely it holds) or, for a Case, NAME=2 (the branch's number)."""
    name, said, form = _split(text, "NAME=true, NAME=false, NAME=0.3 or, for a Case, NAME=2")
    if said.lower() in ("true", "false"):
        return name, said.lower() == "true"
    try:
        choice: float | int = int(said) if said.strip().isdigit() else float(said)
    except ValueError:
        raise ValueError(form) from None
    if not 0 <= choice <= (1 if isinstance(choice, float) else MOST):  # nan is nowhere
        raise ValueError(f"{form}: a probability is from 0 to 1")
    return name, choice


def _split(text: str, wanted: str) -> tuple[str, str, str]:
    """Name, value, and what to say if the value is none."""
    name, equals, value = text.rpartition("=")
    form = f"{text!r} is not of the form {wanted}"
    if not equals or not name:
        raise ValueError(form)
    return name, value, form
