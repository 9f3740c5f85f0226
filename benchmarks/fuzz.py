"""Hostile inputs of every sort against the command; writes a table for RESULTS.md, and the faults as files.

    python benchmarks/fuzz.py [--seconds 60 | --cases N] [--seed 0] [--sorts TEXT] [--found FOLDER]
    python benchmarks/fuzz.py --guided [--seconds 600] [--found FOLDER]
    python benchmarks/fuzz.py --again FILE ...

Graphs binary and text, what carries them, clusters in every notation, measured times, placement logs and options are
drawn by a grammar or by mutation of seeds (`tests/fuzzing/cases.py`). Each runs the whole command in a child with
limits of time and memory (`tests/fuzzing/judging.py`). The result is one of three: accepted, refused in one sentence,
or a fault. Two refusals are distinct if more than names and figures differ. `--guided` keeps the inputs that reach new
branches and changes these further; atheris counts the branches (`pip install atheris`). TensorFlow counts as not
installed, as an answer of it takes seconds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # seeds are drawn with the tests' material

from tests.fuzzing.cases import SORTS, Case, draw, read
from tests.fuzzing.judging import FAULT, Outcome, hide_tensorflow, judged, load, outcomes
from tests.fuzzing.texts import Chance

LARGE = 4096  # bytes of an input from which memory per byte is told; a smaller one has what any run takes
MOST_WRITTEN = 3  # cases of one fault


@dataclass
class Tally:
    """The outcomes of the cases of a sort."""

    verdicts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, int] = (0.0, 0)  # seconds, bytes of the input
    peak_bytes: int = 0
    per_byte: float = 0.0  # bytes of memory per byte of an input of at least LARGE

    def count(self, case: Case, found: Outcome) -> None:
        """Add an outcome."""
        self.verdicts[found.verdict] += 1
        self.kinds[found.kind] += 1
        self.slowest = max(self.slowest, (found.seconds, case.size))
        self.peak_bytes = max(self.peak_bytes, found.peak_bytes)
        if case.size >= LARGE:
            self.per_byte = max(self.per_byte, found.peak_bytes / case.size)

    def row(self, name: str) -> str:
        """A row of the table."""
        numbers = [f"{sum(self.verdicts.values()):,}"]
        numbers += [f"{self.verdicts[verdict]:,}" for verdict in ("accepted", "refused")]
        numbers += [f"{len(self.kinds):,}", f"{self.verdicts[FAULT]:,}", f"{self.slowest[0]:.1f}"]
        numbers += [f"{self.peak_bytes / 2**20:.0f}", f"{self.per_byte:,.0f}" if self.per_byte else ""]
        return " | ".join(("", name, *numbers, "")).strip()


COLUMNS = (
    "input",
    "cases",
    "accepted",
    "refused",
    "distinct outcomes",
    "faults",
    "slowest, s",
    "most memory, MiB",
    "bytes per byte",
)


def drawn(sorts: Sequence[str], seed: int, cases: int | None, seconds: float) -> Iterator[Case]:
    """The sorts in turn, until there are so many or the time is up."""
    begin, number = time.monotonic(), 0
    while number < cases if cases is not None else time.monotonic() < begin + seconds:
        yield draw(sorts[number % len(sorts)], Chance(f"{seed}:{number}"))
        number += 1


def tallied(cases: Iterable[Case], found: Path | None = None) -> dict[str, Tally]:
    """The outcomes by sort; the cases of faults are written into `found`."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    for case, outcome in outcomes(cases):
        tally = tallies[case.sort]
        tally.count(case, outcome)
        if outcome.verdict == FAULT:
            print(f"FAULT {case.sort}: {outcome.said[:300]!r}", file=sys.stderr, flush=True)
            if found is not None and tally.kinds[outcome.kind] <= MOST_WRITTEN:
                name = f"{case.sort.replace(', ', '_').replace(' ', '_')}_{tally.verdicts[FAULT]}.json"
                (found / name).write_text(case.written(), encoding="utf-8")
    return tallies


def table(tallies: dict[str, Tally]) -> str:
    """The table for RESULTS.md, with a last row for all."""
    whole = Tally()
    for tally in tallies.values():
        whole.verdicts += tally.verdicts
        whole.kinds += tally.kinds
        whole.slowest = max(whole.slowest, tally.slowest)
        whole.peak_bytes = max(whole.peak_bytes, tally.peak_bytes)
        whole.per_byte = max(whole.per_byte, tally.per_byte)
    return "\n".join(
        [
            f"| {' | '.join(COLUMNS)} |",
            "|---" * len(COLUMNS) + "|",
            *(tally.row(sort) for sort, tally in tallies.items()),
            whole.row("all"),
        ]
    )


def main() -> int:
    """Run the fuzzer; the exit code is 1 where there were faults."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--cases", type=int)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--sorts", default="", help="only those whose name holds this")
    options.add_argument("--found", type=Path, help="a folder for the cases of faults")
    options.add_argument("--guided", action="store_true", help="by coverage")
    options.add_argument("--again", type=Path, nargs="+", metavar="FILE", help="run cases that were written")
    asked = options.parse_args()
    if asked.again:
        return again(asked.again)
    sorts = [sort for sort in SORTS if asked.sorts in sort]
    if asked.found is not None:
        asked.found.mkdir(parents=True, exist_ok=True)
    if asked.guided:
        from tests.fuzzing.guided import guided

        tallies = tallied(guided(sorts, asked.seconds), asked.found)
    else:
        tallies = tallied(drawn(sorts, asked.seed, asked.cases, asked.seconds), asked.found)
    print(table(tallies))
    return int(any(tally.verdicts[FAULT] for tally in tallies.values()))


def again(files: Sequence[Path]) -> int:
    """Run cases in this process, without limits, and print what comes of them."""
    import os

    load()
    hide_tensorflow()
    cases = [(file, read(file.read_text(encoding="utf-8"))) for file in files]
    for file, case in cases:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            print(file.name, *(argument[:80] for argument in case.arguments), judged(case), sep="\n    ")
            os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
