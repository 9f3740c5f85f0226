"""Laws of `combining.py` about other processes: a bench of one job and of two, and other hash seeds."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from combining_running import ROOT, Case, NothingSaid, equal

from viz.command.summary import summarise
from viz.formats.drawing import draw
from viz.formats.json_object import record, to_json

HASH_SEEDS = ("1", "7", "4242", "4294967295")
TIMEOUT_S = 240
FILES = ("a.json", "a.html", "a.pb", "a.trace.json", "a.timeline.svg", "a.run_metadata.pb")
MORE_FILES = ("a.graphml", "a.dot", "a.svg", "a.pbtxt")
FOLDERS = ("a.partitions", "a.tables")
LARGE_BYTES = 300_000  # of a graph: of larger ones fewer files are drawn
# Options that a bench takes of each step; of others it knows nothing.
OF_BENCH = frozenset(
    ("--cluster", "--algorithm", "--budget", "--batch", "--keep-calls", "--ignore-devices", "--hard", "--master",
     "--flavour", "--costs", "--profile", "--order", "--contention", "--protocol", "--recv-scheduling", "--engine",
     "--trips", "--branch", "--seed")
)  # fmt: skip


def same_bytes(case: Case) -> Iterator[str]:
    """Another process with another hash seed writes the same bytes."""
    chance = case.random("hash")
    call = case.call.having({"--engine": case.call.options.get("--engine", "python")})
    scene = case.scene(call)
    small = Path(case.call.graph).stat().st_size < LARGE_BYTES
    files = [*FILES, *chance.sample(MORE_FILES, 2), *([chance.choice(FOLDERS)] if small else [])]
    arguments = [word for name in files for word in ("--json" if name == "a.json" else "-o", name)]
    ended = _ran(case, [*call.words(), "--verbose", *arguments], chance.choice(HASH_SEEDS))
    if ended.returncode not in (0, 1) or b"Traceback" in ended.stderr:
        yield f"the other process ends with {ended.returncode}: {ended.stderr.decode()[-300:]}"
        return
    for name in files:
        here = to_json(scene).encode() if name == "a.json" else draw(scene, name[1:])
        there = case.folder / name
        if isinstance(here, Mapping):
            found = {str(one.relative_to(there)): one.read_bytes() for one in there.rglob("*") if one.is_file()}
            if found != dict(here):
                yield f"{name} differs in another process"
        elif there.read_bytes() != here:
            yield f"{name} differs in another process"
    if summarise(scene, verbose=True).encode() not in ended.stdout:
        yield "the summary differs in another process"


def _ran(case: Case, words: Sequence[str], hash_seed: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "viz", *words]
    return subprocess.run(
        command, cwd=case.folder, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False
    )


def jobs_alike(case: Case) -> Iterator[str]:
    """A bench in two processes has the table of one, in that order, and its row is the run itself."""
    scene = case.only(steps=True)
    options = case.call.options
    if not OF_BENCH.issuperset(options) or "--cluster" not in options:
        raise NothingSaid
    algorithm = options.get("--algorithm", "search")
    names = [algorithm] if algorithm == "single" else [algorithm, "single"]
    kept = case.call.having({}, "--algorithm", "--cluster").words()
    other = "2gpu" if options["--cluster"] != "2gpu" else "3cpu"
    words = ["bench", *kept, "--cluster", options["--cluster"], "--cluster", other, "--algorithms", ",".join(names)]
    tables = []
    for jobs, hash_seed in (("1", "0"), ("2", "7")):
        ended = _ran(case, [*words, "--jobs", jobs, "-o", f"{jobs}.csv"], hash_seed)
        if ended.returncode not in (0, 1) or b"Traceback" in ended.stderr:
            yield f"a bench of {jobs} jobs ends with {ended.returncode}: {ended.stderr.decode()[-300:]}"
            return
        with (case.folder / f"{jobs}.csv").open(newline="") as file:
            tables.append([{k: v for k, v in row.items() if k != "placing_s"} for row in csv.DictReader(file)])
    one, two = tables
    yield from equal("rows of a bench of one job and of two", len(one), len(two), 2 * len(names))
    for first, second in zip(one, two, strict=False):
        for column in first:
            yield from equal(f"{column} in a bench of one job and of two", first[column], second[column])
    row = one[0]
    if row["refused"]:
        yield f"the bench is refused what runs alone: {row['refused']}"
        return
    told = record(scene)
    yield from equal("makespan in a bench", int(row["makespan_ns"]), told["makespan_ns"])
    yield from equal("used in a bench", row["used"], told["algorithm"]["used"])
    yield from equal("transfers in a bench", int(row["transfers"]), len(told["transfers"]))
    yield from equal("nodes in a bench", int(row["nodes"]), told["graph"]["nodes"])
    if int(row["lower_bound_ns"]) > int(row["makespan_ns"]):
        yield f"a bench's bound is {row['lower_bound_ns']} ns, its step takes {row['makespan_ns']} ns"


PROCESSES: Mapping[str, tuple[Callable[[Case], Iterator[str]], bool]] = {
    "another process and hash seed, same bytes": (same_bytes, False),
    "a bench of one job and of two": (jobs_alike, False),
}
WANTED_OF_PROCESSES: Mapping[str, Mapping[str, Sequence[str] | None]] = {
    "a bench of one job and of two": {
        "--training": None, "--cluster": ("2gpu", "4gpu", "ps=1,worker=2", "worker=2x2gpu", "3cpu"), "--pin": None,
        "--feed": None, "--observation": None, "--replicate": None, "--microbatches": None, "--stages": None,
    },
}  # fmt: skip
