"""Read measured times from a file, whose content decides its form: protobuf in binary or text, JSON, or CSV.

CSV lines are `node,kind,ns`, as a person or a script writes them. Each other form has its module.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Iterable

from google.protobuf import text_format
from google.protobuf.internal.decoder import _DecodeVarint  # type: ignore[attr-defined]  # untyped
from google.protobuf.message import DecodeError

from simulator.costs.measured import MeasuredTimes, Sample
from simulator.costs.measurements import chrome_trace, run_metadata, xplane
from simulator.costs.table import MAX_OP_NS
from simulator.errors import ClusterError, GraphError
from simulator.graph.messages import CostGraphDef, Proto, RunMetadata, StepStats, XSpace, merge_text
from simulator.graph.sources import read_source, text_of
from simulator.units import DAY_NS, Nanos, show_nanos

_WANTED = "give RunMetadata, StepStats or CostGraphDef (.pb, .pbtxt), a Chrome trace, XPlane, or CSV lines node,kind,ns"
_FIRST_FIELD = re.compile(r"\s*(?:#[^\n]*\n\s*)*(\w+)\s*(?::\s*)?[{<]")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:[+-]?(?:nan|inf(?:inity)?))")
_TEXT_FORMS = {"dev_stats": StepStats, "node": CostGraphDef, "cost": CostGraphDef}  # by the first field


def read_measurement(source: str | os.PathLike[str] | MeasuredTimes) -> MeasuredTimes:
    """Read measured times from a file: the content decides its form, not the name; gzip is unpacked. Times that were
    read before are returned unchanged.

    Raises ClusterError for a file that cannot be read, has another form or was cut. A time that is not a number, is
    negative, or longer than a day is refused with its node or line. So is a file in which every op takes no time.
    """
    if isinstance(source, MeasuredTimes):
        return source
    if os.path.isdir(source):  # of a graph it could be a SavedModel
        raise ClusterError(f"{os.fspath(source)} is a folder; {_WANTED}")
    try:
        raw, label = read_source(source)
    except GraphError as error:
        raise ClusterError(str(error)) from None
    return measurement_of(raw, label)


def measurement_of(raw: bytes, label: str) -> MeasuredTimes:
    """Measured times from the content of a file without gzip, as `read_measurement`; `label` names it in messages."""
    try:
        text = text_of(raw, label)
    except GraphError as error:
        raise ClusterError(str(error)) from None
    if text is None:
        return _of_message(_parsed(raw, label), label)
    if text.lstrip()[:1] in ("{", "["):
        return _believable(chrome_trace.of_chrome_trace(text, label), label, chrome_trace.FORM)
    field = _FIRST_FIELD.match(text)
    if field:
        return _of_message(_parsed_text(text, field[1], label), label)
    return _believable(_of_csv(text, label), label, "CSV")


def from_step_stats(message: Proto, source: str = "step stats in memory") -> MeasuredTimes:
    """The measured times in a RunMetadata or StepStats message, of TensorFlow's classes or ours.

    Raises ClusterError for another message, and for times that no step takes.
    """
    name = message.DESCRIPTOR.name
    if name not in ("RunMetadata", "StepStats"):
        raise ClusterError(f"a {name} message holds no measured times; give RunMetadata or StepStats")
    found = message.step_stats if name == "RunMetadata" else message
    return _believable(run_metadata.of_step_stats(found), source, run_metadata.STEP_STATS)


def _of_message(message: Proto, label: str) -> MeasuredTimes:
    """The times of a message of any form; of a RunMetadata those of its step, else those of its cost graph."""
    name = message.DESCRIPTOR.name
    if name == "RunMetadata":
        stats = run_metadata.holds_times(message.step_stats)
        return _of_message(message.step_stats if stats else message.cost_graph, label)
    if name == "StepStats":
        return _believable(run_metadata.of_step_stats(message), label, run_metadata.STEP_STATS)
    if name == "CostGraphDef":
        return _believable(run_metadata.of_cost_graph(message, label), label, run_metadata.COST_GRAPH)
    return _believable(xplane.of_xspace(message), label, xplane.FORM)


def _parsed(raw: bytes, label: str) -> Proto:
    """The message of a binary file, of the first form that fits."""
    for form in (RunMetadata, StepStats, XSpace, CostGraphDef):
        try:
            message = form.FromString(raw)
        except DecodeError:  # not of this form: try the next
            continue
        if _fits(message):
            return message
    if _ends_within_a_field(raw):
        raise ClusterError(f"{label} is binary and ends within a field: it was cut. Fetch it again, or {_WANTED}")
    raise ClusterError(f"{label} holds no measured times of nodes; {_WANTED}")


def _fits(message: Proto) -> bool:
    name = message.DESCRIPTOR.name
    if name == "RunMetadata":
        return run_metadata.holds_times(message.step_stats) or run_metadata.has_costs(message.cost_graph)
    if name == "StepStats":
        return run_metadata.holds_times(message)
    return run_metadata.has_costs(message) if name == "CostGraphDef" else xplane.holds_planes(message)


def _ends_within_a_field(raw: bytes) -> bool:
    """Whether the content is whole fields with a length, as all of these messages are, and a last one that is not."""
    at = 0
    try:
        while at < len(raw):
            if raw[at] & 7 != 2:
                return False
            _, at = _DecodeVarint(raw, at)
            size, at = _DecodeVarint(raw, at)
            at += size
    except (IndexError, DecodeError):  # within a number
        return at > 0
    return at > len(raw)


def _parsed_text(text: str, field: str, label: str) -> Proto:
    message = _TEXT_FORMS.get(field, RunMetadata)()
    try:
        merge_text(text, message)
    except (text_format.ParseError, UnicodeError, RecursionError) as error:
        line = getattr(error, "GetLine", lambda: None)()
        raise ClusterError(
            f"{label}: {str(error)[:200].rstrip('.')}: it was cut, or is something else; {_WANTED}", line=line
        ) from None
    return message


def _of_csv(text: str, label: str) -> Iterable[Sample]:
    rows = csv.reader(io.StringIO(text), strict=True)
    headed = False
    try:
        for row in rows:
            cells = [cell.strip() for cell in row]
            if not any(cells) or cells[0].startswith("#") or (not headed and cells == ["node", "kind", "ns"]):
                continue
            headed = True
            line = rows.line_num
            if len(cells) != 3:
                shown = ",".join(cells)[:80]
                raise ClusterError(f"{label}, line {line}: {shown!r} is not node,kind,ns; {_WANTED}", line=line)
            yield Sample(cells[0], cells[1], _nanos(cells[2], label, line), line)
    except csv.Error as error:
        raise ClusterError(f"{label}, line {rows.line_num}: {error}; {_WANTED}", line=rows.line_num) from None


def _nanos(text: str, label: str, line: int) -> Nanos:
    where = f"{label}, line {line}"
    if not _NUMBER.fullmatch(text):
        raise ClusterError(f"{where}: {text[:40]!r} is not a number of nanoseconds", line=line)
    number = float(text)
    if not 0 <= number <= MAX_OP_NS:
        raise ClusterError(f"{where}: {text[:40]} ns is not from 0 to 2^53", line=line)
    return math.ceil(number)


def _believable(samples: Iterable[Sample], label: str, form: str) -> MeasuredTimes:
    """The times, if there are some and an op can take them."""
    found = tuple(samples)
    if not found:
        raise ClusterError(f"{label} holds no measured times; {_WANTED}; --observation takes observed steps")
    for one in found:
        where = f"{label}, line {one.line}" if one.line else label
        if one.ns < 0:
            said = f"{one.node!r} ends {show_nanos(-one.ns)} before it begins"
        elif one.ns > DAY_NS:
            said = f"{one.node!r} takes {one.ns / DAY_NS:,.0f} days, and no op takes longer than one"
        else:
            continue
        raise ClusterError(f"{where}: {said}, so nothing of this {form} is used", line=one.line or None)
    if not any(one.ns for one in found):
        raise ClusterError(f"{label}: every op of this {form} takes 0 ns, so nothing was measured; trace a step again")
    return MeasuredTimes(found, label, form)
