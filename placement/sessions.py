"""Clients of a training: each program is placed and cut as by its own session, once for all identical ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from placement.effort import DEFAULT_EFFORT, Effort
from placement.placing import place
from placement.plan import Algorithm
from simulator.assignment import Assignment
from simulator.cluster.cluster import Cluster
from simulator.cluster.master import connected, rows_by_task
from simulator.columns import Ids, ids
from simulator.costs.table import CostTable
from simulator.errors import InfeasibleError
from simulator.execution.loops import SharedChoices
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import prepare
from simulator.execution.receiving import receive_late
from simulator.execution.simulate import simulate
from simulator.graph.step import choose_step
from simulator.partitioning.cut import partition
from simulator.partitioning.partitions import Partitions
from simulator.training.clients import Client, check_equal
from simulator.training.programs.filters import seen
from simulator.training.programs.program import Program, between_steps_ns


def clients(
    programs: Sequence[Program],
    cluster: Cluster,
    costs: Sequence[CostTable],
    *,
    algorithm: str | Algorithm = "search",
    soft: bool = True,
    options: SimulationOptions = SimulationOptions(),
    flavour: str = "auto",
    effort: Effort = DEFAULT_EFFORT,
    recv_scheduling: str | None = None,
    first: tuple[Assignment, Partitions] | None = None,
) -> tuple[Client, ...]:
    """Place and cut the step of each program; `costs` has the table of each program's graph.

    The session of a program is at its own task. So its feeds and fetches pass through that task's CPU, and the placer
    prefers that task's devices. A program without a time between two steps gets the usual one. Programs with one graph
    at one task are steps of one session, which places the graph once.

    The keywords are those of `place`, `partition` and `prepare`, but for `recv_scheduling`: the rule by which each
    session delays its Recvs, "whitepaper" or "tensorflow". `first` is their result for the first program, with its
    Recvs delayed, where the caller has it already. Each program uses the trips and branches that it has. Raises as
    these functions do, and InfeasibleError for a node on a device that the device_filters of its session hide.
    """
    check_equal(programs, costs)
    options = options.for_sessions(len(programs))
    placed: dict[tuple[int, str], Assignment] = {}
    made: list[Client] = []
    choices = SharedChoices(options)
    rows = rows_by_task(cluster)
    for row, (program, priced) in enumerate(zip(programs, costs, strict=True)):
        if program.like is not None:
            lead = made[program.like]
            there = elsewhere(cluster, rows[lead.program.task], program.task)
            made.append(Client(_with_gap(program, lead, cluster), lead.partitions, there))
            continue
        own = connected(cluster, program.task)
        session = (id(program.graph), program.task)
        if row == 0 and first is not None:
            placed[session], pieces = first
        else:
            step = choose_step(program.graph, feeds=program.feeds, fetches=program.fetches)
            if session not in placed:
                placed[session] = place(
                    program.graph,
                    own,
                    priced,
                    step=step,
                    algorithm=algorithm,
                    soft=soft,
                    flavour=flavour,
                    effort=effort,
                    prepared=choices.apply(partial(prepare, program.graph, step, own, priced)),
                )
            elif choices.unknown:  # updates have the placement of a worker, and branches of their own
                choices.apply(partial(prepare, program.graph, step, own, priced))
            pieces = partition(
                program.graph,
                placed[session],
                own,
                step=step,
                flavour=flavour,
                recv_scheduling=recv_scheduling == "tensorflow",
            )
            if recv_scheduling == "whitepaper":
                pieces = _received_late(pieces, own, priced, choices)
        _check_seen(program, pieces, cluster)
        made.append(Client(_with_gap(program, Client(program, pieces), cluster), pieces))
    if first is None:  # else who placed the first program has refused what it does not have
        choices.check()
    return tuple(made)


def _received_late(pieces: Partitions, own: Cluster, priced: CostTable, choices: SharedChoices) -> Partitions:
    """The pieces with Recvs delayed as far as it costs nothing in a step of that session alone."""
    return receive_late(pieces, own, lambda cut: choices.apply(partial(simulate, cut, own, priced))).partitions


def _with_gap(program: Program, lead: Client, cluster: Cluster) -> Program:
    """The program with the usual time between its steps, where it names none; `lead` has its pieces."""
    if program.gap_ns is not None:
        return program
    tasks = {cluster.devices[row].task for row in np.unique(lead.partitions.device).tolist()}
    return replace(program, gap_ns=between_steps_ns(len(tasks - {lead.program.task})))


def _check_seen(program: Program, pieces: Partitions, cluster: Cluster) -> None:
    tasks = seen(program, cluster)
    for row in np.unique(pieces.device).tolist():
        device = cluster.devices[row]
        if device.task not in tasks:
            node = pieces.graph.names[int(np.flatnonzero(pieces.device == row)[0])]
            raise InfeasibleError(
                f"device_filters={list(program.filters)} of {program.name} leave out {device.short}, where {node!r} is "
                "placed. Add a filter for it, or ask for another device.",
                node=node,
            )


def elsewhere(cluster: Cluster, rows: Sequence[int], task: str) -> Ids:
    """[D] each device, but for these, which are those of one task, the same ones of that task."""
    found = np.arange(len(cluster))
    for row in rows:
        found[row] = cluster.index[f"{task}/device:{cluster.devices[row].name.rpartition('/device:')[2]}"]
    return ids(found)
