"""Scenes for the tests of the window: a real one from the shipped example, and hostile ones made from it."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from simulator.execution.options import SimulationOptions
from simulator.graph.graph import Graph
from simulator.graph.importer import read_graph
from simulator.graph.inlining.expanding import inline, lower
from simulator.shapes.filling import with_shapes
from simulator.training.disturbances.disturbance import read_disturbance
from simulator.training.regimes import read_regime
from viz.command.request import Request
from viz.command.running import run
from viz.command.training_request import TrainingRequest
from viz.page.report import contents
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


@contextmanager
def piped(content: bytes) -> Iterator[str]:
    """The name of a pipe that brings this content."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as pipe, suppress(BrokenPipeError):
            pipe.write(content)

    writer = Thread(target=write)
    writer.start()
    try:
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)
        writer.join()


@cache
def example() -> Scene:
    """The shipped parameter-server training as its device strings ask, on two servers and a worker with two GPUs."""
    return run(Request(str(EXAMPLE), cluster="ps=2,worker=1x2gpu", algorithm="requested"))


@cache
def trained() -> Scene:
    """Three workers of that training, asynchronously, one of which comes up late; and two, for comparison."""
    wanted = TrainingRequest(
        read_regime("async"), steps=6, workers=(2, 3), disturbances=(read_disturbance("worker:2=late:50 ms"),)
    )
    return run(Request(str(EXAMPLE), cluster="ps=2,worker=3x1gpu", algorithm="requested", training=wanted))


CRASH = "ps:0=crash:at=100 ms,for=40 ms,restore=20 ms,checkpoint=60 ms"


@cache
def crashed() -> Scene:
    """Two workers: a parameter server dies, one worker stands still every now and then, the other comes up late."""
    texts = (CRASH, "worker:1=pause:every=50 ms,for=10 ms,phase=5 ms", "worker:0=late:20 ms")
    wanted = TrainingRequest(
        read_regime("async"), steps=6, disturbances=tuple(read_disturbance(text) for text in texts)
    )
    return run(Request(str(EXAMPLE), cluster="ps=2,worker=2x1gpu", algorithm="requested", training=wanted))


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


@cache
def training_graph() -> Graph:
    """The training of one device that the shipped example distributes: without its device strings."""
    graph = with_shapes(lower(inline(read_graph(EXAMPLE))))
    return replace(graph, requested=("",) * len(graph))


LOOP = """
x = Placeholder() /cpu:0 FLOAT 64,64
more = Placeholder() /cpu:0 BOOL
flag = Placeholder() /cpu:0 BOOL
enter = Enter(x) /cpu:0 FLOAT frame
goes = Enter(more) /cpu:0 BOOL constant
merge = Merge(enter, next) /cpu:0 FLOAT
cond = LoopCond(goes) /cpu:0
switch = Switch(merge, cond) /cpu:0 FLOAT
body = MatMul(switch:1, switch:1) /cpu:0 FLOAT
far = Relu(body) /cpu:1 FLOAT
next = NextIteration(far) /cpu:0 FLOAT
exit = Exit(switch) /cpu:0 FLOAT
choose = Switch(exit, flag) /cpu:0 FLOAT
yes = MatMul(choose:1, choose:1) /cpu:0 FLOAT
no = Neg(choose) /cpu:0 FLOAT
again = MatMul(yes, yes) /cpu:0 FLOAT
end = Merge(no, again) /cpu:0 FLOAT
"""


def loop_text(near: str = "/cpu:0", far: str = "/cpu:1") -> str:
    """A GraphDef as text: a loop over two devices whose trips nothing says, then a branch."""
    nodes = []
    for line in LOOP.replace("/cpu:0", near).replace("/cpu:1", far).strip().splitlines():
        found = re.fullmatch(r"(\w+) = (\w+)\((.*)\) (\S+) ?(\w*) ?(\S*)", line)
        assert found is not None
        name, op, inputs, device, dtype, last = found.groups()
        fields = [
            f'name: "{name}" op: "{op}" device: "{device}"',
            *(f'input: "{one}"' for one in inputs.split(", ") if one),
        ]
        if dtype:
            fields.append(f'attr {{ key: "{"dtype" if op == "Placeholder" else "T"}" value {{ type: DT_{dtype} }} }}')
        if op == "Placeholder":
            dims = "".join(f"dim {{ size: {size} }} " for size in last.split(",") if size)
            fields.append(f'attr {{ key: "shape" value {{ shape {{ {dims}}} }} }}')
        if dtype == "FLOAT":
            square = "shape { dim { size: 64 } dim { size: 64 } } "
            shapes = square + {"Switch": square, "Merge": "shape { }"}.get(op, "")
            fields.append(f'attr {{ key: "_output_shapes" value {{ list {{ {shapes}}} }} }}')
        if op == "Merge":
            fields.append('attr { key: "N" value { i: 2 } }')
        if last == "constant":
            fields.append('attr { key: "is_constant" value { b: true } }')
        if op == "Enter":
            fields.append('attr { key: "frame_name" value { s: "while" } }')
        nodes.append(f"node {{ {' '.join(fields)} }}")
    return "\n".join(nodes)


def loop(near: str = "/cpu:0", far: str = "/cpu:1", *, trips: Mapping[str, int], cluster: str = "2cpu") -> Scene:
    """The loop and branch of `loop_text`, simulated with these trips."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "loop.pbtxt"
        path.write_text(loop_text(near, far))
        return run(Request(str(path), cluster, "requested", simulation=SimulationOptions(trips=trips)))


def shown(scene: Scene) -> Any:  # Any: JSON, to be looked into
    """What the page holds."""
    return contents(scene)
