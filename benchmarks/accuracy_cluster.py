"""Real steps for `accuracy.py`: placements of models on two workers, each a process pinned to a core."""

from __future__ import annotations

import base64
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from accuracy_models import Model, placed

from simulator.graph.messages import GraphDef, NodeDef
from tests.oracle.processes import descendants
from tests.oracle.real_cluster import RealClient, Stepping, running

WORKERS = ("/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1")
DEVICES = tuple(f"{worker}/device:CPU:0" for worker in WORKERS)
KEPT = {  # memory that is freed stays in the process
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "8000000000",
    "MALLOC_TOP_PAD_": "67108864",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}
STEPS = 5  # in a row
TRACED = 2  # in a row
TIMEOUT_S = 5400.0
IDLE = "idle"


@dataclass
class Placement:
    """One placement of a model: what was measured, and what is simulated."""

    model: str
    where: tuple[int, ...]  # worker of each part
    took_ms: list[float] = field(default_factory=list)  # of each step
    worked_ms: list[tuple[float, float]] = field(default_factory=list)  # of each round: processor time of the workers
    simulated_ms: dict[str, float] = field(default_factory=dict)
    busy_ms: dict[str, list[float]] = field(default_factory=dict)
    low_ms: float = 0.0  # of the profile's interval
    high_ms: float = 0.0

    @property
    def name(self) -> str:
        """The properties that tell it from others."""
        return f"{self.model} {''.join(map(str, self.where))}"

    @property
    def ms(self) -> float:
        """The lower quartile of its steps: other programs only lengthen them."""
        return float(statistics.quantiles(self.took_ms, n=4)[0])

    @property
    def noise_ms(self) -> float:
        """Half of the distance between the quartiles."""
        low, _, high = statistics.quantiles(self.took_ms, n=4)
        return (high - low) / 2

    def error(self, way: str) -> float:
        """Less than 0: simulated too fast."""
        return self.simulated_ms[way] / self.ms - 1

    def work_error(self, way: str) -> float:
        """Of the busier worker."""
        real = [statistics.quantiles(column, n=4)[0] for column in zip(*self.worked_ms, strict=True)]
        busier = real.index(max(real))
        return float(self.busy_ms[way][busier] / real[busier] - 1)


Stats = dict[str, list[bytes]]  # StepStats of traced steps of the first placement of each model


def placements(model: Model, count: int, seed: int) -> list[Placement]:
    """All on the one worker, all on the other, and others drawn without repetition."""
    chance = random.Random(f"{seed} {model.name}")
    found = [(0,) * len(model.parts), (1,) * len(model.parts)]
    most = min(count, 2 ** len(model.parts))
    while len(found) < most:
        drawn = tuple(chance.randrange(2) for _ in model.parts)
        if drawn not in found:
            found.append(drawn)
    return [Placement(model.name, where) for where in found[:most]]


def measure(
    models: Mapping[str, Model],
    asked: Sequence[Placement],
    warm: int,
    rounds: int,
    *,
    urgent: bool = False,
    begin: Callable[[], None] = lambda: None,
) -> Stats:
    """Time all placements in turn on one cluster, and trace steps of the first placement of each model in each round.

    `begin` is called once all sessions are warm. `urgent` lets the workers run before other programs (root).
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("two cores are needed, one for each worker")
    clients = [_client(models[one.model], one) for one in asked]
    stats: Stats = {one.model: [] for one in asked}
    with running(
        [*clients, _idle()], tasks=WORKERS, cores=dict(zip(WORKERS, cores, strict=False)), timeout_s=TIMEOUT_S
    ) as step:
        pids = [_pinned_to(core) for core in cores[:2]]
        for row, client in enumerate(clients):
            say(f"warming up, {row} of {len(clients)}")
            step([client.name], warm)
        step([IDLE], 1)
        begin()
        for pid in (os.getpid(), *pids) if urgent else ():
            Path(f"/proc/{pid}/autogroup").write_text("-20")
        for turn in range(rounds):
            say(f"round {turn + 1} of {rounds}")
            for one in asked:
                _round(step, one, pids)
                if set(one.where) == {0}:
                    traced = step([one.name], 1 + TRACED, traced=True)
                    stats[one.model] += [done.stats for done in traced[1:]]
    return stats


def _client(model: Model, one: Placement) -> RealClient:
    graph = placed(model, one.where, DEVICES)
    return RealClient(one.name, WORKERS[0], graph, (model.fetch,), first=(model.first,), traced=True)


def _idle() -> RealClient:
    """A client without work: while it steps, all others rest."""
    node = NodeDef(name="nothing", op="NoOp", device=DEVICES[0])
    return RealClient(IDLE, WORKERS[0], GraphDef(node=[node]).SerializeToString(), ("nothing",), gap_s=0.005)


def _round(step: Stepping, one: Placement, pids: Sequence[int]) -> None:
    """Some steps, and the processor time of all of them; a client that is told to rest ends one more."""
    step([IDLE], 1)
    before = [_processor_ms(pid) for pid in pids]
    done = step([one.name], STEPS)
    step([IDLE], 1)
    first, second = ((_processor_ms(pid) - then) / (STEPS + 1) for pid, then in zip(pids, before, strict=True))
    one.worked_ms.append((first, second))
    one.took_ms += [(each.end_ns - each.start_ns) / 1e6 for each in done]


def _pinned_to(core: int) -> int:
    for pid in descendants(os.getpid()):
        if os.sched_getaffinity(pid) == {core}:
            return pid
    raise SystemExit(f"no process is pinned to core {core}")


def _processor_ms(pid: int) -> float:
    """Milliseconds for which all threads of a process have run so far (Linux)."""
    return time.clock_gettime(~pid << 3 | 2) * 1e3  # its clock's number, as clock_getcpuclockid makes it


def keep(path: Path, asked: Sequence[Placement], stats: Stats) -> None:
    """Write what was measured."""
    told = {name: [base64.b64encode(one).decode() for one in found] for name, found in stats.items()}
    path.write_text(json.dumps({"placements": [asdict(one) for one in asked], "stats": told}))


def kept(path: Path) -> tuple[list[Placement], Stats]:
    """Read what was measured."""
    told = json.loads(path.read_text())
    asked = [Placement(**{**one, "where": tuple(one["where"])}) for one in told["placements"]]
    return asked, {name: [base64.b64decode(one) for one in found] for name, found in told["stats"].items()}


def say(stage: str) -> None:
    """Show the progress on a terminal."""
    if sys.stderr.isatty():
        print(f"\r{stage:60}", end="", file=sys.stderr, flush=True)
