"""Trainings that wait for their input, real ones and simulated."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from placement import clients
from simulator import estimate_each, load, load_cluster, read_regime, replicate, train
from simulator.cluster.cluster import Cluster
from simulator.columns import ids
from simulator.costs.table import MEASURED, CostTable
from simulator.graph.graph import Graph
from simulator.training.answers.answers import answers
from simulator.training.clients import Client
from simulator.training.inputs.finding import inputs_of
from simulator.training.inputs.pipeline import InputPipelines, read_rate
from simulator.training.training import Training
from tests.oracle.forking import printed

ASYNC = read_regime("async")


def asked(cases: Sequence[Mapping[str, Any]], folder: Path, steps: int) -> list[float]:
    """Write the cases' MetaGraphs to the folder; the seconds that so many real steps of each took. Any: JSON."""
    told = printed("tests.oracle.feeding", json.dumps(cases), str(folder), str(steps))
    seconds: list[float] = json.loads(told[-1])["seconds"]
    return seconds


def simulated(
    case: Mapping[str, Any], graph: Graph, *, rates: Sequence[str] = (), steps: int = 60
) -> tuple[Training, InputPipelines]:
    """The training of a case on one CPU, whose sleeps are as long as they were asked to be. Any: JSON."""
    made, cluster, costs, inputs = _prepared(case, graph, rates)
    return train(made, cluster, costs, regime=ASYNC, steps=steps, inputs=inputs), inputs


def pipelines(case: Mapping[str, Any], graph: Graph) -> InputPipelines:
    """The inputs of that training, which does not run. Any: JSON."""
    return _prepared(case, graph, ())[3]


def _prepared(
    case: Mapping[str, Any], graph: Graph, rates: Sequence[str]
) -> tuple[tuple[Client, ...], Cluster, list[CostTable], InputPipelines]:
    cluster = load_cluster("1cpu")
    programs = replicate(graph, cluster, how="in", regime=ASYNC)
    costs = [
        _sleeping(program.graph, table, case)
        for program, table in zip(programs, estimate_each(programs, cluster), strict=True)
    ]
    made = clients(programs, cluster, costs)
    return made, cluster, costs, inputs_of(made, cluster, costs, rates=[read_rate(text) for text in rates])


def _sleeping(graph: Graph, costs: CostTable, case: Mapping[str, Any]) -> CostTable:
    """With the sleeps of the case, as measured."""
    run_ns, source = np.array(costs.run_ns), np.array(costs.source)
    for name in ("make", "again", "step"):
        if name in graph.index:
            run_ns[graph.index[name]], source[graph.index[name]] = round(case[f"{name}_s"] * 1e9), MEASURED
    return replace(costs, run_ns=run_ns, source=ids(source))


def rate(run: Training) -> float:
    """Its steps per second."""
    found = answers(run).steps_per_s
    assert found is not None
    return found


def read(folder: Path, row: int) -> Graph:
    """The graph of a case."""
    return load(str(folder / f"{row}.meta"))
