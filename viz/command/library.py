"""The command as one function, for notebooks and programs: it prints nothing, and writes only on request."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, TypeAlias

from simulator.arguments import shown
from simulator.errors import SimvizError
from simulator.notebook import remember
from viz.command.again import command_again
from viz.command.options import parser
from viz.command.request import read_request
from viz.command.running import run as run_request
from viz.command.summary import summarise
from viz.difference.difference import Difference, difference
from viz.formats.drawing import FOLDERS, draw
from viz.formats.json_object import to_json
from viz.formats.output import check_place, check_suffix, write
from viz.pictures.look import read_look
from viz.scene import Scene

if TYPE_CHECKING:
    from placement.plan import Algorithm
    from simulator.costs.modelled import CostModel
    from simulator.costs.profile import Profile
    from simulator.observed.observed_step import ObservedStep
    from viz.command.request import ClusterSource

Text: TypeAlias = str | os.PathLike[str]
Texts: TypeAlias = str | Sequence[str]

_OPTIONS = {
    "fetches": "fetch",
    "feeds": "feed",
    "branches": "branch",
    "inputs": "input",
    "pins": "pin",
    "limits": "limit",
}  # keyword -> option, where these differ
_IN_MEMORY = ("graph", "cluster", "algorithm", "profile", "observation", "costs")  # whose value may be an object
_FLAGS = ("soft", "grappler", "keep_calls", "ignore_devices", "observe", "refine")  # the options without a value


@dataclass(frozen=True, eq=False)
class Result(Scene):
    """All values of one run, with the texts and files that the command makes of them."""

    def __post_init__(self) -> None:
        trained = self.training
        remember(self, self.graph, self.assignment, self.trace, *((trained, trained.training) if trained else ()))

    def summary(self, *, verbose: bool = False) -> str:
        """The command's summary in ten lines, or with `verbose` every fact on a line of its own."""
        return summarise(self, verbose=verbose)

    def __repr__(self) -> str:  # a dataclass makes its own where the class itself has none
        return super().__repr__()

    @property
    def difference(self) -> Difference | None:
        """The difference from the run that `against` names, which comes first; None without it."""
        return difference(self)

    def to_json(self) -> str:
        """The JSON object that `--json` writes, described in docs/json.md."""
        return to_json(self)

    def write(self, *paths: Text, picture: str | None = None) -> None:
        """Write the files of `-o`; the suffix is the format. If one can't be drawn, none is written.

        `picture` is that of the command, such as "width=180mm,legend=no". Raise SimvizError for an unknown suffix and
        for a place that cannot be written to.
        """
        look = read_look(picture)
        given = [_path(path) for path in paths]
        suffixes = [check_suffix(path) for path in given]
        for path, suffix in zip(given, suffixes, strict=True):
            check_place(path, folder=suffix in FOLDERS)
        drawn = [draw(self, suffix, look) for suffix in suffixes]
        for path, content in zip(given, drawn, strict=True):
            write(path, content)


def _path(path: object) -> str:
    found = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(found, str):
        raise SimvizError(f"a file to write is {shown(found)}; give a text or a path")
    return found


def run(
    graph: object,
    *,
    cluster: ClusterSource | None = None,
    algorithm: str | Algorithm | None = None,
    budget: int | str | None = None,
    refine: bool = False,
    signature: str | None = None,
    fetches: Texts = (),
    feeds: Mapping[str, Sequence[int]] | Texts = (),
    batch: int | None = None,
    limits: Mapping[str, int] | Texts = (),
    grappler: bool = False,
    keep_calls: bool = False,
    observe: bool = False,
    observation: Text | ObservedStep | None = None,
    observe_time: str | None = None,
    observe_memory: int | str | None = None,
    ignore_devices: bool = False,
    soft: bool = True,
    pins: Mapping[str, str] | Texts = (),
    master: str | None = None,
    flavour: str = "auto",
    costs: Text | Sequence[Text] | CostModel = (),
    profile: Text | Profile | None = None,
    order: str = "auto",
    contention: str = "serial",
    protocol: str | None = None,
    recv_scheduling: str | None = None,
    engine: str = "auto",
    trips: Mapping[str, int] | Texts = (),
    branches: Mapping[str, bool | float | int] | Texts = (),
    seed: int = 0,
    microbatches: int | str | None = None,
    pipeline: str | None = None,
    stages: int | None = None,
    training: str | None = None,
    replicate: str | None = None,
    fuse: int | str | None = None,
    ps_strategy: str | None = None,
    disturb: Texts = (),
    device_filters: Texts = (),
    inputs: Mapping[str, str | float] | Texts = (),
    gap: str | None = None,
    workers: Sequence[int] | str | None = None,
    steps: int | None = None,
    until_ci: float | str | None = None,
    check: bool | Text = False,
    against: Text | None = None,
    what_if: bool | str = False,
) -> Result:
    """Do what the command does and return all values. Nothing is printed or written.

    The keywords are the command's options (`simviz --help`), with a plural where an option may be repeated, and take
    their texts. Some also take mappings: `feeds` tensor name -> shape, `limits` limit -> number, `pins` scope ->
    device, `trips` frame -> number of times. Further ones are `branches` predicate -> way, and `inputs` queue or
    iterator -> examples per second. `fetches`, `costs`, `disturb` and `device_filters` take lists, `workers` numbers,
    `fuse` bytes, `until_ci` a share, `check` True or the path of a log. A tensor or an operation stands for its name.
    `graph` is whatever `simulator.load` takes, `cluster` whatever `load_cluster` takes, `algorithm` a name or a
    function (docs/algorithms.md), `profile` a file or a Profile. `costs` also takes a cost model: a function of graph
    and cluster that returns a CostTable. With `observe` the step is run once (docs/observing.md).
    `result.write("step.observed")` keeps it; `observation` takes such a file or `result.observed`.

    The result holds `graph`, `step`, `cluster`, `costs`, `assignment`, `partitions`, `trace`, `bound`, `received`,
    `pipelined`, `training`, `check`, `observed`, `refined` and `notes`. With `against` it holds `difference`, with
    `what_if` (True, "kept" or "again") `what_if`. `summary()`, `to_json()` and `write(path)` give what the command
    prints and writes. A plan that runs out of memory is returned, too; `out_of_memory` says where.

    Raises SimvizError with the option that is wrong. Raises GraphError and ClusterError for a graph or cluster that
    cannot be used. Raises InfeasibleError where no device may hold a group, and OracleError where TensorFlow could not
    be asked.
    """
    given = locals()
    in_memory = {name: given.pop(name) for name in _IN_MEMORY if _is_object(name, given[name])}
    given["soft"], hard = None, not soft
    asked = parser().read(["graph", *(["--hard"] if hard else []), *_arguments(given)])
    for name, value in in_memory.items():
        setattr(asked, name, value)
    scene = run_request(read_request(asked))
    scene = replace(scene, command=command_again(asked, scene.cluster.name))
    return Result(**{one.name: getattr(scene, one.name) for one in fields(Scene)})


def _is_object(name: str, value: object) -> bool:
    """Whether a value is no option's text, as no graph is; of `costs`, whether it is a function and no files."""
    return callable(value) if name == "costs" else name == "graph" or not isinstance(value, str)


def _arguments(given: Mapping[str, object]) -> Iterator[str]:
    """The keywords as arguments of the command."""
    for name, value in given.items():
        option = "--" + _OPTIONS.get(name, name).replace("_", "-")
        if value is True and name in (*_FLAGS, "check", "what_if"):
            yield option
        elif isinstance(value, Mapping):
            yield from (f"{option}={_text(key)}={_text(one, of=name)}" for key, one in value.items())
        elif name == "workers" and value is not None:
            yield f"{option}={_text(value)}"
        elif isinstance(value, list | tuple):
            yield from (f"{option}={_text(one, of=name)}" for one in value)
        elif value is not None and value is not False:
            yield f"{option}={_text(value, of=name)}"


def _text(value: object, of: str = "") -> str:
    """A value as on the command line: a shape by its numbers, a tensor or an op by its name."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | bytes):
        return str(value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, int | float):
        return f"{value}/s" if of == "inputs" else str(value)
    name = getattr(value, "name", None)
    if isinstance(name, str):
        return name
    try:
        return ",".join(map(str, value))  # type: ignore[call-overload]  # it is tried whether it has parts
    except (TypeError, ValueError):  # ValueError: a TensorShape of unknown rank
        return str(value)
