"""Calls of public functions with values that do not belong there: of other types, of other graphs, or hostile.

A call is written as JSON: the function, and for each argument the name of a value. Values that fit are of two graphs on
two clusters, so they need not fit together. All others are what a program may hold by mistake.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any  # Any: arguments are of any type, that is what is tried

import numpy as np

import placement
import simulator
import viz
from simulator.graph.graph import Graph
from tests.fuzzing.texts import Chance

EXAMPLE = Path(__file__).parents[2] / "examples" / "ps_training.pbtxt"
# Functions that run TensorFlow or write files; and values that the house makes, not the user.
_LEFT_OUT = ("observe", "observe_step", "calibrate", "refine", "run_bench", "raised")
_MADE = ("SimulationOptions",)  # of the classes those that a user makes
_CALLED = ("extend", "on_progress", "price", "observed", "say", "began")  # the user's own functions are called as is
_KEPT = ("steps", "most", "record")  # a large number is a wish that takes its time
_ROOT: Mapping[str, Any] = {"simulator": simulator, "placement": placement, "viz": viz}


@cache
def functions() -> Mapping[str, Callable[..., Any]]:
    """The public functions by name, such as "simulator.load"."""
    found = {}
    for package, module in _ROOT.items():
        for name in module.__all__:
            value = getattr(module, name)
            if name in _MADE or (callable(value) and not inspect.isclass(value) and name not in _LEFT_OUT):
                found[f"{package}.{name}"] = value
    return found


WRONG: Mapping[str, Any] = {
    "none": None, "true": True, "zero": 0, "minus": -1, "two": 2, "2**31": 2**31, "2**63": 2**63, "2**70": 2**70,
    "digits": 10**5000, "half": 0.5, "nan": float("nan"), "inf": float("inf"), "-inf": -float("inf"), "1e308": 1e308,
    "complex": 1j, "empty": "", "x": "x", "null": "\0", "surrogate": "\udcff", "long": "x" * 70_000, "bytes": b"bytes",
    "list": [], "[1]": [1], "[None]": [None], "[nan]": [float("nan")], "tuple": (), "dict": {}, "{a: 1}": {"a": 1},
    "{1: 2}": {1: 2}, "{images: -1}": {"images:0": (-1,)}, "{images: huge}": {"images:0": (2**62, 784)},
    "{images: text}": {"images:0": "x"}, "object": object(), "type": int, "np.int64": np.int64(3),
    "np.nan": np.float64("nan"), "array": np.array([1, 2]), "no rank": np.array(5), "square": np.zeros((3, 3)),
    "texts": np.array(["a", "b"]), "path": Path("missing"), "zeros": "/dev/zero", "folder": ".", "set": {1, 2},
    "range": range(3), "dots": ..., "closed": None, "module": json, "function": len,
}  # fmt: skip


@cache
def fitting() -> Mapping[str, Mapping[str, Any]]:
    """Argument -> values that fit it by their type, by name: those of one graph and cluster, and those of another."""
    found: dict[str, dict[str, Any]] = {}
    for at, (graph, text) in enumerate(((_graph(EXAMPLE), "ps=2,worker=2x1gpu"), (_small(), "cpu=2"))):
        for name, value in _values(graph, text).items():
            found.setdefault(name, {})[f"{name} {at}"] = value
    found["source"] = {"path": str(EXAMPLE), "text": "2gpu", "graph 0": found["graph"]["graph 0"]}
    found["algorithm"] = {name: name for name in ("single", "whitepaper", "requested", "tensorflow")}
    found["steps"] = found["most"] = found["record"] = {"3": 3}
    found["text"] = {"async": "async", "worker:0=slow:2": "worker:0=slow:2", "sync": "sync:aggregate=2"}
    found["options"] = {"fair": simulator.SimulationOptions(contention="fair")}
    return found


def _graph(path: Path) -> Graph:
    return simulator.load(str(path))


def _small() -> Graph:
    from tests.fuzzing.cases import SMALL  # late: it imports this module

    return simulator.load(SMALL)


def _values(graph: Graph, text: str) -> dict[str, Any]:
    cluster = simulator.load_cluster(text)
    step, costs = simulator.choose_step(graph), simulator.estimate(graph, cluster)
    assignment = placement.place(graph, cluster, costs, step=step, algorithm="single")
    pieces = simulator.partition(graph, assignment, cluster, step=step)
    values = {
        "graph": graph,
        "cluster": cluster,
        "step": step,
        "costs": costs,
        "assignment": assignment,
        "assignments": [assignment],
        "partitions": pieces,
        "prepared": simulator.prepare(graph, step, cluster, costs),
        "trace": simulator.simulate(pieces, cluster, costs),
        "ours": assignment,
        "theirs": pieces,
    }
    if len(graph) > 100:
        programs = simulator.distributed(graph, cluster, regime=simulator.read_regime("async"))
        prices = simulator.estimate_each(programs, cluster)
        clients = placement.clients(programs, cluster, prices)
        regime = simulator.read_regime("async")
        training = simulator.train(clients, cluster, prices, regime=regime, steps=3)
        result = viz.run(graph, cluster=cluster, algorithm="single")
        values |= {"programs": programs, "clients": clients, "training": training, "regime": regime}
        values |= {"scene": result, "run": result, "result": result, "first": result, "a": result, "b": result}
    return values


def library_call(random: Chance) -> bytes:
    """A call as JSON; about half of its arguments fit."""
    name = random.choice(sorted(functions()))
    given: dict[str, str] = {}
    for argument, shape in inspect.signature(functions()[name]).parameters.items():
        needed = shape.default is shape.empty
        if shape.kind in (shape.VAR_POSITIONAL, shape.VAR_KEYWORD) or argument in _CALLED:
            continue
        if not needed and random.random() < 0.6:
            continue
        good = sorted(fitting().get(argument, {}))
        if good and (argument in _KEPT or random.random() < 0.7):
            given[argument] = random.choice(good)
        else:
            given[argument] = random.choice(sorted(WRONG) if random.random() < 0.7 else sorted(_all()))
    return json.dumps({"function": name, "arguments": given}).encode()


def _all() -> Mapping[str, Any]:
    return {name: value for values in fitting().values() for name, value in values.items()}


def call(text: str) -> None:
    """Make the call; what it raises is raised."""
    asked = json.loads(text)
    values = {**WRONG, **_all()}
    given = {argument: values[name] for argument, name in asked["arguments"].items()}
    function = functions()[asked["function"]]
    positional = [
        one.name
        for one in inspect.signature(function).parameters.values()
        if one.kind is one.POSITIONAL_ONLY and one.name in given
    ]
    function(*(given.pop(name) for name in positional), **given)
