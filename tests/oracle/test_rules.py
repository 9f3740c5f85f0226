"""TensorFlow's own answers to the tricky cases of the partitioner, held against those that were worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from simulator.cluster.description import load_cluster
from simulator.comparison.comparison import compare_items
from simulator.comparison.cut_nodes import nodes_of_messages
from simulator.oracle.child import Asking
from simulator.oracle.dry_runs import conversation, dry_run
from tests.partitioning.rules import CASES
from tests.partitioning.test_rules import cut, placed
from tests.partitioning.worked import WORKERS, lines, short

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def asking() -> Iterator[Asking]:
    with conversation() as found:
        yield found


@pytest.mark.parametrize("name", CASES)
def test_tensorflow_cuts_as_was_worked_out(name: str, asking: Asking) -> None:
    case, on = CASES[name], load_cluster(CASES[name].cluster)
    graph = case.graph()
    seen = dry_run(
        graph,
        on,
        step=case.step(graph),
        asking=asking,
        real_workers=case.by == WORKERS,
        recv_scheduling=case.recv_scheduling,
    )
    assert seen.refusal is None
    theirs = seen.worker_partitions if case.by == WORKERS else seen.partitions
    assert set(lines(nodes_of_messages(theirs))) == case.pieces
    log = [f"{node}: {short(device)}" for node, device in seen.placement.items()]
    assert [line for line in log if line in case.log] == list(case.log)
    found = compare_items(cut(case, graph, on, placed(case, graph, on)), theirs, graph=graph)
    assert (found.raw, found.differences) == (len(case.pieces), ())
