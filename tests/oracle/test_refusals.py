"""What TensorFlow's placer refuses, at which node and why, and where it puts what it takes, beside ours."""

import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from placement.placing import place
from simulator.cluster.cluster import Cluster
from simulator.cluster.description import load_cluster
from simulator.errors import GraphError, InfeasibleError
from simulator.graph.graph import Graph
from simulator.graph.inlining.expanding import lower
from simulator.oracle.child import Asking
from simulator.oracle.dry_runs import conversation, dry_run, extended
from simulator.oracle.verification import complaint
from simulator.placer.colocation import inspected
from simulator.placer.constraints import constrain
from tests.oracle import drawn
from tests.oracle.test_local import runs
from tests.placement.problems import costs_of, whole
from tests.placement.rules import CASES
from tests.strategies import Rows

PROFILE = settings.default
assert PROFILE is not None
GRAPHS = 3 * PROFILE.max_examples  # per test
SEED = 5 if PROFILE.derandomize else random.randrange(2**32)  # a failure shows it
pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def asking() -> Iterator[Asking]:
    with conversation() as asking:
        yield asking


def ours(graph: Graph, cluster: Cluster, soft: bool) -> Any:
    """{node: device} in the order of the log, or what we complain of."""
    try:
        constrain(graph, cluster, soft=soft)
    except (GraphError, InfeasibleError) as error:
        return complaint(str(error), error.node) or error
    costs = costs_of(cluster, [[0] * len(cluster.kinds)] * len(graph))
    found = place(graph, cluster, costs, step=whole(graph), algorithm="tensorflow", soft=soft)
    assert found.log_order is not None
    return {graph.names[row]: cluster.devices[found.device[row]].name for row in found.log_order.tolist()}


def theirs(graph: Graph, cluster: Cluster, soft: bool, asking: Asking) -> Any:
    """Likewise; a refusal of the importer is a sentence."""
    last = (graph if graph.lowered is None else graph.lowered.given).names[-1]
    seen = dry_run(graph, cluster, step=runs(graph, last), soft=soft, asking=asking)
    if seen.refusal is None:
        return seen.placement
    return complaint(seen.refusal) or seen.refusal


def unordered(graph: Graph) -> Any:
    """Whether TensorFlow takes something in the order of a set of pointers, which differs from run to run."""
    calls = inspected(graph)
    return len(calls) > 1 or any(graph.out_ptr[call + 1] - graph.out_ptr[call] > 8 for call in calls)


def alike(mine: Any, other: Any) -> Any:
    if isinstance(mine, dict) or isinstance(other, dict):
        return mine == other and list(mine) == list(other)
    return mine == other


@pytest.mark.parametrize("name", CASES)
def test_tensorflow_gives_the_answer_that_was_worked_out(name: str, asking: Asking) -> None:
    case = CASES[name]
    found = theirs(lower(case.graph()), load_cluster(case.cluster), case.soft, asking)
    if case.refused:
        assert found == case.refused
        return
    short = {device.name: device.short.removeprefix("localhost:0/") for device in load_cluster(case.cluster).devices}
    assert {node: short[found[node]] for node in case.devices} == case.devices


def test_both_list_the_devices_in_the_same_order(asking: Asking) -> None:
    rows, cluster = Rows(), load_cluster("12cpu")
    rows.add("x", "NoOp", device="/job:ps")
    graph = rows.built()
    with pytest.raises(InfeasibleError) as caught:
        constrain(graph, cluster)
    seen = dry_run(graph, cluster, step=runs(graph, "x"), asking=asking)
    mine, other = (re.findall(r"\S+/device:\w+:\d+", text) for text in (str(caught.value), seen.refusal or ""))
    assert mine == other[: len(mine)]
    assert mine[:3] == [f"/job:localhost/replica:0/task:0/device:CPU:{number}" for number in (0, 1, 10)]


@pytest.mark.parametrize(
    ("cluster", "draws"),
    [
        ("4cpu", drawn.graph),
        ("2gpu", drawn.graph),
        ("ps=1x1gpu,worker=2x2gpu", drawn.graph),
        ("ps=1,worker=2x1gpu", drawn.graph_with_calls),
    ],
)
def test_both_refuse_at_the_same_node_or_place_alike(cluster: str, draws: Any, asking: Asking) -> None:
    there = extended(load_cluster(cluster))
    kinds: Counter[str] = Counter()
    for at in range(GRAPHS):
        draw = random.Random(seed := f"{SEED}/{at}")
        graph, soft = lower(draws(draw, there)), draw.random() < 0.6
        other = theirs(graph, there, soft, asking)
        if isinstance(other, str):  # its importer's shape functions, of which we know nothing
            kinds["not imported"] += 1
            continue
        mine = ours(graph, there, soft)
        if alike(mine, other):
            kinds["placed" if isinstance(other, dict) else other.kind] += 1
        else:
            assert unordered(graph), (seed, mine, other)
            kinds["unordered"] += 1
    assert kinds["unordered"] <= 1 + 0.005 * GRAPHS
    assert kinds["placed"] > 0.3 * GRAPHS
    assert sum(kinds.values()) - kinds["placed"] - kinds["not imported"] > 0.05 * GRAPHS
    assert len(kinds) > 4
