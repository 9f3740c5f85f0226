"""Which engine runs a step: small steps never wait for numba, and nothing breaks where it is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from simulator.errors import UnsupportedError
from simulator.execution import choosing, compiled, engine
from simulator.execution.evaluate import Prepared, evaluate
from tests.execution.test_compiled import network
from viz.cli import main

ROOT = Path(__file__).parents[2]


def test_auto_takes_what_is_loaded_and_else_only_what_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choosing.choose("auto", 1)  # this module has loaded it
    monkeypatch.delitem(sys.modules, "simulator.execution.compiled")
    monkeypatch.setattr(choosing, "loads", lambda: True)
    for warm, events, expected in (
        (True, 10**5, False),
        (True, 10**6, True),
        (False, 10**6, False),
        (False, 10**8, True),
    ):
        monkeypatch.setattr(choosing, "is_warm", lambda warm=warm: warm)
        assert choosing.choose("auto", events) is expected
    assert not choosing.choose("python", 10**9)
    with pytest.raises(UnsupportedError, match="engine='fast'"):
        choosing.choose("fast", 1)


def test_a_small_step_loads_no_numba() -> None:
    code = (
        "import sys\n"
        "from tests.execution.test_engine import story\n"
        "from tests.execution.cases import apart, assigned, costs, whole\n"
        "from simulator import partition, simulate\n"
        "graph, on = story('x = Const', 'a = Neg x').built(), apart(2)\n"
        "simulate(partition(graph, assigned(on, [0, 1]), on, step=whole(graph)), on, costs(graph, on, 10))\n"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False"


def test_without_numba_only_the_compiled_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simulator.execution.compiled", None)
    with pytest.raises(UnsupportedError, match="needs numba"):
        choosing.choose("compiled", 1)
    monkeypatch.delitem(sys.modules, "simulator.execution.compiled")
    monkeypatch.setattr(choosing, "load", _missing)
    assert not choosing.choose("auto", 10**9)
    assert main(["--warm-up"]) == 1
    tables, _ = network(40, devices=3)
    rows = np.random.default_rng(0).integers(0, 3, (4, 40))
    spans = evaluate(Prepared(tables, tables.names, ()), rows)
    assert spans.tolist() == [engine.makespan(tables, row) for row in rows]


def _missing() -> None:
    raise UnsupportedError("The compiled engine needs numba, which cannot be loaded: there is none")


def test_where_nothing_can_be_written_it_is_compiled_without_cache(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def compiler(signature: object, *, cache: bool = False, **options: object) -> object:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function '_play_some': no locator available for file 'compiled.py'")
        return lambda function: function

    assert compiled.made(test_a_small_step_loads_no_numba, None, compiler) == (test_a_small_step_loads_no_numba, False)
    assert asked == [True, False]
    monkeypatch.setattr(compiled, "kept", False)
    assert main(["--warm-up"]) == 1
    assert "set NUMBA_CACHE_DIR" in capsys.readouterr().out


def test_another_failure_to_compile_is_not_hidden() -> None:
    def compiler(*given: object, **options: object) -> object:
        raise RuntimeError("out of registers")

    with pytest.raises(RuntimeError, match="registers"):
        compiled.made(test_a_small_step_loads_no_numba, None, compiler)


def test_warming_up_says_where_it_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--warm-up"]) == 0
    said = capsys.readouterr().out
    assert "compiled" in said
    assert compiled.play.stats.cache_path in said
    assert choosing.is_warm()


def test_a_cache_older_than_the_source_is_cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert not choosing.is_warm()
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    index = tmp_path / "execution_ab12" / f"compiled._play_some-1.{python}.nbi"
    index.parent.mkdir()
    index.touch()
    assert choosing.is_warm()
    os.utime(index, (0, 0))
    assert not choosing.is_warm()
