from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from simulator.cluster.reading import load_cluster
from simulator.errors import OracleError
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.oracle import child, extended, observe, observing, standin
from simulator.oracle.measurement import STAND_INS
from tests.oracle.processes import descendants, ended, listening
from tests.oracle.test_local import runs
from tests.strategies import Rows, type_attr, typed

pytestmark = pytest.mark.tensorflow
CLIENT = "/job:standin_client/replica:0/task:0"

_OBSERVE = """
from tests.oracle.test_standin import observe, load_cluster, runs, training
graph = training()
observe(graph, load_cluster("ps=1,worker=1x2gpu"), step=runs(graph, "update"))
"""


def training() -> Graph:
    """A variable on the parameter server, its update from a worker's GPU, and what has no kernel there."""
    rows = Rows()
    rows.add("v", "VariableV2", **typed("VariableV2"), device="/job:ps/task:0")
    rows.add("read", "Identity", ["v"], **typed("Identity"), device="/job:ps/task:0")
    rows.add("grad", "Neg", ["read"], **typed("Neg"), device="/job:worker/task:0/device:GPU:1")
    rows.add("rate", "Const", **typed("Const"), device="/job:ps/task:0")
    rows.add("update", "ApplyGradientDescent", ["v", "rate", "grad"], T=type_attr())
    rows.add("step", "Const", **typed("Const"), device="/cpu:0")
    return rows.built()


def test_a_cluster_with_gpus_is_placed_and_cut_by_task_and_nothing_is_left() -> None:
    graph = training()
    before = descendants(os.getpid())
    seen = observe(graph, load_cluster("ps=1,worker=1x2gpu"), step=runs(graph, "update"))
    assert descendants(os.getpid()) == before
    assert (seen.oracle, seen.refusal, seen.added_task) == (STAND_INS, None, CLIENT)
    ps, worker = "/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:GPU:1"
    assert dict(seen.placement) == {
        "v": ps,
        "read": ps,
        "grad": worker,
        "rate": ps,
        "update": ps,
        "step": f"{CLIENT}/device:CPU:0",
    }
    pieces = {frozenset(node.device for node in piece.node) for piece in seen.partitions}
    assert pieces == {frozenset({ps}), frozenset({worker})}
    sends = [node for piece in seen.partitions for node in piece.node if node.op == "_Send"]
    assert {node.attr["recv_device"].s.decode() for node in sends} == {ps, worker}


def test_a_master_that_has_no_gpu_keeps_its_place_and_shows_its_own_piece() -> None:
    graph = training()
    where = ["/job:ps/task:0"] * 2 + ["/job:worker/task:0"] + [""] * 3
    seen = observe(graph, load_cluster("ps=1,worker=2"), step=runs(graph, "update"), devices=where)
    assert seen.added_task is None
    assert seen.placement["step"] == "/job:worker/replica:0/task:0/device:CPU:0"
    ops = {node.name: node.op for piece in seen.partitions for node in piece.node}
    assert {"grad", "update", "v"} <= set(ops)


def test_a_single_task_of_another_name_needs_no_stand_in() -> None:
    graph = replace(training(), requested=("",) * 6)
    seen = observe(graph, load_cluster("worker=1"), step=runs(graph, "update"))
    assert (seen.oracle, seen.refusal, seen.added_task) == (STAND_INS, None, None)
    assert set(seen.placement.values()) == {"/job:worker/replica:0/task:0/device:CPU:0"}
    assert len(seen.partitions) == 1


def test_replicas_cannot_be_stood_in_for() -> None:
    cluster = load_cluster("ps=1,worker=1")
    last = replace(cluster.devices[-1], name="/job:worker/replica:1/task:0/device:CPU:0")
    graph = training()
    with pytest.raises(OracleError, match="/job:worker/replica:1/task:0"):
        observe(graph, replace(cluster, devices=(*cluster.devices[:-1], last)), step=runs(graph, "update"))


def test_localhost_with_gpus_is_asked_through_a_client_of_its_own() -> None:
    graph = training()
    where = ["/cpu:0", "/cpu:0", "/device:GPU:3", "", "", "/cpu:0"]
    named = ["/job:localhost" + device for device in where]
    seen = observe(graph, load_cluster("4gpu"), step=runs(graph, "update"), soft=False, devices=named)
    assert (seen.refusal, seen.added_task) == (None, CLIENT)
    assert seen.placement["grad"] == "/job:localhost/replica:0/task:0/device:GPU:3"


def test_gpus_that_tensorflow_does_not_see_are_stood_in_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "glob", lambda _: [f"/dev/nvidia{number}" for number in range(4)])
    graph = replace(training(), requested=("",) * 6)
    seen = observe(graph, load_cluster("4gpu"), step=runs(graph, "update"))
    assert (seen.oracle, seen.refusal, seen.added_task) == (STAND_INS, None, CLIENT)
    assert seen.placement["grad"] == "/job:localhost/replica:0/task:0/device:GPU:0"


def test_the_extended_cluster_is_the_one_that_was_asked() -> None:
    cluster = load_cluster("4gpu")
    longer = extended(cluster)
    assert [device.name for device in longer.devices[len(cluster) :]] == [f"{CLIENT}/device:CPU:0"]
    assert all(len(row) == len(longer) for row in longer.routes)
    assert longer.devices[: len(cluster)] == cluster.devices
    for same in (longer, load_cluster("cpu=2"), load_cluster("ps=2,worker=2")):
        assert extended(same) is same


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_neither_master_nor_stand_ins_outlive_the_caller(blow: signal.Signals) -> None:
    caller = subprocess.Popen([sys.executable, "-c", _OBSERVE], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not (ports := listening(found := descendants(caller.pid))):  # the stand-ins are there
            assert caller.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        caller.send_signal(blow)
        caller.wait(timeout=20)
        assert len(found) == 2
        assert ended(found)
        assert not ports & listening()
    finally:
        caller.kill()


def test_the_masters_own_port_is_closed_to_everyone() -> None:
    """TensorFlow's server listens on every interface until it is stopped from doing so."""
    assert child.run("tests.oracle.serving", b"", timeout_s=60) == b"[]"


def test_the_stand_ins_listen_on_the_loopback_interface_alone() -> None:
    with child.start("simulator.oracle.standin") as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b'{"tasks": [[["/job:a/replica:0/task:0/device:CPU:0", "CPU", 1]], []]}\n')
            process.stdin.flush()
            assert process.stdout.readline().startswith(b'{"ports": [')
            ports = listening([process.pid])
            assert len(ports) == 2
            assert all(address.split(":")[0].endswith("0100007F") for address in ports)  # 127.0.0.1, mapped or not
            process.stdin.close()
            assert child.unpack(process.stdout.read()) == ({}, [])
            assert process.wait(timeout=20) == 0
            assert not ports & listening()
        finally:
            process.kill()


def test_device_attributes_are_written_as_protobuf_would() -> None:
    written = standin.attributes("/d", "GPU", 300, incarnation=2**40 + 7)
    assert written == b"\x0a\x02/d\x12\x03GPU\x20\xac\x02\x31\x07\0\0\0\0\x01\0\0"


def test_the_length_delimited_fields_are_found_among_all_others() -> None:
    message = b"".join(
        (
            AttrValue(i=2**40).SerializeToString(),  # a varint
            AttrValue(f=1.5).SerializeToString(),  # four bytes
            b"\x31" + b"\xff" * 8,  # eight bytes
            AttrValue(s=b"s" * 300).SerializeToString(),
            AttrValue(i=-1).SerializeToString(),
            AttrValue(s=b"").SerializeToString(),
        )
    )
    assert list(standin.fields(message)) == [(2, b"s" * 300), (2, b"")]
