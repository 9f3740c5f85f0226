"""The request: the options of a run as a value, and how it is read from the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from placement.algorithms import TABLE, searches
from simulator import limits
from simulator.errors import SimvizError
from simulator.execution.options import ENFORCED, SimulationOptions
from simulator.graph.step import choose_step
from simulator.observed import SUFFIX
from simulator.progress import Say, silent
from simulator.units import SECOND_NS, parse_bytes, parse_nanos
from simulator.wording import some
from viz.what_if import AGAIN, KEPT

if TYPE_CHECKING:
    import argparse
    import os

    from placement.placing import PlacementOptions
    from placement.plan import Algorithm
    from simulator.cluster.cluster import Cluster
    from simulator.costs.measured import MeasuredTimes
    from simulator.costs.modelled import CostModel
    from simulator.costs.profile import Profile
    from simulator.graph.graph import Graph, Shape
    from simulator.observed.observed_step import ObservedStep
    from simulator.training.pipelines.orders import Order
    from viz.command.training_request import TrainingRequest

    ClusterSource: TypeAlias = str | os.PathLike[str] | Mapping[str, object] | Cluster

# fields of a Request that are options as they are
_UNCHANGED = (
    *("graph", "cluster", "signature", "batch", "grappler", "keep_calls", "profile", "ignore_devices", "soft"),
    *("master", "flavour", "recv_scheduling", "protocol", "against"),
)
SEARCH = "search"  # the default
_PREDICTED = ("tensorflow", "requested")  # algorithms that predict TensorFlow; for all others --check pins the devices
AUTO = "auto"  # of --microbatches: the best number
PLAIN = "plain"  # of --against: the step without microbatches
# An option, what it does, and the options that contradict it, each with a reason where it says none by itself.
_ALONE: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("--compare", "compares single steps", {"--training": ", or compare two trainings by --against"}),
    ("--what-if", "is of a single step", {"--training": ", which tries by itself what would relieve it most"}),
    (
        "--compare",
        "runs several algorithms and prints a table",
        {"-o": "", "--against": "", "--observe": "", "--algorithm": "", "--what-if": ""},
    ),
    (
        "--microbatches",
        "makes a pipeline of one step",
        {
            "options of trainings": ", which replicate the graph",
            "--pin": ", as stages have devices of their own",
            "--observe and --observation": ", as another step runs",
            "--refine": ", which runs the plan of the graph as it is",
            "--what-if": ", which changes the batch and the devices of the graph as it is",
        },
    ),
    (
        "--grappler",
        "gives the graph that a session makes of one step",
        {
            "--check": ", which asks TensorFlow about the graph as it is",
            "--keep-calls": ", as Grappler expands calls",
            "--microbatches": "",
            "--observe and --observation": ", as the graph that is observed has other nodes",
            "--refine": ", whose sessions optimize by themselves",
        },
    ),
    ("--microbatches auto", "tries several numbers", {"--compare": ", or give one of these numbers"}),
    (
        "--refine",  # other runs would have other costs, or other plans
        "runs the plans of one step on real processes",
        {
            "options of trainings": "",
            "--against": "",
            "--compare": "",
            "--what-if": "",
            "--recv-scheduling": ", as their sessions delay no Recv",
        },
    ),
    ("--pin", "is of a single step", {"options of trainings": ""}),
    (
        "--order enforced",
        "gives the ops of one step their turns",
        {
            "options of trainings": "",
            "--refine": ", whose sessions run the graph as it is",
            "--recv-scheduling": ", which gives Recvs theirs",
        },
    ),
)
_HOUR_NS = 3600 * SECOND_NS
_MOST_HOURS = 24  # of an observed step
_LEAST_BYTES = 2**30  # with less, TensorFlow itself does not start
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class ObserveRequest:
    """The limits of an observed step, and the file that keeps it."""

    path: str | None  # None: by the name of the graph
    time_s: float | None  # None: the default
    memory_bytes: int | None  # None: a share of what is free


@dataclass(frozen=True, slots=True)
class Request:
    """The options of a run."""

    graph: object  # whatever `simulator.load` takes: a path, "-", or from a notebook a graph in memory
    cluster: ClusterSource | None = None
    algorithm: str | Algorithm = SEARCH
    budget: str | None = None  # of an algorithm that searches; None: about a second
    signature: str | None = None
    fetches: tuple[str, ...] | None = None
    feeds: Mapping[str, Shape] = field(default_factory=dict)
    batch: int | None = None
    grappler: bool = False  # the graph that TensorFlow's own optimizers make of it
    keep_calls: bool = False
    costs: tuple[str | MeasuredTimes, ...] = ()  # files of measured times, or what they hold
    cost_model: CostModel | None = None  # prices the ops in place of the estimate
    profile: str | os.PathLike[str] | Profile | None = None  # of the machine that the CPUs are
    ignore_devices: bool = False
    soft: bool = True
    fallback: bool = True  # `single` takes the place of a slower plan by an algorithm of a paper
    pins: Mapping[str, str] = field(default_factory=dict)  # scope or node -> device, in place of the graph's strings
    master: str | None = None
    flavour: str = "auto"
    recv_scheduling: str | None = None  # rule by which Recvs are delayed: "whitepaper", "tensorflow", or none
    simulation: SimulationOptions = SimulationOptions()  # its seed is that of all that is drawn
    enforces: bool = False  # control edges hold TensorFlow's executor to the order of the simulation
    protocol: str | None = None  # between tasks; None: the cluster's own
    training: TrainingRequest | None = None  # many steps of many workers; None: one step of one client
    microbatches: int | str | None = None  # of a pipeline over the devices; AUTO: the best; None: the step as it is
    pipeline: Order | None = None  # of the turns of its stages; None: the default
    stages: int | None = None  # of it; None: all devices that train
    check: bool = False  # ask TensorFlow
    log: str | None = None  # path of a placement log to compare with instead
    observe: ObserveRequest | None = None  # run the step once; None: nothing is run
    observed: ObservedStep | str | None = None  # a step that ran, or its file
    refine: bool = False  # run plans on real processes, and place again by what they took
    against: str | None = None  # another algorithm, cluster, file of costs or earlier result; None: one run is all
    writes: tuple[str, ...] = ()  # suffixes of the files that are to be written of it
    limits: Mapping[str, int] = field(default_factory=dict)  # by name, those that are not the usual ones
    what_if: str | None = None  # one change at a time, on the placement that is "kept" or made "again"

    @property
    def name(self) -> str:
        """The path of the graph as given, or a phrase for a graph in memory."""
        if isinstance(self.graph, str | PathLike):
            return fspath(self.graph)
        return str(getattr(self.graph, "source", "a graph in memory"))

    def fetches_in(self, graph: Graph) -> tuple[str, ...] | None:
        """The fetches that are asked for, or what the signature gives; None: `choose_step` chooses."""
        if self.signature is None:
            return self.fetches
        return choose_step(graph, fetches=self.fetches, signature=self.signature).fetches

    def placing(self, say: Say = silent) -> PlacementOptions:
        """The keywords of `place`; `say` gets the progress of a search."""
        from placement.effort import Effort, read_effort  # late, as little else is needed to read the options

        return {
            "algorithm": self.algorithm,
            "soft": self.soft,
            "flavour": self.flavour,
            "effort": Effort(say=say) if self.budget is None else read_effort(self.budget, say),
        }

    def having(self, observed: ObservedStep | None) -> Request:
        """The same request after its step was observed or read: nothing is run or read again."""
        simulation = replace(self.simulation, observed=observed)
        return replace(self, observe=None, observed=observed, simulation=simulation)

    @property
    def title(self) -> str:
        """The user's word for the graph: its file name."""
        return "standard input" if self.graph == "-" else shown(Path(self.name).name)

    @property
    def predicts(self) -> bool:
        """Tell whether the placement predicts TensorFlow's own."""
        return self.algorithm in _PREDICTED

    @property
    def trains(self) -> bool:
        """Tell whether many steps are run, and the graph not only replicated."""
        return self.training is not None and self.training.trains


def shown(name: str) -> str:
    """A file name as text: the system allows any bytes, a page only UTF-8 (PEP 383)."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def read_request(asked: argparse.Namespace) -> Request:
    """Make a request of the options of `options.parser`. Raise SimvizError with the option that is wrong."""
    found = _named("--limit", asked.limit, limits.read_limit)
    with limits.raised(found):
        return replace(_read(asked), limits=found)


def _read(asked: argparse.Namespace) -> Request:
    if asked.batch is not None and not 1 <= asked.batch <= limits.COUNT.most:
        raise SimvizError(f"--batch {asked.batch}: a batch is a number from 1 to {_count()}")
    training = _training(asked)
    _check_together(asked, training)
    algorithm = asked.algorithm or SEARCH
    return Request(
        **{name: getattr(asked, name) for name in _UNCHANGED},
        algorithm=algorithm,
        budget=_budget(asked, algorithm),
        fetches=tuple(asked.fetch) if asked.fetch else None,
        feeds=_named("--feed", asked.feed, parse_feed),
        pins=_pins(asked),
        costs=() if callable(asked.costs) else tuple(asked.costs),
        cost_model=asked.costs if callable(asked.costs) else None,
        simulation=SimulationOptions(
            order=_order(asked),
            contention=asked.contention,
            trips=_named("--trips", asked.trips, parse_trips),
            branches=_named("--branch", asked.branch, parse_branch),
            seed=asked.seed,
            engine=asked.engine,
        ),
        enforces=asked.order == ENFORCED,
        training=training,
        microbatches=_microbatches(asked),
        pipeline=asked.pipeline,
        stages=asked.stages,
        check=asked.check is True,
        log=asked.check if isinstance(asked.check, str) else None,
        refine=asked.refine,
        observe=_observe(asked),
        observed=asked.observation,
        what_if=_what_if(asked.what_if),
    )


def _check_together(asked: argparse.Namespace, training: TrainingRequest | None) -> None:
    """Raise SimvizError for an option that can't be combined with another one."""
    given = {
        "-o": bool(asked.output),
        "--against": asked.against is not None,
        "--algorithm": asked.algorithm is not None,
        "--check": asked.check is True,
        "--compare": asked.compare is not None,
        "--grappler": asked.grappler,
        "--keep-calls": asked.keep_calls,
        "--microbatches": asked.microbatches is not None,
        "--microbatches auto": asked.microbatches == AUTO,
        "--observe": asked.observe is not False,
        "--observe and --observation": asked.observe is not False or asked.observation is not None,
        "--order enforced": asked.order == ENFORCED,
        "--pin": bool(asked.pin),
        "--recv-scheduling": asked.recv_scheduling is not None,
        "--refine": asked.refine,
        "--training": training is not None and training.trains,
        "--what-if": asked.what_if is not False,
        "options of trainings": training is not None,
    }
    for option, does, others in _ALONE:
        for other, why in others.items():
            if given[option] and given[other]:
                raise SimvizError(f"{option} {does}; leave out {other}{why}")


def _order(asked: argparse.Namespace) -> str:
    """The order of the simulation. One that is to be enforced is that of the placement."""
    if asked.order == ENFORCED:
        return "auto"
    return "tensorflow" if asked.refine and asked.order == "auto" else str(asked.order)


def _pins(asked: argparse.Namespace) -> Mapping[str, str]:
    """The pins. Raise SimvizError where they have no cluster."""
    pins = _named("--pin", asked.pin, parse_pin)
    if pins and asked.cluster is None:
        raise SimvizError("--pin names devices of a cluster; add --cluster, such as 4gpu")
    return pins


def _microbatches(asked: argparse.Namespace) -> int | str | None:
    """The number of microbatches, or AUTO. Raise SimvizError where it is none."""
    text = asked.microbatches
    if text is None:
        if asked.pipeline is not None or asked.stages is not None:
            raise SimvizError("--pipeline and --stages are of microbatches; add --microbatches, such as 8 or auto")
        return None
    if text == AUTO:
        return AUTO
    if not text.isdecimal() or len(text) > len(str(limits.COUNT.most)) or not int(text) > 1:
        raise SimvizError(f"--microbatches {text}: give a whole number from 2, or {AUTO}")
    return int(text)


def _what_if(asked: bool | str) -> str | None:
    """The placement of --what-if."""
    if asked is False:
        return None
    if asked not in (True, KEPT, AGAIN):
        raise SimvizError(f"--what-if {asked}: the placement is {KEPT} or made {AGAIN}")
    return KEPT if asked is True else str(asked)


def _observe(asked: argparse.Namespace) -> ObserveRequest | None:
    """The observed step that --observe asks for. Raise SimvizError for options that do not fit."""
    bounds = {"--observe-time": asked.observe_time, "--observe-memory": asked.observe_memory}
    if asked.observe is False:
        for option, value in bounds.items():
            if value is not None:
                raise SimvizError(f"{option} bounds the step of --observe; add --observe")
        return None
    if asked.observation is not None:
        raise SimvizError("--observe runs a step, and --observation reads one that ran before; give one of them")
    path = asked.observe if isinstance(asked.observe, str) else None
    if path is not None and not path.endswith(SUFFIX):
        raise SimvizError(f"--observe {path}: the file of an observed step ends in {SUFFIX}")
    option = "--observe-time"
    try:
        time_ns = None if asked.observe_time is None else parse_nanos(asked.observe_time)
        option = "--observe-memory"
        memory_bytes = None if asked.observe_memory is None else parse_bytes(asked.observe_memory)
    except ValueError as error:
        raise SimvizError(f"{option}: {error}") from None
    if time_ns is not None and not 0 < time_ns <= _MOST_HOURS * _HOUR_NS:
        raise SimvizError(f"--observe-time {asked.observe_time}: give a time of at most {_MOST_HOURS} hours")
    if memory_bytes is not None and memory_bytes < _LEAST_BYTES:
        raise SimvizError(f"--observe-memory {asked.observe_memory}: TensorFlow itself needs 1 GiB; give more")
    return ObserveRequest(path, None if time_ns is None else time_ns / SECOND_NS, memory_bytes)


def _budget(asked: argparse.Namespace, algorithm: str | Algorithm) -> str | None:
    """The text of --budget. Raise SimvizError if it is none, or if no algorithm of the runs searches."""
    from placement.effort import read_effort  # only now, as little else is needed to read the options
    from placement.plugins import offered

    text: str | None = asked.budget
    if text is None:
        return None
    try:
        read_effort(text)
    except SimvizError as error:
        raise SimvizError(f"--budget: {error}") from None
    runs = [*(asked.compare or [algorithm]), *([asked.against] if asked.against in {*TABLE, *offered()} else [])]
    if not any(searches(one) for one in runs):
        one, does = (runs[0], "does") if len(runs) == 1 else (some(runs, 3), "do")
        raise SimvizError(f"--budget bounds a search, and {one} {does} not search; leave it out, or choose {SEARCH}")
    return text


def _training(asked: argparse.Namespace) -> TrainingRequest | None:
    texts = (asked.training, asked.replicate, asked.ps_strategy, asked.workers, asked.until_ci, asked.steps)
    lists = (asked.disturb, asked.device_filters, asked.input)
    if all(one is None for one in (*texts, asked.fuse, asked.gap)) and not any(lists):
        return None
    from viz.command.training_request import read_wanted  # only now: it loads numpy

    return read_wanted(asked)


def _named(option: str, texts: Sequence[str], parse: Callable[[str], tuple[str, _Value]]) -> Mapping[str, _Value]:
    """Name -> value of a repeatable option. Raise SimvizError with the option's name."""
    try:
        return gathered(texts, parse)
    except ValueError as error:
        raise SimvizError(f"{option}: {error}") from None


def gathered(texts: Iterable[str], parse: Callable[[str], tuple[str, _Value]]) -> Mapping[str, _Value]:
    """Name -> value of a repeatable option. Raise ValueError for a name that is given twice."""
    found: dict[str, _Value] = {}
    for text in texts:
        name, value = parse(text)
        if name in found:
            raise ValueError(f"{name!r} is given twice; give it once")
        found[name] = value
    return found


def parse_feed(text: str) -> tuple[str, Shape]:
    """Read NAME=32,224,224,3 (NAME= for a scalar). Raises ValueError, with this form, for other text."""
    name, dims, form = _split(text, "NAME=32,224,224,3")
    try:
        shape = tuple(int(dim) for dim in dims.replace("x", ",").split(",")) if dims.strip() else ()
    except ValueError:
        raise ValueError(form) from None
    if any(dim < 0 or dim > limits.COUNT.most for dim in shape):
        raise ValueError(f"{form}: a dimension is a number from 0 to {_count()}")
    return name, shape


def parse_pin(text: str) -> tuple[str, str]:
    """Read SCOPE=DEVICE. Raises ValueError, with this form, for other text."""
    scope, device, form = _split(text, "SCOPE=DEVICE, such as layers/dense=GPU:1")
    if not device.strip() or not scope.strip("/"):
        raise ValueError(form)
    return scope.rstrip("/"), device.strip()


def parse_trips(text: str) -> tuple[str, int]:
    """Read FRAME=N; the frame "*" is every loop. Raises ValueError, with this form, for other text."""
    name, count, form = _split(text, "FRAME=10 or '*=10' for every loop")
    try:
        trips = int(count)
    except ValueError:
        raise ValueError(form) from None
    if not 0 <= trips <= limits.COUNT.most:
        raise ValueError(f"{form}: a loop runs from 0 to {_count()} times")
    return name, trips


def parse_branch(text: str) -> tuple[str, bool | float | int]:
    """Read NAME=true, NAME=false, NAME=0.3 (how likely it holds) or, for a Case, NAME=2 (the branch's number).

    Raises ValueError, with this form, for other text.
    """
    name, said, form = _split(text, "NAME=true, NAME=false, NAME=0.3 or, for a Case, NAME=2")
    if said.lower() in ("true", "false"):
        return name, said.lower() == "true"
    try:
        choice: float | int = int(said) if said.strip().isdigit() else float(said)
    except ValueError:
        raise ValueError(form) from None
    if not 0 <= choice <= (1 if isinstance(choice, float) else limits.COUNT.most):  # nan is nowhere
        raise ValueError(f"{form}: a probability is from 0 to 1")
    return name, choice


def _count() -> str:
    """The largest count, and the way to a larger one."""
    most = limits.COUNT.most
    shown = f"2^{most.bit_length() - 1}" if most & (most - 1) == 0 else f"{most:,}"
    return f"{shown} ({limits.COUNT.remedy})"


def _split(text: str, wanted: str) -> tuple[str, str, str]:
    """Name, value, and the sentence for a value that is wrong."""
    name, equals, value = text.rpartition("=")
    form = f"{text!r} is not of the form {wanted}"
    if not equals or not name:
        raise ValueError(form)
    return name, value, form
