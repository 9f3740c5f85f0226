"""The unrolled step: an op per node and iteration in which it runs, dead or live, and the edges between these ops.

It is an executor without time: `liveness` finds the ops that run, this file lays them out, whole frames at a time. An
edge stands for a value or control signal that is delivered and waited for:

    a live Merge      waits for its live values, of which the first is enough, and for its control inputs
    a dead Merge      waits for all of its values
    all others        wait for all of their inputs

A dead tensor takes no time and has no bytes, but it crosses between devices as in TensorFlow. So a dead value still
goes to the device of a live Merge that does not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np

from simulator.columns import Ints, flags, ids, ints
from simulator.errors import DeadlockError, SimvizError, UnsupportedError
from simulator.execution.loops.choices import decide
from simulator.execution.loops.frames import Flow, has_control_flow, read_flow
from simulator.execution.loops.instances import Delivered, Instances, deliver, number_instances
from simulator.execution.loops.liveness import Liveness
from simulator.execution.loops.predicates import branch_notes, check_branches
from simulator.execution.loops.reasons import UnknownNameError, check_trips, unused_trips
from simulator.execution.loops.trips import trip_notes
from simulator.execution.loops.windows import Signals, find_signals
from simulator.execution.options import SimulationOptions
from simulator.execution.table_columns import Edges, Ops, forward, join, new_edges
from simulator.graph.op_classes import MERGES
from simulator.partitioning.partitions import RECVS
from simulator.wording import printable

if TYPE_CHECKING:
    from simulator.graph.graph import Graph

Made = TypeVar("Made", covariant=True)


class Unrolled(NamedTuple):
    """A step without loops and branches."""

    ops: Ops
    edges: Edges
    notes: tuple[str, ...]  # the trips of loops and the sides of branches, and the reasons for them
    dead_fetches: tuple[str, ...] = ()  # never handed to the client, whatever is chosen


def unrolled(
    graph: Graph,
    ops: Ops,
    edges: Edges,
    options: SimulationOptions = SimulationOptions(),
    *,
    device: Sequence[int] | None = None,
) -> Unrolled:
    """Unroll the loops of these ops and edges, back edges included, and take one side of every branch.

    Ops come by (iteration in which their values are read, op); signals come last. With `device`, that of each op, every
    device holds back its own iterations, as executors do; without it the whole loop does.

    Raises SimvizError for names that the step lacks and for trips beyond `limits.UNROLLED`, before any work. Raises
    DeadlockError where an op outside of loops would never run.
    """
    trips, branches = options.trips, options.branches
    if not has_control_flow(ops):
        check_trips(trips, ())
        check_branches(branches, ())
        return Unrolled(ops, forward(edges), unused_trips(trips, ()))
    flow = read_flow(graph, ops, edges)
    _check_triggers(flow)
    if flow.mixed is not None:
        return _once(flow, flow.mixed, requested=bool(trips or branches))
    decided = decide(flow, options)
    scenario, state = decided.scenario, decided.scenario.state
    _check_arrivals(state)
    instances = number_instances(state)
    given, lost = deliver(state, instances)
    signals = find_signals(state, instances, given, [0] * len(flow.inputs) if device is None else device)
    if device is not None:
        lost = lost.take(np.zeros(len(lost), np.bool_))  # a Recv takes it, on the device that does not wait for it
    return Unrolled(
        ops=_ops(flow, instances, signals, lost),
        edges=_edges(flow, instances, given, signals, lost),
        notes=(
            *decided.notes,
            *unused_trips(trips, flow.frames[1:]),
            *trip_notes(flow, scenario.trips),
            *branch_notes(scenario.branches, options.seed, state.live),
        ),
        dead_fetches=decided.dead_fetches,
    )


def _check_triggers(flow: Flow) -> None:
    """Refuse pieces in which Recvs wait for a moment inside a loop, which comes once per iteration or never."""
    for op, kind in enumerate(flow.ops.kind):
        if kind == "ControlTrigger" and flow.ops.inserted[op] and flow.frame[op]:
            raise UnsupportedError(
                f"TensorFlow's scheduling lets Recvs wait for {flow.name(op)}, which follows a node inside the loop "
                f"{flow.loop(flow.frame[op])}; schedule none, or by the white paper's rule.",
                node=flow.ops.names[op],
            )


def _once(flow: Flow, mixed: str, *, requested: bool) -> Unrolled:
    """A step that TensorFlow refuses to run: its loops once, without back edges, and every branch."""
    why = f"'{printable(mixed)}' reads from two loops, which TensorFlow refuses to run"
    if requested:
        raise UnsupportedError(f"{why}; leave trips and branches out, or mend the graph.", node=mixed)
    return Unrolled(flow.ops, forward(flow.edges), (f"Loops run once and every branch runs: {why}.",))


def _check_arrivals(state: Liveness) -> None:
    """Refuse pieces in which a Recv waits for a value that is never sent, as TensorFlow's would."""
    flow = state.flow
    for op, kind in enumerate(flow.ops.kind):
        if kind not in RECVS:
            continue
        posted, came = state.exists[flow.frame[op]], 0
        for edge in flow.inputs[op]:
            if flow.data[edge]:
                came |= state.arrived(edge)[0]
                post = int(flow.edges.post[edge])
                posted &= state.ran[post] if post >= 0 else posted
            else:
                posted &= state.arrived(edge)[0]
        sent = flow.value(op)
        if sent is not None and posted & ~came:
            send = flow.ops.names[sent[0]]
            raise DeadlockError(
                f"{flow.name(op)} waits for ever: with these trips and branches nothing comes from "
                f"'{printable(send)}', on another device, so that TensorFlow's step never ends.",
                waiting={flow.ops.names[op]: [send]},
            )


def _ops(flow: Flow, instances: Instances, signals: Signals, lost: Delivered) -> Ops:
    """The instances, then the signals, then the ends of dead values that no op waits for."""
    ops, extra = flow.ops, len(signals.like) + len(lost)
    of = np.concatenate([instances.op, signals.like, instances.op[lost.target]])
    merge = np.array([kind in MERGES for kind in ops.kind], bool)[instances.op] & instances.live
    return ops.take(
        of,
        names=tuple([ops.names[row] for row in of.tolist()]),
        kind=(*(ops.kind[row] for row in instances.op.tolist()), *["NoOp"] * extra),
        inserted=flags(np.concatenate([ops.inserted[instances.op], np.ones(extra, np.bool_)])),
        merge=flags(np.concatenate([merge, signals.first, np.zeros(len(lost), np.bool_)])),
        silent=flags(np.concatenate([~instances.live, np.ones(extra, np.bool_)])),
        iteration=ids(np.concatenate([instances.tag, signals.tag, instances.tag[lost.target]])),
        iterations=instances.tags,
    )


def _edges(flow: Flow, instances: Instances, given: Delivered, signals: Signals, lost: Delivered) -> Edges:
    first_lost = len(instances.op) + len(signals.like)
    found = _delivered_edges(flow, instances, given, given.target)
    if len(lost):
        found = join(found, _delivered_edges(flow, instances, lost, np.arange(first_lost, first_lost + len(lost))))
    return join(found, _signal_edges(flow, instances, signals)) if len(signals.source) else found


def _delivered_edges(flow: Flow, instances: Instances, given: Delivered, target: Ints) -> Edges:
    """The edges between instances; dead values have no bytes."""
    edges, at = flow.edges, given.edge
    post = edges.post[at].astype(np.int64)  # the reader begins to wait at the end of an op of its own iteration
    posted = np.flatnonzero(post >= 0)
    post[posted] = instances.at(post[posted], given.place[posted])
    return edges.take(
        at,
        source=ids(given.source),
        target=ids(target),
        nbytes=ints(np.where(given.live, edges.nbytes[at], 0)),
        post=ids(post),
        back=flags(np.zeros(len(at))),
        dead=flags(~given.live),
    )


def _signal_edges(flow: Flow, instances: Instances, signals: Signals) -> Edges:
    node = flow.ops.node[np.concatenate([instances.op, signals.like])[signals.source]].astype(np.int64)
    ports = int(flow.edges.port.max(initial=0)) + 1
    row = np.where(signals.value, flow.graph.tensor_ptr[node], -1 - node)
    return new_edges(signals.source, signals.target, ports + signals.value, row, stays=np.ones(len(node)))


class _Make(Protocol[Made]):
    def __call__(self, *, options: SimulationOptions) -> Made: ...


@dataclass(eq=False)
class SharedChoices:
    """The trips and branches of options for several programs at once: each uses those that it has.

    The updates of a synchronous training, for example, are a program of their own, without the loops of its workers.
    """

    options: SimulationOptions
    used: set[str] = field(default_factory=set)
    unknown: dict[str, SimvizError] = field(default_factory=dict)  # name -> the error of the first program without it

    def apply(self, make: _Make[Made]) -> Made:
        """Make one program under the options, with the trips and branches that it has."""
        trips, branches = dict(self.options.trips), dict(self.options.branches)
        while True:
            try:
                made = make(options=replace(self.options, trips=trips, branches=branches))
            except UnknownNameError as error:
                self.unknown.setdefault(error.name, error)
                del (trips if error.option == "trips" else branches)[error.name]
            else:
                self.used |= trips.keys() | branches.keys()
                return made

    def check(self) -> None:
        """Raise the SimvizError of the first name that no program has."""
        for name, error in self.unknown.items():
            if name not in self.used:
                raise error
