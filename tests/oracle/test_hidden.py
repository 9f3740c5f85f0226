"""A step takes as long with TensorFlow installed as without: its shapes follow by our own rules."""

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.oracle import child
from tests.oracle.hidden import Hidden

pytestmark = pytest.mark.tensorflow

PROGRAMS = ("words_2", "words_1", "queued")  # loops, stacks and queues, whose shapes need several passes


def makespans(which: str, paths: list[Path]) -> list[int]:
    command = [sys.executable, "-m", "tests.oracle.hidden", which, *map(str, paths)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    return [int(one) for one in json.loads(said)]


def test_makespans_are_the_same_without_tensorflow(tmp_path: Path) -> None:
    paths = [Path("examples/ps_training.pbtxt").absolute()]
    with child.conversation("tests.oracle.two_batches") as ask:
        for program in PROGRAMS:
            question = json.dumps({"program": program, "batches": [4]}).encode()
            paths.append(tmp_path / f"{program}.pb")
            paths[-1].write_bytes(base64.b64decode(json.loads(ask(question, 300.0))[0]))
    found = makespans("hidden", paths)
    assert found == makespans("installed", paths)
    assert all(one > 0 for one in found)


def test_tensorflow_is_really_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [Hidden(), *sys.meta_path])
    for name in [name for name in sys.modules if name.partition(".")[0] == "tensorflow"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError):
        __import__("tensorflow")
