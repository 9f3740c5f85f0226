"""Laws of `combining.py` about other ways to the same run: beside another, from Python, in another order, by name.

Each is a function of a case as those of `combining_laws.py`. `WAYS` has the laws, `WANTED_OF_WAYS` the options that a
case needs for a law to say something of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any  # Any: keywords of `viz.run`

from combining_meeting import fits
from combining_running import Call, Case, NothingSaid, compared, equal

import viz
from simulator.errors import SimvizError
from simulator.execution.loops import choices, unrolling
from simulator.execution.loops.choices import Decided
from simulator.execution.loops.frames import Flow
from simulator.execution.options import SimulationOptions
from simulator.graph.importer import read_graph
from viz.command.options import parser
from viz.command.request import read_request
from viz.command.running import run
from viz.formats.json_object import record, to_json

OTHER_ALGORITHMS = ("single", "heft", "etf", "tensorflow", "m_topo", "whitepaper")
OTHER_CLUSTERS = ("2gpu", "4gpu", "3cpu", "ps=2,worker=2x1gpu", "ps=1,worker=2", "ps=2,worker=2,protocol=rdma")
OTHER_REGIMES = ("async", "sync", "ssp:bound=2")
KEYWORDS = {"--feed": "feeds", "--branch": "branches", "--pin": "pins", "--limit": "limits", "--input": "inputs"}
INPUTS = ("QueueDequeue", "IteratorGetNext")  # ops
FLAGS = ("--ignore-devices", "--keep-calls")


def other_alone(case: Case) -> Iterator[str]:
    """What `--against` tells of the other run is told by that run alone, whatever differs."""
    scene, options, chance = case.scene(), case.call.options, case.random("other")
    way = chance.choice(("cluster", "costs", "regime" if case.trains else "algorithm", "algorithm"))
    if way == "cluster":
        wanted = chance.choice(OTHER_CLUSTERS)
        alone = case.call.having({"--cluster": wanted})
    elif way == "costs":
        wanted = str(case.folder / "other.csv")
        times = [f"{name},{kind},{2000 + row}" for row, name in enumerate(scene.graph.names) if "," not in name
                 for kind in ("CPU", "GPU") if row % 2]  # fmt: skip
        Path(wanted).write_text("\n".join(["node,kind,ns", *times]))
        alone = case.call.having({"--costs": wanted})
    elif way == "regime":
        wanted = chance.choice(OTHER_REGIMES)
        alone = case.call.having({"--training": wanted})
    else:
        wanted = chance.choice(OTHER_ALGORITHMS)
        alone = case.call.having({"--algorithm": wanted})
    if options.get("--order") == "priority" or options.get("--microbatches") == "auto":
        raise NothingSaid  # the other placement may give no priorities, and has the number of stages of this one
    if case.trains:
        alone = alone.having({}, "--workers")  # how it scales is told of this run alone
    beside = case.call.having({"--against": wanted})
    try:
        other = case.scene(alone)
    except SimvizError as error:
        if accepted(case, beside):
            yield f"--against {wanted} runs what alone is refused: {error}"
        return
    told, known = record(case.scene(beside)), record(other)
    yield from compared("the run beside another", record(scene), told, but=("against", "training.against"))
    against = told["against"]
    yield from equal("makespan of the other", known["makespan_ns"], against["makespan_ns"]["other"])
    parts = sum(part["difference_ns"] for part in against["explanation"])
    yield from equal("the parts", parts, told["makespan_ns"] - known["makespan_ns"])
    for name, row in known["devices"].items():
        shown = against["devices"].get(name)
        if shown is not None:
            figures = {key: shown[key]["other"] for key in ("busy_ns", "peak_bytes")}
            yield from equal(f"{name} of the other", {key: row[key] for key in figures}, figures)
    for link, nbytes in known["links"].items():
        if link in against["links"]:
            yield from equal(f"{link} of the other", nbytes, against["links"][link]["other"])
    if case.trains:
        figures = told["training"]["against"]["figures"]
        yield from equal("rate of the other", known["training"]["steps_per_s"], figures["steps/s"]["other"])
        yield from equal("rate of this one", told["training"]["steps_per_s"], figures["steps/s"]["this"])


def accepted(case: Case, call: Call) -> bool:
    """Whether a call runs."""
    try:
        case.scene(call)
    except SimvizError:
        return False
    return True


def from_python(case: Case) -> Iterator[str]:
    """`viz.run` with the options as keywords gives the command's result, to the byte."""
    given: dict[str, Any] = {}
    for option, text in case.call.options.items():
        name = KEYWORDS.get(option, option[2:].replace("-", "_"))
        if option == "--hard":
            given["soft"] = False
        elif option in FLAGS:
            given[name] = True
        elif option in ("--feed", "--pin", "--branch", "--trips", "--limit"):
            key, _, value = text.rpartition("=")
            as_value: Mapping[str, Callable[[str], object]] = {
                "--feed": lambda one: tuple(int(size) for size in one.split(",")),
                "--branch": lambda one: (
                    {"true": True, "false": False}.get(one) if one in ("true", "false") else float(one)
                ),
                "--trips": int,
                "--limit": int,
            }
            given[name] = {key: as_value.get(option, str)(value)}
        elif option in ("--batch", "--steps", "--seed", "--stages", "--budget"):
            given[name] = int(text)
        elif option == "--workers":
            given[name] = [int(one) for one in text.split(",")]
        elif option == "--microbatches":
            given[name] = text if text == "auto" else int(text)
        elif option == "--disturb":
            given[name] = [text]
        elif option == "--costs":
            given[name] = [Path(text)]
        elif option in ("--profile", "--observation"):
            given[name] = Path(text)
        else:
            given[name] = text
    result = viz.run(Path(case.call.graph), **given)
    yield from compared("viz.run", record(case.scene()), record(result))
    if result.to_json() != to_json(case.scene()):
        yield "viz.run has another JSON"
    yield from equal("the page's command from Python", result.command, case.scene().command)


def in_another_order(case: Case) -> Iterator[str]:
    """Options in another order, each with "=" or without, make the same run."""
    names = list(case.call.options)
    case.random("order").shuffle(names)
    words: list[str] = []
    for name in names:
        value = case.call.options[name]
        words += [name] if not value else [f"{name}={value}"] if len(words) % 2 else [name, value]
    again = run(read_request(parser().read([*words, case.call.graph] if len(names) % 2 else [case.call.graph, *words])))
    yield from compared("another order of options", record(case.scene()), record(again))


def by_its_name(case: Case) -> Iterator[str]:
    """What is chosen where nobody asks is the same if it is asked for: the cluster, the algorithm, the order."""
    scene = case.scene()
    given = {"--cluster": scene.cluster.name, "--algorithm": "whitepaper" if case.trains else "search",
             "--ps-strategy": "round_robin", "--pipeline": "1f1b", "--microbatches": "", "--engine": "auto",
             "--order": "auto", "--flavour": "auto", "--training": ""}  # fmt: skip
    given = {name: value for name, value in given.items() if name not in case.call and value}
    if case.call.options.get("--replicate") not in ("between", "both") or "ps" not in given.get("--cluster", ""):
        given.pop("--ps-strategy", None)
    if "--microbatches" not in case.call:
        given.pop("--pipeline", None)
    call = case.call.having(given)
    if "--cluster" in given and not re.fullmatch(r"\d+gpu|(\w+=[^,]+,?)+", given["--cluster"]):
        raise NothingSaid  # its name is none of the notation
    yield from compared("what is chosen, by name", record(scene), record(case.scene(call)), but=("cluster.notes",))


def batch_by_feeds(case: Case) -> Iterator[str]:
    """A batch is the same as feeds of all shapes that it gives."""
    if "--feed" in case.call or "--observation" in case.call or "--microbatches" in case.call:
        raise NothingSaid
    scene = case.scene()
    batch, shapes = case.call.options.get("--batch"), record(scene)["step"]["fed_shapes"]
    if batch is None or not shapes or any(shape is None or -1 in shape or None in shape for shape in shapes.values()):
        raise NothingSaid
    declared = read_graph(case.call.graph)
    for name in shapes:
        row = declared.index.get(name.partition(":")[0], -1)
        shape = declared.tensor_shape[declared.tensor_ptr[row]] if row >= 0 else None
        if not shape or shape[0] >= 0 or scene.graph.copies:
            raise NothingSaid  # a batch changes constants, too, and a client feeds all copies
    follow = [
        name
        for name, op in zip(scene.graph.names, scene.graph.ops, strict=True)
        if (op.startswith("Placeholder") and f"{name}:0" not in shapes) or op.startswith(INPUTS)
    ]
    if follow:
        raise NothingSaid  # others follow the batch, too
    call = case.call.having({}, "--batch")
    for at, (name, shape) in enumerate(shapes.items()):
        text = f"{name}={','.join(map(str, shape))}"
        call = call.having({"--feed" if not at else f"--feed={text}": text if not at else ""})
    if not fits(case, call):
        raise NothingSaid  # a batch changes constants, too
    but = ("notes", "graph.notes", "unsized_remedy", "training.notes")
    yield from compared("the batch by feeds", record(scene), record(case.scene(call)), but=but)


def trips_by_name(case: Case) -> Iterator[str]:
    """The trips and ways of a step, given by name, change nothing but who says them."""
    if "--trips" in case.call or "--branch" in case.call or "--observation" in case.call:
        raise NothingSaid
    found: list[tuple[Flow, Decided]] = []

    def decided(flow: Flow, options: SimulationOptions) -> Decided:
        found.append((flow, plain(flow, options)))
        return found[-1][1]

    plain = choices.decide
    unrolling.decide = decided  # type: ignore[attr-defined]  # its import
    try:
        scene = run(read_request(case.call.asked()))
    finally:
        unrolling.decide = plain  # type: ignore[attr-defined]  # as above
    if not found or scene.trace.dead_fetches:
        raise NothingSaid
    said: dict[str, str] = {}
    for flow, one in found:
        counts = one.scenario.trips.count
        said |= {f"--trips={frame.name}={counts[row]}": "" for row, frame in enumerate(flow.frames) if row}
        for name, decision in one.scenario.branches.decisions.items():
            if isinstance(decision.value, bool):
                said[f"--branch={name}={str(decision.value).lower()}"] = ""
    if not said:
        raise NothingSaid
    again = case.scene(case.call.having(said))
    yield from compared("trips and ways by name", record(scene), record(again), but=("notes", "training.notes"))


def filters_of_nobody(case: Case) -> Iterator[str]:
    """Device filters that hide no task change nothing."""
    scene = case.only(trainings=True, without=("--device-filters", "--disturb", "--workers"))
    every = ",".join(sorted({task.partition("/replica")[0] for task in scene.cluster.tasks}))
    jobs = {re.sub(r":.*| .*", "", row["client"]) for row in record(scene)["training"]["sessions"]}
    given = {f"--device-filters={job}={every}": "" for job in jobs}
    again = case.scene(case.call.having(given))
    yield from compared(
        "filters that hide nobody", record(scene), record(again), but=("training.notes", "notes", "training.sessions")
    )


def never_dry(case: Case) -> Iterator[str]:
    """Inputs that come far faster than they are taken are as inputs that never run dry."""
    case.only(trainings=True, without=("--input", "--disturb"))
    fast, never = (case.scene(case.call.having({"--input": rate})).training for rate in ("100000000/s", "none"))
    assert fast is not None
    assert never is not None
    one, other = fast.training.update_ns, never.training.update_ns
    apart = [int(times[-1]) - int(times[0]) for times in (one, other)]  # a queue may have to be filled at first
    if abs(apart[0] - apart[1]) > 0.001 * apart[1]:
        yield f"updates of fast inputs are {apart[0]} ns apart, of inputs that never run dry {apart[1]} ns"


WAYS: Mapping[str, tuple[Callable[[Case], Iterator[str]], bool]] = {
    "the other run of --against alone": (other_alone, False),
    "viz.run and the command": (from_python, False),
    "options in another order": (in_another_order, False),
    "what is chosen, by name": (by_its_name, False),
    "a batch by feeds": (batch_by_feeds, False),
    "trips and ways by name": (trips_by_name, False),
    "filters that hide nobody": (filters_of_nobody, False),
    "inputs that are never dry": (never_dry, False),
}
_TRAINS: Mapping[str, Sequence[str]] = {"--training": ("async", "sync"), "--steps": ("2", "6")}
WANTED_OF_WAYS: Mapping[str, Mapping[str, Sequence[str] | None]] = {
    "a batch by feeds": {"--batch": ("7", "16", "96"), "--feed": None, "--observation": None, "--microbatches": None},
    "trips and ways by name": {"--trips": None, "--branch": None, "--observation": None},
    "filters that hide nobody": {**_TRAINS, "--device-filters": None, "--disturb": None, "--workers": None},
    "inputs that are never dry": {**_TRAINS, "--input": None, "--disturb": None},
}
