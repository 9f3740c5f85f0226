"""Which ops let clients wait for each other, on which object, and for how many."""

from __future__ import annotations

import pytest

from simulator.errors import GraphError, UnsupportedError
from simulator.training.recognition.sync_ops import (
    APPLY,
    DEQUEUE,
    ENQUEUE,
    TAKE,
    UNBOUNDED,
    UNKNOWN,
    ResourceKey,
    Synchronising,
    find,
    joined,
    moved,
)
from tests.strategies import INT32, Rows, shapes_attr, type_attr
from tests.training.queues import INT64, PS, accumulator, apply, const, cut, gradient, number, queue, take, text, types

CPU = "/job:ps/replica:0/task:0/device:CPU:0"
CLUSTER = "ps=2,worker=2"


def listed(found: Synchronising, names: tuple[str, ...]) -> dict[str, tuple[int, str, int]]:
    """Op -> kind, name of the object, amount."""
    return {names[one.row]: (one.kind, one.key.name, one.amount) for one in found.ops}


def keys(found: Synchronising) -> list[ResourceKey]:
    return [one.key for one in found.ops]


def kinds(found: Synchronising) -> list[int]:
    return [one.kind for one in found.ops]


def sync(rows: Rows, *, tokens: int = 4) -> None:
    """A worker's push and token, the chief's take and tokens, as SyncReplicasOptimizer writes them."""
    accumulator(rows, "acc", shared="w:0/grad_accum")
    queue(rows, "q", shared_name=text("sync_token_q"))
    apply(rows, "acc")
    rows.add("token", "QueueDequeueV2", ["q", "^apply"], device=PS, component_types=types(INT64))
    take(rows, "acc", const(rows, "needed", 3))
    dims, value = const(rows, "dims", [tokens]), const(rows, "value", 7, dtype=INT64)
    rows.add("fill", "Fill", [dims, value, "^take"], device=PS, T=type_attr(INT64), index_type=type_attr(INT32))
    rows.add("tokens", "QueueEnqueueManyV2", ["q", "fill"], device=PS, Tcomponents=types(INT64))


def test_the_ops_of_sync_replicas_their_objects_and_numbers() -> None:
    rows = Rows()
    sync(rows)
    pieces = cut(rows.built(), CLUSTER, ["token", "tokens"])
    found = find(pieces)
    assert listed(found, pieces.graph.names) == {
        "apply": (APPLY, "w:0/grad_accum", 1),
        "token": (DEQUEUE, "sync_token_q", 1),
        "take": (TAKE, "w:0/grad_accum", 3),
        "tokens": (ENQUEUE, "sync_token_q", 4),
    }
    assert found.ops[0].key == ResourceKey("", "w:0/grad_accum", CPU, "accumulator")
    assert list(found.ops) == sorted(found.ops)
    assert {one.capacity for one in found.ops} == {UNBOUNDED}
    assert found.notes == ()


def test_a_number_is_followed_from_piece_to_piece() -> None:
    """What a take needs stands on the worker; between the pieces it goes through a Send and a Recv."""
    rows = Rows()
    accumulator(rows, "acc")
    const(rows, "far", 5, device="/job:worker/task:0")
    rows.add("near", "Identity", ["far"], device="/job:worker/task:0", T=type_attr(INT32))
    take(rows, "acc", "near")
    for flavour in ("local", "master"):
        pieces = cut(rows.built(), CLUSTER, ["take"], flavour)
        assert any(op in ("_Send", "_HostSend") for op in pieces.graph.ops)
        assert listed(find(pieces), pieces.graph.names) == {"take": (TAKE, "acc", 5)}


def test_an_object_is_named_by_its_node_where_it_has_no_other_name_and_two_tasks_have_two() -> None:
    rows = Rows()
    accumulator(rows, "a")
    accumulator(rows, "b", device="/job:ps/task:1", shared="a")
    apply(rows, "a", name="one")
    apply(rows, "b", name="two", device="/job:ps/task:1")
    found = find(cut(rows.built(), CLUSTER, ["one", "two"]))
    assert [(key.name, key.device) for key in keys(found)] == [("a", CPU), ("a", CPU.replace("task:0", "task:1"))]


def test_a_queue_keeps_its_capacity_and_what_must_remain() -> None:
    rows = Rows()
    queue(rows, "q", capacity=20, op="RandomShuffleQueueV2", min_after_dequeue=number(8))
    rows.add("some", "QueueDequeueManyV2", ["q", const(rows, "n", 6)], device=PS, component_types=types(INT64))
    rows.add("upto", "QueueDequeueUpToV2", ["q", "n"], device=PS, component_types=types(INT64))
    rows.add("one", "QueueEnqueueV2", ["q", const(rows, "x", 1, dtype=INT64)], device=PS, Tcomponents=types(INT64))
    pieces = cut(rows.built(), CLUSTER, ["some", "upto", "one"])
    found = find(pieces)
    assert {name: amount for name, (_, _, amount) in listed(found, pieces.graph.names).items()} == {
        "some": 6,
        "upto": 6,
        "one": 1,
    }
    assert [one.capacity for one in found.ops] == [20, 20, 20]
    assert sorted(one.reserve for one in found.ops) == [0, 8, 8]


def test_pieces_on_other_devices_ask_there() -> None:
    rows = Rows()
    sync(rows)
    pieces = cut(rows.built(), CLUSTER, ["token"])
    elsewhere = [name.replace("job:ps", "job:other") for name in pieces.devices]
    assert {one.key.device for one in moved(find(pieces).ops, None, elsewhere)} == {CPU.replace("job:ps", "job:other")}


def test_a_queue_that_nobody_else_fills_or_empties_lets_nobody_wait() -> None:
    rows = Rows()
    sync(rows)
    worker, updates = (find(cut(rows.built(), CLUSTER, [name])) for name in ("token", "tokens"))
    both = joined([worker, updates])
    assert [kinds(one) for one in both] == [kinds(worker), kinds(updates)]
    (alone,) = joined([worker])
    assert kinds(alone) == [APPLY]
    assert not alone.notes  # who else may fill it, `inputs.finding` says
    assert joined([updates])[0].notes == ("sync_token_q: no client empties this queue, so nobody waits for room in it",)


def test_a_number_that_the_graph_does_not_tell_matters_only_where_somebody_waits() -> None:
    rows = Rows()
    queue(rows, "q")
    many = gradient(rows, "many", device=PS)
    rows.attrs[-1].update(dtype=type_attr(INT64), _output_shapes=shapes_attr((-1,)))
    rows.add("fill", "QueueEnqueueManyV2", ["q", many], device=PS, Tcomponents=types(INT64))
    rows.add("next", "QueueDequeueV2", ["q"], device=PS, component_types=types(INT64))
    graph = rows.built()
    filling, emptying = (find(cut(graph, CLUSTER, [name])) for name in ("fill", "next"))
    assert [one.amount for one in filling.ops] == [UNKNOWN]
    assert joined([filling])[0].ops == ()
    with pytest.raises(UnsupportedError, match=r"how many elements .* the queue 'q'"):
        joined([filling, emptying])


def test_a_handle_that_comes_from_elsewhere_is_refused_by_name() -> None:
    rows = Rows()
    rows.add("h", "Placeholder", device=PS, dtype=type_attr(20))
    rows.add("next", "QueueDequeueV2", ["h"], device=PS, component_types=types(INT64))
    with pytest.raises(UnsupportedError, match="object of 'next'"):
        find(cut(rows.built(), "ps=1", ["next"]))


def test_a_take_of_nothing_is_refused() -> None:
    rows = Rows()
    take(rows, accumulator(rows, "acc"), const(rows, "needed", 0))
    with pytest.raises(GraphError, match="takes 0 at a time"):
        find(cut(rows.built(), "ps=1", ["take"]))


def test_setting_the_step_of_an_accumulator_belongs_to_the_start() -> None:
    rows = Rows()
    accumulator(rows, "acc")
    rows.add("set", "AccumulatorSetGlobalStep", ["acc", const(rows, "s", 4, dtype=INT64)], device=PS)
    with pytest.raises(UnsupportedError, match="sets the step"):
        find(cut(rows.built(), "ps=1", ["set"]))


def test_a_barrier_of_one_component_is_a_queue_and_one_of_two_is_refused() -> None:
    rows = Rows()
    for name, components in (("b", [1]), ("two", [1, 1])):
        rows.add(name, "Barrier", device=PS, component_types=types(*components), capacity=number(-1))
        rows.add(f"{name}/take", "BarrierTakeMany", [name, const(rows, f"{name}/n", 2)], device=PS)
        rows.attrs[-1].update(component_types=types(*components))
    graph = rows.built()
    found = find(cut(graph, "ps=1", ["b/take"]))
    assert [(one.kind, one.key.family) for one in found.ops] == [(DEQUEUE, "barrier")]
    with pytest.raises(UnsupportedError, match=r"'two' joins 2 components.*of its own"):
        find(cut(graph, "ps=1", ["two/take"]))


def test_a_handle_through_a_switch_is_followed_and_one_of_two_objects_is_refused() -> None:
    rows = Rows()
    rows.add("which", "Placeholder", device=PS, dtype=type_attr(10))
    for name in ("a", "b"):
        queue(rows, name, op="FIFOQueue", shared_name=text(""))
        rows.add(f"{name}/switch", "RefSwitch", [name, "which"], device=PS, T=type_attr(7))
    rows.add("either", "RefMerge", ["a/switch", "b/switch:1"], device=PS, T=type_attr(7), N=number(2))
    for name, handle in (("of a", "a/switch:1"), ("of both", "either")):
        rows.add(name.replace(" ", "_"), "QueueDequeue", [handle], device=PS, component_types=types(INT64))
    graph = rows.built()
    assert [key.name for key in keys(find(cut(graph, "ps=1", ["of_a"])))] == ["a"]
    with pytest.raises(UnsupportedError, match=r"comes from 'a' \(FIFOQueue\), 'b' \(FIFOQueue\)"):
        find(cut(graph, "ps=1", ["of_both"]))
