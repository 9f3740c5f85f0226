"""Make a case small on which the two sides differ: leave out whatever it differs without.

Nodes go in halves, quarters and so on, each with all that reads it, or bypassed: its readers read its input instead.
Then device strings, control inputs, colocations, feeds and fetches go one by one; last the names and the order of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace

import numpy as np

from simulator.errors import SimvizError
from simulator.graph.graph import Graph
from tests.difference.cases import Case
from tests.strategies import Rows

Row = tuple[str, str, str, tuple[str, ...], dict[str, object]]


def minimised(case: Case, differs: Callable[[Case], bool], *, tries: int = 600) -> Case:
    """The smallest case found for which `differs` still holds, with at most so many questions."""
    smaller = True
    while smaller:
        smaller = False
        for reduction in (_without_nodes, _bypassed, _plainer, _ends):
            proposals = reduction(case)
            proposal = next(proposals, None)
            while proposal is not None:
                if not tries:
                    return case
                tries -= 1
                taken = differs(proposal)
                if taken:
                    case, smaller = proposal, True
                try:
                    proposal = proposals.send(taken)
                except StopIteration:
                    proposal = None
    for proposal in _renamed(case):
        case = proposal if differs(proposal) else case
    return case


Proposals = Generator[Case, bool, None]  # told of each whether it was taken


def _rows(graph: Graph) -> list[Row]:
    return [(node.name, node.op, node.requested, node.inputs, dict(node.attrs)) for node in graph.nodes()]


def _made(case: Case, rows: list[Row]) -> Case | None:
    """The case with another graph; None if simviz does not take it."""
    made = Rows()
    for name, op, device, inputs, attrs in rows:
        made.add(name, op, inputs, device=device, **attrs)
    there = {row[0] for row in rows}
    try:
        graph = made.built(library=case.given.library, producer=case.given.producer)
    except SimvizError:
        return None
    feeds = tuple(name for name in case.feeds if name.partition(":")[0] in there)
    fetches = tuple(name for name in case.fetches if name.partition(":")[0] in there)
    if not fetches:
        outdegree = np.bincount(graph.edge_src, minlength=len(graph))
        fetches = tuple(graph.names[row] for row in np.flatnonzero(outdegree == 0).tolist())
    return replace(case, given=graph, feeds=feeds, fetches=fetches) if fetches else None


def _node(text: str) -> str:
    return text.removeprefix("^").partition(":")[0]


def _without_nodes(case: Case) -> Proposals:
    rows = _rows(case.given)
    size = max(1, len(rows) // 2)
    while size:
        end = len(rows)  # from the end, where nobody reads
        while end > 0:
            kept = _closed(rows, {row[0] for row in rows[max(0, end - size) : end]})
            proposal = _made(case, kept) if 0 < len(kept) < len(rows) else None
            if proposal is not None and (yield proposal):
                case, rows = proposal, kept
            end = min(end - size, len(rows))
        size //= 2


def _closed(rows: list[Row], gone: set[str]) -> list[Row]:
    """The rows without these nodes and without all that reads them; who only waits for them stays."""
    gone = set(gone)
    grown = True
    while grown:
        more = {
            name
            for name, _, _, inputs, _ in rows
            if name not in gone and any(_node(text) in gone for text in inputs if text[0] != "^")
        }
        grown = bool(more)
        gone |= more
    return [
        (name, op, device, tuple(text for text in inputs if _node(text) not in gone), attrs)
        for name, op, device, inputs, attrs in rows
        if name not in gone
    ]


def _bypassed(case: Case) -> Proposals:
    rows = _rows(case.given)
    for name, op, _, inputs, _ in _rows(case.given):
        data = [text for text in inputs if text[0] != "^" and _node(text) != name]
        if op in ("Merge", "NextIteration", "Enter", "Exit", "Switch"):
            continue
        for text in data[:2]:
            swap = {name: text, f"{name}:0": text}
            made = [
                (other, kind, device, tuple(swap.get(one, one) for one in taken if one != f"^{name}"), attrs)
                for other, kind, device, taken, attrs in rows
                if other != name
            ]
            proposal = _made(case, made)
            if proposal is not None and (yield proposal):
                case, rows = proposal, made
                break


def _plainer(case: Case) -> Proposals:
    rows = _rows(case.given)
    for at in range(len(rows)):
        for simpler in _simpler(rows[at]):
            made = [*rows[:at], simpler, *rows[at + 1 :]]
            proposal = _made(case, made)
            if proposal is not None and (yield proposal):
                case, rows = proposal, made


def _simpler(row: Row) -> Iterator[Row]:
    name, op, device, inputs, attrs = row
    if device:
        yield name, op, "", inputs, attrs
    for text in inputs:
        if text[0] == "^":
            yield name, op, device, tuple(one for one in inputs if one != text), attrs
    if "_class" in attrs:
        yield name, op, device, inputs, {key: attrs[key] for key in attrs if key != "_class"}


def _ends(case: Case) -> Proposals:
    for name in case.feeds:
        proposal = replace(case, feeds=tuple(one for one in case.feeds if one != name))
        case = proposal if (yield proposal) else case
    for name in case.fetches:
        proposal = replace(case, fetches=tuple(one for one in case.fetches if one != name))
        case = proposal if proposal.fetches and (yield proposal) else case
    if not case.soft:
        yield replace(case, soft=True)


def _renamed(case: Case) -> Iterator[Case]:
    """Rows in the order of ids; then short names too."""
    graph = case.given
    rows = [_rows(graph)[row] for row in graph.order.tolist()]
    short = {row[0]: f"n{at}" for at, row in enumerate(rows)}
    renamed: list[Row] = []
    for name, op, device, inputs, attrs in rows:
        renamed.append((short[name], op, device, tuple(_renaming(text, short) for text in inputs), attrs))
    feeds, fetches = (tuple(_renaming(text, short) for text in names) for names in (case.feeds, case.fetches))
    for proposal in (_made(case, rows), _made(replace(case, feeds=feeds, fetches=fetches), renamed)):
        if proposal is not None:
            yield proposal


def _renaming(text: str, short: Mapping[str, str]) -> str:
    return ("^" if text[0] == "^" else "") + short[_node(text)] + _port(text)


def _port(text: str) -> str:
    _, colon, port = text.partition(":")
    return colon + port
