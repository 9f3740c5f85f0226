"""Questions about the tasks of a run."""

from __future__ import annotations

from simulator.execution.trace import Event, Kind, TraceTasks


def starts(tasks: TraceTasks, kind: Kind) -> list[int]:
    """The starts of all tasks of a kind, in order of their transfers."""
    rows = sorted(tasks.rows(kind).tolist(), key=lambda row: int(tasks.of[row]))
    return [int(tasks.start_ns[row]) for row in rows]


def on_links(tasks: TraceTasks, count: int) -> list[list[int]]:
    """[count] the tasks in which each transfer holds serial links, in the order of its route."""
    found: list[list[int]] = [[] for _ in range(count)]
    place: dict[int, int] = {}  # on the route: behind the task at whose start it joins its link

    def place_of(row: int) -> int:
        if row not in place:
            needs = range(tasks.need_ptr[row], tasks.need_ptr[row + 1])
            before = [int(tasks.need[at]) for at in needs if tasks.event[at] == Event.START]
            place[row] = 1 + place_of(before[0]) if before else 0
        return place[row]

    for row in sorted(tasks.rows(Kind.LINK).tolist(), key=place_of):
        found[tasks.of[row]].append(row)
    return found


def held(tasks: TraceTasks, count: int) -> list[list[tuple[int, int, int]]]:
    """[count] (link, from, to) of what each transfer holds, in the order of its route."""
    each = on_links(tasks, count)
    links = {row: int(tasks.resource[row]) - tasks.devices for rows in each for row in rows}
    return [[(links[row], int(tasks.start_ns[row]), int(tasks.end_ns[row])) for row in rows] for rows in each]
