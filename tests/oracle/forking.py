"""Child processes that are forked from one that has imported TensorFlow, which takes seconds of processor time.

    tests ── module, environment, pipes ──▶ template, TensorFlow imported ── fork ──▶ ends at once ── fork ──▶ child
          ◀── process id ── ◀──────────────────────────────────────────────────────────────────────────────────┘

A child is as fresh as one of `child.start`, and runs the same module by the same lines of Python. The process between
them ends, so that the kernel gives the child to the tests: they are its parent, wait for it, and it dies with them. A
template exists for each set of variables that TensorFlow reads when it is imported, and one that has Keras. Modules
that need other variables or another path start as ever; so does all of a test with the fixture `own_processes`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, NoReturn

from simulator.oracle import child

_PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
_HEAD_BYTES = 2**16  # of a request: the environment, above all
# As `session.prepare` and `rehearsal` set it. Whoever imports TensorFlow without setting any can do with the latter.
# Those that ask for Keras share the third.
_PREPARED, _QUIET, _KERAS = "prepared", "quiet", "keras"
_TEMPLATES = {  # by module, or by module and arguments
    "tests.costs.measured_step": _QUIET,
    "simulator.oracle.executor_times": _QUIET,
    "simulator.oracle.inference": _QUIET,
    "simulator.oracle.kernel_times": _QUIET,
    "simulator.oracle.machine": _PREPARED,
    "simulator.oracle.message_times": _QUIET,
    "simulator.oracle.optimizing": _QUIET,
    "simulator.oracle.placed_steps": _PREPARED,
    "simulator.oracle.registries": _QUIET,
    "simulator.oracle.rehearsal": _QUIET,
    "simulator.oracle.session": _PREPARED,
    "simulator.oracle.timing": _PREPARED,
    "tests.control_flow.running": _PREPARED,
    "tests.difference.asking": _PREPARED,
    "tests.oracle.accumulating": _QUIET,
    "tests.oracle.adding_shapes": _QUIET,
    "tests.oracle.asking_small": _PREPARED,
    "tests.oracle.averaging": _QUIET,
    "tests.oracle.copying_reads": _QUIET,
    "tests.oracle.estimating": _QUIET,
    "tests.oracle.feeding": _QUIET,
    "tests.oracle.grappler": _PREPARED,
    "tests.oracle.held_in_memory": _QUIET,
    "tests.oracle.importing": _QUIET,
    "tests.oracle.kept_calls": _QUIET,
    "tests.oracle.kinds": _QUIET,
    "tests.oracle.looping": _QUIET,
    "tests.oracle.lowering build": _QUIET,
    "tests.oracle.lowering run": _QUIET,
    "tests.oracle.observable": _QUIET,
    "tests.oracle.optimized_sessions": _QUIET,
    "tests.oracle.optimized_trainings": _QUIET,
    "tests.oracle.pipelined_models": _QUIET,
    "tests.oracle.random_shapes": _QUIET,
    "tests.oracle.real_task": _PREPARED,
    "tests.oracle.reading_events": _QUIET,
    "tests.oracle.registries": _QUIET,
    "tests.oracle.remastering": _PREPARED,
    "tests.oracle.serving": _PREPARED,
    "tests.oracle.sharing_buffers": _QUIET,
    "tests.oracle.writing_over": _QUIET,
    "tests.oracle.sundry": _QUIET,
    "tests.oracle.synchronising": _QUIET,
    "tests.oracle.training_graphs": _QUIET,
    "tests.oracle.training_models": _QUIET,
    "tests.oracle.training_runs": _QUIET,
    "tests.oracle.two_batches": _QUIET,
    "tests.placement.ports_taken": _PREPARED,
    "tests.placement.two_products": _QUIET,
}
_PATH, _ENVIRONMENT = [*sys.path], dict(os.environ)  # before any test changes them
unforked = child.start
_BARE, _CODE = child._START, child._WITHOUT_KERAS + child._START
_asked: dict[str, tuple[subprocess.Popen[bytes], socket.socket]] = {}
_one_at_a_time = threading.Lock()


class Forked:
    """What `child` uses of `subprocess.Popen`."""

    def __init__(self, pid: int, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes] | None) -> None:
        self.pid, self.stdin, self.stdout, self.stderr = pid, stdin, stdout, stderr
        self.returncode: int | None = None
        self._ended = os.pidfd_open(pid)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a fork", timeout or 0)
            os.close(self._ended)
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


def start(
    module: str, args: Sequence[str] = (), *, stderr: int | None = None, alone: bool = False, keras: bool = False
) -> subprocess.Popen[bytes] | Forked:
    """As `child.start`; a fork where there is a template for the module."""
    kind = _KERAS if keras else _TEMPLATES.get(module) or _TEMPLATES.get(" ".join((module, *args)))
    if kind is None or sys.path != _PATH:
        return unforked(module, args, stderr=stderr, alone=alone, keras=keras)
    theirs, ours = os.pipe()
    mine, its = os.pipe()
    errors = os.pipe() if stderr == subprocess.PIPE else None
    asked: dict[str, Any] = {"args": [module, *args], "alone": alone, "cwd": os.getcwd(), "parent": os.getpid()}
    asked["code"] = child._START if keras else child._WITHOUT_KERAS + child._START
    asked["environment"] = {**os.environ, "SIMVIZ_PARENT": str(os.getpid()), "SIMVIZ_PATH": os.pathsep.join(_PATH)}
    handed = [theirs, its, errors[1] if errors else 2]
    with _one_at_a_time:
        _, template = _asked.get(kind) or _asked.setdefault(kind, _template(kind))
        _take_orphans(True)
        try:
            socket.send_fds(template, [json.dumps(asked).encode()], handed)
            told = template.recv(64)
            assert told.isdigit(), f"no fork, but {told!r}"
        finally:
            _take_orphans(False)
    pid = int(told)
    for one in handed[: 3 if errors else 2]:
        os.close(one)
    return Forked(pid, open(ours, "wb"), open(mine, "rb"), open(errors[0], "rb") if errors else None)


def printed(module: str, *args: str, keras: bool = False) -> list[str]:
    """The lines that a program prints which imports TensorFlow; it fails where the program does."""
    process = start(module, args, keras=keras)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        with process.stdout as told:
            lines = told.read().decode().splitlines()
        assert process.wait(20) == 0
        return lines
    finally:
        process.kill()


def _take_orphans(whether: bool) -> None:
    """Let the kernel make this process the parent of descendants whose own ends."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(whether), 0, 0, 0)


def _template(kind: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start one; it ends when the socket closes, so at the latest with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {**_ENVIRONMENT, "SIMVIZ_PATH": os.pathsep.join(_PATH)}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", _BARE if kind == _KERAS else _CODE, __name__, kind, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            env=environment,
            pass_fds=[theirs.fileno()],
        )
    return process, ours


def templates() -> set[int]:
    """Their process ids."""
    return {process.pid for process, _ in _asked.values()}


def end() -> None:
    """End all templates."""
    while _asked:
        process, asked = _asked.popitem()[1]
        asked.close()
        process.wait()


# --- in the template -------------------------------------------------------------------------------------------------


def _be_template(kind: str, asked: socket.socket) -> None:
    from simulator.oracle import session

    if kind == _PREPARED:
        session.prepare(gpus=False)
    else:
        session.quiet()
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # some CPUs have it off, and a rehearsal may turn it on
    if kind == _KERAS:
        del os.environ["TF_USE_LEGACY_KERAS"]
        os.environ["KERAS_BACKEND"] = "tensorflow"
    import tensorflow  # once for all forks

    if kind == _KERAS:
        assert tensorflow.keras.layers  # it is imported when it is first used

    for name in [name for name in sys.modules if name.split(".")[0] in ("simulator", "tests")]:
        del sys.modules[name]  # a fork runs one of them as its main part, and imports what that needs
    gc.freeze()
    while True:
        request, descriptors, _, _ = socket.recv_fds(asked, _HEAD_BYTES, 3)
        if not request:
            return
        between = os.fork()
        if not between:
            between = os.getpid()
            if os.fork():
                os._exit(0)
            _be_child(json.loads(request), descriptors, asked, between)
        os.waitpid(between, 0)
        for one in descriptors:
            os.close(one)


def _be_child(request: Mapping[str, Any], descriptors: Sequence[int], asked: socket.socket, between: int) -> NoReturn:
    while os.getppid() == between:
        time.sleep(0.001)
    if os.getppid() != request["parent"]:  # who asked has ended
        with suppress(OSError):
            asked.send(b"an orphan")
        os._exit(1)
    code = 1
    try:
        if request["alone"]:
            os.setsid()
        for number, one in enumerate(descriptors):
            os.dup2(one, number)
            os.close(one)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environment"])
        tempfile.tempdir = None  # to be looked up again
        asked.send(str(os.getpid()).encode())
        asked.close()
        sys.argv[:] = ["-c", *request["args"]]
        exec(request["code"], {"__name__": "__main__"})
        code = 0
    except BaseException:  # noqa: BLE001  # what Python itself does at the end of a process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _be_template(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
