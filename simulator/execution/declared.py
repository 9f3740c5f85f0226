"""Names, element types and axes that tuples of columns declare (`arrays`, `layouts`, `training.control.arrays`)."""

from __future__ import annotations

from functools import cache
from typing import get_args, get_type_hints

import numpy as np


@cache
def columns(part: type) -> list[tuple[str, np.dtype[np.generic], str]]:
    """Name, element type and axis of each array of a part of `Work`."""
    hints = get_type_hints(part, include_extras=True).items()
    return [(name, _element(hint.__origin__), hint.__metadata__[0]) for name, hint in hints]


def fields(kind: type) -> dict[str, np.dtype[np.generic] | type]:
    """The fields of one of these tuples, in order: the element type of an array, or a tuple that is part of it."""
    return {name: hint if isinstance(hint, type) else _element(hint) for name, hint in get_type_hints(kind).items()}


def _element(array: object) -> np.dtype[np.generic]:
    """The element type of npt.NDArray[element]."""
    element: np.dtype[np.generic] = np.dtype(get_args(get_args(array)[1])[0])
    return element
