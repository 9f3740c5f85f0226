"""Costs by a model that is not simviz's own: a function of graph and cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.columns import ids
from simulator.costs.table import MODELLED, CostTable
from simulator.errors import SimvizError
from simulator.graph.graph import Graph

CostModel: TypeAlias = Callable[[Graph, Cluster], CostTable]


def modelled(model: CostModel, graph: Graph, cluster: Cluster) -> CostTable:
    """Price every node by the model; a note names it.

    Raises SimvizError where it fails, or returns anything but a table of this graph and of the cluster's kinds.
    """
    name = getattr(model, "__name__", type(model).__name__)
    try:
        costs = model(graph, cluster)
    except SimvizError:
        raise
    except Exception as error:  # somebody else's code may raise anything; the cause stays attached
        raise SimvizError(f"The cost model {name!r} failed: {type(error).__name__}: {error}") from error
    if not isinstance(costs, CostTable):
        raise SimvizError(f"The cost model {name!r} returned a {type(costs).__name__}, not a simulator.CostTable.")
    costs.check(len(graph))
    if lacking := [kind for kind in cluster.kinds if kind not in costs.kinds]:
        raise SimvizError(f"The cost model {name!r} has no times on {lacking[0]!r}; give a column for each kind.")
    said = f"The cost model {name} prices the ops, not simviz's own."
    source = ids(np.full(len(graph), MODELLED))
    return replace(costs, source=source, kind_source=None, notes=(*costs.notes, said))
