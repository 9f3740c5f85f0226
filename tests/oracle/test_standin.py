from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

import pytest

from simulator.cluster.description import load_cluster
from simulator.errors import OracleError
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.oracle import child, dry_runs, standin
from simulator.oracle.dry_runs import STAND_INS, conversation, dry_run, extended
from tests.oracle.processes import descendants, listening, on_loopback
from tests.oracle.staying import ask_staying
from tests.oracle.test_local import runs
from tests.strategies import Rows, type_attr, typed

pytestmark = pytest.mark.tensorflow
CLIENT = "/job:standin_client/replica:0/task:0"


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
    seen = dry_run(graph, load_cluster("ps=1,worker=1x2gpu"), step=runs(graph, "update"))
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
    seen = dry_run(graph, load_cluster("ps=1,worker=2"), step=runs(graph, "update"), devices=where, asking=ask_staying)
    assert seen.added_task is None
    assert seen.placement["step"] == "/job:worker/replica:0/task:0/device:CPU:0"
    ops = {node.name: node.op for piece in seen.partitions for node in piece.node}
    assert {"grad", "update", "v"} <= set(ops)


DEVICES = ["/job:ps/task:0/cpu:1", "/job:ps/task:0/cpu:0", *["/job:worker/task:1/cpu:1"] * 2, "", ""]


def test_real_workers_show_how_they_cut_what_the_master_sent_them() -> None:
    graph = training()
    seen = dry_run(
        graph,
        load_cluster("ps=1x2cpu,worker=2"),
        step=runs(graph, "update"),
        devices=DEVICES,
        real_workers=True,
        asking=ask_staying,
    )
    assert (seen.oracle, seen.refusal, seen.added_task) == (STAND_INS, None, None)
    ps = "/job:ps/replica:0/task:0/device:CPU:"
    sent = next(piece for piece in seen.partitions if piece.node[0].device.startswith(ps))
    cut = {piece.node[0].device: {node.name for node in piece.node} for piece in seen.worker_partitions}
    assert {"v", "update", "v_G0"} <= cut[f"{ps}1"]
    assert {"read", "v_G1"} <= cut[f"{ps}0"]
    made = {f"v_G{number}" for number in range(2)}
    assert {node.name for node in sent.node} == (cut[f"{ps}0"] | cut[f"{ps}1"]) - made


def test_a_task_with_gpus_keeps_its_stand_in() -> None:
    graph = training()
    seen = dry_run(
        graph, load_cluster("ps=1,worker=1x2gpu"), step=runs(graph, "update"), real_workers=True, asking=ask_staying
    )
    assert len(seen.partitions) == 2
    assert [piece.node[0].device for piece in seen.worker_partitions] == ["/job:ps/replica:0/task:0/device:CPU:0"]


def test_one_process_answers_about_many_graphs_and_clusters_as_many_would() -> None:
    graph = training()
    step = runs(graph, "update")
    asked: list[tuple[str, dict[str, Any]]] = [
        ("ps=1x2cpu,worker=2", {"devices": DEVICES, "real_workers": True}),
        ("ps=1x2cpu,worker=2", {"devices": DEVICES}),
        ("ps=1,worker=1x2gpu", {}),
        ("ps=1,worker=1x2gpu", {"devices": ["/gpu:7"] * 6, "soft": False}),
        ("cpu=2", {"devices": [""] * 6}),
        ("cpu=3", {"devices": ["/cpu:2"] * 6}),
        ("ps=1,worker=1x2gpu", {"soft": False}),
    ]
    with conversation() as asking:
        together = [dry_run(graph, load_cluster(cluster), step=step, asking=asking, **how) for cluster, how in asked]
        again = [dry_run(graph, load_cluster(cluster), step=step, asking=asking, **how) for cluster, how in asked]
    assert together[3].refusal is not None
    apart = [dry_run(graph, load_cluster(cluster), step=step, **how) for cluster, how in asked[:2]]
    for one, other in [*zip(together, again, strict=True), *zip(apart, together[:2], strict=True)]:
        assert one.placement == other.placement
        assert one.refusal == other.refusal
        assert [*map(_known, one.partitions)] == [*map(_known, other.partitions)]
        assert [*map(_known, one.worker_partitions)] == [*map(_known, other.worker_partitions)]


def _known(piece: Any) -> bytes:
    """The piece without what is drawn by lot."""
    for node in piece.node:
        node.attr.pop("send_device_incarnation", None)
    return bytes(piece.SerializeToString(deterministic=True))


def test_a_single_task_of_another_name_needs_no_stand_in() -> None:
    graph = replace(training(), requested=("",) * 6)
    seen = dry_run(graph, load_cluster("worker=1"), step=runs(graph, "update"), asking=ask_staying)
    assert (seen.oracle, seen.refusal, seen.added_task) == (STAND_INS, None, None)
    assert set(seen.placement.values()) == {"/job:worker/replica:0/task:0/device:CPU:0"}
    assert len(seen.partitions) == 1


def test_replicas_cannot_be_stood_in_for() -> None:
    cluster = load_cluster("ps=1,worker=1")
    last = replace(cluster.devices[-1], name="/job:worker/replica:1/task:0/device:CPU:0")
    graph = training()
    with pytest.raises(OracleError, match="/job:worker/replica:1/task:0"):
        dry_run(graph, replace(cluster, devices=(*cluster.devices[:-1], last)), step=runs(graph, "update"))


def test_localhost_with_gpus_is_asked_through_a_client_of_its_own() -> None:
    graph = training()
    where = ["/cpu:0", "/cpu:0", "/device:GPU:3", "", "", "/cpu:0"]
    named = ["/job:localhost" + device for device in where]
    seen = dry_run(
        graph, load_cluster("4gpu"), step=runs(graph, "update"), soft=False, devices=named, asking=ask_staying
    )
    assert (seen.refusal, seen.added_task) == (None, CLIENT)
    assert seen.placement["grad"] == "/job:localhost/replica:0/task:0/device:GPU:3"


def test_gpus_that_tensorflow_does_not_see_are_stood_in_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_runs, "gpus", lambda: 4)
    graph = replace(training(), requested=("",) * 6)
    seen = dry_run(graph, load_cluster("4gpu"), step=runs(graph, "update"))
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


def test_nobody_reaches_the_master_and_only_this_machine_the_workers() -> None:
    """TensorFlow's server listens on every interface until it is stopped from doing so."""
    found = json.loads(child.run("tests.oracle.serving", b"", timeout_s=60))
    assert len(found["own"]) == 2  # the real workers; the master is found within the process
    assert len(found["stand-ins"]) == 3
    assert all(on_loopback(address) for address in (*found["own"], *found["stand-ins"]))


def test_a_master_whose_port_an_earlier_one_had_is_not_taken_for_it() -> None:
    """The system hands out the port of a master that no longer listens, and sessions find masters by their ports."""
    devices = json.loads(child.run("tests.oracle.remastering", b"", timeout_s=60))
    assert devices == [f"/job:b/replica:0/task:0/device:CPU:{number}" for number in range(2)]


def test_the_stand_ins_listen_on_the_loopback_interface_alone() -> None:
    with child.start("simulator.oracle.standin") as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            cpu = ("/job:a/replica:0/task:0/device:CPU:0", "CPU", 1)
            tasks = [{"devices": [cpu], "behind": None}, {"devices": [], "behind": None}]
            child.write(process.stdin, json.dumps(tasks).encode())
            ports, refused = json.loads(child.read(process.stdout) or b"")
            assert (len(ports), refused) == (2, None)
            sockets = listening([process.pid])
            assert len(sockets) == 2
            assert all(on_loopback(address) for address in sockets.values())
            child.write(process.stdin, b"take")
            assert child.unpack(child.read(process.stdout) or b"") == (
                {"bytes": 0, "most": child.MAX_MESSAGE_BYTES},
                [],
            )
            process.stdin.close()
            assert process.wait(timeout=20) == 0
            assert not sockets.keys() & listening().keys()
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (8, "what TensorFlow's master sent to its workers has .* more than the 3,000 that it may have"),
        (40, r"a piece is larger than a message may be \(.* vs. 3000\)\); ask about a smaller graph"),
    ],
)
def test_messages_between_master_and_stand_ins_are_bounded(nodes: int, said: str) -> None:
    rows = Rows()
    rows.add("n0", "Placeholder", **typed("Placeholder"), device="/job:ps/task:0")
    for number in range(1, nodes):
        device = "/job:worker/task:0/gpu:0" if number % 2 else "/job:ps/task:0"
        rows.add(f"n{number}", "Neg", [f"n{number - 1}"], **typed("Neg"), device=device)
    graph = rows.built()
    with child.conversation("tests.oracle.asking_small") as asking, pytest.raises(OracleError, match=said):
        dry_run(graph, load_cluster("ps=1,worker=1x1gpu"), step=runs(graph, graph.names[-1]), asking=asking)


def test_more_real_workers_than_this_machine_bears_are_refused() -> None:
    graph = training()
    with pytest.raises(OracleError, match=r"35 tasks would need a real worker each, and 32 are the most; ask without"):
        dry_run(graph, load_cluster("ps=1,worker=35"), step=runs(graph, "update"), real_workers=True)


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
