"""Classes of ops: control flow, by TensorFlow's `Node::NodeClass`, calls of functions, variables, constants, losses.

Most flat ops of control flow have a second form for references (tensorflow/core/graph/graph.cc).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from simulator.errors import UnsupportedError
from simulator.graph.graph import Attrs, Graph

SWITCHES = frozenset({"Switch", "RefSwitch", "_SwitchN"})
MERGES = frozenset({"Merge", "RefMerge"})
ENTERS = frozenset({"Enter", "RefEnter"})
EXITS = frozenset({"Exit", "RefExit"})
NEXT_ITERATIONS = frozenset({"NextIteration", "RefNextIteration"})
CONTROL_FLOW = SWITCHES | MERGES | ENTERS | EXITS | NEXT_ITERATIONS
TRIGGERS = frozenset({"ControlTrigger"})  # never dead: `is_control_trigger` of propagator_state.cc

# Ops that the partitioner may move next to a value; RefEnter stays (`OptimizeControlFlowColocation`,
# graph_partition.cc).
MOVED = SWITCHES | EXITS | NEXT_ITERATIONS | {"Enter"}

# The functional forms, which inlining lowers to the flat ones.
IFS = frozenset({"If", "StatelessIf"})
CASES = frozenset({"Case", "StatelessCase"})
WHILES = frozenset({"While", "StatelessWhile"})

VARIABLES = frozenset({"Variable", "VariableV2", "AutoReloadVariable", "VarHandleOp"})

STACK_POPS, STACK_PUSHES = frozenset({"StackPop", "StackPopV2"}), frozenset({"StackPush", "StackPushV2"})

CONSTANTS = frozenset({"Const", "HostConst", "_EagerConst"})

LOSSES = frozenset({"SparseSoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits"})

# Ops by which a group of devices exchanges tensors without an edge, and the input that has the size of the group. The
# next one has its key. None: attributes have both. A third form reads a communicator instead, which is no constant.
COLLECTIVES: Mapping[str, int | None] = MappingProxyType(
    {
        **dict.fromkeys(("CollectiveReduce", "CollectiveGather", "CollectiveBcastSend", "CollectiveBcastRecv")),
        "CollectiveBcastRecvV2": 0,
        "CollectiveBcastSendV2": 1,
        "CollectiveReduceV2": 1,
        "CollectiveReduceScatterV2": 1,
        "CollectiveGatherV2": 1,
        "CollectiveAllToAllV2": 1,
        "CollectiveReduceV3": 1,
        "CollectiveAllToAllV3": 1,
    }
)

PARTITIONED = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_CALLING = PARTITIONED | IFS | CASES | WHILES


def calling(graph: Graph, rows: Iterable[int]) -> list[int]:
    """The rows that call a function: calls by any name, If, Case and While."""
    calls = {op for op in set(graph.ops) if op in _CALLING or op in graph.library}
    return [row for row in rows if graph.ops[row] in calls] if calls else []


def refuse_calls(graph: Graph, rows: Iterable[int]) -> None:
    """Raise UnsupportedError for a call whose body is in the library, unless the graph keeps calls on purpose."""
    if graph.keeps_calls or not graph.library:
        return
    found = [
        row
        for row in calling(graph, rows)
        if any(name in graph.library for name in (graph.ops[row], *functions_of(graph.attrs[row])))
    ]
    if found:
        first, more = found[0], f" and {len(found) - 1} more" if len(found) > 1 else ""
        raise UnsupportedError(
            f"{graph.source}: {graph.names[first]!r} ({graph.ops[first]}){more} would count as one op, whatever the "
            "body does. Load the graph with load(), which expands calls, or with load(..., keep_calls=True) to keep "
            "them so.",
            op=graph.ops[first],
            node=graph.names[first],
        )


def functions_of(attrs: Attrs) -> list[str]:
    """The functions that a node names in its attributes."""
    return [function.name for value in attrs.values() for function in (value.func, *value.list.func) if function.name]
