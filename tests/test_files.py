"""Atomic writes: whole or not at all, also where a process is killed, and with the rights that a new file has."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simulator import files
from simulator.files import mode, replace_file

ROOT = Path(__file__).parents[1]


@pytest.fixture(params=["unnamed", "named"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to write: with files that have no name yet, and for systems without them."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    return str(request.param)


def test_a_file_is_replaced_with_its_rights_and_a_link_stays(way: str, tmp_path: Path) -> None:
    target, link = tmp_path / "a", tmp_path / "link"
    replace_file(target, b"one")
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"one", mode(folder=False))
    target.chmod(0o640)
    link.symlink_to("a")
    replace_file(link, b"two")
    assert (target.read_bytes(), target.stat().st_mode & 0o777, link.is_symlink()) == (b"two", 0o640, True)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "link"}


def test_a_failure_leaves_the_old_file_alone(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"old")

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="No space"):
                replace_file(tmp_path / "a", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"old")]


def test_a_file_system_that_names_no_such_file_is_written_to_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "link", fail)
    replace_file(tmp_path / "a", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"new")]


def test_a_process_that_is_killed_while_it_writes_leaves_nothing(tmp_path: Path) -> None:
    if not hasattr(os, "O_TMPFILE"):
        pytest.skip("this system has no files without a name")
    (tmp_path / "a").write_bytes(b"old")
    code = (
        "import os, signal, sys; from pathlib import Path; from simulator import files; "
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL); files.replace_file(Path(sys.argv[1]), b'new')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], cwd=ROOT)
    assert done.returncode == -9
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"old")]


def test_a_limit_on_the_size_of_files_is_told(way: str, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            files.replace_file(tmp_path / "a", bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
