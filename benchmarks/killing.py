"""The command killed at random moments of each mode: what is left of its processes, ports and files.

    python benchmarks/killing.py [--moments 20] [--seed 0] [--modes TEXT]

A process that leads a session of its own is sent SIGINT, SIGTERM or SIGKILL at a moment between its start and the time
that it takes undisturbed. It has an output folder, a folder for temporary files and a home of its own. Looked for are
processes that have its environment, three seconds later at most; the ports on which they listen would be theirs. In the
output folder each file is whole or not there, or it is a fault. Temporary files there, in shared memory and elsewhere
are counted.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[1]
GRAPH = str(ROOT / "examples" / "ps_training.pbtxt")
MARK = "SIMVIZ_KILLED"  # environment: of which run a process is
SETTLED_S = 3.0
_TRAINING = ("--cluster", "ps=2,worker=2", "--training", "async")
MODES: Mapping[str, Sequence[str]] = {
    "report": (GRAPH, "-o", "a.html"),
    "files": (GRAPH, "-o", "a.trace.json", "-o", "a.pb", "-o", "a.pbtxt", "--json", "a.json"),
    "pictures": (GRAPH, "-o", "a.svg", "-o", "a.png", "-o", "a.dot"),
    "PDF": (GRAPH, "-o", "a.pdf", "-o", "a.timeline.pdf", "-o", "a.memory.pdf"),
    "folders": (GRAPH, "-o", "a.parquet", "-o", "a.tables", "-o", "a.model_explorer", "-o", "a.tensorboard"),
    "partitions": (GRAPH, "--cluster", "ps=2,worker=2", "-o", "a.partitions"),
    "training": (GRAPH, *_TRAINING, "--steps", "200", "--engine", "python", "-o", "a.html"),
    "training, compiled": (GRAPH, *_TRAINING, "--steps", "2000", "--engine", "compiled", "-o", "a.html"),
    "search for a rate": (GRAPH, *_TRAINING, "--workers", "1,2,4", "--steps", "20", "-o", "a.html"),
    "compiling": (GRAPH, *_TRAINING, "--steps", "2", "--engine", "compiled", "-o", "a.html"),
    "search": (GRAPH, "--cluster", "ps=2,worker=2x2gpu", "--budget", "3s", "-o", "a.html"),
    "two walks": (GRAPH, "--cluster", "ps=2,worker=2x2gpu", "--ignore-devices", "-o", "a.html"),
    "exact": (GRAPH, "--cluster", "2gpu", "--ignore-devices", "--algorithm", "exact", "--budget", "4s", "-o", "a.html"),
    "what if": (GRAPH, "--cluster", "ps=2,worker=2x2gpu", "--what-if", "--json", "a.json"),
    "two runs": (
        GRAPH,
        "--cluster",
        "ps=2,worker=2",
        "--against",
        "ps=2,worker=1",
        "-o",
        "a.html",
        "-o",
        "a.comparison.svg",
    ),
    "bench": ("bench", GRAPH, "--cluster", "ps=2,worker=1", "--cluster", "ps=2,worker=2", "--jobs", "2", "-o", "a.csv"),
    "grappler": (GRAPH, "--cluster", "ps=2,worker=1x1gpu", "--grappler", "-o", "a.html", "--json", "a.json"),
    "observe": (GRAPH, "--observe", "-o", "a.observed", "-o", "a.html"),
    "refine": (GRAPH, "--cluster", "ps=2,worker=1", "--refine", "-o", "a.html"),
    "calibrate": ("--calibrate", "a.toml"),
    "check": (GRAPH, "--cluster", "ps=2,worker=1", "--algorithm", "tensorflow", "--check", "-o", "a.html"),
}
_COLD = ("compiling",)  # modes that find no machine code
_LONGEST_S = {"calibrate": 15.0}  # a mode that takes minutes is killed in its first seconds
# A file is whole if it ends so; JSON if it can be read.
_ENDS = {
    ".html": b"</html>\n",
    ".svg": b"</svg>\n",
    ".png": b"IEND\xaeB`\x82",
    ".pdf": b"%%EOF\n",
    ".dot": b"}\n",
    ".pbtxt": b"}\n",
}
_FOLDERS = {  # a folder is whole if it has so many files, each as it should be
    ".partitions": (3, b"}\n"),
    ".parquet": (7, b"PAR1"),
    ".tables": (7, b"\n"),
    ".model_explorer": (4, b"}"),
    ".tensorboard": (1, b""),
}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def is_whole(path: Path) -> bool:
    """Whether a result is finished."""
    raw = path.read_bytes() if path.is_file() else b""
    if path.suffix in _FOLDERS:
        count, end = _FOLDERS[path.suffix]
        found = [file.read_bytes() for file in path.rglob("*") if file.is_file()]
        return len(found) == count and all(content.endswith(end) for content in found)
    if path.suffix == ".json":
        json.loads(raw)
    if path.suffix == ".pb":
        from simulator.graph.messages import GraphDef

        return len(GraphDef.FromString(raw).node) > 200
    if path.suffix == ".csv":
        return raw.endswith(b"\n") or not raw  # rows of what is done are kept
    if path.suffix == ".observed":
        json.loads(gzip.decompress(raw))
    if path.suffix == ".toml":
        from simulator.costs.profile import read_profile

        read_profile(path)
    return bool(raw) and raw.endswith(_ENDS.get(path.suffix, b""))


def alive(mark: str) -> list[int]:
    """The processes that have that mark in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                text = (entry / "environ").read_bytes()
            except OSError:  # it has ended, or is another user's
                continue
            if f"{MARK}={mark}".encode() in text:
                found.append(int(entry.name))
    return found


def shared() -> set[Path]:
    """What lies in shared memory."""
    return set(Path("/dev/shm").iterdir()) if Path("/dev/shm").is_dir() else set()


def until(done: Callable[[], bool], seconds: float) -> bool:
    """Wait for that, at most so long."""
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        time.sleep(0.02)
    return done()


def killed(arguments: Sequence[str], number: int | None, after_s: float, *, cold: bool = False) -> Counter[str]:
    """The remains of one run; `number` is the signal, None: it goes on to its end."""
    left: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="simviz-killing-") as folder:
        places = {name: Path(folder, name) for name in ("out", "tmp", "home")}
        for place in places.values():
            place.mkdir()
        mark, before = uuid.uuid4().hex, shared()
        environment = {**os.environ, MARK: mark, "TMPDIR": str(places["tmp"]), "HOME": str(places["home"])}
        environment |= {"XDG_CACHE_HOME": str(places["home"]), "PYTHONPATH": str(ROOT)}
        environment |= {"SIMVIZ_CACHE_DIR": str(places["home"])} if cold else {}
        command = [sys.executable, "-m", "viz", *arguments]
        process = subprocess.Popen(
            command, cwd=places["out"], env=environment, start_new_session=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            _, said = process.communicate(timeout=after_s)
            left["had ended"] += 1
        except subprocess.TimeoutExpired:
            process.send_signal(number or signal.SIGINT)
            begin = time.monotonic()
            _, said = process.communicate()
            left["longer than a second to end"] += time.monotonic() - begin > 1
            ours = b"<frozen site>" not in said  # else Python itself was still starting
            left["another exit code"] += ours and number != signal.SIGKILL and process.returncode not in (
                0, -(number or 0), 128 + (number or 0),
            )  # fmt: skip
        if left["another exit code"] or b"Traceback" in said:
            print(arguments, number, after_s, process.returncode, said.decode(errors="replace"), file=sys.stderr)
        left["traceback through simviz"] += b"Traceback" in said and (b"/viz/" in said or b"/simulator/" in said)
        if not until(lambda: not alive(mark), SETTLED_S):
            left["processes"] += 1
            for pid in alive(mark):
                os.kill(pid, signal.SIGKILL)
        left["shared memory"] += bool(shared() - before)
        names = list(places["out"].iterdir())
        left["temporary files beside results"] += any(path.name.startswith(".") for path in names)
        left["half results"] += not all(is_whole(path) for path in names if not path.name.startswith("."))
        left["other temporary files"] += any(places["tmp"].iterdir())
        kept = [path for path in places["home"].rglob("*") if path.is_file()]
        left["parts of machine code"] += any(path.name.startswith(".") for path in kept)
    return left


def lasting(mode: str) -> float:
    """The seconds that a run takes undisturbed, the second time; of a mode that takes minutes some of them."""
    if mode in _LONGEST_S:
        return _LONGEST_S[mode]
    for _ in range(2):
        begin = time.monotonic()
        found = killed(MODES[mode], None, 600, cold=mode in _COLD)
        assert found["had ended"], found
    return time.monotonic() - begin


FOUND = (
    "had ended",
    "processes",
    "half results",
    "temporary files beside results",
    "other temporary files",
    "shared memory",
    "parts of machine code",
    "traceback through simviz",
    "another exit code",
    "longer than a second to end",
)


def main() -> None:
    """Print a row per mode and signal."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--moments", type=int, default=20, help="of each mode and signal")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--modes", default="", help="only the one of that name, or those whose name holds this")
    asked = options.parse_args()
    random = Random(asked.seed)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in a shell's background it would be ignored, by all
    print(f"| mode | signal | moments | {' | '.join(FOUND)} |", "|---" * (3 + len(FOUND)) + "|", sep="\n")
    whole: dict[int, Counter[str]] = defaultdict(Counter)
    for mode in [asked.modes] if asked.modes in MODES else [mode for mode in MODES if asked.modes in mode]:
        arguments = MODES[mode]
        seconds = lasting(mode)
        for number in SIGNALS:
            left: Counter[str] = Counter()
            for _ in range(asked.moments):
                left += killed(arguments, number, random.uniform(0, seconds), cold=mode in _COLD)
            whole[number] += left
            counts = " | ".join(str(left[one]) for one in FOUND)
            print(f"| {mode}, {seconds:.1f} s | {number.name} | {asked.moments} | {counts} |", flush=True)
    for number in SIGNALS:
        print(f"| all | {number.name} | | {' | '.join(str(whole[number][one]) for one in FOUND)} |")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
