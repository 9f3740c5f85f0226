"""Clusters as TOML: hosts with their processors, GPUs and wires, and the tasks that stand on them.

    name = "two boxes"

    [model.mine]                     # optional: device models of your own
    type = "GPU"
    memory = "24 GB"
    compute = "30 TFLOP/s"
    bandwidth = "600 GB/s"

    [[host]]
    name = "box"
    count = 2                        # box0, box1
    cpu = "cpu"
    gpus = "4 mine"
    pcie = { bandwidth = "31.5 GB/s", latency = "5 us" }
    nic = { bandwidth = "100 Gbit/s", latency = "1 us" }

    [[task]]
    job = "worker"
    host = "box0"
    gpus = [0, 1]                    # without it: all GPUs of the host

A file without tasks is one process, /job:localhost, on its only host. Every key is checked; an error names its line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from simulator.cluster.cluster import Cluster
from simulator.cluster.models import DEFAULT_CPU, MODEL_KEYS, Model, find_model, read_cores, read_model
from simulator.cluster.notation import assumptions
from simulator.cluster.protocols import GRPC
from simulator.cluster.toml_reader import At, Reader, Table
from simulator.cluster.toml_wires import WIRE, read_protocol, read_racks, read_wire
from simulator.cluster.topology import LOOPBACK, MAX_DEVICES, NIC_25GBE, PCIE4, Host, Task, Wire, connect
from simulator.errors import ClusterError
from simulator.units import show_nanos
from simulator.wording import near, some

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_TOP = ("name", "source", "protocol", "model", "host", "rack", "task")
_HOST = (
    "name", "count", "cpu", "cores", "gpus", "pcie", "nic", "loopback", "switches", "nvlink", "nvswitch", "sockets",
    "between_sockets",
)  # fmt: skip
_TASK = ("job", "task", "count", "host", "cpus", "gpus")
_JOB = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


def read_toml(text: str, source: str, *, name: str | None = None) -> Cluster:
    """Read a cluster from TOML text; `source` is the user's word for it. Raises ClusterError with the line."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        raise ClusterError(f"{source} is not TOML: {error}", line=int(found[1]) if found else None) from None
    reader = Reader(text, source)
    top = reader.keys(document, _TOP, "")
    own = _models(reader, top.get("model", {}))
    hosts: list[Host] = []
    named: dict[str, list[str]] = {}  # hosts by the name of their table, and each by its own
    for nth, raw in enumerate(reader.tables(top.get("host", []), "host")):
        table = reader.keys(raw, _HOST, "host", nth)
        made = _hosts(reader, table, nth, own)
        hosts += made
        named[str(table.get("name", f"host{nth}"))] = [host.name for host in made]
    if not hosts:
        reader.fail("no [[host]] is described")
    if len({host.name for host in hosts}) < len(hosts):
        reader.fail("two hosts have the same name", "host")
    named |= {host.name: [host.name] for host in hosts}
    racks = read_racks(reader, reader.tables(top.get("rack", []), "rack"), named)
    protocol = read_protocol(reader, top.get("protocol", GRPC.name))
    tasks = _tasks(reader, reader.tables(top.get("task", []), "task"), hosts)
    said = [*assumptions(hosts), *_unsaid(own, top.get("model", {}))]
    said += [f"figures: {top['source']}"] if "source" in top else []
    try:
        title = name or str(top.get("name", source))
        return connect(hosts, tasks, name=title, notes=said, protocol=protocol, racks=racks)
    except ClusterError as error:
        raise ClusterError(f"{source}: {error}") from None


def _models(reader: Reader, tables: object) -> dict[str, Model]:
    if not isinstance(tables, dict):
        reader.fail("write [model.NAME] for a model of your own", "model")
    own = {}
    for name, table in tables.items():
        section = f"model.{name}"
        reader.keys(table, MODEL_KEYS, section)
        try:
            own[name] = read_model(name, table)
        except (KeyError, ValueError) as error:
            message = str(error.args[0])
            culprit = next((k for k, v in table.items() if repr(v) in message or message.startswith(f"{k}:")), "")
            reader.fail(f"model {name!r}: {message}", section, 0, culprit)
    return own


def _unsaid(own: Mapping[str, Model], tables: Mapping[str, Table]) -> list[str]:
    """What is assumed of the models that do not say how long a launch takes or how many cores they have."""
    launches = [
        f"model {name} gives no launch: {show_nanos(model.launch_ns)}, as {model.type}s of its kind take"
        for name, model in own.items()
        if "launch" not in tables[name]
    ]
    cores = [
        f"model {name} gives no cores: it works on one message at a time"
        for name, model in own.items()
        if model.type == "CPU" and "cores" not in tables[name]
    ]
    return launches + cores


def _model(reader: Reader, name: object, type_: str, own: Mapping[str, Model], at: At) -> Model:
    try:
        model = find_model(str(name), own)
    except ClusterError as error:
        reader.fail(str(error), *at)
    if model.type != type_:
        reader.fail(f"{at[2]}: {name!r} is a {model.type}, not a {type_}", *at)
    return model


def _hosts(reader: Reader, table: Table, nth: int, own: Mapping[str, Model]) -> list[Host]:
    """The hosts of one [[host]] table."""
    name = reader.name(table.get("name", f"host{nth}"), ("host", nth, "name"))
    gpus = _gpus(reader, table.get("gpus", ""), nth, own)
    nvlinks: dict[tuple[int, int], Wire] = {}
    for row, link in enumerate(table.get("nvlink", ()) if isinstance(table.get("nvlink", ()), (list, tuple)) else ()):
        reader.keys(link, ("between", *WIRE), "host.nvlink", row)
        ends = reader.rows(link.get("between"), len(gpus), ("host.nvlink", row, "between"))
        if len(ends) != 2 or ends[0] == ends[1]:
            reader.fail("between must name two different GPUs", "host.nvlink", row, "between")
        speed = {key: link[key] for key in WIRE if key in link}
        nvlinks[min(ends), max(ends)] = read_wire(reader, speed, PCIE4, ("host.nvlink", row, "bandwidth"))

    def wire(key: str, default: Wire) -> Wire:
        return read_wire(reader, table[key], default, ("host", nth, key)) if key in table else default

    def groups(key: str) -> tuple[tuple[int, ...], ...]:
        return reader.groups(table.get(key, []), len(gpus), ("host", nth, key))

    cpu = _model(reader, table.get("cpu", DEFAULT_CPU), "CPU", own, ("host", nth, "cpu"))
    if "cores" in table:
        try:
            cpu = replace(cpu, cores=read_cores(table["cores"]))
        except ValueError as error:
            reader.fail(str(error), "host", nth, "cores")
    count = reader.count(table.get("count", 1), ("host", nth, "count"))
    return [
        Host(
            name=f"{name}{number}" if count > 1 else name,
            cpu=cpu,
            gpus=gpus,
            pcie=wire("pcie", PCIE4),
            nic=wire("nic", NIC_25GBE),
            loopback=wire("loopback", LOOPBACK),
            switches=groups("switches"),
            nvlinks=nvlinks,
            nvswitch=wire("nvswitch", PCIE4) if "nvswitch" in table else None,
            sockets=groups("sockets"),
            between_sockets=wire("between_sockets", PCIE4) if "between_sockets" in table else None,
        )
        for number in range(count)
    ]


def _gpus(reader: Reader, text: object, nth: int, own: Mapping[str, Model]) -> tuple[Model, ...]:
    found = re.match(r"\s*(\d{1,4})\s*x?\s*([A-Za-z][A-Za-z0-9_.-]*)\s*\Z", text) if isinstance(text, str) else None
    if text == "":
        return ()
    if not found or int(found[1]) > MAX_DEVICES:
        reader.fail(f'gpus must be a number and a model, such as "8 a100", not {text!r}', "host", nth, "gpus")
    return (_model(reader, found[2], "GPU", own, ("host", nth, "gpus")),) * int(found[1])


def _tasks(reader: Reader, tables: Sequence[object], hosts: Sequence[Host]) -> list[Task]:
    if not tables:
        if len(hosts) > 1:
            reader.fail("there are several hosts: say with [[task]] which job runs on which")
        return [Task("localhost", 0, hosts[0].name, 1, tuple(range(len(hosts[0].gpus))))]
    by_name = {host.name: host for host in hosts}
    tasks: list[Task] = []
    for nth, raw in enumerate(tables):
        table = reader.keys(raw, _TASK, "task", nth)
        job = table.get("job")
        if not isinstance(job, str) or not _JOB.match(job):
            reader.fail(f"job must be a name of letters, digits and _, not {job!r}", "task", nth, "job")
        first = table.get("task", sum(task.job == job for task in tasks))
        if not isinstance(first, int) or isinstance(first, bool) or first < 0:
            reader.fail(f"task must be a number from 0, not {first!r}", "task", nth, "task")
        count = reader.count(table.get("count", 1), ("task", nth, "count"))
        for number in range(count):
            wanted = str(table.get("host", hosts[0].name if len(hosts) == 1 else ""))
            # one task on each host of a [[host]] with a count: its name without the number
            name = wanted if wanted in by_name else f"{wanted}{number}"
            if name not in by_name:
                hint = near(wanted, list(by_name)) or f" Hosts: {some(list(by_name))}."
                reader.fail(f"there is no host {wanted!r}.{hint}", "task", nth, "host")
            size = len(by_name[name].gpus)
            gpus = reader.rows(table["gpus"], size, ("task", nth, "gpus")) if "gpus" in table else tuple(range(size))
            cpus = reader.count(table.get("cpus", 1), ("task", nth, "cpus"))
            tasks.append(Task(job, first + number, name, cpus, gpus))
    return tasks
