"""Memory at each instant equals a recount from the trace alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster
from simulator.costs.table import CostTable
from simulator.execution.engine import run
from simulator.execution.lifetimes import woken_by
from simulator.execution.options import SimulationOptions
from simulator.execution.simulate import simulate
from simulator.execution.tables import of_partitions
from simulator.graph.graph import Graph
from simulator.graph.handing_on import handed_on
from simulator.graph.messages import AttrValue
from simulator.partitioning.cut import partition
from simulator.partitioning.levels import FLAVOURS
from simulator.partitioning.partitions import Partitions
from tests.execution.cases import assigned, steps, worlds
from tests.laws.recounting import Recount
from tests.strategies import BOOL, INT32, Rows, shapes_attr, type_attr, typed
from tests.strategies import rows as drafts

VIEWS = ("Identity", "IdentityN", "Reshape", "Switch", "Merge", "ReadVariableOp")
SOURCES = ("Const", "Placeholder", "VariableV2", "VarHandleOp")
SIZES = st.sampled_from([1, 2, 25, 250, -1])


@st.composite
def full_of_views(draw: st.DrawFn, *, max_nodes: int = 18) -> Graph:
    """Sums and unpacks among ops that pass their input's buffer on, over state, constants and what may be fed."""
    made = Rows()
    made.add("shape", "Const", dtype=type_attr(INT32), _output_shapes=shapes_attr((1,)))
    made.add("pred", "Placeholder", dtype=type_attr(BOOL), _output_shapes=shapes_attr(()))
    values: list[str] = []
    handles: list[str] = []
    for at in range(draw(st.integers(2, max_nodes))):
        known = [*SOURCES, *(("AddN", "Unpack", *VIEWS[:-1]) * 2 if values else ()), *(VIEWS[-1:] if handles else ())]
        op, name, size = draw(st.sampled_from(known)), f"n{at}", draw(SIZES)
        controls = ["^" + one for one in draw(st.lists(st.sampled_from(made.names), max_size=1))]
        arity = {"AddN": draw(st.integers(1, 3)), "IdentityN": 2, "Merge": 2}.get(op, op not in SOURCES)
        inputs = [draw(st.sampled_from(handles if op == "ReadVariableOp" else values)) for _ in range(arity)]
        outputs = {"Unpack": 2, "IdentityN": 2, "Switch": 2}.get(op, 1)
        shapes = [(size,)] * outputs + ([()] if op == "Merge" else [])
        attrs = {"_output_shapes": shapes_attr(*shapes)}
        attrs["dtype" if op in (*SOURCES, "ReadVariableOp") else "T"] = type_attr()
        if op == "IdentityN":
            attrs["T"] = AttrValue()
            attrs["T"].list.type.extend([1, 1])
        counted = {"AddN": "N", "Merge": "N", "Unpack": "num"}.get(op)
        if counted:
            attrs[counted] = AttrValue(i=2 if op == "Unpack" else arity)
        if op in ("VariableV2", "VarHandleOp"):
            attrs["shape"] = typed("VariableV2")["shape"]
        more = {"Switch": ["pred"], "Reshape": ["shape"]}.get(op, [])
        made.add(name, op, [*inputs, *more, *controls], **attrs)
        if op == "VarHandleOp":
            handles.append(name)
        else:
            values += [name, *(f"{name}:{port}" for port in range(1, outputs))]
    return made.built()


def told(
    pieces: Partitions, on: Cluster, priced: CostTable, how: SimulationOptions
) -> tuple[dict[int, tuple[int, int]], dict[int, int]]:
    """What a trace does not say and the engine does: see Recount."""
    tables, device = of_partitions(pieces, on, priced, how)
    outcome = run(tables, device, options=how)
    took, first = {}, woken_by(tables, outcome)
    for op in np.flatnonzero(first >= 0).tolist():
        tensor = int(tables.edge_tensor[first[op]])
        node, row = int(tables.node[tables.tensor_op[tensor]]), int(tables.tensor_row[tensor])
        took[int(tables.node[op])] = node, int(pieces.graph.tensor_port[row])
    node, end = tables.node.tolist(), outcome.end_ns.tolist()
    queued = dict(zip(reversed(node), reversed(end), strict=True))  # what posts a Recv comes after it
    return took, queued if how.order == "tensorflow" else {}


def check(data: st.DataObject, graph: Graph) -> None:
    on, priced, rows, how = data.draw(worlds(graph))
    priced = replace(priced, handed_on=handed_on(graph))
    step = data.draw(steps(graph))
    pieces = partition(
        graph, assigned(on, rows), on, legal=False, step=step, flavour=data.draw(st.sampled_from(FLAVOURS))
    )
    trace = simulate(pieces, on, priced, how)
    counted = Recount(trace, pieces, on, priced, *told(pieces, on, priced, how))
    moments = counted.instants()
    for device in range(len(on)):
        mine = trace.memory_device == device
        times = trace.memory_time_ns[mine]
        levels = np.append(trace.resident_bytes[device], trace.memory_bytes[mine])
        assert trace.resident_bytes[device] == counted.resident(device)
        for now in moments:
            assert levels[np.searchsorted(times, now, side="right")] == counted.level(device, now), (device, now)
        peaks = [counted.level(device, now, passing=True) for now in moments]
        assert trace.peak_bytes[device] == max(peaks)
        assert trace.peak_ns is not None
        assert trace.peak_ns[device] == (
            moments[peaks.index(max(peaks))] if max(peaks) > counted.resident(device) else 0
        )


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_memory_equals_a_recount_from_the_trace(data: st.DataObject) -> None:
    check(data, data.draw(drafts()).built())


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_so_it_does_where_buffers_are_passed_on(data: st.DataObject) -> None:
    check(data, data.draw(full_of_views()))
