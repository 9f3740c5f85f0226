"""The scene as one JSON object, for machines: format 1, as `docs/json.md` describes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from simulator import __version__
from simulator.cluster.master import short_task
from simulator.training.training import WAITING
from viz import figures, training_figures, what_if
from viz.difference import trainings
from viz.difference.difference import as_json, difference
from viz.difference.scene_outline import link_bytes, path_parts
from viz.difference.step_facts import step_facts
from viz.difference.trainings import TrainingDifference, training_difference
from viz.scene import Scene, Trained

FORMAT = 1
_OBSERVED = ("tensorflow", "machine", "tensors", "feeds", "synthetic", "step_ns", "traced_ns")


def record(scene: Scene) -> Mapping[str, Any]:
    """The JSON object of a scene; every figure is an integer in the unit of its name. Any: JSON."""
    graph, step, cluster = scene.graph, scene.step, scene.cluster
    unsized = scene.unsized
    return {
        "format": FORMAT,
        "simviz": __version__,
        "graph": {
            "name": scene.title,
            "nodes": len(graph),
            "edges": len(graph.edge_src),
            "producer": graph.producer,
            "notes": list(graph.notes),
        },
        "step": {
            "rule": step.rule,
            "feeds": list(step.feeds),
            "fed_shapes": figures.fed_shapes(scene),
            "fetches": list(step.fetches),
            "nodes": int(np.count_nonzero(step.runs)),
            "of": len(graph),
            **step_facts(scene),
        },
        "cluster": {
            "name": cluster.name,
            "devices": list(cluster.device_names),
            "kinds": [device.kind for device in cluster.devices],
            "notes": list(cluster.notes),
        },
        "algorithm": {"asked": scene.assignment.asked, "used": scene.assignment.used},
        "search": _search(scene),
        "simulation": asdict(figures.simulation(scene)),
        "placement": dict(zip(graph.names, scene.assignment.placed_on, strict=True)),
        "transfers": transfers(scene),
        "makespan_ns": int(scene.trace.makespan),
        "makespan_in_tensorflow_order_ns": scene.tensorflow_order_ns,
        "makespan_interval_ns": figures.by_profile_ns(scene),
        "makespan_is_lower_bound": unsized.tensors > 0,
        **unsized.facts(),
        "lower_bound_ns": scene.bound.ns,
        "lower_bound_by": scene.bound.why,
        "critical": [asdict(part) for part in path_parts(scene)],
        "links": link_bytes(scene),
        "devices": devices(scene),
        "out_of_memory": _out_of_memory(scene),
        "recv_scheduling": _late(scene),
        "enforced_order": _enforced(scene),
        "pinned": _pinned(scene),
        "observed": _observed(scene),
        "unobserved": scene.unobserved,
        "refined": None if scene.refined is None else scene.refined.facts(),
        "pipelined": None if scene.pipelined is None else scene.pipelined.facts(),
        "training": None if scene.training is None else training_record(scene.training, training_difference(scene)),
        "counts": figures.counts(scene),
        "notes": figures.result_notes(scene),
        "check": scene.check,
        "what_if": None if scene.what_if is None else what_if.as_json(scene.what_if),
        "against": None if (found := difference(scene)) is None else as_json(found),
    }


def _observed(scene: Scene) -> Mapping[str, Any] | None:
    """The step that really ran. Any: JSON."""
    step = scene.observed
    return None if step is None else {"nodes": len(step.nodes)} | {key: getattr(step, key) for key in _OBSERVED}


def _pinned(scene: Scene) -> Mapping[str, Any] | None:
    """Ops that device strings hold on CPUs. Any: JSON."""
    held = scene.pinned
    if held is None:
        return None
    return {
        "critical_ns": dict(held.shares),
        "devices": list(held.devices),
        "device_strings": held.strings,
        "makespan_ns": {"with": held.makespan_ns, "without": held.without_ns},
    }


def transfers(scene: Scene) -> list[Mapping[str, Any]]:
    """The transfers between devices in order of (start, row). Any: JSON."""
    cut, trace = figures.transfers(scene), scene.trace
    starts, crossing, devices = trace.moments.sent_ns, trace.moments.crossing_ns, scene.partitions.devices
    return [
        {
            "tensor": figures.tensor_label(scene, int(cut.tensor[row])),
            "from": devices[int(cut.source[row])],
            "to": devices[int(cut.target[row])],
            "bytes": max(0, int(cut.nbytes[row])),
            "iteration": list(trace.iterations[trace.transfers.iteration[row]]),
            "asked_ns": int(trace.moments.asked_ns[row]),
            "packed_ns": int(trace.moments.packed_ns[row]),
            "start_ns": int(starts[row]),
            "crossing_ns": int(crossing[row]),
            "wire_end_ns": int(trace.moments.through_ns[row]),
            "end_ns": int(trace.moments.arrived_ns[row]),
            "unpacked_ns": int(trace.moments.unpacked_ns[row]),
        }
        for row in np.argsort(starts, kind="stable").tolist()
    ]


def devices(scene: Scene) -> Mapping[str, Mapping[str, Any]]:
    """Busy time and memory of each device. Any: JSON."""
    peaks = {row.device: row for row in figures.peaks(scene)}
    return {
        scene.cluster.devices[row.device].name: {
            "busy_ns": row.busy_ns,
            "peak_bytes": row.peak_bytes,
            "capacity_bytes": row.capacity_bytes,
            "at_peak": _at_peak(peaks[row.device]) if row.device in peaks else None,
        }
        for row in figures.devices(scene)
    }


def _at_peak(row: figures.PeakRow) -> Mapping[str, Any]:
    return {
        "time_ns": row.time_ns,
        "cause": row.cause or None,
        "cause_bytes": row.cause_bytes,
        "kinds": dict(row.kinds),
        "live": [{"what": one.what, "kind": one.kind, "bytes": one.nbytes} for one in row.live],
        "rest": row.rest,
        "rest_bytes": row.rest_bytes,
    }


def _search(scene: Scene) -> dict[str, Any] | None:
    if (record := scene.assignment.search) is None:
        return None
    return {
        "judged": record.judged,
        "seed": record.seed,
        "budget": record.effort,
        "groups": record.groups,
        "algorithms": dict(record.listed),
        "left_out": list(record.left_out),
        "better": [{"judged": judged, "by": how, "makespan_ns": ns} for judged, how, ns in record.better],
        "saved_ns": record.gains,
        "cycles": record.cycles,
        "accepted": record.accepted,
        "hopeless": record.hopeless,
    }


def _out_of_memory(scene: Scene) -> Mapping[str, Any] | None:
    full = scene.out_of_memory
    if full is None:
        return None
    return {
        "device": full.device,
        "time_ns": full.time_ns,
        "needed_bytes": full.needed_bytes,
        "free_bytes": full.free_bytes,
        "live": [{"what": what, "bytes": nbytes} for what, nbytes in full.live],
        "message": str(full),
    }


def _late(scene: Scene) -> Mapping[str, Any] | None:
    row = figures.late(scene)
    if row is None:
        return None
    names = scene.cluster.device_names

    def pair(values: tuple[int, int]) -> Mapping[str, int]:
        return dict(zip(("without", "with"), values, strict=True))

    return {
        "rule": row.rule,
        "delayed": row.delayed,
        "transfers": row.transfers,
        "makespan_ns": pair(row.makespan_ns),
        "held_byte_ns": pair(row.held_byte_ns),
        "peak_bytes": {name: pair(values) for name, values in zip(names, row.peak_bytes, strict=True)},
    }


def _enforced(scene: Scene) -> Mapping[str, Any] | None:
    found, names = scene.enforced, scene.graph.names
    if found is None:
        return None
    return {
        "control_edges": [[names[first], names[then]] for first, then in found.edges],
        "makespan_without_ns": found.without_ns,
        "makespan_planned_ns": found.planned_ns,
    }


def training_record(trained: Trained, against: TrainingDifference | None = None) -> Mapping[str, Any]:
    """The JSON object of a training, with what differs from another one. Any: JSON."""
    training, found = trained.training, trained.answers
    tasks = [short_task(task) for task in training.tasks]
    return {
        "regime": training_figures.regime(trained),
        "replication": trained.replication,
        "workers": trained.workers,
        "clients": list(training.clients),
        "steps": int(training.is_worker[training.step_client].sum()),
        "updates": found.updates,
        "steps_per_s": found.steps_per_s,
        "steps_per_s_ci95": found.half_width,
        "cycle": None if found.cycle is None else {"updates": found.cycle.updates, "ns": found.cycle.ns},
        "steps_per_s_between_upsets": found.between_upsets_per_s,
        "examples_per_s": found.examples_per_s,
        "rates_are_upper_bounds": trained.unsized.tensors > 0,
        **trained.unsized.facts(),
        "step_ns": {f"p{q}": nanos for q, nanos in found.step_ns.items()},
        "staleness": {str(late): count for late, count in found.staleness.items()},
        "dropped_gradients": found.dropped,
        "lost_updates": training.lost_updates,
        "waiting_share": {task: float(found.shares[row, WAITING]) for row, task in enumerate(tasks)},
        "tasks": {
            task: dict(zip(training_figures.KINDS, found.usage.task_ns[row].tolist(), strict=True))
            for row, task in enumerate(tasks)
        },
        "gate_share": found.gate_share,
        "input_share": found.input_share,
        "inputs": _inputs(trained),
        "links": {
            name: {"bytes": int(found.usage.link_bytes[row]), "busy_share": float(found.link_share[row])}
            for row, name in enumerate(training.links)
        },
        "sessions": _sessions(trained),
        "memory": {
            training.devices[row]: {"resident_bytes": always, "at_most_bytes": most}
            for row, always, most in training_figures.memory_rows(trained)
        },
        "warm_up": {"updates": found.cut, "until_ns": found.cut_ns, "settled": found.settled, "words": found.warm_up},
        "end_ns": training.end_ns,
        "disturbances": [one.text for one in trained.wanted.disturbances],
        "bottleneck": training_figures.held(trained),
        "tried": [
            {"what": one.relief.bottleneck, "change": one.relief.change, "gain": one.gain}
            for one in trained.bottleneck.tried
        ],
        "scaling": _scaling(trained),
        "drawn_once": list(training.drawn),
        "notes": training_figures.notes(trained),
        "against": None if against is None else trainings.as_json(against),
    }


def _scaling(trained: Trained) -> list[Mapping[str, Any]]:
    """A row for each number of workers. Any: JSON."""
    return [
        {
            "workers": row.workers,
            "steps_per_s": row.steps_per_s,
            "steps_per_s_ci95": row.half_width,
            "examples_per_s": row.examples_per_s,
            "efficiency": row.efficiency,
            "busiest_link": row.link or None,
            "link_share": row.link_share,
        }
        for row in trained.scaling
    ]


def _inputs(trained: Trained) -> list[Mapping[str, Any]]:
    """The inputs that may run dry. Any: JSON."""
    training = trained.training
    return [
        {
            "name": one.key.name,
            "kind": one.key.family,
            "device": training.devices[one.device],
            "elements_per_s": one.producer.elements_per_s,
            "examples_per_s": one.producer.elements_per_s * one.examples if one.examples else None,
            "given": one.given,
            "threads": one.producer.threads,
            "capacity": one.capacity if one.capacity >= 0 else None,
            "work_ns": dict(one.producer.work or {}),
            "waited_ns": waited,
        }
        for one, waited in zip(training.inputs, training.input_ns.tolist(), strict=True)
    ]


def _sessions(trained: Trained) -> list[Mapping[str, Any]]:
    """The start of each client's session, and the task that it waits for. Any: JSON."""
    training = trained.training
    columns = (training.clients, training.session_ns.tolist(), training.waited_for.tolist(), trained.clients)
    return [
        {
            "client": name,
            "start_ns": start,
            "waits_for": None if task < 0 else training.tasks[task],
            "device_filters": list(client.program.filters),
        }
        for name, start, task, client in zip(*columns, strict=True)
    ]


def to_json(scene: Scene) -> str:
    """The object as deterministic text with a final newline."""
    return json.dumps(record(scene), ensure_ascii=False, indent=1) + "\n"
