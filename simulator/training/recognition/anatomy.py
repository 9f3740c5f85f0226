"""The anatomy of a training graph: variables, gradients, updates, the global step and the batch, found by its ops.

    variables ─▶ forward, backward ─▶ gradients ─▶ updates ─▶ variables
    batch ─────▶                                   learning rate, slots

A replica ends at its gradients: ops before them run per replica, ops after them once per update. Names of nodes are the
user's and say nothing here; the registration of an op says which input of it is a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.errors import GraphError
from simulator.graph import registry
from simulator.graph.dataflow import depending_on, source_of, sources_of
from simulator.graph.graph import Graph
from simulator.graph.op_classes import VARIABLES
from simulator.graph.purposes import apply_nodes, computes, gradient_slot
from simulator.graph.set_cover import smallest_cover
from simulator.graph.step import INIT_SIGNATURE, Step, choose_step
from simulator.graph.traversal import PLACEHOLDERS, fan_out, gathered
from simulator.training.recognition.batch import batch_of
from simulator.training.recognition.plain_updates import plain_updates
from simulator.training.recognition.variable_flow import (
    ADDS,
    ASSIGNS,
    WRITES,
    before_the_sum,
    holds_examples,
    is_used,
    on_examples,
    places,
    value_edge,
    written_by,
)
from simulator.training.recognition.variables import colocated_rows, is_whole, variable_of, variable_shape
from simulator.training.recognition.ways_back import walk_back
from simulator.wording import some

_SCATTERS = frozenset(
    f"{prefix}Scatter{kind}"
    for prefix in ("", "Resource")
    for kind in ("Add", "Sub", "Update", "NdAdd", "NdSub", "NdUpdate")
)


@dataclass(frozen=True, slots=True)
class Gradient:
    """The input of one update from the backward pass, as edges of the graph.

    A dense gradient is a single edge. A sparse one, rows of a table, has a second edge for the numbers of the rows.
    Where an optimizer first adds up rows that occur twice, the edges lead into that sum.
    """

    variable: int  # node
    values: tuple[int, ...]  # the edge, and further ones that carry the same tensor to later ops
    indices: tuple[int, ...] = ()  # the same of the numbers of the rows; empty: it is dense


@dataclass(frozen=True, eq=False)
class Anatomy:
    """The parts of a training graph; rows of nodes unless said otherwise."""

    step: Step
    variables: tuple[int, ...]  # in order of creation, slots and the global step among them
    slot_of: Mapping[int, int]  # variable -> the one beside which its optimizer keeps it
    gradients: tuple[Gradient, ...]  # in order of the nodes that they enter
    global_step: int | None  # the variable
    counts: tuple[int, ...]  # nodes that add to the global step in this step
    ends: tuple[int, ...]  # the same, whose end is an update; none: no update comes before them, as before Keras's
    batched: tuple[int, ...]  # fed tensors whose first dimension is the batch
    batch: int  # examples of a step; 0: the graph does not say
    handing: tuple[int, ...]  # nodes, such as iterators, that hand out so many each time they run


def anatomy(graph: Graph, *, fetches: Sequence[str] | None = None) -> Anatomy:
    """Find the parts of a training graph; the step is the one that `choose_step` chooses.

    Updates are ops of optimizers, and scatters into variables. Where no optimizer's op takes a dense gradient, updates
    made of plain ops count, too (`plain_updates`). Raises GraphError for a graph whose step updates nothing by a
    gradient, and as `choose_step`.
    """
    step = choose_step(graph, fetches=fetches)
    runs = np.flatnonzero(step.runs).tolist()
    variables = tuple(row for row, op in enumerate(graph.ops) if op in VARIABLES)
    counts, global_step = _counting(graph, runs)
    slots = _slots(graph, variables)
    if fetches is None and not graph.train_ops and not apply_nodes(graph):
        step = _by_hand_alone(graph, step, counts)
        runs = np.flatnonzero(step.runs).tolist()
    gradients = _of_variables(_gradients(graph, runs)[0], slots)
    if not gradients:
        raise _without_gradients(graph, step)
    batched, batch, handing = batch_of(graph, step, [(one.variable, one.values[0]) for one in gradients])
    behind = fan_out(graph, [int(graph.edge_dst[one.values[0]]) for one in gradients])
    ends = () if set(counts).isdisjoint(behind) else counts
    return Anatomy(step, variables, slots, gradients, global_step, counts, ends, batched, batch, handing)


def _without_gradients(graph: Graph, step: Step) -> GraphError:
    """The error that says what is missing: a train op among the fetches, variables, or any update."""
    said = f"{graph.source} is a graph without gradients: "
    updates = [row for row in apply_nodes(graph) if not step.runs[row]]
    if updates:
        name, fetches = graph.names[updates[0]], choose_step(graph).fetches
        return GraphError(
            f"{said}no op of an optimizer runs in its step, which fetches {some(step.fetches)}. It has some, such as "
            f"{name!r}: fetch what runs them ({some(fetches)}).",
            node=name,
        )
    if not any(op in VARIABLES for op in graph.ops):
        return GraphError(f"{said}it has no variables, as if it were frozen to serve. Give the graph that trains.")
    if holds_examples(graph, step):
        said = f"{graph.source} trains on what it holds itself, so workers have nothing to divide. "
        return GraphError(f"{said}Give a graph that is fed its examples.")
    hidden = "; functions that it calls may hold them: inline it first" if graph.library else ""
    served = [name for name in graph.signatures if name != INIT_SIGNATURE]
    fetch = f"fetch its train op, or name the signature that trains ({some(served)})"
    return GraphError(
        f"{said}no op of an optimizer runs in its step, which fetches {some(step.fetches)}{hidden}. Give a graph that "
        f"trains, {fetch if served else 'or fetch its train op'}."
    )


def trained(graph: Graph) -> frozenset[int]:
    """The variables to which some op of the graph applies a gradient; the graph may be that of a step's pieces."""
    runs = range(len(graph))
    variables = [row for row, op in enumerate(graph.ops) if op in VARIABLES]
    return frozenset(one.variable for one in _of_variables(_gradients(graph, runs)[0], _slots(graph, variables)))


def _of_variables(gradients: Sequence[Gradient], slots: Mapping[int, int]) -> tuple[Gradient, ...]:
    """The gradients, those of slots taken for their variables': an optimizer may begin with its slots."""
    return tuple(replace(one, variable=slots.get(one.variable, one.variable)) for one in gradients)


def _counting(graph: Graph, runs: Sequence[int]) -> tuple[tuple[int, ...], int | None]:
    """The ops that add to a scalar of whole numbers, and its variable, the global step.

    Of several such variables it is the first that an update reads, as Adam corrects its averages by it. If none does,
    it is the first that works on no examples, as a curriculum would.
    """
    found = {}
    for row in runs:
        variable = variable_of(graph, row) if graph.ops[row] in ADDS | ASSIGNS else None
        if variable is None or not is_whole(graph, variable) or "shape" not in graph.attrs[variable]:
            continue
        single = variable_shape(graph, variable) in ((), None)
        if single and (graph.ops[row] in ADDS or _adds_a_constant(graph, row)):
            found[row] = variable
    first = _first_of(graph, runs, list(dict.fromkeys(found.values())))
    return tuple(row for row, variable in found.items() if variable == first), first


def _first_of(graph: Graph, runs: Sequence[int], counters: Sequence[int]) -> int | None:
    """The first counter whose value comes to an update by a way that no example goes, then one that no model uses."""
    if len(counters) < 2:
        return counters[0] if counters else None
    live, updates = on_examples(graph), _gradients(graph, runs)[1]
    written = [value_edge(graph, row) for row in updates if graph.ops[row] in WRITES]
    updates |= walk_back(graph, written, live).nodes  # such as a rate, by which a gradient is multiplied
    beside = [source for row in updates for source in sources_of(graph, row) if not live[source]]

    def rank(counter: int) -> tuple[bool, bool]:
        return not depending_on(graph, [counter])[beside].any(), is_used(graph, counter, (), live)

    return min(counters, key=rank)


def _adds_a_constant(graph: Graph, row: int) -> bool:
    """Tell whether an op assigns to a variable its own value and something more that depends on no example."""
    if graph.ops[row] not in ASSIGNS or source_of(graph, row, 1) < 0:
        return False
    walk = walk_back(graph, [value_edge(graph, row)], on_examples(graph))
    return not walk.ends and walk.reads == {written_by(graph, row)} and bool(walk.nodes)


def _gradients(graph: Graph, runs: Sequence[int]) -> tuple[tuple[Gradient, ...], set[int]]:
    """The gradients, and the nodes that apply them to their variables."""
    given = {row: gradient for row in runs if (gradient := _of_update(graph, row)) is not None}
    by_optimizer = any(graph.ops[row] not in _SCATTERS for row in given)
    updates = () if by_optimizer else plain_updates(graph, runs, alone=not given)
    rows = {row for update in updates for row in update.nodes}  # among them what adds to rows of a slot
    found: dict[int, Gradient] = {}  # by the edge of the values: two updates may take the same sum
    adding_up = _adding_up(graph, runs)
    for gradient in (gradient for row, gradient in given.items() if row not in rows):
        added = adding_up(gradient.values[0]) if not gradient.indices else []
        for one in [Gradient(gradient.variable, (edge,)) for edge in added] or [gradient]:
            found.setdefault(one.values[0], one)
    rows.update(int(graph.edge_dst[one.values[0]]) for one in found.values())
    for update in updates:
        found.setdefault(update.values[0], Gradient(update.variable, update.values, update.indices))
    return tuple(found.values()), rows


def _by_hand_alone(graph: Graph, step: Step, counts: tuple[int, ...]) -> Step:
    """The step without sinks beside its updates. Without an op of an optimizer the given step is all sinks."""
    _, updates = _gradients(graph, np.flatnonzero(step.runs).tolist())
    rows = sorted(updates.union(counts))
    covering = smallest_cover(graph, rows, lambda found: computes(graph, found)) if updates else []
    return choose_step(graph, fetches=[graph.names[row] for row in covering]) if covering else step


def _of_update(graph: Graph, row: int) -> Gradient | None:
    """The gradient that an op applies; None: it is no op of an optimizer, nor a scatter."""
    facts = registry.facts(graph.ops[row])
    variable = variable_of(graph, row) if facts is not None else None
    if facts is None or variable is None or is_whole(graph, variable):
        return None
    names, first = [argument.name for argument in facts.inputs], int(graph.in_ptr[row])
    if graph.ops[row] in _SCATTERS:
        given = Gradient(variable, (first + 2,), (first + 1,))
        added = _before_the_sum(graph, given)
        is_set = added == given and "Update" in graph.ops[row]  # rows that are only set are no gradient
        return None if is_set else added
    values = gradient_slot(graph.ops[row])
    if values is None:
        return None
    if "indices" not in names:
        return Gradient(variable, (first + values,))
    return _before_the_sum(graph, Gradient(variable, (first + values,), (first + names.index("indices"),)))


def _before_the_sum(graph: Graph, gradient: Gradient) -> Gradient:
    """The same gradient before its optimizer adds up rows that occur twice.

    An optimizer need not be linear in the sum, so replicas are joined before it.
    """
    found = before_the_sum(graph, gradient.indices[0])
    return gradient if found is None else Gradient(gradient.variable, (found[0],), (found[1],))


def _slots(graph: Graph, variables: Sequence[int]) -> dict[int, int]:
    """Variables colocated with another one: an optimizer's slots, and variables that it keeps once."""
    known = set(variables)
    return {row: other for row in variables for other in colocated_rows(graph, row) if other in known}


# ---- gradients that a script adds up in variables -------------------------------------------------------------------
# A script may add up gradients over several batches, in variables of its own, before an optimizer applies them.
#
#     batch ─▶ gradient ─╳─▶ AssignAdd sum        every n-th step:  sum / n ─▶ Apply ─▶ variable
#
# A replica ends where its gradient is added, as the sum exists once.


_STILL = VARIABLES | {"Const"}  # they bring no examples


def _adding_up(graph: Graph, runs: Sequence[int]) -> Callable[[int], list[int]]:
    """Find the edges on which a gradient comes to the sums that an update reads, given the update's own edge; [] none.

    Raises GraphError where another step than this one fills the sum: its gradients would be missing.
    """
    bringing = [row for row, op in enumerate(graph.ops) if op in PLACEHOLDERS or not graph.sources(row)]
    fed = set(fan_out(graph, [row for row in bringing if graph.ops[row] not in _STILL]))
    adding = [row for row, op in enumerate(graph.ops) if op in ADDS and source_of(graph, row, 1) in fed]
    if not adding:
        return lambda _: []
    running = set(runs).intersection(adding)
    filling: dict[int, list[int]] = {}  # a sum, and additions to it
    for row in adding:
        if (variable := variable_of(graph, row)) is not None and not is_whole(graph, variable):
            filling.setdefault(variable, []).append(row)
    marked = (-1, *adding, *filling)  # of the bits; the first is of what brings examples
    place = {row: at for at, row in enumerate(marked)}
    behind = _behind(graph, [1 << place[row] if row in place else 0 for row in range(len(graph))])

    def edges(values: int) -> list[int]:
        found = [marked[at] for at in places(behind[graph.edge_src[values]])]
        if added := [row for row in found if row >= 0 and graph.ops[row] in ADDS]:
            return [value_edge(graph, row) for row in added]
        if -1 in found:  # it is of examples itself
            return []
        found = sorted(row for one in found for row in filling[one])
        if found and running.isdisjoint(found):
            name, update = graph.names[found[0]], graph.names[int(graph.edge_dst[values])]
            raise GraphError(
                f"{graph.source}: {update!r} applies a gradient that {name!r} adds up, and the step does not run that, "
                f"so nothing of it works on examples. Fetch both, such as {name!r} and {update!r}, or {name!r} alone.",
                node=update,
            )
        return [value_edge(graph, row) for row in found if row in running]

    return edges


def _behind(graph: Graph, own: Sequence[int]) -> list[int]:
    """[N] the bits of all nodes whose values come to a node, with its own; the first bit is of what brings examples.

    Behind an addition to a sum there is none.
    """
    sources = [[] if op in ADDS else sources_of(graph, row) for row, op in enumerate(graph.ops)]
    first = [not (sources[row] or op in ADDS or op in _STILL) for row, op in enumerate(graph.ops)]
    bits = [one | begins for one, begins in zip(own, first, strict=True)]
    return gathered(graph.topological.tolist(), sources, bits, loops=bool(graph.edge_back.any()))
