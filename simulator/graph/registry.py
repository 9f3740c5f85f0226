"""TensorFlow's op and kernel registries of one release, read from a data file in this package.

The file is gzipped text: a line of JSON with the provenance, then one line per op, `name TAB json`. A line is parsed at
the first question about its op. `python -m simulator.oracle.registries` writes it from an installed TensorFlow.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TypeAlias

from simulator.graph.messages import OpDef

Plain: TypeAlias = bool | int | float | str | tuple["Plain", ...] | None  # an attribute's value in Python's own types

TENSORFLOW = "2.21"  # the release whose data file is read
_DEVICE_TYPES = {"C": "CPU", "G": "GPU", "D": "DEFAULT"}


@dataclass(frozen=True, slots=True)
class Argument:
    """An input or output argument of an op or function: one tensor, `number` equal ones, or a list of types.

    Exactly one of `dtype` (fixed), `type_attr` and `list_attr` is given; `number_attr` may go with the first two.
    """

    name: str
    dtype: int = 0
    type_attr: str = ""
    number_attr: str = ""
    list_attr: str = ""
    is_ref: bool = False


@dataclass(frozen=True, slots=True)
class Kernel:
    """One registration of a kernel: its device type, constraints, and arguments in host memory."""

    device_type: str  # CPU, GPU or DEFAULT (any type that has no registration of its own that matches)
    label: str
    priority: int
    host_memory: frozenset[str]  # argument names
    constraints: tuple[tuple[str, frozenset[Plain]], ...]  # attribute name -> the values that it may have


@dataclass(frozen=True, slots=True, eq=False)
class OpFacts:
    """The registries' facts of one op, or a library function's signature in the same form, without kernels."""

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    attrs: Mapping[str, str]  # attribute name -> its kind: "type", "int", "list(type)", "func", ...
    defaults: Mapping[str, Plain]
    stateful: bool
    kernels: tuple[Kernel, ...]
    host_variant: str = ""  # "*": its variants live on the host; or the attribute that makes them if it is a string


class _Message(Protocol):
    def SerializeToString(self) -> bytes:
        """The message's bytes."""


class FunctionMessage(Protocol):
    """The part of a FunctionDef that is read here."""

    @property
    def signature(self) -> _Message:
        """OpDef: the function's name, arguments, results and attributes."""


def file_of(version: str) -> Path:
    """The data file of a TensorFlow release; "2.21" and "2.21.1" share one."""
    return Path(__file__).with_name(f"registry_{'.'.join(version.split('.')[:2])}.gz")


@lru_cache(maxsize=1)
def _lines() -> tuple[str, Mapping[str, str]]:
    first, *rest = gzip.decompress(file_of(TENSORFLOW).read_bytes()).decode().splitlines()
    return first, dict(line.split("\t", 1) for line in rest)


def names() -> tuple[str, ...]:
    """Every op of the registry, sorted."""
    return tuple(_lines()[1])


@lru_cache(maxsize=4096)
def facts(op: str) -> OpFacts | None:
    """The registries' facts of an op; None for an op that TensorFlow does not register (a function, a custom op)."""
    line = _lines()[1].get(op)
    if line is None:
        return None
    written = json.loads(line)
    return OpFacts(
        name=op,
        inputs=tuple(Argument(*argument) for argument in written["i"]),
        outputs=tuple(Argument(*argument) for argument in written["o"]),
        attrs=written["a"],
        defaults={name: _plain(value) for name, value in written["d"].items()},
        stateful=bool(written["s"]),
        kernels=tuple(_kernel(kernel) for kernel in written["k"]),
        host_variant=written["h"],
    )


def registered(op: str) -> OpFacts:
    """The facts of an op that is known to be registered."""
    found = facts(op)
    assert found is not None, op
    return found


def signature(function: FunctionMessage) -> OpFacts:
    """A library function's signature in the form of an op's facts; cached by its bytes."""
    return _signature(function.signature.SerializeToString())


@lru_cache(maxsize=4096)
def _signature(raw: bytes) -> OpFacts:
    given = OpDef.FromString(raw)
    inputs, outputs = (
        tuple(
            Argument(arg.name, arg.type, arg.type_attr, arg.number_attr, arg.type_list_attr, arg.is_ref)
            for arg in arguments
        )
        for arguments in (given.input_arg, given.output_arg)
    )
    kinds = {attr.name: attr.type for attr in given.attr}
    return OpFacts(given.name, inputs, outputs, kinds, {}, given.is_stateful, ())


def _kernel(written: Sequence[object]) -> Kernel:
    device, label, priority, host, constraints = written
    return Kernel(
        _DEVICE_TYPES[str(device)],
        str(label),
        int(str(priority)),
        frozenset(host),  # type: ignore[call-overload]  # a list of names, as the writer made it
        tuple((name, frozenset(allowed)) for name, allowed in constraints),  # type: ignore[attr-defined]  # likewise
    )


def _plain(value: object) -> Plain:
    if isinstance(value, list):
        return tuple(_plain(item) for item in value)
    return value  # type: ignore[return-value]  # JSON holds nothing else
