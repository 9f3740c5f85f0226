"""A fork is to the tests what a process of its own would be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from simulator.errors import OracleError
from simulator.oracle import child
from tests.oracle import forking
from tests.oracle.processes import alive, ended

pytestmark = pytest.mark.tensorflow
MODULE = "tests.oracle.telling"


@pytest.fixture(autouse=True)
def _are_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(forking._TEMPLATES, MODULE, "quiet")


def told(question: str = "", *args: str, **how: bool) -> object:
    return json.loads(child.run(MODULE, question.encode(), timeout_s=100, args=args, **how))


def test_a_fork_tells_what_a_process_of_its_own_tells(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told("remember")  # the template is there before the folder
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    forked = told("surroundings", "one", "two")
    monkeypatch.delitem(forking._TEMPLATES, MODULE)
    assert forked == told("surroundings", "one", "two")


def test_a_fork_has_tensorflow_already_and_another_path_starts_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told("modules") == ["tensorflow"]
    monkeypatch.syspath_prepend("/nowhere")
    assert told("modules") == []


def test_a_template_is_made_as_ever_where_a_test_has_changed_how_children_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forking, "_asked", {})  # those that are there stay, for other tests
    monkeypatch.setattr(child, "_START", "import sys; sys.modules['tensorflow'] = None; " + child._START)
    assert told("modules") == ["tensorflow"]
    assert told("remember") == 1
    assert len(forking.templates()) == 1
    forking.end()


def test_one_fork_knows_nothing_of_another() -> None:
    assert told("remember") == told("remember") == 1


def test_the_end_of_a_fork_is_told() -> None:
    with pytest.raises(OracleError, match=r"exit status 1\): ZeroDivisionError: division by zero"):
        told("divide")
    with pytest.raises(OracleError, match="killed by signal 15"):
        told("die")
    process = child.start(MODULE, alone=True)
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.kill()
    assert process.wait(20) == process.wait() == -signal.SIGKILL
    child.stop(process)


def test_a_fork_whose_caller_has_ended_ends() -> None:
    with patch.object(forking, "_take_orphans"), pytest.raises(AssertionError, match="an orphan"):
        told("remember")
    assert told("remember") == 1


_CALLER = f"""
from simulator.oracle import child
from tests.oracle import forking
forking._TEMPLATES["{MODULE}"] = "quiet"
process = forking.start("{MODULE}")
_, (template, _) = forking._asked.popitem()
print(process.pid, template.pid, flush=True)
__import__("time").sleep(100)
"""


def test_neither_forks_nor_templates_outlive_their_caller() -> None:
    with subprocess.Popen([sys.executable, "-c", _CALLER], stdout=subprocess.PIPE) as caller:
        assert caller.stdout is not None
        left = [int(word) for word in caller.stdout.readline().split()]
        assert len(left) == 2
        assert all(map(alive, left))
        os.kill(caller.pid, signal.SIGKILL)
    assert ended(left)
