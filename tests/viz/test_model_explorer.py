"""Model Explorer's own classes read what is written for it, in strict mode, and it says what the run says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.viz.scenes import example, hostile, trained
from viz.figures import devices_of_nodes, pair_of_edges, taking_part
from viz.formats.drawing import draw
from viz.formats.output import write
from viz.palette import device_colours
from viz.scene import Scene

FIGURES = ("time_ms", "made_mib", "device")
# Another process, as the package changes warnings and signals. Its server hands graphs and node data on unread, so its
# classes are the form. `value` may be a text in the page, which the class does not say.
SCRIPT = """
import json, sys
from pathlib import Path
from dacite import Config, from_dict
from model_explorer import graph_builder, node_data_builder
folder = Path(sys.argv[1])
strict = Config(strict=True)
read = from_dict(graph_builder.GraphCollection, json.loads((folder / "graph.json").read_text()), strict)
(graph,) = read.graphs
found = {"nodes": len(graph.nodes), "edges": sum(len(node.incomingEdges) for node in graph.nodes), "data": {}}
found["overlay"] = len(graph.tasksData.edgeOverlaysDataListLeftPane[0].overlays[0].edges)
for path in sorted(folder.glob("*.json")):
    if path.name != "graph.json":
        data = json.loads(path.read_text())
        loose = Config(strict=True, check_types=path.stem != "device")
        one = {name: from_dict(node_data_builder.GraphNodeData, rest, loose) for name, rest in data.items()}
        assert json.loads(node_data_builder.ModelNodeData(one).to_json_string()).keys() == {graph.id}
        found["data"][path.stem] = {node: result.value for node, result in one[graph.id].results.items()}
print(json.dumps(found))
"""


def files(scene: Scene) -> dict[str, Any]:
    drawn = draw(scene, ".model_explorer")
    assert isinstance(drawn, dict)
    return {name.removesuffix(".json"): json.loads(content) for name, content in drawn.items()}


@pytest.mark.parametrize("which", [example, hostile, trained])
def test_its_own_classes_read_it(which: Any, tmp_path: Path) -> None:
    scene = which()
    folder = tmp_path / "a.model_explorer"
    for _ in range(2):  # a folder that simviz wrote is replaced
        write(str(folder), draw(scene, ".model_explorer"))
    answer = subprocess.run([sys.executable, "-c", SCRIPT, str(folder)], capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout.splitlines()[-1])
    assert (found["nodes"], found["edges"]) == (len(scene.graph), len(scene.graph.edge_src))
    assert set(found["data"]) == set(FIGURES)
    part = {str(row) for row in np.flatnonzero(taking_part(scene)).tolist()}
    assert all(set(data) == part for data in found["data"].values())


def test_figures_are_those_of_the_run() -> None:
    scene = example()
    found = files(scene)
    data = {name: found[name]["graph"]["results"] for name in FIGURES}
    ops, cut = scene.trace.ops, scene.partitions
    took = int((ops.end_ns - ops.start_ns)[~cut.inserted[ops.node]].sum())
    assert sum(one["value"] for one in data["time_ms"].values()) == pytest.approx(took / 1e6)
    product = str(scene.graph.index["dense/MatMul/ReadVariableOp"])
    assert data["made_mib"][product]["value"] == 12_845_056 / (1 << 20)
    colours = device_colours(scene.cluster.devices)
    for row, device in enumerate(devices_of_nodes(scene).tolist()):
        if str(row) in data["device"]:
            said = {"value": scene.cluster.devices[device].short, "bgColor": colours[device]}
            assert data["device"][str(row)] == said


def test_layers_edges_and_transfers_are_those_of_the_graph() -> None:
    scene = example()
    (graph,) = files(scene)["graph"]["graphs"]
    names = scene.graph.names
    by_id = {node["id"]: node for node in graph["nodes"]}
    for row, name in enumerate(names):
        node = by_id[str(row)]
        inside = any(other.startswith(name + "/") for other in names)
        assert node["namespace"] == (name if inside else name.rpartition("/")[0])
        assert {"key": "name", "value": name} in node["attrs"]
    found = Counter(
        (int(edge["sourceNodeId"]), int(node["id"])) for node in graph["nodes"] for edge in node["incomingEdges"]
    )
    assert found == Counter(zip(scene.graph.edge_src.tolist(), scene.graph.edge_dst.tolist(), strict=True))
    product = by_id[str(scene.graph.index["dense/MatMul"])]
    read = {"sourceNodeId": str(scene.graph.index["dense/MatMul/ReadVariableOp"]), "sourceNodeOutputId": "0"}
    assert {**read, "targetNodeInputId": "1"} in product["incomingEdges"]
    (overlay,) = graph["tasksData"]["edgeOverlaysDataListLeftPane"][0]["overlays"]
    crossing = np.flatnonzero(pair_of_edges(scene) >= 0)
    ends = set(zip(scene.graph.edge_src[crossing].tolist(), scene.graph.edge_dst[crossing].tolist(), strict=True))
    assert {(int(edge["sourceNodeId"]), int(edge["targetNodeId"])) for edge in overlay["edges"]} == ends
    shown = {"sourceNodeId": read["sourceNodeId"], "targetNodeId": product["id"], "label": "12,845,056 B"}
    assert shown in overlay["edges"]
