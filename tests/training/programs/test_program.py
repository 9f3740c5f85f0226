"""Measured times hold for every copy of what was measured, however a graph is replicated."""

from __future__ import annotations

from pathlib import Path

import pytest

from placement import clients
from simulator import answers, load_cluster, train
from simulator.costs.estimate import estimate
from simulator.costs.matching import with_measured
from simulator.costs.measured import MeasuredTimes, Sample
from simulator.costs.table import MEASURED, CostTable
from simulator.graph.graph import Graph
from simulator.training.programs.program import Program, estimate_each
from simulator.training.programs.replicated import Replication, replicate
from simulator.training.regimes import Regime, read_regime
from tests.training.programs.test_between import momentum
from viz import run

WAYS: list[tuple[Replication, str, str]] = [
    ("in", "3gpu", "sync"),
    ("in", "3gpu", "async"),
    ("in", "ps=1,worker=2x2gpu", "ssp:bound=1"),
    ("between", "ps=2,worker=3x1gpu", "async"),
    ("between", "ps=2,worker=3x1gpu", "sync:aggregate=2"),
    ("both", "ps=1,worker=2x2gpu", "async"),
    ("both", "ps=1,worker=2x2gpu", "sync"),
    ("allreduce:ring", "3gpu", "sync"),
    ("allreduce:tree", "2gpu", "sync"),
    ("allreduce:hierarchical", "worker=2x2gpu", "sync"),
]


def measured(graph: Graph, *more: Sample) -> MeasuredTimes:
    """A time of its own for every node, on any device."""
    samples = [Sample(name, kind, 1000 + row) for row, name in enumerate(graph.names) for kind in ("CPU", "GPU")]
    return MeasuredTimes((*samples, *more), "what was measured")


def priced(programs: tuple[Program, ...], cluster: str, given: MeasuredTimes) -> tuple[CostTable, ...]:
    there = load_cluster(cluster)
    return estimate_each(programs, there, lambda graph, at: with_measured(estimate(graph, at), given, graph, at))


def made(how: Replication, cluster: str, regime: Regime | None) -> tuple[Program, ...]:
    return replicate(momentum(batch=32), load_cluster(cluster), how=how, regime=regime)


@pytest.mark.parametrize(("how", "cluster", "regime"), WAYS)
def test_every_copy_takes_the_time_of_its_original(how: Replication, cluster: str, regime: str) -> None:
    source = momentum(batch=32)
    programs = made(how, cluster, read_regime(regime))
    for program, costs in zip(programs, priced(programs, cluster, measured(source)), strict=True):
        graph = program.graph
        for row, name in enumerate(graph.names):
            original = graph.copies.get(name, name)
            if original in source.index:
                wanted = 1000 + source.index[original]
                assert {time for time in costs.run_ns[row].tolist() if time >= 0} <= {wanted}
                assert costs.source[row] == MEASURED or (costs.run_ns[row] < 0).all()
        scoped = [name for name in graph.names if name.startswith(("tower_", "replica_"))]
        assert {name: name.partition("/")[2] for name in scoped} == {name: graph.copies[name] for name in scoped}
        assert bool(scoped) == (how != "between")


def test_a_copy_that_was_measured_itself_keeps_its_own_time() -> None:
    source = momentum(batch=32)
    (program,) = made("in", "3gpu", None)
    own = Sample("tower_1/grad_w", "GPU", 77)
    (costs,) = priced((program,), "3gpu", measured(source, own))
    graph = program.graph
    on_gpu = costs.kinds.index(next(one.kind for one in load_cluster("3gpu").devices if one.type == "GPU"))
    times = [costs.run_ns[graph.row(name), on_gpu] for name in ("grad_w", "tower_1/grad_w", "tower_2/grad_w")]
    assert times == [1000 + source.row("grad_w"), 77, 1000 + source.row("grad_w")]


@pytest.mark.parametrize(
    ("how", "cluster", "regime", "updates_per_step"),
    [
        ("in", "4gpu", "async", 4),
        ("in", "4gpu", "sync", 1),
        ("both", "ps=1,worker=2x2gpu", "async", 2),
        ("between", "ps=1,worker=3x1gpu", "async", 3),
        ("allreduce:ring", "4gpu", "sync", 1),
    ],
)
def test_the_rate_is_that_of_what_was_measured(
    how: Replication, cluster: str, regime: str, updates_per_step: int
) -> None:
    """A gradient of a second on every GPU: each worker takes a step a second, whatever else there is."""
    there, asked = load_cluster(cluster), read_regime(regime)
    programs = replicate(momentum(batch=32), there, how=how, regime=asked)
    second = MeasuredTimes((Sample("grad_w", "GPU", 10**9), Sample("grad_w", "CPU", 10**9)), "a clock")
    costs = priced(programs, cluster, second)
    found = answers(train(clients(programs, there, costs), there, costs, regime=asked, steps=8))
    assert found.steps_per_s == pytest.approx(updates_per_step, rel=0.01)


def test_the_command_reads_several_files_for_all_programs(tmp_path: Path) -> None:
    graph = Path(__file__).parents[3] / "examples" / "ps_training.pbtxt"
    (tmp_path / "one.csv").write_text("dense/MatMul,CPU,1e9\n")
    (tmp_path / "two.csv").write_text("dense/MatMul,GPU,1e9\nnowhere,GPU,1\n")
    files = [tmp_path / "one.csv", tmp_path / "two.csv"]
    found = run(graph, cluster="ps=2,worker=2x1gpu", training="async", steps=3, costs=files)
    assert found.training is not None
    assert found.training.answers.steps_per_s == pytest.approx(2, rel=0.05)
    assert any("not in the graph: 1 of 2 (nowhere)" in note for note in found.costs.notes)
