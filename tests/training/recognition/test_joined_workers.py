"""Workers that collectives join: MultiWorkerMirroredStrategy gives each a graph of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement import clients
from simulator import answers, estimate_each, load_cluster, train
from simulator.errors import GraphError
from simulator.execution.options import SimulationOptions
from simulator.graph.graph import Graph
from simulator.graph.step import choose_step
from simulator.training.disturbances.disturbance import read_disturbance
from simulator.training.programs.distributed import distributed
from simulator.training.recognition.sync_replicas import joined_workers
from simulator.training.regimes import Regime, read_regime
from simulator.training.training import Training
from tests.strategies import Rows, shapes_attr, type_attr, typed
from tests.training.queues import const, variable

ROWS = 16
LOCAL_GAP_NS = 60_000  # of a session whose step has parts on one task
OWN = "/job:worker/task:0"


def mirrored(size: int, members: int = 1, home: str = "", examples: int = ROWS) -> Graph:
    """A worker that sums the gradients of its members with those of others, and applies them, beside it or at home."""
    rows, shape = Rows(), {"_output_shapes": shapes_attr((examples,))}
    ends = []
    for at, device in enumerate(f"{OWN}/device:CPU:{at}" for at in range(members)):
        of = f"m{at}/"
        variable(rows, f"{of}w", device=home or device)
        rows.add(f"{of}x", "Placeholder", device=device, dtype=type_attr(), **shape)
        rows.add(f"{of}g", "Mul", [f"{of}w", f"{of}x"], device=device, T=type_attr(), **shape)
        group = [const(rows, f"{of}{name}", value, device=device) for name, value in (("size", size), ("key", 7))]
        exchange = [f"{of}g", *group, const(rows, f"{of}instance", 1, device=device)]
        rows.add(f"{of}sum", "CollectiveReduceV2", exchange, device=device, T=type_attr(), **shape)
        rows.add(f"{of}rate", "Const", device=device, **typed("Const", ()))
        update = [f"{of}w", f"{of}rate", f"{of}sum"]
        ends.append("^" + rows.add(f"{of}update", "ApplyGradientDescent", update, device=home or device, T=type_attr()))
    rows.add("train", "NoOp", ends, device=f"{OWN}/device:CPU:0")
    return rows.built()


def trained(graph: Graph, workers: int, regime: str, *, slow: str = "", engine: str = "auto") -> Training:
    cluster, read = load_cluster(f"worker={workers}"), read_regime(regime)
    programs = distributed(graph, cluster, regime=read)
    costs = estimate_each(programs, cluster)
    options = SimulationOptions(engine=engine)
    made = clients(programs, cluster, costs)
    disturbances = [read_disturbance(slow)] if slow else []
    return train(made, cluster, costs, regime=read, steps=10, options=options, disturbances=disturbances)


@given(st.integers(1, 6), st.integers(1, 4))
def test_a_group_has_as_many_workers_as_it_lacks_members(workers: int, members: int) -> None:
    graph = mirrored(workers * members, members)
    assert joined_workers(graph, choose_step(graph)) == workers


@pytest.mark.parametrize(("size", "members"), [(3, 2), (5, 2), (6, 4), (7, 3)])
def test_a_group_that_no_workers_fill_is_refused(size: int, members: int) -> None:
    """A worker with other members has another graph."""
    graph = mirrored(size, members)
    with pytest.raises(GraphError, match=f"has {size} members, and {members} of them are here"):
        joined_workers(graph, choose_step(graph))


@pytest.mark.parametrize("other", ["/job:worker/replica:0/task:0/device:CPU:0", "/job:worker/task:0/cpu:0"])
def test_a_device_with_several_strings_is_one_member(other: str) -> None:
    graph = mirrored(4, 2)
    graph = replace(graph, requested=tuple(text.replace(f"{OWN}/device:CPU:1", other) for text in graph.requested))
    assert joined_workers(graph, choose_step(graph)) == 4


@settings(max_examples=10)
@given(st.integers(2, 5), st.integers(0, 4), st.sampled_from([1, 3]), st.sampled_from(["python", "compiled"]))
def test_an_update_is_a_step_of_all(workers: int, slow: int, factor: int, engine: str) -> None:
    """A slow worker holds all up, whichever it is; what they learn from are the examples of all."""
    graph, which = mirrored(workers), slow % workers
    run = trained(graph, workers, "sync", slow=f"worker:{which}=slow:{factor}", engine=engine)
    assert len(run.update_ns) == 10
    assert set(run.update_examples.tolist()) == {ROWS * workers}
    assert set(run.update_gradients.tolist()) == {workers}
    assert set(run.update_staleness.tolist()) == {0}
    longest, rate = (run.step_end_ns - run.step_start_ns)[run.step_client == which].max(), answers(run).steps_per_s
    assert rate == pytest.approx(10**9 / (longest + LOCAL_GAP_NS), rel=1e-3)


@pytest.mark.parametrize("regime", ["async", "ssp:bound=1", "sync:aggregate=1", "sync:aggregate=2,total=2"])
def test_what_contradicts_collectives_is_refused(regime: str) -> None:
    with pytest.raises(GraphError, match=r"trains by sync:aggregate=3,total=3; .* contradicts it"):
        trained(mirrored(3), 3, regime)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_other_numbers_of_workers_are_refused(workers: int) -> None:
    with pytest.raises(GraphError, match=f"joins 3 workers by collectives, but {workers} worker.* Start 3"):
        trained(mirrored(3), workers, "sync")


@pytest.mark.parametrize("home", ["", "/job:ps/task:0"])
def test_each_worker_has_a_client(home: str) -> None:
    made = distributed(mirrored(3, home=home), load_cluster("ps=1,worker=3"), regime=Regime("sync"))
    assert [program.name for program in made] == [f"worker:{at}" for at in range(3)]


def test_a_whole_group_in_one_graph_joins_nobody() -> None:
    made = distributed(mirrored(2, 2), load_cluster("worker=2x2cpu"), regime=Regime("async"))
    assert {program.joined for program in made} == {1}


@pytest.mark.parametrize("factor", [2, 8])
def test_a_degraded_link_slows_the_sums_of_workers(factor: int) -> None:
    """Their bytes take no link, but the ring is as slow as its slowest hop."""
    graph = mirrored(2, examples=10**6)
    plain, slow = (trained(graph, 2, "sync", slow=one) for one in ("", f"link:worker:0->worker:1=degrade:{factor}"))
    took, longer = (int((run.step_end_ns - run.step_start_ns).max()) for run in (plain, slow))
    wire_ns = 4 * 10**6 * 10**9 / load_cluster("worker=2").links[0].bytes_per_s  # of 2 (n - 1) / n of the bytes
    assert longer - took == pytest.approx((factor - 1) * wire_ns, rel=0.01)
