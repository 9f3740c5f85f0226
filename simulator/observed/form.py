"""The file of an observed step: gzip over one JSON object with a version. Nothing in it is trusted.

{"form": 1, "graph": .., "tensorflow": .., "machine": .., "digest": .., "feeds": {tensor: shape}, "fetches": [..],
"synthetic": [..], "step_ns": .., "traced_ns": ..,
"nodes": {name: [op, runs, ns, scratch_bytes, [[port, [[runs, shape], ..]], ..]]}}
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from simulator.errors import GraphError
from simulator.graph.graph import Shape
from simulator.graph.tensors import MAX_BYTES as MAX_TENSOR_BYTES
from simulator.graph.tensors import MAX_OUTPUTS
from simulator.observed.observed_step import MAX_NS, ObservedNode, ObservedStep, SeenShape

FORM = 1
MAX_FILE_BYTES = 2**26
MAX_BYTES = 2**28  # unpacked; a node takes about 100
MAX_RANK = 254  # of TensorFlow's shapes
SUFFIX = ".observed"

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
    if len(content) > MAX_FILE_BYTES:
        raise GraphError(f"the observed step of {observed.graph} would take {len(content):,} bytes; observe a part")
    return content


def read_observed(source: str | os.PathLike[str]) -> ObservedStep:
    """Read an observed step. Raises GraphError for a file that is none, is damaged or too large, or of another form."""
    where = os.fspath(source)
    try:
        with Path(source).open("rb") as file:
            packed = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise GraphError(f"{where} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if len(packed) > MAX_FILE_BYTES:
        raise GraphError(f"{where} is larger than any observed step ({MAX_FILE_BYTES:,} bytes); name another file.")
    try:
        facts = json.loads(_unpacked(packed, where))
        form = facts["form"]
        if form != FORM:
            raise GraphError(f"{where} is an observed step of form {form!r}, and {FORM} is read here; observe anew.")
        return _read(facts, where)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__} {str(error)[:100]}"
        raise GraphError(f"{where} is no observed step, or a damaged one ({reason}); observe the graph anew.") from None


def _unpacked(packed: bytes, where: str) -> bytes:
    """The text, of bounded size."""
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)  # gzip's head
    try:
        content = unpacker.decompress(packed, MAX_BYTES)
    except zlib.error:
        raise ValueError("it is not packed by gzip") from None
    if unpacker.unconsumed_tail:
        raise GraphError(f"{where} unpacks to more than {MAX_BYTES:,} bytes: it is no observed step.")
    if not unpacker.eof:
        raise ValueError("its end is missing")
    return content


def _read(facts: Mapping[str, _Json], where: str) -> ObservedStep:
    feeds, nodes = _object(facts["feeds"]), _object(facts["nodes"])
    return ObservedStep(
        graph=_text(facts["graph"]),
        tensorflow=_text(facts["tensorflow"]),
        machine=_text(facts["machine"]),
        digest=_text(facts["digest"]),
        feeds={name: _shape(shape) for name, shape in feeds.items()},
        fetches=tuple(_text(one) for one in _list(facts["fetches"])),
        synthetic=tuple(_text(one) for one in _list(facts["synthetic"])),
        step_ns=_number(facts["step_ns"], MAX_NS),
        traced_ns=_number(facts["traced_ns"], MAX_NS),
        nodes={name: _node(row) for name, row in nodes.items()},
        source=where,
    )


def _node(row: _Json) -> ObservedNode:
    op, runs, ns, scratch_bytes, outputs = _list(row)
    node = ObservedNode(
        op=_text(op),
        runs=_number(runs, MAX_NS),
        ns=_number(ns, MAX_NS, least=-1),
        scratch_bytes=_number(scratch_bytes, MAX_TENSOR_BYTES),
        outputs=dict(_output(one) for one in _list(outputs)),
    )
    if any(node.alive(port) > node.runs for port in node.outputs):
        raise ValueError("an output had a value more often than its node ran")
    return node


def _output(pair: _Json) -> tuple[int, tuple[SeenShape, ...]]:
    port, found = _list(pair)
    seen = []
    for one in _list(found):
        runs, shape = _list(one)
        seen.append(SeenShape(_number(runs, MAX_NS, least=1), _shape(shape)))
    if not seen:
        raise ValueError("an output without a shape")
    return _number(port, MAX_OUTPUTS), tuple(seen)


def _shape(value: _Json) -> Shape:
    shape = tuple(_number(side, MAX_TENSOR_BYTES) for side in _list(value))
    if len(shape) > MAX_RANK:
        raise ValueError(f"a shape of {len(shape)} dimensions")
    return shape


def _number(value: _Json, most: int, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{str(value)[:40]} is no number from {least} to {most}")
    return value


def _text(value: _Json) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:40]} is no text")
    return value


def _list(value: _Json) -> Iterable[_Json]:
    if not isinstance(value, list):
        raise TypeError(f"{str(value)[:40]} is no list")
    return value


def _object(value: _Json) -> Mapping[str, _Json]:
    if not isinstance(value, dict):
        raise TypeError(f"{str(value)[:40]} is no object")
    return value
