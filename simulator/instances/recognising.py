"""Recognition of an instance by its beginning, before it is read."""

from __future__ import annotations

import os
import re
import zlib

from simulator import limits
from simulator.files import GZIP, unzipped

_SAMPLE = 4096  # bytes in which an object begins
_BLANKS = b"\xef\xbb\xbf \t\r\n"
_KEYS = re.compile(rb'"(maxFPGAs|workflow|task_graph)"\s*:')


def is_instance(path: str | os.PathLike[str]) -> bool:
    """Whether a file is JSON with a key that only instances have. It may still be a malformed one."""
    if not looks_like_json(path):
        return False
    most = limits.INSTANCE_BYTES.most
    with open(path, "rb") as file:
        raw = file.read(most + 1)  # of a longer one the reader says so
    if raw.startswith(GZIP):
        try:
            raw = unzipped(raw, limits.INSTANCE_BYTES)
        except ValueError:  # the reader says what is wrong with it
            return False
    return _KEYS.search(raw) is not None


def looks_like_json(path: str | os.PathLike[str]) -> bool:
    """Whether a file, gzipped or not, begins as a JSON object; a pipe, which can be read only once, does not."""
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            return opens(file.read(_SAMPLE))
    except (OSError, ValueError):  # the reader of graphs says why
        return False


def opens(raw: bytes) -> bool:
    """Whether these bytes, gzipped or not, begin as a JSON object."""
    beginning = raw[:_SAMPLE]
    if beginning.startswith(GZIP):
        try:
            beginning = zlib.decompressobj(wbits=31).decompress(beginning, _SAMPLE)
        except zlib.error:  # the reader says that it is damaged
            return False
    return beginning.lstrip(_BLANKS).startswith(b"{")
