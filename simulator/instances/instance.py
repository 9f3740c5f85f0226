"""An instance: a graph together with the times of its nodes, and mostly the machines on which they run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.assignment import Assignment
from simulator.cluster.cluster import Cluster
from simulator.columns import Ints, ids, ints
from simulator.costs.table import MEASURED, CostTable
from simulator.graph.attributes import COLOCATION, colocation
from simulator.graph.building import build
from simulator.graph.graph import Attrs, Graph

UINT8 = 4  # tensorflow/core/framework/types.proto: a dimension is a byte
BOUNDLESS_BYTES = 2**50  # of a device whose memory the file does not limit: 1 PiB
_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\-/]{0,200}")


@dataclass(frozen=True, eq=False)
class Instance:
    """A problem of placement as a file states it, and how a placement is written back in the form of that file."""

    form: str  # of the file, in words
    graph: Graph  # every tensor has its size, and no shape has to be found
    cluster: Cluster  # the machines of the file
    run_ns: Mapping[str, Ints]  # kind or type of a device -> [N] time of each node, -1: it does not run there
    resident_bytes: Ints  # [N]
    only_there: bool  # no other cluster fits, since sizes of tensors stand for times on these links
    written: Callable[[Assignment], str]  # a placement in the form of the file

    def costs(self, cluster: Cluster) -> CostTable:
        """The times of the file on the device kinds of a cluster."""
        types = {device.kind: device.type for device in cluster.devices}
        nowhere = ints(np.full(len(self.graph), -1))
        columns = [self.run_ns.get(kind, self.run_ns.get(types[kind], nowhere)) for kind in cluster.kinds]
        run_ns = np.stack(columns, axis=1).astype(np.int64)
        run_ns.setflags(write=False)
        zero = ints(np.zeros(len(self.graph), np.int64))
        return CostTable(
            kinds=cluster.kinds,
            run_ns=run_ns,
            scratch_bytes=zero,
            resident_bytes=self.resident_bytes,
            source=ids(np.full(len(self.graph), MEASURED)),
            flops=zero,
            moved_bytes=zero,
        )


def graph_of(
    names: Sequence[str],
    ops: Sequence[str],
    requested: Sequence[str],
    inputs: Sequence[Sequence[str]],
    classes: Sequence[str | None],
    sizes: Mapping[tuple[int, int], int],
    source: str,
    notes: Sequence[str],
) -> Graph:
    """The graph of these nodes.

    `classes` [N] has the name of the node beside which a node stays. `sizes` has the bytes of a node's output by row
    and port; outputs that are missing there have none. Raises GraphError as `build` does.
    """
    attrs: list[Attrs] = [{} if beside is None else {COLOCATION: colocation([beside])} for beside in classes]
    made = build(names, ops, requested, inputs, attrs, source=source, notes=notes)
    places = zip(made.tensor_node.tolist(), made.tensor_port.tolist(), strict=True)
    nbytes = [sizes.get(place, 0) for place in places]
    return replace(
        made,
        tensor_dtype=ids(np.full(len(nbytes), UINT8)),
        tensor_shape=tuple((size,) for size in nbytes),
        tensor_bytes=ints(nbytes),
    )


def node_names(wanted: Sequence[object], otherwise: Sequence[str]) -> list[str]:
    """The wanted names if all are distinct names that a graph may have, else the others."""
    fits = all(isinstance(name, str) and _NAME.fullmatch(name) for name in wanted)
    return [str(name) for name in wanted] if fits and len(set(wanted)) == len(wanted) else list(otherwise)
