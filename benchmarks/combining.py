"""Random combinations of options that a person could type, judged by laws between runs; writes tables for RESULTS.md.

    python benchmarks/combining.py [FILE or FOLDER ...] [--cases 1500] [--seed 0] [--laws TEXT] [--found FOLDER]
    python benchmarks/combining.py --again FILE ...

A case is a graph, a cluster in some notation, and up to nine options of a step or of a training. Half of the cases are
drawn for one law, with the options that it wants. Graphs are the shipped example, small ones made by code, and those of
the files that are named. A case runs once, then further times as some of the laws ask: with the other event loop, from
its own files, on the same cluster described in another way, as a longer training. A law says what must be equal, or
what bounds what. It is counted as tried where it says something about that case. A case on which a law is broken is
written into FOLDER. Laws are in `combining_*.py`.

`pairwise.py` judges single runs with each pair of options, `fuzz.py` hostile ones.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any  # Any: a pipe's end

sys.path.insert(0, str(Path(__file__).parents[1]))  # small graphs are made among the tests
sys.path.insert(0, str(Path(__file__).parent))

from combining_copies import WANTED_OF_COPIES
from combining_drawing import Material, material
from combining_laws import LAWS
from combining_meeting import WANTED as WANTED_OF_MEETING
from combining_processes import WANTED_OF_PROCESSES
from combining_running import Call, Case, NothingSaid
from combining_ways import WANTED_OF_WAYS

from simulator.errors import SimvizError
from simulator.execution.choosing import STEP as STEP_LOOP
from simulator.execution.choosing import TRAINING as TRAINING_LOOP
from simulator.execution.choosing import warm_up
from tests.fuzzing.graphs import seeds
from viz.command.request import read_request

SERVING = re.compile("forward|small[0-6]|opencv|keras|functions|seq2seq|queue")  # files of graphs that train nothing
SELDOM = ("--hard", "--replicate", "--recv-scheduling", "--flavour", "--microbatches")
TIMEOUT_S = 150
WANTED = {
    **WANTED_OF_MEETING,
    **WANTED_OF_COPIES,
    **WANTED_OF_PROCESSES,
    **WANTED_OF_WAYS,
}  # law -> the options that its cases have
NAMED = re.compile(r"'[^']*'|[^ ]*/[^ ]*|\d+")  # what differs between refusals of one kind
NAMED_THINGS = ("--feed", "--branch", "--pin", "--profile", "--costs", "--observation")  # of a graph, or files
FOR_A_LAW = 0.5  # of the cases, of which each has what one of the laws wants
TOLD = 100  # after so many cases it is said how many there were
LAWS_PER_CASE = 3  # drawn anew for each; those of single runs come in addition
SMALL_BYTES, LARGE_BYTES = 250_000, 700_000  # of a file: drawn three times as often, a thirtieth as often
EXAMPLE = Path(__file__).parents[1] / "examples" / "ps_training.pbtxt"

CLUSTERS = (
    *("1gpu", "2gpu", "4gpu", "8v100", "3cpu", "cpu=2,gpu=2", "1v100,1h100", "2t4", "dgx-a100", "pcie-box"),
    *("k80-server", "ps=1,worker=1", "ps=1,worker=2", "ps=2,worker=2x2gpu", "ps=2,worker=4x1gpu", "worker=2x2gpu"),
    *("worker=2x2h100", "ps-10gbe", "chief=1,ps=1,worker=2x1gpu", "worker=2x4v100,worker=1", "dgx1-v100"),
    "ps=1,worker=2x1a10,protocol=rdma",
)  # fmt: skip
OF_TRAININGS = ("ps=1,worker=2", "ps=2,worker=3x1gpu", "ps=2,worker=4x1gpu", "ps=1,worker=1x1gpu", "worker=2x2gpu",
                "ps=2,worker=2x2v100,protocol=rdma", "4gpu", "1gpu", "ps-25gbe", "ps=1,worker=1")  # fmt: skip
ALGORITHMS = ("tensorflow", "requested", "single", "whitepaper", "heft", "cpop", "peft", "etf", "m_topo", "m_etf",
              "m_sct", "search")  # fmt: skip
LOADING: Sequence[Mapping[str, str]] = (
    {"--cluster": "ps=2,worker=2x2gpu", "--algorithm": "search", "--budget": "20"},
    {"--cluster": "2gpu", "--algorithm": "m_sct", "--ignore-devices": ""},
    {"--cluster": "ps=2,worker=2x1gpu", "--training": "async", "--steps": "2"},
)
EVERY: Mapping[str, Sequence[str]] = {
    "--algorithm": ALGORITHMS,
    "--ignore-devices": ("",),
    "--keep-calls": ("",),
    "--hard": ("",),
    "--batch": ("1", "7", "32", "64"),
    "--flavour": ("local", "master"),
    "--order": ("fifo", "priority", "tensorflow"),
    "--contention": ("serial", "fair", "none"),
    "--protocol": ("grpc", "rdma", "nccl", "plain"),
    "--recv-scheduling": ("whitepaper", "tensorflow"),
    "--engine": ("python", "compiled"),
    "--trips": ("*=3", "*=2"),
    "--seed": ("0", "7"),
}
STEP: Mapping[str, Sequence[str]] = {
    **EVERY,
    "--microbatches": ("2", "4", "auto"),
    "--pipeline": ("1f1b", "gpipe"),
    "--stages": ("2",),
    "--replicate": ("in", "between", "allreduce:ring"),
    "--master": ("ps:0", "worker:0", "worker:1", "standin_client:0", "localhost:0"),
}
TRAINING: Mapping[str, Sequence[str]] = {
    **EVERY,
    "--replicate": ("none", "in", "between", "both", "allreduce:ring", "allreduce:tree", "allreduce:hierarchical"),
    "--ps-strategy": ("bytes", "random"),
    "--fuse": ("64MiB", "1MiB"),
    "--disturb": ("worker:0=slow:2.0", "worker:*=noise:lognormal:0.3", "ps:0=pause:every=2 ms,for=100 us",
                  "worker:1=late:5 ms", "worker:0=crash:at=2 ms,for=5 ms", "link:ps:0->worker:0=degrade:4"),
    "--device-filters": ("worker=/job:ps,/job:worker/task:{task}",),
    "--input": ("none", "1200/s", "100000/s"),
    "--gap": ("2ms", "0ns"),
    "--workers": ("2", "1,2"),
}  # fmt: skip
REGIMES = ("async", "sync", "sync:aggregate=1,total=2", "sync:aggregate=2,total=3", "ssp:bound=1", "ssp:bound=3")


def drawn(random: Random, graphs: Mapping[Path, Material], wanted: Mapping[str, Sequence[str] | None] = {}) -> Call:
    """A call that is likely to be accepted, with the options that are wanted, and without those that are not."""
    of_law = [option for option in wanted if option in NAMED_THINGS and wanted[option] is not None]
    offered = [path for path in graphs if all(graphs[path].values.get(option) for option in of_law)] or [*graphs]
    if wanted.get("--training") or wanted.get("--microbatches"):
        offered = [path for path in offered if not SERVING.search(path.name)] or offered
    weights = [
        3.0 if path.stat().st_size < SMALL_BYTES else 1 / 30 if path.stat().st_size > LARGE_BYTES else 1.0
        for path in offered
    ]
    graph = random.choices(offered, weights)[0]
    trains = wanted.get("--training", ()) != () or random.random() < 0.5
    trains = trains and wanted.get("--training", ()) is not None and not SERVING.search(graph.name)
    options = _some(random, graph, trains=trains)
    for option in random.sample(NAMED_THINGS, random.choice((0, 0, 1, 1, 2))):
        if value := graphs[graph].some(option, random):
            options[option] = value
    for option, values in wanted.items():
        options.pop(option, None)
        if option in NAMED_THINGS and values and (value := graphs[graph].some(option, random)):
            options[option] = value
        elif values and option not in NAMED_THINGS and (trains or option not in ("--training", "--steps")):
            options[option] = random.choice(values)
    if wanted:
        _agree(options)
    if not trains and "--algorithm" not in options:
        options["--algorithm"] = random.choice(ALGORITHMS)
    options.pop("--budget", None)
    if options.get("--algorithm") == "search":
        options["--budget"] = random.choice(("20", "200"))
    if trains or "--cluster" not in options or "--microbatches" in options:
        options.pop("--pin", None)  # it would be refused
    if "--microbatches" not in options:
        options = {name: value for name, value in options.items() if name not in ("--pipeline", "--stages")}
    return Call(str(graph), options)


def _some(random: Random, graph: Path, *, trains: bool) -> dict[str, str]:
    """Some options of a step or of a training."""
    options: dict[str, str] = {}
    if trains:
        options |= {"--training": random.choice(REGIMES), "--steps": random.choice(("2", "6", "12", "30"))}
        options["--cluster"] = random.choice(OF_TRAININGS)
    elif random.random() < 0.9:
        options["--cluster"] = random.choice(CLUSTERS)
    space = TRAINING if trains else STEP
    for option in random.sample(sorted(space), random.randrange(1, 7)):
        if option in ("--pipeline", "--stages") and "--microbatches" not in options:
            continue
        if option in SELDOM and random.random() < 0.8:  # most graphs refuse it
            continue
        if option == "--master" and not options.get("--cluster", "").startswith(("ps", "worker")):
            continue
        if option == "--fuse" and not options.get("--replicate", "").startswith("allreduce"):
            continue
        if option == "--workers" and not re.match(r"(ps|worker)=", options["--cluster"]):
            continue
        options[option] = random.choice(space[option])
    if not trains and random.random() < 0.4:
        options["--ignore-devices"] = ""  # so that the graph runs anywhere
    return options


def _agree(options: dict[str, str]) -> None:
    """Change what a replication would refuse, so that a law has something to judge."""
    how = options.get("--replicate", "none")
    if how in ("between", "both") and not re.search(r"ps[=-]", options.get("--cluster", "")):
        how = options["--replicate"] = "in"
    if how.startswith("allreduce") and "--training" in options:
        options["--training"] = "sync"
    if how != "none":
        options.pop("--pin", None)
        options.pop("--device-filters", None)


# ---- one case, in a process of its own -------------------------------------------------------------------------------


def judged(call: Call, chosen: Sequence[str]) -> dict[str, list[str] | None]:
    """Law -> what breaks it; None: it says nothing of this case. A refusal is the only entry, under ""."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            case = Case(call, Path(folder))
            try:
                case.scene(call)
            except SimvizError as error:
                return {"": [str(error)]}
            found: dict[str, list[str] | None] = {}
            for name in chosen:
                try:
                    found[name] = list(LAWS[name].of(case))
                except NothingSaid:
                    found[name] = None
                except SimvizError as error:
                    found[name] = [f"a further run is refused: {error}"]
            return found
        finally:
            os.chdir("/")


def _answer(sender: Any, call: Call, chosen: Sequence[str]) -> None:
    try:
        sender.send(judged(call, chosen))
    except BaseException:  # noqa: BLE001  # each is a fault that is told
        sender.send({"no exception": [traceback.format_exc(limit=-4)]})


def asked(call: Call, chosen: Sequence[str]) -> dict[str, list[str] | None]:
    """As `judged`, in a child process that may die or hang."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, call, chosen))
    process.start()
    sender.close()
    try:
        if not receiver.poll(TIMEOUT_S):
            return {"no exception": [f"no answer within {TIMEOUT_S} s"]}
        return receiver.recv()  # type: ignore[no-any-return]  # of a pipe
    except EOFError:
        return {"no exception": ["the process died"]}
    finally:
        process.kill()
        process.join()


def laws_for(random: Random, wanted: str, first: str = "") -> list[str]:
    """The laws to judge a case by: those of single runs, the one for which it was drawn, and some of the others."""
    named = [name for name in LAWS if wanted in name]
    alone = [name for name in named if LAWS[name].alone]
    others = [name for name in named if not LAWS[name].alone and name != first]
    begin = [first] if first and first not in alone else []
    return alone + begin + random.sample(others, min(len(others), LAWS_PER_CASE if not wanted else len(others)))


def cases(count: int, seed: int, graphs: Mapping[Path, Material], wanted: str) -> Iterator[tuple[Call, list[str]]]:
    """The cases of a run, each with the laws that judge it."""
    rare = [name for name in WANTED if wanted in name]
    for number in range(count):
        random = Random(f"{seed} {number}")
        first = random.choice(rare) if rare and (wanted or random.random() < FOR_A_LAW) else ""
        yield drawn(random, graphs, WANTED.get(first, {})), laws_for(random, wanted, first)


def main() -> int:
    """Print a line per broken law, then the counts."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("graphs", type=Path, nargs="*", help="further graphs")
    options.add_argument("--cases", type=int, default=1500)
    options.add_argument("--begin", type=int, default=0, help="the first case; those before it are left out")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--laws", default="", help="only those whose name holds this")
    options.add_argument("--found", type=Path, help="a folder for the cases on which a law is broken")
    options.add_argument("--kept", type=Path, help="a folder for observed steps, which a later run then finds there")
    options.add_argument("--again", type=Path, nargs="+", metavar="FILE", help="cases that were written")
    given = options.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in a shell's background it would be ignored
    for loop in (STEP_LOOP, TRAINING_LOOP):
        warm_up(loop)  # once, not in each process
    if given.again:
        return again(given.again)
    for options_of in LOADING:  # what each process would load anew
        judged(Call(str(EXAMPLE), options_of), list(LAWS))
    if given.found is not None:
        given.found.mkdir(parents=True, exist_ok=True)
    tally = Tally(given.found)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.kept or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        graphs = [EXAMPLE, *made(folder)]
        graphs += [path for one in given.graphs for path in (sorted(one.rglob("*.*")) if one.is_dir() else [one])]
        graphs = [path.resolve() for path in graphs if path.is_file() and path.suffix in (".pb", ".pbtxt", ".meta")]
        every = {path: material(path, folder) for path in graphs}
        offers = {path: one for path, one in every.items() if "--pin" in one.values}  # files that are graphs
        told = [f"{sum(bool(one.values.get(name)) for one in offers.values())} with {name}" for name in NAMED_THINGS]
        print(f"{len(offers)} graphs:", ", ".join(told), flush=True)
        try:
            for number, (call, chosen) in enumerate(cases(given.cases, given.seed, offers, given.laws)):
                if number >= given.begin:
                    tally.count(f"{given.seed}_{number}", call, asked(call, chosen))
                if number % TOLD == TOLD - 1:
                    print(f"{number + 1} cases, {tally.broken.total()} broken", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            print("interrupted; so far:")
    print(tally.table())
    return int(bool(tally.broken.total()))


@dataclass
class Tally:
    """What came of the cases; those on which a law is broken are written into a folder."""

    found: Path | None
    verdicts: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)

    def count(self, title: str, call: Call, found: Mapping[str, list[str] | None]) -> None:
        """Add what came of a case."""
        self.verdicts["refused" if "" in found else "ran"] += 1
        for name, said in found.items():
            if not name:
                self.refusals[NAMED.sub("_", (said or [""])[0])[:90]] += 1
            elif said is not None:
                self.tried[name] += 1
                self.broken[name] += bool(said)
            if name and said:
                print(f"{title} {name}: {call}", *said[:3], sep="\n    ", flush=True)
                if self.found is not None:
                    case = {"graph": call.graph, "options": dict(call.options), "law": name}
                    (self.found / f"{title}_{list(LAWS).index(name)}.json").write_text(json.dumps(case))

    def table(self) -> str:
        """The counts of each law, the kinds of refusals, and all cases."""
        lines = ["| law | tried | broken |", "|---|---|---|"]
        lines += [f"| {name} | {self.tried[name]:,} | {self.broken[name]:,} |" for name in LAWS]
        lines += [f"{count:4} refused: {sentence}" for sentence, count in self.refusals.most_common()]
        return "\n".join([*lines, f"{self.verdicts.total():,} cases: {dict(self.verdicts)}"])


def made(folder: Path) -> list[Path]:
    """Small graphs with loops, calls, references, queues and updates."""
    found = []
    for number, raw in enumerate(seeds()["graph"]):
        found.append(folder / f"small{number}.pb")
        found[-1].write_bytes(raw)
    return found


def again(files: Sequence[Path]) -> int:
    """Judge written cases once more, in this process."""
    for file in files:
        said = json.loads(file.read_text(encoding="utf-8"))
        call = Call(said["graph"], said["options"])
        read_request(call.asked())  # an option that is wrong is told before anything runs
        print(f"{said['law']}: {call}", *(judged(call, [said["law"]]).values()), sep="\n    ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
