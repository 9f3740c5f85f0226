"""A recording: what TensorFlow did with one graph on one machine, in a small file that needs neither to be read again.

The file is gzip over one JSON object; GraphDef and StepStats messages stand in it as base64. It holds the graph as
TensorFlow was asked about it, so that our prediction can be laid beside it wherever the file goes.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from simulator.errors import OracleError
from simulator.graph.messages import GraphDef, StepStats
from simulator.oracle.machine import Machine
from simulator.oracle.measurement import Measurement

FORMAT = 1
MAX_FILE_BYTES = 2**24  # as written; a graph of 6,000 nodes with its pieces takes 0.5 MB
MAX_BYTES = 2**29  # unpacked


@dataclass(frozen=True, eq=False)
class Recording:
    """One graph, asked about once."""

    name: str  # of the graph's file
    sha256: str  # of its content
    graph: Any  # GraphDef that TensorFlow was handed: flat unless calls were kept, large constants emptied
    devices: str  # what was done to its device strings, in words
    cluster: str  # compact notation
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    soft: bool
    machine: Machine
    seen: Measurement
    stats: Any | None = None  # StepStats of one step, without what it says of memory
    not_run: str | None = None  # why there are none


def dump(recording: Recording) -> bytes:
    """The file's content: the same bytes for the same recording. Raises OracleError if it would be too large."""
    seen = {field.name: getattr(recording.seen, field.name) for field in fields(recording.seen)}
    seen["placement"] = list(recording.seen.placement.items())
    seen["partitions"] = [_packed(piece) for piece in recording.seen.partitions]
    facts = {
        "format": FORMAT,
        "graph": {
            "name": recording.name,
            "sha256": recording.sha256,
            "devices": recording.devices,
            "content": _packed(recording.graph),
        },
        "cluster": recording.cluster,
        "step": {"feeds": recording.feeds, "fetches": recording.fetches},
        "soft": recording.soft,
        "machine": asdict(recording.machine),
        "seen": seen,
        "stats": None if recording.stats is None else _packed(recording.stats),
        "not_run": recording.not_run,
    }
    content = gzip.compress(json.dumps(facts, sort_keys=True).encode(), compresslevel=9, mtime=0)
    if len(content) > MAX_FILE_BYTES:
        raise OracleError(f"the record of {recording.name} would have {len(content):,} bytes; ask about less of it")
    return content


def load(path: str | os.PathLike[str]) -> Recording:
    """Read a recording. Raises OracleError for a file that is none, that is damaged or that is too large."""
    where = os.fspath(path)
    try:
        if Path(path).stat().st_size > MAX_FILE_BYTES:
            raise OracleError(f"{where} is larger than any record ({MAX_FILE_BYTES:,} bytes)")
        with gzip.open(path) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise OracleError(f"{where} cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error):
        raise OracleError(f"{where} is damaged: write it anew") from None
    if len(content) > MAX_BYTES:
        raise OracleError(f"{where} unpacks to more than {MAX_BYTES:,} bytes: it is no record")
    try:
        facts = json.loads(content)
        if facts["format"] != FORMAT:
            raise OracleError(f"{where} is a record of format {facts['format']!r}, and {FORMAT} is read here")
        return _recording(facts)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, DecodeError) as error:
        raise OracleError(f"{where} is no record: {type(error).__name__} {str(error)[:200]}") from None


def _recording(facts: Mapping[str, Any]) -> Recording:
    graph, step, seen, machine = facts["graph"], facts["step"], dict(facts["seen"]), dict(facts["machine"])
    seen["placement"] = {str(name): str(device) for name, device in seen["placement"]}
    seen["partitions"] = tuple(GraphDef.FromString(base64.b64decode(piece)) for piece in seen["partitions"])
    machine["gpus"] = tuple(machine["gpus"])
    machine["devices"] = tuple((name, kind, memory) for name, kind, memory in machine["devices"])
    stats = facts["stats"]
    return Recording(
        name=graph["name"],
        sha256=graph["sha256"],
        graph=GraphDef.FromString(base64.b64decode(graph["content"])),
        devices=graph["devices"],
        cluster=facts["cluster"],
        feeds=tuple(step["feeds"]),
        fetches=tuple(step["fetches"]),
        soft=facts["soft"],
        machine=Machine(**machine),
        seen=Measurement(**seen),
        stats=None if stats is None else StepStats.FromString(base64.b64decode(stats)),
        not_run=facts["not_run"],
    )


def _packed(message: Any) -> str:
    return base64.b64encode(message.SerializeToString(deterministic=True)).decode()
