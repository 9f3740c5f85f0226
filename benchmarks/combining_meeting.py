"""Laws of `combining.py` about calls in which two features meet: measured times with copies, pins with microbatches, ..

Each is a function of a case as those of `combining_laws.py`, which runs the case and compares. `WANTED` has the options
that a case needs for a law to say something of it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from combining_running import Call, Case, NothingSaid, compared, equal

from simulator.errors import SimvizError
from simulator.graph.dtypes import RESOURCE
from viz.formats.json_object import record

COPY = re.compile(r"(?:(?:tower|replica|microbatch|worker)_\d+/)+")  # the prefixes of copies
TOLD_OTHERWISE = ("notes", "graph.notes", "cluster.name", "cluster.notes")
COSTS_NS = 1_000  # of the first measured node; each later one takes one more


def times_of_copies(case: Case) -> Iterator[str]:
    """A copy of a node whose time was measured takes that time, whoever made the copy."""
    if "--replicate" not in case.call and not case.trains:
        raise NothingSaid
    plain = case.scene(case.call.having({}, *TRAINING_ALONE, "--replicate", "--costs"))
    names = [name for name, op in zip(plain.graph.names, plain.graph.ops, strict=True) if op not in ("Const", "NoOp")]
    times = {name: COSTS_NS + at for at, name in enumerate(names)}
    kinds = sorted({device.kind for device in case.scene().cluster.devices})
    file = case.folder / "times.csv"
    rows = [f'"{name}",{kind},{ns}' for name, ns in times.items() for kind in kinds]
    file.write_text("\n".join(["node,kind,ns", *rows]))
    scene = case.scene(case.call.having({"--costs": str(file)}, "--disturb"))
    graph, ran = scene.partitions.graph, scene.trace.ops
    counts = Counter[bool]()
    for op, ns in zip(ran.node.tolist(), (ran.end_ns - ran.start_ns).tolist(), strict=True):
        wanted = times.get(scene.graph.copies.get(graph.names[op], ""))
        if wanted is not None and graph.ops[op] not in FREE:
            counts[ns == wanted] += 1
    if not counts:
        raise NothingSaid
    if counts[False]:
        yield f"{counts[False]} of {counts.total()} copies do not take the measured time of their node"


TRAINING_ALONE = ("--training", "--steps", "--disturb", "--workers", "--input", "--gap", "--fuse", "--ps-strategy",
                  "--device-filters", "--until-ci")  # fmt: skip
FREE = frozenset(("Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"))


def protocol_in_cluster(case: Case) -> Iterator[str]:
    """A protocol in the cluster's notation equals the same as an option, which goes before another in the notation."""
    cluster = case.call.options.get("--cluster", "")
    if "--profile" in case.call or "=" not in cluster or re.match("cpu=|gpu=", cluster) or "protocol=" in cluster:
        raise NothingSaid  # a profile has gRPC as measured, unless the option asks for it
    name = case.call.options.get("--protocol", "grpc")
    inside = case.call.having({"--cluster": f"{cluster},protocol={name}"}, "--protocol")
    option = case.call.having({"--protocol": name})
    yield from compared("the cluster's protocol", record(case.scene(option)), record(case.scene(inside)),
                        but=TOLD_OTHERWISE)  # fmt: skip
    other = "rdma" if name != "rdma" else "grpc"
    both = case.call.having({"--cluster": f"{cluster},protocol={other}", "--protocol": name})
    yield from compared("the option over the cluster's", record(case.scene(option)), record(case.scene(both)),
                        but=TOLD_OTHERWISE)  # fmt: skip


def as_tf_config(case: Case) -> Iterator[str]:
    """Jobs without GPUs in the notation equal TF_CONFIG's, whatever other options there are."""
    parts = [re.fullmatch(r"(\w+)=(\d+)", part) for part in case.call.options.get("--cluster", "").split(",")]
    if (
        not all(parts)
        or "--workers" in case.call
        or any(part[1] in ("cpu", "gpu", "protocol") for part in parts if part)
    ):
        raise NothingSaid
    jobs = {part[1]: [f"{part[1]}{task}:2222" for task in range(int(part[2]))] for part in parts if part}
    file = case.folder / "tf_config.json"
    file.write_text(json.dumps({"cluster": jobs, "task": {"type": next(iter(jobs)), "index": 0}}))
    again = case.scene(case.call.having({"--cluster": str(file)}))
    yield from compared("TF_CONFIG", record(case.scene()), record(again), but=(*TOLD_OTHERWISE, "training.notes"))


def pins_of_copies(case: Case) -> Iterator[str]:
    """Each copy of a pinned node runs where its scope is pinned, and so does the node itself."""
    scene = case.only()
    pin = case.call.options.get("--pin")
    if pin is None or "--microbatches" in case.call:
        raise NothingSaid  # stages decide there, and a note says so
    scope, _, device = pin.partition("=")
    fits = [row for row, one in enumerate(scene.cluster.devices) if device in (one.name, one.short)]
    if not fits:
        raise NothingSaid
    placed = scene.assignment.device.tolist()
    strange = [
        name
        for row, name in enumerate(scene.graph.names)
        if re.fullmatch(rf"{COPY.pattern}?{re.escape(scope)}(/.*)?", name)
        and not COPY.match(name)
        and placed[row] != fits[0]
    ]
    if strange and "--hard" in case.call:
        yield f"{len(strange)} nodes of {scope} are not on {device}, the first {strange[0]}, under hard placement"
    relaxed = record(scene)["counts"]["relaxed_devices"] + record(scene)["counts"]["overruled_devices"]
    if len(strange) > relaxed:
        yield f"{len(strange)} nodes of {scope} are not on {device}, but {relaxed} are told as relaxed"


def against_without(case: Case) -> Iterator[str]:
    """`--against unpinned` and `plain` compare with the run without that option, and its figures are those of it."""
    option, word = ("--pin", "unpinned") if "--pin" in case.call else ("--microbatches", "plain")
    scene = case.only(steps=True)
    if option not in case.call or case.call.options.get("--order") == "priority":
        raise NothingSaid  # the other placement may give no priorities
    other = case.scene(case.call.having({}, option, "--pipeline", "--stages"))
    told = record(case.scene(case.call.having({"--against": word})))["against"]
    makespans = {"other": int(other.trace.makespan), "this": int(scene.trace.makespan)}
    yield from equal(f"makespans of --against {word}", makespans, told["makespan_ns"])
    parts = sum(part["difference_ns"] for part in told["explanation"])
    yield from equal("the parts of the difference", parts, makespans["this"] - makespans["other"])


def interval_holds(case: Case) -> Iterator[str]:
    """With a profile the step lies within its interval, and without one there is none."""
    told = record(case.scene())
    interval = told["makespan_interval_ns"]
    if "--profile" not in case.call:
        if interval is not None:
            yield f"there is no profile, and an interval of {interval}"
        raise NothingSaid
    if interval is not None and not interval[0] <= told["makespan_ns"] <= interval[1]:
        yield f"{told['makespan_ns']} ns are not within {interval}"


def own_batch(case: Case) -> Iterator[str]:
    """`--batch` with the number that holds anyway changes nothing, with measured times, profile or observed step."""
    found = re.search(r"_(\d+)(_[a-z_]+)?\.pb$", Path(case.call.graph).name)
    if "--feed" in case.call:
        raise NothingSaid
    own = found[1] if found else "1"
    call = case.call.having({}, "--batch")
    named = call.having({"--batch": own})
    fed = record(case.scene(call))["step"]["fed_shapes"].values()
    if not found and (not fed or any(not shape or shape[0] != 1 for shape in fed)):
        raise NothingSaid  # a batch of the file's own, which its name does not tell
    if not fits(case, named):
        raise NothingSaid  # an op refuses these shapes, which is noted where nobody asks for them
    but = (*TOLD_OTHERWISE, "unsized_remedy", "training.notes", "training.examples_per_s", "training.inputs",
           "training.scaling")  # fmt: skip
    yield from compared("its own batch by name", record(case.scene(call)), record(case.scene(named)), but=but)


def fits(case: Case, call: Call) -> bool:
    """Whether the ops of the graph take the shapes that a call asks for."""
    try:
        case.scene(call)
    except SimvizError as error:
        if "does not fit" in str(error):
            return False
        raise
    return True


def own_feeds(case: Case) -> Iterator[str]:
    """A feed of the shape that a placeholder has anyway changes nothing. A resource's is that of its variable."""
    scene = case.scene()
    graph = scene.graph
    shapes = {name: shape for name, shape in record(scene)["step"]["fed_shapes"].items() if shape is not None}
    named = {option.partition("=")[2] or case.call.options[option].partition("=")[0] for option in case.call.options
             if option.startswith("--feed")}  # fmt: skip
    free = [
        name
        for name in shapes
        if name not in named
        and name.removesuffix(":0") not in named
        and graph.tensor_dtype[graph.tensor_row(name)] != RESOURCE
    ]
    if graph.copies:
        raise NothingSaid  # a feed is that of one copy, and a client feeds all of them
    if not free or "--feed" in case.call or any(size is None or size < 0 for size in shapes[free[0]]):
        raise NothingSaid
    shape = ",".join(map(str, shapes[free[0]]))
    if not fits(case, call := case.call.having({"--feed": f"{free[0]}={shape}"})):
        raise NothingSaid  # an op refuses these shapes, which is noted where nobody asks for them
    again = case.scene(call)
    yield from compared("a feed of its own shape", record(scene), record(again), but=(*TOLD_OTHERWISE, "unsized_remedy",
                        "training.notes"))  # fmt: skip


def spellings_of_branches(case: Case) -> Iterator[str]:
    """A branch that is certain is the same as a word and as a probability."""
    branch = case.call.options.get("--branch")
    if branch is None:
        raise NothingSaid
    name, _, way = branch.rpartition("=")
    other = {"true": "1.0", "false": "0.0"}.get(way)
    if other is None:
        raise NothingSaid
    again = case.scene(case.call.having({"--branch": f"{name}={other}"}))
    yield from compared("the branch as a number", record(case.scene()), record(again), but=("notes",))


def idle_disturbance(case: Case) -> Iterator[str]:
    """A disturbance that changes nothing changes nothing: of factor 1, or after the end; backup workers or not."""
    case.only(trainings=True, without=("--disturb",))
    found = re.match(r"/job:(\w+)/.*task:(\d+)", case.scene().cluster.tasks[-1])
    assert found is not None
    job, task = found.groups()
    what = case.random("idle").choice((f"{job}:{task}=slow:1.0", f"{job}:{task}=late:0 s", f"{job}:*=slow:1.0"))
    again = case.scene(case.call.having({"--disturb": what}))
    but = ("notes", "training.notes", "training.disturbances", "training.tried", "training.bottleneck")
    yield from compared(f"--disturb {what}", record(case.scene()), record(again), but=but)


def backups_do_no_harm(case: Case) -> Iterator[str]:
    """A synchronous training takes as many updates as steps are asked, and counts each gradient once."""
    scene = case.only(trainings=True)
    if not case.call.options["--training"].startswith("sync") or "--until-ci" in case.call:
        raise NothingSaid
    assert scene.training is not None
    told, steps = record(scene)["training"], int(case.call.options["--steps"])
    if told["lost_updates"] == 0 and told["updates"] != steps:
        yield f"{steps} updates are asked for, {told['updates']} are made"
    if np.any(np.diff(scene.training.training.update_ns) < 0):
        yield "updates are not in order of time"


def raised_limit(case: Case) -> Iterator[str]:
    """A limit that is not met may be raised, and nothing else is another."""
    again = case.scene(case.call.having({"--limit": "nodes=2000000"}))
    yield from compared("a raised limit", record(case.scene()), record(again))


def own_fetches(case: Case) -> Iterator[str]:
    """The fetches of a step by name make the same step."""
    scene = case.only(steps=True, without=("--microbatches", "--replicate"))
    fetches = scene.step.fetches
    if not fetches or "--fetch" in case.call:
        raise NothingSaid
    call = case.call
    for at, fetch in enumerate(fetches):
        call = call.having({"--fetch" if not at else f"--fetch={fetch}": fetch if not at else ""})
    again = case.scene(call)
    yield from compared("the fetches by name", record(scene), record(again), but=("step.rule", "notes"))


def until_certain(case: Case) -> Iterator[str]:
    """A run until a rate is certain ends when it is, or says that it is not; it begins as one of fixed length."""
    scene = case.only(trainings=True)
    call = case.call.having({"--until-ci": "20%"}, "--steps")
    until = case.scene(call)
    assert scene.training is not None
    assert until.training is not None
    told = record(until)["training"]
    precise = told["steps_per_s_ci95"]
    if precise is not None and precise > 0.2 and told["updates"] < 1000:
        yield f"it ended with an interval of {precise} after {told['updates']} updates"
    one, other = scene.training.training.update_ns.tolist(), until.training.training.update_ns.tolist()
    count = min(len(one), len(other))
    yield from equal("the first updates", one[:count], other[:count])


MEETING: Mapping[str, tuple[Callable[[Case], Iterator[str]], bool]] = {
    "measured times and copies": (times_of_copies, False),
    "a protocol in a cluster": (protocol_in_cluster, False),
    "TF_CONFIG with options": (as_tf_config, False),
    "pinned nodes where they are pinned": (pins_of_copies, True),
    "--against unpinned or plain": (against_without, False),
    "the interval of a profile": (interval_holds, True),
    "its own batch by name": (own_batch, False),
    "a feed of its own shape": (own_feeds, False),
    "a branch as a number": (spellings_of_branches, False),
    "a disturbance that changes nothing": (idle_disturbance, False),
    "synchronous updates are counted": (backups_do_no_harm, True),
    "a raised limit": (raised_limit, False),
    "its own fetches by name": (own_fetches, False),
    "until a rate is certain": (until_certain, False),
}
TRAINS: Mapping[str, Sequence[str]] = {"--training": ("async", "sync", "ssp:bound=1"), "--steps": ("6", "12")}
# Law -> options that its cases have; None: an option that they lack.
WANTED: Mapping[str, Mapping[str, Sequence[str] | None]] = {
    "own times read back": {"--algorithm": ("tensorflow", "requested"), "--training": None},
    "rows of --what-if": {"--algorithm": ("tensorflow", "requested", "heft", "etf", "search", "whitepaper"),
                          "--training": None, "--microbatches": None},
    "a further task": {"--algorithm": ("requested",), "--training": None, "--flavour": None, "--master": None,
                       "--cluster": ("ps=1,worker=2", "ps=2,worker=2x2gpu", "worker=2x2gpu", "ps=1,worker=1"),
                       "--microbatches": None, "--replicate": None},
    "the best pipeline": {"--microbatches": ("auto",), "--training": None, "--ignore-devices": ("",),
                          "--cluster": ("2gpu", "4gpu", "8v100", "2t4"), "--replicate": None, "--stages": None},
    "a client alone as a step": {**TRAINS, "--cluster": ("1gpu", "4gpu", "ps=1,worker=1", "ps=1,worker=1x1gpu"),
                                 "--disturb": None, "--gap": None, "--recv-scheduling": None, "--workers": None},
    "measured times and copies": {**TRAINS, "--replicate": ("in", "between", "both", "allreduce:ring"),
                                  "--ignore-devices": ("",), "--cluster": ("ps=1,worker=2x2gpu", "2gpu", "4gpu")},
    "a protocol in a cluster": {"--cluster": ("ps=1,worker=2", "worker=2x2gpu", "ps=2,worker=2x2gpu")},
    "TF_CONFIG with options": {"--cluster": ("ps=1,worker=2", "ps=1,worker=1", "chief=1,ps=2,worker=2")},
    "pinned nodes where they are pinned": {"--pin": ("",), "--microbatches": None},
    "--against unpinned or plain": {"--pin": ("",), "--training": None},
    "the interval of a profile": {"--profile": ("",), "--cluster": ("3cpu", "ps=1,worker=2", "worker=2x1gpu")},
    "a branch as a number": {"--branch": ("",)},
    "a feed of its own shape": {"--feed": None},
    "a disturbance that changes nothing": {**TRAINS, "--training": ("async", "sync", "sync:aggregate=2,total=3"),
                                           "--disturb": None, "--cluster": ("ps=2,worker=3x1gpu",)},
    "synchronous updates are counted": {**TRAINS, "--training": ("sync", "sync:aggregate=2,total=3"),
                                        "--disturb": ("worker:0=slow:2.0", "worker:1=crash:at=2 ms,for=5 ms",
                                                      "ps:0=pause:every=2 ms,for=100 us", "worker:2=late:5 ms"),
                                        "--cluster": ("ps=2,worker=3x1gpu", "ps=1,worker=3")},
    "until a rate is certain": {**TRAINS, "--disturb": ("worker:*=noise:lognormal:0.3",)},
    "a row of --workers": {**TRAINS, "--cluster": ("ps=1,worker=2", "ps=2,worker=3x1gpu")},
    "its own batch by name": {"--observation": ("",)},
}  # fmt: skip
