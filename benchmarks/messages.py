"""Steps of one parameter server and one worker, real beside simulated, from 1 to 200 variables of 4 bytes to 4 MiB.

    python benchmarks/messages.py [--rounds N] [--protocol NAME] [--urgent]

Two processes of TensorFlow on this machine, each pinned to a core, one thread for ops, over loopback gRPC. "read": the
worker reads all variables; "train": it sends each back as a gradient, which is applied. Neither has any work besides.
All cases take turns. Given to the simulation: the time between two steps, from a step whose only message is its end,
and how fast a core passes memory, from an update that stays where its variable is; the rest is the shipped protocol.
So these steps are not in what is reported, and the cases of the fit are apart from the others (docs/decisions/0024).

Processor time is that of all threads of a process per step, less that of the step that does nothing; it is lengthened
less by other programs than times are. Of the times the lower quartile counts. With `--urgent`, which needs root, the
two processes come before other programs.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

from simulator.execution.options import SimulationOptions

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from placement import place
from simulator import choose_step, estimate, load, load_cluster, partition, simulate
from simulator.cluster.cluster import Cluster, with_protocol
from simulator.graph.messages import GraphDef
from simulator.oracle import child
from tests.oracle.processes import descendants
from tests.oracle.real_cluster import RealClient, RealStep, running

PS, WORKER = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"
KILO, MEGA = 2**10, 2**20
COUNTS = (1, 2, 5, 10, 20, 50, 100, 200)
BYTES = (4, 4 * KILO, 64 * KILO, MEGA, 4 * MEGA)
MOST_BYTES = 64 * MEGA  # of all variables of a case
FITTED = frozenset((n, nbytes) for n in (1, 10, 100) for nbytes in (4, 64 * KILO, 4 * MEGA))
WINDOW_S, LEAST, MOST = 0.1, 4, 150  # of a round, and its steps
WARM = 95  # steps: a new session takes every kernel to be expensive for about 90
WARM_S = 0.5
TIMEOUT_S = 900.0
MAKE = "--make-graphs"
WIDE = 10**15  # bytes per second of a memory that costs no time


@dataclass(frozen=True)
class Case:
    """The work of a step: "read" or "train"; "idle" sends nothing but its end, "home" updates without messages."""

    how: str
    variables: int = 0
    nbytes: int = 4  # of each

    @property
    def name(self) -> str:
        """The properties that tell it from others."""
        return f"{self.how} {self.variables} x {self.nbytes}"


@dataclass
class Seen:
    """The measurements of a case: seconds per step of each round, of the two processes; seconds of all steps."""

    worked: list[tuple[float, float]] = field(default_factory=list)
    took: list[float] = field(default_factory=list)

    @property
    def processor_s(self) -> tuple[float, float]:
        """Of server and worker: the least of the rounds."""
        server, worker = zip(*self.worked, strict=True)
        return min(server), min(worker)

    @property
    def step_s(self) -> float:
        """The lower quartile."""
        return statistics.quantiles(self.took, n=4)[0]

    @property
    def noise(self) -> float:
        """How much longer the median is."""
        return statistics.median(self.took) / self.step_s - 1


IDLE, HOME = Case("idle"), Case("home", 1, 4 * MEGA)


def cases() -> list[Case]:
    """The grid, without what is too large."""
    return [
        Case(how, n, nbytes)
        for how in ("read", "train")
        for nbytes in BYTES
        for n in COUNTS
        if n * nbytes <= MOST_BYTES
    ]


# --- in a child, which makes the graphs ------------------------------------------------------------------------------


def _answer(question: bytes) -> bytes:
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    facts, _ = child.unpack(question)
    made = [_graph(Case(*one)) for one in facts["cases"]]
    return child.pack({"first": [first for first, _ in made]}, [graph for _, graph in made])


def _graph(case: Case) -> tuple[str, bytes]:
    """The ops that give first values, and the graph, whose step ends with the worker's node "done"."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, graph.container(case.name.replace(" ", "_")):
        with tf.device(f"{PS}/device:CPU:0"):
            zeros = v1.zeros_initializer()
            held = [
                v1.get_variable(f"v{row}", [case.nbytes // 4], initializer=zeros, use_resource=True)
                for row in range(case.variables)
            ]
            values = [variable.read_value() for variable in held]
            there: list[Any] = [tf.no_op()]
        with tf.device(f"{WORKER}/device:CPU:0"):
            read = [tf.identity(value) for value in values if case.how in ("read", "train")]
        with tf.device(f"{PS}/device:CPU:0"):
            gradients = {"train": read, "home": [tf.identity(value) for value in values]}.get(case.how, [])
            there += [
                tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=0.0, delta=gradient)
                for variable, gradient in zip(held, gradients, strict=False)
            ]
            with tf.control_dependencies(there):
                end = tf.no_op()  # so that one message says that all is done, as `tf.group` has it
        here = [value.op for value in read]
        ends = here if case.how == "read" else [*here, end]
        with tf.device(f"{WORKER}/device:CPU:0"), tf.control_dependencies(ends):
            tf.no_op(name="done")
        first = v1.global_variables_initializer()
        return first.name, graph.as_graph_def(add_shapes=True).SerializeToString(deterministic=True)


def clients(asked: Sequence[Case]) -> dict[Case, RealClient]:
    """A client in the worker for each case."""
    with child.conversation("benchmarks.messages", args=[MAKE]) as ask:
        told = [(case.how, case.variables, case.nbytes) for case in asked]
        facts, graphs = child.unpack(ask(child.pack({"cases": told}), TIMEOUT_S))
    return {
        case: RealClient(case.name, WORKER, graph, ("done",), first=((first,),))
        for case, first, graph in zip(asked, facts["first"], graphs, strict=True)
    }


# --- the real ones ---------------------------------------------------------------------------------------------------


def measured(made: Mapping[Case, RealClient], rounds: int, *, urgent: bool) -> dict[Case, Seen]:
    """All cases in turn on one cluster."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("two cores are needed, one for each process")
    seen: dict[Case, Seen] = {case: Seen() for case in made}
    pinned = {PS: cores[0], WORKER: cores[1]}
    with running(list(made.values()), tasks=[PS, WORKER], cores=pinned, timeout_s=TIMEOUT_S) as step:
        pids = [_pinned_to(core) for core in pinned.values()]
        if urgent:
            _first([os.getpid(), *pids])
        steps = {case: _steps(step([case.name], 5)) for case in made}
        for case, count in steps.items():
            step([case.name], min(WARM, max(count, round(count * WARM_S / WINDOW_S))))
        steps = {case: _steps(step([case.name], 5)) for case in made}
        for _ in range(rounds):
            for case, found in seen.items():
                before = [processor_s(pid) for pid in pids]
                done = step([case.name], steps[case])
                server, worker = (processor_s(pid) - then for pid, then in zip(pids, before, strict=True))
                found.worked.append((server / len(done), worker / len(done)))
                found.took += [(one.end_ns - one.start_ns) / 1e9 for one in done]
    return seen


def _steps(done: Sequence[RealStep]) -> int:
    """How many fill a window."""
    took_s = statistics.median((one.end_ns - one.start_ns) / 1e9 for one in done)
    return min(MOST, max(LEAST, round(WINDOW_S / took_s)))


def _pinned_to(core: int) -> int:
    """The process of the task on that core."""
    for pid in descendants(os.getpid()):
        if os.sched_getaffinity(pid) == {core}:
            return pid
    raise SystemExit(f"no process is pinned to core {core}")


def _first(pids: Sequence[int]) -> None:
    """Put processes before others: each leads a session, whose share of the cores Linux keeps apart (autogroup)."""
    for pid in pids:
        Path(f"/proc/{pid}/autogroup").write_text("-20")


def processor_s(pid: int) -> float:
    """Seconds for which all threads of a process have run so far, those that ended too (Linux)."""
    return time.clock_gettime(~pid << 3 | 2)  # its clock's number, as clock_getcpuclockid makes it


# --- the simulated ones ----------------------------------------------------------------------------------------------


def simulated_ns(client: RealClient, on: Cluster) -> int:
    """From the first op of a step to its last."""
    graph = load(GraphDef.FromString(client.graph))
    step, costs = choose_step(graph, fetches=client.targets), estimate(graph, on)
    placed = place(graph, on, costs, step=step, algorithm="tensorflow")
    pieces = partition(graph, placed, on, step=step, flavour="master")
    return int(simulate(pieces, on, costs, SimulationOptions(order="tensorflow")).makespan)


def pinned_cluster(protocol: str, bytes_per_s: int) -> Cluster:
    """Both tasks on one host, each on a core."""
    on = load_cluster({"ps": ["here:0"], "worker": ["here:1"]})
    devices = tuple(replace(device, cores=1, bytes_per_s=bytes_per_s) for device in on.devices)
    return with_protocol(replace(on, devices=devices), protocol)


def calibrated(made: Mapping[Case, RealClient], seen: Mapping[Case, Seen], protocol: str) -> tuple[Cluster, float]:
    """The cluster with memory as fast as it was, and the seconds between steps."""
    free = pinned_cluster(protocol, WIDE)
    gap_s = seen[IDLE].step_s - simulated_ns(made[IDLE], free) / 1e9
    update_s = seen[HOME].step_s - seen[IDLE].step_s
    slow = pinned_cluster(protocol, 10**9)
    one_s = (simulated_ns(made[HOME], slow) - simulated_ns(made[HOME], free)) / 1e9  # at a gigabyte per second
    return pinned_cluster(protocol, max(10**8, round(1e9 * one_s / max(update_s, 1e-6)))), gap_s


def report(seen: Mapping[Case, Seen], ours: Mapping[Case, float]) -> None:
    """The table, and how far off the rates are; `ours` are seconds per step."""
    idle = seen[IDLE].processor_s
    print("| a step | bytes of each | messages | server works per message | worker | real | median | simulated | off |")
    print("|---|---|---|---|---|---|---|---|---|")
    errors: dict[Case, float] = {}
    for case in ours:
        real = seen[case]
        messages = case.variables * (2 if case.how == "train" else 1)
        each = (1e6 * (one - none) / messages for one, none in zip(real.processor_s, idle, strict=True))
        works = " | ".join(f"{us:.0f} us" for us in each)
        errors[case] = real.step_s / ours[case] - 1
        print(
            f"| {case.how} {case.variables} | {case.nbytes} | {messages} | {works} | {1e3 * real.step_s:.2f} ms | "
            f"+{real.noise:.0%} | {1e3 * ours[case]:.2f} ms | {errors[case]:+.0%} |"
        )
    print()
    for name, of in (
        ("fitted", [case for case in errors if (case.variables, case.nbytes) in FITTED]),
        ("not fitted", [case for case in errors if (case.variables, case.nbytes) not in FITTED]),
        ("all", list(errors)),
    ):
        off = {case: abs(math.log1p(errors[case])) for case in of}
        worst = max(off, key=lambda case: off[case])
        print(
            f"{name}: {len(of)} cases, steps/s off by a factor of {math.exp(statistics.median(off.values())):.2f} in "
            f"the median, {math.exp(off[worst]):.2f} at worst ({worst.name})"
        )
    apart = right = 0
    for one, other in combinations(ours, 2):
        slow, fast = sorted((one, other), key=lambda case: -seen[case].step_s)
        if seen[slow].step_s > statistics.median(seen[fast].took):
            apart += 1
            right += ours[slow] > ours[fast]
    print(f"{apart} pairs differ by more than the noise, {right} of them in our order.")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rounds", type=int, default=6)
    asked.add_argument("--protocol", default="grpc")
    asked.add_argument("--urgent", action="store_true", help="before other programs (root)")
    options = asked.parse_args()
    if find_spec("tensorflow") is None:
        sys.exit('TensorFlow is needed to measure it: pip install "simviz[tensorflow]"')
    grid = cases()
    made = clients([IDLE, HOME, *grid])
    seen = measured(made, options.rounds, urgent=options.urgent)
    on, gap_s = calibrated(made, seen, options.protocol)
    idle = seen[IDLE]
    print(
        f"A step that does nothing: {1e3 * idle.step_s:.2f} ms (median +{idle.noise:.0%}), of which "
        f"{1e3 * gap_s:.2f} ms are not its message; server and worker work "
        f"{' and '.join(f'{1e6 * one:.0f} us' for one in idle.processor_s)}. "
        f"Memory: {on.devices[0].bytes_per_s / 1e9:.1f} GB/s.\n"
    )
    report(seen, {case: gap_s + simulated_ns(made[case], on) / 1e9 for case in grid})


if __name__ == "__main__":
    if sys.argv[1:] == [MAKE]:
        child.serve(_answer)
    main()
