"""Every form of measured times, as the real TensorFlow writes it; and files of each that are not to be believed."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulator import load
from simulator.cluster.cluster import Cluster, Device
from simulator.costs.estimate import estimate
from simulator.costs.matching import with_measured
from simulator.costs.measurements.reading import read_measurement
from simulator.costs.table import CostTable
from simulator.errors import ClusterError
from simulator.graph.graph import Graph
from simulator.graph.messages import CostGraphDef, GraphDef, RunMetadata, StepStats, XSpace
from tests.costs.measured_step import FORMS, STEPS
from tests.oracle.forking import printed
from tests.strategies import Rows, typed

CPU = Device("/job:localhost/replica:0/task:0/device:CPU:0", "CPU", "xeon", 2**34, 10**12, 10**11, 1000)
GPU = Device("/job:localhost/replica:0/task:0/device:GPU:0", "GPU", "a100", 2**34, 10**13, 10**12, 5000)
ALONE = Cluster((CPU,), (), (((),),), name="one CPU")
BOTH = Cluster((CPU, GPU), (), (((), ()), ((), ())), name="two devices")
OPS = ["layer/product", "layer/relu", "layer/sum", "layer/weights"]
Change = Callable[[int], int]
SPOILT = [name for name in FORMS if not name.endswith("gzip")]

_MESSAGES: dict[str, Any] = {
    "run_metadata": RunMetadata,
    "step_stats": StepStats,
    "cost_graph_of_a_run": RunMetadata,
    "cost_graph": CostGraphDef,
    "xplane": XSpace,
}

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("measured")
    printed("tests.costs.measured_step", str(made))
    return made


def laid(given: Graph, file: Path) -> CostTable:
    return with_measured(estimate(given, ALONE), read_measurement(file), given, ALONE)


@pytest.mark.parametrize("name", FORMS)
def test_the_form_is_known_by_its_content_and_the_ops_are_counted(folder: Path, name: str) -> None:
    file, given = folder / f"{name}.csv", load(str(folder / "graph.pb"))
    measured = read_measurement(file)
    assert measured.form == FORMS[name]
    times = {node: [one.ns for one in measured.samples if one.node == node] for node in OPS}
    profiled = name.startswith(("xplane", "profiler"))
    assert all(len(found) == (STEPS if profiled else 1) for found in times.values()), times
    costs = laid(given, file)
    for node, found in times.items():
        assert costs.run_ns[given.index[node], 0] == sorted(found)[len(found) // 2] > 0
    matched = sum(costs.source == 1)
    assert matched >= len(OPS)
    said = f"measured times from {file} ({FORMS[name]}): matched {matched} of {len(given)} ops"
    assert said in costs.notes


def test_the_forms_of_one_step_agree(folder: Path) -> None:
    """The whole microseconds of a Timeline hold each op's nanoseconds, and what the executor adds to them."""
    exact, rounded = (
        {one.node: one.ns for one in read_measurement(folder / f"{name}.csv").samples}
        for name in ("step_stats", "timeline")
    )
    assert exact.keys() == rounded.keys()
    assert all(rounded[node] > exact[node] - 1000 for node in OPS)
    planes, trace = (
        sorted((one.node, one.ns) for one in read_measurement(folder / f"{name}.csv").samples if one.node in OPS)
        for name in ("xplane", "profiler_trace")
    )
    assert planes == trace


@pytest.mark.parametrize("name", SPOILT)
def test_measurements_of_another_graph_are_refused(folder: Path, name: str) -> None:
    made = Rows()
    made.add("elsewhere", "Placeholder", **typed("Placeholder", (4, 4)))
    with pytest.raises(ClusterError, match=r"none of that is a node of .*, which has 'elsewhere', so nothing of it"):
        laid(made.built(), folder / f"{name}.csv")


@pytest.mark.parametrize("name", FORMS)
def test_a_file_that_was_cut_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    """Wherever it was cut, but between two whole messages, where nobody can tell."""
    whole, file = (folder / f"{name}.csv").read_bytes(), tmp_path / "cut.pb"
    for share in (0.2, 0.5, 0.9, 0.99):
        file.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(ClusterError, match=r"was cut|it is cut or damaged") as caught:
            read_measurement(file)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda ns: 0, "takes 0 ns, so nothing was measured"),
        (lambda ns: 10**17, "takes [1-9][0-9,]+ days, and no op takes longer than one|which is no time"),
        (lambda ns: -(10**9), "before it begins"),
    ],
)
@pytest.mark.parametrize("name", SPOILT)
def test_times_that_nothing_takes_are_refused(
    folder: Path, tmp_path: Path, name: str, change: Change, said: str
) -> None:
    file = tmp_path / "spoilt.json"
    file.write_bytes(spoilt((folder / f"{name}.csv").read_bytes(), name, change))
    if name.startswith("cost_graph") and change(1) == 0:
        said = "holds no measured times"
    with pytest.raises(ClusterError, match=said):
        read_measurement(file)


def spoilt(raw: bytes, name: str, change: Change) -> bytes:
    """The same file, in which every op takes what the change says."""
    from google.protobuf import text_format

    if name in ("timeline", "profiler_trace"):
        trace = json.loads(raw)
        for event in trace["traceEvents"]:
            if "dur" in event:
                event["dur"] = change(0) // 1000
        return json.dumps(trace).encode()
    form = _MESSAGES[name.removesuffix("_text")]
    message = text_format.Parse(raw.decode(), form()) if name.endswith("_text") else form.FromString(raw)
    if form is XSpace:
        for event in (event for plane in message.planes for line in plane.lines for event in line.events):
            event.duration_ps = max(-(2**63), min(2**63 - 1, change(0) * 1000))
    elif "cost_graph" in name:
        for node in (message.cost_graph if form is RunMetadata else message).node:
            node.compute_cost = change(0) // 1000
    else:
        devices = (message.step_stats if form is RunMetadata else message).dev_stats
        for node in (node for device in devices for node in device.node_stats):
            node.op_start_rel_nanos, node.op_end_rel_nanos = 10**10, 10**10 + change(0)
    return text_format.MessageToString(message).encode() if name.endswith("_text") else message.SerializeToString()


def regal(tmp_path: Path, text: str) -> CostTable:
    made = Rows()
    made.add("node_1", "Placeholder", **typed("Placeholder", (4, 4)))
    made.add("node_3", "Neg", ["node_1"], **typed("Neg", (4, 4)))
    file, given = tmp_path / "graph_1.pbtxt", made.built()
    file.write_text(text)
    return with_measured(estimate(given, BOTH), read_measurement(file), given, BOTH)


REGAL = """
node { name: "_SOURCE" }
node { name: "node_1" id: 2 output_info { size: 70 alias_input_port: -1 } control_input: 0 compute_cost: 58 }
node { name: "node_3" id: 4 input_info { preceding_node: 2 } output_info { size: 55 } control_input: 0 compute_cost: 9 }
"""


def test_costs_without_a_device_count_on_every_kind(tmp_path: Path) -> None:
    """The form of the REGAL data set."""
    costs = regal(tmp_path, REGAL)
    assert costs.run_ns.tolist() == [[58_000, 58_000], [9_000, 9_000]]
    assert any("matched 2 of 2 ops" in note for note in costs.notes)


def test_a_cost_graph_that_lost_nodes_was_cut(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"'node_3' reads node 2, which the CostGraphDef lacks: it was cut"):
        regal(tmp_path, REGAL.replace("id: 2", "id: 7"))


def test_a_graph_is_no_cost_graph(tmp_path: Path) -> None:
    file = tmp_path / "graph.pb"
    message = GraphDef()
    message.node.add(name="a", op="Const")
    for content in (message.SerializeToString(), str(message).encode()):
        file.write_bytes(content)
        with pytest.raises(ClusterError, match="give RunMetadata"):
            read_measurement(file)


def planes() -> Any:
    """Two steps of a product on a GPU, of two kernels each, as `xplane_schema.cc` names planes, lines and stats."""
    space = XSpace()
    host, gpu = space.planes.add(name="/host:CPU"), space.planes.add(name="/device:GPU:0")
    host.event_metadata[1].name = "b:Neg"
    host.event_metadata[2].name = "ExecutorState::Process"
    launches = host.lines.add(name="tf_Compute/1")
    for _ in range(2):
        launches.events.add(metadata_id=1, duration_ps=9_000_000)
        launches.events.add(metadata_id=2, duration_ps=99_000_000)
    gpu.stat_metadata[1].name, gpu.stat_metadata[2].name = "tf_op", "b:Neg"
    gpu.event_metadata[1].name, gpu.event_metadata[2].name = "negate", "MemcpyH2D"
    stream = gpu.lines.add(name="Stream #13(Compute)")
    for took, kind in ((100_500, 1), (200_000, 1), (7_000_000, 2), (300_000, 1), (200_500, 1)):
        event = stream.events.add(metadata_id=kind, duration_ps=took)
        event.stats.add(metadata_id=1, ref_value=2)
    gpu.lines.add(name="Steps").events.add(metadata_id=1, duration_ps=10**9).stats.add(metadata_id=1, ref_value=2)
    return space


def test_kernels_of_several_profiled_steps_give_the_mean_of_one(tmp_path: Path) -> None:
    file = tmp_path / "gpu"
    file.write_bytes(gzip.compress(planes().SerializeToString()))
    (sample,) = read_measurement(file).samples
    assert (sample.node, sample.op, sample.where, sample.ns) == ("b", "Neg", "/device:GPU:0", 401)
    assert sample.kernels_only


def test_a_profilers_trace_of_a_gpu(tmp_path: Path) -> None:
    events = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
        {"ph": "M", "pid": 1, "tid": 5, "name": "thread_name", "args": {"name": "Stream #13(Compute)"}},
        {"ph": "M", "pid": 1, "tid": 6, "name": "thread_name", "args": {"name": "TensorFlow Ops"}},
        {"ph": "X", "pid": 1, "tid": 5, "name": "negate", "ts": 1, "dur": 0.1, "args": {"tf_op": "b:Neg"}},
        {"ph": "X", "pid": 1, "tid": 5, "name": "MemcpyH2D", "ts": 2, "dur": 50, "args": {"tf_op": "b:Neg"}},
        {"ph": "X", "pid": 1, "tid": 6, "name": "Neg", "ts": 1, "dur": 70, "args": {"tf_op": "b:Neg"}},
    ]
    file = tmp_path / "trace"
    file.write_text(json.dumps({"traceEvents": events}))
    assert [(one.node, one.where, one.ns) for one in read_measurement(file).samples] == [("b", "/device:GPU:0", 100)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "holds no measured times"),
        ("[1, 2]", "holds no measured times"),
        ('{"traceEvents": 3}', "holds no measured times"),
        ('{"traceEvents": [', "begins as JSON, but it is cut or damaged in line 1"),
    ],
)
def test_other_json_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "trace.json"
    file.write_text(text)
    with pytest.raises(ClusterError, match=said):
        read_measurement(file)


@pytest.mark.parametrize("took", ["1e999", "NaN", '"long"', "null", "-1e300", "true", "9" * 400])
def test_a_duration_that_is_no_number_is_refused(tmp_path: Path, took: str) -> None:
    file = tmp_path / "trace.json"
    file.write_text(
        '[{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/host:CPU"}},'
        f'{{"ph": "X", "pid": 1, "name": "Neg", "dur": {took}, "args": {{"long_name": "b:Neg"}}}}]'
    )
    with pytest.raises(ClusterError, match=r"'b' takes .* us, which is no time, so nothing of this Chrome trace"):
        read_measurement(file)
