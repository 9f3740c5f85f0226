"""The wheel holds all that git holds of the packages, and the source distribution all that git holds."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("simulator", "placement", "viz")
BUILD = """
import sys
from setuptools import build_meta
folder = sys.argv[1]  # setuptools changes these
build_meta.build_sdist(folder)
build_meta.build_wheel(folder)
"""
# of suffixes and in folders that nobody thought of, and what must stay out
NEW = ("viz/assets/fonts/new.woff2", "simulator/cluster/presets/new.json", "placement/NEW")
OLD = (
    "viz/__pycache__/entry.cpython-311.pyc",
    "simulator/execution/compiled/__pycache__/loop.nbi",
    "simulator/errors.py~",
)


@pytest.fixture(scope="module")
def held() -> set[str]:
    """What git tracks or would track."""
    if not (ROOT / ".git").exists():
        if os.environ.get("CI"):
            pytest.fail("this is no git checkout")
        pytest.skip("this is no git checkout, so nothing says which files there should be")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
    return {name for name in listed if name and (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def built(held: set[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both, of a copy of the tree with new files and old leftovers in it."""
    folder, tree = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("tree")
    for name in sorted(held):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    for name in NEW + OLD:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("x")
    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=tree, capture_output=True, check=True)
    return folder


def test_the_wheel_holds_every_file_of_the_packages(held: set[str], built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    found = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert found == {name for name in held if name.split("/")[0] in PACKAGES} | set(NEW)


def test_the_source_distribution_holds_every_file(held: set[str], built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {one.name.partition("/")[2] for one in opened.getmembers() if one.isfile()}
    found = {name for name in names if name != "PKG-INFO" and not name.startswith("simviz.egg-info/")}
    assert found == held | set(NEW)


@pytest.mark.parametrize("name", ["hops", "host_ops", "messages", "accuracy_models"])
def test_a_measurement_says_that_it_needs_tensorflow(name: str, tmp_path: Path) -> None:
    hidden = "import importlib.util as util\nfind = util.find_spec\n"
    hidden += "util.find_spec = lambda name, *rest: None if name == 'tensorflow' else find(name, *rest)\n"
    (tmp_path / "sitecustomize.py").write_text(hidden)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[1]}"}
    command = [sys.executable, str(Path(__file__).parents[1] / "benchmarks" / f"{name}.py")]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stderr == 'TensorFlow is needed to measure it: pip install "simviz[tensorflow]"\n'
    assert ended.returncode == 1
