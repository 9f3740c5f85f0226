import importlib.util
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simulator.comparison.comparison import Mismatch
from simulator.errors import OracleError
from simulator.graph.dtypes import INT64
from simulator.graph.importer import read_graph
from simulator.graph.messages import AttrValue
from simulator.oracle import child, inference
from simulator.shapes.filling import with_shapes
from tests.oracle.staying import staying
from tests.strategies import Rows, shape_attr, type_attr, typed

pytestmark = pytest.mark.tensorflow


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(child, "run", lambda module, question, timeout_s: staying(module)(question, timeout_s))
    return tmp_path / "simviz" / "shapes"


def product(open_batch: Any = -1, columns: int = 8) -> Any:
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", (open_batch, columns)))
    made.add("w", "Placeholder", **typed("Placeholder", (8, 3)))
    made.add("y", "MatMul", ["x", "w"], **typed("MatMul", None))
    made.add("z", "Neg", ["y:0"], **typed("Neg", None))
    return made.built(producer=1882)


FEEDS = {"x:0": (5, 8), "w:0": (8, 3)}


def test_shapes_follow_from_what_is_fed() -> None:
    assert inference.infer(product(), FEEDS) == [(5, 8), (8, 3), (5, 3), (5, 3)]


def test_strings_may_be_fed() -> None:
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(7))
    made.add("y", "Identity", ["x"], T=type_attr(7))
    assert inference.infer(made.built(producer=1882), {"x:0": (5,)}) == [(5,), (5,)]


def test_the_file_s_own_shapes_are_not_believed() -> None:
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", (9, 9)))
    made.add("y", "Neg", ["x"], **typed("Neg", (7, 7)))
    assert inference.infer(made.built(producer=1882), {"x:0": (2,)}) == [(2,), (2,)]


def test_loops_and_queues_are_seen_through() -> None:
    """A loop's shapes need a second pass, what a queue hands out is what somebody puts in."""
    graph = read_graph(child.run("tests.oracle.looping", b"", timeout_s=120))
    got = inference.infer(graph, {"x:0": (4, 8)})
    named = {graph.tensor_name(row): shape for row, shape in enumerate(got)}
    assert named["taken:0"] == (3, 7)
    assert named["looped:0"] == (2, 16)


def test_a_graph_that_grappler_refuses_keeps_what_the_import_infers() -> None:
    """Each of its nodes is read, so Grappler finds nothing to fetch."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(-1, 3))
    made.add("enter", "Enter", ["x"], T=type_attr(), frame_name=AttrValue(s=b"while"))
    made.add("merge", "Merge", ["enter", "next"], N=AttrValue(i=2), T=type_attr())
    made.add("next", "NextIteration", ["merge"], T=type_attr())
    assert inference.infer(made.built(), {}) == [(-1, 3), None, None, (), None]


def test_an_answer_is_kept_and_used_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = inference.infer(product(), FEEDS)
    assert len(list(cache.glob("*.json"))) == 1
    monkeypatch.setattr(child, "run", no_child)
    assert inference.infer(product(), FEEDS) == first


def no_child(*_: Any, **__: Any) -> None:
    raise AssertionError("nobody was to be asked")


DAMAGED = [b"", b"{", b"[]", b'[["x"],[],[],[]]', b"[[[1.5]],[],[],[]]", b"\xff\xfe", b"[1,2,3,4]"]


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_answer_is_asked_for_again(cache: Path, monkeypatch: pytest.MonkeyPatch, damage: Any) -> None:
    listed = json.dumps([[[5, 8]], [[8, 3]], [[5, 3]], [[5, 3]]]).encode()
    monkeypatch.setattr(child, "run", lambda *_, **__: listed)
    first = inference.infer(product(), FEEDS)
    (file,) = cache.glob("*.json")
    file.write_bytes(damage)
    assert inference.infer(product(), FEEDS) == first
    assert file.read_bytes() == listed


def test_other_feeds_are_another_question(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "run", lambda *_, **__: b"[[],[],[],[]]")
    inference.infer(product(), FEEDS)
    inference.infer(product(), {**FEEDS, "x:0": (6, 8)})
    assert len(list(cache.glob("*.json"))) == 2


def test_only_the_latest_answers_are_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "run", lambda *_, **__: b"[[],[],[],[]]")
    monkeypatch.setattr(inference, "_KEPT_FILES", 3)
    for batch in range(1, 8):
        inference.infer(product(), {"x:0": (batch, 8)})
        for age, file in enumerate(sorted(cache.glob("*.json"))):
            os.utime(file, (age, age))
    assert len(list(cache.iterdir())) == 3


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(child, "run", lambda *_, **__: b"[[],[],[],[]]")
    assert inference.infer(product(), {}) == [None] * 4


def test_an_unknown_op_is_told_in_tensorflow_s_words() -> None:
    made = Rows()
    made.add("x", "NoSuchOp")
    with pytest.raises(OracleError, match="NoSuchOp") as caught:
        inference.infer(made.built(), {})
    assert "NoSuchOp" in (caught.value.refusal or "")


def test_a_feed_that_does_not_fit_is_refused() -> None:
    with pytest.raises(OracleError, match="Dimensions must be equal"):
        inference.infer(product(), {"x:0": (5, 9), "w:0": (8, 3)})


def test_our_shapes_are_compared_with_those_that_tensorflow_infers() -> None:
    graph = with_shapes(product(), feeds=FEEDS)
    found, refused = inference.compare_shapes(graph)
    assert (found.agree, found.of, refused) == (4, 4, None)
    shapes = list(graph.tensor_shape)
    shapes[2] = (5, 4)
    found, _ = inference.compare_shapes(replace(graph, tensor_shape=tuple(shapes)))
    assert (found.agree, found.of) == (3, 4)
    assert found.differences == (Mismatch("y", "[5,4]", "[5,3]", "shape of output 0"),)


def test_what_tensorflow_infers_wrongly_is_not_compared() -> None:
    """The kernel of a fractional pool makes one border more than it infers; a correct graph failed the check."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(2, 32, 32, 3))
    ratio = AttrValue(list={"f": [1, 1.5, 2, 1]})
    made.add("pool", "FractionalAvgPool", ["x"], T=type_attr(), pooling_ratio=ratio)
    made.add("borders", "Identity", ["pool:1"], T=type_attr(INT64))
    graph = with_shapes(made.built())
    assert inference.infer(graph, {})[2:] == [(21,), (16,), (21,)]
    assert graph.tensor_shape[2:] == ((22,), (17,), (22,))
    found, _ = inference.compare_shapes(graph)
    assert (found.agree, found.of, found.differences) == (2, 2, ())


def test_the_shapes_of_a_graph_that_tensorflow_refuses_are_not_compared() -> None:
    found, refused = inference.compare_shapes(with_shapes(product(columns=9)))
    assert found.of == 0
    assert "Dimensions must be equal" in (refused or "")


def test_without_tensorflow_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OracleError, match=r"simviz\[tensorflow\]"):
        inference.infer(product(), FEEDS)
