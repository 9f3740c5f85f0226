"""The outline of a run: as much of it as a comparison of two runs needs, by names that both share.

The critical path is told by subject. A subject is an op by its node, or a tensor by its name, in all iterations
together. The times of all subjects add up to the makespan, because each task on the path ends when the next starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simulator.units import Bytes, Nanos, show_nanos
from simulator.wording import repr_of

OP, CROSSING, MESSAGE, REQUEST = "op", "crossing", "message", "request"
SUBJECTS = (OP, CROSSING, MESSAGE, REQUEST)  # of a part of the path
MEMORY = "the host's memory"  # the place of what is handed over between devices that no link joins


@dataclass(frozen=True, slots=True)
class PathPart:
    """The time of one subject on the critical path."""

    kind: str  # op; crossing of links; message: work of packing and unpacking; request: of a Recv
    subject: str  # a node; else a tensor as "node:port", or "^node" for a control edge
    place: str  # the device, else the link, on which most of this time goes by; the first of equal ones
    times: int  # ops or transfers
    ns: Nanos


@dataclass(frozen=True, slots=True)
class Crossing:
    """All transfers of one tensor in a step."""

    times: int  # also those that only say that there is no value
    nbytes: Bytes  # together; those of unknown size count nothing


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """One device in a step."""

    peak_bytes: Bytes
    busy_ns: Nanos


@dataclass(frozen=True, eq=False)
class Outline:
    """One run by names: of nodes, tensors, devices and links."""

    title: str
    algorithm: str
    cluster: str
    makespan_ns: Nanos
    placement: Mapping[str, str]  # node -> full device name
    crossings: Mapping[str, Crossing]  # by tensor
    link_bytes: Mapping[str, Bytes]  # by link, of those that carry something
    devices: Mapping[str, DeviceUse]  # by full name
    path: tuple[PathPart, ...]  # in order of their first task; their times add up to the makespan
    taking_part: frozenset[str] | None = None  # nodes of the step; None: unknown
    label: str = ""  # what sentences call the run; "": by algorithm and cluster

    def __repr__(self) -> str:
        return repr_of(self, self.title, f"{self.algorithm} on {self.cluster}", show_nanos(self.makespan_ns))
