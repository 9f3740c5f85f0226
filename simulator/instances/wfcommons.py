"""Workflows of WfCommons: tasks that hand each other files, on the machines that ran them.

Coleman, Casanova, Pottier, Kaushik, Deelman, Ferreira da Silva: "WfCommons: A Framework for Enabling Scientific
Workflow Research and Development", Future Generation Computer Systems 128, 2022. The form is WfFormat 1.2 to 1.6:
https://github.com/wfcommons/WfFormat.

    the file                  here
    task                      an op "Task" that requests a CPU
    runtimeInSeconds          its time on every CPU
    parent                    an edge: a tensor per file that the parent writes and the child reads, else a control edge
    machine                   a task of job "machine" with one CPU device, which has a lane per core

Any: a value of JSON, narrowed where it is used.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

from simulator import limits
from simulator.assignment import Assignment
from simulator.cluster.cluster import Cluster, Device, Link
from simulator.cluster.topology import NIC_25GBE
from simulator.columns import ints
from simulator.errors import GraphError
from simulator.instances.fields import listed, mapping, number, text, whole
from simulator.instances.instance import BOUNDLESS_BYTES, Instance, graph_of, node_names
from simulator.wording import counted

FORM = "WfCommons workflow"
_MOST_S = 1e5  # a task's longest time: more than a day
_MOST_BYTES = 2**50  # of a file
_MACHINES = 4  # where the file names none
_MOST_CORES = 4096


def is_wfcommons(document: dict[str, Any]) -> bool:
    """Whether a JSON object is such a workflow."""
    found = document.get("workflow")
    return isinstance(found, dict) and bool({"specification", "tasks", "jobs"} & found.keys())


def read_wfcommons(document: dict[str, Any], label: str) -> Instance:
    """The workflow of a JSON object. Raises GraphError for one that is malformed or was never run."""
    workflow = mapping(document.get("workflow"), "the workflow", label)
    split = "specification" in workflow  # from 1.5 on what ran stands apart
    form = mapping(workflow["specification"], "the specification", label) if split else workflow
    ran = mapping(workflow.get("execution", {}), "the execution", label) if split else workflow
    tasks = [mapping(entry, "a task", label) for entry in listed(form, _key(form), limits.INSTANCE_NODES, label)]
    if not tasks:
        raise GraphError(f"{label} is a {FORM} without tasks.")
    numbers = [text(task, "id" if "id" in task else "name", "a task", label) for task in tasks]
    rows = {number: row for row, number in enumerate(numbers)}
    if len(rows) < len(numbers):
        twice = next(number for row, number in enumerate(numbers) if rows[number] != row)
        raise GraphError(f"{label}: two tasks are called {twice!r}.")
    seconds = _seconds(ran, tasks, rows, numbers, label, split=split)
    reads, writes, sizes = _files(form, tasks, numbers, label)
    names = node_names(numbers, [f"task{row}" for row in range(len(tasks))])
    inputs, nbytes = _inputs(_parents(tasks, numbers, rows, label), names, reads, writes, sizes)
    machines = [mapping(entry, "a machine", label) for entry in listed(ran, "machines", limits.STEP_DEVICES, label)]
    cluster, places = _cluster(machines, label)
    said = f"a {FORM}: a task takes its recorded time on every machine, and holds a core"
    graph = graph_of(
        names,
        ["Task"] * len(tasks),
        ["/device:CPU:*"] * len(tasks),
        inputs,
        [None] * len(tasks),
        nbytes,
        label,
        [said],
    )
    return Instance(
        form=FORM,
        graph=graph,
        cluster=cluster,
        run_ns={"CPU": ints([round(time * 1e9) for time in seconds])},
        resident_bytes=ints([0] * len(tasks)),
        only_there=False,
        written=lambda assignment: _written(document, numbers, seconds, places, assignment),
    )


def _key(form: dict[str, Any]) -> str:
    return "tasks" if "tasks" in form else "jobs"


def _seconds(
    ran: dict[str, Any],
    tasks: Sequence[dict[str, Any]],
    rows: dict[str, int],
    numbers: Sequence[str],
    label: str,
    *,
    split: bool,
) -> list[float]:
    """[N] the recorded time of each task."""
    records = dict(enumerate(tasks))
    if split:
        entries = [mapping(entry, "a run", label) for entry in listed(ran, "tasks", limits.INSTANCE_NODES, label)]
        records = {rows[found]: entry for entry in entries if (found := str(entry.get("id"))) in rows}
    times = []
    for row, name in enumerate(numbers):
        record = records.get(row, {})
        key = "runtime" if "runtimeInSeconds" not in record and "runtime" in record else "runtimeInSeconds"
        times.append(number(record, key, _MOST_S, f"task {name!r}", label))
    return times


def _files(
    form: dict[str, Any], tasks: Sequence[dict[str, Any]], numbers: Sequence[str], label: str
) -> tuple[list[list[str]], list[list[str]], dict[str, int]]:
    """The files that each task reads and writes, and the size of each file."""
    sizes: dict[str, int] = {}
    reads: list[list[str]] = []
    writes: list[list[str]] = []
    for entry in listed(form, "files", limits.INSTANCE_EDGES, label):
        file = mapping(entry, "a file", label)
        sizes[text(file, "id", "a file", label)] = whole(file, "sizeInBytes", _MOST_BYTES, "a file", label)
    for task, name in zip(tasks, numbers, strict=True):
        own: dict[str, list[str]] = {"input": [], "output": []}
        for key in own:
            own[key] = [str(file) for file in listed(task, f"{key}Files", limits.INSTANCE_EDGES, label)]
        for entry in listed(task, "files", limits.INSTANCE_EDGES, label):
            file = mapping(entry, f"a file of task {name!r}", label)
            called = text(file, "id" if "id" in file else "name", f"a file of task {name!r}", label)
            size = "size" if "sizeInBytes" not in file and "size" in file else "sizeInBytes"
            sizes[called] = whole(file, size, _MOST_BYTES, f"file {called!r}", label)
            own.setdefault(str(file.get("link")), []).append(called)
        reads.append(own["input"])
        writes.append(own["output"])
    return reads, writes, sizes


def _parents(
    tasks: Sequence[dict[str, Any]], numbers: Sequence[str], rows: dict[str, int], label: str
) -> list[list[int]]:
    """[N] the rows of the tasks before each task, whichever of both says so."""
    found: list[dict[int, None]] = [{} for _ in tasks]
    by_name = {str(task.get("name")): row for row, task in enumerate(tasks)} | rows  # old files refer by name
    for row, task in enumerate(tasks):
        for key in ("parents", "children"):
            for other in listed(task, key, limits.INSTANCE_EDGES, label):
                at = by_name.get(other) if isinstance(other, str) else None
                if at is None:
                    said = f"{label}: task {numbers[row]!r} has {repr(other)[:60]} among its {key}"
                    raise GraphError(f"{said}, which is no task.")
                before, after = (at, row) if key == "parents" else (row, at)
                found[after][before] = None
    return [list(before) for before in found]


def _inputs(
    parents: Sequence[Sequence[int]],
    names: Sequence[str],
    reads: Sequence[Sequence[str]],
    writes: Sequence[Sequence[str]],
    sizes: dict[str, int],
) -> tuple[list[list[str]], dict[tuple[int, int], int]]:
    """The inputs of each node, and the bytes of each output: a file that some child reads."""
    ports: list[dict[str, int]] = [{} for _ in names]
    nbytes: dict[tuple[int, int], int] = {}
    inputs: list[list[str]] = []
    for row, before in enumerate(parents):
        wanted = set(reads[row])
        data: list[str] = []
        controls: list[str] = []
        for parent in before:
            handed = [file for file in dict.fromkeys(writes[parent]) if file in wanted]
            for file in handed:
                port = ports[parent].setdefault(file, len(ports[parent]))
                nbytes[parent, port] = sizes.get(file, 0)
                data.append(f"{names[parent]}:{port}")
            if not handed:
                controls.append(f"^{names[parent]}")
        inputs.append([*data, *controls])
    return inputs, nbytes


def _cluster(machines: Sequence[dict[str, Any]], label: str) -> tuple[Cluster, dict[str, str]]:
    """Machines joined by 25 Gbit/s Ethernet, and their names by device; without any, some of one core."""
    names, cores = [], []
    for at, machine in enumerate(machines):
        cpu = mapping(machine.get("cpu", {}), "a machine's 'cpu'", label)
        count = "count" if "coreCount" not in cpu and "count" in cpu else "coreCount"
        names.append(str(machine.get("nodeName", f"machine{at}")))
        cores.append(max(1, whole(cpu, count, _MOST_CORES, f"machine {names[-1]!r}", label, 1)))
    said = f"{counted(len(names), 'machine')} of the file"
    if not names:
        names, cores = [f"machine{at}" for at in range(_MACHINES)], [1] * _MACHINES
        said = f"the file names no machines: {_MACHINES} of one core are assumed"
    devices, links = [], []
    for at, lanes in enumerate(cores):
        name = f"/job:machine/replica:0/task:{at}/device:CPU:0"
        devices.append(Device(name, "CPU", "cpu", BOUNDLESS_BYTES, 10**12, 10**11, 0, lanes, names[at], 1))
        for way in ("out", "in"):
            link = f"machine{at} nic {way}"
            links.append(Link(link, NIC_25GBE.latency_ns, NIC_25GBE.bytes_per_s, kind="nic"))
    rows = range(len(devices))
    routes = [[() if s == t else (2 * s, 2 * t + 1) for t in rows] for s in rows]
    notes = (said, "machines are joined by 25 Gbit/s Ethernet, and files go from machine to machine")
    made = Cluster(tuple(devices), tuple(links), tuple(map(tuple, routes)), "its own machines", notes)
    return made, {device.name: device.host for device in devices}


def _written(
    document: dict[str, Any],
    numbers: Sequence[str],
    seconds: Sequence[float],
    places: dict[str, str],
    assignment: Assignment,
) -> str:
    """The workflow with the machine of each task, where its version has it."""
    made = copy.deepcopy(document)
    workflow = made["workflow"]
    device = [int(row) for row in assignment.device]
    names = [places.get(assignment.devices[row], assignment.devices[row]) for row in device]
    if "specification" not in workflow:
        for task, name in zip(workflow[_key(workflow)], names, strict=True):
            task["machine"] = name
        return json.dumps(made, indent=1) + "\n"
    ran = workflow.setdefault("execution", {})
    known = {str(entry.get("id")): entry for entry in ran.setdefault("tasks", [])}
    for task, time, name in zip(numbers, seconds, names, strict=True):
        if task not in known:
            known[task] = {"id": task, "runtimeInSeconds": time}
            ran["tasks"].append(known[task])
        known[task]["machines"] = [name]
    return json.dumps(made, indent=1) + "\n"
