"""A worker's graph gets accumulators and tokens; what each client then runs, and where it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.cluster.description import load_cluster
from simulator.errors import DeadlockError, GraphError
from simulator.graph.graph import Graph
from simulator.graph.importer import read_graph
from simulator.graph.messages import AttrValue
from simulator.graph.step import choose_step
from simulator.shapes.filling import with_shapes
from simulator.training.programs.distributed import distributed
from simulator.training.programs.program import Program
from simulator.training.programs.replicated import replicate
from simulator.training.recognition.anatomy import anatomy
from simulator.training.recognition.parts import separate
from simulator.training.recognition.sync_ops import APPLY, DEQUEUE, ENQUEUE, TAKE, find, joined
from simulator.training.recognition.sync_replicas import regime_of, sync_replicas
from simulator.training.regimes import Regime
from tests.strategies import FLOAT, INT32, Rows, loop, shape_attr, shapes_attr, type_attr, typed
from tests.training.pipelines.chain import WIDTH, embedding
from tests.training.programs.test_between import momentum
from tests.training.programs.test_between import variable as weight
from tests.training.programs.test_distributed import script
from tests.training.programs.test_towers import rows_of
from tests.training.queues import INT64, PS, WORKER, const, cut, gradient, text, types, variable

PS_TRAINING = Path(__file__).parents[3] / "examples" / "ps_training.pbtxt"
CLUSTER = "ps=2,worker=3"


def made(graph: Graph, regime: Regime = Regime("sync"), cluster: str = CLUSTER) -> tuple[Program, ...]:  # noqa: B008
    return distributed(graph, load_cluster(cluster), regime=regime)


def runs(program: Program) -> set[str]:
    """The ops of the program's step."""
    step = choose_step(program.graph, feeds=program.feeds, fetches=program.fetches)
    return {name for name, run in zip(program.graph.names, step.runs.tolist(), strict=True) if run}


def test_the_graph_is_one_of_sync_replicas_with_the_regimes_numbers() -> None:
    regime = Regime("sync", aggregate=2, tokens=0)
    programs = made(script(), regime)
    assert [(one.name, one.role, one.like) for one in programs] == [
        ("worker:0", "worker", None),
        ("worker:1", "worker", 0),
        ("worker:2", "worker", 0),
        ("worker:0 updates", "updates", None),
    ]
    held = sync_replicas(programs[0].graph)
    assert held is not None
    assert (held.aggregate, held.per_update, held.tokens) == (2, 3, 0)
    assert (held.train, held.updates) == (programs[0].fetches, programs[-1].fetches)
    assert regime_of(None, programs) == regime_of(regime, programs) == Regime("sync", 2, 3, 0)
    assert [one.counts for one in programs] == [(), (), (), ("train",)]


def test_a_worker_computes_and_the_chief_updates() -> None:
    worker, *_, updates = made(script())
    assert {"g0", "w"} <= runs(worker)
    assert runs(worker).isdisjoint({"update", "train", "rate"})
    assert {"update", "train", "rate", "w"} <= runs(updates)
    assert runs(updates).isdisjoint({"g0"})
    assert (worker.feeds, updates.feeds) == (("x0:0",), ())


def test_a_worker_makes_the_writes_for_which_a_result_alone_waits() -> None:
    rows = rows_of(momentum())
    for name in ("mean", "seed", "epoch"):
        weight(rows, name, 2)
        rows.add(f"write_{name}", "AssignSub", [name, "loss" if name == "mean" else "rate"], T=type_attr())
    rows.inputs[rows.names.index("y")].append("^seed/read")
    waited = ["^train", "^write_mean", "^write_seed", "^write_epoch"]
    rows.add("result", "Identity", ["loss", *waited], T=type_attr())
    cluster, regime = load_cluster("ps=1,worker=2"), Regime("sync")
    worker, _, updates = replicate(rows.built(), cluster, how="between", fetch=["result"], regime=regime)
    assert {"write_mean", "write_seed"} <= runs(worker)
    assert runs(worker).isdisjoint({"write_epoch", "train"})
    assert runs(updates).isdisjoint({"write_mean", "write_seed"})
    assert "write_epoch" in runs(updates)  # nobody made it, such as a second optimizer's counter


@pytest.mark.parametrize(("batch", "workers", "taken"), [(5, 2, 10), (5, 3, 15), (8, 3, 20), (24, 2, 24)])
def test_an_accumulator_gives_the_rows_of_all_workers_and_at_most_the_table(
    batch: int, workers: int, taken: int
) -> None:
    """The chief took as many rows as one worker has, whatever their number, and the numbers lost their shape."""
    given = with_shapes(embedding(), batch=batch)
    graph = replicate(given, load_cluster(f"ps=1,worker={workers}"), how="between", regime=Regime("sync"))[0].graph
    for name, rows in (("rows", batch), ("taken_rows", taken), ("take", taken)):
        node = graph.row(f"sync_replicas/table/{name}")
        assert graph.tensor_shape[graph.tensor_ptr[node]] == (rows,)
    assert graph.tensor_shape[graph.tensor_ptr[node] + 1] == (taken, WIDTH)


def test_each_thing_stands_where_it_is_shared() -> None:
    programs = made(read_graph(PS_TRAINING))
    for number, program in enumerate(programs[:3]):
        asked = dict(zip(program.graph.names, program.graph.requested, strict=True))
        assert asked["sync_replicas/local_step"] == f"/job:worker/task:{number}"
        for name in ("conv1/weights", "conv1/bias"):
            assert asked[f"sync_replicas/{name}/accumulator"] == asked[name].partition("/device")[0]
        assert asked["sync_replicas/token_queue"] == asked["global_step"]
    assert asked["conv1/weights"] != asked["conv1/bias"]


def test_all_clients_meet_at_the_same_accumulators_and_queue() -> None:
    graph = read_graph(PS_TRAINING)
    programs = made(graph)
    kinds = []
    for flavour in ("local", "master"):
        found = joined([find(cut(one.graph, CLUSTER, one.fetches, flavour)) for one in programs])
        assert len({op.key for one in found for op in one.ops}) == 8 + 1
        kinds.append([sorted(op.kind for op in one.ops) for one in found])
    assert kinds[0] == kinds[1] == [[APPLY] * 8 + [DEQUEUE]] * 3 + [[TAKE] * 8 + [ENQUEUE]]


def test_shapes_that_were_found_are_kept() -> None:
    graph = with_shapes(script())
    worker = made(graph)[0].graph
    for row, shape in enumerate(graph.tensor_shape):
        assert worker.tensor_shape[row] == shape
        assert worker.tensor_bytes[row] == graph.tensor_bytes[row]


@pytest.mark.parametrize("regime", [Regime("sync"), Regime("sync", aggregate=2, total=3, tokens=4)])
def test_what_is_added_has_sizes(regime: Regime) -> None:
    """Else the headline would call the makespan a lower bound."""
    graph = with_shapes(script())
    for program in made(graph, regime):
        added = [row for row, name in enumerate(program.graph.names) if name not in graph.index]
        first = program.graph.tensor_ptr
        handles = {"FIFOQueueV2", "ConditionalAccumulator", "SparseConditionalAccumulator"}
        for row in added:
            span, name = slice(first[row], first[row + 1]), program.graph.names[row]
            if program.graph.ops[row] in handles:  # TensorFlow says their shapes, so --check asks for them
                assert None not in program.graph.tensor_shape[span], name
            else:
                assert (program.graph.tensor_bytes[span] >= 0).all(), name


def test_a_graph_without_a_global_step_gets_one_on_the_first_ps() -> None:
    rows = Rows()
    variable(rows, "w", device="/job:ps/task:1")
    variable(rows, "v", device="/job:ps/task:0")
    given = gradient(rows, "x", device=WORKER)
    rows.add("rate", "Const", device="/job:ps/task:0", **typed("Const", ()))
    for name in ("w", "v"):
        rows.add(f"{name}/g", "Mul", [name, given], device=WORKER, T=type_attr())
        rows.add(f"{name}/update", "ApplyGradientDescent", [name, "rate", f"{name}/g"], T=type_attr())
    rows.add("train", "NoOp", ["^w/update", "^v/update"])
    *_, updates = made(rows.built())
    row = updates.graph.row("global_step")
    assert updates.graph.tensor_shape[updates.graph.tensor_ptr[row]] == ()
    asked = dict(zip(updates.graph.names, updates.graph.requested, strict=True))
    assert asked["global_step"] == asked["sync_replicas/token_queue"] == "/job:ps/task:0"
    assert updates.counts == ("global_step/count",)
    assert {"w/update", "v/update", "global_step/count"} <= runs(updates)
    held = sync_replicas(updates.graph)
    assert held is not None
    assert held.per_update == 3


def test_what_an_update_waited_for_is_the_workers_work() -> None:
    """Moving averages under control dependencies: the worker still makes them, the chief does not compute for them."""
    rows = Rows()
    for name in ("w", "mean"):
        variable(rows, name)
    variable(rows, "global_step", dtype=INT64)
    given = gradient(rows, "x", device=WORKER)
    rows.add("g", "Mul", ["w", given], device=WORKER, T=type_attr())
    rows.add("statistic", "Neg", ["g"], device=WORKER, T=type_attr())
    rows.add("average", "AssignSub", ["mean", "statistic"], T=type_attr())
    rows.add("rate", "Const", ["^average"], **typed("Const", ()))
    rows.add("update", "ApplyGradientDescent", ["w", "rate", "g"], T=type_attr())
    rows.add("train", "AssignAdd", ["global_step", const(rows, "one", 1, dtype=INT64), "^update"], T=type_attr(INT64))
    worker, *_, updates = made(rows.built())
    assert {"average", "statistic"} <= runs(worker)
    assert runs(updates).isdisjoint({"average", "statistic", "g"})


@pytest.mark.parametrize("way", ["Stage", "AssignAdd"])
@pytest.mark.parametrize("fed", [False, True])
def test_examples_that_no_gradient_takes_are_the_workers_too(way: str, fed: bool) -> None:
    """The chief took examples, and was fed some, where a worker's step stages those of its next one or counts them."""
    rows = Rows()
    for name in ("w", "seen"):
        variable(rows, name)
    variable(rows, "global_step", dtype=INT64)
    sized = {"_output_shapes": shapes_attr((4,))}
    if fed:
        rows.add("x", "Placeholder", device=WORKER, dtype=type_attr(), shape=shape_attr(4), **sized)
    else:
        rows.add("input", "FIFOQueueV2", device=WORKER, component_types=types(FLOAT), shared_name=text("input"))
        rows.add("x", "QueueDequeueV2", ["input"], device=WORKER, component_types=types(FLOAT), **sized)
    area = {"dtypes": types(FLOAT), "shared_name": text("area")}
    if way == "Stage":
        rows.add("kept", "Stage", ["x"], device=WORKER, **area)
    else:
        rows.add("kept", "AssignAdd", ["seen", "x"], T=type_attr())
    rows.add("staged", "Unstage", device=WORKER, **area, **sized)
    rows.add("g", "Mul", ["w", "staged"], device=WORKER, T=type_attr())
    rows.add("rate", "Const", **typed("Const", ()))
    rows.add("update", "ApplyGradientDescent", ["w", "rate", "g"], T=type_attr())
    rows.add("count", "AssignAdd", ["global_step", const(rows, "one", 1, dtype=INT64), "^update"], T=type_attr(INT64))
    rows.add("train", "NoOp", ["^count", "^kept"], device=WORKER)
    programs = distributed(rows.built(), load_cluster(CLUSTER), regime=Regime("sync"), fetches=["train"])
    worker, *_, updates = programs
    assert "kept" in runs(worker)
    assert runs(updates).isdisjoint({"kept", "x", "staged"})
    assert (worker.feeds, updates.feeds) == (("x:0",) if fed else (), ())
    assert {"update", "count", "train"} <= runs(updates)


def test_what_an_update_computes_of_what_is_fed_is_its_own() -> None:
    """As its rate here: else clips of the gradients would go to the chief, too."""
    rows = Rows()
    variable(rows, "w")
    variable(rows, "global_step", dtype=INT64)
    for name in ("x", "rates"):
        rows.add(name, "Placeholder", device=WORKER, dtype=type_attr(), shape=shape_attr(4))
        rows.attrs[-1]["_output_shapes"] = shapes_attr((4,))
    rows.add("g", "Mul", ["w", "x"], device=WORKER, T=type_attr())
    rows.add("rate", "Mean", ["rates", const(rows, "axes", [0])], T=type_attr(), Tidx=type_attr(INT32))
    rows.add("update", "ApplyGradientDescent", ["w", "rate", "g"], T=type_attr())
    rows.add("train", "AssignAdd", ["global_step", const(rows, "one", 1, dtype=INT64), "^update"], T=type_attr(INT64))
    graph = rows.built()
    found = anatomy(graph, fetches=["train"])
    assert [graph.tensor_name(tensor) for tensor in found.batched] == ["rates:0", "x:0"]
    assert separate(graph, found).lent == ()
    worker, *_, updates = distributed(graph, load_cluster(CLUSTER), regime=Regime("sync"), fetches=["train"])
    assert (worker.feeds, updates.feeds) == (("x:0",), ("rates:0",))


def test_a_loop_over_examples_is_the_workers_with_its_counter() -> None:
    """The chief ran the counter of a loop over examples, without what ties its constants to the loop: no frame."""
    rows = Rows()
    for name in ("w", "global_step"):
        variable(rows, name, dtype=INT64 if name == "global_step" else FLOAT)
    for name in ("zero", "rate"):
        rows.add(name, "Const", device=WORKER, **typed("Const", ()))
    counted = loop(rows, start="zero")
    rows.add("in", "Enter", [gradient(rows, "x", device=WORKER)], frame_name=text("while"), T=type_attr())
    rows.add("now", "Merge", ["in", "next"], N=AttrValue(i=2), T=type_attr())
    rows.add("way", "Switch", ["now", "while/LoopCond"], T=type_attr())
    rows.add("next", "NextIteration", ["way:1", "^while/Neg"], T=type_attr())
    rows.add("g", "Exit", ["way"], T=type_attr())
    rows.add("executed", "NoOp", [f"^{counted}", "^g"])
    rows.add("update", "ApplyGradientDescent", ["w", "rate", "g", "^executed"], T=type_attr())
    rows.add("train", "AssignAdd", ["global_step", const(rows, "one", 1, dtype=INT64), "^update"], T=type_attr(INT64))
    worker, *_, updates = made(rows.built())
    inside = {name for name in worker.graph.names if name.startswith("while/")} | {"in", "now", "way", "next"}
    assert inside <= runs(worker)
    assert runs(updates).isdisjoint({*inside, "g"})
    assert "update" in runs(updates)


def test_a_slot_decays_once_per_update_whoever_reads_it() -> None:
    """Without an op for sparse gradients Adam lets its slots decay; a read after that made each worker do so, too."""
    rows = Rows()
    for name in ("w", "slot"):
        variable(rows, name)
    variable(rows, "global_step", dtype=INT64)
    given = gradient(rows, "x", device=WORKER)
    rows.add("rate", "Const", **typed("Const", ()))
    rows.add("less", "Mul", ["slot", "rate"], T=type_attr())
    rows.add("decay", "Assign", ["slot", "less"], T=type_attr())
    rows.add("decayed", "Identity", ["decay"], T=type_attr())
    rows.add("update", "ApplyGradientDescent", ["w", "rate", given, "^decay"], T=type_attr())
    rows.add("train", "AssignAdd", ["global_step", const(rows, "one", 1, dtype=INT64), "^update"], T=type_attr(INT64))
    regime = Regime("sync")
    worker, *_, updates = distributed(
        rows.built(), load_cluster(CLUSTER), regime=regime, fetches=["train", "decayed:0", "x:0"]
    )
    assert "decay" in runs(updates)
    assert "decay" not in runs(worker)
    assert worker.fetches == ("sync_replicas/train",)


def test_weights_decay_once_per_update_where_calls_hand_on_their_handles() -> None:
    """AdamW's decay waits for the worker's read and once was its work, as a call in a call makes two Identities."""
    rows, resource = Rows(), type_attr(20)
    rows.add("w", "VarHandleOp", device=PS, dtype=type_attr(), shape=shape_attr(4, 2), _output_shapes=shapes_attr(()))
    rows.add("outer", "Identity", ["w"], device=PS, T=resource)
    rows.add("inner", "Identity", ["outer"], device=PS, T=resource)
    rows.add(
        "x", "Placeholder", device=WORKER, dtype=type_attr(), shape=shape_attr(4, 4), _output_shapes=shapes_attr((4, 4))
    )
    rows.add("rate", "Const", device=PS, **typed("Const", ()))
    rows.add("read", "ReadVariableOp", ["inner"], dtype=type_attr(), _output_shapes=shapes_attr((4, 2)))
    rows.add("g", "MatMul", ["x", "read"], device=WORKER, T=type_attr(), _output_shapes=shapes_attr((4, 2)))
    rows.add(
        "old", "ReadVariableOp", ["inner", "^read"], device=PS, dtype=type_attr(), _output_shapes=shapes_attr((4, 2))
    )
    rows.add("part", "Mul", ["old", "rate"], device=PS, T=type_attr())
    rows.add("decay", "AssignSubVariableOp", ["inner", "part"], device=PS, dtype=type_attr())
    rows.add("step", "Mul", ["g", "rate"], device=PS, T=type_attr())
    rows.add("update", "AssignSubVariableOp", ["inner", "step", "^decay"], device=PS, dtype=type_attr())
    rows.add("loss", "Identity", ["g", "^update"], device=WORKER, T=type_attr())
    worker, *_, updates = made(rows.built())
    assert runs(worker).isdisjoint({"old", "part", "decay", "update"})
    assert {"old", "part", "decay", "update"} <= runs(updates)
    assert "g" not in runs(updates)


@pytest.mark.parametrize("where", [WORKER, f"{WORKER}/device:CPU:0", ""])
def test_an_update_is_counted_without_a_way_through_the_worker(where: str) -> None:
    """An optimizer that knows nothing of SyncReplicas gathers its updates on the worker: two latencies per update."""
    rows = Rows()
    for name, device in (("w", PS), ("b", PS.replace("task:0", "task:1"))):
        variable(rows, name, device=device)
        given = gradient(rows, f"{name}_grad", device=WORKER)
        rows.add(f"update_{name}", "ApplyGradientDescent", [name, "rate", given], device=device, T=type_attr())
    variable(rows, "global_step", dtype=INT64, device=PS)
    one = const(rows, "one", 1, dtype=INT64)
    rows.add("rate", "Const", device=where, **typed("Const", ()))
    rows.add("gathered", "NoOp", ["^update_w", "^update_b"], device=where)
    rows.add("count", "AssignAdd", ["global_step", one, "^gathered"], device=PS, T=type_attr(INT64))
    rows.add("train", "NoOp", ["^count", "^gathered"], device=where)
    programs = made(rows.built())
    for program in programs:
        asked = dict(zip(program.graph.names, program.graph.requested, strict=True))
        assert asked["gathered"] == asked["train"] == asked["global_step"]
    pieces = cut(programs[-1].graph, CLUSTER, programs[-1].fetches, "master")
    assert [name for name in pieces.graph.requested if "worker" in name] == []


def test_a_fetched_loss_stays_with_the_worker() -> None:
    programs = distributed(script(), load_cluster(CLUSTER), regime=Regime("sync"), fetches=["train", "g0:0"])
    assert set(programs[0].fetches) == {"sync_replicas/train", "g0:0"}
    assert programs[-1].fetches == ("sync_replicas/tokens",)


def test_variables_of_the_workers_own_cannot_be_averaged() -> None:
    rows = Rows()
    variable(rows, "w", device="")
    variable(rows, "v", device="/job:ps/task:0")
    given = gradient(rows, "x", device=WORKER)
    rows.add("rate", "Const", **typed("Const", ()))
    for name in ("w", "v"):
        rows.add(f"{name}/update", "ApplyGradientDescent", [name, "rate", given], T=type_attr())
    rows.add("train", "NoOp", ["^w/update", "^v/update"])
    with pytest.raises(GraphError, match="'w' stands on the worker itself"):
        made(rows.built())


def test_a_hang_is_refused_before_anything_is_made() -> None:
    with pytest.raises(DeadlockError, match="can make only 3 before it"):
        made(script(), Regime("sync", aggregate=9, tokens=0))


def test_a_single_worker_gathers_gradients_if_it_is_told_to() -> None:
    assert [one.role for one in made(script(), Regime("sync"), "ps=1,worker=1")] == ["worker"]
    several = made(script(), Regime("sync", aggregate=4), "ps=1,worker=1")
    assert [one.name for one in several] == ["worker:0", "worker:0 updates"]
    assert regime_of(None, several) == Regime("sync", 4, 1, 4)
    client = made(script(towers=2), Regime("sync", aggregate=2), "ps=1,worker=2")
    assert [one.role for one in client] == ["worker", "updates"]
