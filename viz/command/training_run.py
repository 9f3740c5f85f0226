"""The run of a training: its clients and steps, then its bottleneck, memory and scaling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from placement.sessions import clients
from simulator import limits
from simulator.assignment import Assignment
from simulator.cluster.cluster import Cluster
from simulator.cluster.master import connected
from simulator.costs.table import CostTable
from simulator.errors import OutOfMemoryError
from simulator.execution.live import live_step
from simulator.execution.loops import SharedChoices
from simulator.execution.memory import out_of_memory
from simulator.execution.simulate import simulate
from simulator.execution.trace import Trace
from simulator.graph.graph import Graph
from simulator.graph.step import choose_step
from simulator.partitioning.partitions import Partitions
from simulator.progress import Say
from simulator.shapes.unknown import Unsized, unsized_of
from simulator.training.answers.answers import answers, until_ci
from simulator.training.answers.bottleneck import MOST_TRIED, bottleneck
from simulator.training.answers.memory_bounds import MemoryBounds, memory_bounds
from simulator.training.answers.reliefs import FASTER, Relief, relieve
from simulator.training.answers.scaling import scale
from simulator.training.clients import Client, once_each
from simulator.training.disturbances.background import background
from simulator.training.disturbances.disturbance import Disturbance
from simulator.training.disturbances.disturbed import disturb, present
from simulator.training.inputs.finding import inputs_of
from simulator.training.inputs.pipeline import InputPipelines, faster
from simulator.training.programs.program import Program
from simulator.training.programs.setter import PsStrategy
from simulator.training.recognition.sync_replicas import regime_of, sync_replicas
from simulator.training.regimes import Regime
from simulator.training.train import train
from simulator.training.training import Training
from simulator.wording import counted
from viz.command.ingredients import Programs, price_each
from viz.command.request import Request
from viz.command.training_programs import in_words, make_programs, with_workers
from viz.command.training_request import TrainingRequest
from viz.scene import Trained

Extend: TypeAlias = Callable[[Training, int], int]  # `extend` of `train`

TRIED_IN_STEP = 8  # reliefs that are tried of a synchronous run, so that a backup worker is among them
RECORDED = 2  # steps of each client that are kept op by op
SHORT = 10  # steps of a run that is only compared, at least
_BY_BYTES: PsStrategy = "bytes"
FEW_OPS = 500_000  # of a run that is only compared, at most, if it has more steps than that


@dataclass(frozen=True, eq=False)
class Setup:
    """Programs in their regime on a cluster, ready to run."""

    request: Request
    source: Graph  # the user's graph, from which the programs were made
    say: Say
    cluster: Cluster
    regime: Regime | None
    clients: tuple[Client, ...]
    costs: tuple[CostTable, ...]
    inputs: InputPipelines
    disturbances: tuple[Disturbance, ...]

    @property
    def wanted(self) -> TrainingRequest:
        """The options of the training."""
        assert self.request.training is not None
        return self.request.training

    def run(self, steps: int, *, record: int = 0, extend: Extend | None = None, what: str = "") -> Training:
        """Run the steps, and as many more as `extend` of `train` asks for. The trace has the first `record` of each
        client; progress is reported of `what`, if that is anything.
        """
        return train(
            self.clients,
            self.cluster,
            self.costs,
            regime=self.regime,
            steps=steps,
            options=self.request.simulation,
            disturbances=self.disturbances,
            record=record,
            most=steps if extend is None else max(steps, limits.CI_STEPS.most),
            extend=extend,
            on_progress=(lambda made, of: self.say(f"{what}: {made:,} of {counted(of, 'update')}")) if what else None,
            inputs=self.inputs,
        )

    def short(self, steps: int) -> int:
        """The steps of a run that is only compared: fewer if it would take long."""
        ops = sum(len(client.partitions.graph) for client in self.clients)
        return min(steps, max(SHORT, FEW_OPS // max(1, ops)))

    def anew(self, wanted: TrainingRequest, cluster: Cluster, programs: tuple[Program, ...]) -> Setup:
        """The same with other programs, by these options, perhaps on a cluster of more or fewer workers."""
        request = replace(self.request, training=wanted)
        priced = price_each(request, programs, cluster, described=None if cluster is self.cluster else self.cluster)
        return set_up(request, self.source, self.say, cluster, programs, priced)


def set_up(
    request: Request,
    source: Graph,
    say: Say,
    cluster: Cluster,
    programs: tuple[Program, ...],
    costs: tuple[CostTable, ...],
    first: tuple[Assignment, Partitions] | None = None,
) -> Setup:
    """These programs with their costs, placed and cut, on a cluster. `first` is that of `clients`, as are errors."""
    wanted = request.training
    assert wanted is not None
    regime = regime_of(wanted.regime, programs)
    made = clients(
        programs,
        cluster,
        costs,
        options=request.simulation,
        recv_scheduling=request.recv_scheduling,
        first=first,
        **request.placing(say),
    )
    inputs = inputs_of(made, cluster, costs, rates=wanted.inputs)
    return Setup(request, source, say, cluster, regime, made, costs, inputs, wanted.disturbances)


def short_rate(setup: Setup) -> float:
    """Steps per second of a run that is only compared; 0 where they are unknown, or some client's step does not fit."""
    if _memory(setup, _alone(setup))[1] is not None:
        return 0.0
    return answers(setup.run(setup.short(setup.wanted.steps))).steps_per_s or 0.0


def trained(setup: Setup, given: Programs) -> Trained:
    """Train these programs, which are set up already.

    Raise what `clients` and `train` raise, and SimvizError for a number of workers that the cluster lacks.
    """
    say, cluster = setup.say, setup.cluster
    training, steps, narrow = _run(setup)
    say("looking for the bottleneck")
    held = bottleneck(
        training,
        cluster,
        lambda relief: _relieved(setup, relief, steps),
        setup.disturbances,
        most=MOST_TRIED if setup.regime is None or not setup.regime.averages else TRIED_IN_STEP,
    )
    disturbed = disturb(setup.disturbances, cluster)
    alone = _alone(setup)
    memory, full = _memory(setup, alone)
    return Trained(
        wanted=setup.wanted,
        replication=given.made,
        regime=setup.regime,
        regime_in_words=in_words(setup.regime, given.programs, given.made),
        clients=(*setup.clients, *background(disturbed).clients),
        disturbed=disturbed,
        training=training,
        answers=answers(training),
        bottleneck=held,
        memory=memory,
        steps=steps,
        narrow=narrow,
        scaling=scale(setup.wanted.workers, lambda count: _with_workers(setup, count, steps, training)),
        out_of_memory=full,
        unsized=_unsized(setup.clients, alone),
    )


def _unsized(clients: Sequence[Client], alone: Sequence[Trace]) -> Unsized:
    """The tensors of unknown size in a step of the client that has most of them, the first of equals."""
    found = []
    for client, trace in zip(clients, alone, strict=True):
        if client.program.like is None:
            made = client.program
            step = choose_step(made.graph, feeds=made.feeds, fetches=made.fetches)
            found.append(unsized_of(made.graph, live_step(made.graph, step, client.partitions, trace)))
    return max(found, key=lambda one: (one.tensors, one.tables))


def _run(setup: Setup) -> tuple[Training, int, bool | None]:
    """The run, its steps and, if it was to go on until its rate is known, whether it is."""
    wanted, what = setup.wanted, f"training, {counted(len(setup.clients), 'client')}"
    if wanted.until_ci is None:
        setup.say(f"{what}, {counted(wanted.steps, 'step')}")
        return setup.run(wanted.steps, record=RECORDED, what=what), wanted.steps, None
    what += ", until steps per second are known"
    reached = until_ci(
        lambda extend: setup.run(wanted.steps, record=RECORDED, extend=extend, what=what),
        relative=wanted.until_ci,
        steps=wanted.steps,
        most=max(wanted.steps, limits.CI_STEPS.most),
    )
    return reached.training, reached.steps, reached.reached


def _alone(setup: Setup) -> list[Trace]:
    """A step of each client alone."""
    costs = {id(client): priced for client, priced in zip(setup.clients, setup.costs, strict=True)}
    choices = SharedChoices(setup.request.simulation)

    def step_of(client: Client) -> Trace:
        on = connected(setup.cluster, client.program.task)
        return choices.apply(partial(simulate, client.partitions, on, costs[id(client)]))

    return once_each(setup.clients, step_of)


def _memory(setup: Setup, alone: Sequence[Trace]) -> tuple[MemoryBounds, OutOfMemoryError | None]:
    """Bounds for the memory of devices that clients share, and the first client's step that does not fit."""
    pairs = zip(setup.clients, alone, strict=True)
    full = (out_of_memory(step, client.partitions, setup.cluster) for client, step in pairs)
    return memory_bounds(setup.clients, setup.cluster, alone), next((one for one in full if one is not None), None)


def _relieved(setup: Setup, relief: Relief, steps: int) -> Training | None:
    """The run with that relief; None if it is impossible."""
    setup.say(f"simulating again {relief.change}")
    changed = _remade(setup, relief) if relief.backups or relief.by_bytes else setup
    if changed is None:
        return None
    made = changed.clients
    if relief.gapless:
        made = tuple(replace(client, program=replace(client.program, gap_ns=0)) for client in made)
    cluster, costs, left = relieve(changed.cluster, changed.costs, changed.disturbances, relief)
    inputs = faster(changed.inputs, relief.inputs, FASTER)
    again = replace(changed, clients=made, cluster=cluster, costs=costs, disturbances=left, inputs=inputs)
    return again.run(steps if relief.without else changed.short(steps))


def _remade(setup: Setup, relief: Relief) -> Setup | None:
    """The setup with other programs; None if the graph fixes what would change, or nothing changes."""
    wanted = setup.wanted
    if relief.backups:
        fewer = _with_backups(setup, relief.backups)
        if fewer is None:
            return None
        wanted = replace(wanted, regime=fewer)
    request, strategy = replace(setup.request, training=wanted), _BY_BYTES if relief.by_bytes else None
    programs, _ = make_programs(request, wanted, setup.source, setup.cluster, strategy=strategy)
    asked = [client.program.written.requested for client in setup.clients[: len(programs)]]
    if not relief.backups and asked == [program.written.requested for program in programs]:
        return None
    return setup.anew(wanted, setup.cluster, programs)


def _with_backups(setup: Setup, backups: int) -> Regime | None:
    """The regime with this many more backup workers; None if the graph fixes their number, or there are too few.

    The first tokens are the requested ones, else as many as the gradients of an update. If an update takes more
    gradients than there are workers, no worker can be a backup.
    """
    known, asked, fixed = setup.regime, setup.wanted.regime, sync_replicas(setup.source) is not None
    if fixed or known is None or known.aggregate is None or known.aggregate <= backups:
        return None
    if known.total is not None and known.aggregate > known.total:
        return None
    return replace(known, aggregate=known.aggregate - backups, tokens=None if asked is None else asked.tokens)


def _with_workers(setup: Setup, count: int, steps: int, training: Training) -> Training:
    """The run with that many workers; `training` is that with all of them."""
    setup.say(f"training with {counted(count, 'worker')}")
    request, wanted = setup.request, setup.wanted
    other = with_workers(request.cluster if isinstance(request.cluster, str) else None, setup.cluster, count)
    if other.tasks == setup.cluster.tasks:
        return training
    programs, _ = make_programs(request, wanted, setup.source, other)
    there = present(setup.disturbances, other)
    return replace(setup.anew(wanted, other, programs), disturbances=there).run(steps)
