"""The loop of the white paper on a real cluster of two processes, which leaves nothing behind."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from placement import refine
from placement.refining import NOISE, ROUNDS, SEEN
from simulator import SimulationOptions, choose_step, load, load_cluster
from simulator.costs.table import MEASURED
from simulator.errors import OracleError, SimvizError
from simulator.graph.graph import Graph
from simulator.graph.messages import GraphDef, NodeDef
from simulator.oracle import child, placed_steps
from simulator.oracle.timing import question_of
from tests.oracle.processes import gone, traces

pytestmark = pytest.mark.tensorflow
CLUSTER = load_cluster("worker=2")


def products() -> Graph:
    return load(GraphDef.FromString(child.run("tests.placement.two_products", b"", timeout_s=120)))


def test_the_loop_ends_below_the_noise_and_its_costs_are_measured() -> None:
    graph = products()
    step = choose_step(graph)
    stages: list[str] = []
    found = refine(graph, CLUSTER, step=step, seconds=0.5, rounds=3, say=stages.append)
    assert found.ended in (NOISE, SEEN, ROUNDS)
    assert 1 <= len(found.rounds) <= 3
    assert all(len(repr(one)) < 300 for one in (found, found.best, found.best.real, found.best.real.measured))
    for one in found.rounds:
        assert len(one.real.steps_ns) >= 5
        assert min(one.real.steps_ns) <= one.measured_ns <= max(one.real.steps_ns)
    assert all(found.costs.source[graph.index[name]] == MEASURED for name in ("left", "right", "sum"))
    # two products of 512: no processor takes less than 10 us for them, and no plan more than a minute
    assert 10**4 < found.best.measured_ns < 6 * 10**10
    assert found.best.measured_ns == min(one.measured_ns for one in found.rounds)
    assert "round 1: running the step" in stages
    assert str(found).splitlines()[0].split() == ["round", "predicted", "measured", "noise"]
    assert gone(traces(os.getpid()))


def copying(whole: GraphDef, name: str) -> list[NodeDef]:
    """Nodes that let a variable, and another one that no step uses, begin as a copy of one that has no first value."""
    made = {node.name: node for node in whole.node}
    likes = [made[like] for like in (name, name, f"{name}/Read/ReadVariableOp", f"{name}/Assign", f"{name}/Assign")]
    names = ("empty", "unused", "read", f"{name}/copied", "unused/copied")
    nodes = [NodeDef.FromString(like.SerializeToString()) for like in likes]
    for node, called in zip(nodes, names, strict=True):
        node.name = called
    for node in nodes[:2]:
        node.attr["shared_name"].s = node.name.encode()
    nodes[2].input[:] = ["empty"]
    nodes[3].input[:] = [name, "read"]
    nodes[4].input[:] = ["unused", "read"]
    return nodes


def test_variables_without_an_initialiser_get_made_up_values() -> None:
    """So have those that a function of TensorFlow 2 captures, and those that are to begin as a copy of such a one."""
    whole = GraphDef.FromString(child.run("tests.placement.two_products", b"", timeout_s=120))
    kept = [node for node in whole.node if not node.name.startswith(("w/Initializer", "w/Assign", "init"))]
    assert len(kept) < len(whole.node)
    bare = load(GraphDef(node=[*kept, *copying(whole, "w")], versions=whole.versions))
    assert question_of(bare, choose_step(bare))["first"] == ["w/copied"]
    with placed_steps.real_cluster(bare, CLUSTER, step=choose_step(bare), seconds=0.2) as running:
        assert len(running([CLUSTER.devices[0].name] * len(bare)).steps_ns) >= 5


def test_a_bad_input_is_refused_before_or_by_tensorflow() -> None:
    graph = products()
    step = choose_step(graph)
    with pytest.raises(SimvizError, match="0 rounds: give a number of at least 1"):
        refine(graph, CLUSTER, step=step, rounds=0)
    with pytest.raises(SimvizError, match="processes know no priorities"):
        refine(graph, CLUSTER, step=step, options=SimulationOptions(order="priority"))
    with pytest.raises(OracleError, match="has GPUs, and a cluster of local processes has CPUs alone"):
        refine(graph, load_cluster("2gpu"), step=step)
    with pytest.raises(OracleError, match="would need 20 processes, and 16 are the most"):
        refine(graph, load_cluster("worker=20"), step=step)
    assert gone(traces(os.getpid()))


class Interrupted(KeyboardInterrupt):
    """What Ctrl-C raises, told apart from the user's own."""


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    def raised(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, raised)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_ctrl_c_leaves_no_process_and_no_port() -> None:
    """While the processes start or run; what they left is looked for as soon as the call is back."""
    graph = products()
    step = choose_step(graph)
    with placed_steps.real_cluster(graph, CLUSTER, step=step, seconds=60) as run:
        with interrupted_after(2.5), pytest.raises(Interrupted):
            run([CLUSTER.devices[0].name] * len(graph))
        assert gone(traces(os.getpid()))


def test_without_tensorflow_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = products()
    missing = "raise ModuleNotFoundError(\"No module named 'tensorflow'\", name='tensorflow')"
    (tmp_path / "tensorflow.py").write_text(missing)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(OracleError, match="TensorFlow is not installed"):
        refine(graph, CLUSTER, step=choose_step(graph))
    assert gone(traces(os.getpid()))


def test_a_port_that_was_taken_meanwhile_is_replaced() -> None:
    """The first cluster finds a port of its own taken; all of its processes are gone, and the second serves."""
    answer = json.loads(child.run("tests.placement.ports_taken", b"1", timeout_s=120))
    assert answer["target"].startswith("grpc://")
    assert answer["tries"] == 2
    assert answer["living"] == 1  # the other task of the second cluster
