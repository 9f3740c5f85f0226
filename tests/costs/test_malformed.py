"""Files of measurements, cut and changed anywhere: each is refused in one sentence, or gives times that are believed.

All forms, which the command reads by their content: messages in binary and text, traces, CSV, profiles, observed steps
and earlier results.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from simulator import estimate, load_cluster
from simulator.costs.matching import with_measured
from simulator.costs.measurements.reading import read_measurement
from simulator.costs.profile import read_profile
from simulator.errors import SimvizError
from simulator.graph.graph_def import graph_def
from simulator.graph.messages import CostGraphDef, StepStats, XSpace
from simulator.observed.fitting import digest, fitted
from simulator.observed.form import dump, read_observed
from simulator.observed.observed_step import ObservedNode, ObservedStep, SeenShape
from simulator.units import DAY_NS
from tests.costs.test_profile import graph, made
from viz import run
from viz.command.cli import main
from viz.difference.outline import read_result

GRAPH = graph()
CLUSTER = load_cluster("1cpu")
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
OPS = {"a": "Placeholder", "b": "Neg", "c": "Sqrt"}


def stats(**changed: Any) -> Any:
    """A traced step of the graph, whose ops have these fields."""
    found = StepStats()
    device = found.dev_stats.add(device=changed.pop("device", CPU))
    for name, op in changed.pop("ops", OPS).items():
        fields = {"op_start_rel_nanos": 100, "op_end_rel_nanos": 700, "timeline_label": f"{name} = {op}()", **changed}
        device.node_stats.add(node_name=name, **fields)
    return found


def cost_graph(cost: int = 5) -> Any:
    found = CostGraphDef()
    for row, name in enumerate(OPS):
        node = found.node.add(name=name, id=row, compute_cost=cost, device=CPU)
        if row:
            node.input_info.add(preceding_node=row - 1)
    return found


def space() -> Any:
    found = XSpace()
    host = found.planes.add(name="/host:CPU")
    line = host.lines.add(name="tf_Compute/1")
    for row, (name, op) in enumerate(OPS.items(), 1):
        host.event_metadata[row].name = f"{name}:{op}"
        line.events.add(metadata_id=row, duration_ps=700_000)
    return found


def trace(took: object = 3) -> bytes:
    head = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": f"{CPU} Compute"}}
    events = [
        {"ph": "X", "pid": 1, "cat": "Op", "dur": took, "args": {"name": name, "op": op}} for name, op in OPS.items()
    ]
    return json.dumps({"traceEvents": [head, *events]}).encode()


def observed() -> ObservedStep:
    seen = {0: (SeenShape(1, (64, 64)),)}
    nodes = {name: ObservedNode(op, 1, 500, 0, seen) for name, op in OPS.items()}
    return ObservedStep(
        "g.pb", "2.21.0", "a processor", digest(GRAPH, nodes), {"a:0": (64, 64)}, ("c:0",), (), 5000, 9000, nodes
    )


def text(message: Any) -> bytes:
    written: str = text_format.MessageToString(message)
    return written.encode()


def measured(path: str) -> object:
    """The times of a file, laid over the graph's."""
    found = read_measurement(path)
    assert all(0 <= one.ns <= DAY_NS for one in found.samples)
    assert any(one.ns for one in found.samples)
    return with_measured(estimate(GRAPH, CLUSTER), found, GRAPH, CLUSTER)


def profiled(path: str) -> object:
    costs = estimate(GRAPH, CLUSTER, read_profile(path))
    assert (costs.run_ns >= 0).all()
    return costs


def seen(path: str) -> object:
    return fitted(GRAPH, read_observed(path))


FILES: dict[str, tuple[Callable[[str], object], bytes]] = {
    "stats": (measured, stats().SerializeToString()),
    "stats in text": (measured, text(stats())),
    "gzipped": (measured, gzip.compress(stats().SerializeToString(), mtime=0)),
    "cost graph": (measured, cost_graph().SerializeToString()),
    "cost graph in text": (measured, text(cost_graph())),
    "planes": (measured, space().SerializeToString()),
    "trace": (measured, trace()),
    "lines": (measured, b"node,kind,ns\na,CPU,50\nb,CPU,7e3\n"),
    "profile": (profiled, made().to_toml().encode()),
    "observed": (seen, dump(observed())),
}


def refused(read: Callable[[str], object], path: str) -> str:
    """What the refusal says; "" for a file that is read. No warning, no other error, one line of bounded length."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            read(path)
        except SimvizError as error:
            said = str(error)
            assert 0 < len(said) < 800, said
            assert "\n" not in said, said
            return said
    return ""


@pytest.mark.parametrize("form", FILES)
def test_the_file_is_read_as_it_is(tmp_path: Path, form: str) -> None:
    read, content = FILES[form]
    file = tmp_path / "a.csv"
    file.write_bytes(content)
    assert refused(read, str(file)) == ""


@given(st.sampled_from(sorted(FILES)), st.data())
def test_a_file_cut_or_changed_anywhere_is_refused_or_believed(
    tmp_path_factory: pytest.TempPathFactory, form: str, data: st.DataObject
) -> None:
    read, content = FILES[form]
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(0, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    file = tmp_path_factory.getbasetemp() / "changed"
    file.write_bytes(changed[: data.draw(st.integers(0, len(changed)))])
    refused(read, str(file))


@given(st.sampled_from([form for form in FILES if form in ("trace", "profile", "observed")]), st.data())
def test_a_number_of_any_kind_is_refused_or_believed(
    tmp_path_factory: pytest.TempPathFactory, form: str, data: st.DataObject
) -> None:
    """In place of each number in turn: none, infinite, negative, of years, of hundreds of digits, or no number."""

    read, content = FILES[form]
    plain = gzip.decompress(content) if form == "observed" else content
    places = list(re.finditer(rb"(?<![\w.\"])\d+(\.\d+)?(?![\w.\"])", plain))
    place = data.draw(st.sampled_from(places))
    odd = ["nan", "-inf", "NaN", "-1", "0", "1e17", "1e400", "9" * 400, "9" * 5000, "true", '"5"', "[]", "null", "2.5"]
    value = data.draw(st.sampled_from(odd)).encode()
    changed = plain[: place.start()] + value + plain[place.end() :]
    file = tmp_path_factory.getbasetemp() / "odd"
    file.write_bytes(gzip.compress(changed) if form == "observed" else changed)
    refused(read, str(file))


MOST = 2**63 - 1
OTHERS = dict.fromkeys(OPS, "MatMul")
FAULTS: dict[str, tuple[bytes, str]] = {
    "another scope": (stats(ops={f"tower/{name}": op for name, op in OPS.items()}).SerializeToString(), "none of that"),
    "other ops": (stats(ops=OTHERS).SerializeToString(), "is of another graph: .* has other ops in 3 of 3 nodes"),
    "a common name": (b"a,CPU,5\n" + b"".join(b"z%d,CPU,5\n" % at for at in range(20)), "has only 1 of its 21 nodes"),
    "an unknown device": (
        stats(device="/job:a/replica:0/task:0/device:TPU:0").SerializeToString(),
        "no measured times",
    ),
    "no device": (stats(device="").SerializeToString(), "no measured times"),
    "no time": (stats(op_start_rel_nanos=0, op_end_rel_nanos=0).SerializeToString(), "takes 0 ns"),
    "backwards": (stats(op_start_rel_nanos=900).SerializeToString(), "ends 200 ns before it begins"),
    "years": (stats(op_end_rel_nanos=MOST).SerializeToString(), "takes 106,752 days"),
    "more than 64 bits": (stats(op_start_rel_nanos=-MOST, op_end_rel_nanos=MOST).SerializeToString(), "213,504 days"),
    "a name in no UTF-8": (text(stats()).replace(b'"b"', b'"\xff"'), "line .* a byte that is not UTF-8"),
    "an escape in no UTF-8": (text(stats()).replace(b'"b"', b'"\\377"'), "was cut, or is something else"),
    "negative costs": (cost_graph(-3).SerializeToString(), "before it begins"),
    "half a character": (trace().replace(b'"b"', b'"\\ud800"'), "half a character"),
    "a truth": (trace(took=True), "which is no time"),
    "hundreds of digits": (trace(took=10**400), "which is no time"),
    "thousands of digits": (trace().replace(b"3", b"9" * 5000), "thousands of digits"),
    "a key twice": (trace().replace(b'"dur": 3', b'"dur": 3, "dur": 4'), "'dur' twice in one object"),
    "nested": (b"[" * 10**5, "nested too deeply"),
    "cut gzip": (gzip.compress(trace())[:-5], "gzip, but ends too early"),
    "damaged gzip": (gzip.compress(trace())[:-8] + bytes(8), "gzip, but damaged"),
    "other digits": ("a,CPU,٣\n".encode(), "is not a number"),
    "digits in groups": (b"a,CPU,1_000\n", "is not a number"),
    "a unit": (b"a,CPU,5us\n", "is not a number"),
    "below zero": (b"a,CPU,-1\n", "is not from 0"),
    "not a number": (b"a,CPU,nan\n", "is not from 0"),
    "infinite": (b"a,CPU,1e999\n", "is not from 0"),
    "an unknown kind": (b"a,tpu,5\n", "has no device kind 'tpu'"),
    "nothing": (b"", "holds no measured times"),
    "zeros": (bytes(99), "holds no measured times"),
    "a profile": (made().to_toml().encode(), "give RunMetadata"),
    "an observed step": (dump(observed()), "holds no measured times"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_command_refuses_measured_times_in_one_line_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    given, file, result = tmp_path / "g.pb", tmp_path / "times", tmp_path / "result.json"
    given.write_bytes(graph_def(GRAPH).SerializeToString())
    content, wanted = FAULTS[fault]
    file.write_bytes(content)
    assert main([str(given), "--cluster", "1cpu", "--costs", str(file), "--json", str(result)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    with pytest.raises(SimvizError, match=wanted) as caught:
        measured(str(file))
    assert told.err == f"simviz: {str(caught.value).replace(GRAPH.source, str(given))}\n"
    assert not result.exists()


NAMES = {
    "nowhere": "no such file",
    ".": "is a folder",
    "": "is empty",
    "a\0b": "cannot be read",
    "x" * 5000: "cannot be read",
    "a\nb": "no such file",
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("option", ["--costs", "--profile", "--observation", "--against"])
def test_a_name_that_is_no_file_is_told_in_one_line(capsys: pytest.CaptureFixture[str], option: str, name: str) -> None:
    assert main(["examples/ps_training.pbtxt", option, name, "--json", os.devnull]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    if option != "--against":  # which may name an algorithm or a cluster
        assert NAMES[name] in told


def test_an_earlier_result_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = run("examples/ps_training.pbtxt", algorithm="single").to_json().encode()
    file = tmp_path / "result.json"
    for share in range(1, 100, 7):
        file.write_bytes(whole[: len(whole) * share // 100])
        assert "write the result again" in refused(read_result, str(file))
