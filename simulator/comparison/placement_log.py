"""Read the log that TensorFlow writes with `log_device_placement`: the device that its placer gave each node.

    scope/MatMul: (MatMul): /job:localhost/replica:0/task:0/device:GPU:0       as printed
    ... placer.cc:114] scope/MatMul: (MatMul)/job:localhost/.../gpu:0          with a prefix; as old releases write it

LogDeviceAssignment in `tensorflow/core/common_runtime/placer.cc` prints each line to standard output, and with a prefix
to standard error. Bodies of functions are logged, too, by the names of their nodes. An op that TensorFlow 2 runs
eagerly ("Executing op MatMul in device ...", execute.cc) has no node: such lines are counted only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from simulator.cluster.devicespec import parse
from simulator.errors import SimvizError
from simulator.wording import counted

_NODE = re.compile(r"(?:^|[\s\]])([A-Za-z0-9.][A-Za-z0-9_.\\/>-]*): \((\w[\w>]*)\)(?:: ?)?(/job:\S+)\s*$")
_EAGER = re.compile(r"Executing op \S+ (?:in|on) device /")


@dataclass(frozen=True, slots=True)
class Logged:
    """The placement in a log."""

    source: str
    placement: Mapping[str, str]  # node -> full device name, in order of its first line
    ambiguous: tuple[str, ...] = ()  # logged with several devices: bodies of several functions, or several runs
    eager: int = 0  # lines about ops that ran eagerly, without a node
    ops: Mapping[str, frozenset[str]] = field(default_factory=dict)  # of each node: several where lines differ


def read_log(text: str, source: str) -> Logged:
    """The placement in a log; other lines are passed over.

    Raises SimvizError where no line names a node: with what to do, if ops ran eagerly. Raises it for a device that is
    not named in full, too: TensorFlow logs no such line, so the log was cut.
    """
    devices: dict[str, set[str]] = {}
    ops: dict[str, set[str]] = {}
    eager = 0
    for line in text.splitlines():
        found = _NODE.search(line)
        if found is not None:
            devices.setdefault(found[1], set()).add(_canonical(found[3], line, source))
            ops.setdefault(found[1], set()).add(found[2])
        elif _EAGER.search(line):
            eager += 1
    if not devices and eager:
        raise SimvizError(
            f"{source} holds {counted(eager, 'line')} about ops that ran eagerly, which are no nodes of a graph. Log "
            "the placement of a tf.function or of a session."
        )
    if not devices:
        raise SimvizError(
            f"{source} holds no line such as 'w/read: (Identity): /job:localhost/replica:0/task:0/device:GPU:0'. Give "
            "what TensorFlow prints with log_device_placement=True."
        )
    return Logged(
        source,
        {name: next(iter(given)) for name, given in devices.items() if len(given) == 1},
        tuple(name for name, given in devices.items() if len(given) > 1),
        eager,
        {name: frozenset(given) for name, given in ops.items()},
    )


def _canonical(device: str, line: str, source: str) -> str:
    """The full name as TensorFlow 2 writes it: old releases say "gpu:0" for "device:GPU:0"."""
    try:
        spec = parse(device)
    except SimvizError as error:
        raise SimvizError(f"{source}: {error} (in the line {line.strip()[:200]!r})") from None
    if None in spec:
        raise SimvizError(
            f"{source} was cut or changed: a log names each device in full, such as "
            f"'/job:localhost/replica:0/task:0/device:GPU:0', and not {device[:200]!r} (in the line "
            f"{line.strip()[:200]!r})."
        )
    return str(spec)
