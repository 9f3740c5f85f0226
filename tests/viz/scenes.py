"""Scenes for the tests of the window: a real one from the shipped example, and hostile ones made from it."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from viz.running import Request, run
from viz.scene import Scene

EXAMPLE = Path(__file__).parents[2] / "examples" / "ps_training.pbtxt"
SCRIPT = "</script><script>document.title='owned'</script>"
IMAGE = '"><img src=x onerror="document.title=\'owned\'">'
HOSTILE = (
    SCRIPT,
    IMAGE,
    "<!--simviz:scene-->",
    "a\u202eb\u2066c",
    "n" * 5000,
    "名前/スコープ",
    "x\ud800y",
    "\\\"]}';\n--",
)


@cache
def example() -> Scene:
    """The shipped parameter-server training as its device strings ask, on two servers and a worker with two GPUs."""
    return run(Request(str(EXAMPLE), cluster="ps=2,worker=1x2gpu", algorithm="requested"))


def renamed(scene: Scene, names: tuple[str, ...]) -> Scene:
    """The scene with its first running nodes, their ops, its title, notes and links named like that."""
    graph, cluster = scene.graph, scene.cluster
    running = [row for row in range(len(graph)) if scene.step.runs[row]]
    new_names, new_ops = list(graph.names), list(graph.ops)
    for row, name in zip(running, names, strict=False):
        new_names[row] = new_ops[row] = name
    links = tuple(replace(link, name=names[0] + link.name) for link in cluster.links)
    return replace(
        scene,
        title=names[0],
        graph=replace(graph, names=tuple(new_names), ops=tuple(new_ops)),
        cluster=replace(cluster, links=links, name=names[1]),
        notes=names,
        check={"mode": names[0], "differences": [{"node": names[1], "ours": names[0], "theirs": "", "rule": ""}]},
    )


def hostile() -> Scene:
    return renamed(example(), HOSTILE)
