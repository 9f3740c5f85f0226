"""The file of an observed step: gzip over one JSON object with a version. Nothing in it is trusted.

{"form": 1, "graph": .., "tensorflow": .., "machine": .., "digest": .., "feeds": {tensor: shape}, "fetches": [..],
"synthetic": [..], "step_ns": .., "traced_ns": ..,
"nodes": {name: [op, runs, ns, scratch_bytes, [[port, [[runs, shape], ..]], ..]]}}
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping
from math import prod
from typing import TypeAlias

from simulator import limits
from simulator.costs.table import MAX_OP_NS
from simulator.errors import ClusterError, GraphError
from simulator.files import GZIP, read_file, unzipped
from simulator.graph.graph import Shape
from simulator.graph.tensors import MAX_RANK, MAX_TENSOR_BYTES
from simulator.json_text import parse_json
from simulator.observed.observed_step import ObservedNode, ObservedStep, SeenShape
from simulator.units import DAY_NS, Nanos

FORM = 1
MAX_LINE = 200  # characters of a version, a processor or a digest
_LEAST_NS: Nanos = 1000  # of a step: a session takes longer without any op
_REMAKE = "observe the graph anew"
_MARK = b'{"digest": '  # the beginning of what `dump` writes, unfolded

_Json: TypeAlias = "bool | int | float | str | list[_Json] | dict[str, _Json] | None"


def dump(observed: ObservedStep) -> bytes:
    """The content of the file: the same bytes for the same step. Raises GraphError if it would be too large."""
    nodes = {
        name: [
            node.op,
            node.runs,
            node.ns,
            node.scratch_bytes,
            [[port, [[one.runs, list(one.shape)] for one in seen]] for port, seen in sorted(node.outputs.items())],
        ]
        for name, node in observed.nodes.items()
    }
    facts = {
        "form": FORM,
        "graph": observed.graph,
        "tensorflow": observed.tensorflow,
        "machine": observed.machine,
        "digest": observed.digest,
        "feeds": {name: list(shape) for name, shape in observed.feeds.items()},
        "fetches": list(observed.fetches),
        "synthetic": list(observed.synthetic),
        "step_ns": observed.step_ns,
        "traced_ns": observed.traced_ns,
        "nodes": nodes,
    }
    content = gzip.compress(json.dumps(facts, sort_keys=True).encode(), mtime=0)
    if len(content) > limits.OBSERVED_BYTES.most // 4:
        raise GraphError(
            f"the observed step of {observed.graph} would take {len(content):,} bytes; observe a part, or "
            f"{limits.OBSERVED_BYTES.remedy}"
        )
    return content


def read_observed(source: str | os.PathLike[str]) -> ObservedStep:
    """Read an observed step. Raises ClusterError for a file that is none, is damaged or too large, or of another form.

    So it does for times that nothing takes: more than a day for an op or a step, less than a microsecond for a step. So
    it does where none of the ops takes any time.
    """
    where = os.fspath(source)
    packed = read_file(where, ClusterError, limits.OBSERVED_BYTES, share=4)
    try:
        content = _unpacked(packed)
    except ValueError as error:
        raise _damaged(where, error) from None
    return observed_of(content, where)


def is_observed(content: bytes) -> bool:
    """Tell whether a content without gzip is that of an observed step, by its first characters."""
    return content.startswith(_MARK)


def observed_of(content: bytes, where: str) -> ObservedStep:
    """The observed step of a file's content without gzip, as `read_observed`; `where` names it in messages."""
    try:
        facts = _object(parse_json(content), "the whole")
        form = _of(facts, "form")
        if type(form) is not int or form != FORM:
            raise ClusterError(
                f"{where} is an observed step of form {str(form)[:40]}, and {FORM} is read here; {_REMAKE}."
            )
        return _read(facts, where)
    except ValueError as error:
        raise _damaged(where, error) from None


def _damaged(where: str, error: ValueError) -> ClusterError:
    return ClusterError(f"{where} is no observed step, or a damaged one: {error}; {_REMAKE}.")


def _unpacked(packed: bytes) -> bytes:
    """The text, of bounded size."""
    if not packed.startswith(GZIP):
        raise ValueError("it is not packed by gzip")
    try:
        return unzipped(packed, limits.OBSERVED_BYTES, alone=True)
    except ValueError as error:
        raise ValueError(f"it {error}") from None


def _read(facts: Mapping[str, _Json], where: str) -> ObservedStep:
    feeds, nodes = (_object(_of(facts, key), key) for key in ("feeds", "nodes"))
    step_ns, traced_ns = (_number(_of(facts, key), DAY_NS, key) for key in ("step_ns", "traced_ns"))
    for key, ns in (("step_ns", step_ns or _LEAST_NS), ("traced_ns", traced_ns)):
        if ns < _LEAST_NS:
            raise ValueError(f"{key} is {ns}, and no step takes less than {_LEAST_NS} ns")
    found = {name: _node(row, f"the node {name[:80]!r}") for name, row in nodes.items()}
    times = [node.ns for node in found.values() if node.ns >= 0]
    if times and not any(times):
        raise ValueError("every op takes 0 ns, so nothing was measured")
    return ObservedStep(
        graph=_text(_of(facts, "graph"), "graph"),
        **{key: _line(_of(facts, key), key) for key in ("tensorflow", "machine", "digest")},
        feeds={name: _shape(shape, f"the feed {name[:80]!r}") for name, shape in feeds.items()},
        fetches=tuple(_text(one, "a fetch") for one in _list(_of(facts, "fetches"), "fetches")),
        synthetic=tuple(_text(one, "a variable") for one in _list(_of(facts, "synthetic"), "synthetic")),
        step_ns=step_ns,
        traced_ns=traced_ns,
        nodes=found,
        source=where,
    )


def _node(row: _Json, what: str) -> ObservedNode:
    op, runs, ns, scratch_bytes, outputs = _list(row, what, 5)
    ports = [_output(one, what) for one in _list(outputs, what)]
    node = ObservedNode(
        op=_text(op, what),
        runs=_number(runs, MAX_OP_NS, what),
        ns=_number(ns, DAY_NS, what, least=-1),
        scratch_bytes=_number(scratch_bytes, MAX_TENSOR_BYTES, what),
        outputs=dict(ports),
    )
    if len(node.outputs) < len(ports):
        raise ValueError(f"{what} has one output twice")
    if any(node.alive(port) > node.runs for port in node.outputs):
        raise ValueError(f"an output of {what} had a value more often than it ran")
    return node


def _output(pair: _Json, what: str) -> tuple[int, tuple[SeenShape, ...]]:
    port, found = _list(pair, what, 2)
    seen = []
    for one in _list(found, what):
        runs, shape = _list(one, what, 2)
        seen.append(SeenShape(_number(runs, MAX_OP_NS, what, least=1), _shape(shape, what)))
    if not seen:
        raise ValueError(f"{what} has an output without a shape")
    return _number(port, limits.CLAIMED.most, what), tuple(seen)


def _shape(value: _Json, what: str) -> Shape:
    shape = tuple(_number(side, MAX_TENSOR_BYTES, what) for side in _list(value, what))
    if len(shape) > MAX_RANK:
        raise ValueError(f"{what} has a shape of {len(shape)} dimensions")
    if prod(shape) > MAX_TENSOR_BYTES:
        raise ValueError(f"{what} has a shape of more elements than a tensor holds")
    return shape


def _of(table: Mapping[str, _Json], key: str) -> _Json:
    if key not in table:
        raise ValueError(f"it lacks {key!r}")
    return table[key]


def _number(value: _Json, most: int, what: str, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{what} has {str(value)[:40]!r}, which is no number from {least} to {most}")
    return value


def _line(value: _Json, what: str) -> str:
    """A text that a note can quote."""
    text = _text(value, what)
    if len(text) > MAX_LINE or not text.isprintable():
        raise ValueError(f"{what} is no line of text")
    return text


def _text(value: _Json, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} has {str(value)[:40]!r}, which is no text")
    return value


def _list(value: _Json, what: str, length: int | None = None) -> list[_Json]:
    if not isinstance(value, list):
        raise ValueError(f"{what} has {str(value)[:40]!r}, which is no list")
    if length is not None and len(value) != length:
        raise ValueError(f"{what} has a list of {len(value)}, not {length}")
    return value


def _object(value: _Json, what: str) -> Mapping[str, _Json]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no object")
    return value
