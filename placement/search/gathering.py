"""The layers of a step, by machine code: of several limits that under which the least has to cross.

How much work is too much for one decides whether layers are those of the network, or halves of two. At their own size
far less crosses than a little below or above.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from placement.search.decisions import Decisions
from placement.search.hubs import hubs_of
from placement.search.layers import Joined, Nets
from placement.search.packing import MOST_SLOW, SHARE_BITS, Bins
from placement.search.reach import working
from simulator.columns import Flags, Floats, Ints, by_key, positions

_NARROW = (1.0, 0.92, 0.85, 0.78, 0.7, 0.6)  # limits that are tried, as shares of the largest
_SHARES = (2.2, 1.1, 0.5, 0.25, 0.125, 0.06)  # of a device's share of the work, that layers have at most
_BEGUN = 0.1  # share of a layer's work after which it has begun
_PART = 0.6  # of all work that a layer has at most


def sizes(decisions: Decisions) -> Ints:
    """[C, M] a group that stands for the layer of each, of layers of some sizes."""
    whole, devices, nets = decisions.work_ns.sum(), len(working(decisions.problem)), nets_of(decisions)
    found = [layers_of(nets, min(whole * share / devices, whole * _PART)) for share in _SHARES]
    return np.array(list({one.tobytes(): one for one in found}.values()), np.int64)


def nets_of(decisions: Decisions, work_ns: Floats | None = None) -> Nets:
    """All values that take time on the wire but those of hubs, and the work [M] of groups.

    By default that is the work on the fastest device for each.
    """
    tables, row = decisions.problem.tables, decisions.row[decisions.group]
    tensor = tables.edge_tensor
    source, target, wire_ns = row[tables.tensor_op[tensor]], row[tables.consumer], decisions.wire_ns[tensor]
    joins = np.append(~hubs_of(decisions), False)  # False, at place -1: what has no choice
    kept = np.flatnonzero(joins[source] & joins[target] & (source != target) & (wire_ns > 0))
    kept = kept[np.lexsort((tensor[kept], -wire_ns[kept]))]
    first = np.flatnonzero(np.diff(tensor[kept], prepend=-1))
    near_first, near, near_ns = decisions.neighbours
    return Nets(
        maker=source[kept][first],
        wire_ns=np.rint(wire_ns[kept][first]).astype(np.int64),
        first=np.append(first, len(kept)).astype(np.int64),
        reader=target[kept],
        work_ns=np.rint(decisions.work_ns if work_ns is None else work_ns).astype(np.int64),
        near_first=near_first,
        near=near,
        near_ns=near_ns,
    )


def layers_of(nets: Nets, most_ns: float) -> Ints:
    """[M] a group that stands for the layer of each, under the best of some limits up to so much work."""
    from placement.search.compiled import layered  # late: it loads LLVM

    count = len(nets.work_ns)
    layers = joined(count)
    best: Ints = layers.root.copy()
    least = 2**63
    for share in _NARROW:
        layered(nets, layers, int(most_ns * share))
        if layers.cut_ns[0] < least:
            best, least = layers.root.copy(), int(layers.cut_ns[0])
    return best


def begun(layer: Ints, place: Ints, work_ns: Floats) -> Ints:
    """[M] the place at which a tenth of the work of each layer is done."""
    order = np.lexsort((place, layer))
    done = np.cumsum(work_ns[order] + 1)
    whole = np.bincount(layer, work_ns + 1, len(place))
    before = np.cumsum(whole) - whole
    late = np.flatnonzero(done - before[layer[order]] >= _BEGUN * whole[layer[order]])[::-1]
    found = np.zeros(len(place), np.int64)
    found[layer[order[late]]] = place[order[late]]  # the first stays, as it is written last
    return found


def bins_of(nets: Nets, layer: Ints, beside: Flags, slow: Floats, pulls: Sequence[float]) -> Iterator[Ints]:
    """[M] the bin into which the layer of each group comes; `beside` [M] are groups that go to the CPU beside it.

    There is a bin for each of `slow` [D], how many times as long a device takes as the fastest. For each of `pulls`,
    the share of the time of transfers that counts, there is one result.
    """
    from placement.search.compiled import packed  # late: it loads LLVM

    number = np.flatnonzero(np.bincount(layer))
    of = positions(number, len(layer))[layer]
    member, first = by_key(of, len(number))
    work_ns = np.bincount(of, nets.work_ns, len(number)).astype(np.int64)
    order = np.argsort(-work_ns, kind="stable")
    for pull in pulls:
        bins = Bins(
            layer=of,
            beside=beside.astype(np.int64),
            order=order,
            first=first.astype(np.int64),
            member=member,
            work_ns=work_ns,
            slow=np.rint(slow.clip(1, MOST_SLOW) * (1 << SHARE_BITS)).astype(np.int64),
            load_ns=np.zeros(len(slow), np.int64),
            pull_ns=np.zeros(len(slow), np.int64),
            chosen=np.full(len(number), -1),
        )
        packed(nets, bins, round(pull * (1 << SHARE_BITS)))
        yield bins.chosen[of]


def joined(count: int) -> Joined:
    """Room for the result over so many groups."""
    root, whole_ns, seen, pull_ns = np.zeros((4, count), np.int64)
    return Joined(root, whole_ns, seen, pull_ns, np.zeros(1, np.int64))
