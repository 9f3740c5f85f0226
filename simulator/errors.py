"""The errors of simviz. A message gives the fault, its place, and a remedy.

Each error has its facts as attributes for callers. The outermost call (the command line, a notebook) adds the user's
own names: the file, the cluster, the algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simulator.wording import brief


class SimvizError(Exception):
    """The base of all deliberate errors, which the user can understand and mend.

    The message leaves out the middle of a name or a quotation that is longer than a sentence can carry.
    """

    def __init__(self, message: str) -> None:
        super().__init__(brief(message))


class GraphError(SimvizError):
    """The input is no graph, or a malformed one. `node` is the first node at fault, if any."""

    def __init__(self, message: str, *, node: str | None = None) -> None:
        super().__init__(message)
        self.node = node


class UnsupportedError(SimvizError):
    """The input is well-formed, but simviz does not model it. `op` is the op that it does not model."""

    def __init__(self, message: str, *, op: str | None = None, node: str | None = None) -> None:
        super().__init__(message)
        self.op = op
        self.node = node


class ClusterError(SimvizError):
    """A cluster description, preset name, device name or file of measurements that can't be read or believed."""

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class InfeasibleError(SimvizError):
    """No allowed device can hold a group or its resident bytes.

    `node` is the node that TensorFlow names in its refusal, None where it names none. `members` are the names of the
    nodes that must stay together, `allows` has the devices that each member admits.
    """

    def __init__(
        self,
        message: str,
        *,
        node: str | None = None,
        members: Sequence[str] = (),
        allows: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(message)
        self.node = node
        self.members = tuple(members)
        self.allows = dict(allows or {})


class OutOfMemoryError(SimvizError):
    """A plan exceeds a device's memory while it runs. The error has the time, the bytes needed and free.

    `live` holds the largest live tensors as (name, bytes), largest first.
    """

    def __init__(
        self,
        message: str,
        *,
        device: str,
        time_ns: int,
        needed_bytes: int,
        free_bytes: int,
        live: Sequence[tuple[str, int]] = (),
    ) -> None:
        super().__init__(message)
        self.device = device
        self.time_ns = time_ns
        self.needed_bytes = needed_bytes
        self.free_bytes = free_bytes
        self.live = tuple(live)


class DeadlockError(SimvizError):
    """Work is left, but no node can run; `waiting` maps nodes to what each waits for."""

    def __init__(self, message: str, *, waiting: Mapping[str, Sequence[str]] | None = None) -> None:
        super().__init__(message)
        self.waiting = dict(waiting or {})


class OracleError(SimvizError):
    """TensorFlow is missing, refused the graph, or did not answer in time; `refusal` is TensorFlow's sentence."""

    def __init__(self, message: str, *, refusal: str | None = None) -> None:
        super().__init__(message)
        self.refusal = refusal


def raise_interrupt(error: ImportError) -> None:
    """Raise the KeyboardInterrupt of which C code made that error: a library that was loading is not missing."""
    if isinstance(error.__cause__, KeyboardInterrupt):
        raise error.__cause__
