"""The ops with which a step reads what it trains: from the first of them on, what it computes grows stale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.columns import Ids, ids
from simulator.graph import registry
from simulator.graph.op_classes import ENTERS, SWITCHES
from simulator.training.recognition.anatomy import trained

if TYPE_CHECKING:
    from simulator.graph.graph import Graph
    from simulator.partitioning import Partitions

_HANDLE = "VarHandleOp"
_HANDING_ON = ENTERS | SWITCHES | {"RefIdentity"}
_BY_HANDLE = frozenset(("ReadVariableOp", "_ReadVariablesOp", "ResourceGather", "ResourceGatherNd"))


def reads(partitions: Partitions) -> Ids:
    """The rows of the pieces' graph that read a variable to which the pieces apply a gradient, ascending.

    A variable with a handle is read by the ops for that. One with a reference is read by whoever takes its value and
    not the reference: mostly an Identity beside it, but also a Send, where the reader is on another device. So a value
    is as old as the op on the variable's device that took it, however long it is on the way or waits to be asked for.
    """
    graph, found = partitions.graph, set()
    for variable in trained(graph):
        handle = graph.ops[variable] == _HANDLE
        pending, seen = [variable], {variable}
        while pending:
            at = pending.pop()
            for edge in graph.out_edge[graph.out_ptr[at] : graph.out_ptr[at + 1]].tolist():
                reader = int(graph.edge_dst[edge])
                if graph.edge_tensor[edge] < 0 or reader in seen:
                    continue
                seen.add(reader)
                op = graph.ops[reader]
                if op in _HANDING_ON or (handle and op == "Identity"):
                    pending.append(reader)
                elif op in _BY_HANDLE if handle else _takes_values(graph, reader):
                    found.add(reader)
    return ids(sorted(found))


def _takes_values(graph: Graph, row: int) -> bool:
    """Whether none of its inputs is a reference by the op's registration; what has none, as a Send, takes values."""
    facts = registry.facts(graph.ops[row])
    return facts is None or not any(argument.is_ref for argument in facts.inputs)
