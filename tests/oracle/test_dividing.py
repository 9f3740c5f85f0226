"""Graphs that divide a step by themselves, as TensorFlow's users write them, and what a training makes of them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from simulator import load_cluster
from simulator.errors import GraphError, SimvizError
from simulator.graph.graph import Graph
from simulator.graph.importer import read_graph
from simulator.graph.inlining.expanding import inline, lower
from simulator.graph.messages import GraphDef
from simulator.oracle import child
from simulator.training.pipelines.pipelined import pipeline
from simulator.training.programs.replicated import Replication, replicate
from simulator.training.recognition.anatomy import anatomy
from simulator.training.recognition.captured import with_variables
from simulator.training.recognition.division import own_division
from tests.oracle.dividing import BATCH
from viz.command.options import parser
from viz.command.request import read_request
from viz.command.running import run
from viz.scene import Scene, Trained

pytestmark = pytest.mark.tensorflow

# name -> devices of one type that it names, towers, examples of a step
GRAPHS: dict[str, tuple[int, int, int]] = {
    "cifar": (4, 4, 4 * BATCH),
    "cifar resource": (4, 4, 4 * BATCH),
    "cifar split": (3, 3, 3 * BATCH),
    "scopes": (0, 4, 4 * BATCH),
    "structure": (0, 4, 4 * BATCH),
    "regularised": (0, 2, 2 * BATCH),
    "clipped": (0, 2, 2 * BATCH),
    "clones": (0, 3, 3 * BATCH),
    "median": (0, 1, 3 * BATCH),  # what meets by sorting is no tower but by its name
    "async": (0, 3, 3 * BATCH),
    "split": (0, 3, 3 * BATCH),
    "loops": (0, 2, 2 * BATCH),
    "loops on devices": (2, 2, 2 * BATCH),
    "cpus": (2, 2, 2 * BATCH),
    "one": (0, 1, BATCH),
    "one recurrent": (0, 1, BATCH),
    "layers": (4, 1, BATCH),
    "cells": (3, 1, BATCH),
    "cells on one": (0, 1, BATCH),
    "siamese": (0, 1, BATCH),
    "adversarial": (0, 1, 2 * BATCH),  # inputs of the discriminator
    "function layers": (2, 1, 2 * BATCH),
    "function towers": (4, 4, 4 * BATCH),
    "keras layers": (2, 1, 2 * BATCH),
    "keras towers": (2, 2, 2 * BATCH),
}
SETTER = ("cifar plain", "cifar setter")
WHOLE = ("cifar", "scopes", "cells", "layers", "function towers", "keras layers")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each graph in a file, as TensorFlow wrote it."""
    told = json.loads(
        child.run("tests.oracle.dividing", json.dumps([*GRAPHS, *SETTER]).encode(), timeout_s=240, keras=True)
    )
    folder, made = tmp_path_factory.mktemp("graphs"), {}
    for name, text in told.items():
        made[name] = folder / f"{name.replace(' ', '_')}.pb"
        made[name].write_bytes(base64.b64decode(text))
    return made


def read(path: Path) -> Graph:
    return with_variables(lower(inline(read_graph(GraphDef.FromString(path.read_bytes())))))


def seen(path: Path, *arguments: str) -> tuple[Scene, Trained]:
    asked = [str(path), "--algorithm", "tensorflow", "--steps", "10", *arguments]
    scene = run(read_request(parser().parse_args(asked)))
    assert scene.training is not None
    return scene, scene.training


def trained(path: Path, *arguments: str) -> Trained:
    return seen(path, *arguments)[1]


@pytest.mark.parametrize("name", list(GRAPHS))
def test_devices_towers_and_batch_are_recognised(files: dict[str, Path], name: str) -> None:
    graph = read(files[name])
    found = anatomy(graph)
    held = own_division(graph, found)
    assert (len(held.devices), held.towers, found.batch) == GRAPHS[name]


def test_between_graphs_towers_stand_as_under_the_real_setter(files: dict[str, Path]) -> None:
    plain, under = read(files["cifar plain"]), read(files["cifar setter"])
    ours = replicate(plain, load_cluster("ps=2,worker=2x4gpu"))[1].graph
    named = dict(zip(ours.names, ours.requested, strict=True))
    assert {name: named[name] for name in under.names} == dict(zip(under.names, under.requested, strict=True))


@pytest.mark.parametrize("regime", ["async", "sync", "ssp:bound=2"])
@pytest.mark.parametrize("name", WHOLE)
def test_what_divides_its_step_is_trained_as_it_stands(files: dict[str, Path], name: str, regime: str) -> None:
    """In every regime the one client's rate is that of its step alone, which --replicate none asks for, too."""
    alone, found = seen(files[name], "--cluster", "4gpu", "--training", regime, "--gap", "0ns")
    assert found.training.clients == ("localhost:0",)
    assert "runs the graph unchanged (by default): it " in found.replication
    assert found.answers.steps_per_s == pytest.approx(1e9 / alone.trace.makespan)
    assert found.answers.examples_per_s == pytest.approx(GRAPHS[name][2] * 1e9 / alone.trace.makespan)
    said = trained(files[name], "--cluster", "4gpu", "--training", regime, "--gap", "0ns", "--replicate", "none")
    assert said.answers.steps_per_s == found.answers.steps_per_s


@pytest.mark.parametrize("name", ["cifar", "layers", "function towers"])
def test_each_worker_of_a_cluster_with_ps_tasks_takes_it_as_it_stands(files: dict[str, Path], name: str) -> None:
    found = trained(files[name], "--cluster", "ps=1,worker=2x4gpu", "--training", "sync", "--workers", "1,2")
    assert found.replication.startswith("between-graph replication")
    assert [client.program.name for client in found.clients][:2] == ["worker:0", "worker:1"]
    used = sorted(set(found.clients[0].partitions.device.tolist()))
    names = {found.training.devices[device] for device in used}
    assert sum("worker/replica:0/task:0/device:GPU" in device for device in names) == GRAPHS[name][0]
    assert [row.workers for row in found.scaling] == [1, 2]
    rate, examples = found.answers.steps_per_s, found.answers.examples_per_s
    assert rate is not None
    assert examples == pytest.approx(2 * GRAPHS[name][2] * rate)


@pytest.mark.parametrize("how", ["in", "both", "allreduce:ring", "allreduce:tree", "allreduce:hierarchical"])
@pytest.mark.parametrize("name", ["cifar", "layers", "function layers", "cpus"])
def test_devices_are_not_given_anew_to_what_names_several(files: dict[str, Path], name: str, how: Replication) -> None:
    with pytest.raises(GraphError, match=r"by its own device strings, so .* would divide it again.*--replicate none"):
        replicate(read(files[name]), load_cluster("ps=1,worker=2x4gpu"), how=how)


@pytest.mark.parametrize("name", ["cifar", "layers"])
def test_what_names_several_devices_makes_no_stages_but_without_its_strings(files: dict[str, Path], name: str) -> None:
    words = r"so stages of microbatches would divide it again\. Leave --microbatches out, or drop .*--ignore-devices"
    with pytest.raises(GraphError, match=words):
        pipeline(read(files[name]), load_cluster("2gpu"), microbatches=2)


def test_towers_without_devices_are_copied_only_when_asked(files: dict[str, Path]) -> None:
    """One client has all of them; copied, each GPU works on as many examples as the whole graph."""
    found = trained(files["structure"], "--cluster", "2gpu", "--training", "sync")
    assert "holds 4 towers" in found.replication
    copied = trained(files["structure"], "--cluster", "2gpu", "--training", "sync", "--replicate", "in")
    assert copied.replication.endswith("each copy is the whole graph, which holds 4 towers")
    assert copied.clients[0].program.examples == 2 * found.clients[0].program.examples == 8 * BATCH


def test_one_device_is_still_replicated(files: dict[str, Path]) -> None:
    found = trained(files["one"], "--cluster", "2gpu", "--training", "sync")
    assert found.replication.startswith("in-graph replication")
    none = trained(files["one"], "--cluster", "2gpu", "--training", "async", "--replicate", "none")
    assert (none.workers, none.replication) == (1, "one client runs the graph unchanged")


def test_numbers_of_workers_of_one_client_are_refused(files: dict[str, Path]) -> None:
    with pytest.raises(SimvizError, match="--workers compares numbers of clients, but one client runs this graph"):
        trained(files["cifar"], "--cluster", "worker=2x4gpu", "--training", "async", "--workers", "1,2")
