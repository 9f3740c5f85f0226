"""Ask TensorFlow about one case after the other, in a process that survives TensorFlow's own deaths.

    caller ── questions ──▶ child: imports TensorFlow, and forks ──▶ worker: answers one question after the other
                              ▲                                        │
                              └───── dies of a question: the next worker ──┘

TensorFlow dies of some graphs, and of some it makes no end; its import takes seconds, a question some milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from simulator.errors import OracleError
from simulator.oracle import child
from simulator.oracle.child import Asking
from simulator.oracle.dry_runs import DryRun, dry_run
from tests.difference.cases import Case
from tests.difference.forking import keep_answering

TIMEOUT_S = 120.0
NOT_IMPORTED = "TensorFlow's importer refuses the graph"


@contextmanager
def conversation() -> Iterator[Asking]:
    """What `ask` needs, for as long as the block lasts."""
    with child.conversation("tests.difference.asking") as asking:
        yield asking


def ask(asking: Asking, case: Case) -> DryRun | None:
    """What TensorFlow does with a case; None if its importer refuses the graph, so that there is nothing to compare.

    Raises OracleError(DIED) if its process dies of the case, or does not come to an end.
    """
    try:
        return dry_run(
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


def answering() -> Callable[[bytes], bytes]:
    """Answer as `session.answering` does, but say of a graph that the importer refuses that it does."""
    from simulator.oracle import session

    answer = session.answering()

    def checked(question: bytes) -> bytes:
        refusal = _import_refusal(child.unpack(question)[1][0])
        if refusal is not None:
            raise OracleError(NOT_IMPORTED, refusal=refusal)
        return answer(question)

    return checked


def _import_refusal(serialized: bytes) -> str | None:
    import tensorflow as tf

    from simulator.oracle import session

    try:
        session.imported(serialized)
    except (tf.errors.OpError, ValueError) as error:
        return str(error)[:500]
    return None


if __name__ == "__main__":
    keep_answering(answering)
