"""A call of the command, the runs that are made of it and of its changes, and how two of them are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any  # Any: JSON

from placement.algorithms import TABLE, searches
from simulator.graph.messages import GraphDef, MetaGraphDef, Proto
from simulator.graph.text_format import parse
from viz.command.again import command_again
from viz.command.options import parser
from viz.command.request import read_request
from viz.command.running import run
from viz.scene import Scene

Record = Mapping[str, Any]
ROOT = Path(__file__).parents[1]


class NothingSaid(Exception):
    """The law says nothing about this case."""


@dataclass(frozen=True)
class Call:
    """A call of the command: a graph and options, "" for a flag."""

    graph: str
    options: Mapping[str, str]

    def words(self) -> list[str]:
        """The command line behind the name of the command."""
        return [
            self.graph,
            *(word for name, value in self.options.items() for word in ((name, value) if value else (name,))),
        ]

    def asked(self) -> Any:
        """The options as the command reads them. Any: an argparse namespace."""
        return parser().read(self.words())

    def having(self, options: Mapping[str, str] = {}, *without: str, graph: Path | str | None = None) -> Call:
        """The call with other options or another graph; without a budget that its algorithms would not spend."""
        made = {name: value for name, value in self.options.items() if name not in without} | dict(options)
        asked = [*made.get("--compare", made.get("--algorithm", "search")).split(","), made.get("--against", "heft")]
        if not any(searches(one) for one in asked if one in TABLE):
            made.pop("--budget", None)
        return Call(self.graph if graph is None else str(graph), made)

    def __contains__(self, option: str) -> bool:
        return option in self.options

    def __str__(self) -> str:
        return " ".join(self.words())


@dataclass
class Case:
    """A call with the runs that were made of it and of its changes, and a folder for files."""

    call: Call
    folder: Path
    ran: dict[tuple[str, ...], Scene] = field(default_factory=dict)

    def scene(self, call: Call | None = None) -> Scene:
        """The values of a run."""
        call = call or self.call
        key = tuple(call.words())
        if key not in self.ran:
            asked = call.asked()
            scene = run(read_request(asked))
            self.ran[key] = replace(scene, command=command_again(asked, scene.cluster.name))
        return self.ran[key]

    @property
    def trains(self) -> bool:
        """Whether it is a training."""
        return "--training" in self.call

    def random(self, what: str) -> Random:
        """Chance that depends on the call alone."""
        return Random(f"{what} {self.call.words()[1:]}")

    def only(self, *, steps: bool = False, trainings: bool = False, without: tuple[str, ...] = ()) -> Scene:
        """The run of the case itself. Raise NothingSaid for other cases than those."""
        if (steps and self.trains) or (trainings and not self.trains) or any(name in self.call for name in without):
            raise NothingSaid
        return self.scene()


def message_of(path: str) -> tuple[Proto, str]:
    """The GraphDef or MetaGraphDef of a file. Raise NothingSaid for another."""
    raw, suffix = Path(path).read_bytes(), Path(path).suffix
    kind = MetaGraphDef if suffix == ".meta" else GraphDef
    try:
        if suffix == ".pbtxt":
            return parse(raw.decode(), GraphDef(), path, 1), suffix
        message = kind.FromString(raw)
    except Exception:  # noqa: BLE001  # whatever else the file holds
        raise NothingSaid from None
    if message.SerializeToString(deterministic=True) and (suffix == ".meta" or len(message.node)):
        return message, suffix
    raise NothingSaid


def compared(who: str, one: Any, other: Any, but: tuple[str, ...] = ()) -> Iterator[str]:
    """A sentence per member in which two objects differ, other than those that are named. Any: JSON."""
    one, other = _without(one, but), _without(other, but)
    for key in dict.fromkeys((*one, *other)):
        if one.get(key) != other.get(key):
            yield f"{who} has another {key}{_first(one.get(key), other.get(key))}"


def _without(found: Record, names: tuple[str, ...]) -> dict[str, Any]:
    kept = {key: value for key, value in found.items() if key not in names}
    for name in names:
        key, _, inner = name.partition(".")
        if inner and isinstance(kept.get(key), Mapping):
            kept[key] = _without(kept[key], (inner,))
    return kept


def _first(one: Any, other: Any) -> str:
    """Where two values differ first. Any: JSON."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        key = next(key for key in dict.fromkeys((*one, *other)) if one.get(key) != other.get(key))
        return f".{key}{_first(one.get(key), other.get(key))}"
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        at = next(at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
        return f"[{at}]{_first(one[at], other[at])}"
    return f": {str(one)[:90]} and {str(other)[:90]}"


def equal(what: str, *values: object) -> Iterator[str]:
    if any(value != values[0] for value in values[1:]):
        yield f"{what}: {' and '.join(str(value)[:100] for value in values)}"
