"""TensorFlow's partitioner case by case, held against pieces that were worked out by hand: rules.py has them."""

from __future__ import annotations

import pytest

from placement.placing import place
from simulator.assignment import Assignment
from simulator.cluster.cluster import Cluster
from simulator.cluster.description import load_cluster
from simulator.comparison.cut_nodes import nodes_of
from simulator.graph.graph import Graph
from simulator.partitioning.cut import partition, partition_by_task
from simulator.partitioning.partitions import Partitions
from tests.partitioning.rules import CASES
from tests.partitioning.worked import LOCAL, MASTER, Case, lines, short
from tests.placement.problems import costs_of
from tests.test_sections import unknown


def placed(case: Case, graph: Graph, on: Cluster) -> Assignment:
    """Where TensorFlow would place it; all that asks for a device gets it."""
    costs = costs_of(on, [[0] * len(on.kinds)] * len(graph))
    return place(graph, on, costs, step=case.step(graph), algorithm="tensorflow")


def cut(case: Case, graph: Graph, on: Cluster, where: Assignment) -> Partitions:
    """The pieces as the one that the case names cuts them."""
    step, late = case.step(graph), case.recv_scheduling
    if case.by == MASTER:
        return partition_by_task(graph, where, on, step=step, recv_scheduling=late)
    flavour = "local" if case.by == LOCAL else "master"
    return partition(graph, where, on, step=step, flavour=flavour, recv_scheduling=late)


@pytest.mark.parametrize("name", CASES)
def test_the_pieces_are_those_that_were_worked_out(name: str) -> None:
    case, on = CASES[name], load_cluster(CASES[name].cluster)
    graph = case.graph()
    where = placed(case, graph, on)
    assert set(lines(nodes_of(cut(case, graph, on, where)))) == case.pieces
    assert where.log_order is not None
    log = [f"{graph.names[row]}: {short(where.name_of(row))}" for row in where.log_order.tolist()]
    assert [line for line in log if line in case.log] == list(case.log)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.by == LOCAL])
def test_a_key_has_five_parts_and_is_that_of_its_send(name: str) -> None:
    case, on = CASES[name], load_cluster(CASES[name].cluster)
    pieces = cut(case, case.graph(), on, placed(case, case.graph(), on))
    assert len(set(pieces.key)) == len(pieces.key)
    for key, row in zip(pieces.key, pieces.send.tolist(), strict=True):
        source, incarnation, destination, tensor, frame = key.split(";")
        attrs = pieces.graph.attrs[row]
        said = [attrs[attr].s.decode() for attr in ("send_device", "recv_device", "tensor_name")]
        assert said == [source, destination, tensor]
        assert (len(incarnation), int(incarnation, 16)) == (16, attrs["send_device_incarnation"].i)
        assert frame == "0:0"  # of the iteration in which a loop is left, the runtime writes its own


def test_every_case_cites_a_section_that_is_there() -> None:
    assert unknown({name: f"§{case.section}" for name, case in CASES.items()}) == []
