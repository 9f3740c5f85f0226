"""Copy small constants to where they are read, so that they never cross between CPUs.

The rule of `tensorflow/core/common_runtime/replicate_constants_pass.cc`, which is on by default: a Const on a CPU
with at most 16 elements and no control successor, read on two or more targets, is deleted and made anew on each
target. The target of a reader is its own device if that is a CPU, else a CPU of its task (`Cluster.home`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from simulator.cluster.cluster import Cluster
from simulator.graph.graph import Graph
from simulator.graph.step import Step
from simulator.partitioning.draft import CONTROL, FIRST_ID, LAST, Added, Column, Wires, wires

MAX_ELEMENTS = 16  # replicate_constants_pass.cc


def is_small(graph: Graph, row: int) -> bool:
    """Whether a constant's value says that it has few enough elements to be copied."""
    value = graph.attrs[row].get("value")
    if value is None:
        return False
    elements = 1
    for dim in value.tensor.tensor_shape.dim:
        elements *= dim.size
    return bool(0 <= elements <= MAX_ELEMENTS)


def replicate(
    graph: Graph, step: Step, cluster: Cluster, given: Wires, device: Column, fed: npt.NDArray[np.bool_], added: Added
) -> tuple[Wires, npt.NDArray[np.bool_], int]:
    """Replace each constant that TensorFlow copies; the wires that result, which rows [N] are gone, the next edge id.

    Copies are added in order of node id, then of device name. Their edges get the last ids, as the pass makes them:
    for each copy its readers, then what it waits for.
    """
    gone = np.zeros(len(graph), bool)
    reading = _readings(graph, cluster, given, device, fed)
    target = cluster.home[device[given.dst[reading]]].astype(np.int64)
    gone[_of_several_targets(given.src[reading], target)] = True
    chosen = gone[given.src[reading]]
    stays = ~(gone[given.src] | gone[given.dst])
    given = replace(given, id=_dense_ids(graph, given, stays, step.runs & ~gone))
    next_id = FIRST_ID + int(np.count_nonzero(stays)) + _source_and_sink_edges(graph, step, given, gone)
    if gone.any():
        given, next_id = _copies(graph, cluster, given, gone, reading[chosen], target[chosen], added, next_id)
    return given, gone, next_id


def _readings(
    graph: Graph, cluster: Cluster, given: Wires, device: Column, fed: npt.NDArray[np.bool_]
) -> npt.NDArray[np.intp]:
    """The wires that read a constant which may be copied."""
    on_cpu = np.array([one.type == "CPU" for one in cluster.devices], bool)[device]
    may = np.fromiter((op == "Const" for op in graph.ops), bool, len(graph)) & on_cpu & ~fed
    may[given.src[given.port == CONTROL]] = False
    several = np.bincount(given.src, minlength=len(graph)) > 1
    rows = np.flatnonzero(may & several)
    may[:] = False
    may[[row for row in rows.tolist() if is_small(graph, row)]] = True
    return np.flatnonzero(may[given.src])


def _of_several_targets(row: Column, target: Column) -> Column:
    pairs = np.unique(np.stack([row, target]), axis=1)
    rows, counts = np.unique(pairs[0], return_counts=True)
    return rows[counts > 1]


def _copies(
    graph: Graph,
    cluster: Cluster,
    given: Wires,
    gone: npt.NDArray[np.bool_],
    reading: npt.NDArray[np.intp],
    target: Column,
    added: Added,
    next_id: int,
) -> tuple[Wires, int]:
    place = graph.place
    names = tuple(one.name for one in cluster.devices)
    src, number = given.src.copy(), given.id.copy()
    readers: dict[tuple[int, int], list[int]] = {}
    order = np.argsort(given.id[reading])
    for wire, home in zip(reading[order].tolist(), target[order].tolist(), strict=True):
        readers.setdefault((int(given.src[wire]), home), []).append(wire)
    waits: dict[int, list[int]] = {}
    for wire in np.flatnonzero(gone[given.dst]).tolist():  # in order of position, as a graph's edges are
        waits.setdefault(int(given.dst[wire]), []).append(int(given.src[wire]))
    fresh = []
    for row, home in sorted(readers, key=lambda pair: (place[pair[0]], names[pair[1]])):
        copy = _copy(graph, row, home, added)
        read = readers[row, home]
        src[read] = copy
        number[read] = range(next_id, next_id + len(read))
        next_id += len(read)
        fresh += [(one, CONTROL, copy, LAST, next_id + at) for at, one in enumerate(waits.get(row, ()))]
        next_id += max(len(waits.get(row, ())), 1)  # one that waits for nothing hangs on TensorFlow's source
    return replace(given, src=src, id=number).take(~gone[given.dst]).join(wires(fresh)), next_id


def _copy(graph: Graph, row: int, home: int, added: Added) -> int:
    first = int(graph.tensor_ptr[row])
    output = (int(graph.tensor_dtype[first]), graph.tensor_shape[first], int(graph.tensor_bytes[first]))
    name = f"{graph.names[row]}/replicate/_{len(added)}"
    return len(graph) + added.node(name, "Const", graph.attrs[row], row, home, (output,))


def _dense_ids(graph: Graph, given: Wires, stays: npt.NDArray[np.bool_], runs: npt.NDArray[np.bool_]) -> Column:
    """Ids without the gaps of edges that do not stay, which keep theirs until they get new ones.

    The edges of TensorFlow's source and sink count where they were made before others.
    """
    ends = np.concatenate([graph.creation.source[runs], graph.creation.sink[runs]])
    rows = np.flatnonzero(stays)
    all_ids = np.sort(np.concatenate([given.id[rows], FIRST_ID + ends[ends >= 0]]))
    number: Column = given.id.copy()
    number[rows] = FIRST_ID + np.searchsorted(all_ids, given.id[rows])
    return number


def _source_and_sink_edges(graph: Graph, step: Step, given: Wires, gone: npt.NDArray[np.bool_]) -> int:
    """How many edges come before the copies' own: to TensorFlow's source and sink, and those of fetches."""
    runs = np.asarray(step.runs) & ~gone
    fetched = _tensors(step.fetches)
    valued = np.zeros(len(graph), bool)
    valued[[graph.row(name.rpartition(":")[0]) for name in fetched]] = True
    has_input, has_output = np.zeros(len(graph), bool), np.zeros(len(graph), bool)
    has_input[given.dst] = True
    has_output[given.src] = True
    sinks = runs & ((graph.creation.sink >= 0) | (~has_output & ~valued))
    return int(np.count_nonzero(runs & ~has_input) + np.count_nonzero(sinks)) + 2 * len(fetched)


def _tensors(fetches: Iterable[str]) -> list[str]:
    return [name for name in fetches if ":" in name]
