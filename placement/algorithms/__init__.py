"""The table of placement algorithms: one algorithm, one module, one function of the same name, one source.

Each function takes a Problem and returns a Plan. The table imports no algorithm, since `simviz --help` reads it, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from placement.plan import Algorithm


class Entry(NamedTuple):
    """One algorithm."""

    help: str  # its line in `simviz --help`
    by_cost: bool = True  # it reads costs and memory, so groups that no device has a cost or room for are refused first
    searches: bool = False  # it goes on for as long as its effort allows
    replaceable: bool = True  # `single` may take its place: where one device is faster, or where it runs out of memory


TABLE: Mapping[str, Entry] = MappingProxyType(
    {
        "tensorflow": Entry("as TensorFlow's own placer would", by_cost=False, replaceable=False),
        "requested": Entry(
            "the graph's own device strings, all else on the default device", by_cost=False, replaceable=False
        ),
        "single": Entry("everything on the best single device, as far as it may", replaceable=False),
        "whitepaper": Entry("by simulated finish time (TensorFlow white paper 2015)"),
        "heft": Entry("by upward rank and simulated finish time (Topcuoglu 2002)"),
        "search": Entry(
            "the best that a search finds, at least the best of those it asks", searches=True, replaceable=False
        ),
        "exact": Entry(
            "the optimum of a small step, or how far off (CP-SAT; [exact])", searches=True, replaceable=False
        ),
        "cpop": Entry("the critical path on one device (Topcuoglu 2002)"),
        "peft": Entry("by an optimistic cost table (Arabnejad 2014)"),
        "etf": Entry("the op that can start first (Hwang 1989)"),
        "m_topo": Entry("equal shares of memory in topological order (Baechi 2020)"),
        "m_etf": Entry("as etf, under memory (Baechi 2020)"),
        "m_sct": Entry("as m_etf, near favourite readers (Baechi 2020)"),
    }
)


def searches(algorithm: object) -> bool:
    """Tell whether an effort may matter to an algorithm: those of other packages and functions may read theirs."""
    return algorithm not in tuple(TABLE) or TABLE[str(algorithm)].searches


def judges(algorithm: object) -> bool:
    """Tell whether the options of a simulation may matter to the result: plans are judged by it."""
    return searches(algorithm) or TABLE[str(algorithm)].replaceable


def load(name: str) -> Algorithm:
    """The function of an algorithm of the table."""
    algorithm: Algorithm = getattr(import_module(f"{__name__}.{name}"), name)
    return algorithm
