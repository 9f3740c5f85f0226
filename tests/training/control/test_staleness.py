"""Staleness counts from what a step reads first, by hand and recounted from recorded steps."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster
from simulator.execution.options import SimulationOptions
from simulator.graph.graph import Graph
from simulator.partitioning.cut import partition
from simulator.training.disturbances.disturbance import read_disturbance
from simulator.training.recognition import parts
from simulator.training.recognition.anatomy import trained
from simulator.training.recognition.parts import reads
from simulator.training.recognition.sync_ops import READ
from simulator.training.train import train
from simulator.training.training import Training
from tests.execution.cases import apart, assigned, attrs_of, whole
from tests.strategies import Rows, shapes_attr, type_attr
from tests.training.queues import INT64, variable
from tests.training.workloads import Priced, chain, learning, ran, update_rows, workload


@pytest.mark.parametrize("resource", [False, True])
def test_what_others_do_before_a_step_reads_makes_nothing_stale(resource: bool) -> None:
    """A control message takes 100 ns to the ps and 104 a value each way; the second worker is 378 ns away from itself.

    The first loads for 300 ns: its step from 0 reads at 400, after the update of 378, and that from 658 at 1058.
    """
    on = apart(3)
    slow = learning(on, "slow", task=1, load_ns=300, work_ns=50, resource=resource)
    fast = learning(on, "fast", task=2, work_ns=70, resource=resource)
    run = ran([slow, fast], on, steps=3)
    assert [update[:3] for update in update_rows(run)] == [
        (378, 1, 0),
        (658, 0, 0),  # read at 400: 378 came before that
        (756, 1, 1),  # read at 478
        (1134, 1, 0),  # read at 856
        (1316, 0, 1),  # read at 1058: 756 came before that, 1134 did not
        (1512, 1, 1),  # read at 1234
    ]


def test_a_step_that_reads_nothing_computes_with_what_there_was_when_it_began() -> None:
    on = apart(3)
    run = ran([chain(on, "slow", [(1, 100)], task=1), chain(on, "fast", [(2, 40)], task=2)], on, steps=2)
    assert [update[:3] for update in update_rows(run)] == [(40, 1, 0), (80, 1, 0), (100, 0, 2), (120, 1, 1)]


def test_what_reads_is_told_by_what_is_trained() -> None:
    """By reference or by handle, rows or all, beside the variable or, where the value is sent, by the Send."""
    made = Rows()
    sent = {"dtype": type_attr(), "_output_shapes": shapes_attr(())}
    for name in ("plain", "moved", "only_read"):
        variable(made, name)
    made.add("handle", "VarHandleOp", dtype=type_attr())
    made.add("table", "VarHandleOp", dtype=type_attr())
    variable(made, "step", dtype=INT64)
    one = made.add("one", "Const", dtype=type_attr(INT64))
    rate, grad = (made.add(name, "Const", **attrs_of("Const")) for name in ("rate", "grad"))
    made.add("plain/read", "Identity", ["plain"], **attrs_of("Identity"))
    made.add("far", "Identity", ["moved"], **attrs_of("Identity"))
    made.add("only_read/read", "Identity", ["only_read"], **attrs_of("Identity"))
    made.add("again", "Identity", ["handle"], T=type_attr(20))
    made.add("handle/read", "ReadVariableOp", ["again"], **sent)
    made.add("rows", "ResourceGather", ["table", one], **sent, Tindices=type_attr(INT64))
    made.add("is_there", "VarIsInitializedOp", ["handle"])
    made.add("step/read", "Identity", ["step"], T=type_attr(INT64))
    for name in ("plain", "moved"):
        made.add(f"train_{name}", "ApplyGradientDescent", [name, rate, grad], T=type_attr())
    for name in ("handle", "table"):
        made.add(f"train_{name}", "ResourceApplyGradientDescent", [name, rate, grad], T=type_attr())
    made.add("count", "AssignAdd", ["step", one], T=type_attr(INT64))
    on, graph = apart(2), made.built()
    pieces = partition(
        graph, assigned(on, [int(name == "far") for name in graph.names]), on, step=whole(graph), legal=False
    )
    found = [pieces.graph.names[row] for row in reads(pieces).tolist()]
    send = {pieces.graph.names[row] for row in pieces.send.tolist()}
    assert {"plain/read", "handle/read", "rows"} < set(found)
    (other,) = set(found) - {"plain/read", "handle/read", "rows"}
    assert other in send


def test_runs_of_the_same_pieces_look_for_reads_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bottleneck is found by some runs more, and in large graphs the search takes longer than a run."""
    on = apart(2)
    looked = list[Graph]()

    def noted(graph: Graph) -> frozenset[int]:
        looked.append(graph)
        return trained(graph)

    monkeypatch.setattr(parts, "trained", noted)
    priced = [learning(on, "worker:1", task=1, load_ns=90, work_ns=50)]
    assert [len(ran(priced, on, steps=steps).update_ns) for steps in (2, 3)] == [2, 3]
    assert len(looked) == 1


def drawn(random: Random) -> tuple[list[Priced], Cluster]:
    """A few workers of one ps, which read sooner or later."""
    on = apart(random.randrange(2, 5))
    return [
        learning(
            on,
            f"worker:{task}",
            task=task,
            load_ns=random.choice([0, 90, 500]),
            work_ns=random.choice([0, 40, 300]),
            read_ns=random.choice([0, 0, 30]),
            apply_ns=random.choice([0, 0, 20]),
            resource=random.random() < 0.5,
        )
        for task in range(1, len(on))
    ], on


def recount(run: Training, given: list[Priced], on: Cluster) -> int:
    """Each update's staleness lies between others' after its read, and those of the same moments too; how many did."""
    made, combined = workload(given, on, steps=1)
    assert run.trace is not None
    reading = {int(combined.tables.node[op]) for op in made.sync_ops.op[made.sync_ops.kind == READ].tolist()}
    compared = 0
    for row in range(len(run.update_ns)):
        client, now = int(run.update_client[row]), int(run.update_ns[row])
        ended = (run.step_client == client) & (run.step_end_ns <= now)
        begun = (run.trace.ops.client == client) & (run.trace.ops.end_ns <= now)
        if not (begun & np.isin(run.trace.ops.node, list(reading))).any() or now not in run.step_end_ns[ended]:
            continue  # of a step that the end of the run cut off nothing is recorded
        read = int(run.trace.ops.end_ns[begun & np.isin(run.trace.ops.node, list(reading))].max())
        others = run.update_ns[run.update_client != client]
        least, most = ((read < others) & (others < now)).sum(), ((read <= others) & (others <= now)).sum()
        assert least <= run.update_staleness[row] <= most
        compared += 1
    return compared


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_staleness_is_what_recorded_steps_say(seed: int) -> None:
    random = Random(seed)
    given, on = drawn(random)
    noise = [read_disturbance("*=noise:exponential:0.5")] if random.random() < 0.7 else []
    clients, priced = [one for one, _ in given], [one for _, one in given]
    run = train(
        clients,
        on,
        priced,
        options=SimulationOptions(seed=seed, engine="python"),
        regime=None,
        steps=8,
        disturbances=noise,
        record=99,
    )
    assert recount(run, given, on) > len(run.update_ns) // 2


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_a_worker_alone_is_never_stale(seed: int) -> None:
    given, on = drawn(Random(seed))
    run = ran(given[:1], on, steps=5)
    assert {update[2] for update in update_rows(run)} == {0}
