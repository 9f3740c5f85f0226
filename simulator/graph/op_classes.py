"""Classes of ops by what they do in control flow: TensorFlow's `Node::NodeClass`, and calls of functions.

Most flat ops of control flow have a second form for references (tensorflow/core/graph/graph.cc).
"""

from __future__ import annotations

from collections.abc import Iterable

from simulator.errors import UnsupportedError
from simulator.graph.graph import Graph

SWITCHES = frozenset({"Switch", "RefSwitch", "_SwitchN"})
MERGES = frozenset({"Merge", "RefMerge"})
ENTERS = frozenset({"Enter", "RefEnter"})
EXITS = frozenset({"Exit", "RefExit"})
NEXT_ITERATIONS = frozenset({"NextIteration", "RefNextIteration"})
TRIGGERS = frozenset({"ControlTrigger"})  # never dead: `is_control_trigger` of propagator_state.cc

# What the partitioner may move next to a value; RefEnter stays (`OptimizeControlFlowColocation`, graph_partition.cc).
MOVED = SWITCHES | EXITS | NEXT_ITERATIONS | {"Enter"}

# The functional forms, which inlining lowers to the flat ones.
IFS = frozenset({"If", "StatelessIf"})
CASES = frozenset({"Case", "StatelessCase"})
WHILES = frozenset({"While", "StatelessWhile"})


PARTITIONED = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_CALLING = PARTITIONED | IFS | CASES | WHILES


def calling(graph: Graph, rows: Iterable[int]) -> list[int]:
    """Those of the rows that call a function: calls by any name, If, Case and While."""
    return [row for row in rows if graph.ops[row] in _CALLING or graph.ops[row] in graph.library]


def refuse_calls(graph: Graph, rows: Iterable[int]) -> None:
    """Raise UnsupportedError for a call whose body is at hand, unless the graph keeps calls on purpose."""
    if graph.keeps_calls or not graph.library:
        return
    found = [row for row in calling(graph, rows) if _is_there(graph, row)]
    if found:
        first, more = found[0], f" and {len(found) - 1} more" if len(found) > 1 else ""
        raise UnsupportedError(
            f"{graph.source}: {graph.names[first]!r} ({graph.ops[first]}){more} would count as one op, whatever the "
            "body does. Load the graph with load(), which expands calls, or with load(..., keep_calls=True) to keep "
            "them so.",
            op=graph.ops[first],
            node=graph.names[first],
        )


def _is_there(graph: Graph, row: int) -> bool:
    """Whether a function that the node names is in the library."""
    if graph.ops[row] in graph.library:
        return True
    named = (function.name for value in graph.attrs[row].values() for function in (value.func, *value.list.func))
    return any(name in graph.library for name in named)
