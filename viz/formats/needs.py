"""Needs of formats: things that a run may lack, said as soon as the graph is read, before anything takes long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from simulator.errors import SimvizError
from simulator.graph.graph import Graph
from simulator.graph.graph_def import check_meta_graph
from simulator.observed import SUFFIX
from viz.scene import Scene

SPLIT = ".placement.json"  # the placement of an instance, in the form of its file


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of a run that formats ask for."""

    title: str
    graph: Graph
    is_instance: bool
    trains: bool
    is_observed: bool  # or was to be, and could not
    is_compared: bool

    @classmethod
    def of(cls, scene: Scene) -> Facts:
        """The facts of a run that is over."""
        return cls(
            scene.title,
            scene.graph,
            is_instance=scene.instance is not None,
            trains=scene.training is not None,
            is_observed=scene.observed is not None or scene.unobserved is not None,
            is_compared=scene.against is not None,
        )


def check_needs(suffix: str, facts: Facts) -> None:
    """Raise SimvizError where a run of these facts lacks what the format shows."""
    check = _NEEDS.get(suffix)
    if check is not None:
        check(facts)


def _instance(facts: Facts) -> None:
    if not facts.is_instance:
        raise SimvizError(
            f"{SPLIT} is the placement of an instance in the form of its file; {facts.title} is a graph, so write .pb "
            "or .pbtxt or .meta"
        )


def _observed_step(facts: Facts) -> None:
    if not facts.is_observed:
        raise SimvizError("No step was observed, so there is none to write; add --observe.")


def _two_steps(facts: Facts) -> None:
    if facts.trains or not facts.is_compared:
        said = "a training's is in the report" if facts.trains else "add --against, such as single"
        raise SimvizError(f"A .comparison file draws the difference of two steps; {said}.")


def _one_step(facts: Facts) -> None:
    if facts.trains:
        raise SimvizError("A training's memory is a bound and has no curve; write .memory files of a step.")


def _meta_graph(facts: Facts) -> None:
    check_meta_graph(facts.graph)


_NEEDS: Mapping[str, Callable[[Facts], None]] = MappingProxyType(
    {
        SPLIT: _instance,
        SUFFIX: _observed_step,
        **dict.fromkeys((".comparison.svg", ".comparison.pdf"), _two_steps),
        **dict.fromkeys((".memory.svg", ".memory.pdf"), _one_step),
        ".meta": _meta_graph,
    }
)
