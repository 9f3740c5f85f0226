"""What is translated does what Python does, and what can't be translated is refused where it stands."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simulator.columns import Flags, Ids, Ints
from simulator.execution.choosing import CompiledSources
from simulator.execution.compiled.kernel import Parameter, made
from simulator.execution.compiled.translation import INT, Array, Module

ROOT = Path(__file__).parents[2]
NUMBERS = st.integers(-(2**31), 2**31 - 1)
FACTOR, EVEN = 3, True
TRIED = (Parameter(INT), Parameter(INT), Parameter(Array("int64", 1), (Array,)))


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMVIZ_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def compiled(function: Callable[..., None], *types: Parameter) -> Callable[..., None]:
    return made(function, types, CompiledSources("A test", 1, "", function.__name__, ()))


# --- functions that are run twice ------------------------------------------------------------------------------------


def arithmetic(one: int, other: int, found: Ints) -> None:
    divisor = other if other != 0 else 1
    found[0], found[1], found[2] = one + other, one - other, one * other
    found[3], found[4] = one // divisor, one % divisor
    found[5], found[6], found[7] = one & other, one | other, one ^ other
    found[8], found[9], found[10] = one << 3, one >> 2, -one
    found[11], found[12], found[13] = ~one, min(one, other, 5), max(one, other, -5)
    found[14] = one // 7 * FACTOR + one % -7
    found[15] = (one < other) + (one <= other) + (one == other) * 2 + (one != other) * 4 + (one > other)
    found[16] = float(one) * 0.5 < float(other) + 1.25
    found[17] = int(one > 0) - int(bool(other))


def decisions(one: int, other: int, found: Ints) -> None:
    flag = one > other
    found[0] = 1 if (flag and other > 0) or (not flag and one % 2 == 0) else 2
    found[1] = -5 < one <= other < 2000
    found[2] = one in (1, 2, other) and (flag or one > 3)
    flag |= other > 100
    found[3] = flag
    if EVEN:
        found[4] = 1
    else:
        found[4] = nothing_of_this_name  # type: ignore[name-defined]  # noqa: F821
    if one > 10:
        if other > 10:
            found[5] = 1
        elif other > 5:
            found[5] = 2
        else:
            return
    found[6] = 3
    known: int = 1
    known += one
    found[7] = known


def loops(one: int, other: int, found: Ints) -> None:
    steps = one % 20
    for at in range(steps):
        if at == other % 7:
            continue
        if at > 15:
            break
        found[0] += at
        at = 100
        found[1] += at
    for at in range(5, steps, 3):
        found[2] = 10 * found[2] + at
    for at in range(steps, other % 7 - 1, -2):
        found[8] = 10 * found[8] + at
    left = steps
    while True:
        left -= 1
        if left < 0:
            break
        if left % 2:
            continue
        found[3] += left
    while left < 3 and found[4] < 10:
        left += 1
        found[4] += left
    for number in (one, other, 7):
        if number < 0:
            continue
        found[5] += number
        if number > 1000:
            break
    found[6] = at if steps > 0 else -1


def swaps(one: int, other: int, found: Ints) -> None:
    one, other = other, one
    found[0], found[1] = one, other
    at = 2
    found[at], at = 5, 3
    found[at] += 7
    found[at] -= one
    first = last = 9
    found[first], found[8] = last, pair(one, other)[1]
    low, (high, _) = 4, pair(other, one)
    found[low] = high


def pair(one: int, other: int) -> tuple[int, int]:
    if one < 0:
        return other, 1
    return one - other, one + other


FUNCTIONS = [arithmetic, decisions, loops, swaps]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_numbers_are_those_of_python(function: Callable[..., None]) -> None:
    machine = compiled(function, *TRIED)

    @settings(deadline=None, max_examples=40)
    @given(NUMBERS, NUMBERS)
    @example(-7, 2)
    @example(7, -2)
    @example(12, 7)
    def alike(one: int, other: int) -> None:
        ours, theirs = np.zeros(20, np.int64), [0] * 20
        machine(one, other, ours)
        function(one, other, theirs)
        assert ours.tolist() == theirs

    alike()


def narrow(ids: Ids, flags: Flags, ints: Ints) -> None:
    for at in range(len(ids)):
        ints[at] += ids[at] - 1
        ids[at] = ints[at] + flags[at]
        flags[at] = not flags[at] or ids[at] > 3
        flags[at] |= ints[at] == 0


@settings(deadline=None, max_examples=35)
@given(st.lists(st.tuples(NUMBERS, st.booleans(), st.integers(-(2**30), 2**30)), max_size=6))
def test_arrays_of_any_element_are_read_and_written(rows: list[tuple[int, bool, int]]) -> None:
    rows = [(one // 2, flag, other) for one, flag, other in rows]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    arrays = [np.array(columns[0], np.int32), np.array(columns[1], np.bool_), np.array(columns[2], np.int64)]
    machine = compiled(narrow, *(Parameter(Array(array.dtype.name, 1), (Array,)) for array in arrays))
    machine(*arrays)
    narrow(*columns)  # type: ignore[arg-type]  # lists in the place of arrays
    assert [array.tolist() for array in arrays] == columns


# --- what is refused -------------------------------------------------------------------------------------------------


def module_of(text: str, path: Path) -> ModuleType:
    file = path / "given.py"
    file.write_text(text)
    made = ModuleType("given")
    exec(compile(text, file, "exec"), made.__dict__)
    return made


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("x = 1\nx = 1.5", "can't be int"),
        ("x = 1 or 2", "of flags alone"),
        ("for x in [1, 2]:\n    pass", "a loop goes over"),
        ("while 1:\n    break\nelse:\n    pass", "no else"),
        ("for x in range(0, len(given), len(given)):\n    pass", "the step of a range is a constant"),
        ("for x in range(0, len(given), 0):\n    pass", "the step of a range is a constant"),
        ("x = {}", "Dict is not translated"),
        ("given[0] = nowhere(1)", "no function of Python"),
        ("given[0] = max(given[0], key=1)", "an argument has a name"),
        ("given[0] = 1 / 2", "is not translated|Div"),
        ("given.name = 1", "Attribute is not translated"),
        ("x = given.name", "has no name"),
        ("try:\n    pass\nfinally:\n    pass", "Try is not translated"),
        ("f(given)", "calls itself"),
        ("return 1\nreturn given", "can't be int"),
    ],
)
def test_what_is_not_translated_is_refused_with_its_line(lines: str, why: str, tmp_path: Path) -> None:
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    function = module_of(f"def f(given):\n{body}", tmp_path).f
    with pytest.raises((TypeError, KeyError), match=why):
        Module(function, [Array("int64", 1)])


# --- checks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("given[3] = 1", "3: index"),
        ("given[given[0] - 1] = 1", "3: index"),
        ("given[0] = 1 // given[0]", "3: divisor"),
        ("given[0] = (given[0] + 2**62) * 2", "3: size"),
        ("given[0] = 1", ""),
    ],
)
def test_a_module_with_checks_ends_the_process_at_a_fault(line: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "faulty.py").write_text(f"\ndef f(given):\n    {line}\n")
    code = (
        "import numpy, faulty\n"
        "from simulator.execution.choosing import CompiledSources\n"
        "from simulator.execution.compiled.kernel import Parameter, made\n"
        "from simulator.execution.compiled.translation import Array\n"
        "given = [Parameter(Array('int64', 1), (Array,))]\n"
        "made(faulty.f, given, CompiledSources('A test', 1, '', 'f', ()))(numpy.zeros(3, numpy.int64))\n"
    )
    told = run(code, tmp_path)
    assert (told.returncode, f"faulty.py:{fault}" in told.stderr) == ((70, True) if fault else (0, False))


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": f"{ROOT}:{folder}", "SIMVIZ_CHECKS": "1", "PATH": ""}
    command: Sequence[Any] = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
