"""Every tricky point is held by something that is there."""

from __future__ import annotations

from importlib import import_module

from tests.checklist import ELSEWHERE, HELD
from tests.partitioning import rules as cut
from tests.placement import rules as placer
from tests.test_sections import unknown

CASES = {
    "placer": {name.removesuffix("-soft").removesuffix("-hard") for name in placer.CASES},
    "cut": set(cut.CASES),
}


def is_there(holder: str) -> bool:
    if "::" in holder:
        file, _, name = holder.partition("::")
        return callable(getattr(import_module(file.removesuffix(".py").replace("/", ".")), name, None))
    sort, _, name = holder.partition(": ")
    return name in CASES[sort]


def test_what_holds_a_point_is_there() -> None:
    assert all(HELD.values())
    assert [holder for holders in HELD.values() for holder in holders if not is_there(holder)] == []


def test_what_is_not_there_is_noticed() -> None:
    nothing = ("cut: nothing", "placer: nothing", "tests/test_checklist.py::test_nothing")
    assert not any(map(is_there, nothing))
    assert is_there("tests/test_checklist.py::test_what_is_not_there_is_noticed")


def test_no_point_is_left_out() -> None:
    assert {number for number, _, _ in HELD} | ELSEWHERE == set(range(1, 28))
    assert not {number for number, _, _ in HELD} & ELSEWHERE


def test_every_case_of_the_cut_holds_a_point() -> None:
    assert CASES["cut"] - {holder.removeprefix("cut: ") for holders in HELD.values() for holder in holders} == set()


def test_every_point_cites_a_section_that_is_there() -> None:
    assert unknown({point: f"§{section}" for _, point, section in HELD}) == []
