"""Judges of the fuzzer: a case runs in a child with limits of time and memory, and what comes of it is named.

Accepted: exit code 0, or 1 where a table says why nothing fits, and nothing on standard error. Refused: one complaint
of at most `MOST_CHARACTERS`. Everything else is a fault: another exception, a warning, a longer complaint, more time or
memory than allowed, a child that dies.
"""

from __future__ import annotations

import faulthandler
import io
import os
import pickle
import re
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path

from simulator.errors import SimvizError
from tests.fuzzing.cases import LIBRARY, Case

ACCEPTED, REFUSED, FAULT = "accepted", "refused", "fault"
MOST_CHARACTERS = 600
MOST_SECONDS = 20.0
MOST_BYTES = 4 * 2**30  # of address space above what the child begins with
CASES_PER_CHILD = 200
_NAMED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|-?\d[\d,.]*(?:e[+-]?\d+)?")
_TOO_LARGE = "too large for this machine's memory"


@dataclass(frozen=True)
class Outcome:
    """What came of a case: one of the three words, the complaint or the fault, and what it took."""

    verdict: str
    said: str
    seconds: float
    peak_bytes: int  # resident memory at its highest, above that at the beginning

    @property
    def kind(self) -> str:
        """The outcome without names and figures: outcomes of one kind are counted as one."""
        return f"{self.verdict}: {_NAMED.sub('_', self.said)[:120]}"


def judged(case: Case) -> Outcome:
    """Run a case in this process and in its current folder, which should be empty."""
    from viz.command.cli import main

    for name, raw in case.files.items():
        Path(name).write_bytes(raw)
    for name, target in case.links.items():
        os.symlink(target, name)
    before = dict(os.environ)
    os.environ.update(case.environment)
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    begin_bytes, begin = _resident(), time.perf_counter()
    try:
        with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", DeprecationWarning)  # as Python does
            code = _called(case.arguments[0]) if case.sort == LIBRARY else main(list(case.arguments))
        verdict, said = _verdict(code, err.getvalue())
    except SystemExit as end:
        verdict, said = (ACCEPTED, "help") if end.code in (0, None) else (FAULT, f"SystemExit {end.code}")
    except BaseException as error:  # noqa: BLE001  # whatever escapes is a fault
        verdict, said = FAULT, _where(error)
    seconds, peak = time.perf_counter() - begin, _peak() - begin_bytes
    os.environ.clear()
    os.environ.update(before)
    return Outcome(verdict, said, seconds, max(0, peak))


def _called(text: str) -> int:
    """Make a call of a public function; the exit code that the command would have."""
    from tests.fuzzing.library import call  # late: it loads all packages

    try:
        call(text)
    except SimvizError as error:
        print(f"simviz: {error}", file=sys.stderr)
        return 2
    return 0


def _verdict(code: int, said: str) -> tuple[str, str]:
    text = said.removeprefix("simviz: ").rstrip("\n")
    if code == 1 and not said:  # a table whose rows say why nothing is feasible
        return ACCEPTED, ""
    if code == 0:
        return (FAULT, f"accepted with words on standard error: {text[:300]}") if said else (ACCEPTED, "")
    if code not in (1, 2) or not said.startswith("simviz: ") or "\nsimviz: " in said or "Warning: " in said:
        return FAULT, f"exit code {code} and {said[:300]!r}"
    if len(text) > MOST_CHARACTERS:
        return FAULT, f"a refusal of {len(text)} characters: {text[:300]}"
    return (FAULT, text) if _TOO_LARGE in text or not text.strip() else (REFUSED, text)


def _where(error: BaseException) -> str:
    """The exception, and the last of our lines that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if "/site-packages/" not in one.filename and "/lib/python" not in one.filename]
    last = (ours or frames)[-1]
    place = "/".join(Path(last.filename).parts[-3:])
    return f"{type(error).__name__} in {place}, line {last.lineno}: {str(error)[:200]}"


def _status(name: str) -> int:
    with open("/proc/self/status", encoding="ascii") as lines:
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)


def _resident() -> int:
    """Resident bytes now; the highest figure so far is forgotten where the kernel can do so."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS:") if Path("/proc/self/status").exists() else 0


def _peak() -> int:
    if Path("/proc/self/status").exists():
        return _status("VmHWM:")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# ---- in a child -----------------------------------------------------------------------------------------------------


def outcomes(cases: Iterable[Case], *, most_seconds: float = MOST_SECONDS) -> Iterator[tuple[Case, Outcome]]:
    """Each case with its outcome. A child that dies or takes too long is replaced, and its case is a fault."""
    load()
    child: _Child | None = None
    try:
        for case in cases:
            if child is None or child.done >= CASES_PER_CHILD:
                if child is not None:
                    child.end()
                child = _Child()
            yield case, child.ask(case, most_seconds)
            if child.dead:
                child = None
    finally:
        if child is not None:
            child.end()


def load() -> None:
    """Load what every run needs, so that a child has it from its parent."""
    import viz.command.cli
    import viz.command.running
    import viz.command.summary
    import viz.formats.json_object
    import viz.formats.output  # noqa: F401  # to have it loaded is all that is wanted
    from simulator.execution.choosing import STEP, TRAINING, warm_up

    for loop in (STEP, TRAINING):
        warm_up(loop)


def hide_tensorflow() -> None:
    """Let TensorFlow count as not installed in this process: an answer of it takes seconds."""
    sys.modules["tensorflow"] = None  # type: ignore[assignment]  # so a module is not found


class _Child:
    """A forked process that runs cases, one after the other, in a folder that is deleted when it has ended."""

    def __init__(self) -> None:
        from_us, self._to = os.pipe()
        self._from, to_us = os.pipe()
        self.done, self.dead = 0, False
        self._folder = tempfile.mkdtemp(prefix="simviz-fuzz-")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the child: faulthandler writes there
        sys.stdout.flush()
        self._pid = os.fork()
        if not self._pid:
            os.close(self._to)
            os.close(self._from)
            _serve(from_us, to_us, self._folder, self._log.fileno())
        os.close(from_us)
        os.close(to_us)

    def ask(self, case: Case, most_seconds: float) -> Outcome:
        """The outcome of a case."""
        self.done += 1
        body = pickle.dumps(case)
        os.write(self._to, struct.pack("<q", len(body)))
        view = memoryview(body)
        while view:
            view = view[os.write(self._to, view) :]
        begin = time.perf_counter()
        ready, _, _ = select.select([self._from], [], [], most_seconds)
        if not ready:
            os.kill(self._pid, signal.SIGABRT)  # faulthandler says where it was
            said = f"more than {most_seconds:g} s"
            return self._lost(said, time.perf_counter() - begin)
        answer = _taken(self._from)
        if answer is None:
            return self._lost("the process died", time.perf_counter() - begin)
        found: Outcome = pickle.loads(answer)
        return found

    def _lost(self, said: str, seconds: float) -> Outcome:
        self.dead = True
        status, where = self._close()
        named = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"code {status >> 8}"
        return Outcome(FAULT, f"{said}{where}" if "more than" in said else f"{said} of {named}{where}", seconds, 0)

    def _close(self) -> tuple[int, str]:
        """Wait for the child's end, and delete what it had: its status, and the line that faulthandler found it in."""
        os.close(self._to)
        os.close(self._from)
        status = os.waitpid(self._pid, 0)[1]
        shutil.rmtree(self._folder, ignore_errors=True)
        self._log.seek(0)
        lines = [line.strip() for line in self._log.read().decode(errors="replace").splitlines()]
        self._log.close()
        return status, next((f", at {line}" for line in lines if line.startswith("File ")), "")

    def end(self) -> None:
        """End the child, whatever it does, and wait for it."""
        if not self.dead:
            self.dead = True
            os.kill(self._pid, signal.SIGKILL)
            self._close()


def _taken(pipe: int) -> bytes | None:
    """A message with its length in front, or None at the end of the pipe."""
    head = _exactly(pipe, 8)
    return None if head is None else _exactly(pipe, struct.unpack("<q", head)[0])


def _exactly(pipe: int, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = os.read(pipe, count - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _serve(source: int, target: int, folder: str, log: int) -> None:
    """Answer cases until the pipe ends; never returns. The folder is deleted here, too: the parent may be gone."""
    code = 1
    try:
        faulthandler.enable(log)
        size = (
            int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            if os.path.exists("/proc/self/statm")
            else 2**32
        )
        resource.setrlimit(resource.RLIMIT_AS, (size + MOST_BYTES,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        hide_tensorflow()
        os.chdir(folder)
        while (body := _taken(source)) is not None:
            for entry in os.listdir("."):
                shutil.rmtree(entry) if os.path.isdir(entry) and not os.path.islink(entry) else os.remove(entry)
            answer = pickle.dumps(judged(pickle.loads(body)))
            os.write(target, struct.pack("<q", len(answer)) + answer)
        code = 0
    finally:
        os.chdir("/")
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(code)
