"""Synchronisation resources: accumulators of gradients and queues of tokens, and the ops that wait for them.

Waiting ops stand in linked lists, as an op waits in one at most. Equal tokens that follow each other are one run, so
that a ring holds all runs: there are no more than changes of the global step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simulator.execution.backend import Backend
from simulator.training.clients.client_set import DEQUEUE, DRAW, ENQUEUE, TAKE
from simulator.training.control.arrays import DROPPED, FILLED, GLOBAL_STEP, TOUCHED

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints
    from simulator.training.control.arrays import Control, Lines, Objects, Rules


def synchronisation_of(backend: Backend) -> tuple[Callable[..., Any], ...]:  # Any: each gives its own
    """The functions over what that backend runs on."""
    inner, whole, sort = backend.inner, backend.whole, backend.sort

    @inner
    def stand(who: int, at: int, first: Ids, last: Ids, behind: Ids) -> None:
        """Stand at the end of a line."""
        behind[who] = -1
        if first[at] < 0:
            first[at] = who
        else:
            behind[last[at]] = who
        last[at] = who

    @inner
    def leave(marks_from: int, marks_to: int, at: int, first: Ids, last: Ids, behind: Ids) -> None:
        """Take a client's marked ops out of a line."""
        who = whole(first[at])
        first[at] = -1
        while who >= 0:
            follows = whole(behind[who])
            if not marks_from <= who < marks_to:
                stand(who, at, first, last, behind)
            who = follows

    @inner
    def add(objects: Objects, lines: Lines, shared: int) -> bool:
        """Add tokens as far as there is room; whether any was."""
        moved = False
        base = whole(objects.run_ptr[shared])
        ring = whole(objects.run_ptr[shared + 1]) - base
        while lines.adder[shared] >= 0:
            who = lines.adder[shared]
            fits = lines.needs[who]
            if objects.capacity[shared] >= 0:
                fits = min(fits, objects.capacity[shared] - lines.there[shared])
            if fits != 0:
                runs = whole(lines.runs[shared])
                last = base + (lines.run_head[shared] + runs + ring - 1) % ring
                if runs > 0 and lines.run_token[last] == lines.token[who]:
                    lines.run_count[last] += fits
                else:
                    last = base + (lines.run_head[shared] + runs) % ring
                    lines.run_token[last], lines.run_count[last] = lines.token[who], fits
                    lines.runs[shared] += 1
                lines.there[shared] += fits
                moved = True
            if fits < lines.needs[who]:
                lines.needs[who] -= fits
                break
            lines.adder[shared] = lines.behind[who]
            lines.found[lines.found_size[0]] = who
            lines.found_size[0] += 1
        return moved

    @inner
    def take(rules: Rules, lines: Lines, shared: int) -> bool:
        """Take tokens as far as there are any; whether any was."""
        marks, objects = rules.marks, rules.objects
        moved = False
        base = whole(objects.run_ptr[shared])
        ring = whole(objects.run_ptr[shared + 1]) - base
        while lines.taker[shared] >= 0:
            who = lines.taker[shared]
            wanted, reserve = lines.needs[who], marks.reserve[who]
            taken, token = whole(0), whole(-1)
            while taken < wanted and lines.there[shared] > reserve:
                at = base + lines.run_head[shared]
                token, there = lines.run_token[at], lines.run_count[at]
                some = min(min(wanted - taken, there), lines.there[shared] - reserve)
                taken += some
                lines.there[shared] -= some
                lines.run_count[at] = there - some
                if some == there:
                    lines.run_head[shared] = (lines.run_head[shared] + 1) % ring
                    lines.runs[shared] -= 1
            moved |= taken > 0
            if taken < wanted:
                lines.needs[who] -= taken
                break
            lines.taker[shared] = lines.behind[who]
            if token >= 0:
                lines.local_step[marks.client[who]] = token
            lines.found[lines.found_size[0]] = who
            lines.found_size[0] += 1
        return moved

    @inner
    def pass_on(rules: Rules, lines: Lines, shared: int) -> None:
        """Let all go on who have what they asked for."""
        while True:
            added = add(rules.objects, lines, shared)
            taken = take(rules, lines, shared)
            if not (added or taken):
                return

    @inner
    def touch(lines: Lines, totals: Ints, shared: int) -> None:
        if not lines.is_touched[shared]:
            lines.is_touched[shared] = True
            lines.touched[totals[TOUCHED]] = shared
            totals[TOUCHED] += 1

    @inner
    def initialise(control: Control) -> None:
        """Make all ready for the global step, as a chief's session does: queues get their first tokens."""
        rules, lines, steps, _, _ = control
        totals = steps.totals
        for shared in range(len(lines.there)):
            if not rules.objects.queue[shared]:
                lines.step[shared] = totals[GLOBAL_STEP]
            elif rules.objects.tokens[shared] > 0:
                who = len(rules.marks.op) + totals[FILLED]
                totals[FILLED] += 1
                lines.needs[who], lines.token[who] = rules.objects.tokens[shared], totals[GLOBAL_STEP]
                stand(who, shared, lines.adder, lines.last_adder, lines.behind)
                touch(lines, totals, shared)

    @inner
    def applies(control: Control, mark: int) -> None:
        """An op that is no gate has ended: a gradient comes, or tokens are to be added."""
        rules, lines, steps, _, _ = control
        totals, shared, client = steps.totals, rules.marks.shared[mark], rules.marks.client[mark]
        if not rules.objects.queue[shared]:
            if lines.local_step[client] < lines.step[shared]:
                totals[DROPPED] += 1
            else:
                lines.there[shared] += 1
                lines.gathered[shared] += rules.clients.examples[client]
        else:
            lines.needs[mark], lines.token[mark] = rules.marks.amount[mark], totals[GLOBAL_STEP]
            stand(mark, shared, lines.adder, lines.last_adder, lines.behind)
            lines.adding[client] += 1
        touch(lines, totals, shared)

    @inner
    def asks(control: Control, mark: int, now: int) -> None:
        """A gate is ready: it waits in line."""
        rules, lines, steps, _, _ = control
        shared, client = rules.marks.shared[mark], rules.marks.client[mark]
        lines.needs[mark] = rules.marks.amount[mark]
        stand(mark, shared, lines.taker, lines.last_taker, lines.behind)
        touch(lines, steps.totals, shared)
        if lines.held[client] == 0:
            lines.held_ns[client] = now
        lines.held[client] += 1

    @inner
    def let_go(control: Control, now: int) -> int:
        """Release marked ops: blocking ops that pass, enqueues of which all tokens are in. How many are in `found`."""
        rules, lines, steps, _, _ = control
        marks, totals = rules.marks, steps.totals
        if totals[TOUCHED] > 1:
            sort(lines.touched, totals[TOUCHED])
        lines.found_size[0] = 0
        for at in range(totals[TOUCHED]):
            shared = lines.touched[at]
            lines.is_touched[shared] = False
            if rules.objects.queue[shared]:
                pass_on(rules, lines, shared)
                continue
            while lines.taker[shared] >= 0 and lines.there[shared] >= lines.needs[lines.taker[shared]]:
                mark = lines.taker[shared]
                lines.taker[shared] = lines.behind[mark]
                client = marks.client[mark]
                lines.takes[client] += 1
                lines.gradients[client] += lines.there[shared]
                lines.taken_examples[client] += lines.gathered[shared]
                lines.there[shared], lines.gathered[shared] = 0, 0
                lines.step[shared] += 1
                lines.found[lines.found_size[0]] = mark
                lines.found_size[0] += 1
        totals[TOUCHED] = 0
        count: int = whole(0)
        for at in range(lines.found_size[0]):
            mark = lines.found[at]
            if mark >= len(marks.op):
                continue  # the tokens of the beginning
            lines.found[count] = mark
            count += 1
            client = marks.client[mark]
            if marks.kind[mark] == ENQUEUE:
                lines.adding[client] -= 1
                continue
            lines.held[client] -= 1
            if lines.held[client] == 0:
                lines.waited_ns[client] += now - lines.held_ns[client]
        return count

    @inner
    def is_gate(kind: int) -> bool:
        """Whether such a marked op waits before it runs."""
        return kind in (TAKE, DEQUEUE)

    @inner
    def may_wait(kind: int) -> bool:
        """Whether such a marked op may have to wait when it is ready."""
        return kind in (TAKE, DEQUEUE, DRAW)

    @inner
    def forget(control: Control, client: int) -> None:
        """Its step was cut short: its marked ops wait no longer."""
        rules, lines, _, _, _ = control
        low, high = rules.clients.mark_ptr[client], rules.clients.mark_ptr[client + 1]
        for mark in range(low, high):
            shared = rules.marks.shared[mark]
            if shared >= 0 and rules.marks.kind[mark] != DRAW:
                leave(low, high, shared, lines.taker, lines.last_taker, lines.behind)
                leave(low, high, shared, lines.adder, lines.last_adder, lines.behind)
        lines.held[client], lines.adding[client] = 0, 0

    @inner
    def restore(control: Control, task: int) -> None:
        """A task is gone with what its objects hold; accumulators gather for the step to which all falls back."""
        rules, lines, steps, _, _ = control
        for shared in range(len(lines.there)):
            if not rules.objects.queue[shared]:
                lines.step[shared] = steps.totals[GLOBAL_STEP]
                if rules.objects.task[shared] == task:
                    lines.there[shared], lines.gathered[shared] = 0, 0
            elif rules.objects.task[shared] == task:
                lines.runs[shared], lines.there[shared] = 0, 0

    return initialise, applies, asks, let_go, is_gate, may_wait, forget, restore
