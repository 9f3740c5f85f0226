"""Make training steps of networks with parallel branches, by chance: no two seeds give the same graph.

A network is a row of blocks. Each block adds up branches of dense layers; then come the gradients of all layers, and an
update per variable. Sizes are such that it pays to spread some of them over several GPUs, and others not.

    python examples/make_branches.py 7 branches_7.pbtxt
"""

import random
import sys
from itertools import pairwise

FLOAT = "attr { key: 'T' value { type: DT_FLOAT } }"


class Writer:
    """Nodes of a GraphDef, as text."""

    def __init__(self):
        self.lines = []

    def add(self, op, name, *inputs, attrs=FLOAT):
        """Write a node and give back its name."""
        named = " ".join(f"input: '{one}'" for one in inputs)
        self.lines.append(f"node {{ name: '{name}' op: '{op}' {named} {attrs} }}")
        return name

    def product(self, name, left, right, *, transpose=""):
        """A product of matrices; `transpose` names those that are transposed before, "a" or "b"."""
        flags = "".join(f" attr {{ key: 'transpose_{one}' value {{ b: true }} }}" for one in transpose)
        return self.add("MatMul", name, left, right, attrs=FLOAT + flags)

    def source(self, op, name, *sides):
        """A variable or a placeholder of that shape."""
        shape = "".join(f"dim {{ size: {side} }} " for side in sides)
        attrs = (
            f"attr {{ key: 'dtype' value {{ type: DT_FLOAT }} }} attr {{ key: 'shape' value {{ shape {{ {shape}}} }} }}"
        )
        return self.add(op, name, attrs=attrs)


def layer(graph, name, x, rows, columns):
    """A dense layer; its output, and what gives the gradient of its input from that of its output."""
    graph.source("VariableV2", f"{name}/w", rows, columns)
    weights = graph.add("Identity", f"{name}/w/read", f"{name}/w")
    y = graph.add("Relu", f"{name}/relu", graph.product(f"{name}/matmul", x, weights))

    def backward(gradient):
        inner = graph.add("ReluGrad", f"gradients/{name}/relu", gradient, y)
        slope = graph.product(f"gradients/{name}/w", x, inner, transpose="a")
        graph.add("ApplyGradientDescent", f"update/{name}", f"{name}/w", "rate", slope)
        return graph.product(f"gradients/{name}/x", inner, weights, transpose="b")

    return y, backward


def branch(graph, name, x, sizes):
    """Layers in a row, with their gradients."""
    backwards = []
    for at, (rows, columns) in enumerate(pairwise(sizes)):
        x, backward = layer(graph, f"{name}/layer{at}", x, rows, columns)
        backwards.append(backward)

    def backward(gradient):
        for one in reversed(backwards):
            gradient = one(gradient)
        return gradient

    return x, backward


def branches(seed, blocks=(2, 5)):
    """The text of a GraphDef; `blocks` is the range of their number."""
    chance, graph = random.Random(seed), Writer()
    batch, width = chance.choice([64, 256, 1024]), chance.choice([256, 512, 1024])
    graph.source("Placeholder", "rate")
    x = graph.source("Placeholder", "x", batch, width)
    labels = graph.source("Placeholder", "labels", batch, width)
    backwards = []
    for block in range(chance.randint(*blocks)):
        made = []
        for at in range(chance.choice([1, 2, 3, 4, 6])):
            hidden = [chance.choice([256, 1024, 2048, 4096]) for _ in range(chance.randint(0, 3))]
            made.append(branch(graph, f"block{block}/branch{at}", x, [width, *hidden, width]))
        x = graph.add("AddN", f"block{block}/sum", *(y for y, _ in made), attrs=counted(len(made)))
        backwards.append((f"gradients/block{block}/sum", [backward for _, backward in made]))
    gradient = graph.add("Sub", "gradients/loss", x, labels)
    for name, made in reversed(backwards):
        gradient = graph.add("AddN", name, *(one(gradient) for one in made), attrs=counted(len(made)))
    updates = [line.split("'")[1] for line in graph.lines if "op: 'ApplyGradientDescent'" in line]
    graph.add("NoOp", "train", *(f"^{name}" for name in updates), attrs="")
    return "\n".join(graph.lines)


def counted(number):
    return f"{FLOAT} attr {{ key: 'N' value {{ i: {number} }} }}"


if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="utf-8", newline="\n") as file:
        file.write(branches(int(sys.argv[1])) + "\n")
