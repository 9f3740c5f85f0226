"""--order enforced: a real session with several threads runs the ops of each device in the order of the plan."""

from __future__ import annotations

import base64
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from simulator import read_graph
from simulator.graph.graph import Graph
from simulator.graph.graph_def import graph_def
from simulator.graph.step import Step
from simulator.oracle.timing import timed
from tests.oracle.staying import staying
from tests.oracle.test_order import BEGIN, SIDE, drawn, step_of
from tests.strategies import Rows, typed
from tests.viz.scenes import EXAMPLE
from viz import Result, run

pytestmark = pytest.mark.tensorflow

CPUS = 3
THREADS = 4  # more than there are devices, so that nothing but the edges can keep their order


def spans(graph: Graph, step: Step) -> dict[str, tuple[int, int]]:
    """Start and end of each op of a real session, by name."""
    stats, why_not = timed(
        graph_def(graph), graph, step, counts={"CPU": CPUS, "GPU": 0}, threads=THREADS, step_timeout_s=30, timeout_s=60
    )
    assert stats is not None, why_not
    return {
        line.node_name: (line.all_start_nanos, line.all_start_nanos + line.op_end_rel_nanos)
        for device in stats.dev_stats
        for line in device.node_stats
    }


def written(result: Result, path: Path) -> Graph:
    result.write(path)
    return read_graph(path)


@pytest.mark.parametrize("seed", range(2))
def test_threads_take_the_ops_of_a_device_in_the_order_of_the_plan(seed: int, tmp_path: Path) -> None:
    graph = drawn(seed, 120, begin=BEGIN[:1])  # no op lacks what another needs from outside
    step = step_of(graph)
    asked: dict[str, Any] = {"cluster": f"cpu={CPUS}", "algorithm": "heft", "fetches": step.fetches}
    asked["feeds"] = dict.fromkeys(step.feeds, (SIDE, SIDE))
    free = run(graph, **asked)
    held = run(graph, **asked, order="enforced")
    edges = [(graph.names[first], graph.names[then]) for first, then in held.waits]
    assert len(edges) > 30
    taken = spans(written(held, tmp_path / "held.pb"), held.step)
    assert all(taken[first][1] <= taken[then][0] for first, then in edges)
    loose = spans(written(free, tmp_path / "free.pb"), free.step)
    assert any(loose[first][1] > loose[then][0] for first, then in edges)
    chained = {name for edge in edges for name in edge}  # not so are products with their sums: they may be one kernel
    planned: dict[int, list[str]] = {}
    ops = free.trace.ops
    for node, device, start, end in zip(ops.node, ops.device, ops.start_ns, ops.end_ns, strict=True):
        if end > start and not free.partitions.inserted[node] and free.partitions.graph.names[node] in chained:
            planned.setdefault(int(device), []).append(free.partitions.graph.names[node])
    for names in planned.values():
        assert all(taken[first][0] < taken[then][0] for first, then in pairwise(names))


def test_a_check_is_of_the_cut_without_edges_and_the_written_graph_has_its_own(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"cluster": "cpu=3", "ignore_devices": True, "order": "enforced"}
    found = run(EXAMPLE, **asked, check=True)
    assert found.waits
    path = tmp_path / "placed.pbtxt"
    found.write(path)
    again = run(
        path, cluster="cpu=3", algorithm="requested", order="tensorflow", fetches=found.step.fetches, check=True
    )
    for check in (found.check, again.check):
        assert check is not None
        assert (check["differences"], check["laws"]) == ([], [])
        assert check["partition"]["agree"] == check["partition"]["of"] > 0


def two_sides(seed: int) -> Graph:
    """Products and sums of what is fed as y, others of x, and one sum of both."""
    chance, draft, last = random.Random(seed), Rows(), []
    for given, count in (("y", 40), ("x", 25)):
        draft.add(given, "Placeholder", **typed("Placeholder", (SIDE, SIDE)))
        names = [given]
        for at in range(count):
            op = chance.choice(["MatMul", "MatMul", "AddV2"])
            names.append(f"{given}{at}")
            draft.add(names[-1], op, [chance.choice(names[-7:-1]) for _ in range(2)], **typed(op, (SIDE, SIDE)))
        last.append(names[-1])
    draft.add("loss", "AddV2", last, **typed("AddV2", (SIDE, SIDE)))
    return draft.built()


@pytest.mark.parametrize("seed", [31, 34])
def test_a_prediction_needs_no_labels(seed: int, tmp_path: Path) -> None:
    feeds = {"x:0": (SIDE, SIDE), "y:0": (SIDE, SIDE)}
    asked: dict[str, Any] = {"cluster": f"cpu={CPUS}", "algorithm": "heft", "fetches": ["loss:0"], "feeds": feeds}
    found = run(two_sides(seed), **asked, order="enforced")
    assert len(found.waits) > 10
    path = tmp_path / "held.pb"
    found.write(path)
    for fed, fetches in ((["x:0"], ["x24:0"]), (["y:0"], ["y39:0"]), ([*feeds], ["loss:0"])):
        question = {"graph": base64.b64encode(path.read_bytes()).decode(), "cpus": CPUS, "meta": False}
        question |= {"initialise": [], "feeds": {name: feeds[name] for name in fed}, "fetches": fetches}
        told = json.loads(staying("tests.oracle.running_placed")(json.dumps(question).encode(), 120))
        assert len(told["values"]) == 1
