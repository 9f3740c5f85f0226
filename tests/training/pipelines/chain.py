"""A training graph of equal layers, with times that are chosen, on devices between which nothing takes time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from placement import place
from simulator import choose_step, estimate, load_cluster, partition, simulate
from simulator.cluster.cluster import Cluster
from simulator.costs.table import CostTable
from simulator.execution.trace import Trace
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.partitioning.partitions import Partitions
from simulator.shapes.filling import with_shapes
from simulator.training.pipelines.building import Pipeline
from tests.strategies import Rows, colocation, shape_attr, shapes_attr, type_attr, typed, types_attr
from tests.training.programs.test_between import variable

WIDTH = 4
UNIT_NS = 1000


def constant(value: float, dtype: int = 1) -> AttrValue:
    made = AttrValue()
    made.tensor.dtype = dtype
    made.tensor.tensor_shape.SetInParent()
    getattr(made.tensor, "float_val" if dtype == 1 else "int_val").append(value)
    return made


def chain(
    layers: int,
    batch: int,
    *,
    fixed: bool = True,
    width: int = WIDTH,
    slots: bool = False,
    keras: bool = False,
    hub: bool = False,
    pairs: bool = False,
    combined: tuple[str, int] | None = None,
    added: str = "",
) -> Graph:
    """Products one after the other, a mean of squares, and the gradient as TensorFlow writes it; `slots`: momenta.

    `keras`: its loss is a sum, which the product of the dimensions of a batch divides (`reduce_weighted_values`).
    `hub`: all gradients pass through one IdentityN, as those of Keras 2 do. `pairs`: each example is compared with all.
    `combined`: what an op with such an axis makes of the last product is taken off it.
    `added`: to each gradient that of the weights' squares, "weights", or to that of the loss a sum's, "examples".
    """
    made, one = Rows(), type_attr()
    wide = shapes_attr((batch, width))
    declared = shape_attr(batch if fixed else -1, width)
    for name in ("x", "y"):
        made.add(name, "Placeholder", dtype=one, shape=declared, _output_shapes=wide)
    made.add("rate", "Const", **typed("Const"))
    for at in range(layers):
        variable(made, f"w{at}", width, width)
    before = "x"
    for at in range(layers):
        before = made.add(f"layer{at}", "MatMul", [before, f"w{at}/read"], T=one, _output_shapes=wide)
    if pairs:
        wide_square = shapes_attr((batch, batch))
        flip = AttrValue(b=True)
        made.add("scores", "MatMul", [before, before], T=one, transpose_b=flip, _output_shapes=wide_square)
        made.add("sharp", "Square", ["scores"], T=one, _output_shapes=wide_square)
        before = made.add("seen", "MatMul", ["sharp", before], T=one, _output_shapes=wide)
    if combined is not None:
        op, axis = combined
        made.add("axis", "Const", dtype=type_attr(3), value=axes(axis), _output_shapes=shapes_attr((1,)))
        kept = {"keep_dims": AttrValue(b=True)} if op == "Mean" else {}
        made.add("other", op, [before, "axis"], T=one, Tidx=type_attr(3), **kept)
        before = made.add("apart", "Sub", [before, "other"], T=one, _output_shapes=wide)
    made.add("off", "Sub", [before, "y"], T=one, _output_shapes=wide)
    made.add("squares", "Square", ["off"], T=one, _output_shapes=wide)
    made.add("axes", "Const", dtype=type_attr(3), value=axes(0, 1), _output_shapes=shapes_attr((2,)))
    if keras:
        back = _divided(made, batch, wide)
    else:
        made.add("loss", "Mean", ["squares", "axes"], T=one, Tidx=type_attr(3), _output_shapes=shapes_attr(()))
        made.add("examples", "Const", dtype=one, value=constant(batch * width), _output_shapes=shapes_attr(()))
        back = made.add("share", "RealDiv", ["off", "examples"], T=one, _output_shapes=wide)
    if added == "examples":
        back = made.add("both", "AddN", [back, "off"], T=one, N=AttrValue(i=2), _output_shapes=wide)
    updates, grads = [], []
    for at in reversed(range(layers)):
        read = f"layer{at - 1}" if at else "x"
        flip, square = AttrValue(b=True), shapes_attr((width, width))
        grads.append(made.add(f"grad{at}", "MatMul", [read, back], T=one, transpose_a=flip, _output_shapes=square))
        if added == "weights":
            terms = [grads[-1], f"w{at}/read"]
            grads[-1] = made.add(f"decay{at}", "AddN", terms, T=one, N=AttrValue(i=2), _output_shapes=square)
        if at:  # the gradient of the weights comes first, so that a stage ends all at once
            inputs = [back, f"w{at}/read", f"^{grads[-1]}"]
            back = made.add(f"back{at}", "MatMul", inputs, T=one, transpose_b=flip, _output_shapes=wide)
    if hub:
        squares = shapes_attr(*[(width, width)] * layers)
        made.add("hub", "IdentityN", grads, T=types_attr(*[1] * layers), _output_shapes=squares)
        grads = [f"hub:{port}" if port else "hub" for port in range(layers)]
    for at, grad in zip(reversed(range(layers)), grads, strict=True):
        if slots:
            variable(made, f"w{at}/slot", width, width, beside=f"w{at}")
        inputs = [f"w{at}", f"w{at}/slot", "rate", grad, "rate"] if slots else [f"w{at}", "rate", grad]
        op = "ApplyMomentum" if slots else "ApplyGradientDescent"
        updates.append(made.add(f"update{at}", op, inputs, T=one, _class=colocation(f"w{at}")))
    made.add("train", "NoOp", [f"^{name}" for name in updates])
    return with_shapes(made.built(), batch=batch)


def _divided(made: Rows, batch: int, wide: AttrValue) -> str:
    """A sum divided by the product of one dimension, and its gradient."""
    one, number = type_attr(), shapes_attr(())
    made.add("sum", "Sum", ["squares", "axes"], T=one, Tidx=type_attr(3), _output_shapes=number)
    made.add("examples", "Const", dtype=type_attr(3), value=axes(batch), _output_shapes=shapes_attr((1,)))
    made.add("first", "Const", dtype=type_attr(3), value=axes(0), _output_shapes=shapes_attr((1,)))
    made.add("product", "Prod", ["examples", "first"], T=type_attr(3), Tidx=type_attr(3), _output_shapes=number)
    made.add("cast", "Cast", ["product"], SrcT=type_attr(3), DstT=one, _output_shapes=number)
    made.add("loss", "DivNoNan", ["sum", "cast"], T=one, _output_shapes=number)
    made.add("part", "DivNoNan", ["rate", "cast"], T=one, _output_shapes=number)
    return made.add("share", "Mul", ["off", "part"], T=one, _output_shapes=wide)


def embedding(*, places: bool = False, drawn: int = 0) -> Graph:
    """The mean of the rows of a table that words name, and its gradient; `places`: of each place, added up first.

    So many rows are `drawn` besides, as negatives of the words are.
    """
    made, one, numbers = Rows(), type_attr(), type_attr(3)
    made.add("words", "Placeholder", dtype=numbers, shape=shape_attr(-1))
    variable(made, "table", 20, WIDTH)
    made.add("zero", "Const", dtype=numbers, value=constant(0, 3))
    words = "words"
    if drawn:
        made.add("negatives", "Const", dtype=numbers, value=axes(*range(drawn)))
        words = made.add("all", "ConcatV2", ["words", "negatives", "zero"], T=numbers, N=AttrValue(i=2), Tidx=numbers)
    made.add("rows", "GatherV2", ["table/read", words, "zero"], Tparams=one, Tindices=numbers, Taxis=numbers)
    made.add("axes", "Const", dtype=numbers, value=axes(0, 1))
    made.add("loss", "Mean", ["rows", "axes"], T=one, Tidx=numbers)
    made.add("examples", "Const", dtype=one, value=constant((12 + drawn) * WIDTH))
    made.add("share", "RealDiv", ["rows", "examples"], T=one)
    if places:
        made.add("places", "Const", dtype=numbers, value=axes(0, 1))
        made.add("first", "Const", dtype=numbers, value=axes(0))
        made.add("added", "Sum", ["share", "first"], T=one, Tidx=numbers, keep_dims=AttrValue(b=True))
        made.add("both", "ConcatV2", ["added", "added", "zero"], T=one, N=AttrValue(i=2), Tidx=numbers)
        made.add("squares", "Square", ["both"], T=one)
        made.add("update", "ScatterSub", ["table", "places", "squares"], T=one, Tindices=numbers)
        return made.built()
    made.add("unique", "Unique", [words], T=numbers)
    made.add("segments", "Const", dtype=numbers, value=constant(12, 3))
    made.add("sum", "UnsortedSegmentSum", ["share", "unique:1", "segments"], T=one, Tindices=numbers)
    made.add("update", "ScatterSub", ["table", "unique", "sum"], T=one, Tindices=numbers)
    return made.built()


def axes(*values: int) -> AttrValue:
    made = AttrValue()
    made.tensor.dtype = 3
    made.tensor.tensor_shape.dim.add(size=len(values))
    made.tensor.int_val.extend(values)
    return made


def at_hand(devices: int) -> Cluster:
    """GPUs of one task that hand tensors over in no time."""
    cluster = load_cluster(f"{devices}gpu")
    size = len(cluster.devices)
    return replace(cluster, routes=tuple(((),) * size for _ in range(size)), handover_ns=0)


def in_units(microbatches: int) -> Callable[[Graph, Cluster], CostTable]:
    """A layer takes so many units forward and twice as many backward, over all microbatches; all else no time."""

    def price(graph: Graph, cluster: Cluster) -> CostTable:
        costs = estimate(graph, cluster)
        run_ns = np.where(costs.run_ns < 0, -1, 0)
        for row, name in enumerate(graph.names):
            bare = name.rpartition("/")[2]
            if name.startswith(("accumulate", "split", "w")) or not bare.startswith(("layer", "grad", "back")):
                continue
            whole = 2 if bare == "grad0" else 1
            run_ns[row] = np.where(run_ns[row] < 0, -1, whole * UNIT_NS)
        return replace(costs, run_ns=run_ns)

    return price


def played(made: Pipeline, cluster: Cluster, price: Callable[[Graph, Cluster], CostTable]) -> tuple[Partitions, Trace]:
    """The simulated step, on the devices of its stages."""
    costs, step = price(made.graph, cluster), choose_step(made.graph, fetches=made.fetches)
    assignment = place(made.graph, cluster, costs, step=step, algorithm="requested")
    pieces = partition(made.graph, assignment, cluster, step=step)
    return pieces, simulate(pieces, cluster, costs)
