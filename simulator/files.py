"""Atomic writes: a file is written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


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
    real = target.resolve()  # a link stays a link
    handle, name = tempfile.mkstemp(prefix=f".{real.name[:80]}.", dir=real.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, real.stat().st_mode & 0o777 if real.exists() else mode(folder=False))
        os.replace(name, real)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
