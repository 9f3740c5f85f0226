"""Every op with inputs and attributes that no program writes: a rule says that they do not fit, and never breaks.

Inputs are constants of no, one or several elements, placeholders of any rank, and handles of everything. Attributes are
missing, short, or of another kind. Costs are asked for as well, as they read the same attributes.
"""

from __future__ import annotations

import pytest

from simulator.cluster.description import load_cluster
from simulator.costs.estimate import estimate
from simulator.errors import SimvizError
from simulator.graph import ops, registry
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.shapes.filling import with_shapes
from tests.fuzzing.graphs import KINDS, fill
from tests.fuzzing.texts import Chance
from tests.strategies import Rows, shape_attr, type_attr

INT32, FLOAT = 3, 1
ELEMENTS = (-(2**31), -2, -1, 0, 0, 1, 1, 2, 3, 7, 2**31 - 1)
SIDES = (-1, 0, 1, 2, 3, 4, 8, 2**31)
HOLDERS = ("VarHandleOp", "FIFOQueueV2", "StackV2", "TensorArrayV3", "EmptyTensorList", "HashTableV2", "VariableV2")
SHARDS = 8


def constant(random: Chance) -> AttrValue:
    """The value of a constant of up to three dimensions."""
    made = AttrValue()
    made.tensor.dtype = INT32
    sides = [random.randrange(5) for _ in range(random.choice((0, 1, 1, 1, 2)))]
    made.tensor.tensor_shape.CopyFrom(shape_attr(*sides).shape)
    count = 1
    for side in sides:
        count *= side
    made.tensor.int_val.extend(random.choice(ELEMENTS) for _ in range(count))
    return made


def attributes(op: str, random: Chance) -> dict[str, AttrValue]:
    """Most attributes of the op; sometimes of another kind."""
    facts = registry.facts(op)
    made = {}
    for name, kind in facts.attrs.items() if facts else ():
        if random.random() < 0.85:
            made[name] = AttrValue()
            fill(made[name], random.choice(KINDS) if random.bad else kind, random)
    return made


def hostile(op: str, random: Chance) -> Graph:
    """The op, what it reads, and a reader of each output."""
    made, names = Rows(), list[str]()
    facts = registry.facts(op)
    wanted = len(facts.inputs if facts else ()) + random.choice((0, 0, 0, -1, 1, 2, 3))
    for at in range(max(0, wanted)):
        way = random.random()
        if way < 0.45:
            made.add(f"in{at}", "Const", dtype=type_attr(INT32), value=constant(random))
        elif way < 0.75:
            sides = [random.choice(SIDES) for _ in range(random.randrange(6))]
            made.add(f"in{at}", "Placeholder", dtype=type_attr(random.choice((FLOAT, INT32))), shape=shape_attr(*sides))
        elif way < 0.85:
            made.add(f"in{at}", "Placeholder", dtype=type_attr(FLOAT))
        else:
            holder = random.choice(HOLDERS)
            made.add(f"in{at}", holder, names[:1] if holder == "EmptyTensorList" else (), **attributes(holder, random))
        names.append(f"in{at}")
    attrs = attributes(op, random)
    made.add("op", op, names, **attrs)
    types = ops.outputs(op, attrs, {}) or (FLOAT,)
    for port in range(min(6, len(types))):
        made.add(f"end{port}", "Identity", [f"op:{port}"], T=type_attr(types[port] or FLOAT))
    return made.built(producer=1882)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_op_breaks_by_what_it_is_given(shard: int) -> None:
    on, priced = load_cluster("2gpu"), 0
    for op in registry.names()[shard::SHARDS]:
        random = Chance(f"hostile:{op}")
        for batch in (None, None, 3):
            try:
                estimate(with_shapes(hostile(op, random), batch=batch), on)
                priced += 1
            except SimvizError:
                continue
    assert priced > 100
