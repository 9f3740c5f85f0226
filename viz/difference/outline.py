"""The outline of a run: as much of it as a comparison of two runs needs, by names that both share.

The critical path is listed by subject. A subject is an op by its node, or a tensor by its name, in all iterations
together. The times of all subjects add up to the makespan, because each task on the path ends when the next starts.

A result that `--json` wrote before is read as an outline. What a file says is checked, never trusted.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulator import limits
from simulator.errors import SimvizError
from simulator.files import read_file
from simulator.json_text import JsonError, parse_json
from simulator.shapes.unknown import SIZED, Unsized
from simulator.units import Bytes, Nanos, is_whole, show_nanos
from simulator.wording import repr_of
from viz.difference.circumstances import MADE_OF, circumstances, made_of

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
    circumstances: Mapping[str, str] = field(default_factory=dict)  # what else a run may differ in, as far as known
    unsized: Unsized = SIZED  # tensors of the step; the makespan is a lower bound where there are some

    def __repr__(self) -> str:
        return repr_of(
            self,
            self.title,
            f"{self.algorithm} on {self.cluster}",
            f"{self.unsized.least}{show_nanos(self.makespan_ns)}",
        )


def names_of(a: Outline, b: Outline) -> tuple[str, str]:
    """The names of two runs in sentences: their labels, else algorithm and cluster, as far as these differ."""
    first, second = _told_apart(a, b)
    return a.label or first, b.label or second


def _told_apart(a: Outline, b: Outline) -> tuple[str, str]:
    if a.algorithm != b.algorithm and a.cluster != b.cluster:
        return f"{a.algorithm} on {a.cluster}", f"{b.algorithm} on {b.cluster}"
    if a.algorithm != b.algorithm:
        return a.algorithm, b.algorithm
    return (a.cluster, b.cluster) if a.cluster != b.cluster else alike(a.label)


def alike(label: str) -> tuple[str, str]:
    """The names of runs that differ in neither; the first one has a label where --against asks for it beside this."""
    return "the first run", "this run" if label else "the second run"


def unlike(a: Outline, b: Outline) -> Mapping[str, tuple[str, str]]:
    """The circumstances in which two runs differ beside algorithm and cluster, on which order and protocol depend.

    Of one placement the order is said all the same, as it alone makes the difference. What a step was made of follows
    from the name of a run that --against makes, but not from that of an earlier result.
    """
    found = {"graph": (a.title, b.title)}  # two batches of a model may have nodes of the same names
    found |= {key: (text, b.circumstances[key]) for key, text in a.circumstances.items() if key in b.circumstances}
    implied = {"order": a.algorithm != b.algorithm and a.placement != b.placement, "protocol": a.cluster != b.cluster}
    implied |= dict.fromkeys(MADE_OF, bool(a.label) and a.taking_part is not None)
    return {key: pair for key, pair in found.items() if pair[0] != pair[1] and not implied.get(key)}


# --- an earlier result -----------------------------------------------------------------------------------------------


_MARK, _BEGIN = b'"simviz"', 200  # within the first so many bytes of each result
MOST = 2**63  # of a figure
_REMAKE = "write the result again with --json"


def is_result(path: str) -> bool:
    """Tell whether a file is the JSON of a result, by its first characters."""
    try:
        with Path(path).open("rb") as file:
            return begins_result(file.read(_BEGIN))
    except OSError:  # whoever reads it for another purpose says why it can't be read
        return False


def begins_result(content: bytes) -> bool:
    """Tell whether a content is the JSON of a result, by its first characters."""
    begin = content[:_BEGIN].removeprefix(BOM_UTF8).lstrip()
    return begin.startswith(b"{") and _MARK in begin


def read_result(path: str) -> Outline:
    """The outline of the run. Raise SimvizError for a file that is damaged, or that holds no critical path.

    Results of versions before the critical path was written have none.
    """
    return result_of(read_file(path, SimvizError, limits.RESULT_BYTES), path)


def result_of(content: bytes, path: str) -> Outline:
    """The outline of a run from the content of its JSON, as `read_result`; `path` names it in messages."""
    try:
        found = parse_json(content)
    except JsonError as error:
        raise SimvizError(f"{path} begins as a result, but {error}; {_REMAKE}") from None
    return _Reader(path).outline(found)


class _Reader:
    """Values of a JSON document, each checked as it is taken. Any: JSON."""

    def __init__(self, path: str) -> None:
        self._path = path

    def outline(self, found: Any) -> Outline:
        """The outline of a whole result."""
        top = self._table(found, "the result")
        if top.get("format") != 1:
            raise SimvizError(
                f"{self._path} is a result of format {str(top.get('format'))[:40]}, and 1 is read here; {_REMAKE}"
            )
        if "compared" in top:
            raise SimvizError(
                f"{self._path} is a table of --compare, which holds no placement; name the result of a run"
            )
        if "critical" not in top or "links" not in top:
            raise SimvizError(f"{self._path}: an older version wrote this result, without a critical path; {_REMAKE}")
        path = tuple(self._part(one) for one in self._list(top, "critical"))
        placed, links = self._table(top.get("placement"), "placement"), self._table(top["links"], "links")
        makespan = self._number(top, "makespan_ns")
        if sum(part.ns for part in path) != makespan:
            raise SimvizError(f"{self._path}: the times of 'critical' do not add up to 'makespan_ns'; {_REMAKE}")
        return Outline(
            title=self._text(self._table(top.get("graph"), "graph"), "name"),
            algorithm=self._text(self._table(top.get("algorithm"), "algorithm"), "used"),
            cluster=self._text(self._table(top.get("cluster"), "cluster"), "name"),
            makespan_ns=makespan,
            placement={name: self._text(placed, name) for name in placed},
            crossings=self._crossings(top),
            link_bytes={name: self._number(links, name) for name in links},
            devices=self._devices(top),
            path=path,
            circumstances=self._circumstances(top),
            unsized=self._unsized(top),
        )

    def _part(self, found: Any) -> PathPart:
        row = self._table(found, "critical")
        kind = self._text(row, "kind")
        if kind not in SUBJECTS:
            raise SimvizError(f"{self._path}: 'critical' has the kind {kind[:40]!r}; there are {', '.join(SUBJECTS)}")
        times, ns = self._number(row, "times"), self._number(row, "ns")
        return PathPart(kind, self._text(row, "subject"), self._text(row, "place"), times, ns)

    def _circumstances(self, top: Mapping[str, Any]) -> Mapping[str, str]:
        """The file's figures of its step and simulation; results of older versions say less."""
        step = self._table(top.get("step", {}), "step")
        fetches = [one for one in self._list({"fetches": [], **step}, "fetches") if isinstance(one, str)]
        fed = self._table(step.get("fed_shapes", {}), "fed_shapes")
        shapes = {
            name: tuple(shape) for name, shape in fed.items() if isinstance(shape, list) and all(map(is_whole, shape))
        }
        simulation = self._table(top.get("simulation", {}), "simulation")
        fits = top["out_of_memory"] is None if "out_of_memory" in top else None
        return circumstances(fetches, shapes, simulation, self._facts(step), self._made(top), fits)

    def _made(self, top: Mapping[str, Any]) -> Mapping[str, str]:
        """The training, the microbatches and the sources of times in the file; older versions do not say them."""
        holders = ("training", "pipelined", "observed")
        if not all(key in top for key in (*holders, "counts")):
            return {}
        training, pipelined, observed = (top[key] and self._table(top[key], key) for key in holders)
        counts = self._table(top["counts"], "counts")
        return made_of(
            regime=self._text(training, "regime") if training else None,
            microbatches=self._number(pipelined, "microbatches") if pipelined else 1,
            observed_nodes=self._number(observed, "nodes") if observed else 0,
            measured_ops=self._number(counts, "measured_costs"),
            profiled_ops=self._number(counts, "profile_costs"),
            modelled_ops=self._number({"model_costs": 0, **counts}, "model_costs"),
        )

    def _facts(self, step: Mapping[str, Any]) -> Mapping[str, Any]:
        trips, ways = (self._table(step.get(key, {}), key) for key in ("trips", "branches"))
        return {
            "batch": None if step.get("batch") is None else self._number(step, "batch"),
            "trips": {loop: self._number(trips, loop) for loop in trips},
            "branches": {name: self._text(ways, name) for name in ways},
        }

    def _unsized(self, top: Mapping[str, Any]) -> Unsized:
        """The file's tensors of unknown size; older versions do not say the op."""
        ops = self._table(top.get("unsized_ops", {}), "unsized_ops")
        remedy = None if top.get("unsized_remedy") is None else self._text(top, "unsized_remedy")
        tables = self._number(top, "unsized_tables") if "unsized_tables" in top else 0
        return Unsized({op: self._number(ops, op) for op in ops}, remedy or "", tables)

    def _crossings(self, top: Mapping[str, Any]) -> Mapping[str, Crossing]:
        total: dict[str, Crossing] = {}
        for one in self._list(top, "transfers"):
            row = self._table(one, "transfers")
            name = self._text(row, "tensor")
            before = total.get(name, Crossing(0, 0))
            total[name] = Crossing(before.times + 1, before.nbytes + self._number(row, "bytes"))
        return total

    def _devices(self, top: Mapping[str, Any]) -> Mapping[str, DeviceUse]:
        rows = self._table(top.get("devices"), "devices")
        used = {name: self._table(row, "devices") for name, row in rows.items()}
        return {
            name: DeviceUse(self._number(row, "peak_bytes"), self._number(row, "busy_ns")) for name, row in used.items()
        }

    def _table(self, found: Any, what: str) -> Mapping[str, Any]:
        if not isinstance(found, dict):
            raise self._wrong(what, "an object")
        return found

    def _list(self, table: Mapping[str, Any], key: str) -> list[Any]:
        if not isinstance(table.get(key), list):
            raise self._wrong(key, "a list")
        found: list[Any] = table[key]
        return found

    def _text(self, table: Mapping[str, Any], key: str) -> str:
        found = table.get(key)
        if not isinstance(found, str):
            raise self._wrong(key, "a text")
        return found

    def _number(self, table: Mapping[str, Any], key: str) -> int:
        found = table.get(key)
        if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < MOST:
            raise self._wrong(key, "a whole number, not negative")
        return found

    def _wrong(self, what: str, wanted: str) -> SimvizError:
        return SimvizError(f"{self._path}: {what[:80]!r} is not {wanted}; {_REMAKE}")
