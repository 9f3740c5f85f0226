import signal
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.errors import OracleError
from simulator.oracle import child
from tests.oracle.processes import awaited, ended

_MODULE = "tests.oracle.answering"
_HANG = f"""
import sys
from simulator.oracle.child import run
run({_MODULE!r}, b"", timeout_s=90, args=["hang", sys.argv[1]])
"""


def _run(*args: str, payload: bytes = b"", timeout_s: float = 60) -> bytes:
    return child.run(_MODULE, payload, timeout_s=timeout_s, args=args)


@pytest.mark.parametrize("payload", [b"", b"abc", bytes(range(256)) * 8192])
def test_the_answer_comes_back_whole(payload: bytes) -> None:
    assert _run("reverse", payload=payload) == payload[::-1]


def test_what_is_printed_neither_spoils_the_answer_nor_blocks() -> None:
    assert _run("chatter", payload=b"clean") == b"clean"


def test_a_refusal_keeps_its_sentence() -> None:
    with pytest.raises(OracleError, match="TensorFlow refuses") as caught:
        _run("refuse")
    assert caught.value.refusal == "Cannot assign a device"


def test_a_missing_tensorflow_says_how_to_install_it() -> None:
    with pytest.raises(OracleError, match=r'pip install "simviz\[tensorflow\]"'):
        _run("missing")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("fail", r"without an answer \(exit status 1\): ValueError: the reason, on the last line"),
        ("missing other", "No module named 'grpc'"),
        ("die", r"without an answer \(exit status 7\)$"),
        ("cut short", r"without an answer \(exit status 0\)$"),
    ],
)
def test_a_child_that_fails_is_reported_by_its_last_line(what: str, said: str) -> None:
    with pytest.raises(OracleError, match=said):
        _run(what)


def test_what_a_log_notes_is_no_reason() -> None:
    """TensorFlow 2.21 died of a signal, and the reason was said to be that there is no GPU."""
    noted = b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
    noted += b"I0000 00:00:1796025730.438781   24244 cudart_stub.cc:31] Could not find cuda drivers\n"
    assert child.last_words(noted) == ""
    assert child.last_words(b"E0000 00:00:17 1 a.cc:3] the reason\n" + noted).endswith("a.cc:3] the reason")


def test_a_module_that_does_not_exist_is_reported() -> None:
    with pytest.raises(OracleError, match="No module named"):
        child.run("tests.oracle.nowhere", b"x" * 2**20, timeout_s=60)


def test_nothing_outlives_a_time_limit(tmp_path: Path) -> None:
    told = tmp_path / "pids"
    with pytest.raises(OracleError, match="did not answer within 5 s"):
        _run("hang", str(told), timeout_s=5)
    assert ended(awaited(told))


def test_nothing_outlives_an_answer(tmp_path: Path) -> None:
    told = tmp_path / "pids"
    assert _run("leave a process", str(told)) == b"done"
    assert ended(awaited(told))


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_caller(tmp_path: Path, blow: signal.Signals) -> None:
    told = tmp_path / "pids"
    caller = subprocess.Popen([sys.executable, "-c", _HANG, str(told)], stderr=subprocess.PIPE)
    try:
        pids = awaited(told)
        caller.send_signal(blow)
        _, said = caller.communicate(timeout=20)
        assert caller.returncode != 0
        assert (b"KeyboardInterrupt" in said) == (blow == signal.SIGINT)
        assert ended(pids)
    finally:
        caller.kill()


def test_messages_that_are_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "MAX_MESSAGE_BYTES", 1000)
    with child.conversation(_MODULE, args=["grow"]) as ask:
        with pytest.raises(
            OracleError, match=r"question .* has 1,001 bytes, more than the 1,000 .*ask about a smaller"
        ):
            ask(b"x" * 1001, 60)
        with pytest.raises(OracleError, match=r"answer from TensorFlow has 1,001 bytes"):
            ask(b"x" * 10, 60)
        assert ask(b"x" * 9, 60) == b"x" * 900


def test_no_descriptor_is_left_open() -> None:
    before = sorted(Path("/proc/self/fd").iterdir())
    _run("reverse")
    with pytest.raises(OracleError):
        _run("fail")
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_packed_messages_are_unpacked() -> None:
    facts = {"soft": True, "feeds": ["a:0"], "none": None}
    assert child.unpack(child.pack(facts, [b"", b"\0\1", b"x" * 9])) == (facts, [b"", b"\0\1", b"x" * 9])
    assert child.unpack(child.pack({})) == ({}, [])


def test_a_python_that_may_not_run_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(OracleError, match=r"no process for TensorFlow could be started .*No such file"):
        _run("reverse")
