"""Memory in use, counted by reference round by round: what `lifetimes` finds after a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.buffers import OWN
from simulator.execution.compiled.kernel import inner
from simulator.execution.flat import Held, Memory, Nodes, Places

if TYPE_CHECKING:
    from simulator.columns import Flags, Ids, Ints


@inner
def resident(nodes: Nodes, places: Places, held: Held, memory: Memory, device: Ids, transfers: int) -> None:
    """What each device holds all the time; a copied constant is held by every CPU that keeps a copy."""
    cpu, home, tensor_ptr, tensor_edge = places.cpu, places.home, held.tensor_ptr, held.tensor_edge
    consumer, replicable, resident_bytes = nodes.consumer, nodes.replicable, held.resident_bytes
    level, peak, over = memory.level, memory.peak, memory.over
    for where in range(len(level)):
        level[where] = 0
        peak[where] = -1
    for op in range(len(device)):
        if resident_bytes[op] == 0:
            continue
        copied = False
        for tensor in range(tensor_ptr[op], tensor_ptr[op + 1] if cpu[device[op]] else 0):
            first, last = tensor_edge[tensor], tensor_edge[tensor + 1] if replicable[tensor] else 0
            for edge in range(first, last):
                copied |= home[device[consumer[edge]]] != home[device[consumer[first]]]
            for edge in range(first, last if copied else 0):
                where = home[device[consumer[edge]]]
                if peak[where] != op:  # used as a stamp
                    peak[where] = op
                    level[where] += resident_bytes[op]
        if not copied:
            level[device[op]] += resident_bytes[op]
    for where in range(len(level)):
        peak[where] = level[where]
        memory.freed[where], memory.begun[where], memory.brief[where] = 0, 0, 0
    for task in range(len(device) + transfers):
        over[task] = False


@inner
def advance(level: Ints, peak: Ints, freed: Ints, begun: Ints, brief: Ints) -> None:
    """An instant is over: first what ended is freed, then what began is added, then what also ended at it is freed."""
    for where in range(len(level)):
        now = level[where] - freed[where] + begun[where]
        peak[where] = max(peak[where], now)
        level[where] = now - brief[where]
        freed[where] = 0
        begun[where] = 0
        brief[where] = 0


@inner
def _drop(
    buffer: int, now: int, holds: Ids, since_ns: Ints, held_by: Ids, nbytes: Ints, freed: Ints, brief: Ints
) -> None:
    """One needs the buffer less; when none does, it is freed."""
    if buffer >= 0:
        holds[buffer] -= 1
        if holds[buffer] == 0 and since_ns[buffer] < now:
            freed[held_by[buffer]] += nbytes[buffer]
        elif holds[buffer] == 0:
            brief[held_by[buffer]] += nbytes[buffer]


@inner
def hand_in(held: Held, memory: Memory, device: Ids, tensor_bytes: Ints) -> None:
    """What the client hands in is there from the beginning, whenever an executor comes to it."""
    for op in range(len(device)):
        for tensor in range(held.tensor_ptr[op], held.tensor_ptr[op + 1] if held.bound[op] else 0):
            memory.owner[tensor], memory.holds[tensor], memory.since_ns[tensor] = tensor, 1, 0
            memory.held_by[tensor], memory.nbytes[tensor] = device[op], tensor_bytes[tensor]
            memory.begun[device[op]] += tensor_bytes[tensor]


@inner
def begin_all(
    held: Held,
    memory: Memory,
    device: Ids,
    tensor_bytes: Ints,
    handed: Flags,
    way_of: Ids,
    tensor_of: Ids,
    target_of: Ids,
    count: int,
    now: int,
) -> None:
    """What began in this round takes memory."""
    owner, n, tensors = memory.owner, len(device), len(tensor_bytes)
    for i in range(count):
        task = memory.began[i]
        if task < n:
            here = device[task]
            memory.begun[here] += held.scratch_bytes[task]
            low, high = np.int64(held.tensor_ptr[task]), np.int64(held.tensor_ptr[task + 1])
            if held.bound[task]:
                continue  # it was there from the beginning
        else:
            here = target_of[task - n]
            low = tensors + task - n
            owner[low] = -1  # handed over: as its tensor, once that is there
            high = low if handed[way_of[task - n]] else low + 1
        for copy in range(low, high):
            owner[copy] = -1
            if copy >= tensors or held.passes[copy] == OWN:
                owner[copy], memory.holds[copy], memory.since_ns[copy], memory.held_by[copy] = copy, 1, now, here
                memory.nbytes[copy] = tensor_bytes[copy if copy < tensors else tensor_of[copy - tensors]]
                memory.begun[here] += memory.nbytes[copy]


@inner
def end_all(
    held: Held,
    memory: Memory,
    device: Ids,
    consumer: Ids,
    edge_tensor: Ids,
    told: Ids,
    first: Ids,
    handed: Flags,
    way_of: Ids,
    tensor_of: Ids,
    span_from: Ids,
    span_to: Ids,
    asked_ptr: Ids,
    start_ns: Ints,
    tensors: int,
    count: int,
    now: int,
) -> None:
    """What ended in this round hands its outputs to those who wait for them, and lets go of what it read."""
    owner, holds, over, came_by = memory.owner, memory.holds, memory.over, memory.came_by
    since_ns, held_by, nbytes, freed, brief = (
        memory.since_ns,
        memory.held_by,
        memory.nbytes,
        memory.freed,
        memory.brief,
    )
    tensor_ptr, tensor_edge, passes, n = held.tensor_ptr, held.tensor_edge, held.passes, len(device)
    edges = len(consumer)
    for i in range(count):
        task = memory.ended[i]
        low, high = 0, 0  # the buffers that it filled
        if task >= n + edges:  # off the wire
            if not handed[way_of[task - n - edges]]:
                _drop(owner[tensor_of[task - n - edges]], now, holds, since_ns, held_by, nbytes, freed, brief)
            continue
        over[task] = True
        if task >= n:
            tensor, copy = tensor_of[task - n], tensors + task - n
            if handed[way_of[task - n]]:
                owner[copy] = owner[tensor]
            else:
                low, high = copy, copy + 1
            for place in range(span_from[task - n], span_to[task - n]):
                reader = told[place]
                if owner[copy] >= 0 and not over[reader if reader >= 0 else consumer[~reader]]:
                    holds[owner[copy]] += 1
            if handed[way_of[task - n]]:
                _drop(owner[tensor], now, holds, since_ns, held_by, nbytes, freed, brief)
        else:
            low, high = tensor_ptr[task], tensor_ptr[task + 1]
            for tensor in range(low, high):
                if passes[tensor] >= 0:
                    edge = first[task] if first[task] >= 0 else passes[tensor]
                    owner[tensor] = owner[edge_tensor[edge] if came_by[edge] < 0 else tensors + came_by[edge]]
                for edge in range(tensor_edge[tensor], tensor_edge[tensor + 1]):
                    if owner[tensor] >= 0 and came_by[edge] < 0 and not over[consumer[edge]]:
                        holds[owner[tensor]] += 1
            for transfer in range(asked_ptr[task], asked_ptr[task + 1]):
                if owner[tensor_of[transfer]] >= 0:
                    holds[owner[tensor_of[transfer]]] += 1
            if start_ns[task] < now:
                freed[device[task]] += held.scratch_bytes[task]
            else:
                brief[device[task]] += held.scratch_bytes[task]
            # the client keeps what it gets
            for place in range(held.in_ptr[task], held.in_ptr[task + 1] if not held.bound[task] else 0):
                edge = held.in_edge[place]
                tensor, transfer = edge_tensor[edge], came_by[edge]
                # a value that comes too late for its Merge will find that it has ended
                if over[held.tensor_op[tensor] if transfer < 0 else n + transfer]:
                    buffer = owner[tensor if transfer < 0 else tensors + transfer]
                    _drop(buffer, now, holds, since_ns, held_by, nbytes, freed, brief)
        for copy in range(low, high):
            if owner[copy] == copy:
                _drop(copy, now, holds, since_ns, held_by, nbytes, freed, brief)


@inner
def give_back(held: Held, memory: Memory, edge_tensor: Ids, tensors: int, now: int) -> None:
    """The step is over: the client lets go of what it got."""
    for op in range(len(held.bound)):
        for place in range(held.in_ptr[op], held.in_ptr[op + 1] if held.bound[op] else 0):
            edge = held.in_edge[place]
            transfer = memory.came_by[edge]
            buffer = memory.owner[edge_tensor[edge] if transfer < 0 else tensors + transfer]
            _drop(
                buffer,
                now,
                memory.holds,
                memory.since_ns,
                memory.held_by,
                memory.nbytes,
                memory.freed,
                memory.brief,
            )
