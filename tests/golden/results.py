"""All that simviz says of the shipped example on a fixed cluster, kept as files beside this one.

`python -m tests.golden.results` writes them anew; read their difference before it is committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from google.protobuf import text_format

from simulator.execution.options import SimulationOptions
from simulator.graph.messages import GraphDef
from simulator.partitioning.partitions import partition_files
from simulator.training.regimes import read_regime
from viz.command.request import Request
from viz.command.running import run
from viz.command.summary import summarise
from viz.command.training_request import TrainingRequest
from viz.formats.dot import draw_graph
from viz.formats.json_object import to_json
from viz.scene import Scene

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "ps_training.pbtxt"


@cache
def results() -> dict[str, str]:
    """File name -> what it should hold."""
    request = Request(
        str(EXAMPLE),
        simulation=SimulationOptions(engine="python"),
        cluster=str(HERE / "cluster.toml"),
        algorithm="requested",
    )
    scene = run(request)
    training = TrainingRequest(read_regime("async"), steps=20, workers=(1, 2))
    trained = run(replace(request, cluster="ps=2,worker=2x1gpu", training=training))
    return {
        "summary.txt": summarise(scene, written=["ps_training.html"]) + "\n",
        "summary_verbose.txt": summarise(scene, verbose=True, written=["ps_training.html"]) + "\n",
        "training_summary.txt": summarise(trained, written=["ps_training.html"]) + "\n",
        "training_summary_verbose.txt": summarise(trained, verbose=True, written=["ps_training.html"]) + "\n",
        "record.json": to_json(scene),
        "graph.dot": draw_graph(scene),
        "partitions.txt": "\n".join(_listed(scene)) + "\n",
    }


def _listed(scene: Scene) -> Iterator[str]:
    """Each piece as lines "name = op(inputs)": with attributes the files would be eight times as long."""
    for name, text in partition_files(scene.partitions).items():
        yield f"{name}:"
        for node in text_format.Parse(text, GraphDef()).node:
            yield f"  {node.name} = {node.op}({', '.join(node.input)})"


if __name__ == "__main__":
    for name, text in results().items():
        (HERE / name).write_text(text, encoding="utf-8")
