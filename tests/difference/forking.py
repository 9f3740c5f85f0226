"""In the child: answer questions in forks, so that a death of TensorFlow ends one question and not the conversation."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import IO, NoReturn

from simulator.errors import OracleError
from simulator.oracle import child

DIED = "TensorFlow's process died of the graph"
_WORKER_S = 30  # for one question; a cluster's servers are started within it


def keep_answering(answering: Callable[[], Callable[[bytes], bytes]]) -> None:
    """Keep a fork that answers by `answering()` until there are no more questions.

    The fork that a question kills, or that needs too long for it, is replaced; its question is answered with DIED.
    """
    from simulator.oracle import session

    child.die_with_parent()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    session.prepare(gpus=False)
    import tensorflow  # noqa: F401  # once for all forks

    while True:
        worker = os.fork()
        if not worker:
            _work(out, answering())
        _, status = os.waitpid(worker, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            os._exit(0)
        child.write(out, refused(DIED))


def _work(out: IO[bytes], answer: Callable[[bytes], bytes]) -> NoReturn:
    child.die_with_parent()
    while (question := child.read(sys.stdin.buffer)) is not None:
        signal.alarm(_WORKER_S)  # nobody handles it, so it ends the process
        try:
            told = b"+" + answer(question)
        except OracleError as error:
            told = refused(str(error), error.refusal)
        signal.alarm(0)
        child.write(out, told)
    os._exit(0)


def refused(message: str, refusal: str | None = None) -> bytes:
    """An answer that is an OracleError to the caller."""
    return b"-" + json.dumps({"message": message, "refusal": refusal}).encode()
