"""Hold thousands of random graphs on random clusters against the real TensorFlow; writes tables for RESULTS.md.

    python benchmarks/differential.py [--graphs 5000] [--seed 0] [--found FOLDER]
    python benchmarks/differential.py --again FILE ...

Half of the graphs meet a local session on one to twelve CPUs, half a real master before stand-in workers; in half of
them calls stay calls. Compared are the placement of every node, the order of the log, refusals with the node that they
name, and the cut. A case on which the two sides differ is made small and written into FOLDER, from where `--again`
asks about it once more. "By chance": TensorFlow's own answers differ, and one is ours. TensorFlow dies of a few graphs,
which are counted, as are those that its importer refuses.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))  # cases are drawn among the tests

from simulator.errors import OracleError
from simulator.oracle.child import Asking
from tests.difference.asking import conversation
from tests.difference.cases import LOCAL, REAL_WORKERS, STOOD_IN, Case, drawn
from tests.difference.forking import DIED
from tests.difference.minimising import minimised
from tests.difference.repro import read, written
from tests.difference.verdict import Verdict, verdict_on

BATCH = 500  # questions to one process, which keeps the servers of every cluster that it was asked about
MINIMISED = 25  # disagreements; later ones are written as they were drawn
COLUMNS = (
    "cases",
    "compared",
    "refused",
    "refused elsewhere",
    "never ends",
    "nodes placed",
    "nodes cut",
    "as they stand",
    "by chance",
    "differ",
)


@dataclass
class Tally:
    """The outcomes of the cases, by sort and by cluster."""

    sorts: dict[str, Counter[str]] = field(default_factory=dict)
    clusters: dict[str, Counter[str]] = field(default_factory=dict)
    total: Counter[str] = field(default_factory=Counter)

    def count(self, case: Case, found: Counter[str]) -> None:
        """Add what became of one case."""
        cluster = f"{case.notation}, session at {case.master}" if case.master else case.notation
        for table, keys in ((self.sorts, case.sorts), (self.clusters, (cluster,))):
            for key in keys:
                table.setdefault(key, Counter()).update(found)
        self.total.update(found)


def shapes(random: Random) -> list[tuple[str, str]]:
    """Further clusters of ps and workers, and a task for the session."""
    found = []
    for _ in range(6):
        ps, workers, gpus = random.randint(1, 12), random.randint(1, 12), random.choice([0, 0, 1, 2, 4])
        notation = f"ps={ps},worker={workers}" + (f"x{gpus}gpu" if gpus else "")
        masters = ["", "standin_client", f"ps:{random.randrange(ps)}", f"worker:{random.randrange(workers)}"]
        found.append((notation, random.choice(masters[: 3 if gpus else 4])))
    return found


def cases(graphs: int, seed: int) -> Iterator[tuple[int, Case]]:
    """The cases of a run; a number and the seed make the same one again."""
    further = shapes(Random(seed))
    for number in range(graphs):
        random = Random(f"{seed} {number}")
        clusters = LOCAL if number % 2 else (*STOOD_IN, *REAL_WORKERS, *further)
        yield number, drawn(random, clusters, keep_calls=number % 4 < 2)


def outcome(asking: Asking, case: Case) -> tuple[Verdict | None, Counter[str]]:
    """The verdict, if there is something to compare, and what to count."""
    try:
        verdict = verdict_on(asking, case)
    except OracleError as error:
        return None, Counter({"cases": 1, "died" if str(error) == DIED else str(error): 1})
    if verdict is None:
        return None, Counter({"cases": 1, "not imported": 1})
    found = Counter(
        {
            "cases": 1,
            "compared": 1,
            "refused": verdict.refused,
            "refused elsewhere": verdict.elsewhere,
            "never ends": verdict.endless,
            "differ": bool(verdict.aspect),
        }
    )
    found.update({"nodes placed": verdict.placed, "nodes cut": verdict.cut, "as they stand": verdict.raw})
    found["by chance"] = verdict.chance
    return verdict, found


def differs_alike(asking: Asking, case: Case, aspect: str) -> bool:
    verdict, _ = outcome(asking, case)
    return verdict is not None and verdict.aspect == aspect


def write(folder: Path, name: str, asking: Asking, case: Case, verdict: Verdict, *, small: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if small:
        case = minimised(case, lambda one: differs_alike(asking, one, verdict.aspect))
        verdict = outcome(asking, case)[0] or verdict
    path = folder / f"{name}.pbtxt"
    path.write_text(written(case))
    print(f"{path}: {len(case.graph)} nodes differ in the {verdict.aspect}: {verdict.said}", flush=True)


def survey(tally: Tally, graphs: int, seed: int, folder: Path) -> None:
    started, drawing = time.monotonic(), cases(graphs, seed)
    left = graphs
    while left:
        with conversation() as asking:
            for _ in range(min(BATCH, left)):
                number, case = next(drawing)
                verdict, found = outcome(asking, case)
                tally.count(case, found)
                if verdict is not None and verdict.aspect:
                    small = tally.total["differ"] <= MINIMISED
                    write(folder, f"{seed}_{number}", asking, case, verdict, small=small)
                left -= 1
        done = graphs - left
        rate = done / (time.monotonic() - started)
        print(f"{done} of {graphs}, {tally.total['differ']} differ, {rate:.1f} a second", file=sys.stderr, flush=True)


def report(tally: Tally) -> None:
    total = dict(tally.total)
    print(", ".join(f"{total.pop(name, 0):,} {name}" for name in (*COLUMNS, "not imported", "died")))
    for name, count in total.items():  # what else TensorFlow's process said
        print(f"{count} times: {name}")
    for title, table in (("sort", tally.sorts), ("cluster", tally.clusters)):
        print(f"\n| {title} | {' | '.join(COLUMNS)} |\n|---{'|---' * len(COLUMNS)}|")
        for key, counts in sorted(table.items()):
            print(f"| {key} | {' | '.join(f'{counts[name]:,}' for name in COLUMNS)} |")


def again(paths: list[Path]) -> int:
    failed = 0
    with conversation() as asking:
        for path in paths:
            verdict, found = outcome(asking, read(path.read_text()))
            failed += verdict is None or bool(verdict.aspect)
            print(f"{path}: {f'{verdict.aspect} {verdict.said}'.strip() or 'agree' if verdict else dict(found)}")
    return bool(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description="Random graphs against the real TensorFlow.")
    parser.add_argument("--graphs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--found", type=Path, default=Path("differences"), help="folder for what differs")
    parser.add_argument("--again", type=Path, nargs="+", help="files of cases to ask about once more")
    asked = parser.parse_args()
    if asked.again:
        return again(asked.again)
    tally = Tally()
    try:
        survey(tally, asked.graphs, asked.seed, asked.found)
    except KeyboardInterrupt:
        print("interrupted; so far:", file=sys.stderr)
        return 130
    finally:
        report(tally)
    return bool(tally.total["differ"])


if __name__ == "__main__":
    sys.exit(main())
