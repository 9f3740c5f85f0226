"""Inputs that reach new branches: atheris keeps them, mutates them by our own rules, and hands all of them on.

atheris (Apache-2.0) drives libFuzzer, which ends its process on its own terms. So it runs in a process of its own,
whose target runs a case without judging it. The inputs that reach new branches lie in a folder at the end. They are
the cases that are judged, each in a child with limits.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.fuzzing.cases import SORTS, Case, of_input
from tests.fuzzing.texts import Chance, changed_bytes, changed_text

MOST_BYTES = 1 << 16  # of an input
_PACKAGES = ["simulator", "placement", "viz"]


def case_of(data: bytes, sorts: Sequence[str]) -> Case | None:
    """The case that an input of libFuzzer stands for: its first byte is the sort, the rest the content."""
    if not data:
        return None
    return of_input(sorts[data[0] % len(sorts)], data[1:], Chance(hashlib.sha256(data).hexdigest()))


def guided(sorts: Sequence[str], seconds: float) -> Iterator[Case]:
    """The cases that libFuzzer keeps within that time, and those that stopped it."""
    with tempfile.TemporaryDirectory(prefix="simviz-guided-") as folder:
        kept, stopped = Path(folder, "kept"), Path(folder, "stopped")
        kept.mkdir()
        stopped.mkdir()
        for number, sort in enumerate(sorts):
            for nth in range(20):
                raw = bytes([number]) + SORTS[sort](Chance(f"begin:{sort}:{nth}"))
                (kept / f"{number}-{nth}").write_bytes(raw[:MOST_BYTES])
        command = [sys.executable, __file__, "\n".join(sorts), str(kept), f"-artifact_prefix={stopped}/"]
        command += [f"-max_total_time={int(seconds)}", f"-max_len={MOST_BYTES}", "-timeout=30", "-rss_limit_mb=4096"]
        done = subprocess.run([*command, "-verbosity=1"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        said = [line for line in done.stderr.splitlines() if "DONE" in line or "cov:" in line or "ERROR" in line]
        print(said[-1] if said else done.stderr[-1000:], file=sys.stderr)
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


def _serve(sorts: Sequence[str], arguments: list[str]) -> None:
    """Be libFuzzer's process."""
    import atheris

    from simulator.execution.choosing import STEP, TRAINING, warm_up

    for loop in (STEP, TRAINING):
        warm_up(loop)  # first: to compile is not what is looked at
    with atheris.instrument_imports(include=_PACKAGES, enable_loader_override=False):
        from tests.fuzzing.judging import hide_tensorflow, judged, load

        load()
        hide_tensorflow()

    def target(data: bytes) -> None:
        case = case_of(data, sorts)
        if case is not None and not {"--check"} & set(case.arguments[2:]):
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                judged(case)
                os.chdir("/")

    def mutator(data: bytes, most: int, seed: int) -> bytes:
        return mutated(data, most, seed, sorts)

    atheris.Setup([sys.argv[0], *arguments], target, custom_mutator=mutator)
    atheris.Fuzz()


if __name__ == "__main__":
    _serve(sys.argv[1].split("\n"), sys.argv[2:])
