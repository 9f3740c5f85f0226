"""The memory of a run in machine code, by the rules of `lifetimes`: the life of each buffer, and peaks.

Instants are numbered, so each has a list of what begins there and one of what ends there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.execution.arrays import BufferLives
from simulator.execution.buffers import RESIDENT
from simulator.execution.layouts import Arena, FlatTables

if TYPE_CHECKING:
    from simulator.columns import Ids


def measure(laid: FlatTables, own: Arena, device: Ids, transfers: int) -> None:
    """Fill in `BufferLives.peak`, for a run whose instants were noted."""
    nodes, places, held, state, found, lives = laid.nodes, laid.places, laid.held, own.state, own.found, own.lives
    began_in, ended_in = state.began_in, state.ended_in
    owner, since, until, at, nbytes = lives.owner, lives.since, lives.until, lives.at, lives.nbytes
    consumer, edge_tensor, tensor_op, came_by = nodes.consumer, nodes.edge_tensor, held.tensor_op, found.came_by
    tensors, n, final = len(nodes.tensor_bytes), len(device), state.noted[0]
    copies = tensors + transfers
    _keep_residents(laid, lives, device)
    for tensor in range(tensors):
        op = tensor_op[tensor]
        owner[tensor], nbytes[tensor], at[tensor] = tensor, held.made_bytes[tensor], device[op]
        since[tensor], until[tensor] = began_in[op], ended_in[op]
        if held.bound[op]:
            since[tensor], until[tensor] = 0, final
        lives.user[tensor], lives.others[tensor] = op, 0
        if held.passes[tensor] == RESIDENT:
            owner[tensor] = -1
        elif held.passes[tensor] >= 0:
            edge = _passed_on(laid, own, op, held.passes[tensor])
            if device[consumer[edge]] != device[op]:  # a part of the copy of its list
                edge = held.out_of[tensor]
            if edge >= 0:
                owner[tensor] = edge_tensor[edge] if came_by[edge] < 0 else tensors + came_by[edge]
    for transfer in range(transfers):
        copy, tensor = tensors + transfer, found.tensor_of[transfer]
        handed = places.handed[found.route_of[transfer]]
        owner[copy], nbytes[copy] = found.sent[transfer] if handed else copy, nodes.tensor_bytes[tensor]
        at[copy] = found.target_of[transfer]
        since[copy], until[copy] = began_in[found.wire_of[transfer]], ended_in[found.last_of[transfer]]
        lives.user[copy], lives.others[copy] = -1, 0
    for copy in range(copies):
        _lengthen(lives, copy, until[copy], tensor_op[copy] if copy < tensors else -1)
    for transfer in range(transfers):
        _lengthen(lives, found.sent[transfer], ended_in[found.end_of[transfer]], -1)
    for edge in range(len(consumer)):
        op = consumer[edge]
        copy = edge_tensor[edge] if came_by[edge] < 0 else tensors + came_by[edge]
        _lengthen(lives, copy, final if held.bound[op] else ended_in[op], op)
    changed = len(held.keeper) > 0
    while changed:
        changed = False
        for pair in range(len(held.keeper) - 1, -1, -1):
            changed = _keep(laid, own, held.keeper[pair], held.kept[pair]) or changed
    for op in range(n):
        nbytes[copies + op] = held.scratch_bytes[op]
    _write_over(laid, own, copies)
    for instant in range(final + 1):
        lives.begin_head[instant], lives.end_head[instant] = -1, -1
    for copy in range(copies):
        if owner[copy] == copy and nbytes[copy] > 0:
            _enter(lives, copy)
    for op in range(n):
        if held.scratch_bytes[op] > 0:
            one = copies + op
            since[one], until[one], at[one] = began_in[op], ended_in[op], device[op]
            if nbytes[one] > 0:
                _enter(lives, one)
    _add_up(lives, final)


def _passed_on(laid: FlatTables, own: Arena, op: int, edge: int) -> int:
    """The edge whose buffer an op passes on: of a Merge the data input that came first; of several the lowest."""
    nodes, held, found = laid.nodes, laid.held, own.found
    if not nodes.merges[0]:
        return edge
    best, when = edge, -1
    for place in range(held.in_ptr[op], held.in_ptr[op + 1]):
        one = held.in_edge[place]
        if nodes.reader[one] < 0:  # a data input of a Merge
            by = found.came_by[one]
            came = own.state.ended_in[held.tensor_op[nodes.edge_tensor[one]] if by < 0 else found.last_of[by]]
            if when < 0 or came < when or (came == when and one < best):
                best, when = one, came
    return best


def _keep(laid: FlatTables, own: Arena, tensor: int, edge: int) -> bool:
    """Lengthen the life of what came by an edge to that of the list which keeps it; tell whether it was shorter."""
    lives = own.lives
    list_, kept = _owner(lives, tensor), _owner(lives, _came(laid, own, edge))
    if list_ < 0 or kept < 0:
        return False
    shorter: bool = lives.until[kept] < lives.until[list_]
    _lengthen(lives, kept, lives.until[list_], -1)
    return shorter


def _came(laid: FlatTables, own: Arena, edge: int) -> int:
    """The copy that came by an edge."""
    copy: int = laid.nodes.edge_tensor[edge]
    if own.found.came_by[edge] >= 0:
        copy = len(laid.nodes.tensor_bytes) + own.found.came_by[edge]
    return copy


def _write_over(laid: FlatTables, own: Arena, copies: int) -> None:
    """Join each output with the first input over which it may be written, once it is known of all which that is.

    One that nobody reads is taken from the scratch memory of its op.
    """
    held, lives = laid.held, own.lives
    last = -1
    for pair in range(len(held.writer)):
        op, edge, tensor = held.writer[pair], held.over[pair], held.written[pair]
        found = _owner(lives, _came(laid, own, edge))
        if tensor >= 0:
            lives.joined[tensor] = -1 if op != last else lives.joined[tensor]
        if op != last and found >= 0 and lives.nbytes[found] > 0:
            others = lives.others[found] if lives.user[found] == op else lives.until[found]
            if others <= own.state.began_in[op]:
                last = op
                if tensor >= 0:
                    lives.joined[tensor] = found
                else:
                    lives.nbytes[copies + op] -= laid.nodes.tensor_bytes[laid.nodes.edge_tensor[edge]]
    for pair in range(len(held.writer)):
        tensor = held.written[pair]
        if tensor >= 0 and lives.joined[tensor] >= 0:
            lives.owner[tensor] = lives.joined[tensor]
    for pair in range(len(held.writer)):
        tensor = held.written[pair]
        if tensor >= 0:
            _lengthen(lives, tensor, lives.until[tensor], -1)


def _owner(lives: BufferLives, copy: int) -> int:
    """The buffer of a tensor or copy; -1: it is resident."""
    while copy >= 0 and lives.owner[copy] != copy:
        copy = lives.owner[copy]
    return copy


def _lengthen(lives: BufferLives, copy: int, until: int, by: int) -> None:
    """A buffer is needed until then at least, by an op or, -1, by something else."""
    owner, user, others = lives.owner, lives.user, lives.others
    last = copy
    while last >= 0 and owner[last] != last:
        last = owner[last]
    while copy >= 0 and owner[copy] != last:  # so that the way is short next time
        after = owner[copy]
        owner[copy] = last
        copy = after
    if last < 0:
        return
    if user[last] != by:
        others[last] = max(others[last], min(until, lives.until[last]))
        if lives.until[last] < until:
            user[last] = by
    lives.until[last] = max(lives.until[last], until)


def _enter(lives: BufferLives, one: int) -> None:
    """Note a buffer at the instants at which it is allocated and freed."""
    since, until = lives.since[one], lives.until[one]
    lives.begin_next[one], lives.begin_head[since] = lives.begin_head[since], one
    lives.end_next[one], lives.end_head[until] = lives.end_head[until], one


def _add_up(lives: BufferLives, final: int) -> None:
    """Go through the instants: of each, first all that lived before ends, then what begins, then what was brief."""
    level, peak, since = lives.level, lives.peak, lives.since
    for instant in range(final + 1):
        one = lives.end_head[instant]
        while one >= 0:
            if since[one] < instant:
                level[lives.at[one]] -= lives.nbytes[one]
            one = lives.end_next[one]
        one = lives.begin_head[instant]
        while one >= 0:
            where = lives.at[one]
            level[where] += lives.nbytes[one]
            peak[where] = max(peak[where], level[where])
            one = lives.begin_next[one]
        one = lives.end_head[instant]
        while one >= 0:
            if since[one] == instant:
                level[lives.at[one]] -= lives.nbytes[one]
            one = lives.end_next[one]


def _keep_residents(laid: FlatTables, lives: BufferLives, device: Ids) -> None:
    """Begin with what each device holds all the time; every CPU that keeps a copy of a constant holds it."""
    nodes, places, held = laid.nodes, laid.places, laid.held
    cpu, home, tensor_ptr, tensor_edge = places.cpu, places.home, held.tensor_ptr, held.tensor_edge
    consumer, resident_bytes, level, peak = nodes.consumer, held.resident_bytes, lives.level, lives.peak
    for where in range(len(level)):
        level[where] = 0
        peak[where] = -1
    for op in range(len(device)):
        if resident_bytes[op] == 0:
            continue
        copied = False
        for tensor in range(tensor_ptr[op], tensor_ptr[op + 1] if cpu[device[op]] else 0):
            first, last = tensor_edge[tensor], tensor_edge[tensor + 1] if nodes.replicable[tensor] else 0
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
