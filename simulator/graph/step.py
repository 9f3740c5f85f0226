"""The step: the nodes that feeds and fetches need, and the tensors that the client exchanges with them.

TensorFlow places the whole graph and prunes afterwards. Time and memory cover the pruned part, which is a `Step`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass

import numpy as np

from simulator.columns import Flags, Ids, flags, ids, positions
from simulator.errors import GraphError
from simulator.graph.captured import captures
from simulator.graph.dtypes import REF, RESOURCE
from simulator.graph.graph import Graph
from simulator.graph.purposes import apply_nodes, computes, filling_nodes, groups_of, returned, updates, waiting
from simulator.graph.set_cover import smallest_cover
from simulator.graph.traversal import PLACEHOLDERS, fan_in, loop_depths, own_sinks
from simulator.wording import counted, repr_of, some

SERVING = "serving_default"
_RETURNED = "no train op: what a traced function returns, after all its updates or reads of variables"
INIT_SIGNATURE = "__saved_model_init_op"  # run once after loading; tensorflow/cc/saved_model/constants.h


@dataclass(frozen=True, eq=False)
class Step:
    """The part of a graph that one `Session.run` executes.

    A fed tensor comes from the client, so its node runs only if something else needs it. A fetched tensor goes to the
    client. A fetch of a fed tensor is no part of the step, as the client has it already.
    """

    feeds: tuple[str, ...]  # tensor names "node:port", sorted
    fetches: tuple[str, ...]  # "node:port" for a tensor, "node" for a node that only has to run; sorted
    runs: Flags  # [N]
    rule: str  # a sentence: the rule that chose the step

    def __repr__(self) -> str:
        runs = f"{int(self.runs.sum()):,} of {counted(len(self.runs), 'node')} run"
        feeds, fetches = some(self.feeds, 2) or "nothing", some(self.fetches, 2) or "nothing"
        return repr_of(self, runs, f"feeds {feeds}", f"fetches {fetches}")


def choose_step(
    graph: Graph,
    *,
    feeds: str | Sequence[str] = (),
    fetches: str | Sequence[str] | None = None,
    signature: str | None = None,
) -> Step:
    """Choose the feeds, the fetches and the nodes that run.

    Fetches and feeds are written "node:port" (a tensor) or "node"; a single one needs no list. A fetched node only has
    to run; a fed node has all its outputs fed. Placeholders that the fetches need are fed even if they are not named. A
    tensor that is both fed and fetched is returned as fed and needs no node, as in TensorFlow's Python session. Without
    fetches and signature the first rule that applies decides:

    1. the `train_op` collection of the MetaGraph, or the one group (a NoOp) that runs all of it with more;
    2. of a traced function that captures variables 5., or the fewest sinks after all updates if it returns nothing;
    3. the smallest set of sinks whose fan-in holds every optimizer update (Apply op), in called functions too;
       1. and 3. with the fewest sinks that fill the accumulators, or the variables, from which gradients are taken;
    4. a signature: `serving_default`, else the first by name;
    5. what a traced function returns after all its updates of variables, also plain ops as of Keras's optimizers.
       Without updates it is what the function returns after all reads of those that it captures;
    6. all sinks that are not initialisers, savers, readiness checks, queue runners, summaries or leftovers. Where calls
       were expanded, they are the sinks before that, as sinks inside a body are not asked for;
    7. all sinks.

    Raises GraphError, with the nearest names, for an unknown node, port or signature. It also refuses a value that is
    no name, fetches together with a signature, and a graph without nodes.
    """
    if not len(graph):
        raise GraphError(f"{graph.source} has no nodes, so there is no step to run.")
    feeds = _listed("feeds", feeds)
    fetches = None if fetches is None else _listed("fetches", fetches)
    if fetches is not None and signature is not None:
        raise GraphError(f"{graph.source}: give fetches or the signature {signature!r}, not both.")
    if fetches is not None:
        if not fetches:
            raise GraphError(f"{graph.source}: the list of fetches is empty; name at least one node or tensor.")
        return _step(graph, feeds, fetches, "the fetches that were asked for")
    if signature is not None:
        return _signature(graph, feeds, signature, f"the signature {signature!r} that was asked for")
    return _default(graph, feeds)


def _listed(what: str, names: str | Iterable[str]) -> tuple[str, ...]:
    """The names, or a single name, as a tuple. Raises GraphError for a value that is no name."""
    found = (names,) if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if not all(isinstance(one, str) for one in found):
        raise GraphError(f"{what} are nodes and tensors by name, not {names!r}.")
    return found


def _default(graph: Graph, feeds: Sequence[str]) -> Step:
    listed = [name.partition(":")[0] for name in graph.train_ops]
    trained = [name for name in listed if name in graph.index]
    if trained:
        absent, rows = len(listed) - len(trained), [graph.row(name) for name in trained]
        rule = "the graph's train_op collection" + (f" ({absent} of its entries not in the graph)" if absent else "")
        groups = groups_of(graph, rows)
        names = [repr(graph.names[row]) for row in groups]
        if len(groups) == 1:
            return _training(graph, feeds, groups, f"{names[0]}, which groups {rule} with more")
        if groups:
            rule += f"; {some(names)} run it with more: fetch the one that is the step"
        return _training(graph, feeds, rows, rule)
    ends = own_sinks(graph)
    if captures(graph) and not graph.signatures and (step := _function(graph, feeds, ends)) is not None:
        return step
    applied = apply_nodes(graph)
    covering = _cover(graph, applied) if applied else []
    if covering:
        rule = f"the fewest sinks whose fan-in holds every optimizer update ({counted(len(applied), 'Apply op')})"
        return _training(graph, feeds, covering, rule)
    named = sorted(name for name in graph.signatures if name != INIT_SIGNATURE and graph.signatures[name].outputs)
    if named:
        chosen = SERVING if SERVING in named else named[0]
        return _signature(graph, feeds, chosen, f"no train op: the signature {chosen!r}")
    if results := returned(graph, ends):
        return _step(graph, feeds, _fetched(graph, results), _RETURNED)
    if working := computes(graph, ends):
        rule = "no train op: all sinks"
        if left_out := len(ends) - len(working):
            rule += (
                f" but {left_out} that only initialise, save, check readiness, run queues, summarise or are left over"
            )
        return _step(graph, feeds, _fetched(graph, working), rule)
    rule = "no train op, and every sink only initialises, saves, checks, feeds queues or summarises: all sinks"
    return _step(graph, feeds, _fetched(graph, ends or range(len(graph))), rule)


def _function(graph: Graph, feeds: Sequence[str], ends: list[int]) -> Step | None:
    """The step of a traced function's body, which runs all that changes variables; None where nothing says it."""
    if results := returned(graph, ends):
        return _step(graph, feeds, _fetched(graph, results), _RETURNED)
    changes = [] if waiting(graph, ends) else updates(graph)
    covering = _cover(graph, changes) if changes else []
    if not covering:
        return None
    rule = f"a function that returns nothing: the fewest sinks after all of its {counted(len(changes), 'update')}"
    return _step(graph, feeds, [graph.names[row] for row in covering], rule)


def _training(graph: Graph, feeds: Sequence[str], rows: list[int], rule: str) -> Step:
    """The step that runs these nodes and fills what their gradients are taken from."""
    filling = filling_nodes(graph, rows)
    also = _cover(graph, filling) if filling else []
    names = [graph.names[row] for row in (*rows, *also)]
    return _step(graph, feeds, names, f"{rule}, and what fills its gradient accumulators" if also else rule)


def _cover(graph: Graph, rows: list[int]) -> list[int]:
    """The fewest sinks; an unread ReadVariableOp accompanies an assignment and is no sink to choose."""

    def preferred(candidates: list[int]) -> list[int]:
        return [row for row in computes(graph, candidates) if graph.ops[row] != "ReadVariableOp"]

    return smallest_cover(graph, rows, preferred)


def _fetched(graph: Graph, rows: Iterable[int]) -> list[str]:
    """The nodes' values; a node without outputs, or with references or handles alone, only runs."""
    fetches = []
    for row in rows:
        values = [
            at for at in graph.outputs(row) if graph.tensor_dtype[at] < REF and graph.tensor_dtype[at] != RESOURCE
        ]
        fetches += [graph.tensor_name(at) for at in values] or [graph.names[row]]
    return fetches


def _signature(graph: Graph, feeds: Sequence[str], name: str, rule: str) -> Step:
    found = graph.signatures.get(name)
    if found is None:
        if not graph.signatures:
            raise GraphError(f"{graph.source} has no signatures; name fetches instead of {name!r}.")
        known = ", ".join(map(repr, sorted(graph.signatures)))
        raise GraphError(f"{graph.source} has no signature {name!r}; it has {known}.")
    return _step(graph, (*feeds, *found.inputs.values()), tuple(found.outputs.values()), rule)


def _step(graph: Graph, feeds: Sequence[str], fetches: Sequence[str], rule: str) -> Step:
    fed = {tensor for name in feeds for tensor in _fed(graph, name)}
    _check_outside_loops(graph, fed)
    targets = {_read(graph, name) for name in fetches}
    runs, wanted = _pruned(graph, targets, fed)
    placeholders = [row for row in np.flatnonzero(runs).tolist() if graph.ops[row] in PLACEHOLDERS]
    handed = fed | {at for row in placeholders for at in graph.outputs(row)}
    if handed != fed:
        runs, wanted = _pruned(graph, targets, handed)
    return Step(tuple(sorted(graph.tensor_name(tensor) for tensor in handed)), wanted, runs, rule)


def _pruned(graph: Graph, targets: Set[tuple[int, int | None]], fed: Collection[int]) -> tuple[Flags, tuple[str, ...]]:
    """The nodes that run for the targets, and the targets' sorted names without those that are fed."""
    wanted = [(row, port) for row, port in targets if port is None or int(graph.tensor_ptr[row]) + port not in fed]
    names = [graph.names[row] if port is None else f"{graph.names[row]}:{port}" for row, port in wanted]
    return fan_in(graph, [row for row, _ in wanted], fed), tuple(sorted(names))


def _fed(graph: Graph, name: str) -> list[int]:
    row, port = _read(graph, name)
    outputs = graph.outputs(row)
    if not outputs:
        raise GraphError(f"{graph.source}: {graph.names[row]!r} has no output, so it cannot be fed.", node=name)
    return [outputs[port]] if port is not None else list(outputs)


def _check_outside_loops(graph: Graph, fed: Iterable[int]) -> None:
    """Raise GraphError for a fed tensor inside a loop, as TensorFlow does: each iteration has a value of its own."""
    made = [tensor for tensor in fed if graph.ops[graph.tensor_node[tensor]] not in PLACEHOLDERS]
    depth = loop_depths(graph) if made else []
    for tensor in made:
        if depth[node := int(graph.tensor_node[tensor])]:
            name, inside = graph.tensor_name(tensor), graph.names[node]
            raise GraphError(f"{graph.source}: {name!r} is made inside a loop, so it cannot be fed.", node=inside)


def _read(graph: Graph, text: str) -> tuple[int, int | None]:
    """Row and port of "node:port", row and None of "node"."""
    name, colon, port = text.rpartition(":")
    if not colon or text in graph.index:
        return graph.row(text.removeprefix("^")), None
    row = graph.row(name)
    outputs = len(graph.outputs(row))
    if not (port.isascii() and port.isdigit()) or len(port) > 9 or int(port) >= outputs:
        there = {0: f"; write {name!r} to only run it", 1: f", {name}:0"}
        raise GraphError(
            f"{graph.source} has no tensor {text!r}: {name!r} has {counted(outputs, 'output')}"
            f"{there.get(outputs, f', {name}:0 to {name}:{outputs - 1}')}.",
            node=name,
        )
    return row, int(port)


# --- exchange with the client ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Exchange:
    """The tensors between the client and a step. Axes: F fed tensors with a reader, R fetched tensors, E edges.

        producer ─╳─▶ reader                 producer ───▶ reader
        client ──fed──▶ reader                   └──fetched──▶ client

    A fed tensor comes from the client and no longer from its producer, which then runs only if something else needs it
    (`tensorflow/core/graph/subgraph.cc`).
    """

    fed: Ids  # [F] tensor, in order of the step's feeds
    fed_place: Ids  # [F] position among the step's feeds
    fetched: Ids  # [R] tensor, in order of the step's fetches
    of_edge: Ids  # [E] row of `fed` where the client replaces the source, -1: the source stays, or the edge is pruned
    edges: Ids  # [..] the edges of the step, ascending
    replaced: Flags  # [N] fed placeholders: the client replaces their control edges too

    def __repr__(self) -> str:
        return repr_of(self, f"{len(self.fed)} fed", f"{len(self.fetched)} fetched")

    @property
    def tensors(self) -> Ids:
        """[F + R] the fed tensors, then the fetched ones."""
        return ids(np.concatenate([self.fed, self.fetched]))


def exchange(graph: Graph, step: Step) -> Exchange:
    """The exchange between the client and the step.

    A fed tensor takes over the data edges of its producer's output. A fed placeholder no longer runs, so its control
    edges come from the client too. A fed tensor without a reader is left out. A fetch without a port is no tensor: its
    node only has to run.
    """
    given = [graph.tensor_row(name) for name in step.feeds]
    by_tensor = positions(given, len(graph.tensor_node) + 1)  # the last row answers for control edges
    by_node = np.full(len(graph), -1)
    for row, tensor in enumerate(given):
        if graph.ops[node := int(graph.tensor_node[tensor])] in PLACEHOLDERS:
            by_node[node] = row
    place = np.where(graph.edge_tensor < 0, by_node[graph.edge_src], by_tensor[graph.edge_tensor])
    alive = step.runs[graph.edge_dst] & ((place >= 0) | step.runs[graph.edge_src])
    read = np.unique(place[alive & (place >= 0)])
    row_of = positions(read, len(given) + 1)
    return Exchange(
        fed=ids([given[at] for at in read.tolist()]),
        fed_place=ids(read),
        fetched=ids([graph.tensor_row(name) for name in step.fetches if is_tensor(graph, name)]),
        of_edge=ids(row_of[np.where(alive, place, -1)]),
        edges=ids(np.flatnonzero(alive)),
        replaced=flags(by_node >= 0),
    )


def is_tensor(graph: Graph, fetch: str) -> bool:
    """Tell whether a fetch of a Step is a tensor, "node:port", and no node that only has to run."""
    return ":" in fetch and fetch not in graph.index
