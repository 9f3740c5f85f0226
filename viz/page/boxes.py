"""The order of the items of the folded graph: by the mean place of their nodes in the topological order.

The page lays out what is open when it is opened, for it alone knows the pane. This order breaks its ties.
"""

from __future__ import annotations

import numpy as np

from simulator.columns import Ids, ids
from viz.page.folding import Folding


def item_order(topological: Ids, folding: Folding) -> Ids:
    """[I] position of each item when all are sorted by the mean place of their nodes; ties go by item."""
    count, scopes = len(topological), folding.scopes
    place = np.empty(count)
    place[topological] = np.arange(count)
    total, members = np.zeros(scopes + count), np.zeros(scopes + count)
    total[scopes:], members[scopes:] = place, 1
    home = folding.parent[scopes:]
    total[:scopes] = np.bincount(home, weights=place, minlength=scopes)
    members[:scopes] = np.bincount(home, minlength=scopes)
    for scope in range(scopes - 1, 0, -1):  # parents come first
        total[folding.parent[scope]] += total[scope]
        members[folding.parent[scope]] += members[scope]
    position = np.empty(scopes + count, np.int64)
    position[np.argsort(total / np.maximum(members, 1), kind="stable")] = np.arange(scopes + count)
    return ids(position)
