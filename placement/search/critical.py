"""The critical path of a placement, along which a walk aims its moves.

Plain Python over arrays, to be compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from placement.search.moves import Walk
    from simulator.columns import Ints
    from simulator.execution.layouts import Arena, FlatTables

SPREAD = 48  # bits between the ends of ops of two devices, as `find_critical` reads them


def find_critical(laid: FlatTables, own: Arena, walk: Walk, by_end: Ints, ends: Ints, group_of: Ints) -> None:
    """Fill in `critical` after a run, from its last op backwards, with the time of each on the path.

    `by_end` [n] are the ops in order of (device, end), and `ends` [n] their ends, 2**SPREAD apart between devices. A
    transfer counts for the groups at both its ends. `group_of` [n] is the group of each op that can be moved, or -1.
    """
    nodes, places, held, tasks, state, found = laid.nodes, laid.places, laid.held, own.tasks, own.state, own.found
    device = walk.device
    start, ready, length, resource = state.start_ns, state.ready_ns, tasks.length, tasks.resource
    op, latest = -1, -1
    for one in range(len(device)):
        if start[one] + length[one] > latest:
            op, latest = one, start[one] + length[one]
    count, total = 0, 0
    for _ in range(2 * len(device)):
        if op < 0 or count + 2 > len(walk.critical):
            break
        if group_of[op] >= 0:
            total += start[op] + length[op] - ready[op] + 1
            walk.critical[count], walk.until[count] = group_of[op], total
            count += 1
        before = -1
        if start[op] > ready[op]:  # who had the lane until then
            wanted = (device[op] << SPREAD) + start[op]
            low, high = 0, len(ends)
            while low < high:
                middle = (low + high) >> 1
                if ends[middle] < wanted:
                    low = middle + 1
                else:
                    high = middle
            while low < len(ends) and ends[low] == wanted:
                if length[by_end[low]] > 0:
                    before = by_end[low]
                low += 1
        else:
            by, came = -1, -1
            for at in range(held.in_ptr[op], held.in_ptr[op + 1]):
                edge = held.in_edge[at]
                source, transfer = held.tensor_op[nodes.edge_tensor[edge]], found.came_by[edge]
                task = source if transfer < 0 else found.last_of[transfer]
                end = start[task] + length[task]
                if resource[task] >= len(places.lanes) + len(state.free_ns):
                    end = state.end_ns[task]
                elif resource[task] >= len(places.lanes):
                    end += tasks.lag_ns[task]
                if came < end <= ready[op]:
                    before, by, came = source, transfer, end
            if by >= 0 and group_of[before] >= 0:
                total += came - start[before] - length[before] + 1
                walk.critical[count], walk.until[count] = group_of[before], total
                count += 1
        op = before
    walk.on_path[0] = count
