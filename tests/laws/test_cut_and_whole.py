"""The engine on the step's normal form equals the engine on the pieces: makespan, every start and every end."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.execution.engine import run
from simulator.execution.tables import of_partitions, of_step
from simulator.partitioning import partition
from tests.execution.cases import assigned, runs, whole
from tests.strategies import Rows
from tests.strategies import rows as drafts


def free_constants(draft: Rows) -> Rows:
    """The law's one exception: the copies of a constant wait for its control inputs where they are read, and the normal
    form, which knows no devices, leaves such constants where they stand."""
    draft.inputs = [[] if op == "Const" else given for op, given in zip(draft.ops, draft.inputs, strict=True)]
    return draft


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_pieces_take_the_time_of_the_whole(data: st.DataObject) -> None:
    graph = data.draw(drafts().map(free_constants)).built()
    on, priced, rows = data.draw(runs(graph))
    step = whole(graph)
    pieces = partition(graph, assigned(on, rows), on, step=step)
    cut, device = of_partitions(pieces, on, priced)
    tables = of_step(graph, step, on, priced)

    ours = run(tables, [rows[node] for node in tables.node])
    theirs = run(cut, device)

    assert ours.makespan == theirs.makespan
    place = {int(pieces.origin[node]): op for op, node in enumerate(cut.node) if not pieces.inserted[node]}
    for op, node in enumerate(tables.node.tolist()):
        if node in place:  # a constant that was copied has no row of its own left
            for column in ("ready_ns", "start_ns", "end_ns"):
                assert getattr(ours, column)[op] == getattr(theirs, column)[place[node]], (graph.names[node], column)
    for column in ("transfer_ready_ns", "transfer_start_ns", "transfer_end_ns"):
        assert getattr(ours, column).tolist() == getattr(theirs, column).tolist()
    assert theirs.crossings.target.tolist() == pieces.dst_device.tolist()
