"""A training over arrays, compiled, is the training over lists, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster
from simulator.cluster.contention import CONTENTIONS
from simulator.cluster.master import short_task
from simulator.columns import flags, ids, ints
from simulator.costs.table import MAX_OP_NS, CostTable
from simulator.errors import DeadlockError
from simulator.execution.options import SimulationOptions
from simulator.execution.trace_tasks import StepTimes
from simulator.graph.graph import Graph
from simulator.partitioning.cut import partition
from simulator.training.clients import Client, CombinedTables
from simulator.training.control import run as control
from simulator.training.control.arrays import Inputs, SyncOps, SyncResources
from simulator.training.control.layout import lower_clients
from simulator.training.control.run import run
from simulator.training.control.workload import Workload
from simulator.training.disturbances.disturbance import read_disturbance
from simulator.training.disturbances.disturbed import disturb
from simulator.training.disturbances.noise import QUANTILES
from simulator.training.programs.program import Program
from simulator.training.recognition.sync_ops import APPLY, COUNT, DEQUEUE, DRAW, ENQUEUE, READ, TAKE
from simulator.training.train import train
from simulator.training.training import Training
from tests.execution.cases import apart, assigned, costs, crowded, dags, sizes, whole, with_chips, worlds
from tests.training.alike import assert_alike
from tests.training.control.test_crashes import drawn
from tests.training.workloads import Priced, chain, pushing, updating, workload

Noted = tuple[Training, list[StepTimes]]


def both(
    given: Sequence[Priced],
    on: Cluster,
    texts: Sequence[str] = (),
    options: SimulationOptions = SimulationOptions(),
    **how: Any,
) -> list[Training]:
    """The same run by either engine."""
    clients, priced = [one for one, _ in given], [one for _, one in given]
    how |= {"regime": None, "disturbances": [read_disturbance(text) for text in texts]}
    each = [replace(options, engine=engine) for engine in ("python", "compiled")]
    return [train(clients, on, priced, options=one, **how) for one in each]


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from(["fifo", "tensorflow"]), st.sampled_from(CONTENTIONS), st.integers(0, 3))
def test_whatever_dies_both_see_the_same(seed: int, order: str, contention: str, record: int) -> None:
    workload, on, texts, _ = drawn(Random(seed))
    options = SimulationOptions(order, contention, seed=seed)
    assert_alike(*both(workload, on, texts, options, steps=5, record=record))


def with_sync_ops(random: Random, made: Workload) -> Workload:
    """Random ops apply to, take from, add to and take from a few accumulators and queues, or count, read or draw."""
    queue = [random.random() < 0.6 for _ in range(random.randrange(1, 4))]
    inputs = random.randrange(3)
    rows = []
    for op in sorted(set(range(int(made.op_ptr[-1]))) - set((made.op_ptr[1:] - 1).tolist())):
        if random.random() < 0.25:
            shared = random.randrange(len(queue))
            kind = random.choice([ENQUEUE, ENQUEUE, DEQUEUE] if queue[shared] else [APPLY, APPLY, TAKE])
            row = (op, kind, shared, random.randrange(1, 4), random.choice([0, 0, 1]) if kind == DEQUEUE else 0)
            draw = (op, DRAW, random.randrange(inputs), random.randrange(1, 5), 0) if inputs else row
            other = random.choice([(op, COUNT, -1, 0, 0), (op, READ, -1, 0, 0), draw])
            rows.append(row if random.random() < 0.6 else other)
    op, kind, resource, amount, reserve = np.array(rows, np.int64).reshape(len(rows), 5).T
    client = np.searchsorted(made.op_ptr, op, side="right") - 1
    return replace(
        made,
        inputs=drawn_inputs(random, inputs, int(made.task_of.max()) + 1),
        sync_ops=SyncOps(ids(op), ids(client), ids(kind), ids(resource), ints(amount), ints(reserve)),
        resource_names=tuple(f"object {row}" for row in range(len(queue))),
        sync_resources=SyncResources(
            queue=flags(queue),
            capacity=ints([random.choice([-1, 2, 5]) for _ in queue]),
            tokens=ints([random.choice([0, 1, 4]) if is_queue else 0 for is_queue in queue]),
            task=ids([random.randrange(int(made.task_of.max()) + 1) for _ in queue]),
        ),
    )


def drawn_inputs(random: Random, count: int, tasks: int) -> Inputs:
    """Inputs of which some are always ahead, and some never."""
    capacity = [random.choice([-1, 1, 2, 5]) for _ in range(count)]
    return Inputs(
        thread_ptr=ids(np.cumsum([0, *(random.randrange(1, 4) for _ in range(count))])),
        period_ns=ints([random.choice([0, 3, 100, 700]) for _ in range(count)]),
        item=ints([random.randrange(1, 4) for _ in range(count)]),
        capacity=ints(capacity),
        reserve=ints([random.randrange(room) if room > 0 else random.randrange(3) for room in capacity]),
        task=ids([random.randrange(tasks) for _ in range(count)]),
        kept_by=ids([random.randrange(tasks) for _ in range(count)]),
        start_ns=ints([random.choice([0, 70]) for _ in range(count)]),
        place_ptr=ids(np.cumsum([0, *(max(0, room) for room in capacity)])),
    )


def disturbed(random: Random, made: Workload, on: Cluster) -> Workload:
    """Noise that may be nothing at all, pauses, crashes; clients that only keep links busy."""
    texts = random.choice([[], ["*=noise:exponential"], ["*=noise:lognormal:0.5", "*=pause:every=900 ns,for=90 ns"]])
    for task in on.tasks:
        at = 0
        for _ in range(random.choice([0, 0, 1, 2])):
            at += random.randrange(1, 1500)
            texts = [
                *texts,
                f"{short_task(task)}=crash:at={at} ns,for=200 ns" + random.choice(["", ",checkpoint=300 ns"]),
            ]
            at += 200
    met = disturb([read_disturbance(text) for text in texts], on)
    if random.random() < 0.3:
        met = replace(met, noise=ints(np.where(np.arange(QUANTILES) % 3, 1 << 17, 0)[None].repeat(len(met.noise), 0)))
    keeps_variables = flags([random.random() < 0.8 for _ in on.tasks])
    return replace(made, disturbed=met, seed=random.randrange(2**64), keeps_variables=keeps_variables)


def noted(
    made: Workload, combined: CombinedTables, priority: Sequence[int] | None, how: SimulationOptions, record: int
) -> list[Noted | None]:
    """The results over lists and over arrays; None: it hangs."""
    ready = lower_clients(combined, None if priority is None else ints(priority), how)
    try:
        plain = run(made, ready, record=record)
    except DeadlockError:
        plain = None
    return [plain, run(made, ready, record=record, compiled=True)]


def assert_noted_alike(plain: Noted | None, other: Noted | None) -> None:
    assert (plain is None) == (other is None)
    if plain is None or other is None:
        return
    assert_alike(plain[0], other[0])
    assert len(plain[1]) == len(other[1])
    for one, two in zip(plain[1], other[1], strict=True):
        for name in one._fields:
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)


def anywhere(random: Random, row: int, graph: Graph, on: Cluster, priced: CostTable) -> Priced:
    """A client whose ops are on any devices."""
    rows = [random.randrange(len(on)) for _ in graph.names]
    program = Program(f"worker:{row}", on.tasks[row % len(on.tasks)], graph, ())
    return Client(program, partition(graph, assigned(on, rows), on, legal=False, step=whole(graph))), priced


@settings(max_examples=35)
@given(st.data(), st.integers(0, 2**32))
def test_random_clients_with_random_synchronisation_ops(data: st.DataObject, seed: int) -> None:
    """Any graph on any cluster, whichever of its ops wait for whom: also those that hang."""
    graph = data.draw(dags(max_nodes=8))
    on, priced, _, how = data.draw(worlds(graph))
    random = Random(seed)
    given = []
    for row in range(random.randrange(1, 4)):
        rows = [random.randrange(len(on)) for _ in graph.names]
        role = "traffic" if row and random.random() < 0.2 else "worker"
        program = Program(f"worker:{row}", random.choice(on.tasks), graph, (), role=role, examples=random.randrange(9))  # type: ignore[arg-type]
        given.append(
            (Client(program, partition(graph, assigned(on, rows), on, legal=False, step=whole(graph))), priced)
        )
    start = [random.choice([0, 0, 70]) for _ in given]
    regime = random.choice(["async", "async", "ssp:bound=0", "ssp:bound=1"])
    made, combined = workload(given, on, steps=6, regime=regime, start=start)
    gaps = [50 if idle else random.choice([0, 0, 50]) for idle in made.background.tolist()]  # traffic takes time
    made = replace(made, gap_ns=ints(gaps))
    made = with_sync_ops(random, made) if random.random() < 0.7 else made
    made = disturbed(random, made, on) if random.random() < 0.6 else made
    priority = None
    if random.random() < 0.3:
        priority, how = [random.randrange(5) for _ in range(len(combined.tables))], replace(how, order="priority")
    assert_noted_alike(*noted(made, combined, priority, how, random.randrange(3)))


@settings(max_examples=25, deadline=None)
@given(crowded(), st.integers(0, 2**32), st.sampled_from(["fifo", "tensorflow"]))
def test_lines_before_several_links(crowd: tuple[Graph, Cluster, list[int], list[int]], seed: int, order: str) -> None:
    """Several clients in the same queues, on links one of which may be degraded; some clients are cut short."""
    graph, on, times, _ = crowd
    random = Random(seed)
    if random.random() < 0.5:
        on = disturb([read_disturbance(f"link:l{random.randrange(2)}=degrade:3")], on).cluster
    given = [anywhere(random, row, graph, on, costs(graph, on, times)) for row in range(random.randrange(1, 4))]
    made, combined = workload(given, on, steps=random.randrange(1, 12))
    made = disturbed(random, made, on) if random.random() < 0.7 else made
    assert_noted_alike(*noted(made, combined, None, SimulationOptions(order), random.randrange(3)))


@settings(max_examples=20, deadline=None)
@given(sizes(), st.integers(0, 2**32), st.sampled_from(["fifo", "tensorflow"]), st.sampled_from(CONTENTIONS))
def test_copies_within_gpus(case: tuple[Graph, Cluster, list[int]], seed: int, order: str, contention: str) -> None:
    """Several clients with values that a GPU makes in the one memory and reads in the other."""
    graph, on, _ = case
    random, on = Random(seed), with_chips(on)
    priced = costs(graph, on, random.choice([1, 100, 5000]))
    given = [anywhere(random, row, graph, on, priced) for row in range(random.randrange(1, 4))]
    made, combined = workload(given, on, steps=random.randrange(1, 12))
    made = disturbed(random, made, on) if random.random() < 0.5 else made
    assert_noted_alike(*noted(made, combined, None, SimulationOptions(order, contention), random.randrange(3)))


def test_more_steps_than_are_noted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs are emptied again and again; rounds are counted anew."""
    on = apart(2)
    given = [chain(on, "fast", [(0, 10), (1, 0)], task=0), chain(on, "slow", [(1, 35)], task=1)]
    made, combined = workload(given, on, steps=50)
    how = SimulationOptions("fifo", "serial")
    monkeypatch.setattr("simulator.training.control.layout.LOG_ROWS", 1)
    monkeypatch.setattr(control, "_MANY_ROUNDS", 1)
    assert_noted_alike(*noted(made, combined, None, how, 1))


def test_times_beyond_64_bits_are_left_to_the_plain_loop() -> None:
    """Steps of 2^53 ns, of which 256 are more than the compiled loop counts."""
    on = apart(1)
    assert_alike(*both([chain(on, "w", [(0, MAX_OP_NS)])], on, steps=300))
    made, combined = workload([chain(on, "w", [(0, MAX_OP_NS)])], on, steps=300)
    ready = lower_clients(combined, None, SimulationOptions(order="fifo", contention="serial"))
    assert run(made, ready, compiled=True) is None


def test_a_hang_is_told_in_the_same_words() -> None:
    on = apart(2)
    given = [pushing(on, "w", [(1, 5)], task=1), updating(on, aggregate=2, handed=1)]
    clients, priced = [one for one, _ in given], [one for _, one in given]
    said = set()
    for engine in ("python", "compiled"):
        with pytest.raises(DeadlockError) as caught:
            train(clients, on, priced, options=SimulationOptions(engine=engine), regime=None, steps=3)
        said.add(str(caught.value))
    assert len(said) == 1
