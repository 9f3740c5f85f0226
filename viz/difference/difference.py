"""The difference of two runs of one graph: what moved, what crosses, what is held, and why a step is longer or shorter.

Each value is a pair: of the first run, and of the second. A difference is the second less the first, so that "+" means
that the second run has more. Nodes, tensors, devices and links are matched by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from simulator.errors import SimvizError
from simulator.notebook import Drawn
from simulator.shapes.unknown import Unsized
from simulator.units import show_nanos
from simulator.wording import counted, cut_off, ending, repr_of, some
from viz.difference.explanation import Part, PathRow, by_run, parts_of, shortest
from viz.difference.outline import OP, Crossing, DeviceUse, Outline, PathPart, names_of, unlike
from viz.difference.scene_outline import outline
from viz.difference.trainings import TrainingDifference, compare_trainings, sentences
from viz.scene import Scene

NARROW = 40  # letters of the name of a run, or of what is unlike, in a line that is cut
Pair: TypeAlias = tuple[int, int]
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class MovedNode:
    """A node that the two runs place on different devices."""

    node: str
    devices: tuple[str, str]  # full names
    runs: bool  # it takes part in a step of either run, as far as that is known


@dataclass(frozen=True, slots=True)
class TensorCrossings:
    """A tensor that crosses between devices a different number of times, or with a different number of bytes."""

    tensor: str  # "node:port", or "^node" for a control edge
    times: Pair
    nbytes: Pair

    @property
    def began(self) -> bool:
        """Tell whether it crosses in the second run alone."""
        return not self.times[0]

    @property
    def ceased(self) -> bool:
        """Tell whether it crosses in the first run alone."""
        return not self.times[1]


@dataclass(frozen=True, slots=True)
class LinkUse:
    """Bytes that cross a link in a step; 0 also where the run's cluster has no such link."""

    link: str
    nbytes: Pair


@dataclass(frozen=True, slots=True)
class DeviceUses:
    """One device in both runs; zeros also where the run's cluster has no such device."""

    device: str  # full name
    peak_bytes: Pair
    busy_ns: Pair


@dataclass(frozen=True, eq=False)
class Difference(Drawn):
    """The difference between two runs."""

    names: tuple[str, str]
    title: str  # of the graph
    makespan_ns: Pair
    nodes: int  # that both runs have
    alone: Pair  # nodes that one run has alone
    unlike: Mapping[str, tuple[str, str]]  # of what else both runs say: where they do not agree
    moved: tuple[MovedNode, ...]  # in the order of the first run's graph
    crossings: tuple[TensorCrossings, ...]  # that differ, the largest change of bytes first, ties by name
    links: tuple[LinkUse, ...]  # all that carry something, in the order of the clusters
    devices: tuple[DeviceUses, ...]  # of both clusters, in their order
    rows: tuple[PathRow, ...]  # what is on a critical path, the largest change first; they add up to the difference
    parts: tuple[Part, ...]  # the rows in groups, the largest change first; they add up to the difference
    runs: tuple[Scene | Outline, Scene | Outline]  # what was compared
    unsized: tuple[Unsized, Unsized]  # tensors of both steps; a makespan is a lower bound where there are some
    training: TrainingDifference | None = None  # of two trainings, of which all else shows one step

    def __repr__(self) -> str:
        if self.training is not None:
            return repr_of(self, " and ".join(self.names), sentences(self.training)[0].partition(": ")[2].rstrip("."))
        times = " and ".join(self.times)
        return repr_of(self, " and ".join(self.names), times, f"{counted(len(self.moved), 'node')} moved")

    @property
    def times(self) -> tuple[str, ...]:
        """Both makespans, each marked where it is a lower bound."""
        return tuple(f"{one.least}{show_nanos(ns)}" for one, ns in zip(self.unsized, self.makespan_ns, strict=True))

    @property
    def difference_ns(self) -> int:
        """By how much the second step is longer; negative where it is shorter."""
        return self.makespan_ns[1] - self.makespan_ns[0]

    def explanation(self, most: int = 5) -> tuple[Part, ...]:
        """At most so many parts, the last of which may be all else; their differences add up to that of the makespans.

        Raise SimvizError for fewer than one.
        """
        if most < 1:
            raise SimvizError(f"an explanation has at least one part, not {most}")
        return shortest(self.parts, most)

    def __str__(self) -> str:
        """The headline and the explanation, a line for each; of trainings first what differs between these."""
        sizes = dict.fromkeys(f"{one.sentences}." for one in self.unsized if one.sentences)
        lines = [headline(self), *(f"  {part}" for part in self.explanation()), *sizes]
        if self.training is not None:
            lines = [*sentences(self.training), "Of one step of the first client:", *(f"  {line}" for line in lines)]
        return "\n".join(lines)


def compare(a: Scene | Outline, b: Scene | Outline, *, names: tuple[str, str] | None = None) -> Difference:
    """The difference between two runs of one graph; `names` are those of the runs in sentences.

    Without `names` the runs are told apart by their labels, or by algorithm and cluster, as far as these differ. Two
    trainings are told apart first by their regimes. The difference is that of one step: of a training, that of its
    first client. Two trainings have theirs as `training`, and in the sentences. Raise SimvizError if the runs share no
    node, or if one has no critical path.
    """
    both = (a if isinstance(a, Outline) else outline(a), b if isinstance(b, Outline) else outline(b))
    first, second = both
    shared = [name for name in first.placement if name in second.placement]
    if not shared:
        raise SimvizError(f"{first.title} and {second.title} have no node in common; compare two runs of one graph.")
    rows, trained = _rows(first, second), compare_trainings(a, b)
    told = names or (trained.names if trained else names_of(first, second))
    return Difference(
        names=told,
        title=second.title,
        makespan_ns=(first.makespan_ns, second.makespan_ns),
        nodes=len(shared),
        alone=(len(first.placement) - len(shared), len(second.placement) - len(shared)),
        unlike=unlike(first, second),
        moved=_moved(first, second, shared),
        crossings=_crossings(first, second),
        links=tuple(
            LinkUse(link, (first.link_bytes.get(link, 0), second.link_bytes.get(link, 0)))
            for link in dict.fromkeys((*first.link_bytes, *second.link_bytes))
        ),
        devices=_devices(first, second),
        rows=rows,
        parts=parts_of(rows),
        runs=(a, b),
        unsized=(first.unsized, second.unsized),
        training=trained and replace(trained, names=told),
    )


def difference(scene: Scene) -> Difference | None:
    """The difference from the run that the scene is compared with, which comes first.

    None if there is none, or for trainings whose programs share no node.
    """
    if scene.against is None:
        return None
    try:
        return compare(scene.against, scene)
    except SimvizError:
        if scene.training is None:
            raise
        return None


def headline(found: Difference, *, narrow: bool = False) -> str:
    """A sentence: by how much the second step is longer, and what moved; `narrow` cuts off what comes before that."""
    (name, _), (before, after), change = found.names, found.times, found.difference_ns
    took = f"{show_nanos(abs(change))} {'longer' if change > 0 else 'shorter'} than its {before}"
    if not change:
        took = f"as long, {after}"
    running, said = sum(one.runs for one in found.moved), [took]
    idle = f" ({running:,} in the step)" if running != len(found.moved) else ""
    said.append(f"{counted(len(found.moved), 'node')} moved{idle}" if found.moved else "no node moved")
    began, ceased = sum(one.began for one in found.crossings), sum(one.ceased for one in found.crossings)
    if began or ceased:
        first = f"{counted(began, 'tensor')} began to cross" if began else ""
        then = f"{ceased:,} ceased" if began else f"{counted(ceased, 'tensor')} ceased to cross"
        said.append(", ".join(filter(None, (first, then if ceased else ""))))
    both = zip(found.names, found.alone, strict=True)
    said += [f"{counted(nodes, 'node')} only in {where}" for where, nodes in both if nodes]
    if found.training is None and any(map(_trains, found.runs)):
        said.append("of a training, one step of its first client counts")
    others = some([f"{key} {other}" for key, (other, _) in found.unlike.items()])
    if narrow:
        name, others = ending(name, NARROW), cut_off(others, NARROW)
    return f"Against {name}{f' ({others})' if others else ''}: {'; '.join(said)}."


def _trains(run: Scene | Outline) -> bool:
    """Tell whether it is a training, of which the path of one step is compared."""
    if isinstance(run, Outline):
        return run.circumstances.get("training", "none") != "none"
    return run.training is not None


def _moved(a: Outline, b: Outline, shared: list[str]) -> tuple[MovedNode, ...]:
    running = [one.taking_part for one in (a, b) if one.taking_part is not None]
    return tuple(
        MovedNode(name, (a.placement[name], b.placement[name]), any(name in names for names in running))
        for name in shared
        if a.placement[name] != b.placement[name]
    )


def _crossings(a: Outline, b: Outline) -> tuple[TensorCrossings, ...]:
    nothing = Crossing(0, 0)
    found = []
    for tensor in dict.fromkeys((*a.crossings, *b.crossings)):
        one, other = a.crossings.get(tensor, nothing), b.crossings.get(tensor, nothing)
        if one != other:
            found.append(TensorCrossings(tensor, (one.times, other.times), (one.nbytes, other.nbytes)))
    return tuple(sorted(found, key=lambda row: (-abs(row.nbytes[1] - row.nbytes[0]), row.tensor)))


def _devices(a: Outline, b: Outline) -> tuple[DeviceUses, ...]:
    nothing = DeviceUse(0, 0)
    rows = []
    for name in dict.fromkeys((*a.devices, *b.devices)):
        one, other = a.devices.get(name, nothing), b.devices.get(name, nothing)
        rows.append(DeviceUses(name, (one.peak_bytes, other.peak_bytes), (one.busy_ns, other.busy_ns)))
    return tuple(rows)


def _rows(a: Outline, b: Outline) -> tuple[PathRow, ...]:
    """A row for each subject of either path, the largest change first, ties by kind and name."""
    of_a, of_b = ({(part.kind, part.subject): part for part in run.path} for run in (a, b))
    rows = []
    for kind, subject in dict.fromkeys((*of_a, *of_b)):
        one, other = _part(of_a, kind, subject), _part(of_b, kind, subject)
        also = (kind != OP and subject in a.crossings, kind != OP and subject in b.crossings)
        rows.append(
            PathRow(
                kind=kind,
                subject=subject,
                places=(one.place, other.place),
                times=(one.times, other.times),
                ns=(one.ns, other.ns),
                crosses=also,
            )
        )
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference_ns), row.kind, row.subject)))


def _part(parts: Mapping[tuple[str, str], PathPart], kind: str, subject: str) -> PathPart:
    return parts.get((kind, subject)) or PathPart(kind, subject, "", 0, 0)


def as_json(found: Difference) -> Mapping[str, Any]:
    """The difference between another run and this one, as docs/json.md describes it. Any: JSON."""
    return {
        "name": found.names[0],
        "makespan_ns": by_run(found.makespan_ns),
        "makespan_is_lower_bound": by_run([one.tensors > 0 for one in found.unsized]),
        "nodes": found.nodes,
        "nodes_alone": by_run(found.alone),
        "unlike": {key: by_run(pair) for key, pair in found.unlike.items()},
        "moved": [{"node": one.node, **by_run(one.devices), "runs": one.runs} for one in found.moved],
        "crossings": [
            {"tensor": one.tensor, "times": by_run(one.times), "bytes": by_run(one.nbytes)} for one in found.crossings
        ],
        "links": {one.link: by_run(one.nbytes) for one in found.links},
        "devices": {
            one.device: {"peak_bytes": by_run(one.peak_bytes), "busy_ns": by_run(one.busy_ns)} for one in found.devices
        },
        "explanation": [
            {
                "sentence": part.sentence,
                "difference_ns": part.difference_ns,
                "ns": by_run(part.ns),
                "rows": [
                    {
                        "kind": row.kind,
                        "subject": row.subject,
                        "place": by_run(tuple(place or None for place in row.places)),
                        "times": by_run(row.times),
                        "ns": by_run(row.ns),
                    }
                    for row in part.rows
                ],
            }
            for part in found.parts
        ],
    }
