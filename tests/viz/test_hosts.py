"""Variables and constants are shown where they are read, unless their value crosses to another device."""

import re
from pathlib import Path

import numpy as np
import pytest

from simulator.graph.graph import Graph
from simulator.graph.op_classes import CONSTANTS, VARIABLES
from tests.viz.scenes import example
from viz.command.request import Request
from viz.command.running import run
from viz.figures import fed_nodes, pair_of_edges, taking_part
from viz.page.folding import READS, hosts

GRAPH = """
node { name: "w" op: "VariableV2" DEVICE attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: 8 } dim { size: 8 } } } } }
node { name: "w/read" op: "Identity" input: "w" DEVICE attr { key: "T" value { type: DT_FLOAT } } }
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: 8 } dim { size: 8 } } } } }
node { name: "mul" op: "MatMul" input: "x" input: "w/read" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "again" op: "MatMul" input: "mul" input: "w/read" attr { key: "T" value { type: DT_FLOAT } } }
"""


def shown_in(folder: Path, device: str) -> dict[str, str]:
    """Node -> the node in whose box it is, with the variable on a device."""
    source = folder / "graph.pbtxt"
    source.write_text(re.sub("DEVICE", f'device: "{device}"', GRAPH))
    scene = run(Request(str(source), cluster="1gpu", algorithm="requested", fetches=("again",)))
    names = scene.graph.names
    return {names[node]: names[host] for node, host in enumerate(hosts(scene).tolist()) if host >= 0}


def test_a_variable_and_its_read_are_in_the_box_of_the_first_reader(tmp_path: Path) -> None:
    assert shown_in(tmp_path, "/device:GPU:0") == {"w": "mul", "w/read": "mul"}


def test_a_read_whose_value_crosses_keeps_its_box_and_holds_its_variable(tmp_path: Path) -> None:
    assert shown_in(tmp_path, "/device:CPU:0") == {"w": "w/read"}


@pytest.fixture(scope="module")
def found() -> tuple[Graph, list[int]]:
    scene = example()
    return scene.graph, hosts(scene).tolist()


def test_hosts_run_and_have_a_box_of_their_own(found: tuple[Graph, list[int]]) -> None:
    graph, host = found
    part = taking_part(example())
    folded = [node for node, at in enumerate(host) if at >= 0]
    assert len(folded) > 10
    for node in folded:
        assert part[node]
        assert part[host[node]]
        assert host[host[node]] < 0
        assert graph.ops[node] in VARIABLES | CONSTANTS | READS
    assert not set(folded) & set(fed_nodes(example()).tolist())


def test_no_edge_of_what_is_folded_crosses_devices(found: tuple[Graph, list[int]]) -> None:
    graph, host = found
    crossing = np.flatnonzero(pair_of_edges(example()) >= 0)
    assert len(crossing)
    assert all(host[graph.edge_src[edge]] < 0 for edge in crossing)
