"""Hubs: groups through which the values of many others pass, such as the identity of all gradients of an optimizer.

    GPU:0 ── gradients ┐     ┌ GPU:0       on a GPU, all that is of others comes and leaves over its wires;
    GPU:1 ── gradients ┤ hub ├ GPU:1       on the CPU beside, the wires of each GPU take what is its own
    GPU:2 ── gradients ┘     └ GPU:2

A walk seldom finds that, as a hub alone on the CPU brings nothing while all else is where the hub was. Two values do
not belong together because they pass through one hub. So hubs join no layers.

Over NVLink one GPU gets more bytes a second than all of them send to their CPU. There nothing is a hub.
"""

from __future__ import annotations

import numpy as np

from placement.problem import Problem
from placement.search.decisions import Decisions, fastest_on
from placement.search.reach import working
from simulator.columns import Flags, Ints, alike

_MANY = 4  # what comes in, or leaves, is at least so many times what is exchanged with any one other group
_LIGHT = 10  # it takes more than so many times as long on the wire as the group's work on a CPU
_SHARE = 0.25  # and longer than this part of a device's share of all work
_GROUPS = 100_000  # in larger steps few starts are judged


def hubs_of(decisions: Decisions) -> Flags:
    """[M] the groups that are hubs, by what comes in or what leaves, where that is less; each may be on any CPU.

    Where CPUs do the work there are none, nor in large steps.
    """
    problem, tables, count = decisions.problem, decisions.problem.tables, len(decisions.free)
    busy, tensor, wire_ns = np.array(working(problem)), tables.edge_tensor, decisions.wire_ns
    home = np.array(problem.home)[busy]
    if not 0 < count <= _GROUPS or np.array(problem.cpu)[busy].any() or not _pays(problem, busy, home):
        return np.zeros(count, bool)
    row = decisions.row[decisions.group]
    maker, reader = row[tables.tensor_op[tensor]], row[tables.consumer]
    kept = np.flatnonzero((maker >= 0) & (reader >= 0) & (maker != reader) & (wire_ns[tensor] > 0))
    least_ns = _SHARE * float(decisions.work_ns.sum()) / len(busy)
    may = np.ones(count, bool)
    for group in (reader, maker):  # a value counts once for each of its readers, so this is no less than what passes
        may &= np.bincount(group[kept], wire_ns[tensor[kept]], count) > least_ns
    kept = kept[may[reader[kept]] | may[maker[kept]]]
    through_ns = np.full(count, np.inf)
    for group, other in ((reader, maker), (maker, reader)):
        once = kept[alike(tensor[kept], group[kept])[0]]
        whole_ns = np.bincount(group[once], wire_ns[tensor[once]], count)
        once = kept[alike(tensor[kept], group[kept], other[kept])[0]]
        first, pair = alike(group[once], other[once])
        most_ns = np.zeros(count)  # of what is exchanged with one other
        np.maximum.at(most_ns, group[once[first]], np.bincount(pair, wire_ns[tensor[once]], len(first)))
        through_ns = np.minimum(through_ns, np.where(whole_ns >= _MANY * most_ns, whole_ns, 0))
    light = through_ns > _LIGHT * fastest_on(decisions, home)
    found: Flags = may & light & (through_ns > least_ns) & decisions.allowed[:, home].all(axis=1)
    return found


def _pays(problem: Problem, busy: Ints, home: Ints) -> bool:
    """Tell whether all devices of a CPU together send it more bytes a second than one of them gets from another.

    Over PCIe they do. Over NVLink one of them gets more than a few switches lead to the CPU.
    """
    routes, here = problem.tables.routes, busy[home == home[0]]
    to_cpu, between = routes.of[here, home[0]], routes.of[busy[:, None], here[None]]
    between = between[between >= 0]
    if (to_cpu < 0).any() or not len(between):
        return False
    at_once = len(here) / max(int(np.bincount(routes.links.at(to_cpu).item, minlength=1).max()), 1)
    slow, fast = routes.bytes_per_s[routes.pace[to_cpu]].min(), routes.bytes_per_s[routes.pace[between]]
    return bool(fast.min() > 0 and at_once * slow > fast.max())  # 0: bytes cost no time there
