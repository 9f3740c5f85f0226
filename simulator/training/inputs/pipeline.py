"""Input pipelines as values: an input, its producer and its clients; and rates as users write them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from simulator.costs.table import MAX_OP_NS
from simulator.errors import SimvizError
from simulator.training.inputs.producers import Producer
from simulator.training.recognition.sync_ops import ResourceKey
from simulator.units import SECOND_NS, Nanos, show_figure, show_share

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.training.disturbances.disturbed import Slower


FEED = "feed"  # the family of clients' feeds, and its name for users


@dataclass(frozen=True, slots=True)
class InputPipeline:
    """An input that some clients share."""

    key: ResourceKey  # of a queue or an iterator; family "feed": the feed of one client
    producer: Producer
    device: int  # row of the cluster's device on which the threads run
    kept_by: int  # row of the device that has the queue
    capacity: int  # elements; -1: without bound
    reserve: int = 0  # elements that must remain
    examples: int = 0  # of an element; 0: unknown
    given: bool = False  # the rate was given, not estimated
    clients: tuple[int, ...] = ()  # their sessions fill it: the threads begin with the first

    @property
    def words(self) -> str:
        """ "queue batch/fifo_queue makes 1,200 examples/s; DecodeJpeg 78 % of its work"."""
        what = "what is fed comes at" if self.key.family == FEED else f"{self.key.family} {self.key.name} makes"
        per_s = self.producer.elements_per_s * (self.examples or 1)
        said = f"{what} {show_figure(per_s)} {'examples' if self.examples else 'elements'}/s"
        if self.given:
            return f"{said}, as given"
        largest, stage = self.producer.largest(), self.producer.stage
        at = f", held up by {stage}" if stage not in ("", self.key.name) else ""
        return f"{said}{at}" + (f"; {largest[0]} {show_share(largest[1])} of its work" if largest else "")


class Draw(NamedTuple):
    """An op that takes elements of an input."""

    node: int  # row of the client's pieces
    input: int  # row of `InputPipelines.pipelines`
    amount: int  # elements


@dataclass(frozen=True, eq=False)
class InputPipelines:
    """All inputs of a run that may run dry. Axis: C clients."""

    pipelines: tuple[InputPipeline, ...] = ()
    draws: tuple[tuple[Draw, ...], ...] = ()  # [C]
    notes: tuple[str, ...] = ()  # on inputs of unknown rate


NO_INPUTS = InputPipelines()  # nothing ever runs dry


def faster(inputs: InputPipelines, keys: Collection[ResourceKey], factor: int) -> InputPipelines:
    """The same pipelines, some of them so many times as fast."""
    return _paced(inputs, [Fraction(1, factor) if one.key in keys else Fraction(1) for one in inputs.pipelines])


def slowed_inputs(inputs: InputPipelines, cluster: Cluster, slower: Slower) -> InputPipelines:
    """The same pipelines on a cluster with slower devices (`Disturbed.cluster` and `slower`)."""
    kinds = [cluster.devices[one.device].kind for one in inputs.pipelines]
    return _paced(inputs, [slower[kind][1] if kind in slower else Fraction(1) for kind in kinds])


def _paced(inputs: InputPipelines, factors: Sequence[Fraction]) -> InputPipelines:
    """The same pipelines, each with its period times a factor, rounded up."""
    paced = []
    for one, factor in zip(inputs.pipelines, factors, strict=True):
        period_ns = min(MAX_OP_NS, -(-one.producer.period_ns * factor.numerator // factor.denominator))
        paced.append(replace(one, producer=replace(one.producer, period_ns=period_ns)))
    return replace(inputs, pipelines=tuple(paced))


# ---- rates as users write them: "1200/s", "batch/fifo_queue=1200/s", "none" ------------------------------------------


NEVER_DRY = "none"
MAX_PER_S = 10**8
MIN_PER_S = 10**-6

_RATE = re.compile(r"([0-9]+(?:\.[0-9]*)?(?:e[0-9]+)?)\s*(?:examples)?\s*/\s*s", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rate:
    """The examples that an input hands out per second."""

    text: str
    name: str | None  # of a queue, an iterator or a fed tensor, "feed"; None: all of them
    examples_per_s: float | None  # None: it never runs dry

    def element_ns(self, examples: int) -> Nanos:
        """The time of an element of so many examples, rounded up."""
        assert self.examples_per_s is not None
        return max(1, -int(-examples * SECOND_NS // self.examples_per_s))


def read_rate(text: str) -> Rate:
    """Read one rate. Raises SimvizError for anything else."""
    name, equals, said = text.rpartition("=")
    said = said.strip()
    if equals and not name.strip():
        raise SimvizError(f"{text!r} names no input; write NAME=1200/s, or 1200/s for all of them")
    if said == NEVER_DRY:
        return Rate(text, name.strip() or None, None)
    found = _RATE.fullmatch(said)
    rate = float(found[1].replace(",", "")) if found else 0.0
    if not MIN_PER_S <= rate <= MAX_PER_S:
        raise SimvizError(
            f"{text!r} is no rate of examples; write 1200/s, NAME=1200/s for one queue or iterator, or none: never dry"
        )
    return Rate(text, name.strip() or None, rate)
