"""The fuzzer itself, and a short run of it: whatever comes in, a sentence or a result comes out, never a traceback."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from simulator.graph.messages import GraphDef
from tests.fuzzing import judging, options
from tests.fuzzing.cases import GRAPH, SMALL, SORTS, Case, draw, read
from tests.fuzzing.graphs import seeds
from tests.fuzzing.judging import ACCEPTED, FAULT, REFUSED, judged, outcomes
from tests.fuzzing.texts import Chance
from viz.command.options import parser

PER_SORT = 12
# Faults that the fuzzer found stay as cases; each is refused or accepted since.
CORPUS = sorted(Path(__file__).with_name("corpus").glob("*.json"))


@pytest.mark.parametrize("sort", SORTS)
def test_no_input_brings_the_command_down(sort: str) -> None:
    cases = [draw(sort, Chance(f"test:{number}")) for number in range(PER_SORT)]
    assert [(case.arguments, found.said) for case, found in outcomes(cases) if found.verdict == FAULT] == []


def test_what_was_found_once_is_no_fault_any_more() -> None:
    cases = [read(path.read_text(encoding="utf-8")) for path in CORPUS]
    assert len(cases) > 3
    assert [(case.arguments, found.said) for case, found in outcomes(cases) if found.verdict == FAULT] == []


@pytest.mark.parametrize("sort", SORTS)
def test_a_number_gives_the_same_case_again_and_a_case_can_be_written(sort: str) -> None:
    case = draw(sort, Chance("7"))
    assert draw(sort, Chance("7")) == case == read(case.written())
    assert len({draw(sort, Chance(str(number))).written() for number in range(30)}) > 10


def test_the_seeds_are_good_graphs() -> None:
    cases = [Case("seed", ("input",), {"input": raw}) for raw in (*seeds()["graph"], *seeds()["saved model"])]
    assert [found.verdict for _, found in outcomes(cases)] == [ACCEPTED] * len(cases)


def call(*arguments: str) -> Case:
    return Case("call", (GRAPH, *arguments), {GRAPH: SMALL})


def test_a_case_is_accepted_refused_or_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert judged(call()).verdict == ACCEPTED
    found = judged(call("--cluster", "99999999gpu"))
    assert (found.verdict, found.kind[:40]) == (REFUSED, "refused: _ in the cluster _ makes more t")
    for broken, said in ((ValueError("told"), "ValueError in"), (MemoryError(), "too large for this machine")):
        monkeypatch.setattr("viz.command.running.run", raising(broken))
        assert judged(call()).verdict == FAULT
        assert said in judged(call()).said


def raising(error: BaseException) -> object:
    def run(*_: object) -> None:
        raise error

    return run


@pytest.mark.parametrize(
    ("way", "said"),
    [("dies", "the process died of code 3"), ("hangs", "more than 2 s"), ("takes", f"{GRAPH}: too large for this")],
)
def test_a_child_that_is_lost_is_a_fault_and_the_next_case_has_another_child(
    way: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # nothing may be left there

    def work(*_: object) -> object:
        if way == "dies":
            os._exit(3)
        time.sleep(600 if way == "hangs" else 0)
        return bytearray(2 * judging.MOST_BYTES)

    with monkeypatch.context() as broken:
        broken.setattr("viz.command.running.run", work)
        ((_, found),) = outcomes([call()], most_seconds=2 if way == "hangs" else 60)
    ((_, after),) = outcomes([call()], most_seconds=60)
    assert (found.verdict, after.verdict) == (FAULT, ACCEPTED)
    assert found.said.startswith(said)
    assert found.said.endswith(" in work") == (way == "hangs")
    assert not list(tmp_path.iterdir())


def test_messages_are_changed_and_stay_messages() -> None:
    raw = seeds()["graph"][0]
    made = {SORTS["GraphDef, binary"](Chance(str(number))) for number in range(30)}
    assert len(made) > 25
    assert GraphDef.FromString(raw).node


def test_the_grammar_knows_every_option() -> None:
    known = {name for action in parser()._actions for name in action.option_strings if name.startswith("--")}
    drawn = {*options.EVERY, *options.STEP, *options.TRAINING}
    assert known - drawn == {"--help", "--version", "--warm-up", "--calibrate"}  # which take no other options
    assert drawn <= known
