"""Orders of the ops of a placement: by rank with its transfers, by ready time, or as they start."""

from __future__ import annotations

import numpy as np

from placement.problem import NEVER
from placement.scheduling.ranks import ranks_on
from placement.search.decisions import Decisions
from placement.search.judge import Candidate, Judge, as_ops
from simulator.columns import Ids, Ints


def reordered_by_start(judge: Judge, of: Candidate, *, looped: bool) -> Candidate:
    """The same placement with its ops in the order in which they start: the same times, but moves may change the order.

    Where it is `looped`, so ops of a loop have one priority, or the options say the order, it is given back as it is.
    """
    if of.ops is not None or looped or not judge.orders or of.ns >= NEVER or judge.left() < 2:
        return of
    return judge.judge("annealing", of.device, judge.order_by_start("annealing", of.device))


def orders(judge: Judge, of: Candidate) -> list[tuple[str, Ids | None]]:
    """Orders of ops to try with a placement: by ready time, and by rank with the transfers that it has."""
    if not judge.orders or of.ns >= NEVER or not judge.left():
        return []
    return [("ready times", None), ("ranks", ranked_ops(judge.decisions, of.device))]


def ranked_ops(decisions: Decisions, device: Ints) -> Ids:
    """[n] the ops by falling rank under a placement: the longest path to the end of the step with its transfers."""
    return ops_by_rank(decisions, ranks_on(decisions.problem, decisions.spread(device), decisions.wire_ns))


def ops_by_rank(decisions: Decisions, rank: Ints) -> Ids:
    """[n] the ops by falling rank [n].

    A node in a loop has the place of its first iteration, as a plan has one priority for all of them.
    """
    tables = decisions.problem.tables
    order = np.lexsort((np.arange(len(rank)), -rank))
    place = np.full(int(tables.node.max(initial=0)) + 1, len(rank))
    np.minimum.at(place, tables.node[order], np.arange(len(rank)))
    return as_ops(np.lexsort((np.arange(len(rank)), place[tables.node])))
