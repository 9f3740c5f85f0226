"""A training from the command line to the page: options, programs, figures, trace events, and what is refused."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from selenium.webdriver.chrome.webdriver import WebDriver

import viz
from placement import clients, sessions
from placement.placing import place
from simulator import estimate_each, load_cluster, read_regime, replicate
from simulator.assignment import Assignment
from simulator.cluster.cluster import with_protocol
from simulator.columns import ints
from simulator.errors import GraphError, OutOfMemoryError, SimvizError
from simulator.execution.options import SimulationOptions
from simulator.execution.simulate import unsized_transfers
from simulator.graph.graph import Graph, Signature
from simulator.graph.messages import AttrValue
from simulator.json_text import plain
from simulator.training.disturbances.disturbance import read_disturbance
from simulator.training.programs.replicated import Replication
from simulator.training.programs.setter import PsStrategy
from simulator.training.training import WAITING
from tests.graph.test_step import training
from tests.strategies import BOOL, Rows, shape_attr, type_attr
from tests.training.recognition.test_branches import branching
from tests.viz.browsing import complaints, opened, settled
from tests.viz.scenes import EXAMPLE, crashed, trained, training_graph
from viz import training_figures
from viz.agreement import notes
from viz.command import one_step, options, training_run
from viz.command.cli import main
from viz.command.options import parser
from viz.command.request import Request, read_request
from viz.command.running import run
from viz.command.summary import _training as summary_lines
from viz.command.summary import summarise
from viz.command.training_programs import make_programs, with_workers
from viz.command.training_request import TrainingRequest, read_wanted
from viz.formats.json_object import training_record as record
from viz.formats.trace_events import draw_training
from viz.page.report import training_contents
from viz.palette import rgb
from viz.scene import Scene, Trained
from viz.timeline.training_timeline import recorded

DEFAULT = ("--training", "async")


def wanted(*arguments: str) -> TrainingRequest:
    found = read_wanted(parser().parse_args(["graph.pbtxt", *arguments]))
    assert found is not None
    return found


def known(scene: Scene) -> Trained:
    assert scene.training is not None
    return scene.training


# ---- what is asked


def test_the_help_knows_what_can_be_replicated() -> None:
    assert ("none", *sorted(get_args(Replication), key=options.REPLICATIONS.index)) == options.REPLICATIONS
    assert get_args(PsStrategy) == options.PS_STRATEGIES


def test_options_are_read() -> None:
    found = wanted("--training", "sync:aggregate=3,total=4", "--disturb", "worker:1=slow:2", "--until-ci", "2%")
    assert str(found.regime) == "sync:aggregate=3,total=4"
    assert found.until_ci == 0.02
    assert [one.target for one in found.disturbances] == ["worker:1"]
    assert read_wanted(parser().parse_args(["graph.pbtxt", "--training", "none"])) is None
    assert not wanted("--replicate", "in").trains


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--steps", "3"), "--steps is an option of a training"),
        (("--disturb", "worker:0=slow:2"), "add --training async"),
        (("--device-filters", "/job:ps"), "--device-filters is an option of a training"),
        ((*DEFAULT, "--device-filters", "/jbo:ps"), "--device-filters: '/jbo:ps'"),
        (("--training", "none", "--workers", "1,2"), "--workers"),
        (("--ps-strategy", "bytes"), "add --replicate between"),
        ((*DEFAULT, "--replicate", "none", "--ps-strategy", "bytes"), "drop one"),
        ((*DEFAULT, "--master", "ps:0"), "leave it out"),
        ((*DEFAULT, "--steps", "0"), "from 1 to 1,000,000"),
        ((*DEFAULT, "--until-ci", "2"), "such as 2%"),
        ((*DEFAULT, "--until-ci", "nan"), "such as 2%"),
        ((*DEFAULT, "--disturb", "worker:0=slower:2"), "--disturb"),
        ((*DEFAULT, "--workers", "1,x"), "--workers"),
        (("--gap", "2ms"), "--gap is an option of a training"),
        ((*DEFAULT, "--gap", "2"), "--gap: .*use ns, us, ms, s, min or h"),
        ((*DEFAULT, "--gap", "999999999 s"), "longer than 1,000,000 s"),
        (("--training", "synch"), "--training"),
        (("--training", "sync:total=4", "--workers", "1,2"), "leave it out"),
        (("--training", "ssp"), "bound"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], says: str) -> None:
    with pytest.raises(SimvizError, match=says):
        wanted(*arguments)


SERVED = {"serving_default": "y:0", "one": "w/apply:0", "other": "v/apply:0"}


@pytest.mark.parametrize("how", [{"training": "async", "replicate": "none"}, {"microbatches": 2, "batch": 8}])
def test_a_signature_says_what_is_trained(how: dict[str, Any]) -> None:
    graph = training(grouped=False).built(signatures={name: Signature({}, {"": of}) for name, of in SERVED.items()})
    with pytest.raises(GraphError, match="its step, which fetches y:0"):
        viz.run(graph, cluster="2gpu", signature="serving_default", **how)
    if "training" in how:
        for name in ("one", "other"):
            result = viz.run(graph, cluster="2gpu", signature=name, **how)
            assert result.step.fetches == (SERVED[name],)
            assert result.training is not None


@pytest.mark.parametrize("how", [{"training": "async"}, {"replicate": "between"}, {"microbatches": 2}])
def test_of_malformed_device_strings_the_first_ones_node_is_named(how: dict[str, Any]) -> None:
    """Whatever PYTHONHASHSEED is: a set of strings has no order."""
    rows = Rows()
    for number in range(20):
        rows.add(f"n{number}", "NoOp", [], device=f"/job:worker/wrong{number}")
    with pytest.raises(GraphError, match=r"'/job:worker/wrong0'.* \(node 'n0'\)"):
        viz.run(rows.built(), cluster="ps=1,worker=2", **how)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--cluster", "ps=2,worker=2", *DEFAULT, "--disturb", "worker:7=slow:2"), "worker:7"),
        (("--cluster", "ps=2,worker=2", "--training", "sync:aggregate=9,tokens=0"), "first update waits for 9"),
        (("--cluster", "ps=2,worker=2", "--training", "sync:total=3"), "total=3"),
        (("--cluster", "worker=2", *DEFAULT), "ps"),
        (("--cluster", "ps=2,worker=2", *DEFAULT, "--ps-strategy", "bytes"), "names the devices of its variables"),
    ],
)
def test_the_command_refuses_and_says_why(
    arguments: tuple[str, ...],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([str(EXAMPLE), *arguments]) in (1, 2)
    assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


# ---- which programs


def test_a_cluster_is_written_anew_with_more_workers() -> None:
    source = "chief=1,ps=2,worker=3x1gpu"
    cluster = load_cluster(source)
    for count in (1, 2, 4, 7):
        tasks = with_workers(source, cluster, count).tasks
        assert sum("/job:worker/" in task or "/job:chief/" in task for task in tasks) == count
        assert sum("/job:ps/" in task for task in tasks) == 2
    with pytest.raises(SimvizError, match="describe a cluster with more"):
        with_workers(None, cluster, 5)


def test_fewer_workers_of_a_host_have_larger_parts_of_it() -> None:
    """A worker that stands alone on a host is all of it, as in a description of so many workers."""
    hosts = {"ps": ["a:1"], "worker": ["a:2", "a:3", "b:1", "b:2"]}
    for count in (1, 2, 3, 4):
        alone = load_cluster({**hosts, "worker": hosts["worker"][:count]})
        assert with_workers(None, load_cluster(hosts), count).devices == alone.devices


def test_the_first_of_some_workers_may_be_a_chief() -> None:
    asked = TrainingRequest(read_regime("async"), steps=3, workers=(1, 2, 4))
    found = known(run(Request(str(EXAMPLE), cluster="chief=1,ps=2,worker=2", algorithm="requested", training=asked)))
    assert [row.workers for row in found.scaling] == [1, 2, 4]


def test_more_workers_talk_by_the_protocol_that_was_chosen() -> None:
    cluster = with_protocol(load_cluster("ps=1,worker=2"), "rdma")
    assert with_workers("ps=1,worker=2", cluster, 4).between_tasks.name == "rdma"
    assert with_workers(None, cluster, 1).between_tasks.name == "rdma"


def test_measured_times_of_all_workers_hold_for_fewer(tmp_path: Path) -> None:
    """A chief without a GPU is the first worker; alone it has no device of the kind that was measured."""
    path, both, cpu = tmp_path / "uneven.pbtxt", tmp_path / "both.csv", tmp_path / "cpu.csv"
    path.write_text(uneven_graph())
    cpu.write_text("kernel1/gradient,CPU,7000000\n")
    both.write_text(cpu.read_text() + "kernel0/gradient,a100,9000000\n")
    asked = TrainingRequest(read_regime("async"), steps=6)

    def rate(cluster: str, times: Path, workers: tuple[int, ...] = ()) -> tuple[float | None, ...]:
        training = replace(asked, workers=workers)
        given = Request(str(path), cluster=cluster, algorithm="requested", training=training, costs=(str(times),))
        found = known(run(given))
        return (found.answers.steps_per_s, *(row.steps_per_s for row in found.scaling))

    whole, first, second = rate("chief=1,ps=1,worker=1x1gpu", both, (1, 2))
    assert (first,) == rate("chief=1,ps=1", cpu)
    assert second == whole
    assert (whole,) == rate("chief=1,ps=1,worker=1x1gpu", both)
    assert whole != rate("chief=1,ps=1,worker=1x1gpu", cpu)[0]


@pytest.mark.parametrize("replicate", ["in", "both", "between", "allreduce:ring", "allreduce:tree"])
def test_efficiency_counts_the_gradients_of_all_replicas(tmp_path: Path, replicate: str) -> None:
    """Each replica works on as many examples, so workers are as efficient as they work on examples."""
    path = tmp_path / "uneven.pbtxt"
    path.write_text(uneven_graph())
    asked = TrainingRequest(read_regime("sync"), replicate=replicate, steps=4, workers=(1, 2, 4))
    given = Request(str(path), cluster="ps=1,worker=4x2gpu", batch=8, algorithm="requested", training=asked)
    rows = known(run(given)).scaling
    examples = [row.examples_per_s / row.workers for row in rows if row.examples_per_s]
    assert [row.efficiency for row in rows] == pytest.approx([one / examples[0] for one in examples])


def test_programs_that_are_alike_are_placed_and_cut_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 workers cost what one does, and each works on its own devices."""
    cluster = load_cluster("ps=2,worker=64x1gpu")
    programs = replicate(training_graph(), cluster)
    costs = estimate_each(programs, cluster)
    calls = []

    def counted(*given: Any, **options: Any) -> Assignment:
        calls.append(given)
        return place(*given, **options)

    monkeypatch.setattr(sessions, "place", counted)
    made = clients(programs, cluster, costs, algorithm="tensorflow")
    assert len(calls) == len({id(table) for table in costs}) == len({id(one.partitions) for one in made}) == 1
    for row, client in enumerate(made):
        where = client.partitions.device if client.devices is None else client.devices[client.partitions.device]
        tasks = {cluster.devices[device].task for device in np.unique(where).tolist()}
        assert programs[row].task in tasks
        assert tasks <= {programs[row].task, *cluster.tasks[:2]}


def test_what_is_fed_passes_through_the_cpu_of_its_own_task() -> None:
    cluster = load_cluster("ps=1,worker=3x1gpu")
    programs = replicate(training_graph(), cluster)
    made = clients(programs, cluster, estimate_each(programs, cluster))
    for client in made:
        pieces = client.partitions
        ends = pieces.device[pieces.endpoint >= 0]
        where = ends if client.devices is None else client.devices[ends]
        assert len(where)
        assert {cluster.devices[row].name for row in where.tolist()} == {f"{client.program.task}/device:CPU:0"}


def test_each_client_is_placed_with_the_trips_and_ways_that_its_steps_take() -> None:
    cluster = load_cluster("ps=1,worker=2")
    programs = replicate(training_graph(), cluster)
    costs = estimate_each(programs, cluster)
    for unknown in (SimulationOptions(trips={"nowhere": 3}), SimulationOptions(branches={"nowhere": True})):
        with pytest.raises(SimvizError, match="nowhere"):
            clients(programs, cluster, costs, options=unknown)


def test_a_synchronous_training_has_its_updates_placed_as_the_chiefs_session_places_them() -> None:
    cluster = load_cluster("ps=1,worker=2")
    programs = replicate(training_graph(), cluster, regime=read_regime("sync"))
    *workers, updates = clients(programs, cluster, estimate_each(programs, cluster), algorithm="tensorflow")
    assert [one.program.role for one in (*workers, updates)] == ["worker", "worker", "updates"]
    device: dict[str, int] = {}
    for client in (workers[0], updates):
        pieces = client.partitions
        for row in np.flatnonzero(~pieces.inserted).tolist():
            assert device.setdefault(pieces.graph.names[row], pieces.device[row]) == pieces.device[row]


@pytest.mark.parametrize("rule", ["whitepaper", "tensorflow"])
def test_every_client_delays_its_recvs(rule: str) -> None:
    """Not the first client alone, of which one step is shown, and whom all clients like it follow."""
    cluster = load_cluster("ps=2,worker=1x1t4,worker=1x2t4,protocol=rdma")
    programs = replicate(training_graph(), cluster, regime=read_regime("sync"))
    made = clients(programs, cluster, estimate_each(programs, cluster), recv_scheduling=rule)
    assert len({id(client.partitions) for client in made}) == 3
    for client in made:
        pieces = client.partitions
        assert (np.diff(pieces.graph.in_ptr)[pieces.recv] > 0).any()


def test_a_smaller_training_delays_its_recvs_as_alone() -> None:
    """A row of --workers, and a run that relieves a bottleneck, are of clients that are made anew."""
    many, alone = (
        viz.run(EXAMPLE, cluster=f"ps=2,worker={count}x1gpu", training="async", steps=6, workers=numbers,
                recv_scheduling="tensorflow", engine="python")
        for count, numbers in ((2, (1, 2)), (1, None))
    )  # fmt: skip
    assert known(many).scaling[0].steps_per_s == known(alone).answers.steps_per_s


# ---- what is said


def test_the_json_says_what_the_run_was() -> None:
    scene = trained()
    found, training = record(known(scene)), known(scene).training
    for key in (
        *("regime", "workers", "steps", "steps_per_s", "examples_per_s", "step_ns", "staleness", "dropped_gradients"),
        *("waiting_share", "bottleneck"),
    ):
        assert key in found
    assert json.loads(json.dumps(found)) == found
    assert found["workers"] == 3
    assert sum(found["staleness"].values()) == found["updates"] == len(training.update_ns)
    assert list(found["step_ns"]) == ["p50", "p90", "p99"]
    assert list(found["step_ns"].values()) == sorted(found["step_ns"].values())
    for task, parts in found["tasks"].items():
        measured = found["end_ns"] - found["warm_up"]["until_ns"]
        assert sum(parts.values()) == measured > 0
        assert found["waiting_share"][task] == pytest.approx(parts["waiting"] / measured)
    assert {one["waits_for"] for one in found["sessions"]} == {"/job:worker/replica:0/task:2"}


def test_the_summary_names_the_regime_the_rate_and_who_waits() -> None:
    lines = "\n".join(summary_lines(known(trained())))
    for said in (
        "async, 3 workers",
        "steps/s",
        "examples/s",
        "warm-up",
        "p50",
        "staleness",
        "dropped",
        "worker:2=late",
        "clients, with nothing freed",
    ):
        assert said in lines
    assert "waiting for worker:2" in lines
    assert "2 workers" in lines  # of the scaling


def test_a_task_without_any_work_is_none_that_waits_most() -> None:
    """The summary named it, with 100 %, where the page named another."""
    found = known(trained())
    assert "without any work" not in "\n".join(summary_lines(found))
    shares = np.array(found.answers.shares)
    shares[0] = [0, 0, 0, 1]
    lines = "\n".join(summary_lines(replace(found, answers=replace(found.answers, shares=shares))))
    assert "1 task without any work" in lines
    assert " 100%" not in lines.partition("waiting  ")[2].splitlines()[0]


def test_the_page_holds_every_step_and_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = trained()
    training = known(scene).training
    held: Any = plain(training_contents(known(scene), scene.cluster))
    cut_off = [training.end_ns] * len(training.under_way)
    assert sorted(held["steps"]["end_ns"]) == sorted([*training.step_end_ns.tolist(), *cut_off])
    assert 0 < len(cut_off) == held["steps"]["waiting_ns"].count(-1) < 3  # of three workers, those that were at it
    assert held["steps"]["left_out"] == ""
    assert held["timeline"]["left_out"] == 0
    assert sum(held["step_times"]["counts"]) > 0
    monkeypatch.setattr("viz.page.time_content.MOST_STEPS", 5)
    monkeypatch.setattr("viz.page.time_content.MOST_SLICES", 7)
    cut: Any = plain(training_contents(known(scene), scene.cluster))
    assert len(cut["steps"]["start_ns"]) == 5
    assert f"{len(training.step_end_ns) + len(cut_off)} steps" in cut["steps"]["left_out"]
    assert len(cut["timeline"]["start_ns"]) == 7
    assert cut["timeline"]["left_out"] == len(held["timeline"]["start_ns"]) - 7


def test_sessions_that_filter_a_late_task_out_do_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    late = ("--disturb", "worker:1=late:50 ms", "--device-filters", "worker=/job:ps,/job:worker/task:{task}")
    arguments = ("--cluster", "ps=2,worker=2", *DEFAULT, "--steps", "3", "--verbose", *late)
    assert main([str(EXAMPLE), *arguments, "-o", "a.html", "--json", "a.json"]) == 0
    said = capsys.readouterr().out
    assert "  starts   worker:1 after 50 ms, waiting for worker:1" in said
    assert "  device_filters of worker: /job:ps, /job:worker/task:{task}" in said
    first, second = json.loads((tmp_path / "a.json").read_text())["training"]["sessions"]
    assert (first["start_ns"], first["waits_for"]) == (0, None)
    assert first["device_filters"] == ["/job:ps", "/job:worker/task:0"]
    assert second["start_ns"] == 50_000_000


# ---- what is drawn


def events() -> Any:
    scene = trained()
    return scene, json.loads(draw_training(scene, known(scene)))


def test_trace_events_have_a_track_per_task_and_name_client_and_step() -> None:
    scene, text = events()
    names = {
        (one["pid"], one["tid"]): one["args"]["name"]
        for one in text["traceEvents"]
        if one["ph"] == "M" and one["name"] == "thread_name"
    }
    ops = [one for one in text["traceEvents"] if "client" in one.get("args", {})]
    assert {one["args"]["client"] for one in ops} == {"worker:0", "worker:1", "worker:2"}
    assert {one["args"]["step"] for one in ops if one["cat"] == "matrix"} == {0, 1}
    waits = [one for one in text["traceEvents"] if one.get("cat") == "session"]
    assert [one["name"] for one in waits] == ["waits for worker:2"] * 3
    assert {names[one["pid"], one["tid"]] for one in waits} == {f"steps of worker:{row}" for row in range(3)}
    steps = [one for one in text["traceEvents"] if one.get("cat") == "step"]
    training = known(scene).training
    assert len(steps) == len(training.step_client) + len(training.under_way)
    cut_off = [one["args"]["client"] for one in steps if "cut off" in one["args"]]
    assert cut_off == [training.clients[client] for client, _, _ in training.under_way] != []


def test_nothing_overlaps_on_a_track() -> None:
    _, text = events()
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for one in text["traceEvents"]:
        if one["ph"] == "X":
            tracks.setdefault((one["pid"], one["tid"]), []).append((one["ts"], one["ts"] + one["dur"]))
    for spans in tracks.values():
        spans.sort()
        assert all(begin >= end for (_, end), (begin, _) in pairwise(spans))


def test_arrows_follow_each_recorded_transfer_from_its_maker_to_its_reader() -> None:
    scene, text = events()
    training = known(scene).training
    spans: dict[tuple[int, int], list[tuple[float, float, Any]]] = {}
    arrows: dict[int, list[Any]] = {}
    assert training.trace is not None
    for one in text["traceEvents"]:
        if one["ph"] in "Xi":
            spans.setdefault((one["pid"], one["tid"]), []).append((one["ts"], one["ts"] + one.get("dur", 0), one))
        if one["ph"] in "stf":
            arrows.setdefault(one["id"], []).append(one)
    assert len(arrows) == len(training.trace.transfers.row)
    chains = []
    for stops in arrows.values():
        assert [one["ph"] for one in stops] == ["s", *"t" * (len(stops) - 2), "f"]
        assert all(one["ts"] <= other["ts"] for one, other in pairwise(stops))
        met = []
        for stop in stops:
            at = spans[stop["pid"], stop["tid"]]
            met.append([what for begin, end, what in at if begin <= stop["ts"] <= end])
        assert all(met)
        whose = [{(one["args"]["client"], one["args"]["step"]) for one in there} for there in met]
        assert set.intersection(*whose)  # one step of one client
        chains.append([there[-1]["cat"] for there in met])
    assert any(one[1:4] == ["packing", "transfer", "unpacking"] and len(one) == 5 for one in chains)


def test_what_was_recorded_is_on_the_clients_own_devices() -> None:
    scene = trained()
    drawn, clients_of = recorded(known(scene), scene.cluster), known(scene).clients
    ran = drawn.slices
    for client, at in set(zip(ran.client.tolist(), ran.lane.tolist(), strict=True)):
        if drawn.lanes[at].kind == "device":
            task = drawn.lanes[at].process
            assert "/job:ps/" in task or task == clients_of[client].program.task
    trace = known(scene).training.trace
    assert trace is not None
    whole = len(trace.ops.start_ns)
    worked = sum(drawn.labels[row].kind == "packing" for row in ran.label.tolist())
    assert len(ran.start_ns) >= whole + worked > whole


def test_a_small_file_keeps_the_steps_and_says_what_is_missing() -> None:
    scene = trained()
    text = json.loads(draw_training(scene, known(scene), max_bytes=60_000))
    assert "left_out" in text["otherData"]
    assert any(one.get("cat") == "step" for one in text["traceEvents"])


def test_a_trace_file_has_the_first_of_very_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viz.timeline.training_timeline.MOST_STEPS", 4)
    scene, text = events()
    assert sum(one.get("cat") == "step" for one in text["traceEvents"]) == 4
    assert f"of {len(known(scene).training.step_client)} steps" in text["otherData"]["bars"]


def test_the_command_writes_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("--cluster", "ps=2,worker=2", "--training", "async", "--steps", "4")
    assert main([str(EXAMPLE), *arguments, "-o", "a.html", "-o", "a.trace.json", "--json", "a.json"]) == 0
    assert "training async, 2 workers" in capsys.readouterr().out
    assert json.loads((tmp_path / "a.json").read_text())["training"]["updates"] == 8
    assert main([str(EXAMPLE), *arguments, "--quiet", "--json", "b.json"]) == 0
    assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text()


@pytest.mark.parametrize(("gap", "said"), [((), True), (("--gap", "380us"), False)])
def test_time_between_steps_that_nobody_has_given_is_said_where_it_matters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gap: tuple[str, ...], said: bool
) -> None:
    """Steps of a tenth of a millisecond are too short for it to be passed over in silence."""
    monkeypatch.chdir(tmp_path)
    ps, worker, kind = 'device: "/job:ps/task:0"', 'device: "/job:worker/task:0"', "value { type: DT_FLOAT }"
    number = f'attr {{ key: "dtype" {kind} }}'
    one = 'attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 1 } } }'
    nodes = (
        f'name: "v" op: "VarHandleOp" {ps} {number} attr {{ key: "shape" value {{ shape {{ }} }} }}',
        f'name: "rate" op: "Const" {ps} {number} {one}',
        f'name: "read" op: "ReadVariableOp" input: "v" {ps} {number}',
        f'name: "gradient" op: "Neg" input: "read" {worker} attr {{ key: "T" {kind} }}',
        f'name: "train" op: "ResourceApplyGradientDescent" input: "v" input: "rate" input: "gradient" {ps} '
        f'attr {{ key: "T" {kind} }}',
    )
    Path("small.pbtxt").write_text("".join(f"node {{ {node} }}\n" for node in nodes), encoding="utf-8")
    cluster = ["--cluster", "ps=1,worker=1", "--training", "async", "--steps", "10", "--fetch", "train"]
    assert main(["small.pbtxt", *cluster, *gap, "--quiet", "--json", "a.json"]) == 0
    notes = json.loads(Path("a.json").read_text(encoding="utf-8"))["training"]["notes"]
    assert any("--gap says what yours needs" in note for note in notes) == said


def test_sessions_that_need_different_times_between_steps_are_all_said() -> None:
    """The longest was given for all, beside a table that said the shortest."""
    on = TrainingRequest(read_regime("async"), steps=4)
    found = run(Request(str(EXAMPLE), cluster="worker=2x1gpu", ignore_devices=True, training=on)).training
    assert found is not None
    assert any(
        "is assumed to need 60 us to 380 us between two steps." in note for note in training_figures.notes(found)
    )


def test_time_between_steps_is_said_to_hold_a_training_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    options = [
        "--cluster",
        "ps=2,worker=2",
        "--training",
        "async",
        "--steps",
        "10",
        "--gap",
        "400ms",
        "--verbose",
        "-o",
        "a.html",
    ]
    assert main([str(EXAMPLE), *options]) == 0
    said = capsys.readouterr().out
    assert "The bottleneck is what sessions take between steps" in said
    assert "without that there would be" in said


def test_the_summary_says_how_many_updates_a_crash_took_back() -> None:
    """Only page and JSON did."""
    found = known(crashed())
    (updates,) = [line for line in summary_lines(found) if line.startswith("  updates")]
    assert updates.endswith(f"; crashes took back {found.training.lost_updates} updates")
    assert found.training.lost_updates > 1
    assert not any("took back" in line for line in summary_lines(known(trained())))


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_the_engine_that_is_asked_for_runs_the_training(engine: str) -> None:
    """And nothing is said of another one, as it was when there was none for trainings."""
    asked = TrainingRequest(read_regime("async"), steps=2)
    request = Request(
        str(EXAMPLE),
        simulation=SimulationOptions(engine=engine),
        cluster="ps=2,worker=1",
        algorithm="requested",
        training=asked,
    )
    found = known(run(request))
    assert found.training.trace is not None
    assert found.training.trace.engine == engine
    assert not any("loop" in line for line in summary_lines(found))


# ---- the page


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # selenium leaves its own sockets to the collector
def test_the_page_opens_with_the_training_and_has_the_step_beside_it(browser: WebDriver, tmp_path: Path) -> None:
    scene = trained()
    page = opened(browser, tmp_path, scene)
    settled(browser)
    assert complaints(browser) == []
    assert not page("document.getElementById('training').hidden")
    assert page("document.getElementById('board').hidden")
    for said in ("Asynchronous", "Bottleneck", "deterministic", "worker:2=late"):
        assert said in page("document.getElementById('training-words').innerText")
    for said in ("Staleness", "Busiest links", "Scaling", "worker:1"):
        assert said in page("document.getElementById('training-charts').innerText")
    shares = known(scene).answers.shares
    most = max(row[WAITING] for row in shares.tolist() if sum(row[:WAITING]) > 0)
    assert (
        page("document.getElementById('figures').innerText")
        .split("waits most\n")[1]
        .startswith(f"{most:.0%}".replace("%", " %"))
    )
    colours = "new Set(document.getElementById('steps').getContext('2d').getImageData(0, 0, 900, 250).data).size"
    assert page(colours) > 5  # something was drawn
    place = page("simviz.steps.hit(document.getElementById('steps').clientWidth / 2, 70).row.kind")
    assert place == "client"
    browser.find_element("id", "tab-step").click()
    settled(browser)
    assert page("document.getElementById('training').hidden")
    assert "makespan" in page("document.getElementById('figures').innerText")
    assert complaints(browser) == []


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # selenium leaves its own sockets to the collector
@pytest.mark.parametrize("workers", [1, 2])
def test_each_device_has_its_own_colour_as_in_a_step(browser: WebDriver, tmp_path: Path, workers: int) -> None:
    """They all had that of a client's task. Times of steps that are near had the same words on their axis."""
    noise = read_disturbance("worker:*=noise:lognormal:0.001")
    wanted = TrainingRequest(read_regime("async"), steps=3, disturbances=(noise,))
    page = opened(
        browser,
        tmp_path,
        run(Request(str(EXAMPLE), cluster=f"ps=2,worker={workers}x1gpu,protocol=rdma", training=wanted)),
    )
    page("document.getElementById('training').style.setProperty('--steps', '700px')")
    settled(browser)
    chips = (
        "(() => { const canvas = document.getElementById('steps'), pen = canvas.getContext('2d');"
        "const { a } = pen.getTransform();"
        "const { data } = pen.getImageData(19 * a, 0, 1, canvas.height);"
        "return simviz.steps.rows.filter((row) => row.kind === 'lane' && row.label).map((row) => {"
        "const at = 4 * Math.round((row.y + 28 + row.height / 2) * a); return data.slice(at, at + 3).join() }) })()"
    )
    found = page(chips)
    assert len(found) == len(set(found)) == 2 + 2 * workers
    axis = page("[...document.querySelectorAll('[aria-label=\"Times of steps\"] .middle')].map((one) => one.innerHTML)")
    assert len(axis) == len(set(axis))
    wanted_colours = page("simviz.model.cluster.colours")
    assert found == [",".join(map(str, rgb(colour))) for colour in wanted_colours]
    browser.find_element("id", "steps-first").click()
    settled(browser)
    assert complaints(browser) == []  # reading many pixels is one
    # of the colours of all devices, the upper part of a lane shows that of its own alone
    seen = page(UPPER_COLOURS, found)
    assert all(set(drawn) <= {colour} for drawn, colour in zip(seen, found, strict=True))
    assert sum(map(len, seen)) > 2  # the others have slices of no whole pixel alone


UPPER_COLOURS = """((known) => {
  const canvas = document.getElementById('steps'), pen = canvas.getContext('2d'), { a } = pen.getTransform();
  return simviz.steps.rows.filter((row) => row.kind === 'lane' && row.label).map((row) => {
    const { data } = pen.getImageData(190 * a, Math.round((row.y + 28 + 4) * a), canvas.width - 190 * a, 1);
    const seen = [...Array(data.length / 4).keys()].map((at) => data.slice(4 * at, 4 * at + 3).join());
    return [...new Set(seen)].filter((colour) => known.includes(colour));
  });
})(arguments[0])
"""


# ---- what is tried, and for whom it holds


def test_one_more_backup_worker_is_tried_with_graphs_of_its_own() -> None:
    """A synchronous run with one straggler gains much by it, as its updates no longer wait."""
    straggler = (read_disturbance("worker:2=slow:900"),)
    asked = TrainingRequest(read_regime("sync"), steps=60, disturbances=straggler)
    cluster = "ps=2,worker=3x1gpu,protocol=rdma"
    found = known(run(Request(str(EXAMPLE), cluster=cluster, algorithm="requested", training=asked)))
    (backup,) = (one for one in found.bottleneck.tried if one.relief.backups == 1)
    assert backup.gain > 5
    assert "one more of the workers as backup" in found.bottleneck.sentence
    assert str(found.regime) == "sync:aggregate=3,total=3,tokens=3"


@pytest.mark.parametrize(("asked", "tried"), [("sync:tokens=1", 1), ("sync", None)])
def test_one_more_backup_worker_is_tried_with_the_first_tokens_that_were_asked_for(
    asked: str, tried: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were those of the default, so that the relief changed two things."""
    regimes = []

    def noted(request: Request, asked: TrainingRequest, *rest: Any, **named: Any) -> Any:
        regimes.append(asked.regime)
        return make_programs(request, asked, *rest, **named)

    monkeypatch.setattr(training_run, "make_programs", noted)
    wanted = TrainingRequest(read_regime(asked), steps=10, disturbances=(read_disturbance("worker:2=slow:900"),))
    run(Request(str(EXAMPLE), cluster="ps=2,worker=3x1gpu,protocol=rdma", algorithm="requested", training=wanted))
    changed = [
        (one.aggregate, one.total, one.tokens) for one in regimes if one is not None and one.aggregate is not None
    ]
    assert changed == [(2, 3, tried)]


def inputs(*names: str) -> str:
    return " ".join(f'input: "{name}"' for name in names)


def uneven_graph() -> str:
    """Two layers, each a kernel of 4 MB and a bias of 40 bytes, in the order in which a script makes them."""
    node = 'node {{ name: "{0}" op: "{1}" {2} attr {{ key: "{3}" value {{ type: DT_FLOAT }} }} {4} }}'
    shaped = 'attr {{ key: "_output_shapes" value {{ list {{ shape {{ {0} }} }} }} }}'
    rate = 'attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 0.1 } } }'
    made = [node.format("rate", "Const", "", "dtype", rate + shaped.format(""))]
    for name, size in (("kernel0", 10**6), ("bias0", 10), ("kernel1", 10**6), ("bias1", 10)):
        shape = f"dim {{ size: {size} }}"
        known, declared = shaped.format(shape), f'attr {{ key: "shape" value {{ shape {{ {shape} }} }} }}'
        made += [
            node.format(name, "VariableV2", "", "dtype", declared + known),
            node.format(f"{name}/read", "Identity", inputs(name), "T", known),
            node.format(f"{name}/gradient", "Mul", inputs(f"{name}/read", f"{name}/read"), "T", known),
            node.format(f"{name}/update", "ApplyGradientDescent", inputs(name, "rate", f"{name}/gradient"), "T", known),
        ]
    updates = inputs(*(f"^{name}/update" for name in ("kernel0", "bias0", "kernel1", "bias1")))
    return "\n".join([*made, f'node {{ name: "train" op: "NoOp" {updates} }}'])


def test_a_gap_lies_between_the_steps_of_a_client() -> None:
    """Of one worker alone each step begins so much after the end of the one before."""
    asked = replace(wanted(*DEFAULT, "--gap", "2 ms"), steps=20)
    found = known(run(Request(str(EXAMPLE), cluster="ps=2,worker=1", algorithm="requested", training=asked)))
    training = found.training
    assert (training.step_start_ns[1:] - training.step_end_ns[:-1]).tolist() == [2_000_000] * 19


def test_variables_are_dealt_out_by_bytes_where_one_server_has_most(tmp_path: Path) -> None:
    """Round robin gives one of the two servers the large ones; a graph that names its jobs is left as it is."""
    path = tmp_path / "uneven.pbtxt"
    path.write_text(uneven_graph())
    asked = TrainingRequest(read_regime("async"), steps=20)
    found = known(run(Request(str(path), cluster="ps=2,worker=6", algorithm="requested", training=asked)))
    (dealt,) = (one for one in found.bottleneck.tried if one.relief.by_bytes)
    better = replace(asked, ps_strategy="bytes")
    alone = known(run(Request(str(path), cluster="ps=2,worker=6", algorithm="requested", training=better)))
    assert dealt.gain > 1.3
    assert dealt.steps_per_s == pytest.approx(alone.answers.steps_per_s, rel=0.02)
    assert not any(one.relief.by_bytes for one in alone.bottleneck.tried)
    assert not any(one.relief.by_bytes for one in known(trained()).bottleneck.tried)
    for how, why in (("in", "2gpu has no ps task"), ("allreduce:ring", "each device keeps all variables")):
        with pytest.raises(SimvizError, match=why):
            run(Request(str(path), cluster="2gpu", training=replace(better, replicate=how)))


def test_a_budget_holds_for_all_clients_of_a_training(tmp_path: Path) -> None:
    """Clients after the first, rows of --workers and reliefs were searched as long as by default."""
    path = tmp_path / "uneven.pbtxt"
    path.write_text(uneven_graph())
    budgets = []

    def noted(*given: Any, **options: Any) -> Any:
        budgets.append(options["effort"].judged)
        return place(*given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one_step, "place", noted)
        patch.setattr(sessions, "place", noted)
        asked = TrainingRequest(read_regime("sync"), steps=3, workers=(1, 2))
        run(Request(str(path), cluster="ps=2,worker=2", algorithm="search", budget="3", training=asked))
    assert len(budgets) > 2
    assert set(budgets) == {3}


def test_a_training_is_not_searched_where_that_makes_it_slower() -> None:
    """The search gained 2.5 us in a step of 12.1 ms, with which the workers kept each other waiting a third longer."""
    options: dict[str, Any] = {"cluster": "ps=2,worker=4x2gpu", "training": "async", "order": "tensorflow", "steps": 20}
    ours, plain = viz.run(EXAMPLE, **options), viz.run(EXAMPLE, algorithm="whitepaper", **options)
    assert ours.assignment.asked == "search"
    assert ours.assignment.used == plain.assignment.used
    assert known(ours).answers.steps_per_s == known(plain).answers.steps_per_s
    assert ours.assignment.notes[-1].startswith("a short training by single has 238.7 steps/s, by search 164.4 steps/s")
    assert "One step of worker:0 alone, placed by single, which beats search, takes" in summarise(ours)


def test_a_training_is_searched_where_that_makes_it_no_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is alone waits for no other, so its step says all."""
    asked = {"cluster": "ps=2,worker=4x2gpu", "training": "async", "steps": 5}
    assert viz.run(EXAMPLE, **asked).assignment.used == "search"  # type: ignore[arg-type]  # keywords of run
    monkeypatch.setattr(training_run, "short_rate", lambda setup: pytest.fail("runs are compared"))
    assert viz.run(EXAMPLE, **{**asked, "cluster": "ps=2,worker=1x2gpu"}).assignment.used == "search"  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["auto", "priority"])
def test_sessions_that_share_devices_take_turns_unless_priorities_are_asked_for(order: str) -> None:
    """Priorities are of one step. Those of several sessions were compared, and this training was a fifth slower."""
    options = ("--cluster", "ps=2,worker=4", *DEFAULT, "--algorithm", "search", "--budget", "20", "--steps", "5")

    def ran(order: str) -> Scene:
        return run(read_request(parser().parse_args([str(EXAMPLE), *options, "--order", order])))

    asked, first = ran(order), ran("fifo")
    trace = known(asked).training.trace
    assert trace is not None
    assert trace.order == ("fifo" if order == "auto" else "priority")
    assert asked.trace.order == trace.order
    same = known(asked).training.end_ns == known(first).training.end_ns
    assert same is (order == "auto")


@pytest.mark.parametrize("order", ["auto", "fifo"])
def test_a_session_that_has_its_devices_alone_runs_by_the_priorities_of_its_plan(order: str) -> None:
    options = (
        "--cluster",
        "2gpu",
        "--training",
        "sync",
        "--replicate",
        "in",
        "--algorithm",
        "search",
        "--budget",
        "20",
    )
    made = training_graph()
    request = read_request(parser().parse_args(["graph.pbtxt", *options, "--steps", "3", "--order", order]))
    found = run(replace(request, graph=made))
    trace = known(found).training.trace
    assert trace is not None
    assert len(known(found).clients) == 1
    assert trace.order == ("fifo" if order == "fifo" or found.assignment.priority is None else "priority")
    assert order == "fifo" or found.assignment.priority is not None


def test_what_has_no_size_is_said_once_of_all_clients() -> None:
    """It was said of the step of the first client, too."""
    scene = trained()
    pieces = replace(scene.partitions, nbytes=ints(np.full(len(scene.partitions.nbytes), -1)))
    of_all = "9 transfers of unknown size in a step of all clients, counted as 0 bytes."
    scene = replace(
        scene,
        partitions=pieces,
        trace=replace(scene.trace, notes=("Loops run once.", *unsized_transfers(pieces))),
        training=replace(known(scene), training=replace(known(scene).training, notes=(of_all,))),
    )
    said = summarise(scene, verbose=True)
    assert said.count("transfers of unknown size") == said.count(of_all) == said.count("Loops run once.") == 1
    assert said.count("of unknown size") == 1
    assert summarise(replace(scene, training=None), verbose=True).count("transfers of unknown size, counted") == 1


def test_no_backup_is_tried_where_every_worker_makes_several_gradients() -> None:
    """With one gradient less an update needs still more than there are workers: none of them is spare."""
    straggler = (read_disturbance("worker:1=slow:40"),)
    asked = TrainingRequest(read_regime("sync:aggregate=4"), steps=20, disturbances=straggler)
    cluster = "ps=2,worker=2x1gpu,protocol=rdma"
    found = known(run(Request(str(EXAMPLE), cluster=cluster, algorithm="requested", training=asked)))
    assert found.answers.gate_share > 0.02  # so it would be
    assert not any(one.relief.backups for one in found.bottleneck.tried)


def test_a_single_worker_that_averages_several_batches_is_said_to() -> None:
    """It was called "sync", of one client each of whose steps is an update."""
    asked = TrainingRequest(read_regime("sync:aggregate=3"), steps=4)
    scene = run(Request(str(EXAMPLE), cluster="ps=2,worker=1x1gpu", training=asked))
    assert record(known(scene))["regime"] == "sync:aggregate=3,total=1,tokens=3"
    assert "averages 3 gradients of 1 worker, which makes several" in known(scene).regime_in_words
    (dropped,) = [line for line in summarise(scene, verbose=True).splitlines() if line.startswith("  updates")]
    assert dropped.endswith("gradients dropped (one per variable counts)")
    assert "one step of worker:0 alone" in summarise(scene, verbose=True)
    assert "training   sync:aggregate=3,total=1,tokens=3, 1 client, " in summarise(scene, verbose=True)


def test_until_the_interval_is_narrow_more_steps_are_taken_or_it_is_said() -> None:
    noise = (read_disturbance("worker:*=noise:lognormal:0.5"),)
    asked = TrainingRequest(read_regime("async"), steps=8, until_ci=0.2, disturbances=noise)
    found = known(run(Request(str(EXAMPLE), cluster="ps=2,worker=6", algorithm="requested", training=asked)))
    assert found.narrow
    assert (found.answers.half_width or 1) <= 0.2
    assert found.steps % 8 == 0


@pytest.mark.parametrize(("how", "said"), [("in", "averaged and applied once"), ("allreduce:ring", "All-reduce")])
def test_one_client_is_explained_by_what_its_copies_do(how: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "alone.pbtxt"
    lines = EXAMPLE.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if not line.strip().startswith("device:")))
    asked = TrainingRequest(read_regime("sync"), replicate=how, steps=3)
    found = known(run(Request(str(path), cluster="2gpu", algorithm="tensorflow", training=asked)))
    assert said in found.regime_in_words
    assert record(found)["regime"] == "sync"
    assert found.workers == 1


def test_the_check_says_for_whom_it_stands() -> None:
    checked = {"mode": "predict", "differences": []}
    assert notes(replace(trained(), check=checked)) == ["worker:0 was checked and stands for worker:1, worker:2"]


def a_branch() -> Graph:
    """A variable whose gradient takes one of two ways: by a product of matrices or straight."""
    made = Rows()
    made.add("v", "VarHandleOp", dtype=type_attr(), shape=shape_attr(512, 512))
    made.add("p", "Placeholder", dtype=type_attr(BOOL), shape=shape_attr())
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(512, 512))
    made.add("rate", "Placeholder", dtype=type_attr(), shape=shape_attr())
    made.add("switch", "Switch", ["x", "p"], T=type_attr())
    made.add("product", "MatMul", ["switch:1", "switch:1"], T=type_attr())
    made.add("merge", "Merge", ["switch:0", "product"], T=type_attr(), N=AttrValue(i=2))
    made.add("train", "ResourceApplyGradientDescent", ["v", "rate", "merge"], T=type_attr())
    return made.built(producer=1882)


def test_a_training_says_that_a_branch_is_drawn_once_for_all_steps() -> None:
    """Its rate is that of one draw, and was called deterministic."""
    rates = set[float | None]()
    for seed in range(4):
        found = viz.run(a_branch(), cluster="1cpu", training="async", steps=3, branches={"p": 0.5}, seed=seed)
        assert found.training is not None
        rates.add(found.training.answers.steps_per_s)
        assert "deterministic for one draw of branches (" in found.summary()
        facts = found.summary(verbose=True)
        assert f"drawn once, for all steps of all clients (seed {seed}): p. All rates are those of this draw" in facts
        assert record(found.training)["drawn_once"] == ["p"]
    assert len(rates) == 2
    for way in (True, False, 1.0, 0.0):
        found = viz.run(a_branch(), cluster="1cpu", training="async", steps=3, branches={"p": way})
        assert found.training is not None
        assert ", deterministic (all" in found.summary()
        assert record(found.training)["drawn_once"] == []


@pytest.mark.parametrize("small", [0, 1])
def test_a_worker_without_enough_memory_is_named_whichever_it_is(
    small: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The weights of the largest layer take 12.2 MiB of each GPU."""
    text = 'protocol = "rdma"\n[[host]]\nname = "p"\n[[task]]\njob = "ps"\nhost = "p"\n'
    for worker in range(2):
        text += f'[model.own{worker}]\ntype = "GPU"\nmemory = "{8 if worker == small else 800} MB"\n'
        text += 'compute = "10 TFLOP/s"\nbandwidth = "500 GB/s"\n'
        text += f'[[host]]\nname = "w{worker}"\ngpus = "1 own{worker}"\n[[task]]\njob = "worker"\nhost = "w{worker}"\n'
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(text)
    how = ["--cluster", str(cluster), "--ignore-devices", "--training", "sync", "--replicate", "both", "--steps", "6"]
    assert main([str(EXAMPLE), *how, "--json", str(tmp_path / "result.json")]) == 1
    said = capsys.readouterr()
    assert f"Out of memory: worker:{small}/GPU:0 needs " in said.out
    assert f"worker/replica:0/task:{small}/device:GPU:0 runs out of memory" in said.err
    told = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))["out_of_memory"]
    assert told["device"] == f"/job:worker/replica:0/task:{small}/device:GPU:0"


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # selenium leaves its own sockets to the collector
def test_the_page_of_a_training_begins_with_the_memory_that_it_lacks(browser: WebDriver, tmp_path: Path) -> None:
    scene = trained()
    lacking = OutOfMemoryError(
        "full", device=scene.cluster.devices[-1].name, time_ns=5_000_000, needed_bytes=2**20, free_bytes=2**10
    )
    page = opened(browser, tmp_path, replace(scene, training=replace(known(scene), out_of_memory=lacking)))
    settled(browser)
    device = scene.cluster.devices[-1].short
    said = f"Out of memory\n{device} needs 1 MiB where 1 KiB are free, 5 ms into a step\n"
    assert (
        page("document.getElementById('training-words').innerText")
        .replace("\n\n", "\n")
        .replace("\u00a0", " ")
        .startswith(said)
    )
    assert page("document.getElementById('panel').textContent").startswith("Memory at its peak")  # that of a step, too


def test_a_training_feeds_what_a_step_feeds() -> None:
    fed = viz.run(
        EXAMPLE, cluster="ps=2,worker=1x1gpu", training="async", steps=2, feeds={"dense/MatMul:0": (64, 1024)}
    )
    assert "dense/MatMul/fed:0" in fed.step.feeds
    assert not fed.step.runs[fed.graph.row("dense/MatMul")]


def test_a_branch_that_updates_alone_take_can_be_chosen() -> None:
    """The chief's program has the predicate, and the workers' step, which is shown, does not."""
    how: dict[str, Any] = {"cluster": "ps=1,worker=2", "training": "sync", "steps": 2, "fetches": ["loss"]}
    for full in (False, True):
        found = viz.run(branching(), branches={"full/read": full}, **how).training
        assert found is not None
        assert len(found.training.update_ns) >= 2
    with pytest.raises(SimvizError, match="no predicate 'empty'"):
        viz.run(branching(), branches={"empty": True}, **how)
