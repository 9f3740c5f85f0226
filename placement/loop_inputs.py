"""Inputs of loops that stay the same in each iteration, beside the conditions of their loops.

A session moves such an Enter to its first reader when it cuts the graph, wherever a plan has it
(`OptimizeControlFlowColocation`, graph_partition.cc). Before that Grappler puts a constant into the loop on the Enter's
device, behind it (`MoveConstantsPastEnter`, constant_folding.cc). Nothing else of the loop may be on that device. Then
it learns of the first iteration alone, sends the constant once, and the step never ends. The device of the condition
learns of all iterations.
"""

from __future__ import annotations

from dataclasses import replace

from placement.plan import Plan
from placement.problem import Problem
from simulator.graph.attributes import is_true
from simulator.graph.dataflow import data_inputs
from simulator.graph.graph import Graph
from simulator.graph.op_classes import ENTERS, MERGES, SWITCHES


def beside_conditions(problem: Problem, plan: Plan) -> Plan:
    """The plan with each such Enter on the device of its loop's condition, where its group is free to go there."""
    graph, rules = problem.graph, problem.constraints
    conditions = _conditions(graph)
    device = list(plan.device)
    for node, op in enumerate(graph.ops):
        if op != "Enter" or not is_true(graph.attrs[node], "is_constant"):
            continue
        group, condition = int(rules.group[node]), conditions.get(_frame(graph, node), -1)
        if condition >= 0 and len(rules.members[group]) == 1:
            beside = plan.device[int(rules.group[condition])]
            device[group] = beside if beside in problem.allowed[group] else device[group]
    return replace(plan, device=device)


def _conditions(graph: Graph) -> dict[bytes, int]:
    """The LoopCond of each frame."""
    if "LoopCond" not in graph.ops:
        return {}
    inputs, source = data_inputs(graph), graph.tensor_node.tolist()
    found: dict[bytes, int] = {}
    for node, op in enumerate(graph.ops):
        if op in SWITCHES and len(inputs[node]) == 2:
            merge, condition = (source[tensor] for tensor in inputs[node])
            if graph.ops[condition] == "LoopCond" and graph.ops[merge] in MERGES:
                makers = (source[tensor] for tensor in inputs[merge])
                found.update({_frame(graph, one): condition for one in makers if graph.ops[one] in ENTERS})
    return found


def _frame(graph: Graph, node: int) -> bytes:
    value = graph.attrs[node].get("frame_name")
    return b"" if value is None else bytes(value.s)
