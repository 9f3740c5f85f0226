"""A profile: what kernels, ops, steps and messages take on one machine, as measured there, and its TOML file.

    simviz = "profile 5"
    machine = "..."            tensorflow = "..."      date = "..."
    cores = 2                  onednn = true           cache_bytes = 2097152
    streams = [[footprint, nanoseconds per byte], ...]
    [figures]                  name = [value, spread], nanoseconds
    [kernels]                  columns = [...]         rows = [[...], ...]

A spread is how much longer the median of the runs was than their lower quartile, which counts. Nothing of a file is
used unless all of it is there and each figure is between sane bounds.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from simulator import limits
from simulator.cluster.cluster import MAX_CORES, Cluster
from simulator.cluster.protocols import GRPC, Protocol, protocol_note
from simulator.errors import ClusterError
from simulator.files import read_file, replace_file
from simulator.units import show_nanos
from simulator.wording import counted

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FORM = "profile 5"
MAX_ROWS = 10_000
MAX_KERNEL_NS = 10**11  # 100 s; calibration gives a kernel a twentieth of a second
MAX_CACHE_BYTES = MAX_STREAM_BYTES = 2**40
MAX_STREAMS = 64
MAX_SPREAD = 100.0  # a median of a hundred times the lower quartile: the machine was not there
BUSY = 0.15  # spread of the kernel in the middle; on a quiet machine it is 0.02
_REMAKE = "make a new one with simviz --calibrate"


class Figure(NamedTuple):
    """A measured time in nanoseconds, and its spread."""

    ns: float
    spread: float


# name -> least and most nanoseconds; bytes take less than a message, and a hand-over of memory can be free
FIGURES: Mapping[str, tuple[float, float]] = {
    "dispatch": (1, 10**6),  # of an op by the executor
    "step": (10, 10**9),  # of a session in one process, without work
    "read_byte": (0, 10**4),  # of weights that lie beyond all caches, by a product with one row
    "cluster_step": (10, 10**9),  # the same by a master
    "other_task": (0, 10**9),  # added to that by each further task
    "hop": (100, 10**9),  # of a message, from the end of an op to the start of its reader
    "send": (10, 10**9),  # work of the sender's processor on a message
    "receive": (10, 10**9),  # of the receiver's
    "hop_byte": (0, 10**4),  # each further byte of a message
    "send_byte": (0, 10**4),
    "receive_byte": (0, 10**4),
}
OF_ONE_CORE = frozenset(("dispatch", "step", "read_byte"))  # the others are of messages between two processes
_KEYS = ("simviz", "machine", "tensorflow", "date", "cores", "onednn", "cache_bytes", "streams", "figures", "kernels")


@dataclass(frozen=True, slots=True)
class KernelTime:
    """The measured time of one kernel on so many cores, and what it did."""

    op: str
    cores: int
    ns: float  # dispatch included, after other kernels whose tensors fill the caches of a core
    spread: float
    warm_ns: float  # after others that leave these caches to it; `ns` of one whose own tensors fill them
    flops: int
    moved_bytes: int
    m: int = 0  # of the product that it is; 0: of none
    n: int = 0
    k: int = 0
    times: int = 0
    taps: int = 0  # of a convolution; 0: of none
    variant: str = ""  # of the op, which takes another time at equal counts


COLUMNS = tuple(field.name for field in fields(KernelTime))


@dataclass(frozen=True, eq=False)
class Profile:
    """Times of kernels, memory, dispatch and links on one machine."""

    machine: str  # its processor
    cores: int
    tensorflow: str  # version
    onednn: bool  # whether TensorFlow used oneDNN's kernels
    date: str  # of the measurement, "2026-11-22"
    cache_bytes: int  # of the largest cache that a core has for itself
    streams: tuple[tuple[int, float], ...]  # bytes that a step touches, nanoseconds of a byte it makes
    figures: Mapping[str, Figure]  # by the names of FIGURES; without two cores those of messages are missing
    kernels: tuple[KernelTime, ...]
    source: str = "a profile in memory"  # the file

    def __repr__(self) -> str:
        return f"Profile({self.machine}, {self.cores} cores, TensorFlow {self.tensorflow}, {self.date})"

    @property
    def title(self) -> str:
        """The machine and the day of the measurement, for notes."""
        return f"{self.source}: {self.machine}, {self.cores} cores, TensorFlow {self.tensorflow}, {self.date}"

    def to_toml(self) -> str:
        """The text of a profile's file."""
        head = {"simviz": FORM, **{key: getattr(self, key) for key in _KEYS[1:8]}}
        lines = ["# Times on one machine, in nanoseconds; made by simviz --calibrate."]
        lines += [f"{key} = {_toml(value)}" for key, value in head.items()]
        lines += ["", "[figures] # [value, spread]"]
        lines += [f"{name} = {_toml(list(figure))}" for name, figure in self.figures.items()]
        lines += ["", "[kernels]", f"columns = {_toml(list(COLUMNS))}", "rows = ["]
        lines += [f"  {_toml(list(astuple(one)))}," for one in self.kernels]
        return "\n".join([*lines, "]", ""])

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file whole, or leave what is there. Raises ClusterError when the system refuses."""
        try:
            replace_file(Path(path), self.to_toml().encode())
        except OSError as error:
            raise ClusterError(f"{os.fspath(path)} cannot be written: {error.strerror}") from None


def _toml(value: object) -> str:
    """A value in TOML. A number has six digits; JSON writes all others, too, as TOML does."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        return repr(float(f"{value:.6g}"))
    return json.dumps(value, ensure_ascii=True)


# --- reading ---------------------------------------------------------------------------------------------------------


def read_profile(source: str | os.PathLike[str] | Profile) -> Profile:
    """Read a profile's file; a Profile is returned unchanged.

    Raises ClusterError for a file that is no profile, is not whole, or has a figure that nothing takes.
    """
    if isinstance(source, Profile):
        return source
    label = os.fspath(source)
    try:
        table = tomllib.loads(read_file(label, ClusterError, limits.FILE_BYTES).decode("utf-8-sig"))
    except (UnicodeDecodeError, RecursionError):
        raise ClusterError(f"{label} is no profile, which is text in TOML; {_REMAKE}") from None
    except ValueError as error:  # a number of thousands of digits is one, too
        raise ClusterError(f"{label} is no whole profile ({str(error)[:120]}); {_REMAKE}") from None
    return _read(table, label)


def _read(table: Mapping[str, Any], label: str) -> Profile:  # Any: whatever TOML holds
    def fail(message: str) -> NoReturn:
        raise ClusterError(f"{label}: {message}; {_REMAKE}")

    if str(table.get("simviz")).startswith("profile ") and table["simviz"] != FORM:
        raise ClusterError(f"{label} is a profile of another version of simviz; {_REMAKE}")
    if table.get("simviz") != FORM:
        raise ClusterError(f'{label} is no profile: it does not say simviz = "{FORM}"; {_REMAKE}')
    if missing := [key for key in _KEYS if key not in table]:
        fail(f"{missing[0]!r} is missing, so the profile is not whole")
    if unknown := sorted(table.keys() - set(_KEYS)):
        fail(f"{unknown[0][:40]!r} is not a key of a profile")
    texts = {key: table[key] for key in ("machine", "tensorflow", "date")}
    for key, text in texts.items():
        if not isinstance(text, str) or not 0 < len(text) <= 200 or not text.isprintable():
            fail(f"{key} = {str(text)[:40]!r} is not a line of text")
    cores, onednn = table["cores"], table["onednn"]
    if not _is_count(cores, MAX_CORES) or not isinstance(onednn, bool):
        fail(f"cores = {str(cores)[:40]} and onednn = {str(onednn)[:40]} are not a number of cores and true or false")
    if not _is_count(table["cache_bytes"], MAX_CACHE_BYTES):
        fail(f"cache_bytes = {str(table['cache_bytes'])[:40]} is not a number of bytes from 1 to {MAX_CACHE_BYTES:,}")
    return Profile(
        **texts,
        cores=cores,
        onednn=onednn,
        cache_bytes=table["cache_bytes"],
        streams=_streams(table["streams"], fail),
        figures=_figures(table["figures"], fail),
        kernels=_kernels(table["kernels"], cores, fail),
        source=label,
    )


def _streams(rows: Any, fail: Any) -> tuple[tuple[int, float], ...]:  # Any: the function that raises
    if not isinstance(rows, list) or not 2 <= len(rows) <= MAX_STREAMS:
        fail(f"streams are not from 2 to {MAX_STREAMS} pairs of bytes and nanoseconds, so the profile is not whole")
    found: list[tuple[int, float]] = []
    for row in rows:
        if not isinstance(row, list) or len(row) != 2 or not _is_count(row[0], MAX_STREAM_BYTES):
            fail(f"{str(row)[:40]} in streams is not [bytes, nanoseconds per byte]")
        if found and row[0] <= found[-1][0]:
            fail(f"{row[0]} bytes in streams do not come after {found[-1][0]}, which are as many or more")
        _check_time(f"a byte of {row[0]:,} in streams", row[1], 0.0, 0, FIGURES["hop_byte"][1], fail)
        found.append((row[0], float(row[1])))
    return tuple(found)


def _figures(table: Any, fail: Any) -> dict[str, Figure]:  # Any: the function that raises
    if not isinstance(table, dict) or not table.keys() >= OF_ONE_CORE:
        fail("[figures] lacks 'dispatch', 'step' or 'read_byte', so the profile is not whole")
    messages = FIGURES.keys() - OF_ONE_CORE
    if table.keys() & messages and not table.keys() >= messages:
        fail(f"[figures] lacks {min(messages - table.keys())!r}, so the profile is not whole")
    found = {}
    for name, value in table.items():
        if name not in FIGURES:
            fail(f"[figures] has {name[:40]!r}, which is not a figure of a profile")
        if not isinstance(value, list) or len(value) != 2:
            fail(f"{name} = {str(value)[:40]} is not [nanoseconds, spread]")
        low, high = FIGURES[name]
        _check_time(name, value[0], value[1], low, high, fail)
        found[name] = Figure(float(value[0]), float(value[1]))
    return found


def _kernels(table: Any, cores: int, fail: Any) -> tuple[KernelTime, ...]:  # Any: the function that raises
    if not isinstance(table, dict) or table.get("columns") != list(COLUMNS) or not isinstance(table.get("rows"), list):
        fail(f"[kernels] lacks the columns {', '.join(COLUMNS)} or rows, so the profile is not whole")
    rows = table["rows"]
    if not 0 < len(rows) <= MAX_ROWS:
        fail(f"[kernels] has {len(rows)} rows, not from 1 to {MAX_ROWS}")
    found = []
    for number, row in enumerate(rows, 1):
        where = f"row {number} of [kernels]"
        if not isinstance(row, list) or len(row) != len(COLUMNS) or not isinstance(row[0], str) or not row[0]:
            fail(f"{where} has not {len(COLUMNS)} columns, of which the first is an op")
        counts = [row[1], *row[5:12]]
        if not all(_is_count(count, 2**60, least=0) for count in counts) or not isinstance(row[12], str):
            fail(f"{where} ({row[0][:40]!r}) has a count that is none, or no variant")
        if (sides := sum(map(bool, row[7:11]))) not in (0, 4) or (row[11] and not sides):
            fail(f"{where} ({row[0][:40]!r}) has sides of a product that is none")
        if not 1 <= row[1] <= cores:
            fail(f"{where} ({row[0][:40]!r}) is of {row[1]} cores, and the machine has {cores}")
        for ns in (row[2], row[4]):
            _check_time(f"{where} ({row[0][:40]!r})", ns, row[3], 1, MAX_KERNEL_NS, fail)
        found.append(KernelTime(row[0], row[1], float(row[2]), float(row[3]), float(row[4]), *row[5:]))
    if not any(one.cores == 1 for one in found):
        fail("[kernels] has none on one core, so the profile is not whole")
    return tuple(found)


def _check_time(what: str, ns: Any, spread: Any, low: float, high: float, fail: Any) -> None:
    """Any: the function that raises. Not a number is between no bounds."""
    if not _is_number(ns) or not low <= ns <= high:
        fail(f"{what} takes {str(ns)[:40]} ns, which is not from {low:g} to {high:g}")
    if not _is_number(spread) or not 0 <= spread <= MAX_SPREAD:
        fail(f"{what} has a spread of {str(spread)[:40]}, which is not from 0 to {MAX_SPREAD:g}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object, most: int, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


# --- messages --------------------------------------------------------------------------------------------------------


def protocol_of(profile: Profile) -> Protocol | None:
    """GRPC with the measured figures; None where messages were not measured.

    The hop without its work at both ends and the wire's latency is waiting. A request that is posted late is taken for
    half a hop, as for the shipped protocol.
    """
    figures = profile.figures
    if "hop" not in figures:
        return None
    hop, send, receive = (figures[name].ns for name in ("hop", "send", "receive"))
    return replace(
        GRPC,
        request_ns=math.ceil(hop / 2),
        send_ns=math.ceil(send),
        receive_ns=math.ceil(receive),
        send_ps_per_byte=math.ceil(1000 * figures["send_byte"].ns),
        receive_ps_per_byte=math.ceil(1000 * figures["receive_byte"].ns),
        latency_ns=max(0, math.ceil(hop - send - receive) - _WIRE_NS),
        source=f"measured: {profile.source}",
    )


_WIRE_NS = 2_000  # the loopback of `topology.LOOPBACK`, which a route counts itself


def with_messages(cluster: Cluster, profile: Profile) -> Cluster:
    """The cluster with the profile's gRPC, where tasks talk by the shipped one; else unchanged."""
    measured = protocol_of(profile)
    if measured is None or cluster.between_tasks != GRPC:
        return cluster
    notes = [note for note in cluster.notes if note != protocol_note(GRPC)]
    said = [protocol_note(measured)] if len(cluster.tasks) > 1 else []
    return replace(cluster, between_tasks=measured, notes=(*notes, *said))


def summary(profile: Profile) -> str:
    """The measured figures, in some lines."""
    figures = profile.figures
    spreads = sorted(one.spread for one in profile.kernels)
    middle, one_of_ten = (spreads[len(spreads) * part // 10] for part in (5, 9))
    took = {name: show_nanos(round(figure.ns)) for name, figure in figures.items()}
    onednn = "with oneDNN" if profile.onednn else "without oneDNN"
    lines = [
        f"{profile.machine}, {counted(profile.cores, 'core')}, TensorFlow {profile.tensorflow} {onednn}.",
        f"{counted(len(profile.kernels), 'kernel')} timed; the median of its runs lies above their lower quartile by "
        f"{middle:.1%} for the kernel in the middle, by {one_of_ten:.1%} or more for one of ten.",
        f"An op takes {took['dispatch']} besides its kernel, a step without work {took['step']}.",
    ]
    if "hop" in figures:
        lines.append(
            f"A message to another process takes {took['hop']}, with {took['send']} and {took['receive']} of work at "
            f"its ends; a byte {figures['hop_byte'].ns:.2f} ns, with {figures['send_byte'].ns:.2f} and "
            f"{figures['receive_byte'].ns:.2f} ns of work."
        )
    else:
        lines.append("One core: messages between processes were not timed.")
    if middle > BUSY:
        lines.append("The machine was busy: calibrate again when nothing else runs.")
    return "\n".join(lines)
