"""Choose what one step runs: feeds and fetches -> the nodes that they need.

TensorFlow places the whole graph and prunes afterwards; time and memory cover the pruned part, which is a `Step`.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulator.columns import Flags


@dataclass(frozen=True, eq=False)
class Step:
    """The part of a graph that one `Session.run` executes.

    A fed node stands for the value that the client hands in: it runs (at no cost) and its own inputs are not needed.
    """

    feeds: tuple[str, ...]  # tensor names "node:port", sorted
    fetches: tuple[str, ...]  # "node:port" for a tensor, "node" for a node that only has to run; sorted
    runs: Flags  # [N]
    rule: str  # one sentence: by which rule the step was chosen
