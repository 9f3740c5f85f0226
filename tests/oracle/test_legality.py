"""An assignment is refused if and only if TensorFlow, with hard placement, would not run it as it stands."""

import random
from dataclasses import replace

import pytest

from simulator.assignment import Assignment
from simulator.cluster.description import load_cluster
from simulator.columns import ids
from simulator.errors import InfeasibleError, OracleError
from simulator.graph.graph import Graph
from simulator.graph.step import choose_step
from simulator.oracle.dry_runs import conversation, dry_run
from simulator.oracle.verification import complaint
from simulator.placer.constraints import constrain
from simulator.placer.legality import require_legal
from tests.oracle import drawn

CASES = 60
pytestmark = pytest.mark.tensorflow


def plan(draw: random.Random, graph: Graph, on: object) -> list[int]:
    """Each group on some device that it may use; then, mostly, a node or two anywhere."""
    rules = constrain(graph, on, soft=False)  # type: ignore[arg-type]
    of_group = [draw.choice(may) for may in rules.may]
    rows = [of_group[group] for group in rules.group.tolist()]
    for _ in range(draw.choice([0, 1, 1, 2])):
        rows[draw.randrange(len(rows))] = draw.randrange(len(rules.devices))
    return rows


@pytest.mark.parametrize("described", ["4cpu", "ps=1x2cpu,worker=2x2gpu"])
def test_we_refuse_what_tensorflow_would_not_run_as_it_stands(described: str) -> None:
    draw, on = random.Random(3), load_cluster(described)
    names = tuple(device.name for device in on.devices)
    counted = {True: 0, False: 0}
    with conversation() as asking:
        for _ in range(CASES):
            made = drawn.graph(draw, on)
            graph = replace(made, requested=("",) * len(made))
            try:
                rows = plan(draw, graph, on)
            except InfeasibleError:  # of what some class asks for no session places the graph
                continue
            assignment = Assignment(names, ids(rows), ids([0] * len(rows)), "drawn", "drawn")
            try:
                require_legal(graph, assignment, on, soft=False)
                ours = ""
            except InfeasibleError as error:
                ours = str(error)
            pins = [assignment.name_of(row) for row in range(len(graph))]
            try:
                seen = dry_run(graph, on, step=choose_step(graph), soft=False, devices=pins, asking=asking)
            except OracleError:  # what cannot be imported is judged by nobody
                continue
            if seen.refusal and not seen.placement and complaint(seen.refusal) is None:
                continue  # the importer's, before anything was placed
            # the log is complete where the placer took all of it, whatever is refused afterwards
            moved = (name for name, pin in zip(graph.names, pins, strict=True) if seen.placement.get(name) != pin)
            theirs = next((f"{name} is on {seen.placement.get(name)}: {seen.refusal}" for name in moved), "")
            counted[not theirs] += 1
            assert bool(ours) == bool(theirs), (ours, theirs)
    assert min(counted.values()) >= CASES // 6, counted
