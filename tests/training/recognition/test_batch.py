"""The examples of a step, also where a graph already holds towers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.graph.messages import AttrValue
from simulator.shapes.filling import with_shapes
from simulator.training.recognition.anatomy import anatomy
from tests.shapes.test_rules import vector
from tests.strategies import Rows, loop, shape_attr, shapes_attr, type_attr, typed, types_attr
from tests.training.programs.test_between import variable
from viz import run


def sources(rows: Rows, tower: str, sizes: tuple[int, int], *, queue: bool) -> tuple[str, str]:
    """Inputs and labels of a tower: fed, or handed out by a queue."""
    shapes = ((sizes[0], 4), (sizes[1], 2))
    if not queue:
        for name, shape in zip("xy", shapes, strict=True):
            rows.add(f"{tower}/{name}", "Placeholder", dtype=type_attr(), _output_shapes=shapes_attr(shape))
        return f"{tower}/x", f"{tower}/y"
    if "queue" not in rows.names:
        rows.add("queue", "FIFOQueueV2", component_types=_types())
    rows.add(
        f"{tower}/next", "QueueDequeueV2", ["queue"], component_types=_types(), _output_shapes=shapes_attr(*shapes)
    )
    return f"{tower}/next", f"{tower}/next:1"


def _types() -> AttrValue:
    made = AttrValue()
    made.list.type.extend([1, 1])
    return made


def tower(rows: Rows, name: str, x: str, y: str, of: str = "") -> tuple[str, str]:
    """The gradients of y = x w + b with squared errors; that of b does not depend on both but by their difference."""
    rows.add(f"{name}/xw", "MatMul", [x, f"{of}w/read"], T=type_attr())
    rows.add(f"{name}/out", "AddV2", [f"{name}/xw", f"{of}b/read"], T=type_attr())
    rows.add(f"{name}/error", "Sub", [f"{name}/out", y], T=type_attr())
    w = rows.add(f"{name}/w", "MatMul", [x, f"{name}/error"], T=type_attr(), transpose_a=AttrValue(b=True))
    return w, rows.add(f"{name}/b", "Sum", [f"{name}/error", "axis"], T=type_attr(), Tidx=type_attr(3))


def model(rows: Rows, of: str = "") -> None:
    for name, shape in (("w", (4, 2)), ("b", (2,))):
        variable(rows, of + name, *shape)
    if "rate" not in rows.names:
        rows.add("rate", "Const", **typed("Const", ()))
        rows.add("axis", "Const", dtype=type_attr(3), value=typed("Const")["value"])


def update(rows: Rows, name: str, gradient: str, again: str = "") -> str:
    return "^" + rows.add(f"update_{name}{again}", "ApplyGradientDescent", [name, "rate", gradient], T=type_attr())


@settings(max_examples=20)
@given(st.integers(1, 5), st.booleans(), st.sampled_from(["AddN", "AddV2", "async"]), st.booleans())
def test_each_tower_has_a_batch_of_its_own(count: int, queue: bool, how: str, clipped: bool) -> None:
    rows = Rows()
    model(rows)
    made = [tower(rows, f"t{at}", *sources(rows, f"t{at}", (32, 32), queue=queue)) for at in range(count)]
    ends = []
    for name, parts in zip("wb", zip(*made, strict=True), strict=True):
        if how == "async":
            ends += [update(rows, name, part, f"_{at}") for at, part in enumerate(parts)]
            continue
        total = parts[0]
        if how == "AddN":
            total = rows.add(f"sum_{name}", "AddN", parts, T=type_attr(), N=AttrValue(i=count))
        for at, part in enumerate(parts[1:] if how == "AddV2" else ()):
            total = rows.add(f"sum_{name}_{at}", "AddV2", [total, part], T=type_attr())
        if clipped:  # by a norm that depends on all
            norm = rows.add(f"norm_{name}", "L2Loss", [total], T=type_attr(), _output_shapes=shapes_attr(()))
            total = rows.add(f"clipped_{name}", "Mul", [total, norm], T=type_attr())
        ends.append(update(rows, name, total))
    rows.add("train", "NoOp", ends)
    assert anatomy(rows.built()).batch == 32 * count


@settings(max_examples=15)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=3), st.integers(1, 300))
def test_entries_of_sparse_tensors_are_no_examples(entries: list[int], batch: int) -> None:
    """Each has as many as its rows happen to have, and dense shapes all have the rank."""
    rows = Rows()
    model(rows)
    ids = []
    for at, count in enumerate(entries):
        for name, dtype, shape in (("shape", 9, (2,)), ("values", 9, (count,)), ("indices", 9, (count, 2))):
            given = {"_output_shapes": shapes_attr(shape), "dtype": type_attr(dtype)}
            rows.add(f"ids{at}/{name}", "Placeholder", **given)
        sparse = [f"ids{at}/{part}" for part in ("indices", "shape", "values")]
        made_dense = {"T": type_attr(), "Tindices": type_attr(9), "_output_shapes": shapes_attr((batch, 4))}
        ids.append(rows.add(f"dense{at}", "SparseToDense", [*sparse, "axis"], **made_dense))
    x = rows.add("x", "AddN", ids, T=type_attr(), N=AttrValue(i=len(ids)))
    rows.add("y", "Placeholder", dtype=type_attr(), _output_shapes=shapes_attr((batch, 2)))
    made = tower(rows, "t", x, "y")
    rows.add("train", "NoOp", [update(rows, name, part) for name, part in zip("wb", made, strict=True)])
    found = anatomy(rows.built())
    assert found.batch == batch
    assert len(found.batched) == 2 * len(entries) + 1


@pytest.mark.parametrize("said", [True, False])
def test_rows_of_sparse_tensors_are_the_examples_where_nothing_dense_is_fed(said: bool) -> None:
    """A training with 40 entries in eight rows told of 40 examples a step."""
    rows = Rows()
    model(rows)
    for name, shape in (("values", (40,)), ("indices", (40, 2))):
        rows.add(f"ids/{name}", "Placeholder", dtype=type_attr(9), _output_shapes=shapes_attr(shape))
    if said:
        rows.add("sides", "Const", dtype=type_attr(3), value=vector(8, 4))
    else:
        rows.add("sides", "Placeholder", dtype=type_attr(9), _output_shapes=shapes_attr((2,)))
    made_dense = {"T": type_attr(), "Tindices": type_attr(9), "_output_shapes": shapes_attr((8, 4))}
    x = rows.add("x", "SparseToDense", ["ids/indices", "sides", "ids/values", "axis"], **made_dense)
    y = rows.add("y", "Const", **typed("Const", (8, 2)))
    made = tower(rows, "t", x, y)
    rows.add("train", "NoOp", [update(rows, name, part) for name, part in zip("wb", made, strict=True)])
    assert anatomy(rows.built()).batch == (8 if said else 40)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("labels", [0, 1])
@pytest.mark.parametrize("features", [1, 2, 3])
@pytest.mark.parametrize("values", [(-1,), (2000,)])
def test_row_splits_of_ragged_tensors_are_one_more_than_examples(
    values: tuple[int, ...], features: int, labels: int, turned: bool
) -> None:
    """However many of them there are, how many values they part is the data's."""
    rows, fed = Rows(), []
    model(rows)
    for at in range(features):
        fed += [(f"values{at}", 1, values), (f"splits{at}", 9, (65,))]
    fed += [("y", 1, (64, 2))] * labels
    for name, dtype, shape in reversed(fed) if turned else fed:
        rows.add(name, "Placeholder", dtype=type_attr(dtype), _output_shapes=shapes_attr(shape))
    for at in range(features):
        sparse = [f"splits{at}", f"values{at}"]
        rows.add(f"x{at}", "RaggedTensorToSparse", sparse, RAGGED_RANK=AttrValue(i=1), T=type_attr())
    names = [f"x{at}:1" for at in range(features)]
    rows.add("x", "ConcatV2", [*names, "axis"], N=AttrValue(i=features), _output_shapes=shapes_attr((64, 4)))
    made = tower(rows, "t", "x", "y" if labels else "x")
    rows.add("train", "NoOp", [update(rows, name, part) for name, part in zip("wb", made, strict=True)])
    found = anatomy(with_shapes(rows.built()))
    assert found.batch == 64
    assert len(found.batched) == labels + features * (values == (-1,))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_examples_reach_a_gradient_through_a_stack(count: int) -> None:
    """A loop of version 1 hands what its gradient needs on by stacks, and what comes from the loss may be constant."""
    rows = Rows()
    model(rows)
    rows.add("of_loss", "Const", **typed("Const", (32, 2)))
    parts = []
    for of in (f"t{at}/" for at in range(count)):
        rows.add(f"{of}x", "Placeholder", dtype=type_attr(), _output_shapes=shapes_attr((32, 4)))
        rows.add(f"{of}stack", "StackV2", ["axis"], elem_type=type_attr())
        rows.add(f"{of}push", "StackPushV2", [f"{of}stack", f"{of}x"], T=type_attr())
        rows.add(f"{of}pop", "StackPopV2", [f"{of}stack", f"^{of}push"], elem_type=type_attr())
        parts.append(
            rows.add(f"{of}w", "MatMul", [f"{of}pop", "of_loss"], T=type_attr(), transpose_a=AttrValue(b=True))
        )
    rows.add("sum", "AddN", parts, T=type_attr(), N=AttrValue(i=count))
    rows.add("train", "NoOp", [update(rows, "w", "sum")])
    assert anatomy(rows.built()).batch == 32 * count


def test_models_side_by_side_are_no_towers() -> None:
    """Each learns from its own batch; what counts is how many examples a variable has learned from."""
    rows = Rows()
    ends = []
    for of in ("one/", "two/"):
        model(rows, of)
        parts = tower(rows, f"{of}t", *sources(rows, f"{of}t", (32, 32), queue=False), of=of)
        ends += [update(rows, f"{of}{name}", part) for name, part in zip("wb", parts, strict=True)]
    rows.add("train", "NoOp", ends)
    assert anatomy(rows.built()).batch == 32


@pytest.mark.parametrize("count", [1, 2, 8])
def test_towers_whose_gradients_an_all_reduce_sums_are_counted(count: int) -> None:
    """Each has variables of its own, and no edge leads from one to another."""
    rows = Rows()
    ends = []
    for of in (f"v{at}/" for at in range(count)):
        model(rows, of)
        parts = tower(rows, f"{of}t", *sources(rows, f"{of}t", (32, 32), queue=False), of=of)
        for name, part in zip("wb", parts, strict=True):
            total = rows.add(f"{of}{name}_sum", "NcclAllReduce", [part], T=type_attr(), num_devices=AttrValue(i=count))
            ends.append(update(rows, f"{of}{name}", total))
    rows.add("train", "NoOp", ends)
    assert anatomy(rows.built()).batch == 32 * count


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize(("count", "shape", "batch"), [(1, (512,), 512), (4, (512,), 2048), (1, (64, 8), 0)])
def test_labels_that_the_graph_holds_tell_the_batch(
    count: int, shape: tuple[int, ...], batch: int, staged: bool
) -> None:
    """A file without any input has its examples in variables or staging areas, or makes them.

    Labels of sequences do not tell.
    """
    rows = Rows()
    variable(rows, "w", 4, 2)
    rows.add("rate", "Const", **typed("Const", ()))
    parts, wide = [], shape[0] * (shape[1] if len(shape) > 1 else 1)
    for at in range(count):
        of = f"t{at}/"
        rows.add(f"{of}x", "RandomUniform", ["rate"], dtype=type_attr(), _output_shapes=shapes_attr((wide, 4)))
        if staged:
            held = f"{of}staged:1"
            types = AttrValue(list=AttrValue.ListValue(type=[1, 3]))
            rows.add(f"{of}staged", "Unstage", [], dtypes=types, _output_shapes=shapes_attr((wide, 4), shape))
        else:
            held = rows.add(
                f"{of}y", "RandomUniformInt", ["rate"] * 3, T=type_attr(), _output_shapes=shapes_attr(shape)
            )
        rows.add(f"{of}flat", "Reshape", [held, "rate"], T=type_attr(), _output_shapes=shapes_attr((wide,)))
        rows.add(f"{of}out", "MatMul", [f"{of}x", "w/read"], T=type_attr(), _output_shapes=shapes_attr((wide, 2)))
        rows.add(f"{of}loss", "SparseSoftmaxCrossEntropyWithLogits", [f"{of}out", f"{of}flat"], T=type_attr(),
                 _output_shapes=shapes_attr((wide,), (wide, 2)))  # fmt: skip
        parts.append(
            rows.add(f"{of}w", "MatMul", [f"{of}x", f"{of}loss:1"], T=type_attr(), transpose_a=AttrValue(b=True))
        )
    total = rows.add("sum", "AddN", parts, T=type_attr(), N=AttrValue(i=count)) if count > 1 else parts[0]
    rows.add("train", "NoOp", [update(rows, "w", total)])
    assert anatomy(rows.built()).batch == batch


def test_real_and_drawn_examples_are_one_batch() -> None:
    """A discriminator's gradients are summed, too, but its two inputs are not alike."""
    rows = Rows()
    model(rows)
    rows.add("real", "Placeholder", dtype=type_attr(), _output_shapes=shapes_attr((32, 4)))
    rows.add("noise", "Placeholder", dtype=type_attr(), _output_shapes=shapes_attr((32, 9)))
    rows.add("drawn", "Slice", ["noise", "axis", "axis"], T=type_attr(), Index=type_attr(3))
    made = [tower(rows, name, name, name) for name in ("real", "drawn")]
    ends = []
    for name, parts in zip("wb", zip(*made, strict=True), strict=True):
        ends.append(update(rows, name, rows.add(f"sum_{name}", "AddN", parts, T=type_attr(), N=AttrValue(i=2))))
    rows.add("train", "NoOp", ends)
    assert anatomy(rows.built()).batch == 32


@pytest.mark.parametrize("sizes", [(32, 32), (-1, -1)])
def test_what_is_open_stays_unknown(sizes: tuple[int, int]) -> None:
    rows = Rows()
    model(rows)
    made = [tower(rows, f"t{at}", *sources(rows, f"t{at}", sizes, queue=False)) for at in range(2)]
    rows.add("sum", "AddN", [made[0][0], made[1][0]], T=type_attr(), N=AttrValue(i=2))
    rows.add("train", "NoOp", [update(rows, "w", "sum")])
    assert anatomy(rows.built()).batch == max(0, 2 * sizes[0])


@pytest.mark.parametrize(("first", "second", "batch"), [((12, 32, 4), (32, 2), 32), ((32, 4), (12, 32, 2), 32)])
def test_sequences_are_fed_by_time_first(first: tuple[int, ...], second: tuple[int, ...], batch: int) -> None:
    """Of two first dimensions the one that both tensors have counts the examples, in whichever order they are fed."""
    rows = Rows()
    model(rows)
    for name, shape in (("x", first), ("y", second)):
        rows.add(name, "Placeholder", dtype=type_attr(), _output_shapes=shapes_attr(shape))
    made = tower(rows, "t", "x", "y")
    rows.add("train", "NoOp", [update(rows, name, part) for name, part in zip("wb", made, strict=True)])
    assert anatomy(rows.built()).batch == batch


@pytest.mark.parametrize("trips", [1, 3])
def test_a_loop_takes_examples_in_each_of_its_iterations(trips: int) -> None:
    """A step of TensorFlow 2 may train many times, each on the next batch of its iterator; one batch was counted."""
    made, resource = Rows(), 20
    made.add("iterator", "Placeholder", dtype=type_attr(resource))
    made.add("w", "VarHandleOp", dtype=type_attr(), shape=shape_attr(4), _output_shapes=shapes_attr(()))
    made.add("start", "Const", **typed("Const"))
    loop(made, start="start")
    for name in ("iterator", "w"):
        frame = {"frame_name": AttrValue(s=b"while"), "is_constant": AttrValue(b=True)}
        made.add(f"{name}/in", "Enter", [name], T=type_attr(resource), **frame)
    batch = shapes_attr((32, 4))
    types = {"output_types": types_attr(1), "output_shapes": batch}
    made.add("next", "IteratorGetNext", ["iterator/in", "^while/Neg"], **types, _output_shapes=batch)
    made.add("read", "ReadVariableOp", ["w/in", "^while/Neg"], dtype=type_attr(), _output_shapes=shapes_attr((4,)))
    made.add("y", "Mul", ["next", "read"], T=type_attr(), _output_shapes=batch)
    made.add("axis", "Const", ["^while/Neg"], dtype=type_attr(3), value=typed("Const")["value"])
    made.add("g", "Sum", ["y", "axis"], T=type_attr(), _output_shapes=shapes_attr((4,)))
    made.add("update", "ResourceApplyGradientDescent", ["w/in", "g", "g"], T=type_attr())
    told = run(made.built(), cluster="ps=1,worker=1", training="async", trips=[f"*={trips}"]).to_json()
    found = json.loads(told)["training"]
    assert found["examples_per_s"] == pytest.approx(32 * trips * found["steps_per_s"])
