"""Producers of queues and their rates; waits of steps that take from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster
from simulator.columns import ids
from simulator.costs.estimate import estimate
from simulator.costs.profile import Figure, KernelTime, Profile
from simulator.costs.table import MEASURED, STATIC
from simulator.errors import SimvizError
from simulator.execution.options import SimulationOptions
from simulator.shapes.filling import with_shapes
from simulator.training.answers.answers import answers
from simulator.training.answers.bottleneck import bottleneck
from simulator.training.answers.reliefs import FASTER
from simulator.training.disturbances.disturbance import read_disturbance
from simulator.training.inputs.finding import inputs_of
from simulator.training.inputs.pipeline import InputPipeline, InputPipelines, faster, read_rate
from simulator.training.inputs.producers import ELEMENT_NS, RUN_NS, QueueRunners, core_ns, processor
from simulator.training.train import train
from simulator.training.training import Training
from tests.execution.cases import apart, attrs_of
from tests.shapes import datasets
from tests.strategies import Rows, shapes_attr, type_attr, types_attr
from tests.training.inputs.graphs import client, dequeue, enqueue, example, iterating, reading
from tests.training.queues import INT64, number, queue, text
from tests.training.queues import const as number_of
from tests.training.workloads import Priced

MAKES_NS = 1_000_000
MADE_NS = MAKES_NS + RUN_NS  # by a thread of a queue runner


def found(given: Sequence[Priced], on: Cluster, *rates: str) -> InputPipelines:
    made = [one for one, _ in given]
    return inputs_of(made, on, [priced for _, priced in given], rates=[read_rate(text) for text in rates])


def only(given: Sequence[Priced], on: Cluster, *rates: str) -> InputPipeline:
    (one,) = found(given, on, *rates).pipelines
    return one


def trained(
    given: Sequence[Priced], on: Cluster, *rates: str, disturbed: Sequence[str] = (), **options: object
) -> Training:
    disturbances = [read_disturbance(one) for one in disturbed]
    inputs = found(given, on, *rates)
    made = [one for one, _ in given]
    costs = [priced for _, priced in given]
    return train(made, on, costs, regime=None, inputs=inputs, disturbances=disturbances, **{"steps": 60, **options})  # type: ignore[arg-type]


def step_ns(run: Training) -> float:
    per_s = answers(run).steps_per_s
    assert per_s is not None
    return 1e9 / per_s


# ---- who fills a queue -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("runners", "threads"), [((), 1), (("add",), 1), (("add:0", "add", "add"), 3)])
def test_a_queue_runner_has_a_thread_for_each_entry(runners: tuple[str, ...], threads: int) -> None:
    on = apart(1, cores=8)
    graph = reading().built(queue_runners=runners)
    made = only([client(on, graph, {})], on).producer
    assert (made.threads, made.item) == (threads, 1)


def test_no_more_threads_work_at_once_than_there_are_cores() -> None:
    on = apart(1, cores=2)
    one = client(on, reading().built(queue_runners=("add",) * 5), {"make": MAKES_NS})
    assert only([one], on).producer.threads == 2


def test_an_op_is_the_work_of_one_core_unless_it_was_measured() -> None:
    """An op of an input is priced for one core of four; what was measured is as it was."""
    on = apart(1, cores=4)
    rows = Rows()
    large = shapes_attr((1 << 20,))
    rows.add("x", "Const", dtype=type_attr(), _output_shapes=large)
    rows.add("square", "Square", ["x"], T=type_attr(), _output_shapes=large)
    graph, where = rows.built(), processor(on, on.tasks[0])
    whole, launch = estimate(graph, on), on.devices[0].launch_ns
    assert core_ns(graph, where)[1] == pytest.approx(launch + 4 * (int(whole.run_ns[1, 0]) - launch), rel=1e-3)
    assert core_ns(graph, where, replace(whole, source=ids([MEASURED] * 2)))[1] == whole.run_ns[1, 0]


def test_what_fills_an_input_is_priced_by_the_profile_of_the_step() -> None:
    """It had the data sheet's price, so a rate was by another machine than the step."""
    on, figures = apart(1), {"dispatch": Figure(100, 0.01), "step": Figure(1000, 0.01)}
    kernel = KernelTime("Square", 1, 5e7, 0.01, 5e7, 1 << 22, 1 << 25)
    profile = Profile("a machine", 1, "2.21.0", False, "2026-11-29", 1 << 21, ((1, 0.0), (2, 0.0)), figures, (kernel,))
    rows = Rows()
    large = shapes_attr((1 << 22,))
    rows.add("x", "Const", dtype=type_attr(), _output_shapes=large)
    rows.add("square", "Square", ["x"], T=type_attr(), _output_shapes=large)
    graph = rows.built()
    filling = QueueRunners(graph, estimate(graph, on, profile), processor(on, on.tasks[0]))
    assert filling.each_ns[1] == 5e7
    rows = Rows()
    made = datasets.batch(rows, datasets.source(rows, shape=(8,)), 1 << 19, shape=(-1, 8))
    datasets.iterated(rows, datasets.mapped(rows, made, "f", shape=(-1, 8)), shape=(-1, 8))
    rows.add("work", "Identity", ["next"], T=type_attr())
    one, costs = client(on, with_shapes(rows.built({"f": datasets.squared("f")})), {})
    work = only([(one, replace(costs, profile=profile))], on).producer.work or {}
    assert work["Square"] == 5e7


def test_python_is_not_in_the_graph() -> None:
    """What it computes is known only if it was measured."""
    on = apart(1)
    rows = reading()
    rows.ops[rows.names.index("make")] = "PyFunc"
    rows.attrs[rows.names.index("make")] |= {"Tin": types_attr(INT64), "Tout": types_attr(INT64), "token": text("f")}
    one, costs = client(on, rows.built(), {"make": MAKES_NS})
    assert only([(one, costs)], on).producer.period_ns == MADE_NS
    inputs = found([(one, replace(costs, source=ids([STATIC] * len(costs))))], on)
    assert "what Python computes in 'make' is not in the graph" in inputs.notes[0]


def test_what_only_the_step_runs_is_no_work_of_the_queue() -> None:
    on = apart(1)
    made = only([client(on, reading().built(), {"make": MAKES_NS, "batch": 10**9, "work": 10**9})], on).producer
    assert made.period_ns == MADE_NS


def chained(batch: int = 4, *, several: int = 2) -> Rows:
    """Examples come from a first queue, several for one."""
    rows = reading(batch=batch)
    queue(rows, "first", capacity=8, device="")
    enqueue(rows, "first", example(rows, "read"), name="add_first")
    taken = dequeue(rows, "first", name="several", count=several)
    at = rows.names.index("make")
    rows.inputs[at] = [taken]
    return rows


@pytest.mark.parametrize(("read_ns", "make_ns", "slowest"), [(10, MAKES_NS, "examples"), (MAKES_NS, 10, "first")])
def test_a_chain_of_queues_is_as_fast_as_its_slowest(read_ns: int, make_ns: int, slowest: str) -> None:
    on = apart(1)
    made = only([client(on, chained().built(), {"read": read_ns, "make": make_ns})], on).producer
    assert made.stage == slowest
    assert made.period_ns == (MADE_NS if slowest == "examples" else 2 * MADE_NS)


def test_many_are_added_at_once() -> None:
    on = apart(1)
    rows = Rows()
    queue(rows, "examples", capacity=8, device="")
    enqueue(rows, "examples", example(rows, "make", count=3), name="add", many=3)
    rows.add("work", "Identity", [dequeue(rows, "examples", name="batch", count=4)], **attrs_of("Identity"))
    made = only([client(on, rows.built(), {"make": MAKES_NS})], on).producer
    assert made.item == 3
    assert made.elements_per_s == pytest.approx(3e9 / MADE_NS)


def test_all_sessions_that_take_from_a_queue_fill_it() -> None:
    """The workers share a queue on the ps by its name; else each has its own."""
    on = apart(3)
    shared = reading(shared_name=text("all")).built()
    where = {name: 0 for name in shared.names if name != "work"}
    one = only([client(on, shared, {"make": MAKES_NS}, name=f"worker:{k}", task=k, where=where) for k in (1, 2)], on)
    assert (one.key.name, one.clients, one.kept_by) == ("all", (0, 1), 0)
    assert one.producer.elements_per_s == pytest.approx(2e9 / MADE_NS, rel=1e-6)
    own = [client(on, reading().built(), {}, name=f"worker:{k}", task=k) for k in (1, 2)]
    assert [pipeline.device for pipeline in found(own, on).pipelines] == [1, 2]


def test_what_fills_a_queue_works_where_it_asks_to_be() -> None:
    on = apart(2)
    rows = reading()
    rows.requested[rows.names.index("make")] = rows.requested[rows.names.index("make/x")] = on.tasks[0]
    made_there = {"make": 0, "make/x": 0}
    assert only([client(on, rows.built(), {}, task=1, where=made_there)], on).device == 0


# ---- unknown rates ---------------------------------------------------------------------------------------------------


def test_what_nobody_knows_never_runs_dry_and_is_told() -> None:
    on = apart(1)
    filled_by_python = reading()
    filled_by_python.ops[filled_by_python.names.index("make/x")] = "Placeholder"
    for rows, why in ((filled_by_python, "fed 'make/x' by Python"), (iterating(), "its dataset is not in the graph")):
        inputs = found([client(on, rows.built(), {})], on)
        assert not inputs.pipelines
        assert not inputs.draws[0]
        assert why in inputs.notes[0]
    run = trained([client(on, iterating().built(), {"work": 7})], on)
    assert step_ns(run) == 7
    assert not run.step_input_ns.any()


# ---- rates that are given --------------------------------------------------------------------------------------------


def test_a_rate_is_of_examples() -> None:
    on = apart(1)
    four = client(on, reading().built(), {})
    assert only([four], on, "1000/s").producer.period_ns == 10**6
    assert only([four], on, "none", "examples=2000/s").producer.period_ns == 500_000
    iterated = client(on, iterating().built(), {}, examples=32)
    one = only([iterated], on, "1000/s")
    assert (one.producer.period_ns, one.examples, one.given) == (32 * 10**6, 32, True)
    assert not found([four], on, "none").pipelines
    with pytest.raises(SimvizError, match=r"no input 'example'; .*examples\. Did you mean 'examples'"):
        found([four], on, "example=3/s")


@pytest.mark.parametrize("wrong", ["", "12", "=3/s", "0/s", "-1/s", "1e99/s", "3/min", "a=b", "inf/s"])
def test_what_is_no_rate_is_refused(wrong: str) -> None:
    with pytest.raises(SimvizError, match=r"is no rate|names no input"):
        read_rate(wrong)


# ---- batches of datasets ---------------------------------------------------------------------------------------------


def slow(*, micros: int = 1000, shape: Sequence[int] = (-1, datasets.WIDTH)) -> Rows:
    """A step that takes batches of 4 elements, each of which takes so many microseconds."""
    rows = Rows()
    made = datasets.batch(rows, datasets.sleeping(rows, datasets.source(rows), micros), 4, shape=shape)
    rows.add("work", "Identity", [datasets.iterated(rows, made, shape=shape)], T=type_attr())
    return rows


@pytest.mark.parametrize("first", [-1, 4])
@pytest.mark.parametrize("batch", [None, 1, 4, 256])
def test_a_dataset_makes_as_many_examples_per_second_whatever_the_batch(first: int, batch: int | None) -> None:
    on, size = apart(1), batch or 4
    graph = with_shapes(slow(shape=(first, datasets.WIDTH)).built(), batch=batch)
    one = only([client(on, graph, {}, examples=size)], on)
    assert one.examples == size
    assert one.producer.period_ns == pytest.approx(size * 10**6, rel=0.01, abs=3 * ELEMENT_NS)


def test_a_dataset_that_shows_no_other_batch_has_no_rate() -> None:
    on, rows = apart(1), Rows()
    datasets.iterated(rows, datasets.mapped(rows, datasets.source(rows, shape=()), "f", shape=(4, 8)), shape=(4, 8))
    rows.add("work", "Identity", ["next"], T=type_attr())
    graph = rows.built({"f": datasets.filled("f", 4, 8)})
    assert only([client(on, with_shapes(graph), {})], on).producer.period_ns > 0
    (note,) = found([client(on, with_shapes(graph, batch=6), {}, examples=6)], on).notes
    assert "an element of its dataset has 4 examples, and nothing shows how it would have the 6 that a step" in note


def test_a_function_of_unknown_size_is_told() -> None:
    """It counts too little; the batch of a pipeline is known, also where the file leaves it open."""
    on = apart(1)
    for shape, told in (((-1, datasets.WIDTH), False), ((-1, -1), True)):
        rows = Rows()
        made = datasets.batch(rows, datasets.source(rows, shape=shape[1:]), 1 << 20, shape=shape)
        datasets.iterated(rows, datasets.mapped(rows, made, "f", shape=shape), shape=shape)
        rows.add("work", "Identity", ["next"], T=type_attr())
        inputs = found([client(on, with_shapes(rows.built({"f": datasets.squared("f")})), {})], on)
        work = inputs.pipelines[0].producer.work or {}
        assert (work["Square"] > MAKES_NS // 2) is not told
        assert [note for note in inputs.notes if "the functions of map have tensors of unknown size" in note] == [
            note for note in inputs.notes if told
        ]


def test_random_numbers_come_from_nowhere() -> None:
    on, rows = apart(1), Rows()
    for seed in ("seed", "seed2"):
        number_of(rows, seed, 1, device="", dtype=INT64)
    random = rows.add("random", "RandomDataset", ["seed", "seed2"], **datasets.outputs(()))
    rows.add("work", "Identity", [datasets.iterated(rows, random, shape=())], T=type_attr())
    assert only([client(on, rows.built(), {})], on).producer.period_ns == ELEMENT_NS


# ---- what a step waits -----------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 3), st.integers(1, 40), st.integers(0, 3), st.sampled_from(["python", "compiled"])
)
def test_steps_come_as_fast_as_the_slower_of_step_and_input(
    batch: int, threads: int, work: int, room: int, engine: str
) -> None:
    on = apart(1, cores=1, lanes=4)
    graph = reading(batch=batch, capacity=batch + threads + room).built(queue_runners=("add",) * threads)
    priced = {"make": MAKES_NS, "work": work * MAKES_NS // 4}
    run = trained([client(on, graph, priced, examples=batch)], on, options=SimulationOptions(engine=engine))
    slower = max(priced["work"], batch * MADE_NS / threads)
    assert step_ns(run) == pytest.approx(slower, rel=0.03)
    waits = answers(run).input_share
    assert waits == pytest.approx(1 - priced["work"] / slower, abs=0.05)


def test_an_input_that_is_the_limit_is_found_to_be_it() -> None:
    on = apart(1)
    given = [client(on, reading().built(), {"make": MAKES_NS, "work": MAKES_NS})]
    run, inputs = trained(given, on), found(given, on)

    def again(relief: object) -> Training:
        keys = relief.inputs  # type: ignore[attr-defined]
        made, costs = [one for one, _ in given], [priced for _, priced in given]
        return train(made, on, costs, regime=None, steps=60, inputs=faster(inputs, keys, FASTER))

    held = bottleneck(run, on, again)
    assert held.sentence.startswith(
        "The bottleneck is the input pipeline of w:0 (queue examples makes 972.8 examples/s"
    )
    assert "with twice its rate there would be 2 times as many steps per second" in held.sentence


@pytest.mark.parametrize(
    ("disturbed", "times"), [("w:0=slow:3", 3), ("w:0=pause:every=40 ms,for=20 ms", 2), ("w:0=noise:exponential:1", 1)]
)
def test_a_disturbed_task_makes_its_input_later(disturbed: str, times: float) -> None:
    on = apart(1)
    run = trained([client(on, reading().built(), {"make": MAKES_NS})], on, disturbed=[disturbed], steps=400)
    assert step_ns(run) == pytest.approx(times * 4 * MADE_NS, rel=0.1)


def test_examples_that_must_remain_come_first() -> None:
    """A RandomShuffleQueue hands nothing out before it has as many as it must keep, and the batch."""
    on = apart(1)
    graph = reading(op="RandomShuffleQueueV2", capacity=100, min_after_dequeue=number(50)).built()
    run = trained([client(on, graph, {"make": MAKES_NS})], on)
    assert run.step_end_ns[0] == 54 * MADE_NS
    assert run.step_end_ns[1] == 58 * MADE_NS
