"""The starts of a search, judged one after the other: many are made, and the best are walked from.

Those over all devices come first, then some on one task of each sort alone (`narrowing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from math import inf
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from placement.algorithms.single import each_alone
from placement.problem import NEVER, Problem
from placement.search.decisions import Decisions
from placement.search.filling import filled
from placement.search.judge import Candidate, Judge, fewest
from placement.search.minimum_cut import besides
from placement.search.narrowing import permitted
from placement.search.order_cuts import Ground, ground
from placement.search.ordering import ops_by_rank
from placement.search.reach import working
from placement.search.starts import apart, cuts, layers, lists, packs
from placement.search.walk import NEAR
from simulator.aside import ahead
from simulator.columns import Ints
from simulator.units import Bytes

_Made = TypeVar("_Made")

_STARTS, _FEWEST = 600_000, 60  # ops in starts: so many, divided by the ops of a step, are judged, but no fewer
_OF_FEW = 0.3  # share of a number of placements that starts may take, so that a walk has the rest
_PACKED = 0.7  # share of them that are judged before packed layers end
_FULL = 0.4  # share of them that may be full devices, where memory may lack
_LISTS = 0.3  # share of them that list schedules may take
_GROUNDS = 2  # grounds of cuts that are kept, the best ones
_MADE = 0.5  # of a judgement: what a start takes to make that is then found hopeless
_LARGE = 20_000  # ops: in smaller steps a thread costs more than it saves
_RANKED = 40  # starts whose ops are ordered by upward ranks: by ready time an update may go before what all wait for


def started(judge: Judge, ranks: Ints, known: Sequence[Candidate], parts: Sequence[Decisions] = ()) -> list[Candidate]:
    """Placements to begin with: those of the other algorithms, all on a device, list schedules and cuts.

    `parts` are decisions on fewer devices, on which some starts are made, too.
    """
    whole = judge.decisions
    most: float = max(_STARTS // len(whole.group), _FEWEST)
    if judge.effort.judged is not None:
        most = min(most, _OF_FEW * judge.effort.judged)
    found = list(known)
    if not found:
        found.append(judge.judge("first devices", [allowed[0] for allowed in whole.problem.allowed]))
    if not len(whole.free):
        return found
    base = ground(whole, min(found, key=lambda one: one.order).device)
    found += _tried(judge, "one device", each_alone(whole.problem), 0.2 * most)
    grounds = _grounds(judge, whole, base, ranks, most, found)
    for how, source, until in (
        ("list schedules", lists(whole, ranks), _LISTS * most),
        ("parts", apart(whole, base), inf),  # a few, of which one is often far better than all else
        ("layers", chain.from_iterable(layers(whole, one) for one in grounds), inf),
        ("packed layers", _in_turn(packs(whole, one) for one in grounds), _PACKED * most),
        ("full devices", _filled(judge, base, most) if judge.tight else (), inf),
        ("cuts", _in_turn(cuts(whole, one, tight=judge.tight) for one in grounds), most),
    ):
        found += _tried(judge, how, source, until)
    for part in parts:
        until = judge.judged + _PACKED * most
        best = min(found, key=lambda one: one.order)
        grounds = _grounds(judge, part, ground(part, permitted(part, best.device)), ranks, until, found)
        found += _tried(judge, "layers", chain.from_iterable(layers(part, one) for one in grounds), inf)
        found += _tried(judge, "packed layers", _in_turn(packs(part, one) for one in grounds), until)
    if judge.orders:
        ops = ops_by_rank(whole, ranks)
        found += [judge.judge("order by ranks", one.device, ops) for one in fewest(found, _RANKED) if judge.left()]
    return found


def _grounds(
    judge: Judge, decisions: Decisions, base: Ground, ranks: Ints, until: float, found: list[Candidate]
) -> list[Ground]:
    """The best grounds of cuts: with groups on CPUs, where these make a step faster than one device alone; else `base`.

    Adds what it judges to `found`. None is looked for once so many are judged, as then nothing will be cut.
    """
    alone: list[Candidate] = []
    better: list[tuple[Candidate, Ground]] = []
    every = besides(decisions, base.device)
    ops = ops_by_rank(decisions, ranks) if judge.orders else None
    while judge.left() and judge.judged < until and (one := next(every, None)) is not None:
        own, device = one
        known = [judge.judge("minimum cut" if own.beside.any() else "one device", device)]
        if own.beside.any() and judge.left() and (other := next(packs(decisions, own), None)) is not None:
            known.append(judge.judge("packed layers", other, ops))
        found += known
        alone = alone or known
        if (best := min(known, key=lambda one: one.order)).rank < alone[0].rank:
            better.append((best, own))
    return [own for _, own in sorted(better, key=lambda one: one[0].rank)[:_GROUNDS]] or [base]


def _filled(judge: Judge, base: Ground, most: float) -> Iterator[Ints]:
    """Full devices, no more than their share of so many starts."""
    return islice(filled(judge.decisions, base.device, _peak_bytes(judge, base)), int(_FULL * most))


def _peak_bytes(judge: Judge, base: Ground) -> Bytes:
    """The most that a step holds at once on one processor; groups that may not be there stay where they are."""
    problem, free = judge.decisions.problem, judge.decisions.free
    home = problem.home[working(problem)[0]]
    device = base.device.copy()
    device[free] = np.where(judge.decisions.allowed[:, home], home, device[free])
    judge.judge("one device", device)
    return int(judge.peaks[0].sum())


def _in_turn(sources: Iterable[Iterable[Ints]]) -> Iterator[Ints]:
    """The first of each source, then the second of each."""
    return (one for one in chain.from_iterable(zip_longest(*sources)) if one is not None)


def beforehand(problem: Problem, items: Iterable[_Made]) -> Iterator[_Made]:
    """The items; in a large step each is made while the one before is judged, which machine code does."""
    return ahead(items) if len(problem.group) > _LARGE else iter(items)


def _tried(judge: Judge, how: str, source: Iterable[npt.ArrayLike], until: float) -> list[Candidate]:
    """Judge placements of a source until so many are judged in all, or nothing is left; not those without hope."""
    found: list[Candidate] = []
    devices, hopeless = beforehand(judge.decisions.problem, source), 0
    while judge.left() and judge.judged + _MADE * hopeless < until and (device := next(devices, None)) is not None:
        if _hopeless(judge, device):
            hopeless += 1
        else:
            found.append(judge.judge(how, device))
    return found


def _hopeless(judge: Judge, device: npt.ArrayLike) -> bool:
    """Tell whether the work of some device alone is longer than the best step, by far enough not to be walked from."""
    best, tables = judge.best, judge.decisions.problem.tables
    if best is None or best.over or best.ns >= NEVER:
        return False
    where = judge.decisions.spread(np.asarray(device, np.int64))
    run_ns = tables.op_ns(where)
    load_ns = np.bincount(where[~tables.instant], run_ns[~tables.instant], len(judge.capacity))
    return bool((100 * load_ns > float(NEAR * best.ns) * tables.lanes).any())
