"""Arrows in the recorded steps of a training: from the op that made a value over its transfer to its reader.

They run within one step of one client; what stands between ops and transfers, the work of processors and the first link
of the way, is passed. In a loop the maker is the last that had ended when the transfer was asked for, the reader the
first that starts afterwards.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from simulator.columns import Ids
from simulator.execution.trace import Trace
from simulator.partitioning import Partitions
from viz.formats.trace_events import Event, micros
from viz.scene import Trained
from viz.tracks import Place
from viz.training.recorded import Crossings

MOST_ARROWS = 20_000  # the first ones

_Rows: TypeAlias = Mapping[tuple[int, int, int], Sequence[int]]  # (client, step, node) -> slices in order of start


def arrows(
    trained: Trained,
    crossed: Crossings,
    home: Ids,
    lanes: Mapping[tuple[int, int], Place],
    wires: Mapping[int, Place],
) -> Iterator[Event]:
    """The events of all arrows; `wires` is where each transfer is on its first link, `home` whose lanes pack."""
    trace = trained.training.trace
    assert trace is not None
    slices = _slices(trace)
    ends: dict[int, _Ends] = {}
    for row in np.argsort(crossed.start_ns, kind="stable")[:MOST_ARROWS].tolist():
        client, step = int(crossed.client[row]), int(crossed.step[row])
        pieces = trained.clients[client].partitions
        if id(pieces) not in ends:
            ends[id(pieces)] = _ends(pieces)
        makers, readers = (of.get(int(trace.transfer[row]), ()) for of in ends[id(pieces)])
        made = _before(trace, [slices.get((client, step, node), ()) for node in makers], row)
        read = _after(trace, [slices.get((client, step, node), ()) for node in readers], row)
        stops = (
            [] if made is None else [_at_slice(trace, lanes, made, max(trace.start_ns[made], trace.end_ns[made] - 1))]
        )
        if trace.pack_end_ns[row] > trace.pack_start_ns[row]:
            place = lanes[int(home[crossed.source[row]]), int(trace.pack_lane[row])]
            stops.append((int(trace.pack_start_ns[row]), place))
        stops.append((int(crossed.start_ns[row]), wires[row]))
        if trace.unpack_end_ns[row] > trace.unpack_start_ns[row]:
            place = lanes[int(home[crossed.target[row]]), int(trace.unpack_lane[row])]
            stops.append((int(trace.unpack_start_ns[row]), place))
        if read is not None:
            stops.append(_at_slice(trace, lanes, read, trace.start_ns[read]))
        yield from _events(row, stops)


_Ends: TypeAlias = tuple[Mapping[int, Sequence[int]], Mapping[int, Sequence[int]]]


def _ends(pieces: Partitions) -> _Ends:
    """The nodes from which each transfer's Send gets its value, and those that its Recv gives it to.

    What the cut inserted besides, such as the dummies of control edges, is passed: it has no slices.
    """
    before: dict[int, list[int]] = {}
    after: dict[int, list[int]] = {}
    inserted: list[bool] = pieces.inserted.tolist()
    for src, dst in zip(pieces.graph.edge_src.tolist(), pieces.graph.edge_dst.tolist(), strict=True):
        if inserted[dst]:
            before.setdefault(dst, []).append(src)
        if inserted[src]:
            after.setdefault(src, []).append(dst)
    makers = {row: _reached(node, before, inserted) for row, node in enumerate(pieces.send.tolist())}
    readers = {row: _reached(node, after, inserted) for row, node in enumerate(pieces.recv.tolist())}
    return makers, readers


def _reached(node: int, following: Mapping[int, Sequence[int]], inserted: Sequence[bool]) -> list[int]:
    """The nodes of the graph that was cut that come first behind a node that was inserted."""
    found: list[int] = []
    pending, seen = [node], {node}
    while pending:
        for other in following.get(pending.pop(), ()):
            if other not in seen:
                seen.add(other)
                (pending if inserted[other] else found).append(other)
    return found


def _slices(trace: Trace) -> _Rows:
    found: dict[tuple[int, int, int], list[int]] = {}
    columns = (trace.client, trace.step, trace.node)
    for row, key in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        found.setdefault(key, []).append(row)
    return found


def _before(trace: Trace, candidates: Sequence[Sequence[int]], row: int) -> int | None:
    """The last slice that had ended when the transfer was asked for."""
    asked = trace.transfer_ready_ns[row]
    found = [rows[at - 1] for rows in candidates if (at := bisect_right(rows, asked, key=trace.end_ns.__getitem__))]
    return max(found, key=lambda one: (trace.end_ns[one], one), default=None)


def _after(trace: Trace, candidates: Sequence[Sequence[int]], row: int) -> int | None:
    """The first slice that starts when the value is there."""
    came = trace.unpack_end_ns[row]
    found = [
        rows[at] for rows in candidates if (at := bisect_left(rows, came, key=trace.start_ns.__getitem__)) < len(rows)
    ]
    return min(found, key=lambda one: (trace.start_ns[one], one), default=None)


def _at_slice(trace: Trace, lanes: Mapping[tuple[int, int], Place], row: int, when: np.int64) -> tuple[int, Place]:
    return int(when), lanes[int(trace.device[row]), int(trace.lane[row])]


def _events(number: int, stops: Sequence[tuple[int, Place]]) -> Iterator[Event]:
    """An arrow binds to the slice that its time lies in, or to the instant that is there; one stop alone is none."""
    if len(stops) < 2:
        return
    phases = ["s", *"t" * (len(stops) - 2), "f"]
    for phase, (when, place) in zip(phases, stops, strict=True):
        bound: Event = {"bp": "e"} if phase == "f" else {}
        common: Event = {"cat": "transfer", "name": "transfer", "id": number}
        yield {**common, **bound, "ph": phase, "pid": place[0], "tid": place[1], "ts": micros(when)}
