"""Variables of which an op takes or changes rows: TensorFlow copies them when they are read or assigned, as simviz."""

from __future__ import annotations

import base64
import json

import pytest

from placement import place
from simulator import choose_step, estimate, load, load_cluster, partition, simulate
from simulator.graph.handing_on import COPIED, NONE, handed_on
from tests.oracle.copying_reads import SHAPE
from tests.oracle.staying import staying

pytestmark = pytest.mark.tensorflow
BY_ROWS = (
    *("ResourceGather", "ResourceGatherNd", "ResourceScatterAdd", "ResourceScatterUpdate", "ResourceScatterNdAdd"),
    *("ResourceSparseApplyAdagrad", "ResourceStridedSliceAssign"),
)
WHOLE = ("ResourceApplyGradientDescent",)
BYTES = 4 * SHAPE[0] * SHAPE[1]


def test_a_variable_that_is_taken_by_rows_is_copied_by_each_read_and_assignment() -> None:
    """Others hand their buffer on, and take that of the value."""
    told = json.loads(staying("tests.oracle.copying_reads")(json.dumps([*BY_ROWS, *WHOLE]).encode(), 120))
    for op, (written, taken, put) in zip((*BY_ROWS, *WHOLE), told, strict=True):
        graph = load(base64.b64decode(written))
        read, copies = graph.index["read"], op in BY_ROWS
        assert (op, taken >= BYTES, put >= BYTES) == (op, copies, copies)
        assert (op, int(handed_on(graph)[read])) == (op, COPIED if copies else NONE)
        cluster = load_cluster("worker=1x1gpu")
        costs = estimate(graph, cluster)
        assert (op, int(costs.moved_bytes[read])) == (op, 2 * BYTES * copies)
        assigned = graph.index["assigned"]
        assert (op, int(costs.moved_bytes[assigned])) == (op, 2 * BYTES * copies)
        assert (op, bool((costs.run_ns[assigned] > costs.run_ns[graph.index["VarHandleOp"]]).all())) == (op, copies)
        step = choose_step(graph, fetches="end")
        pieces = partition(graph, place(graph, cluster, costs, step=step), cluster, step=step)
        peak = max(simulate(pieces, cluster, costs).peak_bytes.tolist())
        assert (op, peak // BYTES) == (op, 3 if copies else 2)
