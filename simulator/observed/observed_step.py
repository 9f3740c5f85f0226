"""One observed step: what each op of a graph did when TensorFlow ran it once on made-up inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from simulator.graph.graph import Shape
from simulator.units import Nanos
from simulator.wording import counted, repr_of


class SeenShape(NamedTuple):
    """A shape that an output had, and in how many runs."""

    runs: int
    shape: Shape


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """The runs and outputs of one node."""

    op: str
    runs: int  # once per iteration; runs in which its inputs were dead do not count
    ns: Nanos  # mean over its runs, -1: not measured, as its outputs were made up
    scratch_bytes: int  # memory that it held only while it ran: most of all its runs
    outputs: Mapping[int, tuple[SeenShape, ...]]  # port -> most frequent first; a port that was never live is missing

    def alive(self, port: int) -> int:
        """The number of runs in which an output had a value."""
        return sum(one.runs for one in self.outputs.get(port, ()))


@dataclass(frozen=True, eq=False)
class ObservedStep:
    """One step of a graph that really ran on a machine's CPU."""

    graph: str  # its source, for messages
    tensorflow: str  # version
    machine: str  # its processor
    digest: str  # of the nodes that ran, by `fitting.digest`
    feeds: Mapping[str, Shape]  # of what was made up, "node:port" -> shape: feeds, dequeues, iterators
    fetches: tuple[str, ...]
    synthetic: tuple[str, ...]  # variables without an initialiser that runs, whose values were made up
    step_ns: Nanos  # the step without tracing; 0: it ran only once
    traced_ns: Nanos  # the traced step
    nodes: Mapping[str, ObservedNode]  # by name
    source: str = "the observed step"  # the file, for messages

    def __repr__(self) -> str:
        return repr_of(self, f"of {self.graph}", counted(len(self.nodes), "node"), f"TensorFlow {self.tensorflow}")

    @cached_property
    def tensors(self) -> int:
        """The number of outputs that had a value."""
        return sum(len(node.outputs) for node in self.nodes.values())
