"""The run of a training: its clients and steps, then its bottleneck, memory and scaling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from placement.sessions import clients
from simulator.assignment import Assignment
from simulator.cluster.cluster import Cluster
from simulator.cluster.master import connected
from simulator.costs.table import CostTable
from simulator.execution.loops import SharedChoices
from simulator.execution.simulate import simulate
from simulator.execution.trace import Trace
from simulator.graph.graph import Graph
from simulator.partitioning import Partitions
from simulator.training.answers.answers import MOST_STEPS, answers, until_ci
from simulator.training.answers.bottleneck import MOST_TRIED, bottleneck
from simulator.training.answers.memory_bounds import MemoryBounds, memory_bounds
from simulator.training.answers.reliefs import FASTER, Relief, relieve
from simulator.training.answers.scaling import ScalingRow, scale
from simulator.training.clients.background import background
from simulator.training.clients.client_tables import Client
from simulator.training.disturbances.disturbance import Disturbance
from simulator.training.disturbances.disturbed import disturb, present
from simulator.training.inputs.finding import inputs_of
from simulator.training.inputs.pipeline import Pipelines, faster
from simulator.training.programs.program import Program
from simulator.training.programs.program_regime import regime_of
from simulator.training.recognition.sync_replicas import sync_replicas
from simulator.training.regimes import Regime
from simulator.training.train import train
from simulator.training.training import Training
from simulator.wording import counted
from viz.command.ingredients import Programs, price_each
from viz.command.request import Request
from viz.command.training_programs import in_words, make_programs, with_workers
from viz.command.training_request import TrainingRequest
from viz.scene import Trained

TRIED_IN_STEP = 8  # reliefs that are tried of a synchronous run, so that a backup worker is among them
RECORDED = 2  # steps of each client that are kept op by op
SHORT = 10  # steps of a run that is only compared, at least
FEW_OPS = 500_000  # of a run that is only compared, at most, if it has more steps than that


@dataclass(frozen=True, eq=False)
class _Setup:
    """Programs in their regime on a cluster, ready to run."""

    request: Request
    cluster: Cluster
    regime: Regime | None
    clients: tuple[Client, ...]
    costs: tuple[CostTable, ...]
    inputs: Pipelines

    def run(
        self,
        steps: int,
        disturbances: Sequence[Disturbance],
        cluster: Cluster | None = None,
        costs: Sequence[CostTable] | None = None,
        record: int = 0,
        extend: Callable[[Training, int], int] | None = None,
        on_progress: Callable[[int, int], None] | None = None,
        inputs: Pipelines | None = None,
    ) -> Training:
        """Run the steps, on another cluster with its costs if given. The trace has the first `record` of each client.

        `extend` and `on_progress` are those of `train`.
        """
        return train(
            self.clients,
            self.cluster if cluster is None else cluster,
            self.costs if costs is None else costs,
            regime=self.regime,
            steps=steps,
            options=self.request.simulation,
            disturbances=disturbances,
            record=record,
            most=steps if extend is None else max(steps, MOST_STEPS),
            extend=extend,
            on_progress=on_progress,
            inputs=self.inputs if inputs is None else inputs,
        )

    def short(self, steps: int) -> int:
        """The steps of a run that is only compared: fewer if it would take long."""
        ops = sum(len(client.partitions.graph) for client in self.clients)
        return min(steps, max(SHORT, FEW_OPS // max(1, ops)))


def trained(
    request: Request,
    given: Programs,
    cluster: Cluster,
    first: tuple[Assignment, Partitions],
    say: Callable[[str], None],
) -> Trained:
    """Train these programs; the first one is placed and cut already.

    Raise what `clients` and `train` raise, and SimvizError for a number of workers that the cluster lacks.
    """
    wanted = request.training
    assert wanted is not None
    say(f"placing and cutting {counted(len(given.programs), 'client')}")
    setup = _setup(request, cluster, given.programs, given.costs, first)
    steps, narrow = wanted.steps, None
    what = f"training, {counted(len(setup.clients), 'client')}"
    if wanted.until_ci is None:
        say(f"{what}, {counted(steps, 'step')}")
        training = setup.run(steps, wanted.disturbances, record=RECORDED, on_progress=_telling(say, what))
    else:
        what += ", until steps per second are known"
        reached = until_ci(
            lambda extend: setup.run(
                steps, wanted.disturbances, record=RECORDED, extend=extend, on_progress=_telling(say, what)
            ),
            relative=wanted.until_ci,
            steps=steps,
            most=max(steps, MOST_STEPS),
        )
        training, steps, narrow = reached.training, reached.steps, reached.reached
    say("looking for the bottleneck")
    held = bottleneck(
        training,
        cluster,
        lambda relief: _relieved(setup, wanted, given.source, relief, steps, say),
        wanted.disturbances,
        most=MOST_TRIED if setup.regime is None or not setup.regime.averages else TRIED_IN_STEP,
    )
    disturbed = disturb(wanted.disturbances, cluster)
    return Trained(
        wanted=wanted,
        replication=given.made,
        regime=setup.regime,
        regime_in_words=in_words(setup.regime, given.programs, given.made),
        clients=(*setup.clients, *background(disturbed).clients),
        disturbed=disturbed,
        training=training,
        answers=answers(training),
        bottleneck=held,
        memory=_memory(setup),
        steps=steps,
        narrow=narrow,
        scaling=_scaling(request, wanted, given.source, cluster, (steps, training), say),
    )


def _memory(setup: _Setup) -> MemoryBounds:
    """Bounds for the memory of devices that clients share."""
    costs = {id(client): priced for client, priced in zip(setup.clients, setup.costs, strict=True)}
    choices = SharedChoices(setup.request.simulation)

    def step_of(client: Client) -> Trace:
        simulated = partial(
            simulate,
            client.partitions,
            connected(setup.cluster, client.program.task),
            costs[id(client)],
        )
        return choices.apply(simulated)

    return memory_bounds(setup.clients, setup.cluster, step_of)


def _telling(say: Callable[[str], None], what: str) -> Callable[[int, int], None]:
    """Report the progress of a run."""
    return lambda updates, limit: say(f"{what}: {updates:,} of {counted(limit, 'update')}")


def _setup(
    request: Request,
    cluster: Cluster,
    programs: tuple[Program, ...],
    costs: tuple[CostTable, ...],
    first: tuple[Assignment, Partitions] | None = None,
) -> _Setup:
    assert request.training is not None
    regime = regime_of(request.training.regime, programs)
    made = clients(
        programs,
        cluster,
        costs,
        algorithm=request.algorithm,
        soft=request.soft,
        options=request.simulation,
        flavour=request.flavour,
        first=first,
    )
    inputs = inputs_of(made, cluster, costs, rates=request.training.inputs)
    return _Setup(request, cluster, regime, made, costs, inputs)


def _relieved(
    setup: _Setup, wanted: TrainingRequest, graph: Graph, relief: Relief, steps: int, say: Callable[[str], None]
) -> Training | None:
    """The run with that relief; None if it is impossible."""
    say(f"simulating again {relief.change}")
    changed: _Setup | None = setup
    if relief.backups or relief.by_bytes:
        changed = _remade(setup, wanted, graph, relief)
    if changed is None:
        return None
    if relief.gapless:
        without = [replace(client.program, gap_ns=0) for client in changed.clients]
        pairs = zip(changed.clients, without, strict=True)
        changed = replace(changed, clients=tuple(replace(client, program=program) for client, program in pairs))
    cluster, costs, left = relieve(changed.cluster, changed.costs, wanted.disturbances, relief)
    inputs = faster(changed.inputs, relief.inputs, FASTER)
    return changed.run(steps if relief.without else changed.short(steps), left, cluster, costs, inputs=inputs)


def _remade(setup: _Setup, wanted: TrainingRequest, graph: Graph, relief: Relief) -> _Setup | None:
    """The setup with other programs; None if the graph fixes what would change, or nothing changes."""
    if relief.backups:
        fewer = _with_backups(setup.regime, wanted, graph, relief.backups)
        if fewer is None:
            return None
        wanted = replace(wanted, regime=fewer)
    if relief.by_bytes:
        wanted = replace(wanted, ps_strategy="bytes")
    request = replace(setup.request, training=wanted)
    programs, _ = make_programs(request, wanted, graph, setup.cluster)
    asked = [client.program.graph.requested for client in setup.clients[: len(programs)]]
    if not relief.backups and asked == [program.graph.requested for program in programs]:
        return None
    return _setup(request, setup.cluster, programs, price_each(request, programs, setup.cluster))


def _with_backups(known: Regime | None, wanted: TrainingRequest, graph: Graph, backups: int) -> Regime | None:
    """The regime with this many more backup workers; None if the graph fixes their number, or there are too few.

    The first tokens are the requested ones, else as many as the gradients of an update. If an update takes more
    gradients than there are workers, no worker can be a backup.
    """
    if known is None or known.aggregate is None or known.aggregate <= backups or sync_replicas(graph) is not None:
        return None
    if known.total is not None and known.aggregate > known.total:
        return None
    tokens = None if wanted.regime is None else wanted.regime.tokens
    return replace(known, aggregate=known.aggregate - backups, tokens=tokens)


def _scaling(
    request: Request,
    wanted: TrainingRequest,
    graph: Graph,
    cluster: Cluster,
    done: tuple[int, Training],
    say: Callable[[str], None],
) -> tuple[ScalingRow, ...]:
    """A row for each requested number of workers; `done` has the steps and the run with all workers."""
    steps, training = done

    def run(count: int) -> Training:
        say(f"training with {counted(count, 'worker')}")
        other = with_workers(request.cluster if isinstance(request.cluster, str) else None, cluster, count)
        if other.tasks == cluster.tasks:
            return training
        programs, _ = make_programs(request, wanted, graph, other)
        setup = _setup(request, other, programs, price_each(request, programs, other, described=cluster))
        return setup.run(steps, present(wanted.disturbances, other))

    return scale(wanted.workers, run)
