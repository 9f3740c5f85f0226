"""Hand-worked runs: synchronisation, crashes, pauses and noise, what is counted, and what hangs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster
from simulator.columns import Ids, ids
from simulator.errors import DeadlockError, SimvizError
from simulator.execution.options import SimulationOptions
from simulator.training.clients import Client
from simulator.training.disturbances.disturbance import read_disturbance
from simulator.training.disturbances.noise import entry, lognormal, scaled
from simulator.training.train import train
from simulator.training.training import Training
from tests.execution.cases import apart
from tests.training.alike import assert_spent_alike
from tests.training.workloads import Priced, chain, pushing, ran, spans, step_rows, update_rows, updating

HOP, TOKEN = 104, 108  # ns on the way: 100 and one per byte


def workers(on: Cluster, *times: int, **options: int) -> list[Priced]:
    """SyncReplicas workers on devices 1, 2, ..: ns of work each."""
    return [pushing(on, f"worker:{k}", [(k, ns)], task=k, **options) for k, ns in enumerate(times, 1)]


def test_a_backup_worker_s_gradient_comes_too_late_and_is_dropped() -> None:
    """Two of three gradients make an update; the third is of an old step.

    The first worker takes the token that the third left, and what it makes with that comes too late as well.
    """
    on = apart(4)
    run = ran([*workers(on, 50, 100, 600), updating(on, aggregate=2, handed=3, update_ns=10)], on, steps=3)
    updated = 100 + HOP + 10
    assert update_rows(run)[0] == (updated, 3, 0, 2, 0)
    assert spans(run, 0)[0] == spans(run, 1)[0] == (0, updated + TOKEN)
    assert spans(run, 2) == [(0, 600 + HOP + TOKEN)]
    assert run.dropped == 2
    second = updated + TOKEN + 100 + HOP + 10
    assert update_rows(run)[1][:1] == (second,)


def test_a_fast_worker_takes_two_tokens_of_one_update() -> None:
    """Two tokens per update, both for the fast worker, as the slow one has not come for its own yet.

    The second is of an old step by then, so that its third gradient is dropped, as is the slow worker's first.
    """
    on = apart(3)
    run = ran([*workers(on, 10, 450), updating(on, aggregate=1, handed=2)], on, steps=3)
    step = 10 + HOP + TOKEN
    assert [update[0] for update in update_rows(run)] == [10 + HOP, step + 10 + HOP, 3 * step + 10 + HOP]
    assert spans(run, 0) == [(0, step), (step, 2 * step), (2 * step, 3 * step)]
    assert run.dropped == 2


def test_fewer_workers_than_gradients_take_several_steps_for_an_update() -> None:
    """Four gradients of two workers: with two tokens at first each makes two, and waits for the update then."""
    on = apart(3)
    run = ran([*workers(on, 50, 100), updating(on, aggregate=4, handed=4)], on, steps=2, tokens=2)
    fast, slow = 50 + HOP + TOKEN, 100 + HOP + TOKEN
    updated = slow + 100 + HOP
    assert update_rows(run)[0] == (updated, 2, 0, 4, 0)
    assert spans(run, 0)[:2] == [(0, fast), (fast, updated + TOKEN)]
    assert spans(run, 1)[:2] == [(0, slow), (slow, updated + TOKEN)]
    assert run.dropped == 0


def test_the_chief_waits_until_all_accumulators_have_enough() -> None:
    """Two variables; the chief's step waits from its beginning until the gradients are there, then begins anew."""
    on = apart(2)
    run = ran([*workers(on, 40, variables=2), updating(on, aggregate=1, handed=1, variables=2)], on, steps=2)
    asked = [step for step in step_rows(run) if step[0] == 1]
    assert asked[0] == (1, 0, 0, 40 + HOP, 40 + HOP, 0)
    assert [update[3] for update in update_rows(run)] == [1, 1]


def test_a_client_takes_its_time_between_steps() -> None:
    on = apart(1)
    ((made, priced),) = [chain(on, "w", [(0, 10)])]
    slow = replace(made, program=replace(made.program, gap_ns=7))
    run = ran([(slow, priced)], on, steps=3)
    assert spans(run, 0) == [(0, 10), (17, 27), (34, 44)]


def disturbed(workload: list[Priced], on: Cluster, steps: int, *texts: str, seed: int = 0) -> Training:
    """Asynchronous, with these disturbances."""
    found = [read_disturbance(text) for text in texts]
    clients, priced = [one for one, _ in workload], [one for _, one in workload]
    options = SimulationOptions(seed=seed)
    return train(clients, on, priced, regime=None, steps=steps, options=options, disturbances=found)


def test_a_worker_that_dies_begins_anew_when_it_is_back() -> None:
    """It dies at 130 ns in its second step, whose op runs out until 200; it is back at 130 + 300."""
    on = apart(2)
    run = disturbed([chain(on, "w", [(0, 100)])], on, 3, "w:0=crash:at=130 ns,for=300 ns")
    assert run.step_number.tolist() == [0, 2, 3]
    assert run.step_start_ns.tolist() == [0, 430, 530]
    assert run.usage.device_busy_ns.tolist() == [400, 0]


def test_a_worker_waits_for_what_is_left_of_its_step() -> None:
    """Back at 140, but its op holds the lane until 200."""
    on = apart(1)
    run = disturbed([chain(on, "w", [(0, 100)])], on, 2, "w:0=crash:at=130 ns,for=10 ns")
    assert run.step_start_ns.tolist() == [0, 200]


def test_what_was_on_the_wire_runs_out_and_tells_nobody() -> None:
    """Worker on 1, ps on 0: at 120 the value is on its way (50 to 154), which ends, but the ps does not work for it."""
    on = apart(2)
    run = disturbed([chain(on, "w", [(1, 50), (0, 30)], task=1)], on, 1, "w:1=crash:at=120 ns,for=10 ns")
    assert run.step_start_ns.tolist() == [154]
    assert run.usage.device_busy_ns.tolist() == [30, 100]
    assert run.usage.link_bytes.sum() == 8


def test_a_worker_s_death_between_steps_puts_its_next_step_off() -> None:
    on = apart(1)
    run = disturbed([chain(on, "w", [(0, 100)])], on, 2, "w:0=crash:at=100 ns,for=50 ns")
    assert run.step_start_ns.tolist() == [0, 150]


def test_a_parameter_server_that_dies_stops_all_and_loses_updates() -> None:
    """It dies at 700 ns for 100; of the updates so far only those by 400, its checkpoint, count again afterwards."""
    on = apart(3)
    workload = [chain(on, f"w{k}", [(k, 60), (0, 20)], task=k, variable=True) for k in (1, 2)]
    plain = disturbed(workload, on, 8).update_ns.tolist()
    before, saved = ([when for when in plain if when <= until] for until in (700, 400))
    hit = disturbed(workload, on, 8, "w:0=crash:at=700 ns,for=100 ns,checkpoint=400 ns")
    assert len(saved) < len(before)
    assert hit.lost_updates == len(before) - len(saved)
    assert len(hit.update_ns) == 16 + hit.lost_updates
    assert hit.update_ns.tolist()[: len(before)] == before
    assert hit.lost_by_crash.tolist() == [hit.lost_updates]
    assert {(one.client, one.end_ns) for one in hit.cut_short} == {(0, 700), (1, 700)}
    assert min(hit.step_start_ns[hit.step_start_ns > 700]) == 800


def test_a_parameter_server_that_saves_nothing_loses_no_updates_but_its_tokens() -> None:
    """Accumulator and tokens stand on it: it comes back with the first tokens, and all gather for the same update."""
    on = apart(3)
    workload = [*workers(on, 50, 70), updating(on, aggregate=2, handed=2, update_ns=10)]
    clients, priced = [one for one, _ in workload], [one for _, one in workload]
    crash = [read_disturbance("w:0=crash:at=300 ns,for=1 us")]
    run = train(clients, on, priced, regime=None, steps=5, disturbances=crash)
    assert run.lost_updates == run.dropped == 0
    assert run.update_ns[run.update_ns > 300][0] == 1300 + 70 + HOP + 10
    assert run.update_gradients.tolist() == [2] * 5


def test_a_pause_stretches_what_runs() -> None:
    on = apart(1)
    run = disturbed([chain(on, "w", [(0, 100)])], on, 3, "w:0=pause:at=150 ns,for=40 ns")
    assert run.step_end_ns.tolist() == [100, 240, 340]


def test_noise_is_one_factor_per_task_client_and_step() -> None:
    on = apart(1)
    run = disturbed([chain(on, "w", [(0, 1000), (0, 3000)])], on, 4, "w:0=noise:lognormal:0.5", seed=7)
    table = lognormal(0.5)
    factors = [int(table[entry(7, 0, 0, step)]) for step in range(4)]
    assert np.diff([0, *run.step_end_ns]).tolist() == [scaled(1000, one) + scaled(3000, one) for one in factors]


def test_tokens_that_nobody_adds_end_in_an_error_that_says_who_waits_for_what() -> None:
    """Three gradients per update, but two workers and no token at first."""
    on = apart(3)
    with pytest.raises(
        DeadlockError, match=r"After 0 of 1 updates .* worker:1 waits for 1 of the queue 'tokens'"
    ) as hung:
        ran([*workers(on, 5, 6), updating(on, aggregate=3, handed=3)], on, steps=1)
    assert hung.value.waiting == {
        "worker:1": ["1 of the queue 'tokens' on /job:w/replica:0/task:0/device:CPU:0, which has 0 tokens"],
        "worker:2": ["1 of the queue 'tokens' on /job:w/replica:0/task:0/device:CPU:0, which has 0 tokens"],
        "updates": ["3 of the accumulator 'acc0' on /job:w/replica:0/task:0/device:CPU:0, which has 2 gradients"],
    }


def test_a_client_that_counts_by_a_node_that_does_not_run_is_refused() -> None:
    on = apart(1)
    with pytest.raises(SimvizError, match="which its step does not run; fetch that node, too"):
        ran([chain(on, "w", [(0, 10)], counts=("nothing",))], on, steps=1)


TIMES = st.lists(st.integers(1, 500), min_size=2, max_size=4)


@settings(max_examples=16)
@given(TIMES, st.integers(1, 5))
def test_a_longer_run_begins_as_the_shorter_one(times: list[int], steps: int) -> None:
    on = apart(len(times) + 1)
    workload = [*workers(on, *times), updating(on, aggregate=1, handed=len(times), update_ns=5)]
    short, long = ran(workload, on, steps=steps), ran(workload, on, steps=2 * steps)
    assert update_rows(long)[:steps] == update_rows(short)
    assert step_rows(long)[: len(step_rows(short))] == step_rows(short)


@settings(max_examples=16)
@given(TIMES.filter(lambda times: len(set(times)) == len(times)), st.data())
def test_workers_that_are_alike_may_come_in_any_order(times: list[int], data: st.DataObject) -> None:
    on = apart(len(times) + 1, lanes=64)
    order = data.draw(st.permutations(range(len(times))))
    workload = [chain(on, f"w{k}", [(k + 1, ns), (0, 13)], task=k + 1) for k, ns in enumerate(times)]
    first = ran(workload, on, steps=3, contention="none")
    second = ran([workload[k] for k in order], on, steps=3, contention="none")
    known = sorted((step[0], *step[1:4]) for step in step_rows(first))
    assert sorted((order[step[0]], *step[1:4]) for step in step_rows(second))[: len(known)] == known


def test_workers_that_no_update_needs_do_not_run_for_ever() -> None:
    """The chief waits for an accumulator to which nobody pushes, while a worker takes step after step."""
    on = apart(2)
    with pytest.raises(DeadlockError, match="After 0 of 5 updates none comes any more: updates waits for 1 of"):
        ran([chain(on, "w", [(1, 10)], task=1), updating(on, aggregate=1, handed=1)], on, steps=5)


def test_a_client_that_is_like_another_is_that_one_on_its_own_devices() -> None:
    on = apart(4)
    workload = [chain(on, f"w{k}", [(k, 50 + k), (0, 30)], task=k) for k in (1, 2, 3)]
    lead, priced = workload[0]
    moved = [replace(lead.program, task=on.devices[k].task, like=0) for k in (2, 3)]
    alike = [lead, *(Client(program, lead.partitions, swap(k)) for k, program in enumerate(moved, 2))]
    same = [chain(on, f"w{k}", [(k, 51), (0, 30)], task=k) for k in (1, 2, 3)]
    first = train(alike, on, [priced] * 3, regime=None, steps=4)
    second = train([one for one, _ in same], on, [one for _, one in same], regime=None, steps=4)
    for name in ("step_client", "step_start_ns", "step_end_ns", "update_ns"):
        assert getattr(first, name).tolist() == getattr(second, name).tolist()
    assert_spent_alike([first.usage, *first.samples], [second.usage, *second.samples])


def swap(device: int) -> Ids:
    """Device 1 is at `device` and the other way round."""
    where = list(range(4))
    where[1], where[device] = device, 1
    return ids(where)
