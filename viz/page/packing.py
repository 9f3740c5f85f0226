"""The columns of a page in less room: each as its differences from what the page predicts by itself.

    start of a slice    the end of the slice before it on its lane
    ready, of an op     the last end of its inputs: of ops, and of transfers where they cross devices
    ready, otherwise    the stage of its transfer before it
    value asked for     the end of the op that makes it
    value sent, through the start of its first slice on a link, and the end of its last one
    transfer of edge    that of its tensor to the device of its consumer
    nodes that moved    those with another device in the run beside

Most of these differences are 0, and repeat. Any other column of times or ids is predicted by the entry before it. A run
beside the page's own leaves out what both have. `assets/unpacking.js` has the same rules, and undoes all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias  # Any: JSON

import numpy as np

from simulator.columns import Flags, Ints, stable_order
from simulator.graph.graph import Graph
from viz.page.time_content import Json

Member: TypeAlias = Mapping[str, Any]

# From the entry before, or from that of another column of the member, which stands before it here.
DIFFERENCES: Mapping[str, Mapping[str, str]] = {
    "timeline": {"transfer": "", "critical": ""},
    "slices": {"node": ""},
    "transfers": {
        "packed_ns": "asked_ns",
        "arrived_ns": "through_ns",
        "unpacked_ns": "arrived_ns",
        "tensor": "",
        "pair": "",
    },
    "edges": {"dst": "", "src": "dst"},
    "tensors": {"ptr": ""},
    "tree": {"order": "", "parent": "", "folded": "", "host": "folded"},
    "curve": {"time_ns": "", "bytes": ""},
}
SHARED = ("summary", "cluster", "nodes")  # members of a run beside: what both runs have in common is left out
_LATE = ("timeline", "slices", "transfers", "edges")  # these predict each other: sent when all are known


def packed_parts(parts: Iterable[tuple[str, Any]], graph: Graph, *, compared: bool) -> Iterator[tuple[str, Json]]:
    """The members of the page's content as it holds them, of which those that predict each other come together.

    Only where two runs are compared is all of the first one kept: it may be large.
    """
    own: dict[str, Any] = {}  # of the page's run
    late: dict[str, Any] = {}
    for name, value in parts:
        if name == "nodes":
            own[name] = value if compared else {key: _numbers(value[key]) for key in ("device", "runs")}
        elif name in SHARED:
            own[name] = value
        if name in _LATE:
            late[name] = value
        elif name == "against":
            yield name, _packed_against(value, own, graph)
        else:
            yield name, _packed_member(name, value)
        if len(late) == len(_LATE):
            edges = late["edges"]
            own["edges"] = {key: edges[key] for key in ("src", "dst", "tensor")}
            yield from _packed_times(late, own["nodes"], edges, graph)
            late.clear()


def _packed_against(value: Any, own: Member, graph: Graph) -> Json:
    if value is None:
        return None
    found = {
        **value,
        "parts": [[*part[:3], _packed_rows(part[3], 1, graph)] for part in value["parts"]],
        "crossings": _packed_rows(value["crossings"], 0, graph),
        "moved": _columns(value["moved"], 0),
    }
    if run := value["run"]:
        found["run"] = _packed_beside(run, own, graph)
        # their devices in the step say nothing of their placement
        apart = {*own["nodes"]["moved"], *run["nodes"]["moved"]}
        found["moved"] = _columns([row for row in value["moved"] if row[0] in apart], 0)
    return found


def _packed_beside(run: Member, own: Member, graph: Graph) -> dict[str, Json]:
    late = {name: run[name] for name in _LATE}
    found = {name: _packed_member(name, value) for name, value in run.items() if name not in _LATE}
    for name in SHARED:
        found[name] = {key: value for key, value in run[name].items() if not _equal(value, own[name][key])}
    return found | dict(_packed_times(late, run["nodes"], own["edges"], graph))


def _equal(value: Any, other: Any) -> bool:
    return np.array_equal(value, other) if isinstance(value, np.ndarray) else bool(value == other)


def _packed_member(name: str, value: Any) -> Json:
    """A member that no other one predicts."""
    if value is None:
        return None
    if name == "critical":
        return _differences(value)
    if name == "memory":
        return {**value, "curves": [_packed_columns("curve", curve) for curve in value["curves"]]}
    return _packed_columns(name, value) if name in DIFFERENCES else value


def _packed_columns(name: str, member: Member) -> dict[str, Any]:
    found = dict(member)
    for column, beside in DIFFERENCES[name].items():
        if column in member:
            found[column] = _differences(member[column], member[beside] if beside else None)
    return found


def _differences(column: Sequence[int] | Ints, beside: Sequence[int] | Ints | None = None) -> Ints:
    """From the entry before, or from that of another column."""
    values = _numbers(column)
    return np.diff(values, prepend=0) if beside is None else values - _numbers(beside)


def _numbers(column: Sequence[int] | Ints) -> Ints:
    return np.asarray(column, np.int64)


# --- what the page predicts ------------------------------------------------------------------------------------------


def _packed_times(late: Mapping[str, Any], nodes: Member, edges: Member, graph: Graph) -> Iterator[tuple[str, Json]]:
    """The members of a run that predict each other; `edges` are those of the graph."""
    predicted = _Predictor(late, nodes, edges, graph)
    timeline, transfers, of_edges = late["timeline"], late["transfers"], late["edges"]
    yield (
        "timeline",
        {
            **_packed_columns("timeline", timeline),
            "start_ns": _differences(timeline["start_ns"], predicted.starts()),
            "end_ns": _differences(timeline["end_ns"], timeline["start_ns"]),
            "ready_ns": _differences(timeline["ready_ns"], predicted.readies()),
        },
    )
    yield "slices", _packed_columns("slices", late["slices"])
    yield (
        "transfers",
        {
            **_packed_columns("transfers", transfers),
            "asked_ns": _differences(transfers["asked_ns"], predicted.asked()),
            **{key: _differences(transfers[key], wires) for key, wires in predicted.on_links().items()},
        },
    )
    packed = {
        **_packed_columns("edges", of_edges),
        "transfer": _differences(of_edges["transfer"], predicted.transfers()),
    }
    if "tensor" in of_edges:
        tensor, made = _numbers(of_edges["tensor"]), graph.tensor_ptr[_numbers(of_edges["src"])]
        packed["tensor"] = np.where(tensor < 0, -1, tensor - made)  # ports
    yield "edges", packed


class _Predictor:
    """Times and transfers of a run as the page predicts them before it knows the differences."""

    def __init__(self, late: Mapping[str, Any], nodes: Member, edges: Member, graph: Graph) -> None:
        times, slices, moved = late["timeline"], late["slices"], late["transfers"]
        self._lanes = times["lanes"]
        self._lane, self._of = _numbers(times["lane"]), _numbers(times["transfer"])
        self._start, self._end = _numbers(times["start_ns"]), _numbers(times["end_ns"])
        self._packs = _numbers(times["packs"])
        self._iterations = max(1, len(slices["iterations"]))
        self._node, self._iteration = _numbers(slices["node"]), _numbers(slices["iteration"])
        self._moved = {key: _numbers(value) for key, value in moved.items() if key not in ("routes", "dead")}
        self._src, self._dst, self._tensor = (_numbers(edges[key]) for key in ("src", "dst", "tensor"))
        self._transfer = _numbers(late["edges"]["transfer"])
        self._device, self._runs = _numbers(nodes["device"]), _numbers(nodes["runs"]) > 0
        self._graph = graph
        self._ends = _Last(self._node * self._iterations + self._iteration, self._end[: len(self._node)])

    def starts(self) -> Ints:
        """The end of the slice before it on its lane; 0 of the first."""
        order = stable_order(self._lane)
        found = np.zeros(len(order), np.int64)
        follows = np.flatnonzero(np.diff(self._lane[order]) == 0) + 1
        found[order[follows]] = self._end[order[follows - 1]]
        return found

    def asked(self) -> Ints:
        """The end of the op that makes the value, in the transfer's iteration; 0 where it has none."""
        tensor = self._moved["tensor"]
        node = np.where(tensor < 0, -1 - tensor, np.searchsorted(self._graph.tensor_ptr, tensor, "right") - 1)
        return self._ends.of(node * self._iterations + self._moved["iteration"])

    def on_links(self) -> dict[str, Ints]:
        """The first start and the last end of a transfer's slices on links; where it has none, it is packed."""
        rows = np.flatnonzero(self._on_link())
        found = {"sent_ns": self._moved["packed_ns"].copy(), "through_ns": self._moved["packed_ns"].copy()}
        found["sent_ns"][self._of[rows]] = np.iinfo(np.int64).max
        np.minimum.at(found["sent_ns"], self._of[rows], self._start[rows])
        np.maximum.at(found["through_ns"], self._of[rows], self._end[rows])
        return found

    def _on_link(self) -> Flags:
        """[S] whether a slice is that of a transfer on a link."""
        return np.array([kind == "link" for kind, *_ in self._lanes], bool)[self._lane] & (self._of >= 0)

    def transfers(self) -> Ints:
        """The first transfer of an edge's value to its consumer's device; -1 if both ends run on one."""
        devices = int(self._device.max(initial=0)) + 1
        devices = max(devices, int(self._moved["dst"].max(initial=0)) + 1)
        carried = np.where(self._tensor < 0, -1 - self._src, self._tensor)
        least = int(min(carried.min(initial=0), self._moved["tensor"].min(initial=0)))
        rows = np.arange(len(self._moved["tensor"]))[::-1]
        keys = (self._moved["tensor"] - least) * devices + self._moved["dst"]
        first = _Last(keys[::-1], rows, missing=-1)
        here, there = self._device[self._src], self._device[self._dst]
        crosses = self._runs[self._src] & self._runs[self._dst] & (here != there)
        return np.where(crosses, first.of((carried - least) * devices + there), -1)

    def readies(self) -> Ints:
        """Of an op the last end of its inputs in its iteration; of a slice of a transfer the stage before it."""
        found = np.zeros(len(self._of), np.int64)
        found[: len(self._node)] = self._inputs_there()
        rows = np.arange(len(self._node), len(self._of))
        on_link = self._on_link()[rows]
        packs = np.isin(rows, self._packs)
        moments = (self._moved[key][self._of[rows]] for key in ("packed_ns", "asked_ns", "arrived_ns"))
        found[rows] = np.select([on_link, packs], [next(moments), next(moments)], next(moments))
        return found

    def _inputs_there(self) -> Ints:
        count, many = len(self._graph), self._iterations
        order = stable_order(self._dst)
        ptr = np.searchsorted(self._dst[order], np.arange(count + 1))
        fan_in = np.diff(ptr)[self._node]
        slot = np.arange(fan_in.sum()) - np.repeat(np.cumsum(fan_in) - fan_in, fan_in)  # of an op's inputs
        op = np.repeat(np.arange(len(self._node)), fan_in)
        edge = order[ptr[self._node[op]] + slot]
        pair = self._moved["pair"][self._transfer[edge]] if len(self._moved["pair"]) else np.zeros(len(edge), np.int64)
        arrivals = _Last(self._moved["pair"] * many + self._moved["iteration"], self._moved["unpacked_ns"])
        there = np.where(
            self._transfer[edge] < 0,
            self._ends.of(self._src[edge] * many + self._iteration[op]),
            arrivals.of(pair * many + self._iteration[op]),
        )
        found = np.zeros(len(self._node), np.int64)
        np.maximum.at(found, op, there)
        return found


class _Last:
    """The last of the values that a key has, `missing` where it has none."""

    def __init__(self, keys: Ints, values: Ints, missing: int = 0) -> None:
        order = stable_order(keys)
        self._keys, self._values, self._missing = keys[order], values[order], missing

    def of(self, keys: Ints) -> Ints:
        """The values of these keys."""
        if not len(self._keys):
            return np.full(len(keys), self._missing, np.int64)
        at = np.maximum(np.searchsorted(self._keys, keys, "right") - 1, 0)
        return np.where(self._keys[at] == keys, self._values[at], self._missing)


# --- rows with names -------------------------------------------------------------------------------------------------


def _columns(rows: Sequence[Sequence[Any]], node: int) -> list[Ints | list[Any]]:
    """The columns of rows; that of nodes as differences."""
    return [_differences(one) if at == node else list(one) for at, one in enumerate(zip(*rows, strict=True))]


def _packed_rows(rows: Sequence[Sequence[Any]], at: int, graph: Graph) -> list[Ints | list[Any]]:
    """The columns of rows that name a node, first or second, and in place `at` itself or a tensor of it.

    Of such a name the part behind the node's is left, or "^" before that; a name of its own begins with a space.
    """
    short = []
    for row in rows:
        said, name = row[at], graph.names[row[1 - at]] if row[1 - at] >= 0 else None
        rest = f" {said}"
        if name is not None and said.removeprefix("^").startswith(name):
            rest = ("^" if said.startswith("^") and not name.startswith("^") else "") + said.removeprefix("^")[
                len(name) :
            ]
            if rest[:1] not in ("", ":", "#", "^") or _unpacked_name(rest, name) != said:
                rest = f" {said}"
        short.append([*row[:at], rest, *row[at + 1 :]])
    return _columns(short, 1 - at)


def _unpacked_name(rest: str, name: str) -> str:
    if rest.startswith(" "):
        return rest[1:]
    return f"^{name}{rest[1:]}" if rest.startswith("^") else name + rest
