"""Which engine runs a step: small steps never wait for LLVM, and nothing breaks where it is missing."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import placement.algorithms.exact as exact
from simulator.columns import Ints
from simulator.errors import UnsupportedError
from simulator.execution import choosing, engine
from simulator.execution.compiled import engine as compiled
from simulator.execution.compiled import kernel
from simulator.execution.compiled.translation import Array
from simulator.execution.evaluate import evaluate
from simulator.execution.preparing import Prepared
from tests.execution.test_compiled import network
from viz.command.cli import main

ROOT = Path(__file__).parents[2]


def little(found: Ints) -> None:
    """Stands for what is compiled."""
    found[0] = 7


LITTLE, SMALL = [kernel.Parameter(Array("int64", 1), (Array,))], choosing.CompiledSources("A test", 1, "", "little", ())


def test_auto_takes_what_is_loaded_and_else_only_what_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choosing.choose("auto", 1)  # this module has loaded it
    monkeypatch.delitem(sys.modules, "simulator.execution.compiled.engine")
    monkeypatch.setattr(choosing, "loads", lambda loop: True)
    for warm, events, expected in (
        (True, 10**4, False),
        (True, 10**5, True),
        (False, 10**5, False),
        (False, 10**7, True),
    ):
        monkeypatch.setattr(choosing, "is_warm", lambda loop, warm=warm: warm)
        assert choosing.choose("auto", events) is expected
    assert not choosing.choose("python", 10**9)


def test_a_small_step_loads_no_compiler() -> None:
    code = (
        "import sys\n"
        "from tests.execution.test_engine import story\n"
        "from tests.execution.cases import apart, assigned, costs, whole\n"
        "from placement import place\n"
        "from simulator import partition, simulate\n"
        "graph, on = story('x = Const', 'a = Neg x').built(), apart(2)\n"
        "place(graph, on, costs(graph, on, 10), step=whole(graph), algorithm='heft')\n"
        "simulate(partition(graph, assigned(on, [0, 1]), on, step=whole(graph)), on, costs(graph, on, 10))\n"
        "print('llvmlite' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False"


def test_without_llvm_only_the_compiled_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simulator.execution.compiled.engine", None)
    with pytest.raises(UnsupportedError, match=r"needs llvmlite, .*; install it, or take"):
        choosing.choose("compiled", 1)
    monkeypatch.delitem(sys.modules, "simulator.execution.compiled.engine")
    monkeypatch.setattr(choosing, "load", _missing)
    assert not choosing.choose("auto", 10**9)
    assert main(["--warm-up"]) == 1
    tables, _ = network(40, devices=3)
    rows = np.random.default_rng(0).integers(0, 3, (4, 40))
    spans = evaluate(Prepared(tables, tables.names, ()), rows)
    assert spans.tolist() == [engine.makespan(tables, row) for row in rows]


def _missing(loop: choosing.CompiledSources) -> None:
    raise UnsupportedError("The compiled engine needs llvmlite, which cannot be loaded: there is none")


@pytest.mark.parametrize(("module", "load"), [(choosing, "load"), (exact, "_solver")])
def test_an_interrupt_while_a_library_loads_does_not_make_it_missing(
    module: ModuleType, load: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C code makes an ImportError of one. The run went on without the library, or said that it must be installed."""

    def interrupted(name: str) -> None:
        raise ImportError("initialization failed") from KeyboardInterrupt()

    monkeypatch.setattr(module, "import_module", interrupted)
    with pytest.raises(KeyboardInterrupt):
        getattr(module, load)()


def test_where_nothing_can_be_written_it_is_compiled_without_being_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SIMVIZ_CACHE_DIR", str(tmp_path / "file"))
    found = np.zeros(1, np.int64)
    made = kernel.made(little, LITTLE, SMALL)
    made(found)
    assert (made.kept, made.found, found.tolist()) == (None, False, [7])
    monkeypatch.delenv("SIMVIZ_CACHE_DIR")
    monkeypatch.setattr(compiled.play, "kept", None)
    assert main(["--warm-up"]) == 1
    assert "set SIMVIZ_CACHE_DIR" in capsys.readouterr().out


@pytest.mark.parametrize("damage", [b"", b"code", None])
def test_what_was_kept_is_found_unless_it_is_damaged(
    damage: bytes | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SIMVIZ_CACHE_DIR", str(tmp_path))
    first = kernel.made(little, LITTLE, SMALL)
    assert first.kept is not None
    assert [first.kept] == list(tmp_path.iterdir())
    if damage is not None:
        first.kept.write_bytes(damage + first.kept.read_bytes()[: 40 * len(damage)])
    again, found = kernel.made(little, LITTLE, SMALL), np.zeros(1, np.int64)
    again(found)
    assert (again.found, found.tolist()) == (damage is None, [7])


def test_a_user_without_a_home_has_one_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> None:
        raise KeyError

    for name in ("SIMVIZ_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert [folder.name for folder in choosing.folders()] == ["__pycache__"]


def test_a_folder_into_which_nobody_may_look_is_cold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def hidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setenv("SIMVIZ_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(Path, "glob", hidden)
    assert not choosing.is_warm()


@pytest.mark.parametrize("limit", [0, 1, 4096])
def test_a_disk_that_fills_up_keeps_no_part_of_the_code(limit: int, tmp_path: Path) -> None:
    """A process that may write no file of more bytes has the error of a full disk."""
    code = (
        "import resource, signal, sys; from pathlib import Path; from simulator.execution.compiled import kernel\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)\n"
        "print(kernel._write(Path(sys.argv[2], 'a.code'), bytes(10_000)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(limit), str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
    assert list(tmp_path.iterdir()) == []


def test_warming_up_says_where_it_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--warm-up"]) == 0
    said = capsys.readouterr().out
    assert "compiled" in said
    assert str(compiled.play.kept.parent if compiled.play.kept else "") in said
    assert choosing.is_warm()


def test_after_warming_up_a_run_by_default_compiles_nothing(tmp_path: Path) -> None:
    """The default algorithm is a search, which has code of its own, and so have bounds."""
    there = {**os.environ, "SIMVIZ_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "viz"]
    subprocess.run([*command, "--warm-up"], cwd=ROOT, env=there, check=True, stdout=subprocess.DEVNULL)
    kept = sorted(tmp_path.iterdir())
    ask = [*command, "examples/ps_training.pbtxt", "--cluster", "worker=2x2gpu", "--ignore-devices", "--budget", "200"]
    subprocess.run([*ask, "--quiet", "--json", os.devnull], cwd=ROOT, env=there, check=True)
    assert sorted(tmp_path.iterdir()) == kept
    assert len(kept) > 2


def test_who_waits_for_the_compiler_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "simulator.execution.compiled.engine")
    monkeypatch.setattr(choosing, "is_warm", lambda loop: False)
    monkeypatch.setattr(choosing, "import_module", lambda name: compiled)
    told: list[str] = []
    with choosing.telling(told.append):
        choosing.load()
    choosing.load()
    assert told == ["compiling the event loop, once: some 2 s", "running the event loop, which is compiled now"]


def test_a_cache_of_other_sources_is_cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMVIZ_CACHE_DIR", str(tmp_path))
    assert not choosing.is_warm()
    (tmp_path / "play-0123456789abcdef-processor.code").touch()
    assert not choosing.is_warm()
    kept = tmp_path / f"play-{choosing.digest(choosing.STEP)}-processor.code"
    kept.touch()
    os.utime(kept, (0, 0))  # older than the sources: their texts count
    assert choosing.is_warm()


def test_an_edit_in_any_part_changes_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    files = [tmp_path / "folder" / "one.py", tmp_path / "folder" / "two.py", tmp_path / "three.py"]
    for file in files:
        file.write_text("same")
    monkeypatch.setattr(choosing, "_ROOT", tmp_path)
    sources = choosing.CompiledSources("The loop", 1, "folder/one.py", "play", ("folder", "three.py"))
    seen = {choosing.digest.__wrapped__(sources)}
    for file in files:
        file.write_text("other")
        seen.add(choosing.digest.__wrapped__(sources))
        file.touch()
        assert choosing.digest.__wrapped__(sources) in seen
    assert len(seen) == 4
