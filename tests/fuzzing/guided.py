"""Inputs that reach new branches: atheris keeps them, mutates them by our own rules, and hands all of them on.

atheris (Apache-2.0) drives libFuzzer, which ends its process on its own terms. So it runs in a process of its own
(`guided_target`), which runs a case without judging it. The inputs that reach new branches lie in a folder at the end.
They are the cases that are judged, each in a child with limits.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from simulator.execution.choosing import STEP, TRAINING, warm_up
from tests.fuzzing.cases import SORTS, Case, of_input
from tests.fuzzing.texts import Chance, changed_bytes, changed_text

MOST_BYTES = 1 << 16  # of an input
ROOT = Path(__file__).parents[2]


def case_of(data: bytes, sorts: Sequence[str]) -> Case | None:
    """The case that an input of libFuzzer stands for: its first byte is the sort, the rest the content."""
    if not data:
        return None
    return of_input(sorts[data[0] % len(sorts)], data[1:], Chance(hashlib.sha256(data).hexdigest()))


def guided(sorts: Sequence[str], seconds: float) -> Iterator[Case]:
    """The cases that libFuzzer keeps within that time, and those that stopped it."""
    for loop in (STEP, TRAINING):
        warm_up(loop)  # first: to compile is not what is looked at
    with tempfile.TemporaryDirectory(prefix="simviz-guided-") as folder:
        kept, stopped = Path(folder, "kept"), Path(folder, "stopped")
        kept.mkdir()
        stopped.mkdir()
        for number, sort in enumerate(sorts):
            for nth in range(20):
                raw = bytes([number]) + SORTS[sort](Chance(f"begin:{sort}:{nth}"))
                (kept / f"{number}-{nth}").write_bytes(raw[:MOST_BYTES])
        # as a module: a script's own folder would come first, whose `numbers` is not Python's
        command = [sys.executable, "-m", "tests.fuzzing.guided_target", "\n".join(sorts), str(kept)]
        command += [f"-artifact_prefix={stopped}/"]
        command += [f"-max_total_time={int(seconds)}", f"-max_len={MOST_BYTES}", "-timeout=30", "-rss_limit_mb=4096"]
        command += ["-verbosity=1"]
        done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        said = [line for line in done.stderr.splitlines() if "DONE" in line or "cov:" in line or "ERROR" in line]
        if "INITED" not in done.stderr or "no interesting inputs" in done.stderr:
            raise RuntimeError(f"libFuzzer saw no branches:\n{done.stderr[-1000:]}")
        print(said[-1], file=sys.stderr)
        for path in sorted(stopped.iterdir()) + sorted(kept.iterdir()):
            case = case_of(path.read_bytes(), sorts)
            if case is not None:
                yield case


def mutated(data: bytes, most: int, seed: int, sorts: Sequence[str]) -> bytes:
    """Another input of the same sort: a new one of the grammar, or this one with changes."""
    random = Chance(str(seed))
    number = data[0] % len(sorts) if data else random.randrange(len(sorts))
    sort, raw = sorts[number], data[1:]
    if random.random() < 0.3:
        raw = SORTS[sort](random)
    elif "binary" in sort or sort == "gzip":
        raw = changed_bytes(raw, random, [raw])
    else:
        raw = changed_text(raw.decode("utf-8", "surrogateescape"), random).encode("utf-8", "surrogateescape")
    return (bytes([number]) + raw)[:most]
