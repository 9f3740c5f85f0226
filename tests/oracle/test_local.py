from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulator.cluster.description import load_cluster
from simulator.columns import flags
from simulator.errors import OracleError
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.graph.step import Step
from simulator.oracle.dry_runs import LOCAL, dry_run
from tests.oracle.staying import ask_staying
from tests.strategies import Rows, colocation, type_attr, typed

pytestmark = pytest.mark.tensorflow
LOCALHOST = "/job:localhost/replica:0/task:0/device:CPU:"


def runs(graph: Graph, *fetches: str, feeds: tuple[str, ...] = ()) -> Step:
    """Only the names matter to TensorFlow; it finds the nodes that run by itself."""
    return Step(feeds, fetches, flags([True] * len(graph)), "by hand")


def text_attr(text: str) -> Any:
    return AttrValue(s=text.encode())


def string_const(rows: Rows, name: str, text: str) -> None:
    value = AttrValue()
    value.tensor.dtype = 7
    value.tensor.tensor_shape.SetInParent()
    value.tensor.string_val.append(text.encode())
    rows.add(name, "Const", dtype=type_attr(7), value=value)


def not_runnable(file: Path) -> Graph:
    """An unfed placeholder, a Python function that does not exist, a file to be written, and a moved device."""
    rows = Rows()
    rows.add("x", "Placeholder", **typed("Placeholder", (4,)), device="/cpu:1")
    python = AttrValue()
    python.list.type.append(1)
    rows.add("python", "PyFunc", ["x"], Tin=python, Tout=python, token=text_attr("nowhere"), device="/cpu:2")
    rows.add("beside", "Neg", ["python"], **typed("Neg", (4,)), _class=colocation("x"), device="/cpu:1")
    rows.add("after", "Identity", ["beside"], **typed("Identity", (4,)))
    string_const(rows, "name", str(file))
    rows.add("write", "WriteFile", ["name", "name", "^after"])
    return rows.built()


def test_a_graph_that_cannot_run_is_placed_and_cut_and_nothing_of_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.chdir(scratch)
    graph = not_runnable(tmp_path / "written")
    seen = dry_run(graph, load_cluster("cpu=3"), step=runs(graph, "write"))
    assert seen.oracle == LOCAL
    assert seen.refusal is None
    assert seen.tensorflow.startswith("2.")
    assert {name: device.removeprefix(LOCALHOST) for name, device in seen.placement.items()} == {
        "x": "1",
        "python": "2",
        "beside": "1",
        "after": "0",
        "name": "0",
        "write": "0",
    }
    pieces = {piece.node[0].device: {node.name for node in piece.node} for piece in seen.partitions}
    assert sorted(pieces) == [f"{LOCALHOST}{number}" for number in range(3)]
    assert {"x", "beside"} <= pieces[f"{LOCALHOST}1"]
    kinds = sorted(node.op for piece in seen.partitions for node in piece.node if node.op[1:] in ("Send", "Recv"))
    assert kinds == ["_Recv"] * 3 + ["_Send"] * 3
    assert not (tmp_path / "written").exists()
    assert list(scratch.iterdir()) == []


def test_the_log_is_in_tensorflows_order_generators_last() -> None:
    rows = Rows()
    rows.add("c", "Const", **typed("Const", (4,)))
    rows.add("v", "VariableV2", **typed("VariableV2"))
    rows.add("d", "Neg", ["c"], **typed("Neg", (4,)))
    graph = rows.built()
    assert list(dry_run(graph, load_cluster("cpu=1"), step=runs(graph, "d"), asking=ask_staying).placement) == [
        "v",
        "d",
        "c",
    ]


def test_the_device_strings_are_read_as_they_stand() -> None:
    """Python's import would give a node with `_class` the device string of the node that it names."""
    rows = Rows()
    rows.add("v", "Neg", ["c"], **typed("Neg", (4,)))
    rows.add("c", "Const", **typed("Const", (4,)))
    rows.add("w", "Neg", ["c"], **typed("Neg", (4,)), _class=colocation("v"), device="/cpu:1")
    graph = rows.built()
    seen = dry_run(graph, load_cluster("cpu=2"), step=runs(graph, "w"), asking=ask_staying)
    assert seen.placement["v"] == seen.placement["w"] == f"{LOCALHOST}1"


def test_only_what_the_step_needs_is_in_the_pieces() -> None:
    rows = Rows()
    rows.add("c", "Const", **typed("Const", (4,)))
    rows.add("fed", "Neg", ["c"], **typed("Neg", (4,)))
    rows.add("a", "Neg", ["fed"], **typed("Neg", (4,)))
    rows.add("b", "Neg", ["a"], **typed("Neg", (4,)))
    graph = rows.built()
    seen = dry_run(graph, load_cluster("cpu=1"), step=runs(graph, "a:0", feeds=("fed:0",)))
    assert sorted(seen.placement) == ["a", "b", "c", "fed"]
    assert sorted(node.op for node in seen.partitions[0].node) == ["Neg", "_Arg", "_Retval"]


def test_what_tensorflow_refuses_is_told_in_its_own_words() -> None:
    rows = Rows()
    rows.add("c", "Const", **typed("Const", (4,)), device="/job:ps/task:0")
    graph = rows.built()
    seen = dry_run(graph, load_cluster("cpu=2"), step=runs(graph, "c"), asking=ask_staying)
    assert seen.refusal is not None
    assert "Cannot assign a device for operation c" in seen.refusal
    assert (dict(seen.placement), seen.partitions) == ({}, ())


def test_what_tensorflow_does_not_import_is_told_in_its_own_words() -> None:
    rows = Rows()
    rows.add("c", "NoSuchOp")
    graph = rows.built()
    seen = dry_run(graph, load_cluster("cpu=2"), step=runs(graph, "c"), asking=ask_staying)
    assert seen.refusal is not None
    assert "NoSuchOp" in seen.refusal


def test_large_constants_do_not_travel() -> None:
    rows = Rows()
    for name, dtype in (("floats", 1), ("strings", 7), ("ints", 9)):
        value = AttrValue()
        value.tensor.dtype = dtype
        value.tensor.tensor_shape.dim.add(size=20_000)
        if dtype == 7:
            value.tensor.string_val.extend([b"abc"] * 20_000)
        else:
            value.tensor.tensor_content = b"12345678"[: 4 if dtype == 1 else 8] * 20_000
        rows.add(name, "Const", dtype=type_attr(dtype), value=value)
    rows.add("all", "NoOp", ["^floats", "^strings", "^ints"])
    graph = rows.built()
    seen = dry_run(graph, load_cluster("cpu=1"), step=runs(graph, "all"), asking=ask_staying)
    assert seen.refusal is None
    (piece,) = seen.partitions
    assert len(piece.node) == 4
    assert piece.ByteSize() < 2000


def test_hard_placement_takes_no_other_device() -> None:
    rows = Rows()
    rows.add("c", "Const", **typed("Const", (4,)))
    rows.add("d", "Neg", ["c"], **typed("Neg", (4,)))
    graph = rows.built()
    where = [f"{LOCALHOST}1", f"{LOCALHOST}7"]
    refused = dry_run(
        graph, load_cluster("cpu=2"), step=runs(graph, "d"), soft=False, devices=where, asking=ask_staying
    )
    assert refused.refusal is not None
    assert "d" not in refused.placement
    taken = dry_run(graph, load_cluster("cpu=2"), step=runs(graph, "d"), devices=where, asking=ask_staying)
    assert taken.placement == {"c": f"{LOCALHOST}1", "d": f"{LOCALHOST}0"}


def test_a_time_limit_is_kept() -> None:
    rows = Rows()
    rows.add("c", "Const", **typed("Const", (4,)))
    graph = rows.built()
    with pytest.raises(OracleError, match=r"did not answer within 0\.001 s"):
        dry_run(graph, load_cluster("cpu=2"), step=runs(graph, "c"), timeout_s=0.001)


def test_making_the_kernels_of_a_step_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # this kernel writes its file in its constructor
    monkeypatch.chdir(tmp_path)
    rows = Rows()
    rows.add("x", "Placeholder", **typed("Placeholder", (4,)))
    for name, folder in (("here", ""), ("there", str(tmp_path / "made"))):
        named = {key: text_attr("f") for key in ("file_name", "func_name", "node_name")}
        rows.add(
            name, "DumpTensor", ["x"], T=type_attr(), enabled=AttrValue(b=True), log_dir_path=text_attr(folder), **named
        )
    graph = rows.built()
    seen = dry_run(graph, load_cluster("cpu=2"), step=runs(graph, "here", "there"))
    assert (seen.refusal, set(seen.placement)) == (None, {"x", "here", "there"})
    assert list(tmp_path.iterdir()) == []
