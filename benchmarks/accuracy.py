"""Steps of real processes beside simulated ones: four models, each with many placements on two workers.

    python benchmarks/accuracy.py [--placements N] [--rounds N] [--profile host.toml] [--json FILE] [--urgent]

Two processes of TensorFlow on this machine, each pinned to a core with one thread for ops, over loopback gRPC. The
first two placements of a model put all of it on one worker; the others are drawn. All placements of all models take
turns, round after round; the medians count. Each step is simulated by four sets of costs:

    measured   op times of one traced step of the first placement, fitted to its untraced step; the profile's messages
    profile    the profile alone: nothing of the model was measured
    roofline   the shipped CPU at its peak, a core of it
    replay     the measured op times, first ready first; a transfer takes its latency and its bytes, and no processor

Times of a session (`cluster_step`, `other_task` of the profile) are added to each but `roofline`. The noise of a
placement is half of the distance between the quartiles of its steps. A pair is told apart if its medians differ by more
than the noise of both. Work is the processor time of each process beside what its device is busy.

The processes keep the memory that they free (MALLOC_*), as with tcmalloc: glibc gives large blocks back and faults them
in again, up to a third of a step, differently in each thread. They run without oneDNN, as all of the oracle's do.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import combinations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from accuracy_models import MODELS, Model, made, placed

from placement import place
from simulator import calibrate, choose_step, estimate, load, load_cluster, partition, read_profile, simulate
from simulator.cluster.cluster import Cluster, with_protocol
from simulator.costs.matching import with_measured
from simulator.costs.measured import MeasuredTimes, fitted
from simulator.costs.measurements.reading import from_step_stats
from simulator.costs.profile import Profile, with_messages
from simulator.costs.table import CostTable
from simulator.execution.interval import interval
from simulator.execution.options import SimulationOptions
from simulator.graph.graph import Graph
from simulator.graph.messages import GraphDef, NodeDef, StepStats
from simulator.graph.step import Step
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
WARM = 95  # steps: a new session takes every kernel to be expensive for about 90
STEPS = 5  # in a row
TIMEOUT_S = 5400.0
WAYS = ("measured", "profile", "roofline", "replay")
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
        """What tells it from others."""
        return f"{self.model} {''.join(map(str, self.where))}"

    @property
    def ms(self) -> float:
        """The median step."""
        return float(statistics.median(self.took_ms))

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
        real = [statistics.median(column) for column in zip(*self.worked_ms, strict=True)]
        busier = real.index(max(real))
        return float(self.busy_ms[way][busier] / real[busier] - 1)


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


# --- the real ones ---------------------------------------------------------------------------------------------------


def measure(
    models: Mapping[str, Model], asked: Sequence[Placement], warm: int, rounds: int, *, urgent: bool
) -> dict[str, list[bytes]]:
    """Time all placements in turn on one cluster; return StepStats of the first placement of each model."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("two cores are needed, one for each worker")
    clients = [_client(models[one.model], one) for one in asked]
    first = {one.model: one for one in reversed(asked) if set(one.where) == {0}}
    clients += [_client(models[name], one, traced=True) for name, one in first.items()]
    clients.append(_idle())
    stats: dict[str, list[bytes]] = {name: [] for name in first}
    with running(clients, tasks=WORKERS, cores=dict(zip(WORKERS, cores, strict=False)), timeout_s=TIMEOUT_S) as step:
        pids = [_pinned_to(core) for core in cores[:2]]
        if urgent:
            for pid in (os.getpid(), *pids):
                Path(f"/proc/{pid}/autogroup").write_text("-20")
        for row, client in enumerate(clients):
            _say(f"warming up, {row} of {len(clients)}")
            step([client.name], 2 if client.traced else warm)
        for turn in range(rounds):
            _say(f"round {turn + 1} of {rounds}")
            for one in asked:
                _round(step, one, pids)
            for name, found in stats.items():
                found += [done.stats for done in step([f"{name} traced"], 2, traced=True)]
    return stats


def _client(model: Model, one: Placement, *, traced: bool = False) -> RealClient:
    name = f"{model.name} traced" if traced else one.name
    graph = placed(model, one.where, DEVICES)
    return RealClient(name, WORKERS[0], graph, (model.fetch,), first=(model.first,), traced=traced)


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


# --- the simulated ones ----------------------------------------------------------------------------------------------


@cache
def pinned() -> Cluster:
    """Both workers on one host, each with a core."""
    on = load_cluster({"worker": ["here:0", "here:1"]})
    parts = [device.cores for device in on.devices]
    devices = tuple(
        replace(
            device,
            cores=1,
            flop_per_s=device.flop_per_s // count,
            bytes_per_s=device.bytes_per_s // count,
            peaks=device.peaks.share(count),
        )
        for device, count in zip(on.devices, parts, strict=True)
    )
    return replace(on, devices=devices)


def simulated(one: Placement, model: Model, traced: MeasuredTimes, profile: Profile) -> None:
    """Simulate a placement in all ways."""
    on = with_messages(pinned(), profile)
    graph = load(GraphDef.FromString(placed(model, one.where, DEVICES)))
    step = choose_step(graph, fetches=(model.fetch,))
    session_ms = profile.figures["cluster_step"].ns / 1e6
    if any(one.where):
        session_ms += profile.figures["other_task"].ns / 1e6
    priced = with_measured(estimate(graph, on, profile), traced, graph, on)
    _run(one, "measured", graph, step, on, priced, session_ms)
    _run(one, "profile", graph, step, on, estimate(graph, on, profile), session_ms)
    _run(one, "roofline", graph, step, pinned(), estimate(graph, pinned()), 0.0)
    _run(one, "replay", graph, step, with_protocol(pinned(), "plain"), priced, session_ms, order="fifo")


def _run(
    one: Placement,
    way: str,
    graph: Graph,
    step: Step,
    on: Cluster,
    costs: CostTable,
    session_ms: float,
    order: str = "tensorflow",
) -> None:
    assignment = place(graph, on, costs, step=step, algorithm="requested")
    pieces = partition(graph, assignment, on, step=step, flavour="master")
    trace = simulate(pieces, on, costs, SimulationOptions(order=order))
    one.simulated_ms[way] = session_ms + trace.makespan / 1e6
    one.busy_ms[way] = [ns / 1e6 for ns in trace.busy_ns.tolist()]
    if way == "profile":
        low, high = interval(trace, pieces, on, costs) or (0, 0)
        one.low_ms, one.high_ms = session_ms + low / 1e6, session_ms + high / 1e6


def traced_times(stats: Sequence[bytes], untraced_ms: float, source: str) -> MeasuredTimes:
    """The op times of traced steps, fitted to the untraced step."""
    found = [from_step_stats(StepStats.FromString(one)) for one in stats]
    told = [fitted(one, round(untraced_ms * 1e6)) for one in found]
    return MeasuredTimes(tuple(sample for one in told for sample in one.samples), source)


# --- the report ------------------------------------------------------------------------------------------------------


def report(asked: Sequence[Placement]) -> str:
    """The table of all placements, and what is off."""
    lines = ["| placement | real | noise | " + " | ".join(WAYS) + " | by the profile | work |"]
    lines.append("|---" * (len(WAYS) + 5) + "|")
    for one in asked:
        ways = " | ".join(f"{one.simulated_ms[way]:.1f} ({one.error(way):+.0%})" for way in WAYS)
        lines.append(
            f"| {one.name} | {one.ms:.1f} ms | {one.noise_ms / one.ms:.1%} | {ways} | "
            f"{one.low_ms:.0f} to {one.high_ms:.0f} | {one.work_error('measured'):+.0%} |"
        )
    lines.append("")
    for name in (*dict.fromkeys(one.model for one in asked), "all"):
        of = [one for one in asked if name in (one.model, "all")]
        noise = statistics.median(one.noise_ms / one.ms for one in of)
        kept = sum(one.low_ms <= one.ms <= one.high_ms for one in of)
        lines.append(f"{name}: {len(of)} placements, noise {noise:.1%}; {kept} within the profile's interval")
        lines += [f"  {way:9} {_summary(of, way)}" for way in WAYS]
    return "\n".join(lines)


def _summary(of: Sequence[Placement], way: str) -> str:
    errors = sorted(abs(one.error(way)) for one in of)
    work = statistics.median(abs(one.work_error(way)) for one in of)
    right, apart = _pairs(of, way)
    tau = f"tau {(2 * right - apart) / apart:.2f} over {apart} pairs" if apart else "no pair is apart"
    # the first placement gave the measured times
    unseen = [abs(one.error(way)) for one in of if len(set(one.where)) > 1] or errors
    return (
        f"error {statistics.median(errors):5.1%} in the median, {errors[-1]:5.1%} at worst "
        f"({statistics.median(unseen):5.1%} over both workers); per device {work:5.1%}; {tau}"
    )


def _pairs(of: Sequence[Placement], way: str) -> tuple[int, int]:
    """Pairs of one model in the real order, and all that the noise tells apart."""
    right = apart = 0
    for one, other in combinations(of, 2):
        far = abs(one.ms - other.ms) > one.noise_ms + other.noise_ms
        if one.model == other.model and far:
            apart += 1
            right += (one.ms < other.ms) == (one.simulated_ms[way] < other.simulated_ms[way])
    return right, apart


def _say(stage: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{stage:60}", end="", file=sys.stderr, flush=True)


def main() -> None:
    """Measure, simulate, and print the tables."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--models", default=",".join(MODELS))
    asked.add_argument("--placements", type=int, default=20)
    asked.add_argument("--rounds", type=int, default=5, help=f"of {STEPS} steps each")
    asked.add_argument("--warm", type=int, default=WARM)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--profile", help="of this machine, made with the same MALLOC_* (default: made first)")
    asked.add_argument("--json", help="keep what was measured and simulated")
    asked.add_argument("--urgent", action="store_true", help="before other programs (root)")
    options = asked.parse_args()
    os.environ.update(KEPT)
    begun = time.monotonic()
    profile = calibrate(_say) if options.profile is None else read_profile(options.profile)
    models = made(options.models.split(","))
    drawn = [one for model in models.values() for one in placements(model, options.placements, options.seed)]
    stats = measure(models, drawn, options.warm, options.rounds, urgent=options.urgent)
    for name, model in models.items():
        of = [one for one in drawn if one.model == name]
        traced = traced_times(stats[name], of[0].ms, f"traced steps of {name}")
        for one in of:
            simulated(one, model, traced, profile)
    print(f"{profile.title}; {time.monotonic() - begun:.0f} s\n")
    print(report(drawn))
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(one) for one in drawn]))


if __name__ == "__main__":
    main()
