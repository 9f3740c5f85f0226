"""Laws between runs of the command, for `combining.py`: what must be equal in two of them, or what bounds what.

A law is a function of a case. It yields a sentence per violation, and raises NothingSaid where it says nothing about
that case. The further runs that it needs are changes of the case's call. Laws of one run alone are judged in each case.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Any: JSON

import numpy as np
from combining_copies import COPIED
from combining_meeting import MEETING
from combining_processes import PROCESSES
from combining_running import Case, NothingSaid, compared, equal, message_of
from combining_ways import WAYS

from simulator.errors import SimvizError
from simulator.execution.laws import check_trace
from simulator.graph.graph_def import graph_def
from simulator.graph.importer import read_graph
from simulator.graph.messages import GraphDef, MetaGraphDef
from simulator.graph.text_format import parse
from simulator.laws import assignment_laws
from simulator.partitioning.laws import partition_laws
from simulator.units import show_bytes, show_nanos
from viz.command.options import parser
from viz.command.request import read_request
from viz.command.running import candidates, run
from viz.command.summary import summarise
from viz.formats.drawing import draw
from viz.formats.json_object import record, to_json
from viz.formats.tables import to_tables
from viz.page.report import contents

NAMING = ("--costs", "--pin", "--feed", "--observation", "--trips")  # options that have names of nodes
LARGE_OPS = 3000  # of a step: of larger ones a law that draws each file draws fewer
# What differs between runs of which one is told in another way.
NAMES = ("graph.name", "cluster.name", "cluster.notes", "notes", "algorithm.asked")


# ---- of one run ------------------------------------------------------------------------------------------------------


def lawful(case: Case) -> Iterator[str]:
    """Assignment, pieces and trace keep the laws."""
    scene = case.scene()
    if len(scene.trace.tasks.kind) > 20_000:
        raise NothingSaid  # they are written to be read, not to be fast
    yield from assignment_laws(scene.graph, scene.assignment, scene.cluster)
    yield from partition_laws(scene.graph, scene.step, scene.cluster, scene.assignment, scene.partitions)
    yield from check_trace(scene.trace, scene.partitions, scene.cluster)


def bounded(case: Case) -> Iterator[str]:
    """No step is faster than its bound."""
    scene = case.scene()
    if scene.trace.makespan < scene.bound.ns:
        yield f"{scene.trace.makespan} ns are below the bound of {scene.bound.ns} ns, {scene.bound.why}"


def same_figures(case: Case) -> Iterator[str]:
    """JSON, page, tables, trace and summary tell the same."""
    scene = case.scene()
    told = json.loads(to_json(scene))
    page: Any = contents(scene)
    tables, full = to_tables(scene), summarise(scene, verbose=True)
    makespan = int(scene.trace.makespan)
    figures = page["summary"]
    ends = [row["unpacked_ns"] for row in told["transfers"]]
    yield from equal("makespan", makespan, told["makespan_ns"], figures["makespan_ns"])
    yield from equal("makespan by the critical path", makespan, sum(row["ns"] for row in told["critical"]))
    yield from equal("makespan by slices", makespan, max([0, *page["timeline"]["end_ns"], *ends]))
    yield from equal("bound", told["lower_bound_ns"], figures["lower_bound_ns"], int(scene.bound.ns))
    yield from equal("tensors without a size", scene.unsized.words, figures["unsized"]["words"])
    yield from equal("how many", told["unsized_tensors"], scene.unsized.tensors)
    yield from equal("whether it is a lower bound", told["makespan_is_lower_bound"], bool(figures["unsized"]["least"]))
    yield from equal("transfers", len(told["transfers"]), figures["transfers"], len(tables.get("transfers", ())))
    moved = sum(row["bytes"] for row in told["transfers"])
    yield from equal("bytes moved", moved, figures["moved_bytes"], sum(r["bytes"] for r in tables.get("transfers", ())))
    yield from equal("nodes", told["graph"]["nodes"], figures["nodes"], len(tables["nodes"]), len(told["placement"]))
    yield from equal("nodes that run", told["step"]["nodes"], figures["running"])
    yield from equal("edges", told["graph"]["edges"], len(page["edges"]["src"]), len(tables.get("edges", ())))
    peaks = [row["peak_bytes"] for row in told["devices"].values()]
    yield from equal("peaks", peaks, page["memory"]["peak_bytes"], [row["peak_bytes"] for row in tables["devices"]])
    yield from equal("busy times", [r["busy_ns"] for r in told["devices"].values()], scene.trace.busy_ns.tolist())
    yield from equal("bytes of links", told["links"], {r["link"]: r["bytes"] for r in tables.get("links", ())})
    yield from equal("algorithm", told["algorithm"], {"asked": figures["asked"], "used": figures["used"]})
    busiest = peaks[int(np.argmax(scene.trace.busy_ns))]  # others may be left out
    shown = [show_nanos(makespan)] + ([] if scene.training is not None else [show_bytes(busiest)])
    short = summarise(scene)
    for text in shown:
        if text not in full:
            yield f"the full summary does not say {text}"
    if scene.training is None and not scene.trace.dead_fetches and shown[0] not in short:
        yield f"the summary does not say {shown[0]}"


def peaks_add_up(case: Case) -> Iterator[str]:
    """What is alive at a device's peak adds up to it, and the curve reaches it."""
    scene = case.scene()
    for name, row in record(scene)["devices"].items():
        at = row["at_peak"]
        if at is None:
            if row["peak_bytes"]:
                yield f"{name} holds {row['peak_bytes']} bytes of nothing"
            continue
        for what, total in (
            ("kinds", sum(at["kinds"].values())),
            ("live and rest", sum(one["bytes"] for one in at["live"]) + at["rest_bytes"]),
        ):
            if total != row["peak_bytes"]:
                yield f"{name}: {what} add up to {total} of {row['peak_bytes']} bytes"
        if not 0 <= at["time_ns"] <= scene.trace.makespan:
            yield f"{name} is fullest at {at['time_ns']} ns of {scene.trace.makespan}"


def trainings_add_up(case: Case) -> Iterator[str]:
    """Shares, times and updates of a training add up, and its rate is that of its updates."""
    scene = case.only(trainings=True)
    assert scene.training is not None
    told, training = record(scene)["training"], scene.training.training
    spans = {sum(row.values()) for row in told["tasks"].values()}
    if len(spans) > 1:
        yield f"the times of tasks add up to {sorted(spans)[:3]} ns"
    if told["updates"] != len(training.update_ns) or sum(told["staleness"].values()) != told["updates"]:
        yield f"{told['updates']} updates have {sum(told['staleness'].values())} ages"
    if any(not 0 <= row["busy_share"] <= 1 + 1e-9 for row in told["links"].values()):
        yield "a link is busier than time passes"
    page: Any = contents(scene)["training"]
    for key in ("steps_per_s", "examples_per_s"):
        if key in page and page[key] != told[key]:
            yield f"the page says {page[key]} {key}, the JSON {told[key]}"
    if told["cycle"] and told["steps_per_s"] is not None and not told["steps_per_s_between_upsets"]:
        rate = told["cycle"]["updates"] / told["cycle"]["ns"] * 1e9
        if abs(rate - told["steps_per_s"]) > 1e-6 * rate:
            yield f"the cycle's rate is {rate}, that of the training {told['steps_per_s']}"
    if told["steps"] != int(training.is_worker[training.step_client].sum()):
        yield "steps that ended are not those that are told"


# ---- between runs ----------------------------------------------------------------------------------------------------


def both_engines(case: Case) -> Iterator[str]:
    """Both event loops write the same, but for their name."""
    one, other = (case.scene(case.call.having({"--engine": engine})) for engine in ("python", "compiled"))
    yield from compared("the compiled loop", record(one), record(other), but=("simulation.engine",))
    pages: list[Any] = [contents(scene) for scene in (one, other)]
    yield from compared("the compiled loop's page", pages[0], pages[1], but=("summary.simulation", "command"))


def bound_of_others(case: Case) -> Iterator[str]:
    """The bound holds for whatever another algorithm finds, and a search is no slower than what it began with."""
    scene = case.only(steps=True, without=("--microbatches",))
    name = case.random("other").choice(("tensorflow", "single", "heft", "etf", "m_topo", "search"))
    other = case.scene(case.call.having({"--algorithm": name, "--budget": "20"}))
    if other.trace.makespan < scene.bound.ns:
        yield f"{name} takes {other.trace.makespan} ns, below the bound of {scene.bound.ns} ns ({scene.bound.why})"
    for one in (scene, other):
        if case.call.options.get("--order") == "tensorflow":
            continue  # a search lists what it judged, and walks without what Recvs wait for under that order
        found = one.assignment.search
        fitting = [ns for ns in dict(found.listed).values() if ns is not None] if found is not None else []
        if fitting and one.received is None and one.trace.makespan > min(fitting):
            yield f"the search's step takes {one.trace.makespan} ns, one of its first plans {min(fitting)} ns"


def read_back(case: Case) -> Iterator[str]:
    """The placed graph, read as requested under hard placement, gives the same placement, cut and times."""
    scene = case.only(steps=True, without=("--microbatches", "--keep-calls", "--replicate", "--branch"))
    if scene.step.feeds or scene.graph.lowered is not None or scene.graph.expanded:
        raise NothingSaid  # another graph runs then
    file = case.folder / "placed.pb"
    file.write_bytes(draw(scene, ".pb"))  # type: ignore[arg-type]  # a file, no folder
    order = "fifo" if scene.trace.order == "priority" else scene.trace.order
    first = case.scene(case.call.having({"--order": order}))
    if first.assignment.device.tolist() != scene.assignment.device.tolist():
        raise NothingSaid  # a search judges by the order
    cluster = case.call.options.get("--cluster", scene.cluster.name)  # a client beside it has a name of its own
    kept = case.call.having(
        {"--algorithm": "requested", "--hard": "", "--order": order, "--cluster": cluster},
        "--ignore-devices", "--soft", "--budget", graph=file,
    )  # fmt: skip
    for at, fetch in enumerate(first.step.fetches):
        kept = kept.having({"--fetch" if not at else f"--fetch={fetch}": fetch if not at else ""})
    again = case.scene(kept)
    but = (
        "graph",
        "cluster.notes",
        "step.rule",
        "algorithm",
        "search",
        "notes",
        "counts",
        "pinned",
        "lower_bound_ns",
        "lower_bound_by",
        "unsized_ops",
    )
    yield from compared("the placed graph", record(first), record(again), but=but)


def measured_back(case: Case) -> Iterator[str]:
    """The times of its own RunMetadata change nothing."""
    scene = case.only(steps=True, without=("--microbatches", "--replicate", "--profile", "--keep-calls"))
    file = case.folder / "own.run_metadata.pb"
    file.write_bytes(draw(scene, ".run_metadata.pb"))  # type: ignore[arg-type]  # a file, no folder
    kept = case.call.having({"--costs": str(file)})
    if scene.assignment.used not in ("tensorflow", "requested"):
        raise NothingSaid  # times on one kind of device change the estimates of no other, but do the plan
    again = case.scene(kept)
    yield from equal("makespan with own times", int(scene.trace.makespan), int(again.trace.makespan))


def as_toml(case: Case) -> Iterator[str]:
    """A cluster in notation equals the same described in TOML."""
    notation = case.call.options.get("--cluster", "")
    if "--workers" in case.call:
        raise NothingSaid  # it counts notations alone
    text = toml(notation)
    file = case.folder / "cluster.toml"
    file.write_text(text)
    again = case.scene(case.call.having({"--cluster": str(file)}))
    but = (*NAMES, "training.notes", "cluster.kinds")
    yield from compared("the TOML file", record(case.scene()), record(again), but=but)


def toml(notation: str) -> str:
    """The cluster of a notation in TOML. Raise NothingSaid for a preset, and for parts that one file can't say."""
    hosts, tasks, protocol, numbers = [], [], "", dict[str, int]()
    alone = {"cpus": 1, "gpus": ""}
    for part in notation.split(","):
        if part.startswith("protocol="):
            protocol = f'protocol = "{part[9:]}"\n'
            continue
        job = re.fullmatch(r"(\w+)=(\d+)(?:x(\d+)([\w-]+))?", part)
        single = re.fullmatch(r"(\d+)([\w-]+)", part) or re.fullmatch(r"(cpu|gpu)=(\d+)", part)
        if job and job[1] not in ("cpu", "gpu"):
            for _ in range(int(job[2])):
                number = numbers.setdefault(job[1], 0)
                numbers[job[1]] += 1
                gpus = f'gpus = "{job[3]} {"a100" if job[4] == "gpu" else job[4]}"\n' if job[3] else ""
                hosts.append(f'[[host]]\nname = "{job[1]}{number}"\n{gpus}')
                tasks.append(f'[[task]]\njob = "{job[1]}"\nhost = "{job[1]}{number}"\n')
        elif single:
            count, what = (single[1], single[2]) if single[1].isdigit() else (single[2], single[1])
            if what == "cpu":
                alone["cpus"] = count
            elif alone["gpus"]:
                raise NothingSaid  # GPUs of several models
            else:
                alone["gpus"] = f'gpus = "{count} {"a100" if what == "gpu" else what}"\n'
        else:
            raise NothingSaid
    if not tasks:
        if not re.match(r"\d|cpu=|gpu=", notation):
            raise NothingSaid
        hosts = [f'[[host]]\nname = "localhost"\n{alone["gpus"]}']
        tasks = [f'[[task]]\njob = "localhost"\nhost = "localhost"\ncpus = {alone["cpus"]}\n']
    return protocol + "\n".join([*hosts, *tasks])


def other_forms(case: Case) -> Iterator[str]:
    """A graph as text, binary, gzip or in a MetaGraph is the same graph."""
    message, suffix = message_of(case.call.graph)
    way = case.random("form").choice(("binary", "text", "gzip", "meta"))
    raw = message.SerializeToString(deterministic=True)
    if way == "meta":
        if suffix == ".meta":
            raise NothingSaid
        raw = MetaGraphDef(graph_def=message).SerializeToString(deterministic=True)
    elif way == "text":
        from google.protobuf import text_format

        raw = text_format.MessageToString(message).encode()
    elif way == "gzip":
        raw = gzip.compress(raw)
    file = case.folder / "form.pb"
    file.write_bytes(raw)
    again = case.scene(case.call.having(graph=file))
    but = ("graph.name", "notes", "pipelined") + (("step.rule", "graph.notes") if way == "meta" else ())
    yield from compared(f"the graph as {way}", record(case.scene()), record(again), but=but)


def other_names(case: Case) -> Iterator[str]:
    """Other letters in the names of nodes change nothing but the names."""
    scene = case.only(
        steps=True, without=("--branch", "--keep-calls", "--replicate", *NAMING)
    )  # `global_step` is a name
    if case.call.options.get("--algorithm") == "search":
        raise NothingSaid  # one of its orders is that of names
    if scene.graph.expanded or scene.graph.library or Path(case.call.graph).suffix == ".meta" or scene.step.feeds:
        raise NothingSaid  # names of functions and collections would have to change, too
    graph, _ = read_graph(case.call.graph), None
    message = graph_def(graph)
    for node in message.node:
        node.name = _turned(node.name)
        for at, source in enumerate(node.input):
            node.input[at] = _turned(source)
        if "_class" in node.attr:
            for at, text in enumerate(node.attr["_class"].list.s):
                node.attr["_class"].list.s[at] = (
                    text if not text.startswith(b"loc:@") else b"loc:@" + _turned(text[5:].decode()).encode()
                )
    file = case.folder / "turned.pb"
    file.write_bytes(message.SerializeToString(deterministic=True))
    call, first = case.call, case.call
    for at, fetch in enumerate(scene.step.fetches):
        turned = _turned(fetch)
        first = first.having({"--fetch" if not at else f"--fetch={fetch}": fetch if not at else ""})
        call = call.having({"--fetch" if not at else f"--fetch={turned}": turned if not at else ""})
    if not scene.step.fetches:
        raise NothingSaid
    one, other = case.scene(first), case.scene(call.having(graph=file))
    yield from equal("makespan under other names", int(one.trace.makespan), int(other.trace.makespan))
    yield from equal("devices under other names", one.assignment.device.tolist(), other.assignment.device.tolist())
    yield from equal("bound under other names", int(one.bound.ns), int(other.bound.ns))
    yield from equal("peaks under other names", one.trace.peak_bytes.tolist(), other.trace.peak_bytes.tolist())


def _turned(name: str) -> str:
    """Each letter is that 13 places further, so that the order of names changes, and the scopes stay."""
    turn = str.maketrans(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "nopqrstuvwxyzabcdefghijklmNOPQRSTUVWXYZABCDEFGHIJKLM"
    )
    return name.translate(turn)


def against_itself(case: Case) -> Iterator[str]:
    """A run differs in nothing from itself: from its result, its algorithm, its cluster or its regime."""
    scene = case.scene()
    ways = ["result", "cluster"] + (["regime"] if case.trains else ["algorithm"])
    way = case.random("against").choice(ways)
    if way == "result":
        if case.trains:
            raise NothingSaid  # it keeps no steps
        (case.folder / "first.json").write_text(to_json(scene))
        other = str(case.folder / "first.json")
    elif way == "cluster":
        if "--cluster" not in case.call or "--microbatches" in case.call:
            raise NothingSaid
        other = case.call.options["--cluster"]
    else:
        other = case.call.options["--training"] if way == "regime" else case.call.options["--algorithm"]
    again = case.scene(case.call.having({"--against": other}))
    told = record(again)
    yield from compared("the run beside another", record(scene), told, but=("against", "training.against"))
    found = told["against"]
    if found is None:
        yield "there is no difference to tell"
        return
    quiet = found["makespan_ns"]["other"] == found["makespan_ns"]["this"]
    if not quiet or found["explanation"] or found["moved"] or found["crossings"] or any(found["nodes_alone"].values()):
        yield f"against itself ({way}): {found['makespan_ns']}, {str(found['explanation'])[:150]}"
    if found["unlike"]:
        yield f"against itself ({way}) it is unlike in {found['unlike']}"


def pieces_back(case: Case) -> Iterator[str]:
    """The written pieces can be read, and hold each node of the step once, and both ends of each transfer."""
    scene = case.only(steps=True)
    if case.call.options.get("--recv-scheduling") == "tensorflow":
        raise NothingSaid  # its triggers have the same names in each piece
    pieces = draw(scene, ".partitions")
    assert isinstance(pieces, Mapping)
    nodes: dict[str, str] = {}
    sends, recvs = set[Any](), set[Any]()
    for name, raw in pieces.items():
        file = case.folder / name
        file.write_bytes(raw)
        for node in parse(raw.decode(), GraphDef(), name, 1).node:
            if node.name in nodes and node.op not in ("_Send", "_HostSend", "_Recv", "_HostRecv"):
                if node.op == "Const":
                    continue
                yield f"{node.name} is in two pieces"
            nodes[node.name] = node.device
            if "client_terminated" in node.attr and node.attr["client_terminated"].b:
                continue  # its other end is the client
            if "tensor_name" in node.attr and node.op.lstrip("_").startswith(("Send", "HostSend", "Recv", "HostRecv")):
                ends = sends if "Send" in node.op else recvs
                ends.add((node.attr["tensor_name"].s, node.attr["send_device"].s, node.attr["recv_device"].s))
    if sends != recvs:
        yield f"{len(sends ^ recvs)} ends of transfers have no other end"
    names, inserted = scene.partitions.graph.names, scene.partitions.inserted.tolist()
    importable = [name.lstrip("_") if made else name for name, made in zip(names, inserted, strict=True)]
    devices = dict(zip(importable, scene.partitions.device.tolist(), strict=True))
    for name, row in devices.items():
        if name not in nodes or nodes[name] != scene.cluster.devices[row].name:
            yield f"{name} is on {nodes.get(name)} in the pieces, else on {scene.cluster.devices[row].name}"
            return


def said_aloud(case: Case) -> Iterator[str]:
    """Defaults that are given by name change nothing."""
    scene = case.scene()
    given: dict[str, str] = {"--seed": "0", "--contention": "serial"}
    if case.trains:
        given["--steps"] = "50"
    else:
        given["--flavour"] = scene.partitions.flavour
    given = {name: value for name, value in given.items() if name not in case.call}
    given["--soft" if "--hard" not in case.call else "--hard"] = ""
    if "--batch" not in case.call and "--feed" not in case.call and scene.observed is None:
        pass  # the default is the file's own batch
    again = case.scene(case.call.having(given))
    yield from compared("the defaults by name", record(scene), record(again))


def command_of_page(case: Case) -> Iterator[str]:
    """The command that the page offers makes the same run."""
    scene = case.scene()
    if scene.command is None:
        yield "the page offers no command"
        return
    import shlex

    words = shlex.split(scene.command)[1:]
    again = run(read_request(parser().read(words)))
    yield from compared("the page's command", record(scene), record(again), but=("cluster.notes",))


def rows_of_compare(case: Case) -> Iterator[str]:
    """A row of --compare equals the run with that algorithm."""
    scene = case.only(steps=True, without=("--microbatches",))
    if case.call.options.get("--order") == "priority":
        raise NothingSaid  # not all algorithms of the table give priorities
    name = case.call.options["--algorithm"]
    call = case.call.having({"--compare": f"single,{name}" if name != "single" else "single"}, "--algorithm")
    asked = call.asked()
    row = candidates(read_request(asked), asked.compare).entries[-1]
    assert row.score is not None
    yield from equal("makespan in the table", int(scene.trace.makespan), row.score.makespan_ns)
    yield from equal("used in the table", scene.assignment.used, row.score.used)
    yield from equal("bytes in the table", sum(r["bytes"] for r in record(scene)["transfers"]), row.score.moved_bytes)
    if row.score.lower_bound_ns < scene.bound.ns:
        yield f"the table's bound, {row.score.lower_bound_ns} ns, is below that of the run, {scene.bound.ns} ns"


def rows_of_what_if(case: Case) -> Iterator[str]:
    """A row of --what-if equals the run with that change made by hand."""
    scene = case.only(steps=True, without=("--microbatches",))
    if len(scene.trace.tasks.kind) > LARGE_OPS:
        raise NothingSaid
    kept = case.call.options["--algorithm"] in ("tensorflow", "requested")  # a plan by costs would be another
    told = record(case.scene(case.call.having({"--what-if": "kept" if kept else "again"})))["what_if"]
    yield from equal("makespan without a change", int(scene.trace.makespan), told["makespan_ns"])
    for row in told["rows"]:
        change = _by_hand(case, row)
        if not change:
            continue
        try:
            again = case.scene(case.call.having(change))
        except SimvizError as error:
            if not row["refused"]:
                yield f"{change} by hand is refused: {error}"
            continue
        found = f"makespan with {row['what']} {row['after']}"
        if "devices or links for the group" in row["refused"]:
            continue  # by hand a note says that collectives without members move nothing
        if row["refused"]:
            yield f"{found} is refused: {row['refused']}"
        elif row["what"] != "devices":
            if not kept or again.assignment.device.tolist() == scene.assignment.device.tolist():
                yield from equal(found, int(again.trace.makespan), row["makespan_ns"])
        elif row["placement"] == "again":
            yield from equal(found, int(again.trace.makespan), row["makespan_ns"])
        elif row["makespan_ns"] > again.trace.makespan and not record(again)["out_of_memory"]:
            yield f"{found} is {row['makespan_ns']} on the kept devices, {again.trace.makespan} placed again"


def _by_hand(case: Case, row: Mapping[str, Any]) -> dict[str, str]:
    """The options of a change; none where it can't be said by options."""
    if row["what"] == "batch" and "--costs" in case.call:
        return {}  # a row changes the times of files as estimates change, a run by hand takes them for its own batch
    option = {"batch": "--batch", "contention": "--contention", "protocol": "--protocol"}.get(row["what"])
    if option:
        return {option: row["after"]}
    notation = case.call.options.get("--cluster", "")
    if row["what"] == "devices" and notation:
        return {"--cluster": notation.replace(row["before"], row["after"], 1)}
    wire, _, figure = row["what"].partition(" ")
    if wire != "nic" or figure not in ("bandwidth", "latency"):
        return {}
    rate, latency_ns = (25.0, 1000.0)  # of NICs in the notation: Gbit/s, ns
    times = 2.0 if _figure(row["after"]) > _figure(row["before"]) else 0.5
    rate, latency_ns = (rate * times, latency_ns) if figure == "bandwidth" else (rate, latency_ns * times)
    nic = f'nic = {{ bandwidth = "{rate} Gbit/s", latency = "{latency_ns} ns" }}'
    try:
        text = toml(notation)
    except NothingSaid:
        return {}
    file = case.folder / f"{figure}{times}.toml"
    file.write_text(re.sub(r"(\[\[host\]\]\n)", rf"\1{nic}\n", text))
    return {"--cluster": str(file)}


def _figure(text: str) -> float:
    """What "3.12 GB/s" or "500 ns" says, in the unit without a prefix."""
    number, unit = text.split()
    return float(number) * {"G": 1e9, "M": 1e6, "k": 1e3, "T": 1e12, "u": 1e-6, "n": 1e-9, "m": 1e-3}[unit[0]]


def late_recvs(case: Case) -> Iterator[str]:
    """Delayed Recvs make neither the step nor a peak worse, and "without" is the run without."""
    scene = case.only(steps=True, without=("--microbatches",))
    rule = case.call.options.get("--recv-scheduling", "whitepaper")
    scene = case.scene(case.call.having({"--recv-scheduling": rule}))
    plain = case.scene(case.call.having({}, "--recv-scheduling"))
    told = record(scene)["recv_scheduling"]
    if told is None:
        raise NothingSaid
    if scene.assignment.device.tolist() != plain.assignment.device.tolist():
        yield "the placement is another"
    yield from equal("makespan without delays", int(plain.trace.makespan), told["makespan_ns"]["without"])
    yield from equal("makespan with delays", int(scene.trace.makespan), told["makespan_ns"]["with"])
    peaks = {name: row["without"] for name, row in told["peak_bytes"].items()}
    yield from equal("peaks without", {n: r["peak_bytes"] for n, r in record(plain)["devices"].items()}, peaks)
    if rule == "whitepaper":
        for name, row in (("the step", told["makespan_ns"]), *told["peak_bytes"].items()):
            if row["with"] > row["without"]:
                yield f"{name} gets worse: {row}"


def no_chance(case: Case) -> Iterator[str]:
    """Where nothing is drawn another seed changes nothing, but for the chances of TensorFlow's order beside."""
    call = case.call
    drawn = (
        call.options.get("--order") == "tensorflow"
        or "0.5" in call.options.get("--branch", "")
        or "noise" in call.options.get("--disturb", "")
    )
    if drawn or call.options.get("--algorithm") == "search" or call.options.get("--ps-strategy") == "random":
        raise NothingSaid
    again = case.scene(call.having({"--seed": "12345"}))
    beside = {"makespan_in_tensorflow_order_ns": None}
    yield from compared("another seed", {**record(case.scene()), **beside}, {**record(again), **beside})


def further_task(case: Case) -> Iterator[str]:
    """A further task that no device string asks for changes neither placement nor time of what is requested."""
    scene = case.only(steps=True, without=("--microbatches", "--replicate", "--flavour", "--master"))
    cluster = case.call.options.get("--cluster", "")
    if case.call.options["--algorithm"] != "requested" or not re.match(r"(ps|worker|chief)=", cluster):
        raise NothingSaid
    again = case.scene(case.call.having({"--cluster": f"{cluster},zebra=1"}))
    if len(scene.cluster.tasks) == 1:
        raise NothingSaid  # it is cut by a master then
    yield from equal("makespan with a further task", int(scene.trace.makespan), int(again.trace.makespan))
    yield from equal("devices with a further task", scene.assignment.device.tolist(), again.assignment.device.tolist())


def auto_pipeline(case: Case) -> Iterator[str]:
    """The best of the pipelines that were tried is shown, and each number alone gives the same."""
    scene = case.only(steps=True)
    if case.call.options.get("--microbatches") != "auto":
        raise NothingSaid
    told = record(scene)["pipelined"]
    if told is None:
        raise NothingSaid
    fits = [one for one in told["tried"] if not one["refused"] and one["fits"]]
    if fits and scene.trace.makespan > min(one["makespan_ns"] for one in fits):
        yield f"{scene.trace.makespan} ns are shown; {[one['makespan_ns'] for one in fits]} were tried"
    for one in fits[1:2]:
        options = {
            "--microbatches": str(one["microbatches"]),
            "--pipeline": one["order"],
            "--stages": str(one["stages"]),
        }
        again = case.scene(case.call.having(options))
        yield from equal(f"makespan with {options}", one["makespan_ns"], int(again.trace.makespan))


def batch_of_file(case: Case) -> Iterator[str]:
    """--batch N equals the file that was built with N."""
    found = re.fullmatch(r"(.*_)(\d+)(_[a-z_]+)?\.pb", Path(case.call.graph).name)
    if not found:
        raise NothingSaid
    pattern = re.compile(re.escape(found[1]) + r"(\d+)" + re.escape(found[3] or "") + r"\.pb")
    beside = [
        path
        for path in Path(case.call.graph).parent.iterdir()
        if (m := pattern.fullmatch(path.name)) and m[1] != found[2]
    ]
    if not beside or "--feed" in case.call or "--microbatches" in case.call:
        raise NothingSaid
    other = sorted(beside)[0]
    batch = pattern.fullmatch(other.name)[1]  # type: ignore[index]  # it has matched
    but = ("graph", "notes", "unsized_remedy", "training.notes", "training.examples_per_s", "training.inputs")
    one = case.scene(case.call.having({"--batch": batch}))  # of a training it says how many examples there are, too
    two = case.scene(case.call.having({}, "--batch", graph=other))
    if one.graph.names != two.graph.names:
        raise NothingSaid  # another version of the script wrote it
    yield from compared(f"the file of {batch}", record(one), record(two), but=but)


# ---- of trainings ----------------------------------------------------------------------------------------------------


def longer(case: Case) -> Iterator[str]:
    """A longer training begins as the shorter one, and one that repeats itself keeps its rate."""
    scene = case.only(trainings=True)
    steps = int(case.call.options["--steps"])
    longer = case.scene(case.call.having({"--steps": str(3 * steps)}))
    assert scene.training is not None
    assert longer.training is not None
    short, long = scene.training.training, longer.training.training
    count = len(short.update_ns)
    yield from equal("the first updates", short.update_ns.tolist(), long.update_ns.tolist()[:count])
    ended = np.flatnonzero(short.step_end_ns < short.end_ns)
    mine = [(c, n, s, e) for c, n, s, e in zip(*(col[ended].tolist() for col in _steps(short)), strict=True)]
    theirs = set(zip(*(column.tolist() for column in _steps(long)), strict=True))
    strange = [one for one in mine if one not in theirs]
    if strange:
        yield f"{len(strange)} steps of {len(mine)} end otherwise in a longer training, the first {strange[0]}"
    rates = [trained.answers for trained in (scene.training, longer.training)]
    if all(one.cycle is not None for one in rates) and rates[0].steps_per_s and rates[1].steps_per_s:
        one, other = (rate.steps_per_s or 0.0 for rate in rates)
        if abs(one - other) > 0.05 * other:
            yield f"the rate of the cycle is {one}, in a longer training {other}"


def _steps(training: Any) -> tuple[Any, ...]:
    return training.step_client, training.step_number, training.step_start_ns, training.step_end_ns


def alone_as_a_step(case: Case) -> Iterator[str]:
    """A client that is alone, undisturbed and never out of input takes as long as a simulated step in each step."""
    scene = case.only(trainings=True, without=("--disturb", "--gap", "--recv-scheduling"))
    scene = case.scene(case.call.having({"--input": "none"}))
    assert scene.training is not None
    training = scene.training.training
    if len(scene.training.clients) > 1 or training.step_waiting_ns.any() or not len(training.step_end_ns):
        raise NothingSaid  # none ends where a step makes several updates
    lengths = set((training.step_end_ns - training.step_start_ns).tolist())
    if lengths != {int(scene.trace.makespan)}:
        yield f"steps take {sorted(lengths)[:3]} ns, a simulated step {scene.trace.makespan} ns"


def rows_of_workers(case: Case) -> Iterator[str]:
    """The last row of --workers equals the training of that many."""
    scene = case.only(trainings=True)
    if ",total=" in case.call.options["--training"] or "worker=" not in case.call.options["--cluster"]:
        raise NothingSaid
    count = 2
    many = case.scene(case.call.having({"--workers": f"1,{count}"}))
    alone = case.scene(case.call.having({"--workers": str(count)}))
    rows = [record(one)["training"]["scaling"] for one in (many, alone)]
    if not rows[0] or not rows[1]:
        yield "there are no rows"
        return
    assert scene.training is not None
    yield from compared("the row of one number alone", rows[0][-1], rows[1][-1], but=("efficiency",))
    but = ("training.scaling", "training.notes", "notes")
    yield from compared("the training of one number alone", record(many), record(alone), but=but)
    notation = case.call.options["--cluster"]
    if (
        notation.count("worker=") == 1
        and "chief=" not in notation
        and not any(option in case.call for option in ("--disturb", "--master"))
    ):
        small = case.call.having({"--cluster": re.sub(r"worker=\d+", f"worker={count}", notation)}, "--workers")
        trained = case.scene(small).training
        assert trained is not None
        yield from equal("the rate on the smaller cluster", rows[0][-1]["steps_per_s"], trained.answers.steps_per_s)


@dataclass(frozen=True)
class Law:
    """A law, and whether it needs no further run."""

    of: Callable[[Case], Iterator[str]]
    alone: bool = False


LAWS: Mapping[str, Law] = {
    "no exception": Law(lambda case: iter(()), alone=True),
    "laws of assignment, pieces and trace": Law(lawful, alone=True),
    "no step below its bound": Law(bounded, alone=True),
    "JSON, page, tables and summary tell the same": Law(same_figures, alone=True),
    "what is alive adds up to each peak": Law(peaks_add_up, alone=True),
    "figures of a training add up": Law(trainings_add_up, alone=True),
    "both event loops": Law(both_engines),
    "the bound holds for another algorithm": Law(bound_of_others),
    "the placed graph read back": Law(read_back),
    "own times read back": Law(measured_back),
    "notation and TOML": Law(as_toml),
    "binary, text, gzip and MetaGraph": Law(other_forms),
    "other letters in names": Law(other_names),
    "against itself": Law(against_itself),
    "pieces read back": Law(pieces_back),
    "defaults by name": Law(said_aloud),
    "the page's command": Law(command_of_page),
    "a row of --compare": Law(rows_of_compare),
    "rows of --what-if": Law(rows_of_what_if),
    "delayed Recvs": Law(late_recvs),
    "another seed without chance": Law(no_chance),
    "a further task": Law(further_task),
    "the best pipeline": Law(auto_pipeline),
    "--batch N and the file of N": Law(batch_of_file),
    "a longer training": Law(longer),
    "a client alone as a step": Law(alone_as_a_step),
    "a row of --workers": Law(rows_of_workers),
    **{name: Law(of, alone) for name, (of, alone) in {**MEETING, **COPIED, **PROCESSES, **WAYS}.items()},
}
