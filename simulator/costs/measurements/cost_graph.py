"""CostGraphDef: nodes with the longest time of each in whole microseconds, as a session's cost model keeps it.

A session fills it into RunMetadata where `build_cost_model` is set. The REGAL data set (Paliwal et al. 2019) has its
graphs in this form, as text: https://github.com/google-deepmind/deepmind-research/tree/master/regal. Its nodes name no
device. A cost of 0 is that of a node that did not run or took less than a microsecond; it says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from simulator.costs.measured import ANYWHERE, Sample
from simulator.errors import ClusterError
from simulator.graph.messages import Proto

FORM = "CostGraphDef"
_US = 1000  # nanoseconds of a microsecond


def of_cost_graph(message: Proto, label: str) -> Iterable[Sample]:
    """The samples of a CostGraphDef. Raises ClusterError for one that names nodes which it lacks: it was cut."""
    _check_whole(message, label)
    for node in message.node:
        if node.compute_cost:
            yield Sample(node.name, node.device or ANYWHERE, _US * int(node.compute_cost))


def has_costs(message: Proto) -> bool:
    """Whether a message that was read as a CostGraphDef is one."""
    return any(node.name and node.compute_cost for node in message.node)


def _check_whole(message: Proto, label: str) -> None:
    known = {node.id for node in message.node}
    for node in message.node:
        needed = (*(one.preceding_node for one in node.input_info), *node.control_input)
        missing = next((one for one in needed if one not in known), None)
        if missing is not None:
            raise ClusterError(
                f"{label}: {node.name!r} reads node {missing}, which the CostGraphDef lacks: it was cut. Fetch it again"
            )
