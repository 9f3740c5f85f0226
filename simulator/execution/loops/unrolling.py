"""The ops and edges of a step without loops: an op per node and iteration in which it runs, dead or live.

An executor without time: `liveness` says what runs, this file lays it out, whole frames at a time. Edges are those
that were delivered and are waited for:

    a live Merge      waits for its live values, of which the first is enough, and for its control inputs
    a dead Merge      waits for all of its values
    all others        wait for all of their inputs

What is dead takes no time and has no bytes, but crosses between devices as TensorFlow's dead tensors do; so a dead
value still goes to where a live Merge does not wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.columns import flags, ids, ints
from simulator.errors import DeadlockError, SimvizError, UnsupportedError
from simulator.execution.assembling import Edges, Ops, forward, join
from simulator.execution.loops.branches import Choice, branch_notes, check_branches, check_seed
from simulator.execution.loops.deciding import decide
from simulator.execution.loops.delivery import Delivered, deliver
from simulator.execution.loops.flow import Flow, has_control_flow, read_flow
from simulator.execution.loops.layout import Column, Layout, lay_out
from simulator.execution.loops.liveness import Grids, Liveness, arrived
from simulator.execution.loops.trips import check_trips, trip_notes, unused_trips
from simulator.execution.loops.windows import Signals, find_signals
from simulator.graph.control_flow import MERGES
from simulator.partitioning.partitions import RECVS
from simulator.wording import printable

if TYPE_CHECKING:
    from simulator.graph.graph import Graph


class Unrolled(NamedTuple):
    """What is left when loops and branches are gone."""

    ops: Ops
    edges: Edges
    notes: tuple[str, ...]  # how often loops run and which branches are taken, and why
    dead_fetches: tuple[str, ...] = ()  # what the client never gets, whatever is chosen


def unrolled(
    graph: Graph,
    ops: Ops,
    edges: Edges,
    *,
    trips: Mapping[str, int] | None = None,
    branches: Mapping[str, Choice] | None = None,
    seed: int = 0,
    device: Sequence[int] | None = None,
) -> Unrolled:
    """Unroll the loops of these ops and edges, back edges included, and take one side of every branch.

    In order of (iteration in which its values are read, op); signals come last. With `device`, that of each op, every
    device holds back its own iterations, as executors do; without it the whole loop does. Raises SimvizError for
    names, a count or a seed that are none and for trips beyond MAX_INSTANCES, before any work; DeadlockError where
    something outside of loops would never run.
    """
    check_seed(seed)
    _check_named("trips", trips, "loops to counts")
    _check_named("branches", branches, "predicates to the ways that are taken")
    if not has_control_flow(ops):
        check_trips(trips, ())
        check_branches(branches, ())
        return Unrolled(ops, forward(edges), unused_trips(trips, ()))
    flow = read_flow(graph, ops, edges)
    _check_triggers(flow)
    if flow.mixed is not None:
        return _as_it_stands(flow, asked=bool(trips or branches))
    decided = decide(flow, trips, branches, seed)
    settled = decided.settled
    sizes, state = settled.grids, settled.state
    _check_arrivals(flow, sizes, state)
    layout = lay_out(flow, sizes, state)
    given, lost = deliver(flow, sizes, state, layout)
    signals = find_signals(flow, sizes, state, layout, given, [0] * len(flow.inputs) if device is None else device)
    if device is not None:
        lost = lost.take(np.zeros(len(lost), np.bool_))  # it ends in a Recv, wherever it is lost
    return Unrolled(
        ops=_ops(flow, layout, signals, lost),
        edges=_edges(flow, layout, given, signals, lost),
        notes=(
            *decided.notes,
            *unused_trips(trips, flow.frames[1:]),
            *trip_notes(flow, settled.trips),
            *branch_notes(settled.branches, seed),
        ),
        dead_fetches=decided.dead_fetches,
    )


def _check_named(what: str, given: Mapping[str, object] | None, wanted: str) -> None:
    if given is not None and not isinstance(given, Mapping):
        raise SimvizError(f"{what} is {given!r}; give a mapping from the names of {wanted}.")


def _check_triggers(flow: Flow) -> None:
    """Refuse pieces in which Recvs wait for a moment inside a loop, which comes once per iteration or never."""
    for op, kind in enumerate(flow.ops.kind):
        if kind == "ControlTrigger" and flow.ops.inserted[op] and flow.frame[op]:
            loop = printable(flow.frames[flow.frame[op]].name)
            raise UnsupportedError(
                f"TensorFlow's scheduling lets Recvs wait for {flow.name(op)}, which follows a node inside the loop "
                f"'{loop}'; schedule none, or by the white paper's rule.",
                node=flow.ops.names[op],
            )


def _as_it_stands(flow: Flow, *, asked: bool) -> Unrolled:
    """What TensorFlow refuses to run: its loops once, without the way back, and every branch."""
    why = f"'{printable(flow.mixed or '')}' reads from two loops, which TensorFlow refuses to run"
    if asked:
        raise UnsupportedError(f"{why}; leave trips and branches out, or mend the graph.", node=flow.mixed)
    return Unrolled(flow.ops, forward(flow.edges), (f"Loops run once and every branch runs: {why}.",))


def _check_arrivals(flow: Flow, sizes: Grids, state: Liveness) -> None:
    """Refuse pieces in which a device waits for ever for what another one never sends, as TensorFlow's would."""
    for op, kind in enumerate(flow.ops.kind):
        if kind not in RECVS:
            continue
        posted, came = state.exists[flow.frame[op]], 0
        for edge in flow.inputs[op]:
            if flow.data[edge]:
                came |= arrived(flow, sizes, state, edge)[0]
                post = int(flow.edges.post[edge])
                posted &= state.ran[post] if post >= 0 else posted
            else:
                posted &= arrived(flow, sizes, state, edge)[0]
        if flow.value(op) is not None and posted & ~came:
            send = flow.ops.names[flow.source[next(edge for edge in flow.inputs[op] if flow.data[edge])]]
            raise DeadlockError(
                f"{flow.name(op)} waits for ever: with these trips and branches nothing comes from "
                f"'{printable(send)}', on another device, so that TensorFlow's step never ends.",
                waiting={flow.ops.names[op]: [send]},
            )


def _ops(flow: Flow, layout: Layout, signals: Signals, lost: Delivered) -> Ops:
    """The instances, then the signals, then the ends of dead values that nobody waits for."""
    ops, extra = flow.ops, len(signals.like) + len(lost)
    of = np.concatenate([layout.op, signals.like, layout.op[lost.target]])
    rows = of.tolist()
    merge = np.array([kind in MERGES for kind in ops.kind], bool)[layout.op] & layout.live
    nothing = np.zeros(len(lost), np.bool_)
    return replace(
        ops,
        node=ids(ops.node[of]),
        names=tuple([ops.names[row] for row in rows]),
        kind=(*(ops.kind[row] for row in layout.op.tolist()), *["NoOp"] * extra),
        inserted=flags(np.concatenate([ops.inserted[layout.op], np.ones(extra, np.bool_)])),
        bound=ids(ops.bound[of]),
        cost_row=ids(ops.cost_row[of]),
        merge=flags(np.concatenate([merge, signals.first, nothing])),
        silent=flags(np.concatenate([~layout.live, np.ones(extra, np.bool_)])),
        iteration=ids(np.concatenate([layout.tag, signals.tag, layout.tag[lost.target]])),
        iterations=layout.tags,
    )


def _edges(flow: Flow, layout: Layout, given: Delivered, signals: Signals, lost: Delivered) -> Edges:
    first_lost = len(layout.op) + len(signals.like)
    ends = np.arange(first_lost, first_lost + len(lost))
    found = _copies(flow, layout, given, given.target)
    if len(lost):
        found = join(found, _copies(flow, layout, lost, ends))
    if not len(signals.source):
        return found
    node = flow.ops.node[np.concatenate([layout.op, signals.like])[signals.source]].astype(np.int64)
    ports = int(flow.edges.port.max(initial=0)) + 1
    nothing = np.zeros(len(node), np.int64)
    return join(
        found,
        Edges(
            source=ids(signals.source),
            target=ids(signals.target),
            port=ids(ports + signals.value),
            row=ids(np.where(signals.value, flow.graph.tensor_ptr[node], -1 - node)),
            nbytes=ints(nothing),
            apart=flags(nothing),
            host=flags(nothing),
            post=ids(nothing - 1),
            back=flags(nothing),
            dead=flags(nothing),
            stays=flags(nothing + 1),
        ),
    )


def _posts(flow: Flow, layout: Layout, given: Delivered) -> Column:
    """The instance at whose end each reader begins to wait, in the same iteration; -1: it waits from the beginning."""
    posts = flow.edges.post[given.edge].astype(np.int64)
    posted = np.flatnonzero(posts >= 0)
    posts[posted] = layout.instance(posts[posted], given.place[posted])
    return posts


def _copies(flow: Flow, layout: Layout, given: Delivered, target: Column) -> Edges:
    """The edges between instances; what is dead has no bytes."""
    edges = flow.edges
    at = given.edge
    return replace(
        edges,
        source=ids(given.source),
        target=ids(target),
        port=ids(edges.port[at]),
        row=ids(edges.row[at]),
        nbytes=ints(np.where(given.live, edges.nbytes[at], 0)),
        apart=flags(edges.apart[at]),
        host=flags(edges.host[at]),
        post=ids(_posts(flow, layout, given)),
        back=flags(np.zeros(len(at))),
        dead=flags(~given.live),
        stays=flags(np.zeros(len(at))),
    )
