"""Chrome trace events, as Perfetto (ui.perfetto.dev) and chrome://tracing read them, and the file that they make.

The format is that of "Trace Event Format" (Google, 2016): complete events X, or instants i where something takes no
time, metadata M, counters C, flows s t f; `ts` and `dur` are microseconds, so a nanosecond is the third decimal.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from simulator.cluster.cluster import Cluster
from simulator.cluster.master import short_task
from viz.tracks import LINKS, Place, processes

Args: TypeAlias = "dict[str, str | int | float]"
Event: TypeAlias = "dict[str, str | int | float | Args]"

MAX_BYTES = 200_000_000  # viewers fail on more
MAX_NAME = 400  # letters of a name that a viewer has to carry


def written(events: Iterable[Event], other: Args, notes: Sequence[str], *, max_bytes: int = MAX_BYTES) -> str:
    """JSON text of the events; where it would exceed max_bytes, the last are left out and `otherData` says how many."""
    lines, room, left_out = [], max_bytes - 4096, 0
    for event in events:
        line = json.dumps(event, separators=(",", ":"))
        room -= len(line) + 2
        if room < 0:
            left_out += 1
        else:
            lines.append(line)
    told: Args = {key: value[:MAX_NAME] if isinstance(value, str) else value for key, value in other.items()}
    if left_out:
        told["left_out"] = f"{left_out} events, as the file would exceed {max_bytes} bytes"
    said = json.dumps({**told, "notes": "; ".join(notes)[:2000]})
    body = ",\n".join(lines)
    return f'{{"displayTimeUnit":"ns","otherData":{said},"traceEvents":[\n{body}\n]}}\n'


def micros(nanos: int) -> float:
    """Nanoseconds as the format wants them."""
    return nanos / 1000


def _duration(start: int, end: int) -> float:
    """The duration by which ts + dur is not after the end's own ts: a sum that rounds up would overlap what follows."""
    duration = micros(end) - micros(start)
    while micros(start) + duration > micros(end):  # at most the last digit
        duration = math.nextafter(duration, 0.0)
    return duration


def shortened(name: str) -> str:
    """The name, or as much of it as a viewer takes."""
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…"


def named(what: str, place: Place, name: str, sort: int) -> Iterator[Event]:
    """What a process or thread is called, and its place among others."""
    at: Event = {"ph": "M", "pid": place[0], "tid": place[1]}
    yield {**at, "name": f"{what}_name", "args": {"name": name}}
    yield {**at, "name": f"{what}_sort_index", "args": {"sort_index": sort}}


def named_places(
    cluster: Cluster, lanes: Mapping[tuple[int, int], Place], links: Mapping[tuple[int, int], Place]
) -> Iterator[Event]:
    """What is called like the cluster's parts: a process per task and one for links, a thread per lane and track.

    Tasks are written in short: of a name with slashes Perfetto shows only what follows the last.
    """
    for number, (name, process) in enumerate(processes(cluster).items()):
        yield from named("process", (process, 0), shortened(name if name == LINKS else short_task(name)), number)
    for (device, lane), place in lanes.items():
        short = cluster.devices[device].short
        yield from named("thread", place, shortened(f"{short} lane {lane}" if lane else short), place[1])
    for (link, track), place in links.items():
        name = cluster.links[link].name if link >= 0 else "handed over in memory"
        yield from named("thread", place, shortened(f"{name} ({track + 1})" if track else name), place[1])


def slice_of(name: str, kind: str, place: Place, start: int, end: int, args: Args) -> Event:
    """Something that takes a while, or an instant where it takes no time."""
    what: Event = {
        "name": shortened(name),
        "cat": kind,
        "pid": place[0],
        "tid": place[1],
        "ts": micros(start),
        "args": args,
    }
    if start == end:
        return {"ph": "i", "s": "t", **what}  # of its thread; a slice without length is what readers warn about
    return {"ph": "X", "dur": _duration(start, end), **what}
