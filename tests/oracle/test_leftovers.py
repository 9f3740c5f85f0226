"""Whatever happens while TensorFlow is asked about a cluster that is not there, nothing is left of it afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from simulator.cluster.description import load_cluster
from simulator.errors import OracleError
from simulator.oracle.child import Asking
from simulator.oracle.dry_runs import DryRun, conversation, dry_run
from tests.oracle.processes import gone, traces
from tests.oracle.test_local import runs
from tests.oracle.test_standin import training

pytestmark = pytest.mark.tensorflow
Left = tuple[list[int], dict[str, str]]

_ASKS_FOR_EVER = """
import sys
from tests.oracle.test_leftovers import asked
from simulator.oracle.dry_runs import conversation
with conversation() as asking:
    asked(asking)
    print("ready", flush=True)
    while True:
        asked(asking)
"""
_ASKS_ONCE = """
import sys
from tests.oracle.test_leftovers import asked
from simulator.oracle.dry_runs import ask
print(len(asked(ask).placement), file=open(sys.argv[1], "w"))
"""
# A network of its own, with two ports to be given away.
_FEW_PORTS = """
import ctypes, fcntl, socket, struct, sys
NEW_USER, NEW_NETWORK, SET_FLAGS, UP = 0x10000000, 0x40000000, 0x8914, 1
if ctypes.CDLL(None).unshare(NEW_USER | NEW_NETWORK):
    sys.exit(77)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as lo:
    fcntl.ioctl(lo, SET_FLAGS, struct.pack("16sH14x", b"lo", UP))
open("/proc/sys/net/ipv4/ip_local_port_range", "w").write("40000 40001")
from tests.oracle.test_leftovers import asked  # only now, as a process of several threads can't leave its user
from simulator.oracle.dry_runs import ask
asked(ask, "ps=4,worker=4x1gpu")
"""
# Root may have any number of processes, so it becomes somebody else first.
_NO_MORE_PROCESSES = """
import os, resource
from simulator.oracle import child
if os.getuid() == 0:
    os.setresuid(65534, 65534, 65534)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
child.run("tests.oracle.answering", b"", timeout_s=20, args=["reverse"])
"""


def asked(asking: Asking, cluster: str = "ps=1,worker=2x2gpu", timeout_s: float = 60) -> DryRun:
    graph = training()
    step = runs(graph, "update")
    return dry_run(graph, load_cluster(cluster), step=step, asking=asking, timeout_s=timeout_s)


@contextmanager
def begun() -> Iterator[tuple[Asking, Left]]:
    """A conversation in which the servers stand; afterwards nothing of it may be left."""
    before, _ = traces(os.getpid())
    with conversation() as asking:
        asked(asking)
        found, sockets = traces(os.getpid())
        left = [pid for pid in found if pid not in before], sockets
        assert (len(left[0]), len(sockets)) == (2, 3)
        yield asking, left
        last = traces(os.getpid())
    assert gone(left)
    assert gone(([pid for pid in last[0] if pid not in before], last[1]))


@pytest.mark.usefixtures("own_processes")
def test_nothing_is_left_of_an_answer_or_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(ZeroDivisionError), begun() as (_, left):
        raise ZeroDivisionError
    assert gone(left)
    assert not list(tmp_path.iterdir())


def test_stand_ins_that_were_killed_are_missed_and_replaced() -> None:
    with begun() as (asking, ((_, workers), _)):
        os.kill(workers, signal.SIGKILL)
        with pytest.raises(OracleError, match=r"stand-in workers ended too early \(killed by signal 9.*ask again"):
            asked(asking)
        assert asked(asking).refusal is None


def test_a_master_that_waits_for_ever_is_given_up_and_replaced() -> None:
    with begun() as (asking, left):
        os.kill(left[0][1], signal.SIGSTOP)
        with pytest.raises(OracleError, match=r"did not answer within 2 s .*; allow it more time or ask about less"):
            asked(asking, timeout_s=2)
        assert gone(left)
        assert asked(asking).refusal is None


@pytest.mark.parametrize(
    ("who", "said"),
    [
        (1, r"stand-in workers ended too early \(killed by signal 9"),
        (0, r"ended without an answer \(killed by signal 9; if nobody did it, there was too little memory"),
    ],
)
def test_a_process_killed_in_the_midst_of_a_question_is_not_waited_for(who: int, said: str) -> None:
    with begun() as (asking, (pids, _)):
        os.kill(pids[1], signal.SIGSTOP)  # the master waits for it
        threading.Timer(1, os.kill, [pids[who], signal.SIGKILL]).start()
        with pytest.raises(OracleError, match=said):  # which is not that it took too long
            asked(asking)


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_caller(blow: signal.Signals, tmp_path: Path) -> None:
    caller = _caller(_ASKS_FOR_EVER, TMPDIR=str(tmp_path))
    try:
        assert caller.stdout is not None
        assert caller.stdout.readline() == b"ready\n"
        left = traces(caller.pid)
        assert (len(left[0]), len(left[1])) == (2, 3)
        os.killpg(caller.pid, blow)  # as a terminal does
        _, said = caller.communicate(timeout=20)
        assert caller.returncode != 0
        assert (b"KeyboardInterrupt" in said) == (blow == signal.SIGINT)
        assert gone(left)
        assert not list(tmp_path.iterdir())
    finally:
        caller.kill()


@pytest.mark.parametrize("closed", [[0], [0, 1, 2]])
def test_a_caller_without_standard_streams_is_answered(closed: list[int], tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    caller = _caller(_ASKS_ONCE, str(answer), preexec_fn=partial(_close, closed))
    assert caller.wait(timeout=60) == 0
    caller.communicate()
    assert answer.read_text() == "6\n"


def test_too_few_ports_are_reported() -> None:
    caller = _caller(_FEW_PORTS)
    _, said = caller.communicate(timeout=60)
    if caller.returncode == 77:
        pytest.skip("this system gives no network of one's own")
    assert b"OracleError: the stand-in workers could not listen on 127.0.0.1 (" in said
    assert b"see that ports are free" in said


def test_a_process_that_is_refused_is_reported() -> None:
    _, said = _caller(_NO_MORE_PROCESSES).communicate(timeout=60)
    assert b"OracleError: no process for TensorFlow could be started" in said
    assert b"Resource temporarily unavailable" in said


def _close(numbers: list[int]) -> None:
    for number in numbers:
        os.close(number)


def _caller(script: str, *args: str, preexec_fn: Any = None, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        start_new_session=True,
        preexec_fn=preexec_fn,
    )
