"""Ask TensorFlow about one case after the other, in a process that survives TensorFlow's own deaths.

    caller ── questions ──▶ child: imports TensorFlow, and forks ──▶ worker: answers one question after the other
                              ▲                                        │
                              └───── dies of a question: the next worker ──┘

TensorFlow dies of some graphs, and of some it makes no end; its import takes seconds, a question some milliseconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, NoReturn

from simulator.errors import OracleError
from simulator.oracle import child, observe
from simulator.oracle.child import Asking
from simulator.oracle.measurement import Measurement
from tests.difference.cases import Case

TIMEOUT_S = 120.0
_WORKER_S = 30  # for one question; a cluster's servers are started within it
DIED, NOT_IMPORTED = "TensorFlow's process died of the graph", "TensorFlow's importer refuses the graph"


@contextmanager
def conversation() -> Iterator[Asking]:
    """What `ask` needs, for as long as the block lasts."""
    with child.conversation("tests.difference.asking") as asking:
        yield asking


def ask(asking: Asking, case: Case) -> Measurement | None:
    """What TensorFlow does with a case; None if its importer refuses the graph, so that there is nothing to compare.

    Raises OracleError(DIED) if its process dies of the case, or does not come to an end.
    """
    try:
        return observe(
            case.graph,
            case.cluster,
            step=case.step,
            soft=case.soft,
            real_workers=case.real_workers,
            asking=asking,
            timeout_s=TIMEOUT_S,
        )
    except OracleError as error:
        if str(error) == NOT_IMPORTED:
            return None
        raise


# ---- in the child ----------------------------------------------------------------------------------------------------


def main() -> None:
    """Keep a worker until there are no more questions."""
    from simulator.oracle import session

    child.die_with_parent()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    session.prepare(gpus=False)
    import tensorflow  # noqa: F401  # once for all workers

    while True:
        worker = os.fork()
        if not worker:
            _work(out)
        _, status = os.waitpid(worker, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            os._exit(0)
        child.write(out, _refused(DIED))


def _work(out: IO[bytes]) -> NoReturn:
    from simulator.oracle import session

    child.die_with_parent()
    answer = session.answering()
    while (question := child.read(sys.stdin.buffer)) is not None:
        signal.alarm(_WORKER_S)  # nobody handles it, so it ends the process
        try:
            refusal = _import_refusal(child.unpack(question)[1][0])
            told = b"+" + answer(question) if refusal is None else _refused(NOT_IMPORTED, refusal)
        except OracleError as error:
            told = _refused(str(error), error.refusal)
        signal.alarm(0)
        child.write(out, told)
    os._exit(0)


def _refused(message: str, refusal: str | None = None) -> bytes:
    """An answer that is an OracleError to the caller."""
    return b"-" + json.dumps({"message": message, "refusal": refusal}).encode()


def _import_refusal(serialized: bytes) -> str | None:
    import tensorflow as tf

    from simulator.oracle import session

    try:
        session.imported(serialized)
    except (tf.errors.OpError, ValueError) as error:
        return str(error)[:500]
    return None


if __name__ == "__main__":
    main()
