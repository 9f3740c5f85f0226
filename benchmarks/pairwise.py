"""Try each pair of options together, on every kind of graph and cluster, and judge the results by laws.

    python benchmarks/pairwise.py [--seed 0] [--rows N] [--check] [--again ROW]

A row is a call of the command. Each value of an option meets each value of each other option in a row that is not
refused, if there is one (D. Kuhn, R. Kacker, Y. Lei: Practical Combinatorial Testing, NIST SP 800-142, 2010). A
refusal hides all pairs of its row, so they are tried again among fewer other options. Pairs that were always refused
are listed with the last sentence.

The result of a row keeps the laws of assignment, partitions and trace. Both event loops give the same result. The
makespan is no less than the lower bound, and every format can be drawn. Measured costs that equal the estimate change
nothing. A client that trains alone takes as long as a simulated step. With --check the real TensorFlow is asked about
rows of one step. A row that breaks one of these is a fault, and so is an exception other than SimvizError.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import shlex
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).parents[1]))  # graphs are made among the tests

from simulator.errors import SimvizError
from simulator.execution.choosing import STEP as STEP_LOOP
from simulator.execution.choosing import TRAINING as TRAINING_LOOP
from simulator.execution.choosing import warm_up
from simulator.execution.laws import check_trace
from simulator.laws import assignment_laws
from simulator.partitioning.laws import partition_laws
from tests.oracle.sundry import written
from viz.command.options import parser
from viz.command.request import read_request
from viz.command.running import run
from viz.formats.drawing import draw
from viz.formats.json_object import to_json
from viz.scene import Scene

Pair: TypeAlias = tuple[tuple[str, str | None], tuple[str, str | None]]  # (option, value) twice, in the space's order
TIMEOUT_S = 240
CHANGED = (4, 2, 1, 0)  # other options than those of the pair, in its first, second, .. try
TRIES = len(CHANGED)  # of a pair that is refused
SPACIOUS = "ps=2,worker=2x2gpu"  # the cluster on which most options say something
OWN_COSTS = "own"  # --costs with what simviz itself has estimated
LENGTH = "length"  # stands for two options that exclude each other
SERVING = ("saved model", "inference", "words")  # graphs that train nothing
CLUSTERS = (
    None,
    "1gpu",
    "2gpu",
    "4cpu",
    "cpu=2,gpu=2",
    "ps=1,worker=1",
    "ps=1,worker=2",
    "ps=2,worker=2x2gpu",
    "worker=2x2gpu",
    "chief=1,ps=1,worker=1x1gpu",
    "dgx-a100",
)
STEP: Mapping[str, Sequence[str | None]] = {
    "--cluster": CLUSTERS,
    "--algorithm": (None, "tensorflow", "requested", "single", "heft"),
    "--flavour": (None, "local", "master"),
    "--recv-scheduling": (None, "whitepaper", "tensorflow"),
    "--order": (None, "fifo", "priority", "tensorflow"),
    "--contention": (None, "serial", "fair", "none"),
    "--protocol": (None, "rdma", "plain", "nccl"),
    "--hard": (None, ""),
    "--keep-calls": (None, ""),
    "--ignore-devices": (None, ""),
    "--batch": (None, "8"),
    "--trips": (None, "*=2"),
    "--seed": (None, "7"),
    "--costs": (None, OWN_COSTS),
    "--replicate": (None, "none", "in", "between", "both", "allreduce:ring"),
}
TRAINING: Mapping[str, Sequence[str | None]] = {
    "--training": ("async", "sync", "sync:aggregate=1,total=2", "ssp:bound=1"),
    "--cluster": CLUSTERS,
    "--replicate": (None, "none", "in", "between", "both", "allreduce:ring", "allreduce:tree"),
    "--algorithm": (None, "tensorflow", "requested", "single", "heft"),
    "--flavour": (None, "local", "master"),
    "--order": (None, "fifo", "tensorflow"),
    "--contention": (None, "fair", "none"),
    "--protocol": (None, "rdma"),
    "--ps-strategy": (None, "bytes"),
    "--fuse": (None, "64MiB"),
    "--disturb": (None, "worker:0=slow:2.0", "worker:*=noise:lognormal:0.3", "worker:1=crash:at=2 ms,for=1 ms"),
    "--device-filters": (None, "worker=/job:ps,/job:worker/task:{task}"),
    "--gap": (None, "1ms"),
    "--input": (None, "none", "2000/s"),
    "--workers": (None, "1,2"),
    LENGTH: (None, "--steps 6", "--until-ci 20%"),
    "--batch": (None, "8"),
    "--trips": (None, "*=2"),
    "--ignore-devices": (None, ""),
    "--costs": (None, OWN_COSTS),
}


@dataclass(frozen=True)
class Row:
    """A call of the command."""

    kind: str  # of the graph
    options: Mapping[str, str]

    def arguments(self, graph: Path, costs: Path | None = None) -> list[str]:
        """The command line, with a file of costs in place of OWN_COSTS."""
        line = [str(graph)]
        for name, value in self.options.items():
            if value == OWN_COSTS and costs is None:
                continue
            words = value.split() if name == LENGTH else [name, str(costs) if value == OWN_COSTS else value]
            line.extend(word for word in words if word)
        return line

    def __str__(self) -> str:
        return shlex.join(self.arguments(Path(self.kind), Path(OWN_COSTS)))


class Covering:
    """Rows that cover each pair of values of two options, drawn one by one as those before them were refused or ran."""

    def __init__(self, space: Mapping[str, Sequence[str | None]], kinds: Sequence[str], seed: int) -> None:
        """Options that the command does not have are left out."""
        known = {text for action in parser()._actions for text in action.option_strings}
        self.space: dict[str, Sequence[str | None]] = {"graph": list(kinds)}
        self.space |= {name: list(values) for name, values in space.items() if name in (*known, LENGTH)}
        self.random = random.Random(seed)
        names = list(self.space)
        self.tried = {
            ((one, first), (other, second)): 0
            for at, one in enumerate(names)
            for other in names[at + 1 :]
            for first in self.space[one]
            for second in self.space[other]
        }
        self.refused: dict[Pair, str] = {}  # the last sentence
        self.ran: list[dict[str, str | None]] = [{name: _usual(name, values) for name, values in self.space.items()}]

    def __iter__(self) -> Iterator[Row]:
        """The next row; `learn` must hear of each before the next is asked for."""
        while self.tried:
            fewest = min(self.tried.values())
            pair = self.random.choice([pair for pair, tries in self.tried.items() if tries == fewest])
            drawn = [self._filled(pair, fewest) for _ in range(20 if fewest == 0 else 1)]
            chosen = max(drawn, key=lambda row: sum(pair in self.tried for pair in _pairs(row)))
            self.asked, self.last = pair, chosen
            yield Row(str(chosen["graph"]), {n: v for n, v in chosen.items() if n != "graph" and v is not None})

    def learn(self, refusal: str | None) -> None:
        """The last row ran (None), or was refused."""
        pairs = _pairs(self.last) if refusal is None else [self.asked]
        if refusal is None:
            self.ran.append(self.last)
        for pair in pairs:
            if refusal is None:
                self.tried.pop(pair, None)
                self.refused.pop(pair, None)
            else:
                self.tried[pair] += 1
                self.refused[pair] = refusal
                if self.tried[pair] == TRIES:
                    self.tried.pop(pair)

    def _filled(self, pair: Pair, tries: int) -> dict[str, str | None]:
        """A row with that pair: one that ran, with fewer other values changed the more often the pair was refused."""
        base = self.random.choice(self.ran)
        changed = self.random.sample(list(self.space), CHANGED[tries])
        return base | {name: self.random.choice(self.space[name]) for name in changed} | dict(pair)


def _usual(name: str, values: Sequence[str | None]) -> str | None:
    return values[0] if name in ("graph", "--training") else SPACIOUS if name == "--cluster" else None


def _pairs(row: Mapping[str, str | None]) -> list[Pair]:
    items = list(row.items())
    return [(one, other) for at, one in enumerate(items) for other in items[at + 1 :]]


# ---- one row, in a process of its own --------------------------------------------------------------------------------


def judged(row: Row, graph: Path, check: bool) -> tuple[str, list[str]]:
    """("ran" or "refused", sentences): why it was refused, or the laws that are broken."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            costs = Path(folder, "own.csv") if "--costs" in row.options else None
            if costs is not None:
                _write_costs(costs, _scene(row.arguments(graph)))
            return "ran", list(_faults(row, graph, costs, check))
    except SimvizError as error:
        return "refused", [str(error)]


def _scene(arguments: Sequence[str]) -> Scene:
    return run(read_request(parser().parse_args(list(arguments))))


def _write_costs(path: Path, scene: Scene) -> None:
    """The estimate of each node of the user's graph on each kind of device."""
    lines = ["node,kind,ns"]
    for row, name in enumerate(scene.graph.names):
        for column, kind in enumerate(scene.costs.kinds):
            if scene.costs.run_ns[row, column] >= 0:
                lines.append(f'"{name}",{kind},{scene.costs.run_ns[row, column]}')
    path.write_text("\n".join(lines), encoding="utf-8")


def _faults(row: Row, graph: Path, costs: Path | None, check: bool) -> Iterator[str]:
    arguments = row.arguments(graph, costs)
    trains = "--training" in row.options
    scene = _scene([*arguments, "--engine", "python", *(["--check"] if check and not trains else [])])
    yield from _laws(scene)
    again = _scene([*arguments, "--engine", "compiled"])
    yield from _different("the compiled loop", scene, again)
    if costs is not None and not trains and "--replicate" not in row.options:
        estimated = _scene(row.arguments(graph))
        if estimated.trace.makespan != scene.trace.makespan:
            yield f"own costs give {scene.trace.makespan} ns, the estimate {estimated.trace.makespan} ns"
    for suffix in (".html", ".dot", ".trace.json", ".partitions"):
        draw(scene, suffix)
    if scene.training is not None:
        yield from _alone(row, scene)
    if scene.check is not None:
        yield from _disagreements(scene)


def _laws(scene: Scene) -> Iterator[str]:
    yield from assignment_laws(scene.graph, scene.assignment, scene.cluster)
    yield from partition_laws(scene.graph, scene.step, scene.cluster, scene.assignment, scene.partitions)
    yield from check_trace(scene.trace, scene.partitions, scene.cluster)
    if scene.trace.makespan < scene.bound.ns:
        yield f"the makespan, {scene.trace.makespan} ns, is below the lower bound, {scene.bound.ns} ns"


def _different(who: str, scene: Scene, other: Scene) -> Iterator[str]:
    one, two = json.loads(to_json(scene)), json.loads(to_json(other))
    for record in (one, two):
        record["check"] = None
        record["simulation"]["engine"] = None
        if record["training"] is not None:
            record["training"].pop("engine", None)
    for key in one:
        if one[key] != two[key]:
            yield f"{who} has another {key}: {_first_difference(one[key], two[key])}"


def _first_difference(one: Any, two: Any, path: str = "") -> str:
    """Any: JSON."""
    if isinstance(one, dict) and isinstance(two, dict) and one.keys() == two.keys():
        return next(_first_difference(one[key], two[key], f"{path}.{key}") for key in one if one[key] != two[key])
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        at = next(at for at, (left, right) in enumerate(zip(one, two, strict=True)) if left != right)
        return _first_difference(one[at], two[at], f"{path}[{at}]")
    return f"{path}: {str(one)[:80]} and {str(two)[:80]}"


def _alone(row: Row, scene: Scene) -> Iterator[str]:
    """A client that is alone, undisturbed and never out of input takes as long as a simulated step in each step."""
    trained = scene.training
    assert trained is not None
    apart = ("--disturb", "--gap", "--input", "--recv-scheduling")
    if len(trained.clients) > 1 or any(option in row.options for option in apart):
        return
    training = trained.training
    lengths = set((training.step_end_ns - training.step_start_ns).tolist())
    if not training.step_waiting_ns.any() and lengths != {scene.trace.makespan}:
        yield f"alone, steps take {sorted(lengths)[:3]} ns, a simulated step {scene.trace.makespan} ns"


def _disagreements(scene: Scene) -> Iterator[str]:
    from viz.agreement import agreements

    check = scene.check
    assert check is not None
    if check["refused"]:
        if not check["foreseen"]:
            yield f"TensorFlow refuses: {str(check['refused'])[:300]}"
        return
    yield from (str(one) for one in agreements(check) if one.agree != one.of)
    yield from check["laws"]


def _answer(sender: Any, row: Row, graph: Path, check: bool) -> None:
    """Any: a pipe's end."""
    try:
        sender.send(judged(row, graph, check))
    except BaseException:  # noqa: BLE001  # each is a fault that is told
        sender.send(("fault", [traceback.format_exc(limit=-4)]))


def asked(row: Row, graph: Path, check: bool) -> tuple[str, list[str]]:
    """As `judged`, in a child process that may die or hang."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, row, graph, check))
    process.start()
    sender.close()
    try:
        if not receiver.poll(TIMEOUT_S):
            return "fault", [f"no answer within {TIMEOUT_S} s"]
        return receiver.recv()  # type: ignore[no-any-return]  # of a pipe
    except EOFError:
        return "fault", ["the process died"]
    finally:
        process.kill()
        process.join()


def main() -> int:
    """Print a line per fault, then the counts and the pairs that are always refused."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--rows", type=int, default=10**6, help="at most so many of each space")
    options.add_argument("--check", action="store_true", help="ask the real TensorFlow about rows of one step")
    options.add_argument("--again", help="one row, as it was printed")
    given = options.parse_args()
    for loop in (STEP_LOOP, TRAINING_LOOP):
        warm_up(loop)  # once, not in each process
    begun, counts, faults = time.monotonic(), Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        graphs = {"dense": Path(), **written(Path(folder))}
        graphs["example"] = Path(__file__).parents[1] / "examples" / "ps_training.pbtxt"
        if given.again is not None:
            kind, *words = shlex.split(given.again)
            print(*asked(Row(kind, _read(words)), graphs[kind], given.check))
            return 0
        for name, space in (("one step", STEP), ("trainings", TRAINING)):
            kinds = [kind for kind in graphs if space is STEP or kind not in SERVING]
            covering = Covering(space, kinds, given.seed)
            pairs = len(covering.tried)
            for number, row in enumerate(covering):
                state, said = asked(row, graphs[row.kind], given.check)
                counts[state] += 1
                covering.learn(said[0].replace(str(graphs[row.kind]), "GRAPH") if state == "refused" else None)
                if said and state != "refused":
                    faults += 1
                    print(f"{state}: {row}", *(f"\n    {one}" for one in said[:3]), flush=True)
                if number + 1 == given.rows:
                    break
            print(f"{name}: {pairs} pairs, {len(covering.tried)} left, {len(covering.refused)} always refused")
            for sentence, count in Counter(covering.refused.values()).most_common():
                one, other = next(pair for pair, said in covering.refused.items() if said == sentence)
                print(f"  {count:3} pairs, as {' '.join(map(str, (*one, *other)))}: {sentence[:240]}")
    print(f"{sum(counts.values())} rows in {time.monotonic() - begun:.0f} s: {dict(counts)}; {faults} with a fault")
    return 1 if faults else 0


def _read(words: Sequence[str]) -> dict[str, str]:
    """The options of a printed row."""
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        if word in ("--steps", "--until-ci"):
            found[LENGTH] = f"{word} {words[at + 1]}"
        elif word.startswith("--"):
            after = words[at + 1 : at + 2]
            found[word] = "" if not after or after[0].startswith("--") else after[0]
    return found


if __name__ == "__main__":
    sys.exit(main())
