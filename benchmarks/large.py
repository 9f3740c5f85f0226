"""Graphs of up to a million nodes, and the whole command on them: a table for RESULTS.md.

    python benchmarks/large.py FOLDER [NODES ...] [--form FORM]     FOLDER holds the graphs; they are made when missing

By default a graph is the training of an unrolled LSTM of eight layers with about as many nodes as asked: gates,
gradients, sums over time, and updates of variables. It is written node by node, as TensorFlow would take an hour. Each
row is a fresh process. Seconds and memory are the system's own account of it. Graphs of other forms show stages that
grow faster than the graph.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any  # Any: attributes as protobuf takes them

import numpy as np

from simulator.graph.messages import GraphDef

SIZES = (10_000, 100_000, 300_000, 990_000)  # a graph may have a million
LAYERS, BATCH, UNITS = 8, 32, 256
PER_CELL = 31
FLOAT, INT32, RESOURCE = 1, 3, 20
CLUSTER = "worker=1x4gpu"


class Writer:
    """A GraphDef that grows node by node."""

    def __init__(self) -> None:
        self.made = GraphDef()
        self.made.versions.producer = 1882

    def node(self, name: str, op: str, inputs: Sequence[str] = (), **attrs: Any) -> str:
        """Append a node. An attribute is a type (an int), a number after `n_`, a flag, or a shape (a tuple)."""
        node = self.made.node.add(name=name, op=op, input=inputs)
        for key, value in attrs.items():
            if isinstance(value, bool):
                node.attr[key].b = value
            elif key in ("N", "num", "num_split", "axis"):
                node.attr[key].i = value
            elif isinstance(value, tuple):
                shape = node.attr[key].shape
                shape.SetInParent()
                for size in value:
                    shape.dim.add(size=size)
            else:
                node.attr[key].type = value
        return name

    def number(self, name: str, value: int) -> str:
        """Append a constant of one int32."""
        self.node(name, "Const", dtype=INT32)
        tensor = self.made.node[-1].attr["value"].tensor
        tensor.dtype = INT32
        tensor.tensor_shape.SetInParent()
        tensor.tensor_content = np.int32(value).tobytes()
        return name

    def unary(self, name: str, op: str, *inputs: str) -> str:
        """Append a node of one type."""
        return self.node(name, op, inputs, T=FLOAT)

    def product(self, name: str, a: str, b: str, *, flip_a: bool = False, flip_b: bool = False) -> str:
        """Append a matrix product."""
        return self.node(name, "MatMul", (a, b), T=FLOAT, transpose_a=flip_a, transpose_b=flip_b)

    def joined(self, name: str, axis: str, *values: str) -> str:
        """Append a concatenation."""
        return self.node(name, "ConcatV2", (*values, axis), N=len(values), T=FLOAT, Tidx=INT32)

    def variable(self, name: str, shape: tuple[int, ...]) -> str:
        """Append a variable; the result is the node that reads it."""
        self.node(name, "VarHandleOp", dtype=FLOAT, shape=shape)
        return self.node(f"{name}/read", "ReadVariableOp", (name,), dtype=FLOAT)

    def sum(self, name: str, values: Sequence[str]) -> str:
        """Append a sum of many."""
        return self.node(name, "AddN", values, N=len(values), T=FLOAT)


def lstm(nodes: int) -> GraphDef:
    """The training of an unrolled LSTM with about that many nodes."""
    steps = max(1, nodes // (LAYERS * PER_CELL))
    out = Writer()
    axis = out.number("axis", 1)
    given = out.node("inputs", "Placeholder", dtype=FLOAT, shape=(BATCH, steps, UNITS))
    out.node("steps", "Unpack", (given,), T=FLOAT, num=steps, axis=1)
    rate = out.node("rate", "Placeholder", dtype=FLOAT, shape=())
    values = [f"steps:{step}" if step else "steps" for step in range(steps)]
    kernels, begun = [], []
    for layer in range(LAYERS):
        begun.append(out.node(f"layer{layer}/zeros", "Placeholder", dtype=FLOAT, shape=(BATCH, UNITS)))
        kernels.append(
            (
                out.variable(f"layer{layer}/kernel", (2 * UNITS, 4 * UNITS)),
                out.variable(f"layer{layer}/bias", (4 * UNITS,)),
            )
        )
        values = _forward(out, axis, layer, values, kernels[-1], begun[-1])
    loss = [out.unary(f"loss/step{step}/square", "Square", value) for step, value in enumerate(values)]
    out.sum("loss/sum", loss)
    gradients = [
        out.unary(f"gradients/step{step}", "Mul", a, b) for step, (a, b) in enumerate(zip(values, loss, strict=True))
    ]
    done = []
    for layer in reversed(range(LAYERS)):
        gradients, sums = _backward(out, axis, layer, gradients, kernels[layer][0], begun[layer])
        for name, total in zip(("kernel", "bias"), sums, strict=True):
            done.append(
                out.node(
                    f"train/layer{layer}/{name}",
                    "ResourceApplyGradientDescent",
                    (f"layer{layer}/{name}", rate, total),
                    T=FLOAT,
                )
            )
    out.node("train", "NoOp", [f"^{name}" for name in done])
    return out.made


def _forward(
    out: Writer, axis: str, layer: int, values: Sequence[str], weights: tuple[str, str], begun: str
) -> list[str]:
    state = memory = begun
    made = []
    for step, value in enumerate(values):
        at = f"layer{layer}/step{step}"
        both = out.joined(f"{at}/concat", axis, value, state)
        sums = out.node(f"{at}/add", "BiasAdd", (out.product(f"{at}/matmul", both, weights[0]), weights[1]), T=FLOAT)
        out.node(f"{at}/split", "Split", (axis, sums), T=FLOAT, num_split=4)
        gates = [
            out.unary(f"{at}/{gate}", "Sigmoid", f"{at}/split:{row}" if row else f"{at}/split")
            for row, gate in enumerate("ifo")
        ]
        new = out.unary(f"{at}/g", "Tanh", f"{at}/split:3")
        kept = out.unary(f"{at}/forget", "Mul", gates[1], memory)
        memory = out.unary(f"{at}/memory", "AddV2", kept, out.unary(f"{at}/input", "Mul", gates[0], new))
        state = out.unary(f"{at}/state", "Mul", gates[2], out.unary(f"{at}/tanh", "Tanh", memory))
        made.append(state)
    return made


def _backward(
    out: Writer, axis: str, layer: int, gradients: Sequence[str], kernel: str, begun: str
) -> tuple[list[str], tuple[str, str]]:
    """Gradients of the layer's inputs by step, and the sums of those of its kernel and bias."""
    state = memory = begun
    below: list[str] = []
    of_kernel, of_bias = [], []
    for step in reversed(range(len(gradients))):
        at, of = f"gradients/layer{layer}/step{step}", f"layer{layer}/step{step}"
        total = out.unary(f"{at}/state", "AddV2", gradients[step], state)
        tanh = out.unary(f"{at}/tanh", "TanhGrad", f"{of}/tanh", out.unary(f"{at}/output", "Mul", total, f"{of}/o"))
        cell = out.unary(f"{at}/cell", "AddV2", tanh, memory)
        memory = out.unary(f"{at}/memory", "Mul", cell, f"{of}/f")
        parts = []
        for gate, other, by in (("i", "g", cell), ("f", "tanh", cell), ("o", "tanh", total)):
            through = out.unary(f"{at}/{gate}/mul", "Mul", by, f"{of}/{other}")
            parts.append(out.unary(f"{at}/{gate}", "SigmoidGrad", f"{of}/{gate}", through))
        parts.append(out.unary(f"{at}/g", "TanhGrad", f"{of}/g", out.unary(f"{at}/g/mul", "Mul", cell, f"{of}/i")))
        sums = out.joined(f"{at}/concat", axis, *parts)
        both = out.product(f"{at}/inputs", sums, kernel, flip_b=True)
        of_kernel.append(out.product(f"{at}/kernel", f"{of}/concat", sums, flip_a=True))
        of_bias.append(out.unary(f"{at}/bias", "BiasAddGrad", sums))
        out.node(f"{at}/split", "Split", (axis, both), T=FLOAT, num_split=2)
        below.append(f"{at}/split")
        state = f"{at}/split:1"
    at = f"gradients/layer{layer}"
    return below[::-1], (out.sum(f"{at}/kernel", of_kernel), out.sum(f"{at}/bias", of_bias))


def branches(nodes: int) -> GraphDef:
    """Blocks in a row, each of twelve numbered branches of eight ops."""
    out = Writer()
    value = out.node("x", "Placeholder", dtype=FLOAT, shape=(8, 8))
    for block in range(max(1, nodes // 97)):
        ends = []
        for branch in range(12):
            end = value
            for op in range(8):
                end = out.unary(f"block{block}x/branch{branch}/op{op}", "Relu", end)
            ends.append(end)
        value = out.sum(f"block{block}x/sum", ends)
    return out.made


def updates(nodes: int) -> GraphDef:
    """Variables, each with a gradient of ten ops, whose updates nothing groups."""
    out = Writer()
    rate = out.node("rate", "Placeholder", dtype=FLOAT, shape=())
    for variable in range(max(1, nodes // 13)):
        value = out.variable(f"v{variable}", (8, 8))
        for op in range(10):
            value = out.unary(f"g{variable}/op{op}", "Relu", value)
        out.node(f"train/{variable}", "ResourceApplyGradientDescent", (f"v{variable}", rate, value), T=FLOAT)
    return out.made


def chain(nodes: int) -> GraphDef:
    """Ops in a row."""
    out = Writer()
    value = out.node("x", "Placeholder", dtype=FLOAT, shape=(8, 8))
    for op in range(nodes - 1):
        value = out.unary(f"op{op}", "Relu", value)
    return out.made


def star(nodes: int) -> GraphDef:
    """A value that all other ops read, and their sum."""
    out = Writer()
    value = out.node("x", "Placeholder", dtype=FLOAT, shape=(8, 8))
    out.sum("sum", [out.unary(f"op{op}", "Relu", value) for op in range(nodes - 2)])
    return out.made


FORMS: Mapping[str, Callable[[int], GraphDef]] = {
    "lstm": lstm,
    "branches": branches,
    "updates": updates,
    "chain": chain,
    "star": star,
}


def row(path: Path, page: Path) -> str:
    """One row of the table."""
    words = [sys.executable, "-m", "viz", str(path), "--cluster", CLUSTER, "--quiet", "-o", str(page)]
    began = time.perf_counter()
    process = os.posix_spawn(sys.executable, words, os.environ)
    _, status, usage = os.wait4(process, 0)
    ended = time.perf_counter()
    if status:
        raise SystemExit(f"{' '.join(words)} ended with {status}")
    nodes = len(GraphDef.FromString(path.read_bytes()).node)
    took = f"{ended - began:.1f} | {usage.ru_utime + usage.ru_stime:.1f}"
    page_mib = page.stat().st_size / 2**20
    file_mib = path.stat().st_size / 2**20
    return f"| {nodes:,} | {file_mib:.0f} | {took} | {usage.ru_maxrss / 1024:,.0f} | {page_mib:.1f} |"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("nodes", type=int, nargs="*", default=SIZES)
    options.add_argument("--form", choices=FORMS, default="lstm")
    asked = options.parse_args()
    print("| nodes | file, MiB | whole command, s | of processors, s | MiB | page, MiB |")
    print("|---|---|---|---|---|---|")
    for size in asked.nodes:
        path = asked.folder / f"{asked.form}_{size}.pb"
        if not path.exists():
            path.write_bytes(FORMS[asked.form](size).SerializeToString())
        print(row(path, asked.folder / "page.html"), flush=True)


if __name__ == "__main__":
    main()
