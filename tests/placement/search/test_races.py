"""Races of short, hot cycles: layers alone move in them, and they find how layers are best set on devices."""

from __future__ import annotations

from placement.effort import Effort
from placement.problem import Problem
from placement.scheduling.ranks import upward_ranks
from placement.search.decisions import decisions_of
from placement.search.judge import Judge
from placement.search.walk import CycleKind, Progress, Walker, raced
from simulator.execution.choosing import load
from simulator.execution.flattening import workspace
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks

TOWERS, DEPTH, DEVICES = 3, 6, 2
WEIGHT, VALUE = 400, 80  # bytes take nanoseconds
TIMES = {"weight": 1, "forward": 100, "backward": 200, "update": 300}


def towers() -> Problem:
    """Towers that share the weights of all layers, forwards and backwards, with an update of each weight."""
    edges: dict[tuple[str, str], int | None] = {}
    for layer in range(DEPTH):
        for tower in range(TOWERS):
            forward, backward = f"forward_{layer}_{tower}", f"backward_{layer}_{tower}"
            edges[f"weight_{layer}", forward] = edges[f"weight_{layer}", backward] = WEIGHT
            if layer:
                edges[f"forward_{layer - 1}_{tower}", forward] = VALUE
                edges[backward, f"backward_{layer - 1}_{tower}"] = VALUE
            edges[forward, backward] = VALUE
            edges[backward, f"update_{layer}"] = WEIGHT
        edges[f"weight_{layer}", f"update_{layer}"] = WEIGHT
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    on = cluster_of("g" * DEVICES)
    costs = costs_of(on, [[TIMES[name.split("_")[0]]] * DEVICES for name in names])
    return problem_of(tasks(edges, names), on, costs)


def test_races_set_layers_better_than_cycles_of_as_many_moves() -> None:
    """All is on one device at first. A weight moves only with all that reads it in three towers."""
    problem = towers()
    made = decisions_of(problem, upward_ranks(problem), 0)
    raced_ns, walked_ns = 0, 0
    with workspace(problem.tables, problem.options.contention, task=problem.handing) as own:
        for seed in range(4):
            judge = Judge(made, own, load().play, Effort(judged=10**6))
            walker, start = Walker(judge, made, seed), judge.judge("one device", [0] * len(problem.ops))
            before = judge.judged
            best, *starts = raced(walker, [start], Progress())
            assert starts == [start]
            raced_ns += best.ns
            walked_ns += walker.cycle(start, judge.judged - before, CycleKind(10), Progress()).ns
    assert raced_ns < 0.98 * walked_ns


def test_layers_of_one_size_stay_together_where_whole_layers_move() -> None:
    problem = towers()
    made = decisions_of(problem, upward_ranks(problem), 0)
    with workspace(problem.tables, problem.options.contention, task=problem.handing) as own:
        judge = Judge(made, own, load().play, Effort(judged=10**6))
        walker, start = Walker(judge, made, 0), judge.judge("one device", [0] * len(problem.ops))
        found = walker.cycle(start, 1000, CycleKind(30, whole=1000, sizes=1), Progress())
    on = found.device[made.free]
    assert found.ns < start.ns
    assert (on == on[walker.layer[0]]).all()
