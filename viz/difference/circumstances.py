"""Circumstances of a run beside algorithm and cluster, in words: where those of two runs differ, they name a cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.graph.graph import Shape
from simulator.shapes.feeds import written
from simulator.wording import some

MADE_OF = ("training", "microbatches", "observed nodes", "measured ops", "profiled ops", "modelled ops")
_SIMULATED = ("order", "contention", "protocol")  # what is compared of how a step was simulated


def circumstances(
    fetches: Sequence[str],
    fed: Mapping[str, Shape | None],
    simulation: Mapping[str, object],
    facts: Mapping[str, Any],
    made: Mapping[str, str],
    fits: bool | None,
) -> Mapping[str, str]:
    """The circumstances of a run: `made_of`, facts as `step_facts` has them, feeds, fetches, and the simulation.

    Also whether it `fits` in memory. What decides most of a difference comes first. What is unknown is left out.
    Any: JSON.
    """
    batch, trips, ways = facts.get("batch"), facts.get("trips") or {}, facts.get("branches") or {}
    each = {f"{count} of {loop}": str(count) for loop, count in trips.items()}
    found: dict[str, object] = {} if fits is None else {"memory": "large enough" if fits else "too small"}
    found |= {**made, "batch": str(batch) if batch else ""}
    found["trips"] = ", ".join(each if len(set(each.values())) > 1 else dict.fromkeys(each.values()))
    found |= {f"branch {name}": way for name, way in ways.items()}
    found |= {f"{name} fed": written(shape) for name, shape in fed.items() if shape is not None}
    found["fetches"] = some(fetches)
    found |= {key: simulation.get(key) for key in _SIMULATED}
    return {key: text for key, text in found.items() if isinstance(text, str) and text}


def made_of(
    *,
    regime: str | None,
    microbatches: int,
    observed_nodes: int,
    measured_ops: int,
    profiled_ops: int,
    modelled_ops: int,
) -> Mapping[str, str]:
    """Of which training it is a step, if of any, of how many microbatches, and where its sizes and times are from."""
    counts = (f"{count:,}" for count in (microbatches, observed_nodes, measured_ops, profiled_ops, modelled_ops))
    return dict(zip(MADE_OF, (regime or "none", *counts), strict=True))
