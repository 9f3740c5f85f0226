"""The summary: ten lines that say how long a step takes, why, and what was assumed."""

from __future__ import annotations

from collections import Counter

import numpy as np

from simulator.execution.simulate import unsized_transfers
from simulator.units import show_bytes, show_nanos
from simulator.wording import counted, printable, some
from viz import checked, holding, tables
from viz.record import counts
from viz.scene import Scene
from viz.training.figures import summary_lines
from viz.training.trained import Trained

MOST_DEVICES = 8  # lines for devices; the busiest when there are more
MOST_NOTES = 8


def summarise(scene: Scene) -> str:
    """The summary as plain text, one fact per line, without a final newline."""
    lines = [_refused(scene), _step(scene), _cluster(scene), _algorithm(scene), _simulation(scene), _time(scene)]
    lines += [
        *_devices(scene),
        _memory(scene),
        _late(scene),
        _moved(scene),
        _critical(scene),
        _pinned(scene),
        *(summary_lines(scene.training) if scene.training is not None else ()),
        *_counted(scene),
        *_check(scene),
    ]
    return "\n".join(printable(line) for line in lines if line)


def _refused(scene: Scene) -> str:
    """What is fetched and dead whatever is chosen, said first; "": nothing is."""
    dead = scene.trace.dead_fetches
    return f"refused    TensorFlow refuses this step, whose fetches {some(dead, 3)} are dead" if dead else ""


def _end(name: str, most: int = 56) -> str:
    """The end of a long name, where the op is."""
    return name if len(name) <= most else "..." + name[3 - most :]


def _step(scene: Scene) -> str:
    runs = int(np.count_nonzero(scene.step.runs))
    fetched = f"; fetches {some(scene.step.fetches, 3)}" if scene.step.fetches else ""
    fed = f"; feeds {some(scene.step.feeds, 3)}" if scene.step.feeds else ""
    what = f"{runs} of {len(scene.graph)} nodes run in a step{fed}{fetched}"
    rule = scene.step.rule if scene.training is None else f"what {_client(scene.training)} runs"
    return f"graph      {scene.title}: {what} ({rule})"


def _client(training: Trained) -> str:
    return training.clients[0].program.name


def _cluster(scene: Scene) -> str:
    name, notes = scene.cluster.name, scene.cluster.notes
    # where no cluster was given, the first note names it and says why
    return f"cluster    {'; '.join(notes)}" if notes and name in notes[0] else f"cluster    {name}: {'; '.join(notes)}"


def _algorithm(scene: Scene) -> str:
    asked, used = scene.assignment.asked, scene.assignment.used
    instead = "" if asked == used else f"; {used} was better and is shown"
    return f"placement  {asked}{instead}"


def _simulation(scene: Scene) -> str:
    how = tables.simulation(scene)
    own = Counter(contention for _, contention in sorted(how.links.items()))
    but = "".join(f", but {contention} on {counted(links, 'link')}" for contention, links in own.items())
    tasks = f", protocol {how.protocol}" if len(scene.cluster.tasks) > 1 else ""
    return f"simulated  order {how.order}, contention {how.contention}{but}{tasks}, engine {how.engine}"


def _time(scene: Scene) -> str:
    ratio = scene.trace.makespan / scene.lower_bound_ns if scene.lower_bound_ns else 1.0
    bound = f"{ratio:.2f} x the lower bound of {show_nanos(scene.lower_bound_ns)}"
    whose = (
        ""
        if scene.training is None
        else f"; this and all up to the training is one step of {_client(scene.training)} alone"
    )
    kept = counts(scene)["kept_calls"]
    without = f"; without the bodies of {counted(kept, 'call')}, single nodes here" if kept else ""
    return f"makespan   {show_nanos(scene.trace.makespan)}{without}, {bound}{whose}"


def _devices(scene: Scene) -> list[str]:
    """A line for each device that runs something or holds something, the busiest when there are many."""
    cluster = scene.cluster
    used = [row for row in tables.devices(scene) if row.busy_ns or row.peak_bytes]
    shown = sorted(used, key=lambda row: (-row.busy_ns, row.device))[:MOST_DEVICES]
    width = max((len(cluster.devices[row.device].short) for row in shown), default=0)
    lines = []
    for row in sorted(shown, key=lambda row: row.device):
        over = "  OUT OF MEMORY" if row.peak_bytes > row.capacity_bytes else ""
        memory = f"peak {show_bytes(row.peak_bytes)} of {show_bytes(row.capacity_bytes)}{over}"
        lines.append(f"  {cluster.devices[row.device].short:<{width}}  busy {row.busy_share:6.1%}  {memory}")
    if len(used) > len(shown):
        lines.append(f"  and {len(used) - len(shown)} more that are less busy")
    if len(used) < len(cluster):
        lines.append(f"  {len(cluster) - len(used)} of {len(cluster)} devices run nothing")
    return lines


def _memory(scene: Scene) -> str:
    """What is alive at its peak on the device that is fullest, by the share of its memory."""
    capacity = [device.memory_bytes for device in scene.cluster.devices]
    rows = holding.peaks(scene, 2)
    if not rows:
        return ""
    row = max(rows, key=lambda row: (row.peak_bytes / max(capacity[row.device], 1), -row.device))
    since = f"peaks after {show_nanos(row.time_ns)} by {_end(row.cause)}" if row.cause else "holds what is resident"
    kinds = ", ".join(f"{kind} {show_bytes(held)}" for kind, held in row.kinds.items())
    largest = ", ".join(f"{_end(one.what)} ({one.kind}, {show_bytes(one.nbytes)})" for one in row.live)
    return f"memory     {scene.cluster.devices[row.device].short} {since}: {kinds}; largest: {largest}"


def _late(scene: Scene) -> str:
    """What delaying Recvs has changed: the step, copies, and the peak that changed most."""
    row = holding.late(scene)
    if row is None:
        return ""
    before, after = row.makespan_ns
    time = show_nanos(after) if before == after else f"{show_nanos(after)} instead of {show_nanos(before)}"
    share = 1 - row.held_byte_ns[1] / row.held_byte_ns[0] if row.held_byte_ns[0] else 0.0
    said = f"{row.delayed} of {counted(row.transfers, 'Recv')} wait, copies are held {abs(share):.0%} "
    said += f"{'less' if share >= 0 else 'more'}; makespan {time}"
    device = max(range(len(row.peak_bytes)), key=lambda at: abs(row.peak_bytes[at][0] - row.peak_bytes[at][1]))
    old, new = row.peak_bytes[device]
    short = scene.cluster.devices[device].short
    peak = f"peak of {short} {show_bytes(new)} instead of {show_bytes(old)}" if old != new else "no peak changes"
    return f"late       {row.rule}: {said}, {peak}"


def _moved(scene: Scene) -> str:
    count = len(scene.trace.transfer)
    if not count:
        return "moved      nothing crosses devices"
    shown = ", ".join(
        f"{_end(tables.tagged(tables.tensor_label(scene, row.tensor), row.iteration))} "
        f"({show_bytes(max(0, row.nbytes))}, {show_nanos(row.took_ns)})"
        for row in tables.longest_transfers(scene, 3)
    )
    return f"moved      {show_bytes(tables.moved_bytes(scene))} in {counted(count, 'transfer')}; longest: {shown}"


def _critical(scene: Scene) -> str:
    """Where the time on the critical path goes, by category, with the wires apart."""
    whole = scene.trace.makespan
    shares = [share for share in tables.critical_shares(scene)[:4] if share.nanos * 200 > whole]  # 0 % is not shown
    if not shares:
        return ""
    parts = [f"{share.what} {share.nanos / whole:.0%}" for share in shares]
    return f"critical   {', '.join(parts)} of the makespan on the critical path"


def _pinned(scene: Scene) -> str:
    """What device strings cost that hold ops on a CPU."""
    return f"pinned     {scene.pinned}" if scene.pinned is not None and scene.pinned.told else ""


def _counted(scene: Scene) -> list[str]:
    told = {
        "fallback_costs": ("node", "priced by the fallback"),
        "unknown_shapes": ("tensor", "of unknown size"),
        "unknown_ops": ("node", "of an unknown op"),
        "relaxed_devices": ("node", "placed elsewhere than asked for"),
        "overruled_devices": ("node", "placed with a variable, not by the device string"),
    }
    found = [
        f"{counted(number, told[key][0])} {told[key][1]}"
        for key, number in counts(scene).items()
        if number and key in told
    ]
    lines = [f"counted    {', '.join(found)}"] if found else []
    said = [*scene.graph.notes, *tables.result_notes(scene)]  # the cluster's stand in its own line
    if scene.training is not None:  # which says it of all clients
        said = [note for note in said if note not in unsized_transfers(scene.partitions)]
    lines += [f"note       {note}" for note in said[:MOST_NOTES]]
    if len(said) > MOST_NOTES:
        lines.append(f"note       and {len(said) - MOST_NOTES} more in the report")
    return lines


def _check(scene: Scene) -> list[str]:
    if scene.check is None:
        return []
    check = scene.check
    who = f"TensorFlow {check['tensorflow']} ({check['oracle']})" if check["mode"] != "log" else check["log"]
    lines = [f"check      {who}, {check['mode']}: {checked.question(check)}"]
    lines += [f"  {sentence}" for sentence in checked.apart(scene)]
    if check.get("refused"):
        foreseen = ", as predicted" if check.get("foreseen") else ""
        return [*lines, f"  refused{foreseen}: {checked.refusal(check)}"]
    lines += [f"  {one}" for one in checked.agreements(check)]
    lines += [f"  {note}" for note in checked.notes(scene)]
    for row in check["differences"][:5]:
        lines.append(f"  {row['node']}: ours {row['ours']}, TensorFlow's {row['theirs']} ({row['rule']})")
    if len(check["differences"]) > 5:
        lines.append(f"  and {len(check['differences']) - 5} more differences in the report and in --json")
    lines += [f"  law broken: {law}" for law in check.get("laws", ())]
    return lines
