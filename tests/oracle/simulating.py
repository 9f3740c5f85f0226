"""What simviz says of a training that a real cluster of processes runs, from the same graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from placement import place
from simulator import choose_step, estimate, load_cluster, partition, read_graph
from simulator.cluster.cluster import Cluster
from simulator.cluster.master import connected
from simulator.costs.matching import with_measured
from simulator.costs.measured import MeasuredTimes, Sample
from simulator.execution.options import SimulationOptions
from simulator.graph.messages import GraphDef
from simulator.training.clients import Client
from simulator.training.disturbances.disturbance import Disturbance, Noise
from simulator.training.programs.distributed import distributed
from simulator.training.programs.program import Program
from simulator.training.regimes import Regime, read_regime
from simulator.training.train import train
from simulator.training.training import Training as Run
from tests.oracle.real_cluster import RealClient
from tests.oracle.training_graphs import Training

Shape: TypeAlias = tuple[int, int, str]  # of a product: rows, the side of the other matrix, floats
NOW_NS = 20_000  # of a call into Python that asks for the time


@dataclass(frozen=True)
class Machine:
    """What everything takes on this machine beside the sleeps."""

    hop_ns: int  # a message, its work at both ends included
    step_ns: float = 0.0  # of a worker without work
    oversleep_ns: int = 0
    gap_ns: int = 0  # of client and master from a step to the next
    spread: tuple[float, ...] = ()  # how long its steps sleep, over their median
    product_ns: Mapping[Shape, int] = field(default_factory=dict)
    message_ns: int = 0  # of a hop, what the processors at both ends work, half each
    byte_ps: int = 300  # what they work per byte, each
    bytes_per_s: int = 0  # of memory; 0: as for a CPU that nobody has measured


def simulate(training: Training, asked: Sequence[RealClient], steps: int, machine: Machine, seed: int = 0) -> Run:
    """Simulate what `asked` runs until there are `steps` updates; every op has one lane, as with one thread for ops.

    A sleep is an op like any other: it takes its device's only lane, as it takes the executor's only thread, and would
    hold up the packing of what is sent meanwhile, which nothing here does.
    """
    cluster = _cluster(training, machine)
    regime = read_regime(_regime(training))
    programs = [replace(one, gap_ns=machine.gap_ns) for one in _programs(training, asked, cluster, regime)]
    made, costs = [], []
    for program in programs:
        at = connected(cluster, program.task)
        step = choose_step(program.graph, fetches=program.fetches)
        priced = estimate(program.graph, at)
        known = [
            Sample(name, "CPU", _worked_ns(training, name, op, machine))
            for name, op in zip(program.graph.names, program.graph.ops, strict=True)
            if op in ("PyFunc", "MatMul")
        ]
        priced = with_measured(priced, MeasuredTimes(tuple(known), "what was asked for"), program.graph, at)
        placed = place(program.graph, at, priced, step=step, algorithm="tensorflow")
        made.append(Client(program, partition(program.graph, placed, at, step=step, flavour="master")))
        costs.append(priced)
    noise = [Disturbance("worker:*", Noise("empirical", values=machine.spread), "as measured")] * bool(machine.spread)
    rounds = steps // training.workers if training.alone else steps
    return train(
        made,
        cluster,
        costs,
        options=SimulationOptions(order="tensorflow", seed=seed),
        regime=regime,
        steps=rounds,
        disturbances=noise,
    )


def _programs(
    training: Training, asked: Sequence[RealClient], cluster: Cluster, regime: Regime | None
) -> list[Program]:
    """What simviz makes of TensorFlow's graphs; the updates of a chief it finds in the chief's own."""
    workers = [one for one in asked if "updates" not in one.name]
    graphs = [read_graph(GraphDef.FromString(one.graph)) for one in workers]
    if training.how == "in":
        programs = distributed(graphs[0], cluster, regime=regime)
    else:
        names = [f"worker:{row}" for row in range(training.workers)]
        programs = distributed(list(zip(names, graphs, strict=True)), cluster, regime=regime)
    if training.how == "towers":  # the same steps, in sessions of one client
        programs = tuple(
            replace(one, name=real.name, task=real.task) for one, real in zip(programs, workers, strict=True)
        )
    noted = {real.name: tuple(real.notes.values()) for real in asked}
    return [replace(one, fetches=(*one.fetches, *noted[one.name]), like=None) for one in programs]


def _worked_ns(training: Training, node: str, op: str, machine: Machine) -> int:
    """How long a product takes, a look at the clock, or the sleep "tower_2/work"."""
    if op == "MatMul":
        return machine.product_ns[shape(training)]
    if "/" not in node:  # "pushed"
        return NOW_NS
    asked = training.sleeps_s[int(node.partition("/")[0].removeprefix("tower_"))]
    return round(1e9 * asked) + machine.oversleep_ns * (asked > 0)


def shape(training: Training) -> Shape:
    """Of its products."""
    return training.rows or training.side, training.side, training.floats


def _regime(training: Training) -> str:
    if training.how == "ssp":
        return f"ssp:bound={training.bound}"
    if training.how != "sync":
        return "async" if training.alone else "none"
    total = training.workers
    return f"sync:aggregate={training.aggregate or total},total={total}"


def _cluster(training: Training, machine: Machine) -> Cluster:
    """All tasks on one host, each on a core; between them hops take as long as they were measured to."""
    jobs = {"ps": ["here"] * training.ps, "worker": ["here"] * training.workers}
    named = {job: [f"here:{row}" for row, _ in enumerate(hosts)] for job, hosts in jobs.items() if hosts}
    cluster = load_cluster(named)
    spoken = replace(
        cluster.between_tasks,
        name="measured",
        latency_ns=machine.hop_ns - 2 * (machine.message_ns // 2),
        request_ns=(machine.hop_ns - machine.message_ns) // 2,
        send_ns=machine.message_ns // 2,
        receive_ns=machine.message_ns // 2,
        send_ps_per_byte=machine.byte_ps,
        receive_ps_per_byte=machine.byte_ps,
    )
    devices = tuple(
        replace(device, cores=1, bytes_per_s=machine.bytes_per_s or device.bytes_per_s) for device in cluster.devices
    )
    return replace(cluster, devices=devices, between_tasks=spoken)
