"""Child processes that stay for all tests of a file: a new one starts its servers and builds its graphs again.

Where it is no fork (`forking`) it also loads TensorFlow, which takes seconds.

A test whose subject is the process itself takes one of its own, by `child.run` or `dry_runs.ask`.
"""

from __future__ import annotations

from contextlib import ExitStack

from simulator.oracle import child
from simulator.oracle.child import Asking

_open: dict[tuple[str, ...], Asking] = {}
_stack = ExitStack()


def staying(module: str, *args: str) -> Asking:
    """Ask a module in the process that was started for the first question; after an OracleError there is another."""
    called = (module, *args)
    if called not in _open:
        _open[called] = _stack.enter_context(child.conversation(module, args=args))
    return _open[called]


def ask_staying(question: bytes, timeout_s: float) -> bytes:
    """As `dry_runs.ask`, in the process that stays."""
    return staying("simulator.oracle.session")(question, timeout_s)


def end() -> None:
    """End all of them."""
    _open.clear()
    _stack.close()
