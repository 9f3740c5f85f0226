"""Fetch the bytes of a source: a file, a SavedModel folder, standard input, plain or gzipped, within bounds."""

from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path
from typing import BinaryIO

from simulator.errors import GraphError
from simulator.units import show_bytes
from simulator.wording import near

MAX_FILE_BYTES = 2**31  # no protobuf message is larger
MAX_STREAM_BYTES = 2**29  # from a pipe or out of gzip, where the size is not known beforehand
STANDARD_INPUT = "-"
_GZIP = b"\x1f\x8b"
SAVED_MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt", "saved_model.pb.gz", "saved_model.pbtxt.gz")


def read_source(source: str | os.PathLike[str]) -> tuple[bytes, str]:
    """The bytes of a file, of the SavedModel in a folder, or of standard input ("-"), and what to call them.

    Raises GraphError when there is nothing to read, it may not be read, or it is too large.
    """
    label = os.fspath(source)
    if label == STANDARD_INPUT:
        if sys.stdin is None:  # started with it closed
            raise GraphError("standard input is closed. Give a GraphDef, MetaGraph or SavedModel.")
        return _unzipped(_bounded(sys.stdin.buffer, "standard input"), "standard input"), "standard input"
    try:
        path = Path(label)
        if path.is_dir():
            path = _saved_model(path)
        with path.open("rb") as stream:
            limit = MAX_FILE_BYTES if path.is_file() else MAX_STREAM_BYTES
            return _unzipped(_bounded(stream, label, limit), label), label
    except FileNotFoundError:
        raise GraphError(f"{label}: there is no such file.{_siblings(label)}") from None
    except PermissionError:
        raise GraphError(f"{label}: you may not read it; ask its owner, or change its mode with chmod.") from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise GraphError(f"{label!r} cannot be read: {reason}.") from None


def _saved_model(folder: Path) -> Path:
    for name in SAVED_MODEL_FILES:
        if (folder / name).is_file():
            return folder / name
    versions = sorted({found.parent.name for name in SAVED_MODEL_FILES for found in folder.glob(f"*/{name}")})
    hint = f" Did you mean {folder / versions[-1]}?" if versions else " Name the file in it that holds the graph."
    raise GraphError(f"{folder} is a folder without saved_model.pb or saved_model.pbtxt.{hint}")


def _siblings(label: str) -> str:
    try:
        names = sorted(os.listdir(os.path.dirname(label) or "."))
    except (OSError, ValueError):  # no folder to look into: nothing to propose
        return ""
    return near(os.path.basename(label), names)


def _bounded(stream: BinaryIO, label: str, limit: int = MAX_STREAM_BYTES) -> bytes:
    raw = stream.read(limit + 1)
    if len(raw) > limit:
        raise GraphError(
            f"{label} holds more than {show_bytes(limit)}. A graph is smaller: if constants make it so large, keep "
            "them in a checkpoint instead of freezing them."
        )
    return raw


def _unzipped(raw: bytes, label: str) -> bytes:
    """The content of gzip (all its members), or the bytes as they are; never more than MAX_STREAM_BYTES."""
    if not raw.startswith(_GZIP):
        return raw
    parts, size, left = [], 0, raw
    while left.startswith(_GZIP):
        member = zlib.decompressobj(wbits=31)
        try:
            part = member.decompress(left, MAX_STREAM_BYTES - size + 1)
        except zlib.error:
            raise GraphError(f"{label} is gzip, but damaged. Fetch it again.") from None
        size += len(part)
        if size > MAX_STREAM_BYTES:
            raise GraphError(
                f"{label} unfolds to more than {show_bytes(MAX_STREAM_BYTES)}; unzip it yourself if you trust it."
            )
        if not member.eof:
            raise GraphError(f"{label} is gzip, but ends too early: it was cut. Fetch it again.")
        parts.append(part)
        left = member.unused_data
    return b"".join(parts)
