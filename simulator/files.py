"""Files: what the system refuses becomes a sentence, and a file is written whole or not at all.

What is gzipped unfolds in proportion to its size: a few kilobytes of it could claim half a gigabyte.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from simulator import limits
from simulator.errors import SimvizError
from simulator.limits import Limit
from simulator.units import show_bytes
from simulator.wording import near

STANDARD_INPUT = "-"
GZIP = b"\x1f\x8b"
FREE_BYTES = 2**22  # that may unfold whatever the ratio is; text of real graphs has a ratio of 20 to 40
_PIECE_BYTES = 2**16  # of what is unfolded at once: zlib copies what it leaves


@contextmanager
def readable(label: str, error: type[SimvizError]) -> Iterator[None]:
    """Raise `error` with a sentence if the block can't read the file of this name."""
    if not label:
        raise error("the name of a file to read is empty. Give another.")
    try:
        yield
    except FileNotFoundError:
        raise error(f"{label}: there is no such file.{_siblings(label)}") from None
    except IsADirectoryError:
        raise error(f"{label} is a folder. Name a file in it.") from None
    except PermissionError:
        raise error(f"{label}: you may not read it; ask its owner, or change its mode with chmod.") from None
    except (OSError, ValueError) as refusal:  # ValueError: a null character in the name
        reason = getattr(refusal, "strerror", None) or str(refusal)
        raise error(f"{label!r} cannot be read: {reason}. Give another file.") from None


def read_file(source: str | os.PathLike[str], error: type[SimvizError], limit: Limit, *, share: int = 1) -> bytes:
    """The content of a file. Raises `error` for one that can't be read, or is larger than that part of the limit."""
    most_bytes = limit.most // share
    label = os.fspath(source)
    with readable(label, error), open(label, "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise error(
            f"{label} is larger than {show_bytes(most_bytes)}, as no such file is. Give another; {limit.remedy}."
        )
    return content


def is_stream(name: object) -> bool:
    """Whether a name stands for something that can be read but once: standard input ("-"), a pipe or a device."""
    if not isinstance(name, str | os.PathLike):
        return False
    try:
        mode = os.stat(name).st_mode
    except (OSError, ValueError):  # ValueError: a null character in the name
        return os.fspath(name) == STANDARD_INPUT
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def unzipped(raw: bytes, bound: Limit, *, alone: bool = False) -> bytes:
    """The content of gzip, all its members; whatever follows the last one is left out, as by gunzip.

    With `alone` there may be one member, and nothing behind it. Raises ValueError with a clause about the content where
    that is damaged or cut. So it does where the content unfolds to more than `bound`, or to more than is in proportion
    to its size.
    """
    most = min(bound.most, max(FREE_BYTES, limits.GZIP_RATIO.most * len(raw)))
    parts, size, at = [], 0, 0
    member = zlib.decompressobj(wbits=31)
    while at < len(raw):
        try:
            part = member.decompress(raw[at : at + _PIECE_BYTES], most - size + 1)
        except zlib.error:
            raise ValueError("is gzip, but damaged. Fetch it again") from None
        size += len(part)
        if size > most:
            limit = limits.GZIP_RATIO if most < bound.most else bound
            raise ValueError(f"unfolds to more than {show_bytes(most)}; if you trust it, {limit.remedy}")
        parts.append(part)
        at += min(_PIECE_BYTES, len(raw) - at) - len(member.unused_data)
        if member.eof:
            if alone and at < len(raw):
                raise ValueError("goes on where its content has ended. Fetch it again")
            if raw[at : at + len(GZIP)] != GZIP:
                break
            member = zlib.decompressobj(wbits=31)
    if not member.eof:
        raise ValueError("is gzip, but ends too early: it was cut. Fetch it again")
    return b"".join(parts)


def _siblings(label: str) -> str:
    if os.path.islink(label):
        return " It is a link to one that is gone."
    try:
        names = sorted(os.listdir(os.path.dirname(label) or "."))
    except (OSError, ValueError):  # no folder to look into: nothing to propose
        return ""
    return near(os.path.basename(label), names)


def mode(*, folder: bool) -> int:
    """The permissions of a new file or folder under the user's umask; temporary files are private."""
    mask = os.umask(0)
    os.umask(mask)
    return (0o777 if folder else 0o666) & ~mask


def replace_file(target: Path, content: bytes) -> None:
    """Write a file whole, or leave the old one unchanged. Raises OSError."""
    if target.exists() and not target.is_file():
        target.write_bytes(content)  # a device or a pipe: there is nothing to replace
        return
    real = Path(os.path.realpath(target))  # a link stays a link
    rights = real.stat().st_mode & 0o777 if real.exists() else mode(folder=False)
    name = _unnamed(real, content, rights) or _named(real, content, rights)
    try:
        os.replace(name, real)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _named(real: Path, content: bytes, rights: int) -> str:
    """A new file beside the real one that holds the content; it is there while it is written."""
    handle, name = tempfile.mkstemp(prefix=f".{real.name[:80]}.", dir=real.parent)
    try:
        _fill(handle, content)
        os.chmod(name, rights)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return name


def _unnamed(real: Path, content: bytes, rights: int) -> str | None:
    """The same, but it has a name when it is whole: a process that is killed before leaves nothing. Linux can do so.

    None where the system or the file system can't.
    """
    if not hasattr(os, "O_TMPFILE"):
        return None
    try:
        handle = os.open(real.parent, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError:  # without such files; or the folder can't be written, which the other way says
        return None
    kept = os.dup(handle)
    try:
        _fill(handle, content)
        os.fchmod(kept, rights)
        name = f"{real.parent}/.{real.name[:80]}.{secrets.token_hex(6)}"
        os.link(f"/proc/self/fd/{kept}", name, follow_symlinks=True)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            raise
        return None  # no /proc, or a file system that gives such a file no name
    finally:
        os.close(kept)
    return name


def _fill(handle: int, content: bytes) -> None:
    """Write an open file whole, and close it."""
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
