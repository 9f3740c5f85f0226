"""CSV lines `node,kind,ns`, as a person or a script writes them."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable

from simulator.costs.measured import Sample
from simulator.costs.table import MAX_NS
from simulator.errors import ClusterError
from simulator.units import Nanos

FORM = "CSV"


def of_csv(text: str, label: str, wanted: str) -> Iterable[Sample]:
    """The samples of a text; `wanted` says in errors which forms there are."""
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
                raise ClusterError(f"{label}, line {line}: {shown!r} is not node,kind,ns; {wanted}", line=line)
            yield Sample(cells[0], cells[1], _nanos(cells[2], label, line), line)
    except csv.Error as error:
        raise ClusterError(f"{label}, line {rows.line_num}: {error}; {wanted}", line=rows.line_num) from None


def _nanos(text: str, label: str, line: int) -> Nanos:
    where = f"{label}, line {line}"
    try:
        number = float(text)
    except ValueError:
        raise ClusterError(f"{where}: {text[:40]!r} is not a number of nanoseconds", line=line) from None
    if not 0 <= number <= MAX_NS:
        raise ClusterError(f"{where}: {text[:40]} ns is not from 0 to 2^53", line=line)
    return math.ceil(number)
