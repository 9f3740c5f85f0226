from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from placement import place
from simulator import choose_step, estimate, load, load_cluster, partition
from simulator.assignment import COST, Assignment
from simulator.cluster.cluster import Cluster
from simulator.cluster.master import STANDIN_CLIENT
from simulator.columns import ids
from simulator.errors import InfeasibleError, OracleError
from simulator.graph.graph import Graph
from simulator.graph.graph_def import graph_def
from simulator.graph.inlining.expanding import lower
from simulator.graph.messages import GraphDef
from simulator.graph.step import Step
from simulator.oracle import child
from simulator.oracle.child import Asking
from simulator.oracle.dry_runs import STAND_INS, DryRun, _logged, ask, extended
from simulator.oracle.verification import _unseen_cuts, agreement, check, check_refusal, complaint
from simulator.partitioning.cut import partition_by_task
from tests.difference.examples import EXAMPLES
from tests.oracle.staying import ask_staying
from tests.oracle.test_local import string_const
from tests.oracle.test_standin import training
from tests.strategies import Rows, loop, typed

pytestmark = pytest.mark.tensorflow


def checked(
    graph: Graph, cluster: Cluster, algorithm: str | list[int], mode: str, asking: Asking = ask_staying
) -> dict[str, Any]:
    step = choose_step(graph)
    if isinstance(algorithm, str):
        assignment = place(graph, cluster, estimate(graph, cluster), step=step, algorithm=algorithm, fallback=False)
    else:
        assignment = by_hand(graph, cluster, algorithm)
    cut = partition(graph, assignment, cluster, step=step, legal=False)
    return check(graph, cluster, assignment, cut, step, mode=mode, asking=asking)


def by_hand(graph: Graph, cluster: Cluster, devices: list[int]) -> Assignment:
    names = tuple(device.name for device in cluster.devices)
    return Assignment(names, ids(devices), ids([COST] * len(graph)), "by hand", "by hand")


def looping() -> Graph:
    """A loop, and within it a small constant with two readers, which the cut copies to the device of each."""
    rows = Rows()
    rows.add("x", "Const", **typed("Const"))
    exit_ = loop(rows, start="x")
    rows.add("shared", "Mul", [exit_, "x"], **typed("Mul"))
    rows.add("while/again", "Mul", ["while/limit", "while/Switch:1"], **typed("Mul"))
    return rows.built()


def agrees(found: dict[str, Any]) -> bool:
    placement, cut = found["placement"], found["partition"]
    return bool(placement["agree"] == placement["of"] > 0 and cut["agree"] == cut["of"] > 0)


def test_a_pinned_placement_is_accepted_and_cut_alike_on_cpus() -> None:
    graph = looping()
    found = checked(graph, load_cluster("cpu=3"), [row % 3 for row in range(len(graph))], "pin")
    assert json.loads(json.dumps(found)) == found
    assert found["oracle"] == "local session"
    assert (found["refused"], found["differences"]) == (None, [])
    assert agrees(found)
    assert found["laws"] == []
    assert found["partition"]["of"] > len(graph)  # transfers and control loops count too


def test_a_pinned_placement_is_accepted_and_cut_alike_on_a_cluster() -> None:
    graph = training()
    found = checked(graph, load_cluster("ps=1,worker=2x2gpu"), "heft", "pin")
    assert found["oracle"] == "stand-in workers"
    assert (found["refused"], found["differences"]) == (None, [])
    assert agrees(found)


@pytest.mark.parametrize("algorithm", ["cpop", "peft", "etf", "m_topo", "m_etf", "m_sct"])
def test_the_placements_of_papers_are_accepted_and_cut_alike(algorithm: str) -> None:
    for graph, on in ((training(), "ps=1,worker=2x2gpu"), (looping(), "cpu=3")):
        found = checked(graph, load_cluster(on), algorithm, "pin")
        assert (found["refused"], found["differences"]) == (None, [])
        assert agrees(found)


def test_a_graph_of_another_batch_is_accepted_though_its_file_says_the_old_shapes() -> None:
    graph = load("examples/ps_training.pbtxt", batch=16)
    assert any("batch 16 takes the place of 64" in note for note in graph.notes)
    found = checked(graph, load_cluster("ps=2,worker=2"), "tensorflow", "predict")
    assert found["refused"] is None
    assert agrees(found)


def test_what_stand_ins_do_not_cut_is_named() -> None:
    graph, cluster = training(), load_cluster("ps=1,worker=2x2gpu")
    gpu = cluster.index["/job:worker/replica:0/task:0/device:GPU:1"]
    cut = partition(graph, by_hand(graph, cluster, [0, 0, gpu, 0, 0, gpu - 1]), cluster, step=whole(graph), legal=False)
    seen = DryRun(oracle=STAND_INS, tensorflow="2.21.0", placement={}, added_task=STANDIN_CLIENT)
    assert _unseen_cuts(cluster, cut, seen) == ["/job:worker/replica:0/task:0"]
    assert _unseen_cuts(cluster, cut, replace(seen, added_task=None)) == []  # the real master cuts its own task's piece
    assert _unseen_cuts(cluster, cut, replace(seen, oracle="local session")) == []


def test_what_the_graph_asks_for_is_predicted_for_the_extended_cluster() -> None:
    found = checked(training(), extended(load_cluster("ps=1,worker=2x2gpu")), "requested", "predict")
    assert agrees(found)


def test_a_wrong_prediction_is_counted_and_shown_with_both_sides() -> None:
    graph = training()
    cluster = load_cluster("cpu=2")
    moved = replace(graph, requested=("",) * len(graph))
    found = checked(moved, cluster, [1] * len(graph), "predict")
    assert found["placement"] == {"agree": 0, "of": len(graph), "raw": 0}
    assert found["partition"]["agree"] < found["partition"]["of"]
    first = found["differences"][0]
    assert (first["node"], first["ours"][-5:], first["theirs"][-5:]) == ("v", "CPU:1", "CPU:0")
    assert first["rule"] == "chosen by cost"


def test_a_reader_of_a_reference_apart_from_its_variable_is_moved_back_and_shown() -> None:
    graph, cluster = training(), load_cluster("ps=1,worker=1x1gpu")
    gpu = cluster.index["/job:worker/replica:0/task:0/device:GPU:0"]
    found = checked(graph, cluster, [0, 0, 0, 0, gpu, 0], "pin")
    assert found["placement"] == {"agree": 5, "of": 6, "raw": 5}
    assert found["differences"][0]["node"] == "update"


def test_a_refusal_is_reported_and_agrees_nowhere() -> None:
    rows = Rows()
    string_const(rows, "text", "no GPU holds strings")
    rows.add("after", "NoOp", ["^text"])
    graph, cluster = rows.built(), load_cluster("ps=1,worker=1x1gpu")
    gpu = cluster.index["/job:worker/replica:0/task:0/device:GPU:0"]
    found = checked(graph, cluster, [gpu, 0], "pin")
    assert "Cannot assign a device for operation text" in found["refused"]
    assert found["placement"] == {"agree": 0, "of": 2, "raw": 0}
    assert found["partition"]["agree"] == 0 < found["partition"]["of"]
    assert found["differences"] == []
    assert "where Const has no kernel" in found["laws"][0]


def whole(graph: Graph) -> Step:
    return choose_step(graph, fetches=["update", "step"])


def recorded() -> tuple[Graph, Cluster, Assignment, DryRun]:
    """A prediction, and an answer that agrees with it."""
    graph, cluster = training(), extended(load_cluster("ps=1,worker=1x1gpu"))
    step = whole(graph)
    ours = place(graph, cluster, estimate(graph, cluster), step=step, algorithm="tensorflow")
    message = graph_def(partition_by_task(graph, ours, cluster, step=step).graph)
    pieces: dict[str, Any] = {}
    for node in message.node:
        pieces.setdefault(node.device.rpartition("/")[0], GraphDef()).node.add().CopyFrom(node)
    assert ours.log_order is not None
    logged = {graph.names[row]: ours.name_of(row) for row in ours.log_order.tolist()}
    return graph, cluster, ours, DryRun(STAND_INS, "2.21.0", logged, tuple(pieces.values()))


def held(graph: Graph, cluster: Cluster, ours: Assignment, seen: DryRun) -> dict[str, Any]:
    return agreement(graph, cluster, ours, whole(graph), seen)


def test_a_recorded_answer_is_compared_without_tensorflow() -> None:
    graph, cluster, ours, seen = recorded()
    found = held(graph, cluster, ours, seen)
    assert agrees(found)
    assert found["log_order"] == {"agree": len(graph), "of": len(graph)}
    assert found["differences"] == []


def another_device(seen: DryRun) -> DryRun:
    first, *_ = seen.placement
    return replace(seen, placement={**seen.placement, first: "/job:worker/replica:0/task:0/device:CPU:0"})


def a_node_less(seen: DryRun) -> DryRun:
    _, *rest = seen.placement.items()
    return replace(seen, placement=dict(rest))


def another_graph(seen: DryRun) -> DryRun:
    return replace(seen, placement={f"{name}_1": device for name, device in seen.placement.items()})


def another_order(seen: DryRun) -> DryRun:
    return replace(seen, placement=dict(reversed(list(seen.placement.items()))))


def a_piece_less(seen: DryRun) -> DryRun:
    return replace(seen, partitions=seen.partitions[1:])


def a_piece_twice(seen: DryRun) -> DryRun:
    return replace(seen, partitions=(*seen.partitions, seen.partitions[0]))


def another_key(seen: DryRun) -> DryRun:
    pieces = [GraphDef.FromString(piece.SerializeToString()) for piece in seen.partitions]
    sent = next(node for piece in pieces for node in piece.node if node.op == "_Send")
    sent.attr["tensor_name"].s += b"0"
    return replace(seen, partitions=tuple(pieces))


MUTATIONS: dict[Callable[[DryRun], DryRun], str] = {
    another_device: "placement",
    a_node_less: "placement",
    another_graph: "placement",
    another_order: "log_order",
    a_piece_less: "partition",
    a_piece_twice: "partition",
    another_key: "partition",
}


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_a_stale_or_changed_answer_does_not_agree(mutate: Callable[[DryRun], DryRun]) -> None:
    graph, cluster, ours, seen = recorded()
    found = held(graph, cluster, ours, mutate(seen))
    wrong = {what for what in ("placement", "log_order", "partition") if found[what]["agree"] != found[what]["of"]}
    assert wrong >= {MUTATIONS[mutate]}
    assert bool(found["differences"]) is (mutate is not another_order)


def test_what_is_by_chance_may_follow_tensorflow_and_is_not_raw() -> None:
    graph, cluster, ours, seen = recorded()
    elsewhere = replace(ours, device=ids([0] * len(graph)))
    found = agreement(graph, cluster, elsewhere, whole(graph), seen, lambda placement: ours)
    assert found["placement"]["raw"] < found["placement"]["agree"] == len(graph)
    assert found["partition"]["raw"] < found["partition"]["agree"] == found["partition"]["of"]


def test_the_log_of_bodies_is_told_from_that_of_the_graph() -> None:
    graph = training()
    lines = [(name, "", f"device of {name}") for name in graph.names]
    body = [("v", "", "device of another v"), ("in/the/body", "", "")]
    assert _logged(graph, lines + body) == ({name: device for name, _, device in lines}, 2)
    assert _logged(graph, lines[1:]) == ({name: device for name, _, device in lines[1:]}, 0)


def test_a_missing_tensorflow_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finder that comes first, in the child too, finds no tensorflow."""
    hidden = "import sys; sys.modules['tensorflow'] = None; "
    monkeypatch.setattr(child, "_START", hidden + child._START)
    with pytest.raises(OracleError, match=r'pip install "simviz\[tensorflow\]"'):
        checked(training(), load_cluster("ps=1,worker=1"), [0] * 6, "pin", ask)


def test_devices_of_a_graph_to_which_tensorflow_adds_nodes_are_refused() -> None:
    calls = EXAMPLES["calls that hand back resources are isolated in order of ids (§3.6)"].case.graph
    graph, cluster = lower(calls), load_cluster("cpu=2")
    with pytest.raises(OracleError, match=r"4 Identities around kept calls .*calls expanded"):
        checked(graph, cluster, [0] * len(graph), "pin")


def test_a_mode_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="predict, pin"):
        checked(training(), load_cluster("cpu=2"), [0] * 6, "guess")


@pytest.mark.parametrize(
    ("sentence", "kind", "node"),
    [
        (
            "Cannot assign a device for operation a/b: {{node a/b}} was explicitly assigned to /cpu:9",
            "no such device",
            "a/b",
        ),
        (
            "Cannot assign a device for operation a: Could not satisfy ... no supported kernel for GPU",
            "no kernel there",
            "a",
        ),
        ("No OpKernel was registered to support Op 'X' used by {{node c}} with these attrs: []", "no kernel", "c"),
        ("OpKernel 'X' has constraint on attr 'k' not in NodeDef '[]' [[{{node d}}]]", "undeclared attribute", "d"),
        ("Cannot colocate nodes {{colocation_node a}} and {{colocation_node b}}: Cannot merge", "colocation", "a"),
        (
            "Nodes were connected by a reference or resource connection ...: Cannot colocate nodes "
            "{{colocation_node a}} and {{colocation_node b}}: ...",
            "reference",
            "b",
        ),
        (
            "Cannot place the graph because a reference or resource edge connects ... The edge src node is name='v' "
            "(op='X'), and the dst node is name='w' (op='Y')",
            "resource devices",
            "w",
        ),
        ("Malformed device specification '/x' in node: {name:'e' id:3 op device:{...", "malformed", "e"),
    ],
)
def test_the_kind_and_node_of_a_refusal_are_found(sentence: str, kind: str, node: str | None) -> None:
    assert complaint(sentence) == (kind, node)


def test_a_refusal_of_another_part_is_no_complaint_of_the_placer() -> None:
    assert complaint("Shape must be rank 0 but is rank 1 for '{{node a}} = ...'") is None


def test_refusals_are_alike_when_they_name_the_same_node() -> None:
    graph = replace(training(), requested=("", "", "/device:GPU:7", "", "", ""))
    cluster = load_cluster("cpu=2")
    step = choose_step(graph)
    with pytest.raises(InfeasibleError) as refused:
        place(graph, cluster, estimate(graph, cluster), step=step, algorithm="tensorflow", soft=False)
    found = check_refusal(graph, cluster, refused.value, step, soft=False, asking=ask_staying)
    assert found.agree
    assert "refuses too, at the same node 'grad'" in found.said
    other = check_refusal(
        graph, cluster, InfeasibleError(str(refused.value), node="v"), step, soft=False, asking=ask_staying
    )
    assert not other.agree
    assert "refuses too, but at 'grad' instead of 'v'" in other.said
    softly = check_refusal(graph, cluster, refused.value, step, asking=ask_staying)
    assert (softly.agree, softly.said) == (False, "TensorFlow 2.21.0 places this graph.")
