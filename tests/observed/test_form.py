"""The file of an observed step: what is written is read, and whatever else is given is refused in one sentence."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.costs.table import MAX_OP_NS
from simulator.errors import ClusterError
from simulator.graph.tensors import MAX_RANK
from simulator.limits import raised
from simulator.observed.form import dump, read_observed
from simulator.observed.observed_step import ObservedNode, ObservedStep, SeenShape
from simulator.units import DAY_NS

words = st.text(st.characters(categories=("L", "N", "P", "S")), max_size=40)
names = st.text(st.characters(codec="utf-8"))  # half a character is no name
shapes = st.lists(st.integers(0, 2**55), max_size=MAX_RANK).filter(lambda sides: prod(sides) <= 2**55).map(tuple)
outputs = st.dictionaries(st.integers(0, 9), st.builds(SeenShape, st.just(1), shapes).map(lambda one: (one,)))
nodes = st.builds(
    ObservedNode, names, st.integers(1, MAX_OP_NS), st.integers(-1, DAY_NS), st.integers(0, 2**50), outputs
)


def measured(found: Mapping[str, ObservedNode]) -> bool:
    """Whether some op takes time, or none has one."""
    return any(one.ns > 0 for one in found.values()) or all(one.ns < 0 for one in found.values())


steps = st.builds(
    ObservedStep,
    graph=names,
    tensorflow=words,
    machine=words,
    digest=words,
    feeds=st.dictionaries(names, shapes, max_size=3),
    fetches=st.lists(names).map(tuple),
    synthetic=st.lists(names).map(tuple),
    step_ns=st.just(0) | st.integers(1000, DAY_NS),
    traced_ns=st.integers(1000, DAY_NS),
    nodes=st.dictionaries(names, nodes, max_size=5).filter(measured),
)
SMALL = ObservedStep(
    graph="g.pb",
    tensorflow="2.21.0",
    machine="a processor",
    digest="d",
    feeds={"x:0": (2, 3)},
    fetches=("y:0",),
    synthetic=(),
    step_ns=10_000,
    traced_ns=20_000,
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
        {"step_ns": "10000"},
        {"digest": 3},
        {"graph": ["g"]},
        {"nodes": {"y": ["Exp", 2, 2 * DAY_NS, 0, []]}},
        {"nodes": {"y": ["Exp", 2, 0, 0, []]}},
        {"nodes": {"y": ["Exp", 2, 5, 0, [[0, [[1, [3]]]], [0, [[1, [4]]]]]]}},
        {"nodes": {"y": ["Exp", 1, 5, 0, [[0, [[1, [2**40, 2**40]]]]]]}},
        {"step_ns": 1},
        {"step_ns": DAY_NS + 1},
        {"traced_ns": 0},
        {"machine": "a\nb"},
        {"machine": "\ud800"},
        {"machine": "m" * 10**6},
        {"tensorflow": "\x1b[31m"},
    ],
)
def test_a_value_that_is_none_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(ClusterError, match="is no observed step, or a damaged one") as caught:
        read_observed(written(tmp_path / "a.observed", **changed))
    assert "\n" not in str(caught.value)


def test_another_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="of form 2, and 1 is read here"):
        read_observed(written(tmp_path / "a.observed", form=2))
    for other in (True, [1] * 1000):
        with pytest.raises(ClusterError, match="and 1 is read here") as caught:
            read_observed(written(tmp_path / "a.observed", form=other))
        assert len(str(caught.value)) < len(str(tmp_path)) + 150


def test_what_follows_the_end_and_what_is_said_twice_are_refused(tmp_path: Path) -> None:
    path, whole = tmp_path / "a.observed", dump(SMALL)
    twice = gzip.decompress(whole).replace(b'"form": 1', b'"form": 1, "form": 1')
    for content, said in (
        (whole + whole, "goes on where its content has ended"),
        (gzip.compress(twice), "'form' twice"),
    ):
        path.write_bytes(content)
        with pytest.raises(ClusterError, match=said):
            read_observed(path)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\x1f\x8b", gzip.compress(b"[1]", mtime=0), gzip.compress(b"[" * 10**5, mtime=0)]
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.observed"
    path.write_bytes(content)
    with pytest.raises(ClusterError, match="is no observed step, or a damaged one"):
        read_observed(path)


@given(st.data())
def test_a_truncated_or_changed_file_is_refused_or_read(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    path, whole = tmp_path_factory.getbasetemp() / "b.observed", dump(SMALL)
    cut = data.draw(st.integers(0, len(whole) - 1))
    path.write_bytes(data.draw(st.sampled_from([whole[:cut], whole[:cut] + b"\0" + whole[cut + 1 :]])))
    with suppress(ClusterError):
        assert dump(read_observed(path)) == whole


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.observed"
    path.write_bytes(gzip.compress(b" " * 2000))
    with raised({"observed-bytes": 1000}), pytest.raises(ClusterError, match="unfolds to more than"):
        read_observed(path)
    with raised({"observed-bytes": 100}), pytest.raises(ClusterError, match="--limit observed-bytes=N takes more"):
        read_observed(path)


@pytest.mark.parametrize(
    ("name", "said"),
    [("nowhere.observed", "no such file"), ("a\0b", "cannot be read"), (".", "is a folder"), ("", "is empty")],
)
def test_a_file_that_cannot_be_read_says_so(name: str, said: str) -> None:
    with pytest.raises(ClusterError, match=said):
        read_observed(name)
