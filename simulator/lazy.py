"""Lazy exports: the public names of a package, each loaded at its first use, so that the import is quick.

The arguments of a public function are looked at; within the house its module has it as it is.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as in `typing`, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


# Functions that draw values in a notebook, given a value and its run or None, as HTML; the last one counts.
# `simulator.notebook` explains it. The list is here so that a package can add to it without loading anything else.
drawers: list[Callable[[object, object], str]] = []


def exported(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's `__getattr__` and `__dir__` (PEP 562), given the module of each name; Any: the export's type."""

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module  # only now, like all that this module needs
        from types import FunctionType

        found = getattr(import_module(names[name]), name)
        if isinstance(found, FunctionType):
            from simulator.arguments import checked

            found = checked(found, f"{package}.{name}")
        setattr(sys.modules[package], name, found)  # so that each use finds the same one
        return found

    def listed() -> list[str]:
        return sorted([*vars(sys.modules[package]), *names])

    return get, listed
