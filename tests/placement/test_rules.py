"""TensorFlow's placer case by case, held against answers that were worked out by hand: rules.py has them."""

import pytest

from placement.placing import place
from simulator.cluster.description import load_cluster
from simulator.errors import GraphError, InfeasibleError
from simulator.graph.inlining.expanding import lower
from simulator.oracle.verification import complaint
from simulator.placer.constraints import constrain
from tests.placement.problems import costs_of, whole
from tests.placement.rules import CASES
from tests.test_sections import unknown


@pytest.mark.parametrize("name", CASES)
def test_the_rule_holds(name: str) -> None:
    case = CASES[name]
    graph, cluster = lower(case.graph()), load_cluster(case.cluster)
    if case.refused:
        with pytest.raises((GraphError, InfeasibleError)) as caught:
            constrain(graph, cluster, soft=case.soft)
        refused = caught.value
        assert isinstance(refused, GraphError | InfeasibleError)
        assert complaint(str(refused), refused.node) == case.refused
        return
    costs = costs_of(cluster, [[0] * len(cluster.kinds)] * len(graph))
    found = place(graph, cluster, costs, step=whole(graph), algorithm="tensorflow", soft=case.soft)
    short = {name: cluster.devices[found.device[graph.row(name)]].short for name in case.devices}
    assert {name: device.removeprefix("localhost:0/") for name, device in short.items()} == case.devices


def test_every_case_cites_a_section_that_is_there() -> None:
    assert unknown({name: f"§{case.section}" for name, case in CASES.items()}) == []


def test_devices_of_equal_rank_are_ordered_by_name_as_text() -> None:
    cluster = load_cluster("12cpu")
    graph = CASES["devices_are_ordered_as_text-hard"].graph()
    found = constrain(graph, cluster)
    order = [cluster.devices[row].short.rpartition(":")[2] for row in found.allowed[found.group[graph.row("y")]]]
    assert order == sorted(map(str, range(12)))
