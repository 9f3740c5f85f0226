"""The file of an observed step: what is written is read, and whatever else is given is refused in one sentence."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import GraphError
from simulator.observed import form
from simulator.observed.form import MAX_RANK, dump, read_observed
from simulator.observed.observed_step import MAX_NS, ObservedNode, ObservedStep, SeenShape

shapes = st.lists(st.integers(0, 2**40), max_size=MAX_RANK).map(tuple)
outputs = st.dictionaries(st.integers(0, 9), st.builds(SeenShape, st.just(1), shapes).map(lambda one: (one,)))
nodes = st.builds(
    ObservedNode, st.text(), st.integers(1, MAX_NS), st.integers(-1, MAX_NS), st.integers(0, 2**50), outputs
)
steps = st.builds(
    ObservedStep,
    graph=st.text(),
    tensorflow=st.text(),
    machine=st.text(),
    digest=st.text(),
    feeds=st.dictionaries(st.text(), shapes, max_size=3),
    fetches=st.lists(st.text()).map(tuple),
    synthetic=st.lists(st.text()).map(tuple),
    step_ns=st.integers(0, MAX_NS),
    traced_ns=st.integers(0, MAX_NS),
    nodes=st.dictionaries(st.text(), nodes, max_size=5),
)
SMALL = ObservedStep(
    graph="g.pb",
    tensorflow="2.21.0",
    machine="a processor",
    digest="d",
    feeds={"x:0": (2, 3)},
    fetches=("y:0",),
    synthetic=(),
    step_ns=10,
    traced_ns=20,
    nodes={"y": ObservedNode("Exp", 2, 5, 0, {0: (SeenShape(2, (2, 3)),)})},
)


@given(steps)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, step: ObservedStep) -> None:
    path = tmp_path_factory.getbasetemp() / "a.observed"
    path.write_bytes(dump(step))
    again = read_observed(path)
    assert (again.feeds, again.nodes, again.fetches, again.digest) == (
        step.feeds,
        step.nodes,
        step.fetches,
        step.digest,
    )
    assert dump(again) == dump(step)


def written(path: Path, **changed: Any) -> Path:
    facts = {**json.loads(gzip.decompress(dump(SMALL))), **changed}
    path.write_bytes(gzip.compress(json.dumps(facts).encode()))
    return path


@pytest.mark.parametrize(
    "changed",
    [
        {"nodes": None},
        {"nodes": {"y": ["Exp", 2, 5, 0]}},
        {"nodes": {"y": ["Exp", 2, -2, 0, []]}},
        {"nodes": {"y": ["Exp", 2, 2**60, 0, []]}},
        {"nodes": {"y": ["Exp", 2, 1.5, 0, []]}},
        {"nodes": {"y": ["Exp", True, 5, 0, []]}},
        {"nodes": {"y": ["Exp", 1, 5, 0, [[0, [[2, [3]]]]]]}},
        {"nodes": {"y": ["Exp", 1, 5, 0, [[0, []]]]}},
        {"nodes": {"y": ["Exp", 1, 5, 0, [[0, [[1, [-1]]]]]]}},
        {"nodes": {"y": ["Exp", 1, 5, 0, [[0, [[1, [1] * 255]]]]]}},
        {"feeds": {"x:0": "2,3"}},
        {"fetches": "y:0"},
        {"step_ns": "10"},
        {"digest": 3},
        {"graph": ["g"]},
    ],
)
def test_a_value_that_is_none_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(GraphError, match="is no observed step, or a damaged one") as caught:
        read_observed(written(tmp_path / "a.observed", **changed))
    assert "\n" not in str(caught.value)


def test_another_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="of form 2, and 1 is read here"):
        read_observed(written(tmp_path / "a.observed", form=2))


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\x1f\x8b", gzip.compress(b"[1]", mtime=0), gzip.compress(b"[" * 10**5, mtime=0)]
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.observed"
    path.write_bytes(content)
    with pytest.raises(GraphError, match="is no observed step, or a damaged one"):
        read_observed(path)


@given(st.data())
def test_a_truncated_or_changed_file_is_refused_or_read(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    path, whole = tmp_path_factory.getbasetemp() / "b.observed", dump(SMALL)
    cut = data.draw(st.integers(0, len(whole) - 1))
    path.write_bytes(data.draw(st.sampled_from([whole[:cut], whole[:cut] + b"\0" + whole[cut + 1 :]])))
    with suppress(GraphError):
        assert dump(read_observed(path)) == whole


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form, "MAX_BYTES", 1000)
    path = tmp_path / "a.observed"
    path.write_bytes(gzip.compress(b" " * 2000))
    with pytest.raises(GraphError, match="unpacks to more than"):
        read_observed(path)


@pytest.mark.parametrize("name", ["nowhere.observed", "a\0b", "."])
def test_a_file_that_cannot_be_read_says_so(name: str) -> None:
    with pytest.raises(GraphError, match="cannot be read"):
        read_observed(name)
