"""Child processes in which TensorFlow runs: questions and answers over pipes, and nothing left behind.

    caller ── question ──▶ stdin   ┌───────────────┐
           ◀── answer ──── stdout  │ serve(work)   │   stdout is taken by the answers: what TensorFlow prints
           ◀── the end of stderr   └───────────────┘   goes to stderr

Questions and answers are messages whose bounded size is sent ahead. The child leads a process group of its own. That
group is killed whole as soon as the caller stops asking: after the last answer, an error, a time limit or Ctrl-C. If
the caller is killed outright, the kernel kills the child (Linux).
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import selectors
import signal
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, NoReturn, TypeAlias

from simulator.errors import OracleError

# The bound of every message: a question, a graph from a master to a worker, all graphs that the workers of one question
# pass on, an answer. Protobuf itself ends at 2 GiB. A graph of 100,000 nodes takes about 50 MB, its pieces the same.
MAX_MESSAGE_BYTES = 2**29
KEPT_STDERR_BYTES = 2**14  # enough for the last traceback
_LAST_S = 2.0  # from the end of its pipes to the end of a process
_CHUNK_BYTES = 2**16  # what a pipe holds
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_PARENT = "SIMVIZ_PARENT"  # environment: process id of the caller
_PATH = "SIMVIZ_PATH"  # environment: the caller's sys.path
_SIZE = struct.Struct("<Q")
_NOTED = re.compile(r"[IW]\d{4} |WARNING: ")  # the level and date of abseil's log, and what it writes before it begins
INSTALL = 'TensorFlow is not installed. Install it with: pip install "simviz[tensorflow]"'
# The child sees exactly the modules that the caller sees; plain `-m` would look in the current folder first. While
# TensorFlow is imported no garbage is looked for, a fifth of the time, and it gets no Keras, with pandas a quarter.
_START = (
    "import gc, os, sys; gc.disable(); sys.path[:] = os.environ.pop('SIMVIZ_PATH').split(os.pathsep); import runpy; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
_WITHOUT_KERAS = "import sys; sys.modules['keras.src'] = None; "
Asking: TypeAlias = Callable[[bytes, float], bytes]  # question, limit in seconds -> answer


def run(module: str, payload: bytes, *, timeout_s: float, args: Sequence[str] = (), keras: bool = False) -> bytes:
    """The answer to one question, from a child process of its own; see `conversation`."""
    with conversation(module, args=args, keras=keras) as ask:
        return ask(payload, timeout_s)


@contextmanager
def conversation(module: str, *, args: Sequence[str] = (), keras: bool = False) -> Iterator[Asking]:
    """Run `module` (its main part calls `serve`) in a child process that answers questions while the block lasts.

    A question raises OracleError if TensorFlow is missing or refuses; `refusal` then holds its own sentence. It also
    does so if the child ends without an answer or takes too long, and if a message is too large. Then the child is
    gone, and the next question starts another. No process of the child's group outlives the block. The thread that asks
    first must live as long, as the kernel ends the child with it. `keras`: the child may import Keras.
    """
    running: list[subprocess.Popen[bytes]] = []

    def ask(question: bytes, timeout_s: float) -> bytes:
        deadline = time.monotonic() + timeout_s
        bounded(len(question), f"the question to TensorFlow ({module})")
        if not running:
            running.append(start(module, args, stderr=subprocess.PIPE, alone=True, keras=keras))
        try:
            body, errors = _exchange(running[0], _SIZE.pack(len(question)) + question, deadline)
            if not body:
                how = f"({ending(running[0])}){last_words(errors)}"
                raise OracleError(f"the child process that asks TensorFlow ({module}) ended without an answer {how}")
        except BaseException as error:  # an answer that still comes would be taken for the next question's
            stop(running.pop())
            if not isinstance(error, TimeoutError):
                raise
            message = (
                f"TensorFlow did not answer within {timeout_s:g} s ({module}); allow it more time or ask about less"
            )
            raise OracleError(message) from None
        if body[:1] == b"+":
            return body[1:]
        reply = json.loads(body[1:])
        raise OracleError(reply["message"], refusal=reply["refusal"])

    try:
        yield ask
    finally:
        while running:
            stop(running.pop())


def start(
    module: str, args: Sequence[str] = (), *, stderr: int | None = None, alone: bool = False, keras: bool = False
) -> subprocess.Popen[bytes]:
    """Start a module that calls `serve` or `die_with_parent`, with pipes to its stdin and from its stdout.

    It leads a session `alone`, or is killed with the caller's process group. Raises OracleError if it can't be started.
    """
    try:
        return subprocess.Popen(
            [sys.executable, "-c", _START if keras else _WITHOUT_KERAS + _START, module, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, _PARENT: str(os.getpid()), _PATH: os.pathsep.join(sys.path)},
            start_new_session=alone,
        )
    except OSError as error:
        message = f"no process for TensorFlow could be started ({sys.executable}: {error.strerror})"
        raise OracleError(f"{message}; see that this Python may be run, and that processes may be started") from None


def stop(child: subprocess.Popen[bytes]) -> None:
    """Kill the child's whole process group, then reap the child and close its pipes."""
    if child.returncode is None:  # not yet reaped, so its process id, the name of the group, can't be another's
        os.killpg(child.pid, signal.SIGKILL)
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    child.wait()


def ending(child: subprocess.Popen[bytes]) -> str:
    """The way in which a process ended that has closed its pipes, and a remedy."""
    try:
        code = child.wait(_LAST_S)
    except subprocess.TimeoutExpired:  # it lives, and is killed next
        return "it closed its pipes"
    if code == -signal.SIGKILL:
        return "killed by signal 9; if nobody did it, there was too little memory: ask about less"
    return f"killed by signal {-code}" if code < 0 else f"exit status {code}"


def last_words(errors: bytes) -> str:
    """The last line that a process wrote to stderr, but for notes of a log, behind a colon; empty if there is none."""
    lines = [line for line in errors.decode(errors="replace").strip().splitlines() if not _NOTED.match(line)]
    return f": {lines[-1][:1000]}" if lines else ""


def _exchange(child: subprocess.Popen[bytes], message: bytes, deadline: float) -> tuple[bytes | None, bytes]:
    """Write the message and read both pipes until an answer is whole or ends: neither side can block the other.

    Returns the answer, None where not all of it came, or more, and the end of what came on stderr.
    """
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    answer, errors = bytearray(), bytearray()
    left = memoryview(message)
    with selectors.DefaultSelector() as pipes:
        for pipe in (child.stdin, child.stdout, child.stderr):
            os.set_blocking(pipe.fileno(), False)
            pipes.register(pipe, selectors.EVENT_WRITE if pipe is child.stdin else selectors.EVENT_READ)
        while True:
            ready = pipes.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                if key.fileobj is child.stdin:
                    left = left[_written(key.fd, left) :]
                    if not left:
                        pipes.unregister(child.stdin)
                    continue
                read = os.read(key.fd, _CHUNK_BYTES)
                if key.fileobj is child.stdout:
                    answer += read
                    whole = next_message(answer)
                    if not read or whole is not None:
                        return None if answer else whole, bytes(errors) + _rest(child.stderr.fileno())
                elif read:
                    errors += read
                    del errors[:-KEPT_STDERR_BYTES]
                else:
                    pipes.unregister(child.stderr)


def _written(descriptor: int, left: memoryview) -> int:
    """The number of bytes that the child took; all if it has closed its end, as nobody will read the rest."""
    try:
        return os.write(descriptor, left[:_CHUNK_BYTES])
    except BrokenPipeError:
        return len(left)


def _rest(descriptor: int) -> bytes:
    """The unread part of stderr; a grandchild may hold it open, so do not wait for its end."""
    try:
        return os.read(descriptor, KEPT_STDERR_BYTES)
    except BlockingIOError:  # nothing has been written
        return b""


def _whole(answer: bytes | bytearray) -> int:
    """The length of the message that begins so."""
    size: int = _SIZE.unpack_from(answer)[0]
    bounded(size, "the answer from TensorFlow")
    return _SIZE.size + size


def bounded(nbytes: int, what: str, most: int | None = None) -> None:
    """Raise OracleError if something is larger than `most`, by default the bound of a message."""
    most = MAX_MESSAGE_BYTES if most is None else most
    if nbytes > most:
        message = f"{what} has {nbytes:,} bytes, more than the {most:,} that it may have"
        raise OracleError(f"{message}; ask about a smaller graph")


def serve(work: Callable[[bytes], bytes]) -> NoReturn:
    """Answer each question on stdin by `work(question)`, in the child; end the process when no more can come.

    A missing TensorFlow and an OracleError reach the caller as OracleError. Any other error ends the process; the
    caller gets the last line of its traceback.
    """
    die_with_parent()
    out = os.fdopen(os.dup(1), "wb")  # not inherited by grandchildren, so that its end is the end of the answers
    os.dup2(2, 1)
    code = 1
    try:
        while (question := read(sys.stdin.buffer)) is not None:
            write(out, _answer(work, question))
            gc.enable()  # TensorFlow is imported now
        code = 0
    except Exception:  # noqa: BLE001  # the caller reports its last line
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)  # TensorFlow's servers and thread pools may hang in an orderly exit


def read(file: IO[bytes]) -> bytes | None:
    """The next message of a pipe; None if the pipe has ended, even within a message."""
    head = file.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return None
    body = file.read(_whole(head) - _SIZE.size)
    return body if len(body) == _SIZE.unpack(head)[0] else None


def next_message(received: bytearray) -> bytes | None:
    """Take the first message out of the bytes read from a pipe; None while it is not whole."""
    if len(received) < _SIZE.size or len(received) < (end := _whole(received)):
        return None
    message = bytes(received[_SIZE.size : end])
    del received[:end]
    return message


def write(file: IO[bytes], message: bytes) -> None:
    """Send a message through a pipe, its size ahead."""
    file.write(_SIZE.pack(len(message)) + message)
    file.flush()


def _answer(work: Callable[[bytes], bytes], question: bytes) -> bytes:
    try:
        answer = b"+" + work(question)
        bounded(len(answer), "the answer from TensorFlow")
        return answer
    except OracleError as error:
        reply: dict[str, str | None] = {"message": str(error), "refusal": error.refusal}
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "tensorflow":
            raise
        reply = {"message": INSTALL, "refusal": None}
    return b"-" + json.dumps(reply).encode()


def pack(facts: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """One message out of JSON facts and byte strings, for a question or an answer."""
    head = json.dumps({"facts": dict(facts), "sizes": [len(blob) for blob in blobs]}).encode()
    return b"".join((_SIZE.pack(len(head)), head, *blobs))


def unpack(message: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """The facts and byte strings of a packed message."""
    start = _SIZE.size + _SIZE.unpack_from(message)[0]
    head = json.loads(message[_SIZE.size : start])
    blobs = []
    for size in head["sizes"]:
        blobs.append(message[start : start + size])
        start += size
    return head["facts"], blobs


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends; end at once if the parent is gone already."""
    parent = int(os.environ.pop(_PARENT, "0"))
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent and os.getppid() != parent:
        os._exit(1)
