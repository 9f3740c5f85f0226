"""The command at a terminal: what it shows while it works, and how it ends when somebody presses Ctrl-C."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from viz import entry
from viz.command import cli
from viz.formats import output

ROOT = Path(__file__).parents[2]
GRAPH = str(ROOT / "examples" / "ps_training.pbtxt")
SHORT = ("--budget", "50")  # placements, where the search plays no part
TRAINING = ("--cluster", "ps=2,worker=2", "--training", "async", *SHORT)
STOPPED = b"simviz: interrupted; nothing was written"
ENDED = (entry.INTERRUPTED, -signal.SIGINT)  # Python ends by the signal itself where that came within an exec of a text
SHOWN, HIDDEN = b"\x1b[?25h", b"\x1b[?25l"  # the cursor


def at_terminal(
    folder: Path, arguments: Sequence[str], press: bytes | None = None, **environment: str
) -> tuple[int, bytes, bytes]:
    """Run the command at a terminal of its own, with its standard output in a pipe; press Ctrl-C once `press` was seen.

    The terminal sends the signal to the whole process group, as a real one does. Returns the exit code, what the
    terminal showed and what was printed.
    """
    reading, printed = os.pipe()
    process, terminal = pty.fork()
    if not process:
        os.dup2(printed, 1)
        os.chdir(folder)
        command = [sys.executable, "-m", "viz", *arguments]
        os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", **environment})
    os.close(printed)
    shown = b""
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # the terminal of a process that has ended
            break
        shown += part
        if press is not None and re.search(press, shown):
            os.write(terminal, b"\x03")
            press = None
    assert press is None
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert _gone(process)
    with open(reading, "rb") as pipe:
        said = pipe.read()
    os.close(terminal)
    return code, shown, said


def _gone(group: int) -> bool:
    """Tell whether nobody of a process group is left; a child that was killed may take a moment to be collected."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_progress_is_one_line_of_a_terminal_and_is_gone_at_the_end(tmp_path: Path) -> None:
    code, shown, said = at_terminal(tmp_path, [GRAPH, *TRAINING, "--steps", "20000"])
    assert code == 0
    assert re.search(rb"training, 2 clients: [0-9,]+ of 40,000 updates", shown)
    assert b"simulating again with" in shown
    assert shown.rindex(SHOWN) > shown.rindex(HIDDEN)
    after = shown[shown.rindex(SHOWN) :]
    assert after.endswith(b"\x1b[1A\x1b[2K")  # up to the line, and it is empty
    assert b"\n" not in after
    assert b"\x1b" not in said
    assert said.endswith(b"Wrote ps_training.html.\n")


@pytest.mark.parametrize("options", [(), ("--quiet",)])
def test_who_is_no_terminal_or_wants_quiet_is_shown_nothing(options: tuple[str, ...], tmp_path: Path) -> None:
    if options:
        assert at_terminal(tmp_path, [GRAPH, *SHORT, *options]) == (0, b"", b"")
        return
    command = [sys.executable, "-m", "viz", GRAPH, *SHORT]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert done.stderr == b""
    assert b"\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("stage", "options"),
    [
        (rb"training, 2 clients: [0-9,]+ of", ("--steps", "100000", "--engine", "python")),
        (rb"training, 2 clients: [0-9,]+ of", ("--steps", "1000000", "--engine", "compiled")),
        (rb"simulating again", ("--steps", "300", "--engine", "python")),
        (rb"drawing a\.", ("-o", "a.png", "-o", "a.pdf", "-o", "a.svg", "-o", "a.html", "--json", "a.json")),
    ],
)
def test_ctrl_c_ends_every_stage_with_a_line(stage: bytes, options: tuple[str, ...], tmp_path: Path) -> None:
    code, shown, said = at_terminal(tmp_path, [GRAPH, *TRAINING, *options], stage)
    assert code in ENDED
    assert said == b""
    assert shown.endswith(STOPPED + b"\r\n")
    assert b"Traceback" not in shown
    assert shown.rindex(SHOWN) > shown.rindex(HIDDEN)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_compiling_with_a_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    options = ("--engine", "compiled", "--steps", "2")
    stage = rb"(?s)compiling the event loop.*compiling the event loop"  # the second picture of it: by now it compiles
    code, shown, _ = at_terminal(
        tmp_path, [GRAPH, *TRAINING, *options], stage, SIMVIZ_CACHE_DIR=str(tmp_path / "empty")
    )
    assert code in ENDED
    assert shown.endswith(STOPPED + b"\r\n")
    assert b"Traceback" not in shown


# a command that Ctrl-C meets in a function that C code has called, where Python drops exceptions
CALLED_BACK = """
import ctypes, os, signal, sys, time
from viz import entry
from viz.command import cli
def work(begin, interrupted):
    begin()
    ctypes.CFUNCTYPE(None)(lambda: os.kill(os.getpid(), signal.SIGINT))()
    time.sleep(60)
    print("slept")
cli.main = work
sys.exit(entry.main())
"""


def test_ctrl_c_amid_a_call_from_c_is_not_lost() -> None:
    done = subprocess.run([sys.executable, "-c", CALLED_BACK], cwd=ROOT, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (entry.INTERRUPTED, b"", STOPPED + b"\n")


# a command that has cleaned up before Ctrl-C, which was dropped, comes anew
LATE = CALLED_BACK.replace("time.sleep(60)", "sys.stdout.write('cleaned up')").replace('print("slept")', "return 7")


def test_ctrl_c_that_comes_anew_does_not_end_what_has_ended() -> None:
    late = LATE.replace("sys.exit(entry.main())", "code = entry.main()\ntime.sleep(0.2)\nsys.exit(code)")
    done = subprocess.run([sys.executable, "-c", late], cwd=ROOT, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"cleaned up", b"")


# a command that gets a signal in an exec of a text, or while C code loads
AMID = """
import os, signal, sys
from viz import entry
from viz.command import cli, running
def work(*_):
    try:
        exec("os.kill(os.getpid(), int(sys.argv[1]))\\nfor _ in range(10**9): pass")
    except KeyboardInterrupt as end:
        if sys.argv[2] == "C":
            raise ImportError("initialization failed") from end
        if sys.argv[2] == "exec":
            raise
    raise TypeError("Cannot compare structured arrays")  # as numpy, which loses it
running.run = work
sys.argv[3:] = []
number, way = sys.argv[1:]
from viz.command.options import Options
read = Options.read
Options.read = lambda self, given=None: read(self, ["examples/ps_training.pbtxt", "--quiet"])
sys.exit(entry.main())
"""


@pytest.mark.parametrize("way", ["exec", "C", "lost"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_has_its_exit_code_wherever_it_comes(number: signal.Signals, way: str) -> None:
    heeded = f"import signal; signal.signal({int(number)}, signal.SIG_DFL)\n"
    heeded += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    command = [sys.executable, "-c", heeded + AMID, str(int(number)), way]
    done = subprocess.run(command, cwd=ROOT, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, b"", STOPPED + b"\n")


# a command that is interrupted amid many objects, and tells when Python looks for cycles among them
AMONG_OBJECTS = """
import gc, os, signal, sys
from viz import entry
from viz.command import cli, running
def work(*_):
    made = [[] for _ in range(100_000)]
    gc.callbacks.append(lambda phase, _: gc.get_freeze_count() < len(made) and print("looked"))
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(10**9): pass
running.run = work
sys.argv[1:] = ["examples/ps_training.pbtxt", "--quiet"]
sys.exit(entry.main())
"""


def test_ctrl_c_waits_for_no_search_for_cycles() -> None:
    done = subprocess.run([sys.executable, "-c", AMONG_OBJECTS], cwd=ROOT, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (entry.INTERRUPTED, b"", STOPPED + b"\n")


# a command that is interrupted while a thread computes, as LLVM compiles in one
BUSY = """
import os, signal, sys, time
from concurrent.futures import ThreadPoolExecutor
from viz import entry
from viz.command import cli
def work(begin, interrupted):
    begin()
    print("begun")
    working = ThreadPoolExecutor(1).submit(time.sleep, 600)
    os.kill(os.getpid(), signal.SIGINT)
    working.result()
cli.main = work
sys.exit(entry.main())
"""


def test_ctrl_c_waits_for_no_thread() -> None:
    done = subprocess.run([sys.executable, "-c", BUSY], cwd=ROOT, capture_output=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (entry.INTERRUPTED, b"begun\n", STOPPED + b"\n")


# a command that gets a signal while it works, and tells that it could clean up
KILLED = """
import os, signal, sys, time
from viz import entry
from viz.command import cli
def work(begin, interrupted):
    begin()
    try:
        os.kill(os.getpid(), int(sys.argv[1]))
        time.sleep(60)
    finally:
        print("cleaned up")
cli.main = work
sys.exit(entry.main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whoever_ends_the_command_lets_it_clean_up(number: signal.Signals) -> None:
    heeded = f"import signal; signal.signal({int(number)}, signal.SIG_DFL)"  # the tests may run under nohup
    command = [sys.executable, "-c", f"{heeded}\n{KILLED}", str(int(number))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, b"cleaned up\n", STOPPED + b"\n")


def test_nohup_is_respected() -> None:
    command = ["nohup", sys.executable, "-c", KILLED.replace("60", "0"), str(int(signal.SIGHUP))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, stdin=subprocess.DEVNULL)
    assert b"interrupted" not in done.stderr


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The command with these arguments, in this process, which keeps its way with SIGINT."""
    before = signal.getsignal(signal.SIGINT)

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["simviz", *arguments])
        return entry.main()

    yield run
    signal.signal(signal.SIGINT, before)


def test_who_stops_the_command_while_it_loads_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: Callable[..., Any]
) -> None:
    class Stop:
        def find_spec(self, name: str, *_: Sequence[str] | None) -> None:
            if name == "viz.command.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "viz.command.cli")
    monkeypatch.setattr(sys, "meta_path", [Stop(), *sys.meta_path])
    assert command(GRAPH) == entry.INTERRUPTED
    assert capsys.readouterr() == ("", STOPPED.decode() + "\n")


# sends the process SIGINT when it begins to load the module that is named first, then runs the command
BLOW = """
import os, signal, sys
from viz import entry
class Blow:
    wanted = sys.argv.pop(1)
    def find_spec(self, name, *_):
        if name == self.wanted:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Blow())
"""
GO = "sys.exit(entry.main())"


@pytest.mark.parametrize(
    "module",
    [
        "argparse",
        "viz.command.cli",
        "viz.command.options",
        "viz.command.request",
        "numpy",
        "numpy._core.multiarray",
        "numpy.linalg",
        "google.protobuf",
        "viz.command.running",
        "viz.command.summary",
    ],
)
def test_ctrl_c_amid_the_loading_of_any_module_is_a_line(module: str, tmp_path: Path) -> None:
    done = blown(module, tmp_path)
    assert done.returncode in ENDED
    assert done.stdout == b""
    assert re.fullmatch(rb"simviz: interrupted; (nothing was written|written before: \S+)\n", done.stderr)


def blown(module: str, folder: Path, before: str = "") -> subprocess.CompletedProcess[bytes]:
    """The command, interrupted when it begins to load a module; `before` is done first."""
    command = [sys.executable, "-c", f"{BLOW}{before}\n{GO}", module, GRAPH, *SHORT]
    return subprocess.run(command, cwd=folder, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


@pytest.mark.parametrize("argument", ["-m", "/usr/bin/simviz"])  # what Python says while it looks for the command
def test_ctrl_c_before_the_command_is_found_leaves_no_traceback(argument: str) -> None:
    code = f"{BLOW}sys.argv = [{argument!r}]\nsys.modules.pop('viz'), sys.modules.pop('simulator.lazy')\nimport viz"
    done = subprocess.run([sys.executable, "-c", code, "simulator.lazy"], cwd=ROOT, capture_output=True)
    assert (done.returncode, done.stderr, done.stdout) == (-signal.SIGINT, b"", b"")


def test_a_program_that_imports_simviz_keeps_its_way_with_ctrl_c() -> None:
    code = "import signal, viz; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_background_job_goes_on(tmp_path: Path) -> None:
    done = blown("numpy", tmp_path, "signal.signal(signal.SIGINT, signal.SIG_IGN)")
    assert (done.returncode, done.stderr) == (0, b"")
    assert [path.name for path in tmp_path.iterdir()] == ["ps_training.html"]


def test_next_to_nothing_is_loaded_before_ctrl_c_is_minded() -> None:
    code = "import sys; before = {*sys.modules}; import viz.entry; print(*sorted({*sys.modules} - before))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    assert set(loaded.split()) <= {"__future__", "simulator", "simulator.lazy", "viz", "viz.entry"}


def test_what_was_written_before_the_interruption_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: Callable[..., Any]
) -> None:
    write, paths = output.write, []

    def second(path: str, content: bytes) -> None:
        paths.append(path)
        if len(paths) == 2:
            raise KeyboardInterrupt
        write(path, content)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(output, "write", second)
    assert command(GRAPH, "-o", "a.html", "-o", "b.trace.json", "--json", "c.json") == entry.INTERRUPTED
    assert capsys.readouterr() == ("", "simviz: interrupted; written before: a.html\n")
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_a_warming_up_that_is_stopped_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: Callable[..., Any]
) -> None:
    def stop(begin: Callable[[], None]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_warm_up", stop)
    assert command("--warm-up") == entry.INTERRUPTED
    assert capsys.readouterr().err == STOPPED.decode() + "\n"
