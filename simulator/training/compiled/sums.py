"""What tasks, devices and links do, counted as `ledger` does: of one moment in any order, as nothing lasts in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.execution.compiled.kernel import inner
from simulator.training.compiled.arrays import Rules, Sums
from simulator.training.training import COMPUTING, HANDLING, SENDING, WAITING

if TYPE_CHECKING:
    from simulator.execution.flat import Flat, Work
    from simulator.training.compiled.arrays import Team


@inner
def _turn(sums: Sums, where: int, now: int) -> None:
    """What the task does changes: enter what it has done, of several kinds the first."""
    tasks = len(sums.since_ns)
    for kind in range(WAITING):
        if sums.under_way[kind * tasks + where] > 0:
            sums.task_ns[kind * tasks + where] += now - sums.since_ns[where]
            break
    sums.since_ns[where] = now


@inner
def _more(sums: Sums, kind: int, where: int, now: int) -> None:
    at = kind * len(sums.since_ns) + where
    if sums.under_way[at] == 0:
        _turn(sums, where, now)
    sums.under_way[at] += 1


@inner
def _less(sums: Sums, kind: int, where: int, now: int) -> None:
    at = kind * len(sums.since_ns) + where
    if sums.under_way[at] == 1:
        _turn(sums, where, now)
    sums.under_way[at] -= 1


@inner
def _kind(rules: Rules, job: int) -> int:
    return COMPUTING if job < len(rules.clients.client_of) else HANDLING


@inner
def job_ends(crew: Team, job: int, here: int, now: int) -> None:
    """A job leaves its device."""
    rules, _, _, sums, _ = crew
    _less(sums, _kind(rules, job), rules.task_of[here], now)


@inner
def works(rules: Rules, sums: Sums, job: int, here: int, taken: int, now: int) -> None:
    """A job begins on its device; its whole time counts at once."""
    kind = _kind(rules, job)
    sums.busy_ns[here] += taken
    if kind == HANDLING:
        sums.message_ns[here] += taken
    _more(sums, kind, rules.task_of[here], now)


@inner
def sends(crew: Team, flat: Flat, work: Work, transfer: int, now: int) -> None:
    """A transfer goes to the wire."""
    rules, _, _, sums, _ = crew
    found = work.found
    for end in range(2):
        where = rules.task_of[found.source_of[transfer] if end == 0 else found.target_of[transfer]]
        _more(sums, SENDING, where, now)


@inner
def _is_flow(flat: Flat, work: Work, transfer: int) -> bool:
    flows: bool = (
        len(flat.shared.link) > 0
        and flat.places.flowing[work.found.way_of[transfer]]
        and flat.nodes.tensor_bytes[work.found.tensor_of[transfer]] > 0
    )
    return flows


@inner
def _wire_ns(flat: Flat, work: Work, transfer: int) -> int:
    """How long its bytes are on the wire; 0 of a flow."""
    taken: int = work.found.end_ns[transfer] - work.found.late_ns[transfer]
    return taken


@inner
def is_watched(crew: Team, flat: Flat, work: Work, transfer: int) -> bool:
    """Whether its bytes are on links that it does not hold."""
    on_ptr, way = crew.rules.on_ptr, work.found.way_of[transfer]
    watched: bool = on_ptr[way] < on_ptr[way + 1] and _wire_ns(flat, work, transfer) > 0
    return watched


@inner
def _pass(sums: Sums, link: int, now: int) -> None:
    """Enter the time until now in which flows were on the link; `through_ns` is until when all is entered."""
    if sums.on_link[link] > 0:
        sums.link_ns[link] += max(0, now - sums.through_ns[link])
    sums.through_ns[link] = max(sums.through_ns[link], now)


@inner
def carries(crew: Team, flat: Flat, work: Work, transfer: int, now: int) -> None:
    """Bytes of a transfer are on links from now on: of a flow until it ends, else for a time that is known."""
    rules, _, _, sums, _ = crew
    way = work.found.way_of[transfer]
    for place in range(rules.on_ptr[way], rules.on_ptr[way + 1]):
        link = rules.on[place]
        _pass(sums, link, now)
        if _is_flow(flat, work, transfer):
            sums.on_link[link] += 1
            continue
        until = now + _wire_ns(flat, work, transfer)
        sums.link_ns[link] += max(0, until - sums.through_ns[link])
        sums.through_ns[link] = max(sums.through_ns[link], until)


@inner
def arrives(crew: Team, flat: Flat, work: Work, transfer: int, now: int) -> None:
    """A transfer leaves the wire."""
    rules, _, _, sums, _ = crew
    found = work.found
    for end in range(2):
        where = rules.task_of[found.source_of[transfer] if end == 0 else found.target_of[transfer]]
        _less(sums, SENDING, where, now)
    way = found.way_of[transfer]
    sums.carried[way] += flat.nodes.tensor_bytes[found.tensor_of[transfer]]
    if _is_flow(flat, work, transfer):
        for place in range(rules.on_ptr[way], rules.on_ptr[way + 1]):
            _pass(sums, rules.on[place], now)
            sums.on_link[rules.on[place]] -= 1
