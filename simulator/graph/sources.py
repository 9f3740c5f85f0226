"""Bytes of a source, and their kind: a graph in text or binary, or a well-known format without a graph."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from simulator import limits
from simulator.errors import GraphError
from simulator.files import GZIP, STANDARD_INPUT, readable, unzipped
from simulator.limits import Limit
from simulator.units import show_bytes

# --- fetch -----------------------------------------------------------------------------------------------------------


SAVED_MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt", "saved_model.pb.gz", "saved_model.pbtxt.gz")


def read_source(source: str | os.PathLike[str]) -> tuple[bytes, str]:
    """The bytes of a file, of the SavedModel or the file of events in a folder, or of standard input ("-"), and their
    name in messages.

    Raises GraphError for a missing, unreadable or too large source.
    """
    label = os.fspath(source)
    if label == STANDARD_INPUT:
        if sys.stdin is None:  # started with it closed
            raise GraphError("standard input is closed. Give a GraphDef, MetaGraph or SavedModel.")
        return _unzipped(
            _bounded(sys.stdin.buffer, "standard input", limits.STREAM_BYTES), "standard input"
        ), "standard input"
    with readable(label, GraphError):
        path = Path(label)
        if path.is_dir():
            path = _file_of(path)
        with path.open("rb") as stream:
            limit = limits.GRAPH_BYTES if path.is_file() else limits.STREAM_BYTES
            return _unzipped(_bounded(stream, label, limit), label), label


def _file_of(folder: Path) -> Path:
    """The SavedModel of a folder, else its only file of events."""
    for name in SAVED_MODEL_FILES:
        if (folder / name).is_file():
            return folder / name
    events = sorted(folder.glob("*.tfevents.*"))
    if len(events) == 1:
        return events[0]
    versions = sorted({found.parent for name in SAVED_MODEL_FILES for found in folder.glob(f"*/{name}")})
    nearest = (versions or events)[-1:]
    hint = f" Did you mean {nearest[0]}?" if nearest else " Name the file in it that holds the graph."
    raise GraphError(f"{folder} is a folder without saved_model.pb or saved_model.pbtxt.{hint}")


def _bounded(stream: BinaryIO, label: str, limit: Limit) -> bytes:
    raw = stream.read(limit.most + 1)
    if len(raw) > limit.most:
        raise GraphError(
            f"{label} holds more than {show_bytes(limit.most)}. A graph is smaller: if constants make it so large, "
            f"keep them in a checkpoint instead of freezing them; {limit.remedy}."
        )
    return raw


def _unzipped(raw: bytes, label: str) -> bytes:
    """The content of gzip, or the bytes as they are."""
    try:
        return unzipped(raw, limits.STREAM_BYTES) if raw.startswith(GZIP) else raw
    except ValueError as error:
        raise GraphError(f"{label} {error}.") from None


# --- recognise -------------------------------------------------------------------------------------------------------


GRAPH, META_GRAPH, SAVED_MODEL = "GraphDef", "MetaGraphDef", "SavedModel"

_KIND_OF_FIELD = {
    **dict.fromkeys(("node", "library", "versions", "version", "debug_info"), GRAPH),
    **dict.fromkeys(
        ("meta_info_def", "graph_def", "saver_def", "collection_def", "signature_def", "asset_file_def"), META_GRAPH
    ),
    "object_graph_def": META_GRAPH,
    **dict.fromkeys(("saved_model_schema_version", "meta_graphs"), SAVED_MODEL),
}
_FIRST_FIELD = re.compile(r"(?:\s|#[^\n]*\n)*([A-Za-z_]\w*)\s*[:{<]")
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # never in text; a NodeDef's op has the tag \x12
_SAMPLE = 1 << 16  # bytes that are looked at to tell text from binary

_GET_GRAPH = "Give a GraphDef, MetaGraph or SavedModel"
# The first record of a file of events: length and checksum, the time and the step if they are not 0, the version.
_EVENTS = re.compile(rb".{12}(?:\x09.{8})?(?:\x10.)?\x1a.brain\.Event:", re.DOTALL)
_GRAPHS = (4, 9)  # fields of an Event with the bytes of a GraphDef, of a MetaGraphDef
# Beginnings of formats that are often mistaken for graphs, and their names. A binary GraphDef begins with a line feed
# and the length of its first node, which may be any byte; so beginnings with blanks are only looked for in text.
_BINARY_BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (rb"\x89PNG|\xff\xd8\xff|GIF8|BM.{4}\0\0\0\0|RIFF....WEBP", f"an image, not a graph. {_GET_GRAPH}"),
    (rb"%PDF", f"a PDF document, not a graph. {_GET_GRAPH}"),
    (rb"PK\x03\x04", "a zip archive (a .keras file, perhaps). Export the model as a SavedModel"),
    (rb"\x89HDF", "an HDF5 file (Keras weights, perhaps). Export the model as a SavedModel"),
    (rb"....TFL3", "a TensorFlow Lite model. Give the graph from which it was converted"),
    (
        rb"BZh|\xfd7zXZ|7z\xbc\xaf|\x28\xb5\x2f\xfd|.{257}ustar",
        "a compressed archive. Unpack it first (gzip alone is read as it is)",
    ),
    (rb"\x7fELF|MZ.{58}", f"a program, not a graph. {_GET_GRAPH}"),
)
_TEXT_BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (rb"version https://git-lfs", "a Git LFS pointer, not the file itself: run `git lfs pull` to fetch it"),
    (rb"\s*(#[^\n]*\n\s*)*item\s*[:{]", f"a label map, not a graph. {_GET_GRAPH}"),
    (rb"(?i)\s*(<!doctype html|<html|<head|<body)", "a web page (HTML), not a graph. Download the raw file"),
    (rb"\s*<(\?xml|svg)", f"XML, not a graph. {_GET_GRAPH}"),
    (rb"\s*model_checkpoint_path\s*:", f"a checkpoint's index, not a graph. {_GET_GRAPH}, e.g. the .meta beside it"),
    (rb"\s*[{\[]", f"JSON, perhaps, but not a graph. {_GET_GRAPH}"),
    (
        rb"([^\n]*\n){0,20}?[^\n]*: \(\w+\)(: ?)?/job:",
        "a log of device placements, not a graph. Name the graph first, then the log: GRAPH --check LOG",
    ),
    (rb"(import |from |def |class |#!)", f"a program's source, not a graph. {_GET_GRAPH}"),
)


def refuse_other_formats(raw: bytes, label: str) -> None:
    """Raise GraphError for an empty source, and for a well-known format without a graph."""
    if not raw.strip():
        raise GraphError(f"{label} is empty. {_GET_GRAPH}.")
    if not raw.strip(b"\0"):
        raise GraphError(f"{label} holds nothing but zero bytes: it was not written completely. Fetch it again.")
    beginnings = _BINARY_BEGINNINGS if _BINARY.search(raw, 0, _SAMPLE) else _BINARY_BEGINNINGS + _TEXT_BEGINNINGS
    for pattern, what in beginnings:
        if re.match(pattern, raw[:4096], re.DOTALL):
            raise GraphError(f"{label} is {what}.")


def graph_of_events(raw: bytes, label: str) -> tuple[bytes, int]:
    """The last GraphDef or MetaGraph of a file of events, and how many of its kind there are; other bytes, and 1.

    TensorFlow writes such files for TensorBoard, with a graph where `FileWriter` is given one. They are TFRecords
    (tensorflow/core/lib/io/record_writer.h): a length with its checksum, an Event with its checksum. A record that is
    not whole ends the file, as that of a run that goes on does. Raises GraphError for a file without a graph.
    """
    if not _EVENTS.match(raw):
        return raw, 1
    found: dict[int, list[bytes]] = {field: [] for field in _GRAPHS}
    last, at = 0, 0
    while (begin := at + 12) < len(raw):
        end = begin + int.from_bytes(raw[at : at + 8], "little")
        if end > len(raw):
            break
        event = raw[begin:end]
        for number, tag, after in fields(event, limit=8):
            if number in _GRAPHS:
                last = number
                found[number].append(event[_varint(event, tag + 1)[1] : after])
        at = end + 4
    if not last:
        raise GraphError(
            f"{label} is a file of events without a graph. tf.compat.v1.summary.FileWriter(folder, graph) writes one."
        )
    return found[last][-1], len(found[last])


def text_of(raw: bytes, label: str) -> str | None:
    """The content as text, or None when it is binary. UTF-16 with its mark is read too (PowerShell writes it).

    Raises GraphError for text with a byte that is not UTF-8.
    """
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    elif _BINARY.search(raw, 0, _SAMPLE):
        return None
    else:
        encoding = "utf-8-sig"
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding == "utf-16" or not _FIRST_FIELD.match(raw[:_SAMPLE].decode("latin-1")):
            return None
        line = raw.count(b"\n", 0, error.start) + 1
        raise GraphError(f"{label}, line {line}: the text holds a byte that is not UTF-8. Fetch it again.") from None


def kind_of_text(text: str, label: str) -> str:
    """The kind of message of a text, by its first field. Raises GraphError for one without a graph."""
    found = _FIRST_FIELD.match(text)
    kind = _KIND_OF_FIELD.get(found[1]) if found else None
    if kind is not None:
        return kind
    shown = next((line for line in text.splitlines() if line.strip()), "")[:60]
    reason = f"it begins with the field {found[1][:60]!r}" if found else f"it begins with {shown!r}"
    raise GraphError(f"{label} is text, but not a graph: {reason}. {_GET_GRAPH}.")


def fields(raw: bytes, limit: int) -> Iterator[tuple[int, int, int]]:
    """The first fields of a protobuf message as (number, begin, end), those of wire type 2; ends where it is broken."""
    at = 0
    for _ in range(limit):
        tag, after = _varint(raw, at)
        number, wire = tag >> 3, tag & 7
        if after < 0 or not number:
            return
        if wire == 0:
            _, end = _varint(raw, after)
        elif wire == 2:
            length, begin = _varint(raw, after)
            end = begin + length if begin >= 0 else -1
        else:
            end = after + {1: 8, 5: 4}.get(wire, len(raw) + 1)
        if end < 0 or end > len(raw):
            return
        if wire == 2:
            yield number, at, end
        at = end


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """The number at that place and the place after it; -1 for the place when there is none."""
    value = shift = 0
    while at < len(raw) and shift < 70:
        byte = raw[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
    return 0, -1
