"""Layers packed into devices as into bins: the one with most work first, each where it would end soonest.

    work of layers   ████████ ██████ ████ ███ ██        GPU:0 ████████ ██
                                                        GPU:1 ██████ ███      less what it exchanges with those there
                                                        GPU:2 ████

That is the rule of longest processing times: Graham, "Bounds on multiprocessing timing anomalies", SIAM Journal on
Applied Mathematics 17(2), 1969. A share of what a layer exchanges with those in a bin is taken off what the bin has to
do. Streams of vertices are partitioned so: Tsourakakis et al., "Fennel: streaming graph partitioning for massive scale
graphs", WSDM 2014. It is done several times over: Nishimura and Ugander, "Restreaming graph partitioning", KDD 2013. No
order counts, so this is for what may run at once, such as experts or updates of variables.

Plain Python over arrays, to be compiled.
"""

from __future__ import annotations

from typing import NamedTuple

from placement.search.layers import Nets
from simulator.columns import Ints

_ROUNDS = 3  # each layer is taken out and put in again, as then it is known where all others are
SHARE_BITS = 10  # of fractions of a share
MOST_SLOW = 2**20  # times as slow as the fastest: no device counts as slower


class Bins(NamedTuple):
    """The layers, and the bins into which they come. Axes: M groups, L layers, D bins."""

    layer: Ints  # [M]
    beside: Ints  # [M] 1: the group goes to the CPU beside the bin
    order: Ints  # [L] layers, those with most work first
    first: Ints  # [L+1] first of a layer's groups
    member: Ints  # [M] groups, those of a layer side by side
    work_ns: Ints  # [L]
    slow: Ints  # [D] how many times as long the bin takes as the fastest, with SHARE_BITS of a fraction
    load_ns: Ints  # [D] zeros before
    pull_ns: Ints  # [D] working memory, zeros
    chosen: Ints  # [L] bin; -1 before


def pack(nets: Nets, bins: Bins, share: int) -> None:
    """Put each layer into a bin. Of what it exchanges a `share`, with SHARE_BITS of a fraction, is taken off.

    What goes to CPUs pulls nothing but layers of such groups alone, as it is as far from all devices beside.
    """
    for turn in range(_ROUNDS * len(bins.order)):
        layer = bins.order[turn % len(bins.order)]
        if bins.chosen[layer] >= 0:
            bins.load_ns[bins.chosen[layer]] -= bins.work_ns[layer]
            bins.chosen[layer] = -1
        for place in range(bins.first[layer], bins.first[layer + 1]):
            group = bins.member[place]
            for at in range(nets.near_first[group], nets.near_first[group + 1]):
                near = nets.near[at]
                there = bins.chosen[bins.layer[near]]
                if there >= 0 and (bins.beside[near] == 0 or bins.work_ns[layer] == 0):
                    bins.pull_ns[there] += nets.near_ns[at]
        best, soonest = -1, 0
        for one in range(len(bins.slow)):
            until = ((bins.load_ns[one] + bins.work_ns[layer]) * bins.slow[one]) >> SHARE_BITS
            until -= (bins.pull_ns[one] * share) >> SHARE_BITS
            bins.pull_ns[one] = 0
            if best < 0 or until < soonest:
                best, soonest = one, until
        bins.chosen[layer] = best
        bins.load_ns[best] += bins.work_ns[layer]
