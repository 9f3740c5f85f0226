"""The command's summary: ten lines of plain English, or with `verbose` every fact.

Both are for a step and for a training. A line of the ten has at most WIDTH characters, but for that of the makespan;
what is cut off ends in "...".
If there is more to say than ten lines hold, the facts of least importance are left out. The report has them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from simulator.assignment import SearchRecord
from simulator.execution.simulate import unsized_transfers
from simulator.units import show_bytes, show_figure, show_nanos, show_share
from simulator.wording import counted, ending, printable, some
from viz import agreement, figures, training_figures
from viz.difference.difference import NARROW, difference, headline
from viz.difference.trainings import sentences, training_difference
from viz.figures import LateRow, counts
from viz.formats.output import remark
from viz.scene import Scene, Trained

LINES, WIDTH = 10, 120
MOST_DEVICES = 8  # lines for devices; the busiest if there are more
MOST_NOTES = 8
REASONS = 5  # of a difference, among the ten lines
MOST_CHANGES = 8  # lines for nodes that moved, tensors that cross, links, and devices
_COUNTED = {
    "fallback_costs": ("node", "priced by the fallback"),
    "unknown_ops": ("node", "of an unknown op"),
    "relaxed_devices": ("node", "not on the requested device"),
    "overruled_devices": ("node", "placed with a variable, not by the device string"),
}


def summarise(scene: Scene, *, verbose: bool = False, written: Sequence[str] = ()) -> str:
    """The summary as plain text without a final newline; `written` are the paths of the files that were written."""
    if verbose:
        files = [f"wrote      {path}{remark(path, scene)}" for path in written]
        return "\n".join(printable(line) for line in (*_facts(scene), *files) if line)
    lines = [line for line in _lines(scene, written) if line.text]
    kept = sorted(lines, key=lambda line: line.rank)[:LINES]  # stable
    said = [printable(line.text) if line.whole else _clipped(printable(line.text)) for line in lines if line in kept]
    return "\n".join([*said, *([] if scene.what_if is None else map(printable, scene.what_if.lines()))])


def _clipped(text: str, width: int = WIDTH) -> str:
    """The text, or its first words and "..."."""
    return text if len(text) <= width else text[: width - 3].rpartition(" ")[0].rstrip(",;:") + " ..."


# ---- the ten lines


_WORTH_A_HINT = 0.02  # of the makespan: an order that is so much slower or quicker has a hint


class _Line(NamedTuple):
    rank: int  # the lower, the more important
    text: str  # "": nothing to say
    whole: bool = False  # it has no name of a graph, and is never cut


def _lines(scene: Scene, written: Sequence[str]) -> Iterator[_Line]:
    """The lines in the order in which they are printed."""
    trained = scene.training
    yield _Line(0, _refused_line(scene))
    if trained is not None:
        yield from _training_lines(scene, trained)
    yield _Line(3 if trained is None else 10, _step_line(scene))
    yield _Line(4 if trained is None else 10, _cluster_line(scene))
    yield _Line(1 if trained is None else 9, _makespan_line(scene), whole=True)
    yield _Line(2, scene.unsized.cure if trained is None else "")
    yield from _difference_lines(scene)
    yield _Line(2, "" if scene.refined is None else scene.refined.sentence())
    yield _Line(2, "" if scene.pipelined is None else f"Pipeline: {scene.pipelined.sentence()}.")
    yield _Line(6 if trained is None else 12, _search_line(scene))
    yield _Line(4, _order_line(scene))
    yield _Line(5 if trained is None else 12, _critical_line(scene))
    yield _Line(7 if trained is None else 13, _devices_line(scene))
    yield _Line(6 if trained is None else 11, _memory_line(scene))
    yield _Line(9 if trained is None else 14, _transfers_line(scene))
    yield _Line(8, _late_line(scene))
    yield _Line(8, _pinned_line(scene))
    yield _Line(2, _check_line(scene))
    yield _Line(6, _assumed_line(scene))
    yield from (_Line(20, f"Note: {note}") for note in _notes(scene))
    files = some([f"{ending(path, 72)}{remark(path, scene)}" for path in written], 3)
    yield _Line(2, f"Wrote {files}." if written else "")


def _refused_line(scene: Scene) -> str:
    dead = scene.trace.dead_fetches
    if dead:
        return f"TensorFlow refuses this step: the fetches {some(dead, 3)} are dead."
    return f"{scene.trace.endless[0]}." if scene.trace.endless else ""


def _step_line(scene: Scene) -> str:
    runs = int(np.count_nonzero(scene.step.runs))
    fetched = f"; fetches {some([ending(name, 24) for name in scene.step.fetches], 2)}" if scene.step.fetches else ""
    whose = "" if scene.training is None else f" of {_client(scene.training)}"
    return f"{ending(scene.title)}: {_of(runs, len(scene.graph), 'node')} in a step{whose}{fetched}."


def _dropped(count: int) -> str:
    return f"{counted(count, 'gradient')} dropped{' (one per variable counts)' if count else ''}"


def _of(running: int, whole: int, noun: str) -> str:
    """ "3 of 5 nodes run", "1 of 1 node runs"."""
    return f"{running:,} of {counted(whole, noun)} {'runs' if running == 1 else 'run'}"


def _cluster_line(scene: Scene) -> str:
    cluster = scene.cluster
    tasks = f"{counted(len(cluster.tasks), 'task')}, " if len(cluster.tasks) > 1 else ""
    return f"Cluster {ending(cluster.name)}: {tasks}{counted(len(cluster), 'device')}; {_placed_by(scene)}."


def _placed_by(scene: Scene) -> str:
    asked, used = scene.assignment.asked, scene.assignment.used
    return f"placed by {used}" if asked == used else f"placed by {used}, which beats {asked}"


def _makespan_line(scene: Scene) -> str:
    kept = counts(scene)["kept_calls"]
    calls = f", without the bodies of {counted(kept, 'call')}" if kept else ""
    whose = (
        "One step" if scene.training is None else f"One step of {_client(scene.training)} alone, {_placed_by(scene)},"
    )
    unsized = scene.unsized
    takes = f"{whose} takes {unsized.least}{show_nanos(scene.trace.makespan)}{_otherwise(scene)}{calls}"
    return f"{takes}: {unsized.words}." if unsized.tensors else f"{takes}, {_optimum(scene)}."


def _otherwise(scene: Scene) -> str:
    """From when to when by a profile, and how long in TensorFlow's order."""
    said, other = _by_profile(scene), figures.another_order_ns(scene)
    if other is not None:
        own, better = scene.trace.makespan, "enforced" if other > scene.trace.makespan else "tensorflow"
        hint = f"; see --order {better}" if abs(other - own) > own * _WORTH_A_HINT else ""
        said.append(f"{scene.unsized.least}{show_nanos(other)} in TensorFlow's order{hint}")
    return f" ({'; '.join(said)})" if said else ""


def _by_profile(scene: Scene) -> list[str]:
    """From when to when the step may take; nothing where its time is a lower bound."""
    found = figures.by_profile_ns(scene)
    return [] if found is None else [f"{show_nanos(found[0])} to {show_nanos(found[1])} by the profile"]


def _optimum(scene: Scene) -> str:
    """The distance that the makespan can have from the optimum, and its proof."""
    if members := figures.collectives(scene):
        return f"without the waits of {counted(members, 'member')} of collectives for each other"
    of, shown = scene.bounded, figures.at_most(scene)
    assert shown is not None
    if shown == 1:
        return f"the optimum{of}"
    return f"at most {shown:g} x the optimum{of} (bound: {scene.bound.why}, {show_nanos(scene.bound.ns)})"


def _difference_lines(scene: Scene) -> Iterator[_Line]:
    """The difference from the step that this one is compared with, and the largest reasons, which add up to it.

    Of trainings it says what differs between these.
    """
    if (trainings := training_difference(scene)) is not None:
        first, second = (ending(name, NARROW) for name in trainings.names)
        said = sentences(replace(trainings, names=(first, second)))
        yield from (_Line(0 if not row else 3, text) for row, text in enumerate(said))
    elif (found := difference(scene)) is not None:
        yield _Line(1, headline(found, narrow=True))
        yield from (_Line(1, f"  {part}.") for part in found.explanation(REASONS))


def _search_line(scene: Scene) -> str:
    """A search in one line: the best placement, and by how much and by which part it is quicker than the first."""
    record = scene.assignment.search
    if record is None or not record.better:
        return ""
    said = f"Searched {counted(record.judged, 'placement')}; "
    if len(record.better) == 1:
        return f"{said}the first is the best."
    last, gained, quicker = record.better[-1][0], record.gains, sum(record.gains.values())
    if not quicker:  # it lacks less memory
        return f"{said}no. {last:,} is the best."
    most = max(gained, key=lambda how: gained[how])
    share = "" if gained[most] == quicker else f"{show_nanos(gained[most])} of it "
    return f"{said}no. {last:,} is the best, {show_nanos(quicker)} quicker than the first, {share}by {most}."


def _gains(record: SearchRecord) -> list[str]:
    """The parts of a search that found something quicker, each with by how much."""
    return [f"{how} {show_nanos(ns)}" for how, ns in record.gains.items() if ns > 0]


def _order_line(scene: Scene) -> str:
    """The control edges that enforce an order, and what the step takes otherwise."""
    found = scene.enforced
    if found is None:
        return ""
    planned = f"{show_nanos(found.planned_ns)} if transfers had one, too"
    if not found.edges:
        return f"Order: TensorFlow's, as no control edges make the step shorter; {planned}."
    edges = counted(len(found.edges), "control edge")
    return f"Order: enforced by {edges}; {show_nanos(found.without_ns)} without, {planned}."


def _critical_line(scene: Scene) -> str:
    shares = _critical_shares(scene)
    return f"Critical path: {', '.join(shares)} of the time." if shares else ""


def _critical_shares(scene: Scene) -> list[str]:
    """The largest shares of the makespan on the critical path, without those of 0 %."""
    whole = scene.trace.makespan
    found = [share for share in figures.critical_shares(scene)[:4] if share.nanos * 200 > whole]
    return [f"{share.what} {show_share(share.nanos / whole)}" for share in found]


def _devices_line(scene: Scene) -> str:
    rows, devices = figures.devices(scene), scene.cluster.devices
    busiest = sorted((row for row in rows if row.busy_ns), key=lambda row: (-row.busy_ns, row.device))[:3]
    idle = sum(not (row.busy_ns or row.peak_bytes) for row in rows)
    said = ", ".join(f"{devices[row.device].short} {show_share(row.busy_share, 1)}" for row in busiest)
    rest = f"{_of(idle, len(rows), 'device')} nothing" if idle else ""
    return f"Busiest devices: {'; '.join(filter(None, (said, rest)))}." if said else ""


def _memory_line(scene: Scene) -> str:
    """The peak of the device that is fullest, by the share of its memory."""
    rows = [row for row in figures.devices(scene) if row.peak_bytes]
    if not rows:
        return ""
    row = max(rows, key=lambda row: row.fullness)  # the first of equals
    full = "Out of memory" if row.peak_bytes > row.capacity_bytes else "Fullest memory"
    unsized = scene.unsized
    held = f"{unsized.least_held or 'at most '}{show_bytes(row.peak_bytes)} of {show_bytes(row.capacity_bytes)}"
    peak = " at its peak" if unsized.least_held else ""
    return f"{full}: {scene.cluster.devices[row.device].short} holds {held}{peak}."


def _transfers_line(scene: Scene) -> str:
    count = len(scene.trace.transfers.row)
    if not count:
        return "No tensor moves between devices."
    (row,) = figures.longest_transfers(scene, 1)
    name = ending(figures.tagged(figures.tensor_label(scene, row.tensor), row.iteration), 40)
    longest = f"the longest, {name}, takes {show_nanos(row.took_ns)} for {_size(row.nbytes)}"
    return f"{counted(count, 'transfer')} move{'s' * (count == 1)} {_moved_bytes(scene)}; {longest}."


def _moved_bytes(scene: Scene) -> str:
    return f"{scene.unsized.least}{show_bytes(figures.moved_bytes(scene))}"


def _size(nbytes: int) -> str:
    return "an unknown size" if nbytes < 0 else show_bytes(nbytes)


def _late_line(scene: Scene) -> str:
    row = figures.late(scene)
    if row is None:
        return ""
    before, after = row.makespan_ns
    time = "the makespan stays" if before == after else f"the makespan was {show_nanos(before)} without it"
    return f"{_delayed(row)} by the rule of {row.rule}; {time}."


def _delayed(row: LateRow) -> str:
    return f"{row.delayed:,} of {counted(row.transfers, 'Recv')} wait{'s' * (row.delayed == 1)}"


def _pinned_line(scene: Scene) -> str:
    return f"{scene.pinned}." if scene.pinned is not None and scene.pinned.matters else ""


def _check_line(scene: Scene) -> str:
    check = scene.check
    if check is None:
        return ""
    who = check["log"] if check["mode"] == "log" else f"TensorFlow {check['tensorflow']}"
    if check.get("refused"):
        return f"{who} refuses the graph{', as predicted' if check.get('foreseen') else ''}: {agreement.refusal(check)}"
    parts = (("placement", "nodes"), ("partition", "nodes"), ("shapes", "tensors"))
    agreed = []
    for part, unit in parts:
        if one := check.get(part):
            agree, of = one["agree"], one["of"]
            agreed.append(f"{part} ({of if agree == of else f'{agree} of {of}'} {unit})")
    said = " and ".join([", ".join(agreed[:-1])] * (len(agreed) > 1) + agreed[-1:])
    other = agreement.unlike_shown(check)
    verb = (
        "confirms" if all(one["agree"] == one["of"] for part, _ in parts if (one := check.get(part))) else "agrees in"
    )
    return f"{who} {verb} {said}{f', of another {other[0]}' if other else ''}."


def _assumed_line(scene: Scene) -> str:
    found, notes = _counted(scene), _notes(scene)
    if scene.training is not None:
        notes = [*notes, *training_figures.notes(scene.training)]
    if notes:
        found.append(counted(len(notes), "note"))
    return f"Assumed: {', '.join(found)}. --verbose prints all." if found else ""


def _training_lines(scene: Scene, trained: Trained) -> Iterator[_Line]:
    found = trained.answers
    what = f"training {training_figures.regime(trained)}, {training_figures.size(trained)}"
    title, cluster = (ending(name, NARROW) for name in (scene.title, scene.cluster.name))
    yield _Line(0, f"{title} on {cluster}: {what}; {trained.replication}.")
    yield _Line(0, _rate_line(trained))
    yield _Line(1, trained.unsized.cure)
    yield _Line(4, f"Step times: {training_figures.quantiles(trained)}.")
    yield _Line(1, _bottleneck_line(trained))
    waits = training_figures.waiting_tasks(trained)[:3]
    yield _Line(7, f"Waiting most: {', '.join(waits)} of the time." if waits else "")
    dropped = f", {_dropped(found.dropped)}" if found.dropped else ""
    stale = f"staleness {training_figures.staleness(found)}"
    lost = training_figures.lost(trained)
    yield _Line(6, f"{counted(found.updates, 'update')}, {stale}{dropped}{lost}.")
    disturbed = [one.text for one in trained.wanted.disturbances]
    yield _Line(5, f"Disturbed by {some(disturbed, 3)}." if disturbed else "")
    memory = training_figures.memory(trained)
    yield _Line(8, f"Shared memory: {memory}." if memory else "")
    full = training_figures.full(trained)
    yield _Line(1, f"Out of memory: {full}." if full else "")
    rates = [f"{_rate_figure(trained, row.steps_per_s)} with {row.workers}" for row in trained.scaling]
    yield _Line(3, f"Steps/s by number of workers: {', '.join(rates)}." if rates else "")


def _rate_line(trained: Trained) -> str:
    found = trained.answers
    if found.steps_per_s is None:
        return "Nothing takes time."
    examples = "" if found.examples_per_s is None else f", {_rate_figure(trained, found.examples_per_s)} examples/s"
    sizes = f": {trained.unsized.words}" if trained.unsized.tensors else ""
    sure = training_figures.one_draw(trained) if sizes else training_figures.sure(trained)
    warm_up = f"; {found.cut_off()}" if found.cut else ""
    short = "" if found.settled else "; the run may be too short"
    rate = f"{_rate_figure(trained, found.steps_per_s)} steps/s"
    return f"{rate}{sure}{examples}{sizes}{warm_up}{short}."


def _bottleneck_line(trained: Trained) -> str:
    held = trained.bottleneck
    if held.relief is None:
        return training_figures.held(trained)
    gain = f"{held.relief.change} the rate is {held.gain:.3g} times as high."
    name, room = held.relief.bottleneck.partition(", busy")[0], max(40, WIDTH - 15 - len(gain))
    if len(name) > room:
        name = name.partition(" (")[0]  # without the names of its devices
    return f"Bottleneck: {_clipped(name, room)}; {gain}"


# ---- every fact, one per line


def _facts(scene: Scene) -> Iterator[str]:
    dead = scene.trace.dead_fetches
    yield f"refused    TensorFlow refuses this step: the fetches {some(dead, 3)} are dead" if dead else ""
    yield _step(scene)
    yield _cluster(scene)
    asked, used = scene.assignment.asked, scene.assignment.used
    yield f"placement  {asked}{'' if asked == used else f'; {used} is faster and is shown'}"
    yield from _search(scene)
    yield _simulation(scene)
    yield _time(scene)
    yield "" if scene.refined is None else f"refined    {scene.refined.sentence().removeprefix('Refined: ')}"
    yield from _devices(scene)
    yield _memory(scene)
    yield _late(scene)
    yield _moved(scene)
    shares = _critical_shares(scene)
    yield f"critical   {', '.join(shares)} of the makespan on the critical path" if shares else ""
    yield f"pinned     {scene.pinned}" if scene.pinned is not None and scene.pinned.matters else ""
    if scene.training is not None:
        yield from _training(scene.training)
    found, notes = _counted(scene), _notes(scene)
    yield f"counted    {', '.join(found)}" if found else ""
    yield from (f"note       {note}" for note in notes[:MOST_NOTES])
    yield f"note       and {len(notes) - MOST_NOTES} more in the report" if len(notes) > MOST_NOTES else ""
    yield from _difference(scene)
    yield from _check(scene)
    yield from [] if scene.what_if is None else scene.what_if.lines(verbose=True)


def _difference(scene: Scene) -> Iterator[str]:
    """The difference from the run with which this one is compared: all parts, then the largest changes of each kind."""
    if (trainings := training_difference(scene)) is not None:
        yield from (f"training   {said[0].lower()}{said[1:]}" for said in sentences(trainings))
    found = difference(scene)
    if found is None:
        return
    yield f"against    {headline(found).removeprefix('Against ')}"
    yield from (f"  {part}" for part in found.parts)
    short = {device.name: device.short for device in scene.cluster.devices}
    nodes = sorted(found.moved, key=lambda one: not one.runs)
    moved = [f"{ending(one.node)}: {' to '.join(short.get(name, name) for name in one.devices)}" for one in nodes]
    crossing = [f"{ending(one.tensor)}: {_from_to(one.nbytes)}, {_transfers(one.times)}" for one in found.crossings]
    links = sorted(found.links, key=lambda one: -abs(one.nbytes[1] - one.nbytes[0]))
    used = [f"{one.link}: {_from_to(one.nbytes)}" for one in links if one.nbytes[0] != one.nbytes[1]]
    least = [one.least for one in found.unsized]
    peaks = [
        f"{short.get(one.device, one.device)}: {_from_to(one.peak_bytes, least)}"
        for one in sorted(found.devices, key=lambda one: -abs(one.peak_bytes[1] - one.peak_bytes[0]))
        if one.peak_bytes[0] != one.peak_bytes[1]
    ]
    for what, lines in (("moved", moved), ("crossing", crossing), ("link", used), ("peak", peaks)):
        yield from (f"  {what:<8} {line}" for line in lines[:MOST_CHANGES])
        yield f"  {what:<8} and {len(lines) - MOST_CHANGES} more in --json" if len(lines) > MOST_CHANGES else ""


def _from_to(nbytes: tuple[int, int], marks: Sequence[str] = ("", "")) -> str:
    """Both sizes, each behind its mark; where they look alike, by how much they differ."""
    before, after = (f"{mark}{show_bytes(size)}" for mark, size in zip(marks, nbytes, strict=True))
    change = nbytes[1] - nbytes[0]
    if change and before == after:
        return f"{after}, {show_bytes(abs(change))} {'more' if change > 0 else 'less'} than before"
    return f"{after} instead of {before}" if change else f"{after} as before"


def _transfers(times: tuple[int, int]) -> str:
    same = times[0] == times[1]
    return f"{counted(times[1], 'transfer')} {'as before' if same else f'instead of {times[0]:,}'}"


def _search(scene: Scene) -> Iterator[str]:
    """The counts of a search, and its improvements, one by one."""
    record = scene.assignment.search
    if record is None:
        return
    what = f"{counted(record.judged, 'placement')} of {counted(record.groups, 'group')} with a choice"
    cycles = f"{counted(record.cycles, 'cycle')} of annealing with {counted(record.accepted, 'move')} taken"
    ended = ", of which the rest promised nothing better" if record.hopeless else ""
    yield f"search     {what}; {cycles}; seed {record.seed}, budget {record.effort}{ended}"
    listed = [f"{name} {'does not fit' if ns is None else show_nanos(ns)}" for name, ns in record.listed]
    left_out = f"; not asked: {', '.join(record.left_out)}" if record.left_out else ""
    yield f"search     others: {', '.join(listed)}{left_out}"
    if record.better:
        last, how, ns = record.better[-1]
        best = f"the best, {show_nanos(ns)}, was no. {last:,}, by {how}"
        yield f"search     saved: {', '.join(_gains(record)) or 'nothing'}; {best}"


def _step(scene: Scene) -> str:
    runs = int(np.count_nonzero(scene.step.runs))
    fetched = f"; fetches {some(scene.step.fetches, 3)}" if scene.step.fetches else ""
    fed = f"; feeds {some(scene.step.feeds, 3)}" if scene.step.feeds else ""
    what = f"{_of(runs, len(scene.graph), 'node')} in a step{fed}{fetched}"
    rule = scene.step.rule if scene.training is None else f"the step of {_client(scene.training)}"
    return f"graph      {scene.title}: {what} ({rule})"


def _client(training: Trained) -> str:
    return training.clients[0].program.name


def _cluster(scene: Scene) -> str:
    name, notes = scene.cluster.name, scene.cluster.notes
    # a default cluster is named by its first note, with the reason
    return f"cluster    {'; '.join(notes)}" if notes and name in notes[0] else f"cluster    {name}: {'; '.join(notes)}"


def _simulation(scene: Scene) -> str:
    how = figures.simulation(scene)
    own = Counter(contention for _, contention in sorted(how.links.items()))
    but = "".join(f", but {contention} on {counted(links, 'link')}" for contention, links in own.items())
    tasks = f", protocol {how.protocol}" if len(scene.cluster.tasks) > 1 else ""
    order = f"{how.order}{_other_order(scene)}"
    return f"simulated  order {order}, contention {how.contention}{but}{tasks}, engine {how.engine}"


def _other_order(scene: Scene) -> str:
    """The step in TensorFlow's order, with what was enforced."""
    other, found = scene.tensorflow_order_ns, scene.enforced
    if found is not None:
        planned, edges = show_nanos(found.planned_ns), counted(len(found.edges), "control edge")
        return f" by {edges} ({show_nanos(found.without_ns)} without, {planned} if transfers had one, too)"
    return "" if other is None else f" ({show_nanos(other)} in TensorFlow's)"


def _time(scene: Scene) -> str:
    unsized = scene.unsized
    bound = f": {unsized.sentences}" if unsized.tensors else f", {_optimum(scene)}"
    trained = scene.training
    whose = "" if trained is None else f"; the lines up to the training are one step of {_client(trained)} alone"
    kept = counts(scene)["kept_calls"]
    without = f"; without the bodies of {counted(kept, 'call')}, single nodes here" if kept else ""
    sure = "".join(f" ({said})" for said in _by_profile(scene))
    return f"makespan   {unsized.least}{show_nanos(scene.trace.makespan)}{sure}{without}{bound}{whose}"


def _devices(scene: Scene) -> list[str]:
    """A line for each device that runs or holds something, the busiest if there are many."""
    cluster, least = scene.cluster, scene.unsized.least_held
    used = [row for row in figures.devices(scene) if row.busy_ns or row.peak_bytes]
    shown = sorted(used, key=lambda row: (-row.busy_ns, row.device))[:MOST_DEVICES]
    width = max((len(cluster.devices[row.device].short) for row in shown), default=0)
    lines = []
    for row in sorted(shown, key=lambda row: row.device):
        over = "  OUT OF MEMORY" if row.peak_bytes > row.capacity_bytes else ""
        memory = f"peak {least}{show_bytes(row.peak_bytes)} of {show_bytes(row.capacity_bytes)}{over}"
        lines.append(
            f"  {cluster.devices[row.device].short:<{width}}  busy {show_share(row.busy_share, 1):>6}  {memory}"
        )
    if len(used) > len(shown):
        lines.append(f"  and {len(used) - len(shown)} more that are less busy")
    if len(used) < len(cluster):
        lines.append(f"  {_of(len(cluster) - len(used), len(cluster), 'device')} nothing")
    return lines


def _memory(scene: Scene) -> str:
    """The allocations at the peak of the device that is fullest, by the share of its memory."""
    rows = {row.device: row for row in figures.peaks(scene, 2)}
    if not rows:
        return ""
    row = rows[max(figures.devices(scene), key=lambda row: row.fullness).device]
    since = f"peaks after {show_nanos(row.time_ns)} by {ending(row.cause)}" if row.cause else "holds what is resident"
    kinds = ", ".join(f"{kind} {show_bytes(held)}" for kind, held in row.kinds.items())
    largest = ", ".join(f"{ending(one.what)} ({one.kind}, {show_bytes(one.nbytes)})" for one in row.live)
    lacks = "" if scene.unsized.tensors or not scene.unsized.tables else f". {scene.unsized.cure}"
    return f"memory     {scene.cluster.devices[row.device].short} {since}: {kinds}; largest: {largest}{lacks}"


def _late(scene: Scene) -> str:
    """The effect of delayed Recvs: on the step, on copies, and on the peak that changed most."""
    row = figures.late(scene)
    if row is None:
        return ""
    before, after = row.makespan_ns
    time = show_nanos(after) if before == after else f"{show_nanos(after)} instead of {show_nanos(before)}"
    share = 1 - row.held_byte_ns[1] / row.held_byte_ns[0] if row.held_byte_ns[0] else 0.0
    said = f"{_delayed(row)}, copies are held {abs(share):.0%} "
    said += f"{'less' if share >= 0 else 'more'}; makespan {time}"
    device = max(range(len(row.peak_bytes)), key=lambda at: abs(row.peak_bytes[at][0] - row.peak_bytes[at][1]))
    old, new = row.peak_bytes[device]
    short = scene.cluster.devices[device].short
    peak = f"peak of {short} {show_bytes(new)} instead of {show_bytes(old)}" if old != new else "no peak changes"
    return f"late       {row.rule}: {said}, {peak}"


def _moved(scene: Scene) -> str:
    count = len(scene.trace.transfers.row)
    if not count:
        return "moved      no tensor moves between devices"
    shown = ", ".join(
        f"{ending(figures.tagged(figures.tensor_label(scene, row.tensor), row.iteration))} "
        f"({_size(row.nbytes)}, {show_nanos(row.took_ns)})"
        for row in figures.longest_transfers(scene, 3)
    )
    return f"moved      {_moved_bytes(scene)} in {counted(count, 'transfer')}; longest: {shown}"


def _counted(scene: Scene) -> list[str]:
    """Guesses and exceptions of the step, each with how often it was made."""
    found = counts(scene)
    return [f"{counted(found[key], noun)} {what}" for key, (noun, what) in _COUNTED.items() if found[key]]


def _notes(scene: Scene) -> list[str]:
    """The notes of the step, without the cluster's, which have a line of their own."""
    said = [*scene.graph.notes, *figures.result_notes(scene)]
    if scene.training is None:
        return said
    return [note for note in said if note not in unsized_transfers(scene.partitions)]  # the training has it for all


def _check(scene: Scene) -> list[str]:
    if scene.check is None:
        return []
    check = scene.check
    who = f"TensorFlow {check['tensorflow']} ({check['oracle']})" if check["mode"] != "log" else check["log"]
    lines = [f"check      {who}, {check['mode']}: {agreement.question(check)}"]
    lines += [f"  {sentence}" for sentence in agreement.apart(scene)]
    if check.get("refused"):
        foreseen = ", as predicted" if check.get("foreseen") else ""
        return [*lines, f"  refused{foreseen}: {agreement.refusal(check)}"]
    lines += [f"  {one}" for one in agreement.agreements(check)]
    lines += [f"  {note}" for note in agreement.notes(scene)]
    for row in check["differences"][:5]:
        lines.append(f"  {row['node']}: ours {row['ours']}, TensorFlow's {row['theirs']} ({row['rule']})")
    if len(check["differences"]) > 5:
        lines.append(f"  and {len(check['differences']) - 5} more differences in the report and in --json")
    lines += [f"  law broken: {law}" for law in check.get("laws", ())]
    return lines


def _training(trained: Trained) -> Iterator[str]:
    """The lines of a training."""
    found = trained.answers
    yield f"training   {training_figures.regime(trained)}, {training_figures.size(trained)}, {trained.replication}"
    if trained.wanted.disturbances:
        yield f"  disturbed by {'; '.join(one.text for one in trained.wanted.disturbances)}"
    if trained.wanted.filters:
        yield f"  device_filters of {training_figures.filters(trained)}"
    if late := training_figures.late_sessions(trained):
        yield f"  starts   {late}"
    yield f"  rate     {_rate(trained)}"
    yield f"  sizes    {trained.unsized.sentences}" if trained.unsized.sentences else ""
    yield f"  step     {training_figures.quantiles(trained)}"
    yield f"  waiting  {_waiting(trained)}"
    yield from (f"  input    {said}" for said in training_figures.inputs(trained))
    dropped = _dropped(found.dropped)
    staleness = training_figures.staleness(found)
    yield f"  updates  {found.updates:,}, staleness {staleness}; {dropped}{training_figures.lost(trained)}"
    yield f"  held by  {training_figures.held(trained)}"
    if shared := training_figures.memory(trained):
        yield f"  memory   {shared}"
    if full := training_figures.full(trained):
        yield f"  memory   OUT OF MEMORY: {full}"
    for row in trained.scaling:
        efficiency = "unknown" if row.efficiency is None else f"{row.efficiency:.0%}"
        link = f", busiest link {row.link} {show_share(row.link_share)}" if row.link else ""
        rates = (
            f"{_rate_figure(trained, row.steps_per_s)} steps/s, {_rate_figure(trained, row.examples_per_s)} examples/s"
        )
        yield f"  {row.workers:>4} worker{'s' if row.workers > 1 else ' '}  {rates}, efficiency {efficiency}{link}"
    yield from (f"  note     {note}" for note in training_figures.notes(trained))


def _rate(trained: Trained) -> str:
    """Steps and examples per second, the precision of both, and the warm-up that they leave out."""
    found = trained.answers
    if found.steps_per_s is None:
        return f"nothing takes time; {found.warm_up}"
    known = found.examples_per_s is not None
    examples = f"{_rate_figure(trained, found.examples_per_s)} examples/s" if known else "examples unknown"
    wanted, between = trained.wanted.until_ci, found.between_upsets_per_s
    reached = "" if trained.narrow is not False else f"; not within the requested {wanted:.2%}"
    without = (
        "" if between is None else f"; {_rate_figure(trained, between)} steps/s without the disturbances that come once"
    )
    precise = training_figures.sure(trained)
    rate = f"{_rate_figure(trained, found.steps_per_s)} steps/s"
    return f"{rate}{precise}, {examples}; {found.warm_up}{reached}{without}"


def _waiting(trained: Trained) -> str:
    """The waiting share of each task, the largest first, and what workers wait for."""
    found, said = trained.answers, training_figures.waiting_tasks(trained)
    working = len(training_figures.working_tasks(trained))
    others, idle = working - len(said), len(found.shares) - working
    parts = (
        ", ".join([*said, f"{counted(others, 'other')} less"] if others else said),
        f"{counted(idle, 'task')} without any work" if idle else "",
        f"for tokens {show_share(found.gate_share)} of a step" if found.gate_share else "",
        f"for input {show_share(found.input_share)} of a step" if found.input_share else "",
    )
    return "; ".join(filter(None, parts))


def _rate_figure(trained: Trained, value: float | None) -> str:
    """A rate of the training, marked where it is a bound."""
    return "?" if value is None else f"{trained.unsized.most}{show_figure(value)}"
