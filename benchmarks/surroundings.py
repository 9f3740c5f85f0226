"""The command where the system refuses it something; writes a table for RESULTS.md. Linux alone; mounts need root.

    python benchmarks/surroundings.py [--settings TEXT]

A setting is a full disk, a folder that can't be written, a pipe that nobody reads, no home, a cache of another version,
or a second run that writes the same files at the same moment. In each some modes of `killing.py` run to their end. A
run keeps to the rule if it ends well, or with one sentence; without a traceback, half a result, or a temporary file. A
result that was there before a refusal is as it was.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from killing import MODES, ROOT, is_whole

MODES_HERE = ("report", "files", "folders", "partitions", "training, compiled", "bench")
TIMEOUT_S = 240
KIB = 1024


@dataclass
class Place:
    """The folders of a run, and what it is started with."""

    out: Path
    home: Path
    tmp: Path
    environment: dict[str, str | None] = field(default_factory=dict)
    streams: dict[str, Any] = field(default_factory=dict)  # of Popen; Any: a file or a number
    at_once: int = 1  # runs


@contextmanager
def _mounted(folder: Path, options: str) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _filled(folder: Path, left_kib: int) -> None:
    """Leave so much room."""
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_bsize
    (folder / "filling").write_bytes(bytes(max(free - left_kib * KIB, 0)))


@contextmanager
def _full(place: Place, which: str, left_kib: int = 0) -> Iterator[None]:
    folder: Path = getattr(place, which)
    with _mounted(folder, "size=1m"):
        _filled(folder, left_kib)
        yield


@contextmanager
def _read_only(place: Place, which: str) -> Iterator[None]:
    folder: Path = getattr(place, which)
    with _mounted(folder, "size=1m,ro"):
        yield


@contextmanager
def _unread(place: Place, *names: str) -> Iterator[None]:
    """Streams whose reader has gone."""
    reading, writing = os.pipe()
    os.close(reading)
    place.streams |= dict.fromkeys(names, writing)
    try:
        yield
    finally:
        os.close(writing)


@contextmanager
def _to(place: Place, file: str, *names: str) -> Iterator[None]:
    with open(file, "wb") as stream:
        place.streams |= dict.fromkeys(names, stream)
        yield


@contextmanager
def _with(place: Place, **environment: str | None) -> Iterator[None]:
    place.environment |= environment
    yield


@contextmanager
def _foreign_code(place: Place, content: bytes | None) -> Iterator[None]:
    """A cache whose files hold that, under the names of this version; None: those of another version."""
    run(place, ["--warm-up"])
    for path in list(place.home.rglob("*.code")):
        if content is None:
            path.rename(path.with_name(path.name.replace("-", "-0123", 1)))
        else:
            path.write_bytes(content)
    yield


@contextmanager
def _occupied(place: Place) -> Iterator[None]:
    """A file where the cache's folder should be."""
    (place.home / "file").write_bytes(b"")
    place.environment["SIMVIZ_CACHE_DIR"] = str(place.home / "file")
    yield


@contextmanager
def _at_once(place: Place, count: int) -> Iterator[None]:
    place.at_once = count
    yield


SETTINGS: Mapping[str, Callable[[Place], Any]] = {  # Any: a context manager
    "a full disk": lambda place: _full(place, "out"),
    "a disk with room for 64 KiB": lambda place: _full(place, "out", 64),
    "a folder that can't be written": lambda place: _read_only(place, "out"),
    "a full folder for temporary files": lambda place: _full(place, "tmp"),
    "one that can't be written": lambda place: _read_only(place, "tmp"),
    "one that is not there": lambda place: _with(place, TMPDIR="/nowhere"),
    "standard output that nobody reads": lambda place: _unread(place, "stdout"),
    "both streams that nobody reads": lambda place: _unread(place, "stdout", "stderr"),
    "standard output into a full disk": lambda place: _to(place, "/dev/full", "stdout"),
    "both streams into a full disk": lambda place: _to(place, "/dev/full", "stdout", "stderr"),
    "no HOME": lambda place: _with(place, HOME=None, XDG_CACHE_HOME=None, SIMVIZ_CACHE_DIR=None),
    "a HOME that is not there": lambda place: _with(place, HOME="/nowhere", XDG_CACHE_HOME=None, SIMVIZ_CACHE_DIR=None),
    "a cache that can't be written": lambda place: _read_only(place, "home"),
    "a full cache": lambda place: _full(place, "home"),
    "a file in place of the cache": _occupied,
    "a cache of another version": lambda place: _foreign_code(place, None),
    "a cache with an empty file": lambda place: _foreign_code(place, b""),
    "a cache with other bytes": lambda place: _foreign_code(place, bytes(range(256)) * 99),
    "two runs that write the same files": lambda place: _at_once(place, 2),
    "four runs that write the same files": lambda place: _at_once(place, 4),
}
FOUND = ("ended well", "refused in a sentence", "tracebacks", "other ends", "half results", "temporary files", "lost")


def run(place: Place, arguments: Sequence[str]) -> list[tuple[int, bytes]]:
    """The exit codes and what is said, where it can be heard."""
    environment: dict[str, str | None] = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(place.home)}
    environment |= {"TMPDIR": str(place.tmp), "SIMVIZ_CACHE_DIR": str(place.home)}
    environment |= place.environment
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **place.streams}
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "viz", *arguments],
            cwd=place.out,
            env={name: value for name, value in environment.items() if value is not None},
            **streams,
        )
        for _ in range(place.at_once)
    ]
    return [(one.returncode, said or b"") for one in runs for said in [one.communicate(timeout=TIMEOUT_S)[1]]]


def judged(setting: str, mode: str) -> Counter[str]:
    """What came of a mode in a setting, where results of before lie in the folder."""
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="simviz-around-") as folder:
        place = Place(Path(folder, "out"), Path(folder, "home"), Path(folder, "tmp"))
        for one in (place.out, place.home, place.tmp):
            one.mkdir()
        with SETTINGS[setting](place):
            before = place.out / "a.svg"
            kept = not os.statvfs(place.out).f_flag & os.ST_RDONLY and os.statvfs(place.out).f_bavail > 0
            if kept:
                before.write_bytes(b"<svg></svg>\n")
            for code, said in run(place, MODES[mode]):
                quiet = "stderr" in place.streams
                found["tracebacks"] += b"Traceback" in said or b"Exception ignored" in said
                if code in (0, 1) and not said.startswith(b"simviz: "):
                    found["ended well"] += 1
                elif code in (1, 2) and (quiet or (said.startswith(b"simviz: ") and said.count(b"\n") == 1)):
                    found["refused in a sentence"] += 1
                else:
                    found["other ends"] += 1
                if found["tracebacks"] or found["other ends"]:
                    print(setting, mode, code, said.decode(errors="replace")[-500:], file=sys.stderr)
            names = [path for path in place.out.iterdir() if path.name != "filling"]
            broken = [path.name for path in names if not path.name.startswith(".") and not _whole(path)]
            hidden = [path.name for path in names if path.name.startswith(".")]
            found["half results"] += bool(broken)
            found["temporary files"] += bool(hidden) or any(path.name != "filling" for path in place.tmp.iterdir())
            found["lost"] += kept and not before.exists()
            if broken or hidden:
                print(setting, mode, broken, hidden, file=sys.stderr)
    return found


def _whole(path: Path) -> bool:
    return path.read_bytes() == b"<svg></svg>\n" if path.name == "a.svg" else is_whole(path)


def main() -> None:
    """Print a row per setting."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--settings", default="", help="only those whose name holds this")
    asked = options.parse_args()
    print(f"| setting | runs | {' | '.join(FOUND)} |", "|---" * (2 + len(FOUND)) + "|", sep="\n")
    whole: Counter[str] = Counter()
    for setting in SETTINGS:
        if asked.settings in setting:
            found: Counter[str] = Counter()
            for mode in MODES_HERE:
                found += judged(setting, mode)
            whole += found
            runs = sum(found[name] for name in ("ended well", "refused in a sentence", "other ends"))
            print(f"| {setting} | {runs} | {' | '.join(str(found[name]) for name in FOUND)} |", flush=True)
    runs = sum(whole[name] for name in ("ended well", "refused in a sentence", "other ends"))
    print(f"| all | {runs} | {' | '.join(str(whole[name]) for name in FOUND)} |")


if __name__ == "__main__":
    main()
