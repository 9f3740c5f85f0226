"""The entry point of the command: Ctrl-C ends it with one line, even while modules load, and so does `kill`.

Before this module is loaded, and after `main` has returned, Python handles Ctrl-C itself. So this module and the
packages around it load next to nothing.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in `typing`, which takes long to load
if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from threading import Event
    from types import FrameType

BY_SIGNAL = 128  # the shell's code for an end by a signal is that much more than its number
INTERRUPTED = BY_SIGNAL + 2  # by SIGINT
_SOON_S = 0.02  # by then the function that C code has called has ended
_AGAIN: list[Event] = []  # of interruptions that come anew: set, they do not
_OTHERS = ("SIGTERM", "SIGHUP")  # `kill`, and the end of the terminal; Windows lacks the second


def main() -> int:
    """Load the command and run it; return the exit code."""
    came: list[int] = []  # signals that were to end this run, the first one first
    try:
        import signal  # only now: it loads other modules

        listens = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # a shell's background job ignores it

        def work() -> None:
            """Let signals raise KeyboardInterrupt from now on: there may be processes to end and files to remove."""
            sys.unraisablehook = _raise_again
            for number in [signal.SIGINT] * listens + others:
                signal.signal(number, stop)

        def stop(signum: int, frame: FrameType | None) -> None:
            came.append(signum)
            raise _Stopped

        found = [getattr(signal, name) for name in _OTHERS if hasattr(signal, name)]
        others = [number for number in found if signal.getsignal(number) is signal.SIG_DFL]  # nohup ignores SIGHUP
        try:
            if listens:
                signal.signal(signal.SIGINT, _leave)
            from viz.command.cli import main as command

            return command(begin=work, interrupted=lambda: bool(came))
        finally:
            for again in _AGAIN:
                again.set()  # it would end the process by SIGINT, whatever it is about to say
            for number in (signal.SIGINT, *others):
                signal.signal(number, signal.SIG_DFL)  # all is done: to free memory is not worth a traceback
    except KeyboardInterrupt as end:
        print(_said(str(end)), file=sys.stderr)
        code = BY_SIGNAL + came[0] if came else INTERRUPTED  # of the first: a dropped one comes anew as SIGINT
        _end_if_busy(code)
        import gc  # only now: nothing more than needed is loaded before Ctrl-C is minded

        gc.freeze()  # else Python looks for cycles among millions of objects before it ends
        return code


class _Stopped(KeyboardInterrupt):
    """Python ends by SIGINT, whatever its exit code, once a KeyboardInterrupt itself came through an exec of a text."""


def _end_if_busy(code: int) -> None:
    """End now if a thread works for which Python would wait, as LLVM's does for seconds."""
    threading = sys.modules.get("threading")  # most runs have loaded it by then
    if threading is None or all(one.daemon or one is threading.main_thread() for one in threading.enumerate()):
        return
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # nobody reads it, or it is closed
            continue
    os._exit(code)


def _leave(signum: int, frame: FrameType | None) -> None:
    """End at once: an exception amid the loading of a module can be lost or become another one."""
    os.write(2, f"{_said('')}\n".encode())
    os._exit(INTERRUPTED)


def _raise_again(lost: UnraisableHookArgs) -> None:
    """Interrupt anew in a moment where Python drops a KeyboardInterrupt: in a function that C code has called."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    import signal
    import threading

    main, begun, over = threading.main_thread().ident, threading.Event(), threading.Event()

    def later() -> None:
        begun.wait()  # to start a thread takes long on a busy machine, and Python would drop what comes meanwhile
        if over.wait(_SOON_S):
            return
        if main is None or not hasattr(signal, "pthread_kill"):  # Windows
            signal.raise_signal(signal.SIGINT)
        else:  # to that thread: it could be waiting
            signal.pthread_kill(main, signal.SIGINT)

    _AGAIN.append(over)
    threading.Thread(target=later, daemon=True).start()
    begun.set()


def _said(written: str) -> str:
    return f"simviz: interrupted; {written or 'nothing was written'}"
