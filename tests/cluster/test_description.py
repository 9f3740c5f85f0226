"""Clusters from files, presets, TF_CONFIG, nvidia-smi's matrix, and from the graph itself."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.copies import LOOK_NS
from simulator.cluster.description import load_cluster, presets
from simulator.cluster.device_strings import default_cluster, named_cluster
from simulator.cluster.models import find_model, model_of
from simulator.errors import ClusterError
from simulator.graph.building import build
from tests.cluster.routes import names, route

TOML = """\
name = "two boxes"

[model.mine]
type = "GPU"
memory = "24 GB"
compute = "30 TFLOP/s"
bandwidth = "600 GB/s"

[[host]]
name = "box"
count = 2
gpus = "2 mine"
nic = { bandwidth = "100 Gbit/s", latency = "20 us" }

[[task]]
job = "worker"
host = "box0"
gpus = [1]

[[task]]
job = "ps"
host = "box1"
gpus = []

[[task]]
job = "worker"
host = "box1"
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "cluster.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_toml_says_which_gpu_is_whose(tmp_path: Path) -> None:
    cluster = load_cluster(written(tmp_path, TOML))
    assert [d.short for d in cluster.devices] == [
        "worker:0/CPU:0", "worker:0/GPU:0", "ps:0/CPU:0", "worker:1/CPU:0", "worker:1/GPU:0", "worker:1/GPU:1",
    ]  # fmt: skip
    assert cluster.devices[1].memory_bytes == 24 * 10**9
    assert names(cluster, 1, 5) == [
        "box0 gpu1 pcie out", "box0 nic out", "box1 nic in", "box1 gpu1 pcie in",
    ]  # fmt: skip
    assert names(cluster, 2, 4) == ["box1 loopback", "box1 gpu0 pcie in"]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('memory = "24 GB"', 'memory = "24 XB"', 5, "unknown unit 'XB'"),
        ('compute = "30 TFLOP/s"', "compute = 30", 6, "model 'mine'"),
        ('compute = "30 TFLOP/s"', 'compute = { float32 = "30 TB/s" }', 6, "compute: float32"),
        ('compute = "30 TFLOP/s"', 'compute = "30 TFLOP/s"\nmatrix_compute = { fp16 = "9 TFLOP/s" }', 7, "'fp16'"),
        ('"100 Gbit/s"', '"100 Gx"', 13, "unknown unit 'Gx'"),
        ('"100 Gbit/s"', '"0 Gbit/s"', 13, "bandwidth from 1 to"),
        ("count = 2", "cuont = 2", 11, "Did you mean 'count'"),
        ("gpus = [1]", "gpus = [2]", 18, "from 0 to 1"),
        ('host = "box1"\ngpus = []', 'host = "bix1"\ngpus = []', 22, "no host 'bix1'"),
        ('gpus = "2 mine"', 'gpus = "2 nine"', 12, "no device model 'nine'"),
        ('name = "two boxes"', "name = two", 1, "not TOML"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, old: str, new: str, line: int, words: str) -> None:
    assert TOML.count(old) == 1
    with pytest.raises(ClusterError, match=words) as caught:
        load_cluster(written(tmp_path, TOML.replace(old, new)))
    assert caught.value.line == line
    assert str(line) in str(caught.value)


def test_a_launch_that_a_model_does_not_give_is_said(tmp_path: Path) -> None:
    assert any("mine gives no launch: 4 us" in note for note in load_cluster(written(tmp_path, TOML)).notes)
    said = load_cluster(written(tmp_path, TOML.replace('type = "GPU"', 'type = "GPU"\nlaunch = "3 us"'))).notes
    assert not any("launch" in note for note in said)


CORES = """
[model.mine]
type = "CPU"
memory = "24 GB"
compute = "1 TFLOP/s"
bandwidth = "60 GB/s"
cores = 12

[[host]]
name = "box"
cpu = "mine"

[[host]]
name = "pinned"
cores = 2

[[task]]
job = "ps"
host = "box"

[[task]]
job = "worker"
host = "pinned"
count = 2
"""


def test_cores_are_the_model_s_or_as_a_host_says(tmp_path: Path) -> None:
    cluster = load_cluster(written(tmp_path, CORES))
    assert [(d.short, d.kind, d.cores) for d in cluster.devices] == [
        ("ps:0/CPU:0", "mine", 12), ("worker:0/CPU:0", "cpu/10/2", 1), ("worker:1/CPU:0", "cpu/10/2", 1),
    ]  # fmt: skip
    assert not any("gives no cores" in note for note in cluster.notes)
    assert "CPU model cpu/10: Xeon Gold 6248 (20 cores), of which processes have 2" in cluster.notes
    silent = load_cluster(written(tmp_path, CORES.replace("cores = 12\n", "")))
    assert silent.devices[0].cores == 1
    assert any("mine gives no cores: one is assumed" in note for note in silent.notes)


@pytest.mark.parametrize(("cores", "kind"), [(1, "cpu/20"), (3, "cpu*3/20"), (20, "cpu"), (40, "cpu*2")])
def test_the_cores_of_a_host_are_a_part_of_the_model_s_speed(tmp_path: Path, cores: int, kind: str) -> None:
    one = load_cluster(written(tmp_path, CORES.replace("cores = 2\n", f"cores = {cores}\n").replace("count = 2\n", "")))
    whole, part = find_model("cpu"), one.devices[1]
    assert (part.kind, part.cores, part.memory_bytes, model_of(kind)) == (kind, cores, whole.memory_bytes, "cpu")
    assert part.flop_per_s == whole.flop_per_s * cores // 20
    assert part.bytes_per_s == whole.bytes_per_s * cores // 20
    assert part.peaks.int8 == whole.peaks.int8 * cores // 20


def test_a_model_that_gives_no_cores_has_the_speed_of_those_that_are_there(tmp_path: Path) -> None:
    text = CORES.replace("cores = 12\n", "").replace('name = "box"\n', 'name = "box"\ncores = 4\n')
    device = load_cluster(written(tmp_path, text)).devices[0]
    assert (device.kind, device.cores, device.flop_per_s) == ("mine*4", 4, 10**12)


def test_hosts_of_one_model_with_other_cores_are_of_other_kinds(tmp_path: Path) -> None:
    """A profile prices a kind by its cores, and took the fewest of all hosts for each."""
    text = CORES.replace("cores = 12\n", "").replace('name = "box"\n', 'name = "box"\ncores = 4\n')
    cluster = load_cluster(written(tmp_path, text.replace('name = "pinned"\n', 'name = "pinned"\ncpu = "mine"\n')))
    assert [(d.kind, d.cores, model_of(d.kind)) for d in cluster.devices] == [
        ("mine*4", 4, "mine"), ("mine*2/2", 1, "mine"), ("mine*2/2", 1, "mine"),
    ]  # fmt: skip
    assert not any("gives no cores" in note for note in cluster.notes)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("cores = 12", "cores = 0", 7, "cores: 0 is not a number of cores from 1 to 4096"),
        ("cores = 12", 'cores = "12"', 7, "cores: '12' is not"),
        ("cores = 2\n", "cores = 5000\n", 15, "cores: 5000 is not"),
        ('"CPU"', '"GPU"', 7, "cores: 12 of a GPU; its messages are the work of its host's CPU"),
    ],
)
def test_a_wrong_number_of_cores_is_named(tmp_path: Path, old: str, new: str, line: int, words: str) -> None:
    with pytest.raises(ClusterError, match=words) as caught:
        load_cluster(written(tmp_path, CORES.replace(old, new)))
    assert caught.value.line == line


def test_a_gpu_has_one_owner(tmp_path: Path) -> None:
    text = '[[host]]\nname = "a"\ngpus = "1 t4"\n[[task]]\njob = "x"\n[[task]]\njob = "y"\n'
    with pytest.raises(ClusterError, match="belongs to /job:x/replica:0/task:0 and to /job:y/replica:0/task:0"):
        load_cluster(written(tmp_path, text))


@pytest.mark.parametrize("name", presets())
def test_presets_load_and_state_their_sources(name: str) -> None:
    cluster = load_cluster(name)
    assert any(note.startswith("figures: ") and "20" in note for note in cluster.notes)
    assert all(route is not None for row in cluster.routes for route in row)


def test_dgx1_joins_each_gpu_by_six_nvlinks() -> None:
    cluster = load_cluster("dgx1-v100")
    for gpu in range(1, 9):
        rates = [
            cluster.links[route[0]].bytes_per_s
            for route in cluster.routes[gpu][1:]
            if route and "nvlink" in cluster.links[route[0]].name
        ]
        assert sum(rates) == 6 * 25 * 10**9


def test_tf_config_puts_tasks_of_one_address_on_one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"ps": ["a:1"], "worker": ["a:2", "b:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": spec, "task": {"type": "worker", "index": 0}}))
    cluster = load_cluster("TF_CONFIG")
    assert [d.host for d in cluster.devices] == ["a", "a", "b"]
    assert names(cluster, 0, 1) == ["a loopback"]
    assert load_cluster(spec).index == cluster.index


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(("a:1", "0", "1" * 5000)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
JOBS = st.dictionaries(
    st.sampled_from(("ps", "worker", "a/b", "", ":", "1")) | st.text(max_size=5), ANYTHING, max_size=3
)


@given(st.one_of(ANYTHING, st.fixed_dictionaries({"cluster": JOBS | ANYTHING, "task": ANYTHING})))
def test_tf_config_of_any_shape_is_a_cluster_or_a_sentence(document: object) -> None:
    refused = ""
    try:
        shown = [device.short for device in load_cluster("{" + json.dumps(document).removeprefix("{")).devices]
    except ClusterError as error:
        refused = str(error)
    assert 0 < len(refused) < 600 or shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"cluster": {"a/b": ["h:1"]}}', "no task 0 of the job 'a/b': a job's name is of letters"),
        ('{"cluster": {"ps": {"2147483648": "h:1"}}}', "task 2147483648 of the job 'ps'"),
        ('{"cluster": {"ps": {"%s": "h:1"}}}' % ("1" * 5000), "has a task '1+...1+'; give a number"),
        ('{"cluster": {"ps": ["h:1"]}, "task": %s}' % ("1" * 5000), "a number of thousands of digits"),
        ('{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_a_tf_config_that_names_no_tasks_is_refused(text: str, words: str) -> None:
    with pytest.raises(ClusterError, match=words) as caught:
        load_cluster(text)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "1" * 5000, "a number of thousands of digits"),
        ("a = 0x1" + "0" * 5000, "a number in TOML has 64 bits"),
        ("a = [{b = [9223372036854775808]}]", "0x8000000000000000; a number in TOML has 64 bits"),
        ("a = " + "[" * 100_000, "nested too deeply"),
        ('[[host]]\n[[task]]\njob = "ps"\ntask = 2147483648', "no task 2147483648 of the job 'ps'"),
        ('[[host]]\nnic = { bandwidth = "%s GB/s" }' % ("1" * 5000), "is not a bandwidth such as"),
    ],
)
def test_a_number_or_a_nest_without_end_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ClusterError, match=words) as caught:
        load_cluster(written(tmp_path, text))
    assert len(str(caught.value)) < 600


MATRIX = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\x1b[0m
GPU0\t X \tNV2\tSYS\tSYS\tPIX\t0-9
GPU1\tNV2\t X \tSYS\tSYS\tPIX\t0-9
GPU2\tSYS\tSYS\t X \tPIX\tSYS\t10-19
GPU3\tSYS\tSYS\tPIX\t X \tSYS\t10-19
NIC0\tPIX\tPIX\tSYS\tSYS\t X

Legend:
"""


def test_nvidia_matrix_gives_links(tmp_path: Path) -> None:
    path = written(tmp_path, MATRIX)
    cluster = load_cluster(f"{path}@v100")
    assert cluster.kinds == ("cpu", "v100")
    bond = route(cluster, 1, 2)[0]
    assert (bond.name, bond.bytes_per_s) == ("host nvlink 0>1", 50 * 10**9)
    assert names(cluster, 3, 4) == ["host gpu2 pcie out", "host gpu3 pcie in"]
    assert names(cluster, 1, 3) == [
        "host gpu0 pcie out", "host socket 0>1", "host switch0 in", "host gpu2 pcie in",
    ]  # fmt: skip
    assert route(cluster, 1, 3)[1] is route(cluster, 2, 4)[1], "NVLink hides it, but GPU 0 and GPU 1 share a socket"
    assert cluster.transfer_ns(1, 3, 0) == 5_000 + 1_000 + 100 + 5_000 + LOOK_NS, (
        "a switch adds little to a copy over PCIe"
    )
    assert any("does not name the GPU model" in note for note in load_cluster(path).notes)


def test_nvidia_matrix_with_one_speed_everywhere_is_a_switch(tmp_path: Path) -> None:
    rows = [f"GPU{a}\t" + "\t".join("X" if a == b else "NV12" for b in range(4)) for a in range(4)]  # of a DGX A100
    cluster = load_cluster(f"{written(tmp_path, chr(10).join(rows))}@a100")
    assert names(cluster, 1, 2) == ["host gpu0 nvlink out", "host gpu1 nvlink in"]
    assert route(cluster, 1, 2)[0].bytes_per_s == 300 * 10**9


def equal(count: int, cell: str, *, head: str = "", before: str = "") -> str:
    rows = [f"{before}GPU{a}  " + "  ".join(" X " if a == b else cell for b in range(count)) for a in range(count)]
    return "\n".join([head, *rows, ""])


@pytest.mark.parametrize(
    ("count", "cell", "model", "switched"),
    [
        (8, "NV18", "h100", True),  # HGX H100
        (4, "NV6", "h100", False),  # four H100 without a switch: 3 x 6 links
        (4, "NV4", "a100", False),  # four A100 without a switch: 3 x 4 links
        (8, "NV12", "a100-40gb", True),  # DGX A100
        (8, "NV8", "h100", True),  # H800
        (16, "NV6", "v100", True),  # DGX-2
        (4, "NV1", "p100", False),
        (2, "NV4", "a10", False),
    ],
)
def test_a_switch_is_told_from_bonds_by_the_links_a_gpu_has(
    tmp_path: Path, count: int, cell: str, model: str, switched: bool
) -> None:
    cluster = load_cluster(f"{written(tmp_path, equal(count, cell))}@{model}")
    assert len(cluster) == count + 1
    assert len(route(cluster, 1, 2)) == (2 if switched else 1)
    width = int(cell[2:]) * (20 if model == "p100" else 25) * 10**9
    assert route(cluster, 1, 2)[0].bytes_per_s == width


@pytest.mark.parametrize(
    "head", ["", "GPU0  GPU1  GPU2  CPU Affinity  NUMA Affinity  GPU NUMA ID", "\tGPU0  GPU1  GPU2  mlx5_0"]
)
@pytest.mark.parametrize("before", ["", "    "])
@pytest.mark.parametrize("cell", ["SYS", "SOC", "NODE", "PHB", "PIX", "PXB"])
def test_a_matrix_may_be_indented_and_have_any_head(tmp_path: Path, head: str, before: str, cell: str) -> None:
    cluster = load_cluster(f"{written(tmp_path, equal(3, cell, head=head, before=before))}@t4")
    assert [d.short for d in cluster.devices][1:] == ["localhost:0/GPU:0", "localhost:0/GPU:1", "localhost:0/GPU:2"]
    assert sum("socket" in link.name for link in cluster.links) == (6 if cell in ("SYS", "SOC") else 0)


def test_one_gpu_alone_is_a_matrix(tmp_path: Path) -> None:
    text = "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tNODE\t0-31\t0\t\tN/A\nNIC0\tNODE\t X\n"
    assert len(load_cluster(f"{written(tmp_path, text)}@h200")) == 2
    assert len(load_cluster(f"{written(tmp_path, text.lstrip())}@h200")) == 2


def test_a_torn_matrix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="line 3"):
        load_cluster(written(tmp_path, MATRIX.replace("GPU1\tNV2\t X \tSYS\tSYS", "GPU1\tNV2\t X")))
    with pytest.raises(ClusterError, match="symmetric"):
        load_cluster(written(tmp_path, MATRIX.replace("GPU1\tNV2", "GPU1\tNV1")))


@pytest.mark.parametrize("text", [3, None, "nothing", "/nowhere.toml", ".", "{}", '{"cluster": {"ps": 3}}', "x" * 5000])
def test_what_is_no_cluster_is_refused(text: Any) -> None:
    with pytest.raises(ClusterError):
        load_cluster(text)


@pytest.mark.parametrize(
    ("devices", "named"),
    [
        (["", ""], None),
        (["/job:worker/task:1", "/job:ps/task:0/cpu:0"], "ps=1,worker=2"),
        (["/job:worker/task:0/device:GPU:1", "/job:ps/task:2"], "ps=3,worker=1x2gpu"),
        (["/gpu:1", "/job:worker", "/job:ps"], "ps=1,worker=1x2gpu"),
        (["/job:worker/task:0/cpu:1", "/job:worker/task:0/cpu:0"], "worker=1x2cpu"),
        (["/cpu:2", "/job:worker/task:1/cpu:0", "/job:ps/cpu:0"], "ps=1,worker=2x3cpu"),
        (["/device:GPU:3", "/cpu:0"], "4gpu"),
        (["/cpu:1", ""], "2cpu,4gpu"),
        (["/job:localhost/task:0/cpu:0"], None),
        (["/cpu:0"], None),
        (["/gpu:not-a-number"], None),
    ],
)
def test_the_cluster_that_a_graph_names(devices: Sequence[str], named: str | None) -> None:
    names = [f"n{row}" for row in range(len(devices))]
    graph = build(names, ["NoOp"] * len(names), devices, [[]] * len(names), [{}] * len(names))
    assert named_cluster(graph) == named
    cluster = default_cluster(graph)
    assert cluster.name == (named or "4gpu")
    assert "no cluster was given" in cluster.notes[0]


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        (["", ""], "the graph names no device"),
        (["/device:CPU:0", "/device:CPU:0"], "strings ('/device:CPU:0' 2) name no GPU and no second task"),
        (["/job:localhost/cpu:0", "/device:TPU:0"], "name no GPU and no second task"),
    ],
)
def test_what_device_strings_say_is_not_denied(devices: Sequence[str], said: str) -> None:
    graph = build(["a", "b"], ["NoOp"] * 2, devices, [[]] * 2, [{}] * 2)
    assert said in default_cluster(graph).notes[0]
    assert "are ignored" in default_cluster(graph, ignored=True).notes[0]


@pytest.mark.parametrize(("device", "what"), [("/cpu:0", "these CPUs and no GPU"), ("/gpu:3", "it")])
def test_gpus_that_a_graph_does_not_name_are_told_apart(device: str, what: str) -> None:
    graph = build(["a", "b"], ["NoOp"] * 2, ["/cpu:1", device], [[]] * 2, [{}] * 2)
    said = f"no cluster was given: 2cpu,4gpu, as the graph's device strings name {what}"
    assert default_cluster(graph).notes[0] == said


def test_a_graph_that_names_too_much_is_told_so() -> None:
    graph = build(["a"], ["NoOp"], ["/job:worker/task:999999999"], [[]], [{}])
    with pytest.raises(ClusterError, match="give --cluster"):
        default_cluster(graph)


@pytest.mark.parametrize(
    "text",
    [
        f'[[host]]\nname = "{"h" * 60_000}"\ncount = 60000\n',
        f'[[host]]\nname = "h"\ncount = 60000\n[[task]]\njob = "{"w" * 60_000}"\nhost = "h"\ncount = 60000\n',
        json.dumps({"cluster": {"w" * 1000: ["a:1", "b:2"]}}),
        json.dumps({"cluster": {"worker": ["a" * 1000, "b:2"]}}),
    ],
)
def test_long_names_are_refused_before_they_are_repeated(text: str, tmp_path: Path) -> None:
    path = tmp_path / ("cluster.toml" if text.startswith("[") else "cluster.json")
    path.write_text(text)
    with pytest.raises(ClusterError, match="512"):
        load_cluster(path)
