"""Answers of runs that were made by hand or drawn."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.columns import flags, ids, ints
from simulator.errors import SimvizError
from simulator.training.answers.answers import answers, until_ci
from simulator.training.answers.steady_state import Cycle, rate
from simulator.training.disturbances.disturbance import Upsets
from simulator.training.training import Training
from tests.training.alike import anew
from tests.training.runs import made, trainings

S = 10**9


@given(trainings())
def test_shares_of_a_task_sum_to_one_and_the_histogram_counts_every_update(training: Training) -> None:
    found = answers(training)
    assert np.allclose(found.shares.sum(axis=1), 1)
    assert sum(found.staleness.values()) == len(training.update_ns) == found.updates
    assert list(found.staleness) == sorted(found.staleness)
    for share in (found.shares, found.device_share, found.link_share, np.array(found.gate_share)):
        assert ((share >= 0) & (share <= 1)).all()
    assert found.usage.link_bytes.sum() == training.usage.link_bytes.sum()


@given(trainings())
def test_rates_are_of_what_is_after_the_cut(training: Training) -> None:
    found = answers(training)
    left = len(training.update_ns) - found.cut
    span = int(training.update_ns[-1]) - found.cut_ns if left else 0
    assert 2 * found.cut <= len(training.update_ns)
    if not span:
        assert found.steps_per_s is None
    elif found.cycle is not None:
        assert found.steps_per_s == pytest.approx(found.cycle.updates * S / found.cycle.ns)
        assert left % found.cycle.updates == 0
        assert found.steps_per_s == pytest.approx(left * S / span)
    else:
        assert found.steps_per_s == pytest.approx(left * S / span)
        assert found.gradients_per_s == pytest.approx(left * S / span)
        known = bool(training.update_examples.all())
        assert found.examples_per_s == (pytest.approx(8 * left * S / span) if known else None)


@given(trainings())
def test_quantiles_are_times_of_steps_in_order(training: Training) -> None:
    times = (training.step_end_ns - training.step_start_ns).tolist()
    found = answers(training).step_ns
    assert bool(found) == bool(times)
    assert list(found.values()) == sorted(found.values())
    assert set(found.values()) <= set(times)


def test_an_even_run_by_hand() -> None:
    """A step each 250 ms: 4 steps and 128 examples a second; the first step is warm-up, and what follows repeats."""
    found = answers(made([k * S // 4 for k in range(1, 41)]))
    assert found.steps_per_s == 4
    assert found.examples_per_s == 128
    assert (found.half_width, found.cycle) == (0, Cycle(1, S // 4, 0))
    assert found.step_ns == {50: S // 4, 90: S // 4, 99: S // 4}
    assert (found.cut, found.cut_ns, found.settled) == (1, S // 4, True)
    assert found.warm_up == "the first of 40 updates, up to 250 ms, is warm-up (then the run repeats itself)"


def test_quantiles_are_the_smallest_that_enough_steps_do_not_exceed() -> None:
    ends = np.cumsum([1, *range(1, 101)]).tolist()
    one = made(ends[:1])
    columns = {name: getattr(one, name) for name in vars(one) if name.startswith("update_")}
    assert answers(made(ends, **columns)).step_ns == {50: 50, 90: 90, 99: 99}


def test_steps_of_who_updates_for_others_are_no_training_steps() -> None:
    """Two workers of which one waits for tokens half of the time, and a chief's loop that waits all the time."""
    training = made(
        [10, 20],
        clients=("worker:0", "worker:1", "worker:0 updates"),
        is_worker=flags([True, True, False]),
        step_client=ids([0, 1, 2]),
        step_start_ns=ints([0, 0, 0]),
        step_end_ns=ints([10, 10, 20]),
        step_waiting_ns=ints([0, 5, 20]),
        update_client=ids([2, 2]),
        update_gradients=ids([2, 2]),
        update_examples=ints([64, 64]),
    )
    found = answers(training)
    assert found.gate_share == 0.25
    assert found.step_ns[99] == 10
    assert found.cut == 1
    assert (found.steps_per_s, found.gradients_per_s, found.examples_per_s) == (1e8, 2e8, 6.4e9)


def test_examples_are_not_counted_where_an_update_does_not_know_its_own() -> None:
    found = answers(made([k * S // 4 for k in range(1, 41)], update_examples=ints([32, 0] * 20)))
    assert (found.steps_per_s, found.examples_per_s) == (4, None)


def test_a_run_without_updates_or_time_says_what_it_cannot_say() -> None:
    nothing = answers(made([]))
    assert (nothing.steps_per_s, nothing.half_width, nothing.cut, nothing.updates) == (None, None, 0, 0)
    assert nothing.warm_up == "nothing is cut off as warm-up of 0 updates"
    at_once = answers(made([0, 0, 0]))
    assert (at_once.steps_per_s, at_once.examples_per_s) == (None, None)
    assert at_once.staleness == {0: 3}


def test_the_first_update_counts_for_no_rate_even_where_workers_have_gone_on_before_it() -> None:
    """With tokens from the start the workers end a step first; sessions that start late would spoil the rate."""
    ends = [1000 + 10 * k for k in range(10)]
    columns = {"is_worker": flags([True]), "step_end_ns": ints([5, *ends[1:]])}
    found = answers(made(ends, **columns))
    assert (found.cut, found.steps_per_s) == (1, 1e8)


def test_a_worker_that_begins_late_makes_what_was_before_warm_up() -> None:
    """Worker 1 ends its first step at 20: until then one worker had all to itself."""
    ends = [*range(1, 20), *(20 + k // 2 for k in range(80))]
    client = [0] * 19 + [1, 0] * 40
    two = {"clients": ("worker:0", "worker:1"), "client_task": ids([1, 1]), "is_worker": flags([True, True])}
    found = answers(made(ends, step_client=ids(client), update_client=ids(client), **two))
    assert found.cut >= 20
    assert found.steps_per_s == pytest.approx(2e9, rel=0.03)


@given(trainings(), st.integers(0, 90), st.integers(0, 50))
def test_the_rate_of_the_first_updates_does_not_know_of_later_ones(training: Training, count: int, cut: int) -> None:
    known = training.update_ns[:count]
    assert rate(training.update_ns, count, cut) == rate(known, len(known), cut)


@given(trainings())
def test_a_run_is_compared_by_the_rate_that_is_said_of_it(training: Training) -> None:
    """A run of 12 updates had 840.8 steps per second, and 1,003 where it was compared."""
    found = answers(training)
    assert rate(training.update_ns, len(training.update_ns), found.cut) == found.steps_per_s


def process(seed: int, steps: int) -> Training:
    """Steps of 100 ms on average, exponential above 50 ms, after 20 slow ones: a longer run begins as a shorter one."""
    rng = np.random.default_rng(seed)
    lengths = 50 + rng.exponential(50, steps)
    lengths[:20] += np.arange(200, 0, -10)[: min(20, steps)]
    return made(np.cumsum(np.rint(lengths * 10**6).astype(np.int64)).tolist())


def test_a_run_is_doubled_until_its_interval_is_narrow() -> None:
    asked: list[int] = []

    def run(steps: int) -> Training:
        asked.append(steps)
        return process(3, steps)

    found = until_ci(anew(run, 50), relative=0.02, steps=50)
    assert asked == [50 * 2**k for k in range(len(asked))]
    assert found.reached
    assert found.steps == asked[-1] == len(found.training.update_ns)
    assert found.answers.half_width is not None
    assert found.answers.half_width <= 0.02
    shorter = answers(process(3, asked[-2]))
    assert shorter.half_width is None or shorter.half_width > 0.02 or not shorter.settled
    assert found.training.update_ns[: asked[0]].tolist() == process(3, asked[0]).update_ns.tolist()


def test_a_run_ends_at_its_limit() -> None:
    found = until_ci(anew(lambda steps: process(3, steps), 30), relative=0.0001, steps=30, most=100)
    assert (found.steps, found.reached) == (100, False)


def test_the_interval_that_ended_a_run_covers_the_truth() -> None:
    """10 steps a second, of 50 runs. Who stops when it looks narrow covers a little less than 95 %."""
    covered = 0
    for seed in range(50):
        found = until_ci(anew(partial(process, seed), 100), relative=0.03, steps=100).answers
        assert found.steps_per_s is not None
        assert found.half_width is not None
        covered += abs(found.steps_per_s - 10) <= found.half_width * found.steps_per_s
    assert covered >= 43


@pytest.mark.parametrize(
    ("relative", "steps", "most"), [(0, 5, 9), (1, 5, 9), (float("nan"), 5, 9), (0.1, 0, 9), (0.1, 10, 9)]
)
def test_intervals_that_make_no_sense_are_refused(relative: float, steps: int, most: int) -> None:
    with pytest.raises(SimvizError, match="none; "):
        until_ci(anew(lambda count: process(0, count), steps), relative=relative, steps=steps, most=most)


def test_the_interval_of_few_updates_is_wide_and_of_fewer_none() -> None:
    """20 steps whose times differ by chance: a run of ten times as many must lie within what they say."""
    upsets = Upsets(chance=True)
    for seed in range(20):
        lengths = np.random.default_rng(seed).lognormal(0, 0.3, 20) * 10**8
        ends = np.cumsum(np.rint(lengths).astype(np.int64)).tolist()
        found = answers(made(ends, upsets=upsets))
        assert found.cycle is None
        assert found.half_width is not None
        assert 0.05 < found.half_width < 0.6
        assert answers(made(ends[:5], upsets=upsets)).half_width is None


def test_a_crash_is_in_the_rate_however_early_it_comes() -> None:
    """A second is lost to it: 100 updates take 6 s, where between crashes 20 come each second."""
    gaps = [50] * 20 + [1050] + [50] * 79
    for order in (gaps, [50, 1050, *[50] * 98]):
        ends = [int(end) * 10**6 for end in np.cumsum(order)]
        at = ends[order.index(1050) - 1] + 1
        found = answers(made(ends, upsets=Upsets(once_ns=((at, at + 10**9),))))
        assert found.cut_ns < at
        assert found.steps_per_s == pytest.approx(100 / 6, rel=0.01)
        assert found.between_upsets_per_s == pytest.approx(20)
        assert found.cycle is None
        assert found.half_width
        assert found.half_width >= 1 / 100
        plain = answers(made(ends, upsets=Upsets(once_ns=((10**15, 2 * 10**15),))))  # comes after the end
        assert plain.between_upsets_per_s is None


@pytest.mark.parametrize("period", [150, 100, 70, 200, 10_000])
def test_what_repeats_between_pauses_repeats_with_them_only_if_they_fit(period: int) -> None:
    """Cycles of 300 ms; a pause that comes each 10 s may not have come yet."""
    ends = [300 * 10**6 * k + part * 10**6 for k in range(20) for part in (100, 300)]
    found = answers(made(ends, upsets=Upsets(periods_ns=(period * 10**6,))))
    assert (found.cycle is not None) == (300 % period == 0)
    if period == 10_000:
        assert found.half_width is None  # too few pauses to say
