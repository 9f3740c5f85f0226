"""The end of the command: each error has a sentence and an exit code, and an interruption has a line."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from simulator.errors import (
    DeadlockError,
    GraphError,
    InfeasibleError,
    OracleError,
    OutOfMemoryError,
    SimvizError,
    UnsupportedError,
)
from simulator.wording import brief, printable
from viz.command.terminal import complain, drop_output


def ended(work: Callable[[], int], graph: str | None, written: list[str], interrupted: Callable[[], bool]) -> int:
    """The exit code of some work: errors are reported in a sentence, and a KeyboardInterrupt names what was written."""
    try:
        return work()
    except KeyboardInterrupt:
        raise _stopped(written) from None
    except Exception as error:  # noqa: BLE001  # `_told` raises again what it does not know
        if interrupted():  # numpy's comparisons make a TypeError of it, the loading of C code an ImportError
            raise _stopped(written) from None
        return _told(error, graph)


def _told(error: Exception, graph: str | None) -> int:
    """The exit code of an error that is reported in a sentence. Raise any other one again."""
    if isinstance(error, SimvizError):
        complain(_in_the_users_words(error, graph))
        return _exit_code(error)
    if isinstance(error, BrokenPipeError):
        drop_output()  # the reader of our output left
        return 0
    if isinstance(error, OSError):  # of a file that was there before, or a folder that hides what it holds
        complain(f"{_place(error)}: {error.strerror or error}")
    elif isinstance(error, RecursionError):
        complain(f"{graph}: nested too deeply to be a graph that TensorFlow wrote")
    elif isinstance(error, MemoryError):
        complain(f"{graph}: too large for this machine's memory")
    else:
        raise error
    return 2


def _place(error: OSError) -> str:
    """The file that the system refuses; where it names none, or names it in a folder that is gone, that."""
    try:
        os.getcwd()
    except OSError:  # somebody deleted it while we are in it
        return "the current folder is gone; go to another"
    return str(error.filename or "this process")


def _stopped(written: Sequence[str]) -> KeyboardInterrupt:
    return KeyboardInterrupt(printable(f"written before: {', '.join(written)}" if written else ""))


def _in_the_users_words(error: SimvizError, graph: str | None) -> str:
    """The message with the name of its file, which functions on a Graph do not know."""
    message = str(error)
    if graph is None:
        return message
    about_graph = isinstance(error, (GraphError, InfeasibleError, UnsupportedError, DeadlockError))
    return brief(f"{graph}: {message}") if about_graph and graph not in message else message


def _exit_code(error: SimvizError) -> int:
    """1 when nothing feasible was found or TensorFlow could not be asked, 2 when the input or the call is wrong."""
    return 1 if isinstance(error, (InfeasibleError, OutOfMemoryError, OracleError)) else 2
