"""What many small messages cost: a core's work for each at both ends, and the time of a session between two steps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement import clients
from simulator import answers, estimate_each, load_cluster, train
from simulator.cluster.cluster import Cluster
from simulator.cluster.protocols import GRPC, RDMA
from simulator.execution.engine import makespan
from simulator.training.answers.reliefs import candidates
from simulator.training.programs.program import Program, between_steps_ns
from simulator.training.training import Training
from simulator.units import Nanos
from tests.execution.cases import with_cores
from tests.execution.test_cores import sending
from tests.strategies import Rows, shapes_attr, type_attr

HOP_NS = GRPC.request_ns + 110_000  # of a small message that meets no other, and is there at once


def small(text: str, cores: int = 1) -> Cluster:
    """That cluster on processors of so many cores."""
    return with_cores(load_cluster(text), [cores])


@given(st.integers(1, 60), st.sampled_from([1, 2, 8, 20]), st.sampled_from(["ps=1,worker=1", "ps=1,worker=2"]))
def test_a_message_waits_for_the_work_of_those_before_it(count: int, cores: int, text: str) -> None:
    """Small values go from one server to workers: what they share is the server's core, or up to 8 of them."""
    on = small(text, cores)
    workers = len(on) - 1
    rows = [row for at in range(count) for row in (0, 1 + at % workers)]
    share = -(-GRPC.pack_ns(4) // min(cores, GRPC.threads))
    assert makespan(sending(on, [4] * count), rows) == pytest.approx(HOP_NS + (count - 1) * share, abs=30 * count)


def reading(variables: int, worker: int = 0, gap_ns: Nanos | None = None) -> Program:
    """A client that reads so many values of 4 bytes from ps tasks in turn, two of them, in each step."""
    rows, task = Rows(), f"/job:worker/replica:0/task:{worker}"
    for at in range(variables):
        number = {"dtype": type_attr(), "_output_shapes": shapes_attr(())}
        rows.add(f"v{at}", "VarHandleOp", device=f"/job:ps/task:{at % 2}", dtype=type_attr())
        rows.add(f"held{at}", "ReadVariableOp", [f"v{at}"], device=f"/job:ps/task:{at % 2}", **number)
        rows.add(f"read{at}", "Identity", [f"held{at}"], device=task, T=type_attr(), _output_shapes=shapes_attr(()))
    targets = tuple(f"read{at}" for at in range(variables))
    return Program(f"worker:{worker}", task, rows.built(), targets, gap_ns=gap_ns)


def trained(on: Cluster, *programs: Program) -> Training:
    costs = estimate_each(programs, on)
    made = clients(programs, on, costs, flavour="master", algorithm="requested")
    return train(made, on, costs, regime=None, steps=20)


def test_a_server_of_one_core_passes_no_more_messages_than_its_core_can() -> None:
    """It was as many as its ops let it: gRPC's work per message was in the latency, where nobody works."""
    many = 200
    for workers in (1, 2):
        on = small("ps=2,worker=2")
        run = trained(on, *(reading(many, row) for row in range(workers)))
        rate = (answers(run).steps_per_s or 0.0) * many / 2  # per server
        most = 1e9 / GRPC.send_ns * min(1, workers / 2)  # the core of one worker handles what two servers send
        assert 0.8 * most < rate < most
        assert run.usage.message_ns.max() > 0.8 * run.usage.ns


def test_what_grpc_adds_is_found_to_hold_back_who_reads_many_small_values() -> None:
    on = small("ps=2,worker=1")
    found = candidates(trained(on, reading(200)), on)
    assert found[0].protocol == RDMA
    assert found[0].share > 0.8


@pytest.mark.parametrize("gap_ns", [1_000_000, 20_000_000])
def test_time_between_steps_is_found_to_hold_back_who_has_short_steps(gap_ns: int) -> None:
    on = load_cluster("ps=2,worker=2")
    run = trained(on, reading(2, 0, gap_ns), reading(2, 1, gap_ns))
    found = candidates(run, on)
    step_ns = int(run.step_end_ns[0] - run.step_start_ns[0])
    assert found[0].gapless
    assert found[0].share == pytest.approx(
        gap_ns / (gap_ns + step_ns), rel=0.001
    )  # the last step counted without a gap
    assert not any(one.gapless for one in candidates(trained(on, reading(2, gap_ns=0)), on))


@pytest.mark.parametrize(("variables", "gap_ns"), [(1, 380_000), (2, 460_000), (5, 460_000)])
def test_a_session_takes_time_between_steps_for_each_task_that_has_a_part(variables: int, gap_ns: int) -> None:
    on = load_cluster("ps=2,worker=2")
    made = clients([reading(variables)], on, estimate_each([reading(variables)], on), algorithm="requested")
    assert made[0].program.gap_ns == between_steps_ns(min(2, variables)) == gap_ns
    run = trained(on, reading(variables))
    steps = list(zip(run.step_end_ns.tolist(), run.step_start_ns.tolist()[1:], strict=False))
    assert [begun - ended for ended, begun in steps] == [gap_ns] * len(steps)


def test_who_says_how_long_that_time_is_gets_it() -> None:
    on = load_cluster("ps=2,worker=2")
    for gap_ns in (0, 7):
        run = trained(on, reading(2, gap_ns=gap_ns))
        assert int(run.step_start_ns[1] - run.step_end_ns[0]) == gap_ns


def test_alike_clients_and_sessions_of_one_task_take_the_time_of_their_tasks() -> None:
    on = load_cluster("ps=2,worker=2")
    programs = (reading(2), replace(reading(2), name="worker:1", task="/job:worker/replica:0/task:1", like=0))
    made = clients(programs, on, estimate_each(programs, on), algorithm="requested")
    assert [one.program.gap_ns for one in made] == [between_steps_ns(2)] * 2
    one = load_cluster("2gpu")
    rows = Rows()
    rows.add("n", "NoOp")
    alone = [Program("alone", one.tasks[0], rows.built(), ("n",))]
    assert clients(alone, one, estimate_each(alone, one))[0].program.gap_ns == between_steps_ns(0) == 60_000
