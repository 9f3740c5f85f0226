"""Every example prints what its .out file says."""

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("[0-9]*.py")), ids=lambda path: path.stem)
def test_example_prints_what_it_promises(script: Any) -> None:
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout == script.with_suffix(".out").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "script", ["examples/make_ps_training.py", "benchmarks/graphs.py", "benchmarks/published_graphs.py"]
)
def test_what_makes_graphs_says_what_to_install(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)  # it is not found
    with pytest.raises(SystemExit, match=r"TensorFlow is needed .*pip install \"simviz\[tensorflow\]\""):
        runpy.run_path(str(EXAMPLES.parent / script))
