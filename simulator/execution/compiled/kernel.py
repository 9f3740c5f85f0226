"""The one door to LLVM: how functions are compiled, where the result is kept, and how it is called.

`translation` makes LLVM's text of a function and of all that it calls. LLVM makes machine code of it, which is kept in
a file for later runs (`choosing`). The file is named by a digest of all sources, and begins with a digest of its own.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt

from simulator.aside import aside
from simulator.execution.choosing import CompiledSources, file_name, folders
from simulator.execution.compiled.translation import (
    ELEMENTS,
    ENTRY,
    Array,
    Module,
    Table,
    Type,
    column_types,
    registers,
)
from simulator.execution.event_queue import OVER_ARRAYS
from simulator.files import replace_file

_HEAD = 32  # bytes of a digest
_DTYPES = {name: np.dtype(name) for name in ELEMENTS}  # their names take long to find out
_PLACES: list[str] = []  # of checks
_LOADED: list[Any] = []  # Any: LLVM's; what is loaded stays


class Parameter(NamedTuple):
    """An argument of a compiled function."""

    type: Type  # INT, an Array or a Table
    writes: Collection[type] = ()  # kinds of tuples whose arrays are written; `Array`: the argument itself


class Compiled:
    """A compiled function of whole numbers, arrays and tuples of arrays. It runs without Python's lock."""

    def __init__(self, address: int, given: Sequence[Parameter], *, found: bool, kept: Path | None) -> None:
        """`found`: it was compiled before; `kept`: in this file."""
        self.found, self.kept, self._given = found, kept, given
        many = sum(len(registers(one.type)) for one in given)
        self._call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * many)(address)

    def __call__(self, *values: Any) -> None:  # Any: they are checked
        """Run it. Raises TypeError for what is not as it is declared."""
        self.partial(*values)()

    def partial(self, *values: Any) -> Callable[..., None]:  # Any: they are checked
        """The function with its first arguments given, whose addresses are found now; it keeps them alive."""
        return partial(self._run, len(values), *_numbers(self._given[: len(values)], values))

    def _run(self, known: int, numbers: Sequence[int], _kept: object, *others: Any) -> None:  # Any: as above
        more, _others = _numbers(self._given[known:], others)
        self._call(*numbers, *more)


def _numbers(given: Sequence[Parameter], values: Sequence[Any]) -> tuple[list[int], list[Any]]:  # Any: they are checked
    """Numbers that are handed over for these arguments, and objects that have to live as long as these are used."""
    numbers: list[int] = []
    kept: list[Any] = []
    for (kind, writes), value in zip(given, values, strict=True):
        kept.append(value)
        if isinstance(kind, Table):
            table = np.array([*_table_words(value, kind.kind, writes)], np.int64)
            kept[-1] = (value, table)
            numbers.append(_address(table))
        elif isinstance(kind, Array):
            numbers += _words(value, kind, "An argument", written=Array in writes)
        elif -(2**63) <= value < 2**63:
            numbers.append(int(value))
        else:
            raise TypeError(f"64 bits do not hold {value}.")
    return numbers, kept


def _table_words(value: Any, kind: Any, writes: Collection[type]) -> Iterator[int]:  # Any: it is checked
    """The table of a tuple of arrays, declared as in `execution.arrays`: of each in order its address and lengths.

    It holds as long as the arrays do. Arrays of tuples of the kinds `writes` are written. Raises TypeError for another
    tuple, another type of elements, memory with gaps, and for what is read-only but written.
    """
    types, written = column_types(kind), kind in writes
    if type(value) is not kind:
        raise TypeError(f"{type(value).__name__} stands in the place of a {kind.__name__}.")
    for (name, wanted), array in zip(types.items(), value, strict=True):
        if isinstance(wanted, Table):
            yield from _table_words(array, wanted.kind, writes)
        else:
            yield from _words(array, wanted, f"{kind.__name__}.{name}", written=written)


def _words(array: Any, wanted: Array, name: str, *, written: bool) -> tuple[int, ...]:
    """The address of an array, and its lengths. Errors are those of `_table_words`."""
    if not isinstance(array, np.ndarray) or array.ndim != wanted.axes or array.dtype != _DTYPES[wanted.element]:
        raise TypeError(f"{name} is no array of {wanted.element} with {wanted.axes} axes.")
    flags = array.flags
    if not flags.c_contiguous or (written and not flags.writeable):
        raise TypeError(f"{name} has gaps, or is read-only and has to be written.")
    return (_address(array), *array.shape)


def _address(array: npt.NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def made(
    function: Callable[..., None],
    given: Sequence[Parameter],
    sources: CompiledSources,
    instead: Mapping[Any, Any] = MappingProxyType({}),  # Any: functions of Python
) -> Compiled:
    """The function compiled from these sources, now or at another time; `instead`: functions that others stand for.

    Where no folder can be written every process compiles it again. With SIMVIZ_CHECKS in the environment it is compiled
    with checks and not kept. Then the process ends at the first fault, with a line that says where.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    processor, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(processor, features, opt=3, jit=True)
    checks = _COMPLAINS if os.environ.get("SIMVIZ_CHECKS") else 0
    name = file_name(sources, f"{processor}-{sha256(features.encode()).hexdigest()[:8]}")
    for path in () if checks else (folder / name for folder in folders()):
        code = _read(path)
        if code is not None:
            return Compiled(_loaded(machine, code), given, found=True, kept=path)
    types = [one.type for one in given]
    text = Module(function, types, {**OVER_ARRAYS, **instead}, checks=checks, places=_PLACES).text
    code = aside(lambda: _machine_code(machine, text))()  # so Ctrl-C is heard while LLVM works, and answered at once
    kept = next((folder / name for folder in folders() if not checks and _write(folder / name, code)), None)
    return Compiled(_loaded(machine, code), given, found=False, kept=kept)


def _machine_code(machine: Any, text: str) -> bytes:
    """Optimise LLVM's text and compile it."""
    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = False  # most lists are of two or three: it costs a tenth more
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def _loaded(machine: Any, code: bytes) -> int:
    """The address of the function in memory, where it stays."""
    library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(ENTRY)
    linker = llvm.create_lljit_compiler(machine, use_jit_link=False)
    _LOADED.append((linker, library.link(linker, ENTRY)))
    address: int = _LOADED[-1][1][ENTRY]
    return address


def _read(path: Path) -> bytes | None:
    """The machine code in a file, if it is whole."""
    try:
        text = path.read_bytes()
    except OSError:  # it is compiled anew
        return None
    code = text[_HEAD:]
    return code if sha256(code).digest() == text[:_HEAD] else None


def _write(path: Path, code: bytes) -> bool:
    """Keep machine code in a file; whether it can be written. Nobody ever sees a part of it, nor is one left."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, sha256(code).digest() + code)
    except OSError:  # the caller goes without
        return False
    return True


def _complain(place: int) -> None:
    """End the process: compiled code with checks met a fault."""
    print(f"compiled code: {_PLACES[place]}", file=sys.stderr, flush=True)
    faulthandler.dump_traceback(all_threads=True)
    os._exit(70)


_COMPLAIN = ctypes.CFUNCTYPE(None, ctypes.c_int64)(_complain)
_COMPLAINS = ctypes.cast(_COMPLAIN, ctypes.c_void_p).value or 0  # its address
