"""The command's terminal: errors, results and progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from simulator.errors import SimvizError
from simulator.progress import Say, silent
from simulator.wording import printable


def complain(message: str) -> None:
    """Print an error, unless nobody can read it: the exit code says it, too."""
    try:
        print("simviz:", printable(message), file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)


def tell(text: str) -> None:
    """Print; a character that the terminal's encoding lacks is written as its escape."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    with _standard_output():
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def print_json(text: str) -> None:
    """Print a JSON text as it is."""
    with _standard_output():
        sys.stdout.buffer.write(text.encode("utf-8"))
        sys.stdout.buffer.flush()


@contextmanager
def _standard_output() -> Iterator[None]:
    """Turn a full disk under standard output into an error; a reader who left is no error."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_output()
        raise SimvizError(f"standard output cannot be written: {error.strerror}") from None


def drop_output() -> None:
    """Discard what still waits to be printed, so that the flush at exit does not fail again."""
    _discard(sys.stdout)


def _discard(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def progress(quiet: bool) -> Iterator[Say]:
    """A line of progress, on a terminal only."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():  # None: started with it closed
        yield silent
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda doing: status.update(doing)
