"""Steps of real processes beside simulated ones: four models, each with many placements on two workers.

    python benchmarks/accuracy.py [--placements N] [--rounds N] [--profile host.toml] [--kept FILE] [--plot FILE]

Two processes of TensorFlow on this machine, each pinned to a core with one thread for ops, over loopback gRPC. The
first two placements of a model put all of it on one worker; the others are drawn. All placements of all models take
turns, round after round; the lower quartile of the steps counts. Each step is simulated in six ways:

    measured   op times of traced steps of the first placement, fitted to its untraced step; the profile's messages
    drawn      the same, the median over orders that the executor may take by chance (`accuracy_chance`)
    profile    the profile alone: nothing of the model was measured
    roofline   the shipped CPU at its peak, a core of it
    grappler   TensorFlow's own virtual scheduler, with the same peak
    replay     the measured op times, first ready first; a transfer takes its latency and its bytes, and no processor

Times of a session (`cluster_step`, `other_task` of the profile) are added to `measured`, `drawn`, `profile` and
`replay`. The noise of a placement is half of the distance between the quartiles of its steps. A pair is told apart if
its steps differ by more than the noise of both. Work is the processor time of each process beside what its device is
busy.

Warming up takes most of the time and may be disturbed; `--pause` then waits for a line on stdin. `--kept FILE` keeps
what was measured, and reads it where it is there. The processes keep the memory that they free (MALLOC_*), as with
tcmalloc: glibc gives large blocks back and faults them in again, up to a third of a step, differently in each thread.
They run without oneDNN, as all of the oracle's do.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from accuracy_chance import redrawn
from accuracy_cluster import DEVICES, KEPT, STEPS, Placement, keep, kept, measure, placements, say
from accuracy_models import MODELS, Model, made, placed
from scatter import Point, scatter

from placement import place
from simulator import calibrate, choose_step, estimate, load, load_cluster, partition, read_profile, simulate
from simulator.cluster.cluster import Cluster, with_protocol
from simulator.costs.matching import with_measured
from simulator.costs.measured import MeasuredTimes, Sample, fitted
from simulator.costs.measurements.reading import from_step_stats
from simulator.costs.profile import Profile, with_messages
from simulator.costs.table import CostTable
from simulator.execution.interval import interval
from simulator.execution.options import SimulationOptions
from simulator.graph.graph import Graph
from simulator.graph.messages import GraphDef, StepStats
from simulator.graph.step import Step
from simulator.oracle.child import Asking
from tests.oracle import grappler

WARM = 95  # steps: a new session takes every kernel to be expensive for about 90
DRAWS = 9  # orders by chance
WAYS = ("measured", "drawn", "profile", "roofline", "grappler", "replay")
COLOURS = {
    "convolution": "#1b6ca8",
    "recurrent": "#2a9d5c",
    "attention": "#d1782f",
    "embedding": "#8a5ba6",
}


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
            peaks=device.peaks.scaled(1, count),
        )
        for device, count in zip(on.devices, parts, strict=True)
    )
    return replace(on, devices=devices)


def simulated(one: Placement, model: Model, traced: MeasuredTimes, profile: Profile, asking: Asking) -> None:
    """Simulate a placement in all ways."""
    on = with_messages(pinned(), profile)
    graph = load(GraphDef.FromString(placed(model, one.where, DEVICES)))
    step = choose_step(graph, fetches=(model.fetch,))
    session_ms = profile.figures["cluster_step"].ns / 1e6
    if any(one.where):
        session_ms += profile.figures["other_task"].ns / 1e6
    priced = with_measured(estimate(graph, on, profile), traced, graph, on)
    _run(one, "measured", graph, step, on, priced, session_ms)
    _run_drawn(one, model, traced, on, profile, session_ms)
    _run(one, "profile", graph, step, on, estimate(graph, on, profile), session_ms)
    _run(one, "roofline", graph, step, pinned(), estimate(graph, pinned()), 0.0)
    _run(one, "replay", graph, step, with_protocol(pinned(), "plain"), priced, session_ms, order="fifo")
    asked = grappler.predict(graph, pinned(), step=step, devices=graph.requested, asking=asking)
    one.simulated_ms["grappler"] = asked.makespan / 1e6


def _run_drawn(
    one: Placement, model: Model, traced: MeasuredTimes, on: Cluster, profile: Profile, session_ms: float
) -> None:
    """The median step over orders by chance, with measured costs."""
    steps_ms = []
    for seed in range(DRAWS):
        graph = load(GraphDef.FromString(redrawn(placed(model, one.where, DEVICES), seed)))
        step = choose_step(graph, fetches=(model.fetch,))
        priced = with_measured(estimate(graph, on, profile), traced, graph, on)
        _run(one, "drawn", graph, step, on, priced, session_ms)
        steps_ms.append(one.simulated_ms["drawn"])
    one.simulated_ms["drawn"] = statistics.median(steps_ms)


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


def traced_times(stats: Sequence[bytes], untraced_ms: float, profile: Profile) -> MeasuredTimes:
    """The median times of ops over the traced steps, fitted to the untraced step, with the executor's between them."""
    seen: dict[tuple[str, str], list[Sample]] = {}
    for one in stats:
        for sample in from_step_stats(StepStats.FromString(one)).samples:
            seen.setdefault((sample.node, sample.where), []).append(sample)
    typical = [replace(found[0], ns=round(statistics.median(one.ns for one in found))) for found in seen.values()]
    step_ns = round(untraced_ms * 1e6 - profile.figures["cluster_step"].ns)
    return fitted(
        MeasuredTimes(tuple(typical), "traced steps"), step_ns, dispatch_ns=round(profile.figures["dispatch"].ns)
    )


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
    right, apart = _pairs(of, way)
    tau = f"tau {(2 * right - apart) / apart:.2f} over {apart} pairs" if apart else "no pair is apart"
    # the first placement gave the measured times
    unseen = [abs(one.error(way)) for one in of if len(set(one.where)) > 1] or errors
    work = f"; work {statistics.median(abs(one.work_error(way)) for one in of):5.1%}" if way in of[0].busy_ms else ""
    return (
        f"error {statistics.median(errors):5.1%} in the median, {errors[-1]:5.1%} at worst "
        f"({statistics.median(unseen):5.1%} over both workers); {tau}{work}"
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


def plot(asked: Sequence[Placement]) -> str:
    """Each placement as a point, by measured costs."""
    points = [Point(one.ms, one.simulated_ms["measured"], one.model) for one in asked]
    times = [time for point in points for time in point[:2]]
    upwards = "simulated, with op times of one worker"
    return scatter(points, COLOURS, upwards=upwards, first_ms=0.9 * min(times), last_ms=1.1 * max(times), within=0.1)


def main() -> None:
    """Measure, simulate, and print the tables."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--models", default=",".join(MODELS))
    asked.add_argument("--placements", type=int, default=20)
    asked.add_argument("--rounds", type=int, default=5, help=f"of {STEPS} steps each")
    asked.add_argument("--warm", type=int, default=WARM)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--profile", help="of this machine, made with the same MALLOC_* (default: made first)")
    asked.add_argument("--kept", type=Path, help="keep what was measured, or read it if it is there")
    asked.add_argument("--plot", type=Path, help="draw simulated steps over measured ones")
    asked.add_argument("--pause", action="store_true", help="wait for a line on stdin when all sessions are warm")
    asked.add_argument("--urgent", action="store_true", help="before other programs (root)")
    options = asked.parse_args()
    os.environ.update(KEPT)
    begun = time.monotonic()
    profile = calibrate(say) if options.profile is None else read_profile(options.profile)
    models = made(options.models.split(","))
    if options.kept and options.kept.exists():
        drawn, stats = kept(options.kept)
    else:
        drawn = [one for model in models.values() for one in placements(model, options.placements, options.seed)]
        begin = (lambda: print("warm", input())) if options.pause else (lambda: None)
        stats = measure(models, drawn, options.warm, options.rounds, urgent=options.urgent, begin=begin)
        if options.kept:
            keep(options.kept, drawn, stats)
    with grappler.conversation() as asking:
        for name, model in models.items():
            of = [one for one in drawn if one.model == name]
            traced = traced_times(stats[name], of[0].ms, profile)
            for one in of:
                simulated(one, model, traced, profile, asking)
    print(f"{profile.title}; {time.monotonic() - begun:.0f} s\n")
    print(report(drawn))
    if options.plot:
        options.plot.write_text(plot(drawn))


if __name__ == "__main__":
    main()
