"""The errors that simviz raises on purpose: what is wrong, where, and what to do about it.

Each carries its facts as attributes, so that a caller can act on them; the message is for people. The outermost
call (the command line, a notebook) adds the user's own words: the file, the cluster, the algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class SimvizError(Exception):
    """Something that the user can understand and mend; every deliberate error is one."""


class GraphError(SimvizError):
    """The input is not a graph, or a malformed one. `node` is the first offender where there is one."""

    def __init__(self, message: str, *, node: str | None = None) -> None:
        super().__init__(message)
        self.node = node


class UnsupportedError(SimvizError):
    """Well-formed, but simviz does not model it. `op` is the op that it does not know how to treat."""

    def __init__(self, message: str, *, op: str | None = None, node: str | None = None) -> None:
        super().__init__(message)
        self.op = op
        self.node = node


class ClusterError(SimvizError):
    """A cluster description, preset name, device name or calibration file that cannot be read."""

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class InfeasibleError(SimvizError):
    """No allowed device can hold a group or its resident bytes.

    `node` is the one that TensorFlow names in its refusal, None where it names none. `members` are the names of the
    nodes that must stay together, `allows` says per member which devices it admits.
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
    """A plan exceeds a device's memory while it runs: when, how much was needed, and what was alive.

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
    """Nothing can run any more though work is left; `waiting` names nodes and what each waits for."""

    def __init__(self, message: str, *, waiting: Mapping[str, Sequence[str]] | None = None) -> None:
        super().__init__(message)
        self.waiting = dict(waiting or {})


class OracleError(SimvizError):
    """TensorFlow is missing, refused the graph, or did not answer in time; `refusal` is its own sentence."""

    def __init__(self, message: str, *, refusal: str | None = None) -> None:
        super().__init__(message)
        self.refusal = refusal
