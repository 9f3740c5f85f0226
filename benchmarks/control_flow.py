"""Hold random programs with loops and branches against a real session, node by node; writes a table for RESULTS.md.

    python benchmarks/control_flow.py [--graphs 2000] [--seed 0] [--size 10] [--found FOLDER]
    python benchmarks/control_flow.py --again FILE ...

Half of the programs are written with version 1's control flow, half with version 2's, on one to three CPUs, six of ten
with gradients. Compared are the nodes that run in the pieces, how often each does, and which fetches are dead. Programs
that TensorFlow does not build, refuses to run, or dies of are counted, and of those that time out how many never end by
our account. What differs is written into FOLDER. Ctrl-C and SIGTERM end the run with the table so far.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).parents[1]))  # programs are drawn among the tests

from simulator.errors import OracleError
from simulator.oracle.child import Asking
from tests.control_flow.verdict import Case, Verdict, ask, conversation, judged, never_ends, read, written

BATCH = 200  # programs from one process
TIMED_OUT, HANGS = "Timed out", "timed out, and simviz says that a device waits for ever"
COLUMNS = ("programs", "compared", "differ", "nodes", "runs", "dead", "looks", "dead_looks")


def programs(graphs: int, seed: int) -> Iterator[tuple[str, bool]]:
    """The seed and the generation of each."""
    for number in range(graphs):
        yield f"{seed} {number}", bool(number % 2)


def outcome(asking: Asking, seed: str, size: int, *, v2: bool) -> tuple[Case | None, Verdict, Counter[str]]:
    """The verdict on one program, and what to count."""
    try:
        case = ask(asking, seed, size, v2=v2)
    except OracleError as error:
        return None, Verdict(), Counter({"programs": 1, str(error): 1})
    if case.facts["refusal"]:
        refused = f"refused: {_plainly(case.facts['refusal'])}"
        hangs = {HANGS: int(never_ends(case))} if TIMED_OUT in refused else {}
        return case, Verdict(), Counter({"programs": 1, refused: 1, **hangs})
    verdict = judged(case)
    found = Counter({"programs": 1, "compared": 1, "differ": int(bool(verdict.said))})
    found.update({name: getattr(verdict, name) for name in COLUMNS[3:]})
    found.update(verdict.of)
    return case, verdict, found


def _plainly(refusal: str) -> str:
    return refusal.partition("[")[0].strip()


def survey(tally: dict[str, Counter[str]], graphs: int, seed: int, size: int, folder: Path) -> None:
    started, drawing, left = time.monotonic(), programs(graphs, seed), graphs
    while left:
        with conversation() as asking:
            for _ in range(min(BATCH, left)):
                one, v2 = next(drawing)
                case, verdict, found = outcome(asking, one, size, v2=v2)
                tally["version 2" if v2 else "version 1"].update(found)
                if verdict.said and case is not None:
                    folder.mkdir(parents=True, exist_ok=True)
                    path = folder / f"{one.replace(' ', '_')}_{'v2' if v2 else 'v1'}.case"
                    path.write_bytes(written(case))
                    print(f"{path}: {verdict.said}", flush=True)
                left -= 1
        total = sum(tally.values(), Counter[str]())
        rate = total["programs"] / (time.monotonic() - started)
        said = f"{total['programs']} of {graphs}, {total['differ']} differ, {rate:.1f} a second"
        print(said, file=sys.stderr, flush=True)


def report(tally: dict[str, Counter[str]]) -> None:
    kinds = sorted({kind for counts in tally.values() for kind in counts} - set(COLUMNS))
    print(f"\n| | {' | '.join(tally)} |\n|---{'|---' * len(tally)}|")
    for name in (*COLUMNS, *kinds):
        said = name.replace("_", " ") if name in COLUMNS else name
        print(f"| {said} | {' | '.join(f'{counts[name]:,}' for counts in tally.values())} |")


def again(paths: list[Path]) -> int:
    failed = 0
    for path in paths:
        verdict = judged(read(path.read_bytes()))
        failed += bool(verdict.said)
        print(f"{path}: {verdict.said or 'agree'}")
    return bool(failed)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description="Random control flow against a real session.")
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=10, help="patterns of a program")
    parser.add_argument("--found", type=Path, default=Path("control_flow"), help="folder for what differs")
    parser.add_argument("--again", type=Path, nargs="+", help="files of cases to judge once more")
    asked = parser.parse_args()
    if asked.again:
        return again(asked.again)
    tally = {"version 1": Counter[str](), "version 2": Counter[str]()}
    signal.signal(signal.SIGTERM, _stop)
    try:
        survey(tally, asked.graphs, asked.seed, asked.size, asked.found)
    except KeyboardInterrupt:
        print("interrupted; so far:", file=sys.stderr)
        return 130
    finally:
        report(tally)
    return bool(sum(counts["differ"] for counts in tally.values()))


if __name__ == "__main__":
    sys.exit(main())
