"""All that simviz says of the shipped example on a fixed cluster, kept as files beside this one.

`python -m tests.golden.results` writes them anew; read their difference before it is committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from google.protobuf import text_format

from simulator.graph.messages import GraphDef
from simulator.partitioning import partition_files
from viz.dot import draw_graph
from viz.record import to_json
from viz.request import Request
from viz.running import run
from viz.scene import Scene
from viz.summary import summarise

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "ps_training.pbtxt"


@cache
def results() -> dict[str, str]:
    """File name -> what it should hold."""
    scene = run(Request(str(EXAMPLE), cluster=str(HERE / "cluster.toml"), algorithm="requested", engine="python"))
    return {
        "summary.txt": summarise(scene) + "\n",
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
