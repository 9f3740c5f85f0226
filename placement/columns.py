"""A placement problem as columns of whole numbers, for functions that run over lists and compiled over arrays alike."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.columns import Ints
from simulator.execution.routes import Pace, alone_ns
from simulator.execution.tables import Tables
from simulator.units import NEVER, Nanos

CROSSES, STAYS, COPIED = 0, 1, 2  # a value; a signal that every device has at once; a small constant, copied to CPUs


class Columns(NamedTuple):
    """Read-only. Axes: n ops, T tensors, G groups, D devices, S sets of devices, Z sizes, P paces of routes."""

    group: Ints  # [n]
    first: Ints  # [n+1] where the inputs of each op begin in `tensor`
    tensor: Ints  # inputs, each once
    made_first: Ints  # [n+1] first output of each op
    maker: Ints  # [T] op
    reader_first: Ints  # [T+1] where the readers of each tensor begin in `reader`
    reader: Ints  # ops, each once
    control: Ints  # [T] 1: a control edge
    spread: Ints  # [T] CROSSES, STAYS or COPIED
    nbytes: Ints  # [T]
    size: Ints  # [T] where the row of its size begins in `wire_ns`
    wire_ns: Ints  # [Z * P] a transfer that waits for nothing, packed and unpacked; NEVER: no route
    pace: Ints  # [D * D] from a device to another
    run_ns: Ints  # [n * D] -1: no kernel
    instant: Ints  # [n] 1: no time, no lane
    merge: Ints  # [n] 1: starts at the first of its data inputs
    allowed: Ints  # [G] row of the set of devices that a group may use
    set_first: Ints  # [S+1] where each set begins in `device`
    device: Ints  # the devices of the sets, the one that TensorFlow prefers first
    resident: Ints  # [G]
    lanes: Ints  # [D]
    cpu: Ints  # [D] 1: a CPU
    home: Ints  # [D] the CPU of the device's task


def columns_of(
    tables: Tables, group: Sequence[int], allowed: Sequence[tuple[int, ...]], resident: Sequence[int]
) -> Columns:
    """The columns of a step."""
    sets: dict[tuple[int, ...], int] = {}
    of_group = [sets.setdefault(devices, len(sets)) for devices in allowed]
    first, tensor = _once(tables.in_ptr, tables.in_tensor, len(tables.tensor_op))
    reader_first, reader = _once(tables.consumer_ptr, tables.consumer, len(tables))
    size, wire = alone_of_sizes(tables, tables.routes.paces[1], NEVER)
    return Columns(
        group=_column(group),
        first=first,
        tensor=tensor,
        made_first=_column(tables.tensor_ptr),
        maker=_column(tables.tensor_op),
        reader_first=reader_first,
        reader=reader,
        control=_column(tables.tensor_row < 0),
        spread=_column(np.where(tables.stays, STAYS, np.where(tables.replicable, COPIED, CROSSES))),
        nbytes=_column(tables.tensor_bytes),
        size=_column(size * wire.shape[1]),
        wire_ns=_column(wire),
        pace=_column(tables.routes.paces[0]),
        run_ns=_column(tables.run_ns),
        instant=_column(tables.instant),
        merge=_column(tables.merge),
        allowed=_column(of_group),
        set_first=_column(np.cumsum([0, *map(len, sets)])),
        device=_column([device for devices in sets for device in devices]),
        resident=_column(resident),
        lanes=_column(tables.lanes),
        cpu=_column(tables.cpu),
        home=_column(tables.home),
    )


def alone_of_sizes(tables: Tables, paces: Sequence[Pace | None], no_route: Nanos) -> tuple[Ints, Ints]:
    """[T] the row of each tensor's size, and [Z, P] the time of a transfer that waits for nothing, by size and pace."""
    sizes, size = np.unique(tables.tensor_bytes, return_inverse=True)
    times = [
        [no_route if pace is None else min(alone_ns(pace, one), NEVER) for pace in paces] for one in sizes.tolist()
    ]
    return size.reshape(-1), np.array(times, np.int64).reshape(len(sizes), len(paces))


def _column(values: npt.ArrayLike) -> Ints:
    made = np.array(values, np.int64).reshape(-1)
    made.setflags(write=False)
    return made


def _once(pointers: npt.NDArray[np.integer], values: npt.NDArray[np.integer], count: int) -> tuple[Ints, Ints]:
    """Rows of values, where each row begins and all in a line; what repeats within a row counts once."""
    row = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
    key = row * count + values
    order = np.argsort(key, kind="stable")
    again = np.append(False, key[order][1:] == key[order][:-1])[: len(key)]
    if not again.any():
        return _column(pointers), _column(values)
    kept = np.ones(len(key), bool)
    kept[order[again]] = False
    return _column(np.searchsorted(row[kept], np.arange(len(pointers)))), _column(values[kept])


def distinct_rows(values: list[int], pointers: list[int]) -> list[list[int]]:
    """A column split into rows; a value that repeats within a row (read in host and in device memory) counts once."""
    rows = [values[a:b] for a, b in pairwise(pointers)]
    return [row if len(row) < 2 or len(set(row)) == len(row) else list(dict.fromkeys(row)) for row in rows]
