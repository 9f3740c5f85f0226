"""Records: what TensorFlow did on the machines where they were made is what we predict, and a changed one is not."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placement import place
from simulator import choose_step, estimate, load_cluster
from simulator.cluster.master import STANDIN_CLIENT
from simulator.comparison.comparison import Comparison
from simulator.costs.measurements.reading import from_step_stats
from simulator.errors import InfeasibleError, OracleError
from simulator.graph.graph import Graph
from simulator.graph.importer import read_graph
from simulator.graph.inlining.expanding import lower
from simulator.graph.messages import AttrValue, GraphDef
from simulator.graph.purposes import first_values
from simulator.oracle import dry_runs, machine, record
from simulator.oracle.dry_runs import GPUS, LOCAL, STAND_INS, DryRun, dry_run
from simulator.oracle.machine import Machine
from simulator.oracle.record import Recording, load
from simulator.oracle.verification import differences
from tests.oracle.test_local import runs
from tests.strategies import Rows, colocation, type_attr, typed

RECORDS = Path(__file__).parents[1] / "records"
FILES = sorted(RECORDS.rglob(f"*{record.SUFFIX}"))
LOCALHOST = "/job:localhost/replica:0/task:0"
SMALL = Machine("2.21.0", None, None, None, (), "a processor", 2, ((f"{LOCALHOST}/device:CPU:0", "CPU", 2**28),))


def replayed(told: Recording) -> tuple[Comparison, Comparison, bool]:
    """Our prediction beside a recording: placement, cut, and whether the placer's log has our order."""
    graph, cluster = lower(read_graph(told.graph)), load_cluster(told.cluster)
    step = choose_step(graph, feeds=told.feeds, fetches=told.fetches)
    costs = estimate(graph, cluster)
    ours = place(graph, cluster, costs, step=step, algorithm="tensorflow", soft=told.soft)
    placed, cut = differences(graph, cluster, ours, step, told.seen)
    assert ours.log_order is not None
    return placed, cut, [graph.names[row] for row in ours.log_order] == list(told.seen.placement)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(RECORDS)))
def test_what_was_recorded_is_what_we_predict(file: Path) -> None:
    told = load(file)
    assert told.seen.oracle == (GPUS if told.machine.gpus else LOCAL)
    if told.seen.refusal is not None:
        with pytest.raises(InfeasibleError) as raised:
            replayed(told)
        assert raised.value.node is None or raised.value.node in told.seen.refusal
        return
    placed, cut, in_order = replayed(told)
    assert placed.differences == ()
    assert cut.differences == ()
    assert in_order
    assert placed.of == len(told.seen.placement) > 10
    assert cut.of == sum(len(piece.node) for piece in told.seen.partitions)


def test_there_are_records_with_and_without_cuts_and_of_refusals() -> None:
    assert len(FILES) >= 4
    assert {min(len(load(file).seen.partitions), 2) for file in FILES} == {0, 1, 2}


@pytest.fixture(scope="module")
def told() -> Recording:
    return load(RECORDS / "cpu=4" / "as_asked" / f"control_flow.meta{record.SUFFIX}")


def first(message: Any, *ops: str) -> Any:
    return next(node for piece in message for node in piece.node if node.op in ops)


def another_device(seen: DryRun) -> DryRun:
    name, device = next(iter(seen.placement.items()))
    return replace(seen, placement={**seen.placement, name: device[:-1] + str((int(device[-1]) + 1) % 4)})


def a_line_less(seen: DryRun) -> DryRun:
    return replace(seen, placement=dict(list(seen.placement.items())[1:]))


def cut_by(change: Callable[[list[Any]], object]) -> Callable[[DryRun], DryRun]:
    def changed(seen: DryRun) -> DryRun:
        pieces = [GraphDef.FromString(piece.SerializeToString()) for piece in seen.partitions]
        change(pieces)
        return replace(seen, partitions=tuple(pieces))

    return changed


def drop_a_node(pieces: list[Any]) -> None:
    del pieces[-1].node[3]


def rename_what_is_received(pieces: list[Any]) -> None:
    first(pieces, "_Recv", "_HostRecv").attr["tensor_name"].s += b"0"


def receive_elsewhere(pieces: list[Any]) -> None:
    node = first(pieces, "_Send", "_HostSend")
    node.attr["recv_device"].CopyFrom(AttrValue(s=node.attr["send_device"].s))


def move_a_node(pieces: list[Any]) -> None:
    first(pieces, "MatMul").device = f"{LOCALHOST}/device:CPU:3"


def swap_memory(pieces: list[Any]) -> None:
    first(pieces, "_Send").op = "_HostSend"


def forget_a_wait(pieces: list[Any]) -> None:
    node = next(node for piece in pieces for node in piece.node if any(name.startswith("^") for name in node.input))
    del node.input[-1]


@pytest.mark.parametrize("change", [another_device, a_line_less])
def test_a_record_with_another_placement_fails(told: Recording, change: Callable[[DryRun], DryRun]) -> None:
    placed, cut, _ = replayed(replace(told, seen=change(told.seen)))
    assert (len(placed.differences), len(cut.differences)) == (1, 0)


@pytest.mark.parametrize(
    "change",
    [drop_a_node, rename_what_is_received, receive_elsewhere, move_a_node, swap_memory, forget_a_wait],
)
def test_a_record_with_another_cut_fails(told: Recording, change: Callable[[list[Any]], None]) -> None:
    placed, cut, _ = replayed(replace(told, seen=cut_by(change)(told.seen)))
    assert placed.differences == ()
    assert cut.differences != ()
    assert cut.agree < cut.of


def test_a_record_with_another_order_of_the_log_fails(told: Recording) -> None:
    lines = list(told.seen.placement.items())
    lines[0], lines[1] = lines[1], lines[0]
    placed, _, in_order = replayed(replace(told, seen=replace(told.seen, placement=dict(lines))))
    assert placed.differences == ()
    assert not in_order


def test_the_times_are_those_of_the_recorded_pieces(told: Recording) -> None:
    assert told.not_run is None
    samples = from_step_stats(told.stats).samples
    names = {node.name for piece in told.seen.partitions for node in piece.node}
    timed = {sample.node for sample in samples}
    assert timed <= names | {"_SOURCE", "_SINK"}
    assert len(timed & names) > 0.7 * len(names)
    assert {sample.where for sample in samples} == {f"{LOCALHOST}/device:CPU:{number}" for number in range(4)}


# --- the file --------------------------------------------------------------------------------------------------------


def test_a_record_is_written_as_it_was_read(told: Recording, tmp_path: Path) -> None:
    content = record.dump(told)
    again = tmp_path / "again"
    again.write_bytes(content)
    assert record.dump(load(again)) == content
    assert load(again).machine == told.machine
    assert list(load(again).seen.placement) == list(told.seen.placement)


UNREADABLE = (
    ("cannot be read", b"no gzip at all"),
    ("is damaged", gzip.compress(bytes(range(256)) * 99)[:-40]),
    ("is no record", gzip.compress(b"not JSON")),
    ("is no record", gzip.compress(b"[]")),
    ("is no record", gzip.compress(json.dumps({"format": 1}).encode())),
    ("of format 2", gzip.compress(json.dumps({"format": 2}).encode())),
    ("is no record", gzip.compress(b"[" * 100_000)),
)


# ids by position: a packed file holds the time at which it was made, and every process must name a test alike
@pytest.mark.parametrize(("reason", "content"), UNREADABLE, ids=range(len(UNREADABLE)))
def test_what_is_no_record_is_refused(tmp_path: Path, reason: str, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(OracleError, match=reason):
        load(tmp_path / "file")


def test_a_file_that_is_not_there_and_one_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OracleError, match="No such file"):
        load(tmp_path / "nothing")
    file = tmp_path / "file"
    file.write_bytes(gzip.compress(b" " * 4000))
    monkeypatch.setattr(record, "MAX_BYTES", 3999)
    with pytest.raises(OracleError, match="unpacks to more than 3,999 bytes"):
        load(file)
    monkeypatch.setattr(record, "MAX_FILE_BYTES", 10)
    with pytest.raises(OracleError, match="larger than any record"):
        load(file)


def test_a_record_that_would_be_too_large_is_not_made(told: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "MAX_FILE_BYTES", 1000)
    with pytest.raises(OracleError, match="would have"):
        record.dump(told)


# --- the machine: no GPU was there when these were written, so its parts are tried one by one ------------------------


def session_devices(**counts: int) -> list[tuple[str, str, int]]:
    """As a session lists them, with names as TensorFlow gives them."""
    return [(f"{LOCALHOST}/device:{kind}:{number}", kind, 2**28) for kind in counts for number in range(counts[kind])]


def test_the_cluster_is_what_the_session_lists() -> None:
    text = record.cluster_of(session_devices(CPU=1, GPU=2))
    assert text == "cpu=1,gpu=2"
    assert [one.name for one in load_cluster(text).devices] == [name for name, _, _ in session_devices(CPU=1, GPU=2)]
    assert record.cluster_of(session_devices(CPU=4)) == "cpu=4"


@pytest.mark.parametrize("odd", [("XLA_GPU", 0), ("GPU", 1)])
def test_devices_that_no_cluster_describes_are_refused(odd: tuple[str, int]) -> None:
    name = f"{LOCALHOST}/device:{odd[0]}:{odd[1]}"
    with pytest.raises(OracleError, match="other devices than CPUs and GPUs numbered from 0"):
        record.cluster_of([*session_devices(CPU=1), (name, odd[0], 0)])


def test_a_gpu_is_told_by_model_and_compute_capability() -> None:
    given = {"device_name": "NVIDIA A100-SXM4-80GB", "compute_capability": (8, 0)}
    assert machine._model(given) == "NVIDIA A100-SXM4-80GB, compute capability 8.0"
    assert machine._model({}) == "a GPU, compute capability unknown"


@pytest.mark.parametrize(
    ("script", "version"), [("echo 550.54.15; echo 550.54.15", "550.54.15"), ("echo; exit 0", None), ("exit 9", None)]
)
def test_the_driver_is_what_nvidia_smi_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, version: str | None
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert machine.driver() == version
    program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.driver() is None


@pytest.fixture
def device_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A driver's files, as they lie about on a machine whose GPU no TensorFlow can use."""
    monkeypatch.setattr(machine, "_DEVICE_FILES", (str(tmp_path / "nvidia[0-9]*"),))
    machine.gpus.cache_clear()
    yield tmp_path
    machine.gpus.cache_clear()


def test_without_a_driver_nobody_is_asked_for_gpus(device_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "machine", None)
    assert machine.gpus() == 0


@pytest.mark.tensorflow
def test_a_driver_without_a_gpu_counts_as_none_both_for_the_question_and_for_the_prediction(device_files: Path) -> None:
    (device_files / "nvidia0").touch()
    cluster = load_cluster("cpu=1,gpu=1")
    assert machine.gpus() == 0
    assert dry_runs.extended(cluster).tasks == (LOCALHOST, STANDIN_CLIENT)
    assert dry_runs.extended(load_cluster("cpu=2")).tasks == (LOCALHOST,)


@pytest.mark.tensorflow
def test_gpus_that_are_not_there_are_stood_in_for_and_no_record_says_that_they_were(tmp_path: Path) -> None:
    rows = Rows()
    rows.add("x", "Placeholder", **typed("Placeholder", (4,)))
    rows.add("y", "Neg", ["x"], **typed("Neg", (4,)))
    graph = rows.built()
    assert dry_run(graph, load_cluster("cpu=1,gpu=64"), step=runs(graph, "y")).oracle == STAND_INS
    claimed = replace(SMALL, gpus=("a GPU",) * 64, devices=tuple(session_devices(CPU=1, GPU=64)))
    with pytest.raises(OracleError, match="finds 64 GPUs, but the answer came from stand-in workers"):
        record.record(written(tmp_path / "graph.pb", graph), claimed)


# --- the command -----------------------------------------------------------------------------------------------------


def written(path: Path, graph: Graph) -> Path:
    from simulator.graph.graph_def import graph_def

    path.write_bytes(graph_def(graph).SerializeToString())
    return path


def variable(rows: Rows, name: str, **more: Any) -> None:
    rows.add(name, "VariableV2", dtype=type_attr(1), shape=AttrValue(shape={"dim": [{"size": 2}]}), **more)


def training() -> Graph:
    """A variable with a first value, which each step adds to; fed, and made for a cluster."""
    rows = Rows()
    rows.add("x", "Placeholder", **typed("Placeholder", (2,)), device="/job:worker/task:3")
    variable(rows, "v", device="/job:ps/task:1/cpu:1")
    rows.add("zero", "Placeholder", **typed("Placeholder", (2,)))
    value = AttrValue(tensor={"dtype": 1, "tensor_shape": {"dim": [{"size": 2}]}, "float_val": [1.0]})
    rows.add("one", "Const", dtype=type_attr(1), value=value)
    rows.add("init", "Assign", ["v", "one"], T=type_attr(1), _class=colocation("v"))
    rows.add("add", "AssignAdd", ["v", "x"], T=type_attr(1), _class=colocation("v"))
    return rows.built()


def waiting() -> Graph:
    """Takes from a queue that nobody fills."""
    rows = Rows()
    types = AttrValue()
    types.list.type.append(1)
    rows.add("queue", "FIFOQueueV2", component_types=types)
    rows.add("taken", "QueueDequeueV2", ["queue"], component_types=types)
    return rows.built()


def refused() -> Graph:
    rows = Rows()
    variable(rows, "v", device="/gpu:0")
    rows.add("w", "Neg", ["v"], **typed("Neg", (2,)), device="/cpu:x")
    return rows.built()


def test_each_variable_is_given_its_first_value_by_one_node() -> None:
    graph = training()
    assert [graph.names[row] for row in first_values(graph)] == ["init"]


@pytest.mark.tensorflow
def test_a_folder_is_recorded_graph_by_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = tmp_path / "graphs", tmp_path / "out"
    folder.mkdir()
    written(folder / "training.pb", training())
    written(folder / "waiting.pb", waiting())
    (folder / "notes\x1b[2J.txt").write_text("no graph")
    assert record.main([str(folder), "-o", str(out), "--cpus", "2", "--step-timeout", "3"]) == 0
    assert r"notes\x1b[2J.txt: passed over" in capsys.readouterr().out
    assert sorted(path.name for path in out.iterdir()) == [
        f"{name}{record.SUFFIX}" for name in ("training.pb", "waiting.pb")
    ]
    trained, waited = (load(path) for path in sorted(out.iterdir()))
    assert trained.cluster == "cpu=2"
    assert trained.machine.tensorflow == trained.seen.tensorflow
    assert trained.seen.placement["v"] == f"{LOCALHOST}/device:CPU:1"
    assert trained.devices == record.FITTED
    assert trained.feeds == ("x:0",)
    assert "add" in {sample.node for sample in from_step_stats(trained.stats).samples}
    assert waited.stats is None
    assert "did not end within 3 s" in (waited.not_run or "")
    for told in (trained, waited):
        placed, cut, in_order = replayed(told)
        assert (placed.differences, cut.differences, in_order) == ((), (), True)


@pytest.mark.tensorflow
def test_a_refused_graph_makes_a_record_of_the_refusal_and_is_not_run(tmp_path: Path) -> None:
    told = record.record(written(tmp_path / "graph.pb", refused()), SMALL)
    assert "Malformed device specification '/cpu:x'" in (told.seen.refusal or "")
    assert told.not_run == "TensorFlow refuses it"


def test_a_folder_that_is_not_there_is_a_wrong_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert record.main([str(tmp_path / "nothing")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_session_without_a_cpu_is_a_wrong_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        record.main([str(tmp_path), "--cpus", "0"])
    assert "'0' is no number of devices" in capsys.readouterr().err


def test_the_help_says_that_steps_are_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        record.main(["--help"])
    assert "only graphs that you trust" in " ".join(capsys.readouterr().out.split())
