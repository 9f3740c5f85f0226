"""Random graphs that strain the placer: every kind of handle, kernels missing per type, bad and partial devices.

What is drawn is meant to be refused about every second time, and each time for one of many reasons. Values are told
apart by a letter: f float, s string, i int32, I int64, c complex, b bool, v variant, d dataset, r variable,
R reference, t iterator, q queue, m mutex.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

from simulator.cluster.cluster import Cluster
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue, FunctionDef
from tests.strategies import Rows, colocation, type_attr, typed

FLOAT, INT32, STRING, COMPLEX64, INT64, BOOL, RESOURCE, VARIANT = 1, 3, 7, 8, 9, 10, 20, 21
DTYPES = {"f": FLOAT, "s": STRING, "i": INT32, "I": INT64, "c": COMPLEX64, "b": BOOL, "v": VARIANT, "r": RESOURCE}


def types(*numbers: int) -> Any:
    made = AttrValue()
    made.list.SetInParent()
    made.list.type.extend(numbers)
    return made


def shapes(count: int) -> Any:
    """As many unknown shapes."""
    made = AttrValue()
    made.list.SetInParent()
    for _ in range(count):
        made.list.shape.add().unknown_rank = True
    return made


def text(value: str) -> Any:
    return AttrValue(s=value.encode())


UNKNOWN, SCALAR = AttrValue(shape={"unknown_rank": True}), AttrValue(shape={})
OF_INT64 = {"output_types": types(INT64), "output_shapes": shapes(1)}
NAMED = {"container": text(""), "shared_name": text("")}
F = {"T": type_attr()}


def of(letter: Any) -> Any:
    return {"T": type_attr(DTYPES[letter])}


def fed(letter: Any) -> Any:
    return {"dtype": type_attr(DTYPES[letter]), "shape": UNKNOWN}


# op, how often, what it takes, what it gives, attributes
OPS = [
    *(("Placeholder", 0.5 if letter in "vr" else 1, "", letter, fed(letter)) for letter in "fsiIcbvr"),
    *(("Identity", 1, letter, letter, of(letter)) for letter in "fsivr"),
    ("Const", 2, "", "f", typed("Const")),
    ("AddV2", 2, "ff", "f", F),
    ("AddV2", 0.5, "ii", "i", of("i")),
    ("NoOp", 1, "", "", {}),
    ("Shape", 1, "f", "i", {**F, "out_type": type_attr(INT32)}),
    ("Size", 0.5, "s", "i", {**of("s"), "out_type": type_attr(INT32)}),
    # variables
    ("VarHandleOp", 3, "", "r", {"dtype": type_attr(), "shape": SCALAR}),
    ("ReadVariableOp", 2, "r", "f", {"dtype": type_attr()}),
    ("AssignVariableOp", 2, "rf", "", {"dtype": type_attr()}),
    ("ResourceApplyMomentum", 2, "rrfff", "", F),
    ("IdentityN", 0.5, "rr", "r", {"T": types(RESOURCE, RESOURCE)}),
    ("Switch", 0.3, "rb", "r", of("r")),
    ("Merge", 0.3, "rr", "r", {**of("r"), "N": AttrValue(i=2)}),
    ("VariableV2", 2, "", "R", typed("VariableV2")),
    ("Assign", 2, "Rf", "R", {**F, "validate_shape": AttrValue(b=False)}),
    ("ApplyMomentum", 1, "RRfff", "R", F),
    ("RefIdentity", 0.5, "R", "R", F),
    ("RefSwitch", 0.3, "Rb", "R", F),
    ("RefMerge", 0.3, "RR", "R", {**F, "N": AttrValue(i=2)}),
    ("Identity", 0.7, "R", "f", F),
    # kernels for one type, of unequal priority, for none, and with a constraint that nothing meets
    ("StringLength", 1, "s", "i", {"unit": text("BYTE")}),
    ("AsString", 1, "f", "s", F),
    ("FFTND", 1, "cii", "c", {"Tcomplex": type_attr(COMPLEX64)}),
    ("FFT", 1, "c", "c", {"Tcomplex": type_attr(COMPLEX64)}),
    ("Real", 0.5, "c", "f", {**of("c"), "Tout": type_attr()}),
    ("TPUCompilationResult", 0.1, "", "", {}),
    ("TopK", 0.03, "f", "f", {**F, "k": AttrValue(i=1)}),
    # variants
    *(
        ("EmptyTensorList", 0.3, "ii", "v", {"element_dtype": type_attr(held), "shape_type": type_attr(INT32)})
        for held in (STRING, FLOAT, RESOURCE, VARIANT, INT32)
    ),
    ("IdentityN", 0.5, "vf", "v", {"T": types(VARIANT, FLOAT)}),
    ("Switch", 0.4, "vb", "v", of("v")),
    ("StopGradient", 0.4, "v", "v", of("v")),
    ("RangeDataset", 1, "III", "d", OF_INT64),
    ("TakeDataset", 1, "dI", "d", OF_INT64),
    ("PrefetchDataset", 1, "dI", "d", OF_INT64),
    ("OptionsDataset", 0.5, "d", "d", {**OF_INT64, "serialized_options": text("")}),
    ("Identity", 0.7, "d", "d", of("v")),
    ("IteratorV2", 1, "", "t", {**OF_INT64, **NAMED}),
    ("MakeIterator", 1, "dt", "", {}),
    ("IteratorGetNext", 1, "t", "I", OF_INT64),
    ("IteratorGetNextAsOptional", 0.5, "t", "v", OF_INT64),
    ("OptionalFromValue", 0.5, "s", "v", {"Toutput_types": types(STRING)}),
    ("MutexV2", 0.3, "", "m", NAMED),
    ("MutexLock", 0.4, "m", "v", {}),
    ("FIFOQueueV2", 0.7, "", "q", {**NAMED, "component_types": types(FLOAT)}),
    ("QueueEnqueueV2", 0.7, "qf", "", {"Tcomponents": types(FLOAT)}),
]


def requests(cluster: Cluster) -> list[str]:
    """Device strings, of which many fit the cluster and few can't be read."""
    anywhere = "/cpu:0 /cpu:1 /gpu:0 /gpu:1 /device:CPU:* /device:GPU:* /device:*:1 /cpu:7 /gpu:7 /device:cpu:0 /task:1"
    within = []
    for task in cluster.tasks:
        place = task.replace("/replica:0", "")
        within += [place, f"{place}/cpu:0", f"{place}/gpu:0", f"{task}/device:GPU:1", task.partition("/task")[0]]
    bad = ["/job:nowhere", "/job:a-b", "/cpu", "/job:localhost/task:5", "/replica:1", "/device:TPU:0"]
    return [*anywhere.split() * 3, *within * 3, *bad]


def graph(draw: random.Random, cluster: Cluster) -> Graph:
    """Four to twenty-five nodes of OPS."""
    rows, asked = Rows(), requests(cluster)
    givers: dict[str, list[str]] = defaultdict(list)
    asks, colocates = draw.choice([0.05, 0.15, 0.4]), draw.choice([0, 0.1, 0.3])
    for at in range(draw.choice([4, 8, 14, 25])):
        possible = [row for row in OPS if all(givers[letter] for letter in row[2])]
        op, _, takes, gives, attrs = draw.choices(possible, [row[1] for row in possible])[0]
        inputs = [draw.choice(givers[letter][-6:]) for letter in takes]
        if at and draw.random() < 0.15:
            inputs.append("^" + draw.choice(rows.names))
        extra = {"_kernel": text("nobody's")} if draw.random() < 0.005 else {}
        device = draw.choice(asked) if draw.random() < asks else ""
        rows.add(f"n{at}", op, inputs, device=device, **attrs, **extra)
        for letter in "dv" if gives == "d" else gives:
            givers[letter].append(f"n{at}")
    for attrs in rows.attrs:
        if draw.random() < colocates:
            attrs["_class"] = colocation(*draw.choices([*rows.names, "ghost"], k=draw.choice([1, 1, 1, 2])))
    return rows.built()


# ---- calls that hand back resources ----------------------------------------------------------------------------------

BODY_OPS = ["VarHandleOp", "Identity", "AddV2", "ReadVariableOp", "AssignVariableOp", "ResourceApplyMomentum", "call"]
SIGNATURES = {row[0] + row[2]: row for row in OPS}
OUTPUTS = {"VarHandleOp": "resource", "Identity": "output", "AddV2": "z", "ReadVariableOp": "value"}
CALL = "StatefulPartitionedCall"


def call(called: FunctionDef) -> tuple[str, str, dict[str, Any]]:
    """What a call takes and gives, in letters, and its attributes."""
    letter = {FLOAT: "f", RESOURCE: "r"}
    given = [argument.type for argument in called.signature.input_arg]
    handed = [argument.type for argument in called.signature.output_arg]
    attrs = {"f": AttrValue(func={"name": called.signature.name}), "Tin": types(*given), "Tout": types(*handed)}
    return "".join(letter[kind] for kind in given), "".join(letter[kind] for kind in handed), attrs


def step(draw: random.Random, library: list[FunctionDef]) -> tuple[str, str, str, dict[str, Any]]:
    """An op of a graph with variables, what it takes and gives, and its attributes."""
    op = draw.choice([*BODY_OPS, "call"] if library else BODY_OPS[:-1])
    if op == "call":
        return (CALL, *call(draw.choice(library)))
    named = next(name for name in draw.sample(sorted(SIGNATURES), len(SIGNATURES)) if SIGNATURES[name][0] == op)
    _, _, takes, gives, attrs = SIGNATURES[named]
    return op, takes, gives, attrs


def function(draw: random.Random, name: str, library: list[FunctionDef], asked: list[str]) -> FunctionDef:
    """A function over variables and floats, which may call those that are there already."""
    made = FunctionDef()
    givers: dict[str, list[str]] = {"f": [], "r": []}
    made.signature.name, made.signature.is_stateful = name, True
    for at in range(draw.randint(0, 3)):
        letter = draw.choice("rrf")
        made.signature.input_arg.add(name=f"a{at}", type=DTYPES[letter])
        givers[letter].append(f"a{at}")
    for at in range(draw.randint(0, 6)):
        op, takes, gives, attrs = step(draw, library)
        if not all(givers.get(letter) for letter in takes):
            continue
        device = draw.choice(asked) if draw.random() < 0.3 else ""
        inputs = [draw.choice(givers[letter]) for letter in takes]
        node = made.node_def.add(name=f"b{at}", op=op, input=inputs, device=device)
        for key, value in attrs.items():
            node.attr[key].CopyFrom(value)
        if at and draw.random() < 0.1:
            node.attr["_class"].CopyFrom(colocation(f"b{draw.randrange(at)}"))
        for port, letter in enumerate(gives):
            givers.get(letter, []).append(f"b{at}:{OUTPUTS.get(op, 'output')}:{port}")
    for at in range(draw.randint(1, 3)):
        letter = draw.choice("rrf")
        if givers[letter]:
            made.signature.output_arg.add(name=f"o{at}", type=DTYPES[letter])
            made.ret[f"o{at}"] = draw.choice(givers[letter])
    return made


def graph_with_calls(draw: random.Random, cluster: Cluster) -> Graph:
    """Variables, their users, and calls that hand variables through, keep them or make them."""
    asked = requests(cluster)
    library: list[FunctionDef] = []
    for at in range(draw.randint(1, 3)):
        library.append(function(draw, f"F{at}", library, asked))
    rows, givers, asks = Rows(), {"f": ["x"], "r": []}, draw.choice([0, 0.1, 0.3])
    rows.add("x", "Placeholder", **fed("f"))
    for at in range(draw.randint(3, 14)):
        op, takes, gives, attrs = step(draw, library)
        if not all(givers.get(letter) for letter in takes):
            continue
        inputs = [draw.choice(givers[letter]) for letter in takes]
        if draw.random() < 0.08:
            inputs.append("^" + draw.choice(rows.names))
        extra = {"_class": colocation(draw.choice([*rows.names, "ghost"]))} if draw.random() < 0.08 else {}
        rows.add(f"n{at}", op, inputs, device=draw.choice(asked) if draw.random() < asks else "", **attrs, **extra)
        for port, letter in enumerate(gives):
            givers.get(letter, []).append(f"n{at}:{port}" if port else f"n{at}")
    return rows.built(library={made.signature.name: made for made in library})
