import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simulator.cluster.chips import Chip, PeakParts
from simulator.cluster.cluster import Cluster, Device
from simulator.columns import ids
from simulator.costs.estimate import estimate
from simulator.costs.matching import with_measured
from simulator.costs.measured import fitted, for_other_batch
from simulator.costs.measurements.reading import from_step_stats, read_measurement
from simulator.costs.table import MEASURED, SOURCES, STATIC, CostTable
from simulator.errors import ClusterError
from simulator.graph.editor import edited
from simulator.graph.graph import Graph
from simulator.graph.messages import GraphDef, RunMetadata, StepStats
from simulator.training.programs.edits import copied
from tests.strategies import Rows, typed

CPU = Device("/job:localhost/replica:0/task:0/device:CPU:0", "CPU", "xeon", 2**34, 10**12, 10**11, 1000)
GPU = Device("/job:localhost/replica:0/task:0/device:GPU:0", "GPU", "a100", 2**34, 10**13, 10**12, 5000)
CLUSTER = Cluster((CPU, GPU), (), (((), ()), ((), ())), name="two devices")


def graph() -> Graph:
    made = Rows()
    made.add("a", "Placeholder", **typed("Placeholder", (64, 64)))
    made.add("b", "Neg", ["a"], **typed("Neg", (64, 64)))
    made.add("c", "Neg", ["b"], **typed("Neg", (64, 64)))
    return made.built()


def laid(tmp_path: Path, text: bytes | str, name: str = "times.csv") -> CostTable:
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    given = graph()
    return with_measured(estimate(given, CLUSTER), read_measurement(file), given, CLUSTER)


def stats(*rows: tuple[str, str, int, int]) -> Any:
    """StepStats of (device, node, start, end) in nanoseconds."""
    message = StepStats()
    devices = {}
    for device, node, start, end in rows:
        if device not in devices:
            devices[device] = message.dev_stats.add(device=device)
        devices[device].node_stats.add(node_name=node, op_start_rel_nanos=start, op_end_rel_nanos=end)
    return message


def test_csv_is_laid_over_the_estimate(tmp_path: Path) -> None:
    costs = laid(tmp_path, "node,kind,ns\n# a comment\n\nb,xeon,1234\nc, a100 ,5.2\n")
    assert costs.run_ns[1].tolist() == [1234, estimate(graph(), CLUSTER).run_ns[1, 1]]
    assert costs.run_ns[2, 1] == 6  # rounded up
    assert costs.source.tolist() == [STATIC, MEASURED, MEASURED]
    assert any(note.endswith("times.csv (CSV): matched 2 of 3 ops") for note in costs.notes)


def test_a_type_stands_for_all_its_kinds_and_a_device_for_its_own(tmp_path: Path) -> None:
    costs = laid(tmp_path, "b,cpu,7\nc,/job:localhost/replica:0/task:0/device:GPU:0,8\n")
    assert (costs.run_ns[1, 0], costs.run_ns[2, 1]) == (7, 8)


def test_a_price_is_measured_on_the_kinds_on_which_it_was(tmp_path: Path) -> None:
    costs = laid(tmp_path, "b,cpu,7\nc,gpu,8\n")
    assert [[SOURCES[one] for one in row] for row in costs.sources[1:].tolist()] == [
        ["measured", "static"], ["static", "measured"],
    ]  # fmt: skip
    assert {SOURCES[one] for one in costs.source[1:].tolist()} == {"measured"}
    own = replace(costs, source=ids([STATIC] * len(costs)))
    assert (own.sources == STATIC).all()


@pytest.mark.parametrize("half", ["xeon/2", "xeon*3/20", "xeon*3/20/2"])
def test_a_model_stands_for_its_parts_that_have_no_times_of_their_own(tmp_path: Path, half: str) -> None:
    """Two workers that share a host, or some of its cores, are parts of its model; a parameter server is all of it."""
    devices = [
        replace(CPU, name=f"/job:{job}/replica:0/task:0/device:CPU:0", kind=kind)
        for job, kind in (("ps", "xeon"), ("worker", half), ("other", "xeons/2"))
    ]
    cluster = Cluster(tuple(devices), (), (((),) * 3,) * 3, name="three tasks")
    file = tmp_path / "times.csv"
    file.write_text(f"b,xeon,10\nc,xeon,10\nc,{half},30\n")
    given = graph()
    before = estimate(given, cluster).run_ns
    costs = with_measured(estimate(given, cluster), read_measurement(file), given, cluster)
    assert costs.run_ns[1:].tolist() == [[10, 10, before[1, 2]], [10, 30, before[2, 2]]]
    assert costs.notes[-1] == "measured on another kind of CPU alone, so estimated on xeons/2: 2 ops"
    halves = Cluster(tuple(devices[1:]), (), (((),) * 2,) * 2, name="no whole one")
    costs = with_measured(estimate(given, halves), read_measurement(file), given, halves)
    assert costs.run_ns[1:].tolist() == [[10, before[1, 2]], [30, before[2, 2]]]


def test_several_times_give_the_median_rounded_up(tmp_path: Path) -> None:
    costs = laid(tmp_path, "b,xeon,10\nb,xeon,1\nb,xeon,100\nc,xeon,1\nc,xeon,4\n")
    assert costs.run_ns[1:, 0].tolist() == [10, 3]


def test_times_on_a_type_that_the_cluster_lacks_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "times.csv"
    file.write_text("b,gpu,9\nc,gpu,9\nc,cpu,7\n")
    alone = Cluster((CPU,), (), (((),),), name="one CPU")
    costs = with_measured(estimate(graph(), alone), read_measurement(file), graph(), alone)
    assert costs.run_ns[:, 0].tolist()[2] == 7
    assert any(note.endswith("one CPU has no device of their type: 2") for note in costs.notes)


def test_unknown_names_are_counted_and_the_partitioner_s_suffix_is_dropped(tmp_path: Path) -> None:
    costs = laid(tmp_path, "b/_12,xeon,9\nnowhere,xeon,1\n_SOURCE,xeon,1\n")
    assert costs.run_ns[1, 0] == 9
    assert any("not in the graph: 1 of 2 (nowhere)" in note for note in costs.notes)


def test_a_number_given_at_run_time_takes_no_name_from_another_op() -> None:
    """ "b/_3" is a Neg that was moved, and "c/_4" the constant of a control loop, which has c's name and not its op."""
    told = stats((CPU.name, "b/_3", 0, 70), (CPU.name, "c/_4", 0, 9), (CPU.name, "c/_5", 0, 80))
    for line, op in zip(told.dev_stats[0].node_stats, ("Neg", "Const", "_MklNeg"), strict=True):
        line.timeline_label = f"{line.node_name} = {op}(a)"
    given = graph()
    costs = with_measured(estimate(given, CLUSTER), from_step_stats(told), given, CLUSTER)
    assert costs.run_ns[1:, 0].tolist() == [70, 80]
    assert any("not in the graph: 1 of 3 (c/_4)" in note for note in costs.notes)


def test_numbers_within_a_name_differ_from_run_to_run(tmp_path: Path) -> None:
    made = Rows()
    made.add("a", "Placeholder", **typed("Placeholder", (64, 64)))
    made.add("while/body/_7/b", "Neg", ["a"], **typed("Neg", (64, 64)))
    given = made.built()
    file = tmp_path / "times.csv"
    file.write_text("while/body/_1/b/_23,cpu,5\n")
    assert with_measured(estimate(given, CLUSTER), read_measurement(file), given, CLUSTER).run_ns[1, 0] == 5


def test_a_second_file_adds_to_the_first(tmp_path: Path) -> None:
    given = graph()
    for name, text in (("one.csv", "b,xeon,10\n"), ("two.csv", "b,xeon,20\nc,xeon,3\nx,xeon,3\n")):
        (tmp_path / name).write_text(text)
    files = [read_measurement(tmp_path / name) for name in ("one.csv", "two.csv")]
    for order in (files, files[::-1]):
        costs = with_measured(estimate(given, CLUSTER), order, given, CLUSTER)
        assert costs.run_ns[1:, 0].tolist() == [15, 3]
    assert any(note.endswith("two.csv names that are not in the graph: 1 of 3 (x)") for note in costs.notes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "x,cpu,1\nbb,cpu,2\n",
            r"measured 'bb', 'x', and none of that is a node of .*, which has 'a', 'b', 'c'.*mean 'b'",
        ),
        ("_SOURCE,cpu,1\n", "has the session's own names only"),
        ("a,gpu,1\nb,gpu,1\n", "measured times on gpu, and one CPU has no device of that type"),
    ],
)
def test_a_file_of_which_nothing_is_used_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """Also beside one that is used."""
    alone = Cluster((CPU,), (), (((),),), name="one CPU")
    (tmp_path / "times.csv").write_text(text)
    (tmp_path / "used.csv").write_text("b,cpu,1\n")
    measured = [read_measurement(tmp_path / name) for name in ("times.csv", "used.csv")]
    for files in (measured[:1], measured, measured[::-1]):
        with pytest.raises(ClusterError, match=said):
            with_measured(estimate(graph(), alone), files, graph(), alone)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("b,xeon,1\nb,xeon,fast\n", 2, "not a number"),
        ("b,xeon,-1\n", 1, "not from 0"),
        ("b,xeon,nan\n", 1, "not from 0"),
        ("b,xeon,1e300\n", 1, "not from 0"),
        ("b,xeon\n", 1, "is not node,kind,ns"),
        ("\nb,xeno,3\n", 2, "Did you mean 'xeon'"),
        ("", None, "holds no measured times"),
        ("node,kind,ns\n", None, "holds no measured times"),
        ("step_stats { dev_stats { device: 3 } }", 1, "was cut, or is something else; give RunMetadata"),
        (b"\x00\x01\x02\xff", None, "holds no measured times"),
        (GraphDef().SerializeToString() + b"\n\x03\n\x01a", None, "holds no measured times"),
        ('b,xeon,"1', 1, "give RunMetadata"),
    ],
)
def test_bad_files_get_a_sentence_with_the_line(tmp_path: Path, text: bytes | str, line: int | None, said: str) -> None:
    with pytest.raises(ClusterError, match=said) as caught:
        laid(tmp_path, text)
    assert caught.value.line == line


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no such file"):
        read_measurement(tmp_path / "nothing.csv")


def test_step_stats_in_every_form(tmp_path: Path) -> None:
    told = stats((CPU.name, "b", 100, 350), (CPU.name, "c", 0, 40))
    whole = RunMetadata(step_stats=told)
    for content in (
        told.SerializeToString(),
        whole.SerializeToString(),
        str(told),
        str(whole),
        gzip.compress(whole.SerializeToString()),
    ):
        assert laid(tmp_path, content).run_ns[1:, 0].tolist() == [250, 40]


def test_kernels_count_on_a_gpu_and_the_launch_is_added() -> None:
    told = stats(
        (GPU.name, "b", 0, 999_999),  # the host's part: not what the GPU took
        ("/device:GPU:0/stream:all", "b:Neg", 0, 300),
        ("/device:GPU:0/stream:all", "b:Neg", 300, 500),
        ("/device:GPU:0/stream:7", "b:Neg", 0, 300),
        (GPU.name, "c", 0, 700),  # no kernels: the host's time counts
    )
    given = graph()
    costs = with_measured(estimate(given, CLUSTER), from_step_stats(told), given, CLUSTER)
    assert costs.run_ns[1:, 1].tolist() == [5000 + 500, 700]


@pytest.mark.parametrize(("kernel_ns", "op_ns"), [(500, 26_000), (21_000, 26_000), (30_000, 35_000)])
def test_a_measured_kernel_takes_no_less_than_its_dispatch(kernel_ns: int, op_ns: int) -> None:
    chip = Chip(1, own_dispatch_ns=26_000, reached=PeakParts(*[1.0] * 5))
    on = replace(CLUSTER, devices=tuple(replace(d, chip=chip if d.type == "GPU" else None) for d in CLUSTER.devices))
    told = stats(("/device:GPU:0/stream:all", "b:Neg", 0, kernel_ns))
    given = graph()
    assert with_measured(estimate(given, on), from_step_stats(told), given, on).run_ns[1, 1] == op_ns


def test_microseconds_count_where_there_are_no_nanoseconds() -> None:
    told = StepStats()
    told.dev_stats.add(device=CPU.name).node_stats.add(node_name="b", op_start_rel_micros=2, op_end_rel_micros=5)
    given = graph()
    assert with_measured(estimate(given, CLUSTER), from_step_stats(told), given, CLUSTER).run_ns[1, 0] == 3000


@pytest.mark.parametrize("op", ["_FusedMatMul", "_MklNativeFusedMatMul", "_MklFusedMatMul"])
def test_what_an_optimizer_joined_has_its_time_in_the_joined_kernel_alone(op: str) -> None:
    """A traced step of Keras had its dense layers twice: as joined kernels, and as estimates."""
    made = Rows()
    for name in ("x", "w", "b"):
        made.add(name, "Placeholder", **typed("Placeholder", (64, 64)))
    made.add("product", "MatMul", ["x", "w"], **typed("MatMul", (64, 64)))
    made.add("bias", "AddV2", ["product", "b"], **typed("AddV2", (64, 64)))
    made.add("relu", "Relu", ["bias"], **typed("Relu", (64, 64)))
    made.add("other", "MatMul", ["relu", "w"], **typed("MatMul", (64, 64)))
    given = made.built()
    message = stats((CPU.name, "relu", 0, 700_000))
    message.dev_stats[0].node_stats[0].timeline_label = f"relu = {op}(x, w, b)"
    estimated = estimate(given, CLUSTER)
    costs = with_measured(estimated, from_step_stats(message), given, CLUSTER)
    rows = [given.index[name] for name in ("product", "bias", "relu", "other")]
    assert costs.run_ns[rows, 0].tolist() == [0, 0, 700_000, estimated.run_ns[given.index["other"], 0]]
    assert costs.run_ns[rows, 1].tolist() == estimated.run_ns[rows, 1].tolist()
    assert costs.notes[-1] == "measured within a later op's kernel, so without a time of their own: bias, product"


@pytest.mark.parametrize(
    ("op", "joined"), [("_MklNativeMatMul", ["product", "sigmoid"]), ("_MklSwish", ["sigmoid"]), ("Mul", [])]
)
def test_a_product_that_took_in_a_factor_and_a_swish_stand_for_what_is_before_them(op: str, joined: list[str]) -> None:
    made = Rows()
    for name in ("x", "w"):
        made.add(name, "Placeholder", **typed("Placeholder", (64, 64)))
    made.add("product", "MatMul", ["x", "w"], **typed("MatMul", (64, 64)))
    made.add("sigmoid", "Sigmoid", ["product"], **typed("Sigmoid", (64, 64)))
    made.add("last", "Mul", ["product", "sigmoid"], **typed("Mul", (64, 64)))
    given = made.built()
    message = stats((CPU.name, "last", 0, 700_000))
    message.dev_stats[0].node_stats[0].timeline_label = f"last = {op}(x, w)"
    costs = with_measured(estimate(given, CLUSTER), from_step_stats(message), given, CLUSTER)
    assert [given.names[row] for row in range(len(given)) if not costs.run_ns[row, 0]] == joined


def dense(batch: int) -> Graph:
    """relu(x @ w)"""
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", (batch, 512)))
    made.add("w", "Placeholder", **typed("Placeholder", (512, 512)))
    made.add("product", "MatMul", ["x", "w"], **typed("MatMul", (batch, 512)))
    made.add("relu", "Relu", ["product"], **typed("Relu", (batch, 512)))
    return made.built()


def joined_step(*others: tuple[str, str, int, int]) -> StepStats:
    """A traced step of `dense`, joined on the CPU, and other ops."""
    message = stats((CPU.name, "relu", 0, 700_000), *others)
    message.dev_stats[0].node_stats[0].timeline_label = "relu = _FusedMatMul(x, w)"
    return message


def test_a_joined_kernel_changes_with_the_batch_as_its_product_does() -> None:
    """Not as its activation alone, which the caches keep until it is too large for them. So do its copies."""
    small, large = dense(8), dense(64)
    editor = edited(large, as_made=False)
    rows = [large.index["product"], large.index["relu"]]
    copied(editor, rows, "microbatch_1/", dict.fromkeys(rows, ""))
    two = editor.built()
    rows += [two.index[f"microbatch_1/{name}"] for name in ("product", "relu")]
    costs = with_measured(estimate(two, CLUSTER), from_step_stats(joined_step()), two, CLUSTER)
    here, there = (int(estimate(one, CLUSTER).run_ns[one.index["product"], 0]) for one in (large, small))
    found = for_other_batch(costs, two, small, CLUSTER)
    assert found.run_ns[rows, 0].tolist() == [0, round(700_000 * here / there)] * 2


def test_a_product_is_joined_on_the_kinds_on_which_it_was() -> None:
    """A time on a GPU once left the estimate on the CPU beside the joined kernel."""
    small, large = dense(8), dense(64)
    rows = [large.index["product"], large.index["relu"]]
    message = joined_step((GPU.name, "product", 0, 90_000), (GPU.name, "relu", 0, 20_000))
    costs = with_measured(estimate(large, CLUSTER), from_step_stats(message), large, CLUSTER)
    assert costs.run_ns[rows].tolist() == [[0, 90_000], [700_000, 20_000]]
    here, there = (int(estimate(one, CLUSTER).run_ns[one.index["relu"], 1]) for one in (large, small))
    assert for_other_batch(costs, large, small, CLUSTER).run_ns[rows[1], 1] == round(20_000 * here / there)


def test_a_product_with_a_time_of_its_own_keeps_it() -> None:
    made = Rows()
    for name in ("x", "w", "b"):
        made.add(name, "Placeholder", **typed("Placeholder", (64, 64)))
    made.add("product", "MatMul", ["x", "w"], **typed("MatMul", (64, 64)))
    made.add("bias", "BiasAdd", ["product", "b"], **typed("BiasAdd", (64, 64)))
    given = made.built()
    message = stats((CPU.name, "bias", 0, 700_000), (CPU.name, "product", 0, 300_000))
    message.dev_stats[0].node_stats[0].timeline_label = "bias = _FusedMatMul(x, w, b)"
    costs = with_measured(estimate(given, CLUSTER), from_step_stats(message), given, CLUSTER)
    assert costs.run_ns[given.index["product"], 0] == 300_000


def test_a_measurement_makes_no_kernel(tmp_path: Path) -> None:
    made = Rows()
    made.add("a", "ReadFile", ["s"])
    made.add("s", "Const")
    given = made.built()
    file = tmp_path / "times.csv"
    file.write_text("a,a100,5\n")
    costs = with_measured(estimate(given, CLUSTER), read_measurement(file), given, CLUSTER)
    assert costs.run_ns[0, 1] == -1
    assert any("no such kernel: 1" in note for note in costs.notes)


def test_a_folder_holds_no_times(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="is a folder; give RunMetadata"):
        read_measurement(tmp_path)


def test_a_cluster_with_fewer_tasks_leaves_out_what_it_lacks(tmp_path: Path) -> None:
    """Its kinds are those of the described one; a device there that it lacks stands for no other kind of its type."""
    v100 = Device("/job:worker/replica:0/task:1/device:GPU:0", "GPU", "v100", 2**34, 10**13, 10**12, 5000)
    described = Cluster((CPU, GPU, v100), (), (((),) * 3,) * 3, name="three devices")
    file = tmp_path / "times.csv"
    file.write_text(f"b,v100,1\nb,{v100.name},1\nb,a100,5\nc,gpu,7\n")
    given, told = graph(), read_measurement(file)
    before = estimate(given, CLUSTER).run_ns
    costs = with_measured(estimate(given, CLUSTER), told, given, CLUSTER, described=described)
    assert costs.run_ns[1:].tolist() == [[before[1, 0], 5], [before[2, 0], 7]]
    alone = Cluster((CPU,), (), (((),),), name="one CPU")
    unused = with_measured(estimate(given, alone), told, given, alone, described=described)
    assert unused.run_ns.tolist() == estimate(given, alone).run_ns.tolist()
    with pytest.raises(ClusterError, match="has no device kind 'v100'"):
        with_measured(estimate(given, CLUSTER), told, given, CLUSTER)


def test_a_host_with_fewer_tasks_takes_the_times_that_were_measured_on_its_parts(tmp_path: Path) -> None:
    other = "/job:other/replica:0/task:0/device:CPU:0"
    described, fewer = (
        Cluster((replace(CPU, kind=kind), replace(CPU, name=other, kind="xeon")), (), (((),) * 2,) * 2, name=kind)
        for kind in ("xeon/4", "xeon/2")
    )
    file, given = tmp_path / "times.csv", graph()
    for where in ("xeon/4", CPU.name, "CPU"):
        file.write_text(f"b,{where},7\n")
        costs = with_measured(estimate(given, fewer), read_measurement(file), given, fewer, described=described)
        assert costs.run_ns[1, costs.kinds.index("xeon/2")] == 7, where


def test_traced_times_are_fitted_to_the_step_without_tracing() -> None:
    """Those of each device by one factor; what fits already stays."""
    told = stats((CPU.name, "a", 0, 60), (CPU.name, "b", 0, 141), (GPU.name, "c", 0, 10))
    found = from_step_stats(told)
    assert [one.ns for one in fitted(found, 100).samples] == [30, 71, 5]
    assert fitted(found, 201) is found
    assert [one.ns for one in fitted(found, 100, lanes=2).samples] == [60, 141, 10]
    assert [one.ns for one in fitted(found, 221, dispatch_ns=10).samples] == [70, 151, 20]
    assert [one.ns for one in fitted(found, 120, dispatch_ns=10).samples] == [40, 81, 15]  # half of each, and 10
    with_loop = from_step_stats(stats((CPU.name, "a", 0, 60), (CPU.name, "a", 60, 150), (CPU.name, "b", 0, 1)))
    assert [(one.ns, one.runs) for one in with_loop.samples] == [(75, 2), (1, 1)]
    assert [one.ns for one in fitted(with_loop, 76).samples] == [38, 1]
    with pytest.raises(ClusterError, match="said to take 0 ns"):
        fitted(found, 0)


def test_the_op_is_read_behind_the_memory_that_it_took() -> None:
    told = stats((CPU.name, "b/_3", 0, 70))
    told.dev_stats[0].node_stats[0].timeline_label = "[cpu 1.5MB 27.0MB] b/_3 = Neg(a)"
    assert [one.op for one in from_step_stats(told).samples] == ["Neg"]
