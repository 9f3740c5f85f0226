"""Child process for the tests of forks: it tells of itself."""

import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping

from simulator.oracle.child import serve

_remembered: list[bytes] = []


def answer(question: bytes) -> bytes:
    if question == b"die":
        os.kill(os.getpid(), signal.SIGTERM)
    return json.dumps(_ANSWERS[question.decode()]()).encode()


def _surroundings() -> object:
    main = sys.modules["__main__"]
    itself = [main.__name__, main.__file__, sys.argv, sys.path, dict(os.environ), os.getcwd(), tempfile.gettempdir()]
    group = [os.getpid() == os.getpgid(0) == os.getsid(0), os.getppid()]
    files = os.listdir("/proc/self/fd")
    return [itself, group, len(files), [os.readlink(f"/proc/self/fd/{number}")[:5] for number in range(3)]]


def _remember() -> object:
    _remembered.append(b"asked")
    return len(_remembered)


_ANSWERS: Mapping[str, Callable[[], object]] = {
    "surroundings": _surroundings,
    "modules": lambda: [name for name in ("tensorflow",) if name in sys.modules],
    "remember": _remember,
    "divide": lambda: 1 / 0,
}

if __name__ == "__main__":
    serve(answer)
