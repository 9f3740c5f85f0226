"""Atomic writes: whole or not at all, also where a process is killed, and with the rights that a new file has."""

from __future__ import annotations

import errno
import gzip
import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import files
from simulator.files import FREE_BYTES, GZIP, mode, replace_file, unzipped
from simulator.limits import GZIP_RATIO, STREAM_BYTES, raised

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


@given(
    parts=st.lists(st.binary(max_size=300), min_size=1, max_size=4), repeated=st.integers(1, 400), behind=st.binary()
)
def test_gzip_unfolds_as_gunzip_does_it(parts: list[bytes], repeated: int, behind: bytes) -> None:
    raw = b"".join(gzip.compress(part * repeated) for part in parts)
    assert unzipped(raw, STREAM_BYTES) == gzip.decompress(raw) == b"".join(part * repeated for part in parts)
    if not behind.startswith(GZIP):
        assert unzipped(raw + behind, STREAM_BYTES) == unzipped(raw, STREAM_BYTES)
    for cut in {1, len(raw) // 2, len(raw) - 1}:
        with pytest.raises(ValueError, match=r"cut|damaged") if len(parts) == 1 else suppress(ValueError):
            unzipped(raw[:cut], STREAM_BYTES)


def test_a_few_kilobytes_of_gzip_do_not_unfold_to_half_a_gigabyte() -> None:
    small = gzip.compress(bytes(FREE_BYTES))
    assert len(unzipped(small, STREAM_BYTES)) == FREE_BYTES
    assert len(small) * GZIP_RATIO.default < FREE_BYTES
    for raw in (gzip.compress(bytes(FREE_BYTES + 1)), small * 3):
        with pytest.raises(ValueError, match="more than 4 MiB; if you trust it, --limit gzip-ratio=N takes more"):
            unzipped(raw, STREAM_BYTES)
    with raised({"gzip-ratio": 1100}):
        assert len(unzipped(small * 3, STREAM_BYTES)) == 3 * FREE_BYTES
    large = os.urandom(2**17)  # which gzip can't make smaller
    assert len(unzipped(gzip.compress(large) + gzip.compress(bytes(2**23)), STREAM_BYTES)) == 2**17 + 2**23


def test_gzip_of_many_members_takes_time_in_proportion_to_them() -> None:
    assert len(unzipped(gzip.compress(b"x") * 100_000, STREAM_BYTES)) == 100_000
