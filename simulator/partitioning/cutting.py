"""Cut a placed graph by device: the passes in TensorFlow's order.

the step's edges ─ copy small constants ─ move control flow ─ close loops ─ pair what crosses ─▶ the pieces
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints, ids, ints
from simulator.errors import SimvizError
from simulator.graph.messages import AttrValue
from simulator.graph.step import fed_rows
from simulator.graph.step.fanin import PLACEHOLDERS
from simulator.partitioning.assembling import imported
from simulator.partitioning.control_flow import moves, settled
from simulator.partitioning.control_loops import close_loops
from simulator.partitioning.draft import CONTROL, LAST, Added, Column, step_wires, type_attr
from simulator.partitioning.levels import Level, local_level, master_level, worker_level
from simulator.partitioning.pairs import INCARNATION
from simulator.partitioning.partitions import Partitions
from simulator.partitioning.replication import replicate
from simulator.partitioning.splitting import Draft, Pieces, split, split_by_worker

if TYPE_CHECKING:
    from simulator.assignment import Assignment
    from simulator.cluster.cluster import Cluster
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step

FLAVOURS = ("local", "master")


def partition(
    graph: Graph, assignment: Assignment, cluster: Cluster, *, step: Step, flavour: str = "local"
) -> Partitions:
    """Cut the nodes that run in the step by device, as TensorFlow's partitioner does.

    Flavour "local": in one session, whatever the tasks. "master": a master cuts by task, then each worker cuts its
    piece by device. Names, attributes and keys are those of `tensorflow/core/graph/graph_partition.cc`. Fed nodes stay
    where they are, as Placeholders. Raises SimvizError if the assignment or the step is one of another graph or
    cluster.
    """
    if flavour not in FLAVOURS:
        raise SimvizError(f"There is no flavour {flavour!r}; take one of {', '.join(FLAVOURS)}.")
    if flavour == "local":
        cut = _cut(graph, assignment, cluster, step, local_level(cluster), by_creation=False)
    else:
        cut = _cut(graph, assignment, cluster, step, master_level(cluster), worker_level(cluster), by_creation=True)
    return replace(cut, graph=imported(cut.graph))


def partition_by_task(graph: Graph, assignment: Assignment, cluster: Cluster, *, step: Step) -> Partitions:
    """Cut by task alone: what a master sends to its workers, nodes and control inputs in the order of RegisterGraph.

    Edges between devices of one task are still there, so this can't be simulated; all else is as in `partition`.
    """
    return _cut(graph, assignment, cluster, step, master_level(cluster), by_creation=True)


def _cut(
    graph: Graph, assignment: Assignment, cluster: Cluster, step: Step, *levels: Level, by_creation: bool
) -> Partitions:
    names = tuple(one.name for one in cluster.devices)
    if assignment.devices != names or not len(assignment) == len(step.runs) == len(graph):
        raise SimvizError(
            f"The values do not belong together: a graph of {len(graph)} nodes on {cluster.name}, an assignment of "
            f"{len(assignment)} nodes to {len(assignment.devices)} devices, a step of {len(step.runs)} nodes. Place "
            "this graph on this cluster first."
        )
    fed = fed_rows(graph, step)
    first, *later = levels
    draft, refused, notes = _drafted(graph, step, cluster, assignment.device.astype(np.int64), fed, first)
    pieces = split(draft, first, cluster, by_creation=by_creation)
    for level in later:
        pieces = split_by_worker(pieces, level, cluster)
    return Partitions(
        graph=_with_placeholders(pieces, fed),
        device=pieces.device,
        origin=pieces.origin,
        priority=None if assignment.priority is None else ints(assignment.priority[pieces.origin]),
        inserted=pieces.inserted,
        devices=names,
        refused=refused,
        notes=notes,
        **_transfers(graph, pieces, names),
    )


def _drafted(
    graph: Graph, step: Step, cluster: Cluster, assigned: Column, fed: npt.NDArray[np.bool_], level: Level
) -> tuple[Draft, str | None, tuple[str, ...]]:
    """The passes before the pairs, why TensorFlow refuses, and what else to say about them."""
    added = Added()
    whole = step_wires(graph, step, fed)
    given, gone, next_id = replicate(graph, step, cluster, whole, assigned, fed, added)
    placed = np.concatenate([assigned, added.device]).astype(np.int64)
    device = np.array(settled(placed.tolist(), moves(graph, given, len(placed))), np.int64)
    given, numbered, refused = close_loops(graph, whole, given, device, added, next_id, level.suffix)
    device = np.concatenate([device, added.device[len(device) - len(graph) :]]).astype(np.int64)
    kept = np.asarray(step.runs) & ~gone
    moved = int(np.count_nonzero(kept & (assigned != device[: len(assigned)])))
    notes = [f"{moved} control-flow nodes run next to their values, as TensorFlow moves them"] if moved else []
    if refused:
        notes.append(f"TensorFlow refuses to cut this ({refused}); it was cut without control loops")
    return Draft(graph, given, device, added, kept, [numbered]), refused, tuple(notes)


def _with_placeholders(pieces: Pieces, fed: npt.NDArray[np.bool_]) -> Graph:
    """The graph of the pieces, where a fed node with one output is the Placeholder that it stands for."""
    graph = pieces.graph
    ops, attrs = list(graph.ops), list(graph.attrs)
    for row in np.flatnonzero(fed[pieces.origin] & ~pieces.inserted).tolist():
        first = int(graph.tensor_ptr[row])
        if ops[row] not in PLACEHOLDERS and graph.tensor_ptr[row + 1] == first + 1:
            shape = graph.tensor_shape[first]
            dims = {"unknown_rank": True} if shape is None else {"dim": [{"size": size} for size in shape]}
            ops[row] = "Placeholder"
            attrs[row] = {"dtype": type_attr(int(graph.tensor_dtype[first])), "shape": AttrValue(shape=dims)}
    return replace(graph, ops=tuple(ops), attrs=tuple(attrs))


class _Transfers(TypedDict):
    """Columns of Partitions with a row per pair that joins two devices."""

    tensor: Ids
    send: Ids
    recv: Ids
    src_device: Ids
    dst_device: Ids
    nbytes: Ints
    key: tuple[str, ...]


def _transfers(graph: Graph, pieces: Pieces, names: tuple[str, ...]) -> _Transfers:
    links = pieces.links
    here, there = pieces.device[links.send], pieces.device[links.recv]
    control = links.port == CONTROL
    row = np.where(control, -1 - links.node, graph.tensor_ptr[links.node] + links.port)
    order = np.lexsort((links.host, there, np.where(control, LAST, links.port), links.node))
    order = order[here[order] != there[order]]
    here, there, row = here[order], there[order], row[order]
    known = len(graph.tensor_bytes) > 0
    pairs = zip(here.tolist(), there.tolist(), [links.name[at] for at in order.tolist()], strict=True)
    return _Transfers(
        tensor=ids(row),
        send=ids(links.send[order]),
        recv=ids(links.recv[order]),
        src_device=ids(here),
        dst_device=ids(there),
        nbytes=ints(np.where(row < 0, 0, graph.tensor_bytes[np.maximum(row, 0)] if known else 0)),
        key=tuple(f"{names[src]};{INCARNATION:016x};{names[dst]};{name};0:0" for src, dst, name in pairs),
    )
