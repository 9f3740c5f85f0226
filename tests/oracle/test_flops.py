"""Our counts beside Grappler's, on a spread of ops; where they differ, it is written down why."""

import base64
import json
from typing import Any

import pytest

from simulator.cluster.cluster import Cluster, Device
from simulator.costs.estimate import estimate
from simulator.graph.importer import read_graph
from simulator.oracle import child

pytestmark = pytest.mark.tensorflow

CPU = Device("/job:localhost/replica:0/task:0/device:CPU:0", "CPU", "cpu", 2**34, 10**12, 10**11, 1000)
ALONE = Cluster((CPU,), (), (((),),))
ROUNDING = 1  # Grappler's 1 ns stands for nothing, and it rounds up

OTHER_WORK = {
    "Mean": "unknown to Grappler; a sum",
    "Pow": "unknown to Grappler; a logarithm and an exponential",
    "L2Loss": "unknown to Grappler; a square and a sum",
    "SigmoidGrad": "unknown to Grappler",
    "ResourceApplyGradientDescent": "unknown to Grappler",
}
OTHER_BYTES = {
    "MaxPoolGrad": "Grappler leaves out one of the three inputs",
    "GatherV2": "Grappler adds the number of indices instead of their bytes",
    "Slice": "Grappler adds the number of indices instead of their bytes",
    "Fill": "the shape to fill is not read by the kernel",
    "OneHot": "the indices are negligible beside what is written",
    "Assign": "the variable is not read, only written",
    "AssignAddVariableOp": "the variable is read and written",
    "AssignVariableOp": "the variable takes the buffer of its value",
    "ResourceApplyGradientDescent": "the variable is read and written",
}


@pytest.fixture(scope="module")
def counts() -> Any:
    """Rows of (op, our work, our bytes, Grappler's work, Grappler's bytes)."""
    told = json.loads(child.run("tests.oracle.estimating", b"", timeout_s=120))
    graph = read_graph(base64.b64decode(told["graph"]))
    costs = estimate(graph, ALONE)
    rows = []
    for name, (work, traffic) in told["counts"].items():
        node = graph.row(name)
        rows.append((graph.ops[node], int(costs.flops[node]), int(costs.moved_bytes[node]), work, traffic))
    return rows


def far(ours: Any, theirs: Any) -> Any:
    return abs(ours - theirs) > ROUNDING


def test_work_is_grappler_s(counts: Any) -> None:
    assert len(counts) > 90
    assert {op for op, work, _, theirs, _ in counts if far(work, theirs)} == set(OTHER_WORK)


def test_bytes_are_grappler_s(counts: Any) -> None:
    # batch normalisation reads its statistics' scratch, 32 bytes, or not
    rows = [row for row in counts if not row[0].startswith("FusedBatchNorm")]
    assert {op for op, _, traffic, _, theirs in rows if far(traffic, theirs)} == set(OTHER_BYTES)


def test_batch_normalisation_is_within_a_percent(counts: Any) -> None:
    rows = [row for row in counts if row[0].startswith("FusedBatchNorm")]
    assert len(rows) == 3
    assert all(abs(traffic - theirs) < 0.01 * theirs for _, _, traffic, _, theirs in rows)
