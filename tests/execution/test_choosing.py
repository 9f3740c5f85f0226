"""Which engine runs a step: small steps never wait for numba, and nothing breaks where it is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.errors import UnsupportedError
from simulator.execution import caching, choosing, engine
from simulator.execution.compiled import engine as compiled
from simulator.execution.compiled import kernel
from simulator.execution.evaluate import evaluate
from simulator.execution.preparing import Prepared
from tests.execution.test_compiled import network
from viz.command.cli import main

ROOT = Path(__file__).parents[2]


def test_auto_takes_what_is_loaded_and_else_only_what_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choosing.choose("auto", 1)  # this module has loaded it
    monkeypatch.delitem(sys.modules, "simulator.execution.compiled.engine")
    monkeypatch.setattr(choosing, "loads", lambda loop: True)
    for warm, events, expected in (
        (True, 10**5, False),
        (True, 10**6, True),
        (False, 10**6, False),
        (False, 10**8, True),
    ):
        monkeypatch.setattr(choosing, "is_warm", lambda loop, warm=warm: warm)
        assert choosing.choose("auto", events) is expected
    assert not choosing.choose("python", 10**9)


def test_a_small_step_loads_no_numba() -> None:
    code = (
        "import sys\n"
        "from tests.execution.test_engine import story\n"
        "from tests.execution.cases import apart, assigned, costs, whole\n"
        "from placement import place\n"
        "from simulator import partition, simulate\n"
        "graph, on = story('x = Const', 'a = Neg x').built(), apart(2)\n"
        "place(graph, on, costs(graph, on, 10), step=whole(graph), algorithm='heft')\n"
        "simulate(partition(graph, assigned(on, [0, 1]), on, step=whole(graph)), on, costs(graph, on, 10))\n"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False"


def test_without_numba_only_the_compiled_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simulator.execution.compiled.engine", None)
    with pytest.raises(UnsupportedError, match="needs numba"):
        choosing.choose("compiled", 1)
    monkeypatch.delitem(sys.modules, "simulator.execution.compiled.engine")
    monkeypatch.setattr(choosing, "load", _missing)
    assert not choosing.choose("auto", 10**9)
    assert main(["--warm-up"]) == 1
    tables, _ = network(40, devices=3)
    rows = np.random.default_rng(0).integers(0, 3, (4, 40))
    spans = evaluate(Prepared(tables, tables.names, ()), rows)
    assert spans.tolist() == [engine.makespan(tables, row) for row in rows]


def _missing(loop: caching.CompiledSources) -> None:
    raise UnsupportedError("The compiled engine needs numba, which cannot be loaded: there is none")


def test_where_nothing_can_be_written_it_is_compiled_without_cache(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def compiler(signature: object, *, cache: bool = False, **options: object) -> Callable[..., Callable[..., None]]:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function 'little': no locator available for file 'here.py'")
        return lambda function: function

    assert kernel.made(little, None, caching.STEP, compiler) == (little, False)
    assert asked == [True, False]
    monkeypatch.setattr(compiled, "kept", False)
    assert main(["--warm-up"]) == 1
    assert "set NUMBA_CACHE_DIR" in capsys.readouterr().out


def test_another_failure_to_compile_is_not_hidden() -> None:
    def compiler(*given: object, **options: object) -> Callable[..., Callable[..., None]]:
        raise RuntimeError("out of registers")

    with pytest.raises(RuntimeError, match="registers"):
        kernel.made(little, None, caching.STEP, compiler)


def test_warming_up_says_where_it_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--warm-up"]) == 0
    said = capsys.readouterr().out
    assert "compiled" in said
    dispatcher: Any = compiled.play  # Any: numba's
    assert dispatcher.stats.cache_path in said
    assert choosing.is_warm()


def test_a_cache_of_other_sources_is_cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert not choosing.is_warm()
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    folder = tmp_path / "compiled_ab12"
    folder.mkdir()
    (folder / f"engine._play_0123456789abcdef-1.{python}.nbi").touch()
    assert not choosing.is_warm()
    index = folder / f"engine._play_{caching.digest(caching.STEP)}-1.{python}.nbi"
    index.touch()
    os.utime(index, (0, 0))  # older than the sources: their texts count
    assert choosing.is_warm()


def test_an_edit_in_any_part_changes_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    files = [tmp_path / "folder" / "one.py", tmp_path / "folder" / "two.py", tmp_path / "three.py"]
    for file in files:
        file.write_text("same")
    monkeypatch.setattr(caching, "_ROOT", tmp_path)
    sources = caching.CompiledSources("The loop", "folder/one.py", "play", ("folder", "three.py"))
    seen = {caching.digest.__wrapped__(sources)}
    for file in files:
        file.write_text("other")
        seen.add(caching.digest.__wrapped__(sources))
        file.touch()
        assert caching.digest.__wrapped__(sources) in seen
    assert len(seen) == 4


def little() -> None:
    """Stands for what is compiled."""
