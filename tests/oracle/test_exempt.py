"""Which ops take references and resources from other devices (§3.2): the real placer is asked, op by op."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest

from simulator.cluster.description import load_cluster
from simulator.errors import OracleError
from simulator.graph import ops, registry
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue, NodeDef
from simulator.oracle import child
from simulator.oracle.dry_runs import conversation, dry_run
from simulator.placer.colocation import EXEMPT
from tests.graph.inlining.functional import function
from tests.graph.inlining.functional import graph as functional_graph
from tests.oracle.test_local import runs
from tests.strategies import type_attr

RESOURCE, REF = 20, 100
NOTHING_FITS = 20  # ops of the 300 that no sampled attributes suit


def samples() -> dict[str, Any]:
    """Per op with a kernel a node that takes a reference or a resource, and nothing that a list may leave out."""
    found = {}
    for case in json.loads(child.run("tests.oracle.registries", b"7", timeout_s=120)):
        node = NodeDef.FromString(base64.b64decode(case["node"]))
        if (
            node.op in found
            or node.op.startswith("_")
            or not any(kind["priority"] is not None for kind in case["kernels"].values())
        ):
            continue
        _filled(node)
        types = ops.inputs(node.op, node.attr, {}) or ()
        if any(dtype == RESOURCE or dtype > REF for dtype in types):
            found[node.op] = node
    return found


def _filled(node: Any) -> None:
    facts = registry.registered(node.op)
    if node.op in EXEMPT:
        for argument in facts.inputs:
            if argument.list_attr:
                node.attr[argument.list_attr].list.Clear()
                node.attr[argument.list_attr].list.type.append(RESOURCE)
    if facts.attrs.get("output_shapes") == "list(shape)":
        node.attr["output_shapes"].list.Clear()
        node.attr["output_shapes"].list.shape.add(unknown_rank=True)
        node.attr["output_types"].list.Clear()
        node.attr["output_types"].list.type.append(1)
    if node.op in ("PartitionedCall", "StatefulPartitionedCall"):
        node.attr["Tout"].list.Clear()


def apart(node: Any) -> Graph:
    """The op on another device than its references and resources."""
    types = ops.inputs(node.op, node.attr, {})
    assert types is not None
    nodes: list[Any] = []
    for at, dtype in enumerate(types):
        if dtype > REF:
            shape = AttrValue(shape={"unknown_rank": True})
            nodes.append((f"input{at}", "VariableV2", [], {"dtype": type_attr(dtype - REF), "shape": shape}, "/cpu:1"))
        else:
            device = "/cpu:1" if dtype == RESOURCE else ""
            nodes.append((f"input{at}", "Placeholder", [], {"dtype": type_attr(dtype)}, device))
    nodes.append(("op", node.op, [f"input{at}" for at in range(len(types))], dict(node.attr), "/cpu:2"))
    body = function("some_function", ["a"], [("done", "NoOp", [], {})], [])
    body.signature.input_arg[0].type = RESOURCE
    return functional_graph(nodes, [body])


def placed(samples: Sequence[Any]) -> dict[str, str]:
    """Per op its device; none for what TensorFlow refuses, and for what makes it crash (a kernel of odd attributes)."""
    found, cluster, todo = {}, load_cluster("cpu=3"), list(samples)
    while todo:
        try:
            with conversation() as asking:
                while todo:
                    node = todo.pop()
                    graph = apart(node)
                    seen = dry_run(graph, cluster, step=runs(graph, "op"), asking=asking)
                    found[node.op] = seen.placement.get("op", "")[-1:]
        except OracleError as error:
            if "ended without an answer" not in str(error):
                raise
    return {op: device for op, device in found.items() if device}


@pytest.mark.tensorflow
def test_exactly_these_ops_are_not_tied_to_what_they_refer_to() -> None:
    asked = samples()
    found = placed(list(asked.values()))
    assert found.keys() >= EXEMPT
    assert {op for op, device in found.items() if device == "2"} == EXEMPT
    assert {device for op, device in found.items() if op not in EXEMPT} == {"1"}
    assert len(asked) - len(found) <= NOTHING_FITS
