"""Measured times from files: RunMetadata or StepStats, binary or text, or CSV lines `node,kind,ns`.

A StepStats holds one line per node and device. On a GPU the line of the device has the time of the host's work on the
op. The line of its streams has the times of its kernels. Where there are kernels, the sum of their times counts, and
the launch is added later. On a CPU an op's time is `op_end - op_start`, as in `tensorflow/core/graph/costmodel.cc`.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from simulator.costs.table import MAX_NS
from simulator.errors import ClusterError, GraphError
from simulator.graph.messages import Proto, RunMetadata, StepStats
from simulator.graph.sources import read_source, text_of
from simulator.units import Nanos

_GPU = re.compile(r"(?i)[/:]gpu:\d+")
_KERNELS = "/stream:all"  # all streams of a GPU; "/stream:7" says the same again, "/memcpy" is no op
_DEVICE = re.compile(r"(?i)^(/job:[^/]+/replica:\d+/task:\d+)?/(device:)?(cpu|gpu):\d+$")
_FORM = "give RunMetadata or StepStats (.pb, .pbtxt), or CSV lines node,kind,ns"
# "name = Op(inputs)", behind "[cpu 1.5MB 2.0MB] " of an op with memory of its own; oneDNN's kernels are named apart
_LABEL = re.compile(r"(?:\[[^\]]*\] ?)?\S+ = (?:_Mkl)?(\w+)\(")
_FIRST_FIELD = re.compile(r"\s*(?:#[^\n]*\n\s*)*(\w+)\s*:?\s*\{")


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured run of a node."""

    node: str
    where: str  # a device kind, a type ("CPU" or "GPU"), or a device's name
    ns: Nanos
    line: int = 0  # in a CSV file
    kernels_only: bool = False  # the launch is not in it
    op: str = ""  # of the node, where the measurement has it


@dataclass(frozen=True, eq=False)
class MeasuredTimes:
    """Measured times of nodes; several per node and place for several steps."""

    samples: tuple[Sample, ...]
    source: str  # the file


def read_measurement(source: str | os.PathLike[str]) -> MeasuredTimes:
    """Read measured times from a file. The content decides its form; gzip is unpacked.

    Raises ClusterError for a file that cannot be read or has another form. A time that is not a number, negative or
    absurd is refused with its line.
    """
    if os.path.isdir(source):  # of a graph it could be a SavedModel
        raise ClusterError(f"{os.fspath(source)} is a folder; {_FORM}")
    try:
        raw, label = read_source(source)
        text = text_of(raw, label)
    except GraphError as error:
        raise ClusterError(str(error)) from None
    if text is None:
        return MeasuredTimes(tuple(_of_stats(_parsed(raw, label))), label)
    field = _FIRST_FIELD.match(text)
    if field:
        return MeasuredTimes(tuple(_of_stats(_parsed_text(text, field[1], label))), label)
    return MeasuredTimes(tuple(_of_csv(text, label)), label)


def from_step_stats(message: Proto, source: str = "step stats in memory") -> MeasuredTimes:
    """The measured times in a RunMetadata or StepStats message, of TensorFlow's classes or ours."""
    name = message.DESCRIPTOR.name
    if name not in ("RunMetadata", "StepStats"):
        raise ClusterError(f"a {name} message holds no measured times; give RunMetadata or StepStats")
    return MeasuredTimes(tuple(_of_stats(message.step_stats if name == "RunMetadata" else message)), source)


def fitted(measurement: MeasuredTimes, step_ns: Nanos, lanes: int = 1) -> MeasuredTimes:
    """The times of one traced step, shortened until those of a device fit into the step as it is without tracing.

    Tracing lengthens ops, above all those with large temporary memory; a device of so many lanes can't work for longer
    than the step takes. Devices of which less was measured are shortened by the same factor: they were traced, too.
    Times that fit stay as they are. Raises ClusterError for a step that takes no time.
    """
    if step_ns < 1:
        raise ClusterError(f"{measurement.source}: the step is said to take {step_ns} ns; say what it takes untraced")
    sums: dict[str, Nanos] = {}
    for sample in measurement.samples:
        sums[sample.where] = sums.get(sample.where, 0) + sample.ns
    most = max(sums.values(), default=0)
    if most <= lanes * step_ns:
        return measurement
    samples = tuple(replace(one, ns=-(-one.ns * lanes * step_ns // most)) for one in measurement.samples)
    return MeasuredTimes(samples, measurement.source)


# --- CSV -------------------------------------------------------------------------------------------------------------


def _of_csv(text: str, label: str) -> Iterable[Sample]:
    rows = csv.reader(io.StringIO(text), strict=True)
    found = 0
    try:
        for row in rows:
            cells = [cell.strip() for cell in row]
            if not any(cells) or cells[0].startswith("#") or (not found and cells == ["node", "kind", "ns"]):
                continue
            found += 1
            line = rows.line_num
            if len(cells) != 3:
                shown = ",".join(cells)[:80]
                raise ClusterError(f"{label}, line {line}: {shown!r} is not node,kind,ns; {_FORM}", line=line)
            yield Sample(cells[0], cells[1], _nanos(cells[2], label, line), line)
    except csv.Error as error:
        raise ClusterError(f"{label}, line {rows.line_num}: {error}; {_FORM}", line=rows.line_num) from None
    if not found:
        raise ClusterError(f"{label} holds no measured times; {_FORM}")


def _nanos(text: str, label: str, line: int) -> Nanos:
    where = f"{label}, line {line}"
    try:
        number = float(text)
    except ValueError:
        raise ClusterError(f"{where}: {text[:40]!r} is not a number of nanoseconds", line=line) from None
    if not 0 <= number <= MAX_NS:
        raise ClusterError(f"{where}: {text[:40]} ns is not from 0 to 2^53", line=line)
    return math.ceil(number)


# --- StepStats -------------------------------------------------------------------------------------------------------


def _parsed(raw: bytes, label: str) -> Proto:
    for form in (RunMetadata, StepStats):
        try:
            message = form.FromString(raw)
        except DecodeError:  # not of this form: try the next
            continue
        found = message.step_stats if form is RunMetadata else message
        if any(device.node_stats and "/" in device.device for device in found.dev_stats):
            return found
    raise ClusterError(f"{label} holds no measured times of nodes; {_FORM}")


def _parsed_text(text: str, field: str, label: str) -> Proto:
    message = StepStats() if field == "dev_stats" else RunMetadata()
    try:
        text_format.Parse(text, message)
    except (text_format.ParseError, UnicodeError, RecursionError) as error:
        line = getattr(error, "GetLine", lambda: None)()
        raise ClusterError(f"{label}: {str(error)[:200].rstrip('.')}; {_FORM}", line=line) from None
    return message if field == "dev_stats" else message.step_stats


def _of_stats(stats: Proto) -> Iterable[Sample]:
    """Kernel times, summed per node and GPU; then the host's times of what has no kernels there."""
    kernels: dict[tuple[str, str], Nanos] = {}
    ops: dict[str, str] = {}
    for device in stats.dev_stats:
        if device.device.endswith(_KERNELS) and _GPU.search(device.device):
            for node in device.node_stats:
                key = (_node_name(node), device.device.removesuffix(_KERNELS))
                kernels[key] = min(MAX_NS, kernels.get(key, 0) + _run_ns(node))
                ops[key[0]] = _op(node)
    for (name, device_name), nanos in kernels.items():
        yield Sample(name, device_name, nanos, kernels_only=True, op=ops[name])
    launched = {name for name, _ in kernels}
    for device in stats.dev_stats:
        if _DEVICE.match(device.device):
            on_gpu = _GPU.search(device.device) is not None
            for node in device.node_stats:
                if not (on_gpu and _node_name(node) in launched):
                    yield Sample(_node_name(node), device.device, _run_ns(node), op=_op(node))


def _node_name(node: Proto) -> str:
    """The node's name; the GPU tracer writes "name:Op"."""
    return str(node.node_name.split(":", 1)[0])


def _op(node: Proto) -> str:
    """The op of a line, by the label "name = Op(..)" or the name "name:Op"; "" where neither has it."""
    labelled = _LABEL.match(node.timeline_label)
    return labelled[1] if labelled else str(node.node_name.partition(":")[2])


def _run_ns(node: Proto) -> Nanos:
    if node.op_end_rel_nanos:
        spent = node.op_end_rel_nanos - node.op_start_rel_nanos
    else:
        spent = 1000 * (node.op_end_rel_micros - node.op_start_rel_micros)
    return min(max(0, int(spent)), MAX_NS)
