"""The engine on the step's normal form equals the engine on the pieces: makespan, every start, end and peak.

Not in the order of TensorFlow's executor, whose threads post Recvs: the normal form has none (decision 0055).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster
from simulator.cluster.contention import CONTENTIONS
from simulator.columns import Ids, ids
from simulator.costs.table import CostTable
from simulator.execution.engine import run
from simulator.execution.lifetimes import allocations, usage
from simulator.execution.options import Choice, SimulationOptions
from simulator.execution.tables import of_partitions, of_step
from simulator.execution.trace import Moments
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.graph.step import Step
from simulator.partitioning.cut import partition
from tests.execution.cases import assigned, runs, steps, whole
from tests.strategies import BOOL, Rows, loop, shapes_attr, type_attr, typed
from tests.strategies import rows as drafts


def free_constants(draft: Rows) -> Rows:
    """The law's one exception: the copies of a constant wait for its control inputs where they are read, and the normal
    form, which knows no devices, leaves such constants where they stand."""
    draft.inputs = [[] if op == "Const" else given for op, given in zip(draft.ops, draft.inputs, strict=True)]
    return draft


def check(
    graph: Graph,
    on: Cluster,
    priced: CostTable,
    rows: list[int],
    priority: list[int] | None = None,
    step: Step | None = None,
    options: SimulationOptions = SimulationOptions(),
) -> None:
    """Every op in every iteration, dead or live."""
    step = whole(graph) if step is None else step
    pieces = partition(
        graph, assigned(on, rows), on, legal=False, step=step, flavour="local"
    )  # a master's: test_handing_on.py
    cut, device = of_partitions(pieces, on, priced, options)
    tables = of_step(graph, step, on, priced, options)
    inputs = np.diff(pieces.graph.in_ptr)
    place = {}
    for op, node in enumerate(cut.node.tolist()):
        name, tag = graph.names[pieces.origin[node]], cut.iterations[cut.iteration[op]]
        if (tensor := int(pieces.endpoint[node])) >= 0:
            place[f"{graph.tensor_name(tensor)} ({'fetched' if inputs[node] else 'fed'})", tag] = op
        elif not pieces.inserted[node] and (name, tag) not in place:  # signals come last
            place[name, tag] = op
            rows[graph.row(name)] = int(device[op])  # the cut moves control flow to where its value is

    def ranks(origins: Ids) -> list[int] | None:
        return None if priority is None else [priority[row] for row in origins.tolist()]

    ours = run(tables, tables.placed(ids(rows)), ranks(tables.node), options)
    theirs = run(cut, device, ranks(pieces.origin[cut.node]), options)

    assert ours.makespan == theirs.makespan
    assert sum(op in {name for name, _ in place} for op in tables.names) >= int((tables.bound >= 0).sum())
    found = set()
    for op, name in enumerate(tables.names):
        key = (name, tables.iterations[tables.iteration[op]])
        if key in place and key not in found:  # a constant that was copied has no row of its own left
            found.add(key)
            assert tables.silent[op] == cut.silent[place[key]]
            for column in ("ready_ns", "start_ns", "end_ns"):
                assert getattr(ours, column)[op] == getattr(theirs, column)[place[key]], (key, column)
    assert found == place.keys()
    for field in fields(Moments):
        assert getattr(ours.moments, field.name).tolist() == getattr(theirs.moments, field.name).tolist()
    if not {"Switch", "Enter"} & set(graph.ops):
        assert theirs.transfers.target.tolist() == pieces.device[pieces.recv].tolist()
    peaks = [usage(t, o, allocations(t, o)).peak_bytes.tolist() for t, o in ((tables, ours), (cut, theirs))]
    assert peaks[0] == peaks[1]


@settings(deadline=None, max_examples=35)
@given(st.data())
def test_pieces_take_the_time_of_the_whole(data: st.DataObject) -> None:
    graph = data.draw(drafts().map(free_constants)).built()
    numbers = st.lists(st.integers(0, 3), min_size=len(graph), max_size=len(graph))
    check(graph, *data.draw(runs(graph)), data.draw(st.none() | numbers))


@settings(deadline=None, max_examples=35)
@given(st.data())
def test_so_do_the_pieces_of_a_step_with_feeds_and_fetches(data: st.DataObject) -> None:
    graph = data.draw(drafts().map(free_constants)).built()
    numbers = st.lists(st.integers(0, 3), min_size=len(graph), max_size=len(graph))
    step = data.draw(steps(graph))
    options = SimulationOptions(contention=data.draw(st.sampled_from(CONTENTIONS)))
    check(graph, *data.draw(runs(graph)), data.draw(st.none() | numbers), step, options)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_so_do_the_pieces_of_a_conditional(data: st.DataObject) -> None:
    draft = Rows()
    draft.add("x", "Placeholder", **typed("Placeholder", (100,)))
    draft.add("p", "Placeholder", dtype=type_attr(BOOL), _output_shapes=shapes_attr(()))
    draft.add("s", "Switch", ["x", "p"], T=type_attr(), _output_shapes=shapes_attr((100,), (100,)))
    draft.add("f", "Neg", ["s"], **typed("Neg", (100,)))
    draft.add("t", "Neg", ["s:1"], **typed("Neg", (100,)))
    draft.add("tt", "Neg", ["t"], **typed("Neg", (100,)))
    draft.add("m", "Merge", ["f", "tt"], N=AttrValue(i=2), T=type_attr(), _output_shapes=shapes_attr((100,), ()))
    draft.add("end", "Neg", ["m", "^p"], **typed("Neg", (100,)))
    graph = draft.built()
    branches: Mapping[str, Choice] = data.draw(st.sampled_from([{}, {"p": True}, {"p:0": False}, {"p": 0.5}]))
    options = SimulationOptions(branches=branches, seed=data.draw(st.integers(0, 3)))
    check(graph, *data.draw(runs(graph)), options=options)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_so_do_the_pieces_around_a_loop_on_one_device(data: st.DataObject) -> None:
    draft = Rows()
    draft.add("x", "Placeholder", **typed("Placeholder", (100,)))
    draft.add("before", "Neg", ["x"], **typed("Neg", (100,)))
    last = loop(draft, start="before", parallel=data.draw(st.sampled_from([1, 2, 10])))
    draft.add("after", "Neg", [last], **typed("Neg", (100,)))
    graph = draft.built()
    on, priced, rows = data.draw(runs(graph))
    check(
        graph,
        on,
        priced,
        [rows[0] if name.startswith("while/") else row for name, row in zip(graph.names, rows, strict=True)],
        options=SimulationOptions(trips={"while": data.draw(st.integers(0, 4))}),
    )
