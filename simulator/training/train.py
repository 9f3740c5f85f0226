"""Run the clients of a training side by side, step after step, until there are enough updates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from simulator.columns import Ints, ints
from simulator.costs.estimates.collectives import over_links
from simulator.errors import SimvizError
from simulator.execution.choosing import TRAINING, choose
from simulator.execution.options import SimulationOptions
from simulator.training.clients import Client, CombinedTables, check_equal, combine_tables, starts
from simulator.training.control.layout import LoweredClients, lower_clients
from simulator.training.control.results import recorded_trace
from simulator.training.control.run import run
from simulator.training.control.workload import workload_of
from simulator.training.disturbances.background import background
from simulator.training.disturbances.disturbed import degraded, disturb, slowed_costs
from simulator.training.inputs.finding import inputs_of
from simulator.training.inputs.pipeline import InputPipelines, slowed_inputs
from simulator.training.programs.program import Program
from simulator.training.recognition.sync_replicas import regime_of
from simulator.training.regimes import IN_STEP, NO_RULE, ClockRule, Regime
from simulator.training.training import Training
from simulator.wording import counted, some

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.costs.table import CostTable
    from simulator.partitioning.partitions import Partitions
    from simulator.training.disturbances.disturbance import Disturbance

_MOST_STEPS = 2**31 - 1
_NAMED = 3  # predicates that a note names
_EVENT, _FLOW = 3, 170  # what an event of a training, and a flow, cost the plain loop; 1 is an event of a single step


def train(
    clients: Sequence[Client],
    cluster: Cluster,
    costs: Sequence[CostTable],
    *,
    regime: Regime | None,
    steps: int,
    options: SimulationOptions = SimulationOptions(),
    disturbances: Sequence[Disturbance] = (),
    record: int = 2,
    most: int = 0,
    extend: Callable[[Training, int], int] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    inputs: InputPipelines | None = None,
) -> Training:
    """Run the clients until each worker has taken `steps` steps on average, or there were as many common updates.

        programs = simulator.replicate(graph, cluster)  # or simulator.distributed, of a graph that names jobs
        costs = simulator.estimate_each(programs, cluster)
        clients = placement.clients(programs, cluster, costs)
        run = simulator.train(clients, cluster, costs, regime=simulator.read_regime("async"), steps=100)
        simulator.answers(run).steps_per_s

    `costs` has the table of each client's graph. `regime` says who waits for whom; None: as the graphs say. Each of the
    `disturbances` changes devices, links or tasks of `cluster` for this run. Time begins at 0, when all clients ask for
    their sessions, and ends with the last update that was asked for. It is in whole nanoseconds. A client begins its
    next step when the one before it has ended and the regime allows it.

    `inputs` are what the clients take their examples from, and how fast these are (`inputs_of`); None: as estimated.

    `options` are those of `simulate`, ties included. By "auto" ops of several clients run first come, first served; by
    "priority" those of all clients are compared. The seed is also that of the noise. The same call gives the same
    result, to the nanosecond. `record` is how many steps of each client, the first ones, stand op by op in
    `Training.trace`.

    When these steps are taken, `extend` gets the training so far and returns how many steps there are to be, up to
    `most`. The run goes on as if it had been asked for them at first, and ends when there are to be no more.
    `on_progress` gets now and then the number of updates that are made, and of those to be made.

    Raises what `simulate` raises. Raises SimvizError and GraphError for a regime that the clients contradict. Raises
    ClusterError for a disturbance of what the cluster lacks, and DeadlockError where clients wait for ever.
    """
    check_equal(clients, costs)
    options = options.for_sessions(len(clients))
    if not 0 < steps <= _MOST_STEPS or not 0 <= most <= _MOST_STEPS or not 0 <= record <= _MOST_STEPS:
        raise SimvizError(f"steps are from 1, most and record from 0 to {_MOST_STEPS:,}; give such numbers.")
    inputs = inputs_of(clients, cluster, costs) if inputs is None else inputs
    disturbed = disturb(disturbances, cluster)
    priced = [slowed_costs(one, disturbed.slower) for one in _over_links(clients, costs, disturbances, cluster)]
    cluster = disturbed.cluster
    others = background(disturbed)
    clients, priced = (*clients, *others.clients), [*priced, *others.costs]
    programs = [client.program for client in clients]
    combined = combine_tables(clients, cluster, priced, options)
    regime = regime_of(regime, programs)
    workload = workload_of(
        clients,
        combined,
        starts(programs, cluster, disturbed.up_ns),
        disturbed,
        steps=max(steps, most),
        tokens=0 if regime is None else regime.tokens or 0,
        clock_rule=_clock_rule(regime, programs),
        inputs=slowed_inputs(inputs, cluster, disturbed.slower),
        seed=options.seed,
    )
    priority = None if options.order == "fifo" else _priority(clients, combined)
    given = lower_clients(combined, priority, options)
    each = workload.limit // max(steps, most)

    def more(training: Training, limit: int) -> int:
        assert extend is not None
        return each * min(most, extend(training, limit // each))

    go = partial(
        run,
        workload,
        given,
        record=record,
        limit=each * steps,
        extend=None if extend is None else more,
        on_progress=on_progress,
    )
    found, engine = None, "compiled"
    if choose(options.engine, (1 + 3 * (most > steps)) * steps * _effort(given), TRAINING):
        found = go(compiled=True)
    if found is None:  # a deadlock, or times that the compiled loop can't count
        found, engine = go(), "python"
        assert found is not None
    training, recorded = found
    how = {"order": options.order_for(priority), "contention": options.contention, "engine": engine}
    pieces = tuple(client.partitions for client in clients)
    return replace(
        training,
        regime=str(regime or "none"),
        trace=recorded_trace(training, recorded, clients, given, how),
        partitions=pieces,
        inputs=inputs.pipelines,
        notes=(*workload.notes, *inputs.notes, *others.notes, *_notes(pieces, options)),
        drawn=options.drawn,
    )


def _over_links(
    clients: Sequence[Client], costs: Sequence[CostTable], disturbances: Sequence[Disturbance], cluster: Cluster
) -> Sequence[CostTable]:
    """The costs of the clients where links are degraded: what devices exchange without an edge takes longer."""
    over = degraded(disturbances, cluster)
    if over is cluster:
        return costs
    made: dict[tuple[int, int], CostTable] = {}
    for client, one in zip(clients, costs, strict=True):  # workers that are alike share both
        key = id(client.program.graph), id(one)
        made[key] = made.get(key) or over_links(one, client.program.graph, cluster, over)
    return [made[id(client.program.graph), id(one)] for client, one in zip(clients, costs, strict=True)]


def _clock_rule(regime: Regime | None, programs: Sequence[Program]) -> ClockRule:
    """Workers that collectives join take each step together; others wait as the regime says."""
    workers = [program for program in programs if program.role == "worker"]
    if len(workers) > 1 and workers[0].joined > 1:
        return IN_STEP
    return NO_RULE if regime is None else regime.clock_rule


def _effort(given: LoweredClients) -> int:
    """The cost of a step of each client in the plain loop, in events of a single step.

    A flow that begins or ends has it find the rates of all others: for both 0.4 ms with 16 workers and 8 ps tasks.
    """
    events = len(given.combined.tables) + len(given.lowered.transfers)
    return _EVENT * events + _FLOW * int(given.on_shared.sum())


def _notes(pieces: Sequence[Partitions], options: SimulationOptions) -> tuple[str, ...]:
    """Assumptions about these pieces, one of each client."""
    said = list[str]()
    if options.drawn:
        said.append(
            f"Predicates given as probabilities are drawn once, for all steps of all clients (seed {options.seed}): "
            f"{some(options.drawn, _NAMED)}. All rates are those of this draw; another --seed may draw other ways."
        )
    if unknown := sum(int((one.nbytes < 0).sum()) for one in pieces):
        said.append(f"{counted(unknown, 'transfer')} of unknown size in a step of all clients, counted as 0 bytes.")
    return tuple(said)


def _priority(clients: Sequence[Client], combined: CombinedTables) -> Ints | None:
    """[n] that of each op; None where no client has any, and last of all where only this one has none."""
    if all(client.partitions.priority is None for client in clients):
        return None
    parts = []
    for c, client in enumerate(clients):
        node = combined.tables.node[combined.op_ptr[c] : combined.op_ptr[c + 1]]
        own = client.partitions.priority
        parts.append(np.full(len(node), np.iinfo(np.int64).max) if own is None else own[node])
    return ints(np.concatenate(parts))
