"""The search for prices: demands worked by hand, and beside a linear program of a library."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from simulator.bounds.cuts import Values
from simulator.bounds.prices import Demand, Use, Uses, least_ns

_MANY = 10**9  # looks


def demand(
    work_ns: npt.ArrayLike,
    ends: list[tuple[int, list[int]]],
    uses: Uses = (((),), ((),)),
    *,
    lanes: tuple[int, ...] = (1, 1),
    stretch: list[int] | None = None,
    path_ns: tuple[int, ...] = (0,),
    links: int = 0,
) -> Demand:
    """A demand: work [K, S, G], -1 where a group can't run, and the maker and readers of each value of a byte."""
    work, classes = np.array(work_ns, np.int64), len(lanes)
    return Demand(
        capacity=(*lanes, *[1] * links),
        far=np.arange(classes) >= classes // 2,
        work_ns=work.clip(0),
        able=np.array((work >= 0).all(axis=1)),
        values=Values(
            maker=np.array([maker for maker, _ in ends], np.int64),
            value=np.repeat(np.arange(len(ends)), [len(read) for _, read in ends]),
            reader=np.array([one for _, read in ends for one in read], np.int64),
        ),
        stretch=np.array(stretch if stretch is not None else [0] * len(ends), np.int64),
        number=np.ones(len(ends), np.int64),
        nbytes=np.ones(len(ends), np.int64),
        uses=uses,
        path_ns=path_ns,
    )


def found(of: Demand) -> int:
    return least_ns(of, 0, _MANY).ns


def test_work_is_shared_as_lanes_and_speeds_allow() -> None:
    """Lanes that take 30 and 60 ns for each of six groups share them as two to one."""
    work = [[[30] * 6], [[60] * 6]]
    assert found(demand(work, [])) == pytest.approx(120, rel=0.01)
    assert found(demand(work, [], lanes=(2, 2))) == pytest.approx(60, rel=0.02)


def test_a_transfer_that_takes_a_lane_is_paid_for() -> None:
    """Each group is fast in its own half, but a value that goes there takes 50 ns of the first lane.

    With x of the second group far, and y of the first, the lanes take 10 (1-y) + 100 (1-x) + 50 (x-y) and 100 y + 10 x
    ns. They are even, and least, at x = 1 and y = 5 / 16.
    """
    work, ends = [[[10, 100]], [[100, 10]]], [(0, [1])]
    assert found(demand(work, ends)) == 10
    assert found(demand(work, ends, (((Use(0, 50, 0.0),),), ((),)))) in (41, 42)
    assert found(demand(work, ends, (((),), ((Use(0, 50, 0.0),),)))) == 10  # the other way round


def test_a_link_is_paid_for_by_bytes_and_by_the_cheapest_way() -> None:
    work, ends = [[[10, -1]], [[-1, 10]]], [(0, [1])]
    slow, fast = (Use(2, 0, 40_000.0),), (Use(3, 0, 30_000.0),)
    assert found(demand(work, ends, ((slow,), ((),)), links=2)) == 40
    assert found(demand(work, ends, ((slow, fast), ((),)), links=2)) in (15, 16, 17, 18)  # 40 * 30 / 70: as if by both


def test_what_comes_before_a_barrier_is_done_before_what_comes_after_it() -> None:
    nothing = [0, 0]
    apart = [[[100, -1], [0, -1], nothing], [[-1, 0], [-1, 100], nothing]]
    assert found(demand(apart, [], path_ns=(0, 0))) == pytest.approx(200, rel=0.01)
    either = [[nothing, nothing, [100, -1]], [nothing, nothing, [-1, 100]]]
    assert found(demand(either, [], path_ns=(0, 0))) == pytest.approx(100, rel=0.01)


def test_a_path_is_a_bound_by_itself_and_with_work_in_the_other_phase() -> None:
    nothing = [0, 0]
    late = [[nothing, [100, 100], nothing], [nothing, [100, 100], nothing]]
    assert 160 <= found(demand(late, [], path_ns=(70, 80))) <= 170
    assert found(demand(late, [], path_ns=(70, 130))) == 200


def test_a_search_without_hope_or_looks_ends_early() -> None:
    work = [[[30] * 6], [[60] * 6]]
    of = demand(work, [(0, [1, 2])])
    assert least_ns(of, 0, 0).looks < least_ns(of, 10**6, _MANY).looks < least_ns(of, 0, _MANY).looks
    assert least_ns(of, 0, 0).ns <= found(of)


def test_numbers_too_large_for_fine_prices_give_the_path_alone() -> None:
    assert found(demand([[[2**55]], [[2**55]]], [], path_ns=(7,))) == 7


# --- beside a library -------------------------------------------------------------------------------------------------


def by_library(of: Demand) -> float:
    """The least makespan by a linear program: groups in parts on classes, values that cross in parts by some pair."""
    classes, stretches, groups = of.work_ns.shape
    phases, values = len(of.path_ns), len(of.number)
    here = [(side, number) for side, way in enumerate(of.uses) for number in range(len(way))]
    share = np.arange(classes * groups).reshape(classes, groups)
    sent = classes * groups + np.arange(len(here) * values).reshape(len(here), values)
    phase = share.size + sent.size + np.arange(phases)
    count = share.size + sent.size + phases
    rows, least = [], []
    for value, reader in zip(of.values.value.tolist(), of.values.reader.tolist(), strict=True):
        for side in range(2):  # what is more in the other half than at its maker has been sent
            row, there = np.zeros(count), of.far if side == 0 else ~of.far
            np.add.at(row, share[there, reader], 1)
            np.add.at(row, share[there, of.values.maker[value]], -1)
            row[[sent[at, value] for at, (way, _) in enumerate(here) if way == side]] -= 1
            rows.append(row)
            least.append(0.0)
    for first, last in [(p, p) for p in range(phases)] + [(0, phases - 1)] * (phases > 1):
        inside = [s for s in range(stretches) if first <= s <= last or (s == phases and last - first == phases - 1)]
        for resource, capacity in enumerate(of.capacity):
            row = np.zeros(count)
            if resource < classes:
                np.add.at(row, share[resource], of.work_ns[resource][inside].sum(axis=0))
            for at, (side, number) in enumerate(here):
                for use in of.uses[side][number]:
                    if use.resource == resource:
                        ns = use.fixed_ns * of.number + np.floor(of.nbytes * (use.ps_per_byte / 1000))
                        row[sent[at]] += ns * np.isin(of.stretch, inside)
            row[phase[first : last + 1]] -= capacity
            rows.append(row)
            least.append(0.0)
    for p, ns in enumerate(of.path_ns):
        row = np.zeros(count)
        row[phase[p]] = -1
        rows.append(row)
        least.append(-ns)
    whole = np.zeros((groups, count))
    for group in range(groups):
        whole[group, share[:, group]] = 1
    most = np.full(count, np.inf)
    most[share[~of.able]] = 0
    goal = np.zeros(count)
    goal[phase] = 1
    edges = [(0, one) for one in most]
    done = linprog(goal, A_ub=np.array(rows), b_ub=least, A_eq=whole, b_eq=np.ones(groups), bounds=edges)
    return float(done.fun)


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    """Demands of up to eight groups on two to four classes, in one phase or two."""
    classes, groups, phases = draw(st.integers(2, 4)), draw(st.integers(1, 8)), draw(st.integers(1, 2))
    stretches = 1 if phases == 1 else 3
    ns = st.integers(0, 900)
    work = np.array([draw(ns) for _ in range(classes * stretches * groups)], np.int64).reshape(classes, stretches, -1)
    for group in range(groups):
        barred = draw(st.sets(st.integers(0, classes - 1), max_size=classes - 1))
        work[sorted(barred), 0, group] = -1
    ends, links = [], draw(st.integers(0, 2))
    for maker in range(groups - 1):
        readers = draw(st.sets(st.integers(maker + 1, groups - 1), max_size=4))
        ends += [(maker, sorted(readers))] if readers else []
    uses = st.builds(Use, st.integers(0, classes + links - 1), st.integers(0, 200), st.sampled_from([0.0, 50_000.0]))
    way = st.lists(st.lists(uses, max_size=2, unique_by=lambda use: use.resource).map(tuple), min_size=1, max_size=3)
    return demand(
        work,
        ends,
        (tuple(draw(way)), tuple(draw(way))),
        lanes=tuple(draw(st.integers(1, 4)) for _ in range(classes)),
        stretch=[draw(st.integers(0, stretches - 1)) for _ in ends],
        path_ns=tuple(draw(st.integers(0, 500)) for _ in range(phases)),
        links=links,
    )


@settings(deadline=None, max_examples=35)
@given(demands())
def test_prices_are_below_the_linear_program_and_near_it(of: Demand) -> None:
    most, ns = by_library(of), found(of)
    assert ns <= np.ceil(most * (1 + 1e-9) + 1e-6)
    assert ns >= 0.7 * most - 3


def test_prices_come_within_a_few_percent_of_the_linear_program_on_the_whole() -> None:
    rng, ratios = np.random.default_rng(0), []
    for _, several in product(range(15), (False, True)):
        groups = 40
        work = rng.integers(1, 900, (3, 3 if several else 1, groups))
        ends = [(maker, [maker + 1, *{int(rng.integers(maker + 1, groups))}]) for maker in range(groups - 1)]
        ends = [(maker, sorted(set(read))) for maker, read in ends]
        use = (Use(0, 90, 0.0), Use(3, 0, 120_000.0))
        of = demand(
            work,
            ends,
            ((use,), (use[1:],)),
            lanes=(1, 1, 3),
            stretch=rng.integers(0, work.shape[1], len(ends)).tolist(),
            path_ns=(900, 1200) if several else (900,),
            links=1,
        )
        ratios.append(found(of) / by_library(of))
    assert max(ratios) <= 1.001
    assert np.mean(ratios) > 0.97
