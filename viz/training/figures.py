"""What a training says in numbers and sentences, for the summary, the JSON and the report alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.cluster.client import short_task
from simulator.training.answers.answers import Answers
from simulator.training.training import WAITING
from simulator.units import show_bytes, show_figure, show_nanos
from simulator.wording import counted, some
from viz.training import caveats
from viz.training.trained import Trained

MOST_TASKS = 4  # named in the summary, those that wait most
MOST_NAMED = 3
LEAST_SHOWN = 0.001  # of an interval: a narrower one is said to be less
KINDS = ("computing", "handling", "sending", "waiting")  # columns of `Answers.shares`


def summary_lines(trained: Trained) -> list[str]:
    """The lines of the summary that tell of the training."""
    found = trained.answers
    lines = [
        f"training   {regime(trained)}, {crew(trained)}, {trained.replication}",
        f"  rate     {rate(trained)}",
        f"  step     {quantiles(trained)}",
        f"  waiting  {waiting(trained)}",
        *(f"  input    {said}" for said in inputs(trained)),
        f"  updates  {found.updates:,}, staleness {staleness(found)}; {dropped(found)}{lost(trained)}",
        f"  held by  {trained.bottleneck.sentence}",
    ]
    shared = memory(trained)
    if shared:
        lines.append(f"  memory   {shared}")
    late = late_sessions(trained)
    if late:
        lines.insert(1, f"  starts   {late}")
    if trained.wanted.filters:
        lines.insert(1, f"  device_filters of {filters(trained)}")
    if trained.wanted.disturbances:
        lines.insert(1, f"  disturbed by {'; '.join(one.text for one in trained.wanted.disturbances)}")
    return [*lines, *scaling_lines(trained), *(f"  note     {note}" for note in record(trained)["notes"])]


def regime(trained: Trained) -> str:
    """As it is written, with its defaults where somebody waits; "none" for steps that have no regime."""
    if trained.regime is None:
        return "none"
    alone = trained.regime.aggregate == trained.workers == 1
    return trained.regime.kind if alone else str(trained.regime)


def crew(trained: Trained) -> str:
    """How many train; one alone may have many copies of the model at work."""
    return counted(trained.workers, "worker" if trained.workers > 1 else "client")


def rate(trained: Trained) -> str:
    """Steps and examples per second, how sure that is, and what was left out as warm-up."""
    found = trained.answers
    if found.steps_per_s is None:
        return f"nothing takes time; {found.warm_up}"
    examples = "examples unknown" if found.examples_per_s is None else f"{show_figure(found.examples_per_s)} examples/s"
    wanted = trained.wanted.until_ci
    reached = "" if trained.narrow is not False else f"; not within the {wanted:.2%} that was asked for"
    return (
        f"{show_figure(found.steps_per_s)} steps/s{sure(found)}, {examples}; {found.warm_up}{reached}{_between(found)}"
    )


def sure(found: Answers) -> str:
    """How sure the rate is, to be said after it."""
    if found.cycle is not None:
        many = f"each {found.cycle.updates} updates repeat" if found.cycle.updates > 1 else "each update is alike"
        return f", deterministic ({many})"
    if found.half_width is None:
        return " (too short a run for an interval)"
    shown = f"{found.half_width:.1%}" if found.half_width >= LEAST_SHOWN else f"less than {LEAST_SHOWN:.1%}"
    return f" +- {shown}"


def _between(found: Answers) -> str:
    """What the rate would be without what came once; "": nothing did after the warm-up."""
    if found.between_upsets_per_s is None:
        return ""
    return f"; what comes once is in it, without that {show_figure(found.between_upsets_per_s)} steps/s"


def quantiles(trained: Trained) -> str:
    """Of the times of training steps."""
    times = trained.answers.step_ns
    return ", ".join(f"p{q} {show_nanos(times[q])}" for q in times) or "none ended"


def waiting(trained: Trained) -> str:
    """Who waits how much of the time, most first."""
    found, tasks = trained.answers, trained.training.tasks
    order = sorted(range(len(tasks)), key=lambda row: (-found.shares[row, WAITING], row))
    said = [f"{short_task(tasks[row])} {found.shares[row, WAITING]:.0%}" for row in order[:MOST_TASKS]]
    more = f", {counted(len(order) - MOST_TASKS, 'other')} less" if len(order) > MOST_TASKS else ""
    gates = f"; for tokens {found.gate_share:.0%} of a step" if found.gate_share else ""
    dry = f"; for input {found.input_share:.0%} of a step" if found.input_share else ""
    return f"{', '.join(said)}{more}{gates}{dry}"


def inputs(trained: Trained) -> Sequence[str]:
    """Where examples come from and how fast, once for inputs that are alike; what never runs dry is not there."""
    alike: dict[str, list[str]] = {}
    for one in trained.training.inputs:
        task = trained.training.devices[one.device].partition("/device:")[0]
        alike.setdefault(one.words, []).append(short_task(task))
    return [f"{said} (on {some(tasks, MOST_NAMED)})" for said, tasks in alike.items()]


def staleness(found: Answers) -> str:
    """How many updates others made between a gradient's reading and applying, in brief."""
    total = sum(found.staleness.values())
    if not any(found.staleness):
        return "0"
    mean = sum(late * count for late, count in found.staleness.items()) / total
    return f"{mean:.3g} on average, at most {max(found.staleness)}"


def dropped(found: Answers) -> str:
    """How many gradients came too late: each worker makes one per variable."""
    return f"{counted(found.dropped, 'gradient')} dropped" + (" (one per variable counts)" if found.dropped else "")


def lost(trained: Trained) -> str:
    """How many of the updates crashes of parameter servers took back; "": none."""
    taken = trained.training.lost_updates
    return f"; crashes took back {counted(taken, 'update')}" if taken else ""


def late_sessions(trained: Trained) -> str:
    """Whose session had to wait for which task; "": nobody's."""
    training = trained.training
    late: dict[tuple[int, int], list[str]] = {}
    for name, start, task in zip(
        training.clients, training.session_ns.tolist(), training.waited_for.tolist(), strict=True
    ):
        if start:
            late.setdefault((task, start), []).append(name)
    said = []
    for (task, start), names in sorted(late.items()):
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        who = ", ".join(names[:MOST_NAMED]) + more
        said.append(f"{who} after {show_nanos(start)}, waiting for {short_task(training.tasks[task])}")
    return "; ".join(said)


def filters(trained: Trained) -> str:
    """The device_filters that were given, by job; "": none."""
    return "; ".join(f"{one.job or 'sessions'}: {', '.join(one.texts)}" for one in trained.wanted.filters)


def memory_rows(trained: Trained) -> Sequence[tuple[int, int, int]]:
    """Device, bytes that are there all the time, bytes at most; of devices that clients share, the fullest first."""
    held = trained.memory
    rows = [(row, int(held.resident_bytes[row]), int(held.most_bytes[row])) for row in range(len(held.clients))]
    return sorted((row for row in rows if held.clients[row[0]] > 1), key=lambda row: (-row[2], row[0]))


def memory(trained: Trained) -> str:
    """Bounds for the shared device that may hold most; "": no device is shared."""
    rows = memory_rows(trained)
    if not rows:
        return ""
    device, always, most = rows[0]
    task, _, place = trained.training.devices[device].partition("/device:")
    who = counted(int(trained.memory.clients[device]), "client")
    return (
        f"{short_task(task)}/{place} holds {show_bytes(always)} all the time and never more than {show_bytes(most)}, "
        f"which is all that a step of each of {who} ever holds there"
    )


def scaling_lines(trained: Trained) -> list[str]:
    """A line for each number of workers that was compared."""
    return [
        f"  {row.workers:>4} worker{'s' if row.workers > 1 else ' '}  {_figure(row.steps_per_s)} steps/s, "
        f"{_figure(row.examples_per_s)} examples/s, efficiency "
        f"{'unknown' if row.efficiency is None else f'{row.efficiency:.0%}'}"
        + (f", busiest link {row.link} {row.link_share:.0%}" if row.link else "")
        for row in trained.scaling
    ]


def _figure(value: float | None) -> str:
    return "?" if value is None else show_figure(value)


def record(trained: Trained) -> Mapping[str, Any]:
    """The object `training` of --json, as docs/json.md describes it. Any: JSON."""
    training, found = trained.training, trained.answers
    tasks = [short_task(task) for task in training.tasks]
    return {
        "regime": regime(trained),
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
        "step_ns": {f"p{q}": nanos for q, nanos in found.step_ns.items()},
        "staleness": {str(late): count for late, count in found.staleness.items()},
        "dropped_gradients": found.dropped,
        "lost_updates": training.lost_updates,
        "waiting_share": {task: float(found.shares[row, WAITING]) for row, task in enumerate(tasks)},
        "tasks": {
            task: dict(zip(KINDS, found.spent.task_ns[row].tolist(), strict=True)) for row, task in enumerate(tasks)
        },
        "gate_share": found.gate_share,
        "input_share": found.input_share,
        "inputs": _inputs(trained),
        "links": {
            name: {"bytes": int(found.spent.link_bytes[row]), "busy_share": float(found.link_share[row])}
            for row, name in enumerate(training.links)
        },
        "sessions": _sessions(trained),
        "memory": {
            training.devices[row]: {"resident_bytes": always, "at_most_bytes": most}
            for row, always, most in memory_rows(trained)
        },
        "warm_up": {"updates": found.cut, "until_ns": found.cut_ns, "settled": found.settled, "words": found.warm_up},
        "end_ns": training.end_ns,
        "disturbances": [one.text for one in trained.wanted.disturbances],
        "bottleneck": trained.bottleneck.sentence,
        "tried": [
            {"what": one.relief.bottleneck, "change": one.relief.change, "gain": one.gain}
            for one in trained.bottleneck.tried
        ],
        "scaling": [
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
        ],
        "notes": caveats.notes(trained),
    }


def _inputs(trained: Trained) -> list[Mapping[str, Any]]:
    """What may run dry. Any: JSON."""
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
    """When the session of each client starts, and for whom it waits. Any: JSON."""
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
