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
    nic = { bandwidth = "100 Gbit/s", latency = "55 us" }

    [[task]]
    job = "worker"
    host = "box0"
    gpus = [0, 1]                    # without it: all GPUs of the host

A file without tasks is one process, /job:localhost, on its only host. Every key is checked; an error names its line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from simulator.cluster.cluster import Cluster
from simulator.cluster.models import DEFAULT_CPU, MODEL_KEYS, Model, find_model, read_model
from simulator.cluster.notation import assumptions
from simulator.cluster.topology import MAX_DEVICES, NIC_25GBE, PCIE4, Host, Task, Wire, connect
from simulator.errors import ClusterError
from simulator.units import parse_nanos, parse_rate, show_nanos
from simulator.wording import near, some

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Table: TypeAlias = Mapping[str, Any]  # Any: whatever TOML holds; each value is narrowed where it is read

_TOP = ("name", "source", "model", "host", "task")
_HOST = (
    "name", "count", "cpu", "gpus", "pcie", "nic", "switches", "nvlink", "nvswitch", "sockets", "between_sockets",
)  # fmt: skip
_TASK = ("job", "task", "count", "host", "cpus", "gpus")
_WIRE = ("bandwidth", "latency")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\Z")
_JOB = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


class _Reader:
    """The text beside its parsed form, so that an error can name the line."""

    def __init__(self, text: str, source: str) -> None:
        self.lines = text.splitlines()
        self.source = source

    def fail(self, message: str, section: str = "", nth: int = 0, key: str = "") -> NoReturn:
        line = self.line(section, nth, key)
        where = f"{self.source}, line {line}" if line else self.source
        raise ClusterError(f"{where}: {message}", line=line)

    def line(self, section: str, nth: int, key: str) -> int | None:
        """Line of a key in the nth table of that name (its header where the key is not found)."""
        seen, inside, header = -1, not section, None
        for number, raw in enumerate(self.lines, 1):
            stripped = raw.strip()
            if stripped.startswith("["):
                title = stripped.strip("[] \t").split("#")[0].rstrip("] ")
                if title == f"{section}.{key}" and inside:
                    return number
                if title == section:
                    seen += 1
                    inside = seen == nth
                    header = number if inside else header
                elif not (inside and section and title.startswith(section + ".")):
                    inside = False
            elif inside and re.match(rf'"?{re.escape(key)}"?\s*[=.]', stripped):
                return number
            if inside and key and re.search(rf'[{{,.]\s*"?{re.escape(key)}"?\s*=', raw):
                return number
        return header

    def keys(self, table: object, allowed: Sequence[str], section: str, nth: int = 0) -> Table:
        if not isinstance(table, dict):
            self.fail(f"{section!r} must be a table", section, nth)
        for key in table:
            if key not in allowed:
                hint = near(key, list(allowed)) or f" Known are {', '.join(allowed)}."
                self.fail(f"unknown key {key!r}{' in ' + section if section else ''}.{hint}", section, nth, key)
        return table

    def tables(self, value: object, name: str) -> list[object]:
        if not isinstance(value, list):
            self.fail(f"write [[{name}]], with two brackets: there may be several", name)
        return value


def read_toml(text: str, source: str, *, name: str | None = None) -> Cluster:
    """Read a cluster from TOML text; `source` is the user's word for it. Raises ClusterError with the line."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        raise ClusterError(f"{source} is not TOML: {error}", line=int(found[1]) if found else None) from None
    reader = _Reader(text, source)
    top = reader.keys(document, _TOP, "")
    own = _models(reader, top.get("model", {}))
    hosts: list[Host] = []
    for nth, table in enumerate(reader.tables(top.get("host", []), "host")):
        hosts += _hosts(reader, reader.keys(table, _HOST, "host", nth), nth, own)
    if not hosts:
        reader.fail("no [[host]] is described")
    if len({host.name for host in hosts}) < len(hosts):
        reader.fail("two hosts have the same name", "host")
    tasks = _tasks(reader, reader.tables(top.get("task", []), "task"), hosts)
    said = [*assumptions(hosts), *_launches(own, top.get("model", {}))]
    said += [f"figures: {top['source']}"] if "source" in top else []
    try:
        return connect(hosts, tasks, name=name or str(top.get("name", source)), notes=said)
    except ClusterError as error:
        raise ClusterError(f"{source}: {error}") from None


def _models(reader: _Reader, tables: object) -> dict[str, Model]:
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
            culprit = next((k for k, v in table.items() if repr(v) in message), "")
            reader.fail(f"model {name!r}: {message}", section, 0, culprit)
    return own


def _launches(own: Mapping[str, Model], tables: Mapping[str, Table]) -> list[str]:
    """What is assumed of the models that do not say how long a launch takes."""
    return [
        f"model {name} gives no launch: {show_nanos(model.launch_ns)}, as {model.type}s of its kind take"
        for name, model in own.items()
        if "launch" not in tables[name]
    ]


def _quantity(reader: _Reader, parse: Callable[[str], int], value: object, at: tuple[str, int, str]) -> int:
    try:
        if not isinstance(value, str):
            raise ValueError(f'{value!r} needs a unit: write it in quotes, "25 GB/s"')
        return parse(value)
    except ValueError as error:
        reader.fail(f"{at[2]}: {error}", *at)


def _wire(reader: _Reader, table: object, default: Wire, at: tuple[str, int, str]) -> Wire:
    section, nth, key = at
    if not isinstance(table, dict):
        reader.fail(f'{key}: write {{ bandwidth = "25 GB/s", latency = "5 us" }}', *at)
    for inner in table:
        if inner not in _WIRE:
            reader.fail(f"unknown key {inner!r} in {key}.{near(inner, list(_WIRE))}", section, nth, inner)
    rate, latency = default.bytes_per_s, default.latency_ns
    if "bandwidth" in table:
        rate = _quantity(reader, parse_rate, table["bandwidth"], (section, nth, key))
    if "latency" in table:
        latency = _quantity(reader, parse_nanos, table["latency"], (section, nth, key))
    if rate <= 0:
        reader.fail(f"{key}: a bandwidth of zero carries nothing", *at)
    return Wire(latency, rate)


def _count(reader: _Reader, value: object, at: tuple[str, int, str]) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= MAX_DEVICES:
        reader.fail(f"{at[2]} must be a number from 1 to {MAX_DEVICES}, not {value!r}", *at)
    return value


def _rows(reader: _Reader, value: object, limit: int, at: tuple[str, int, str]) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(isinstance(v, int) and 0 <= v < limit for v in value):
        reader.fail(f"{at[2]} must list numbers of GPUs from 0 to {limit - 1}, not {value!r}", *at)
    return tuple(value)


def _groups(reader: _Reader, value: object, limit: int, at: tuple[str, int, str]) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list):
        reader.fail(f"{at[2]} must be lists of GPU numbers, such as [[0, 1], [2, 3]]", *at)
    return tuple(_rows(reader, group, limit, at) for group in value)


def _model(reader: _Reader, name: object, type_: str, own: Mapping[str, Model], at: tuple[str, int, str]) -> Model:
    try:
        model = find_model(str(name), own)
    except ClusterError as error:
        reader.fail(str(error), *at)
    if model.type != type_:
        reader.fail(f"{at[2]}: {name!r} is a {model.type}, not a {type_}", *at)
    return model


def _hosts(reader: _Reader, table: Table, nth: int, own: Mapping[str, Model]) -> list[Host]:
    """The hosts of one [[host]] table."""
    name = table.get("name", f"host{nth}")
    if not isinstance(name, str) or not _NAME.match(name):
        reader.fail(f"{name!r} is not a host name", "host", nth, "name")
    gpus = _gpus(reader, table.get("gpus", ""), nth, own)
    nvlinks: dict[tuple[int, int], Wire] = {}
    for row, link in enumerate(table.get("nvlink", ()) if isinstance(table.get("nvlink", ()), (list, tuple)) else ()):
        reader.keys(link, ("between", *_WIRE), "host.nvlink", row)
        ends = _rows(reader, link.get("between"), len(gpus), ("host.nvlink", row, "between"))
        if len(ends) != 2 or ends[0] == ends[1]:
            reader.fail("between must name two different GPUs", "host.nvlink", row, "between")
        speed = {key: link[key] for key in _WIRE if key in link}
        nvlinks[min(ends), max(ends)] = _wire(reader, speed, PCIE4, ("host.nvlink", row, "bandwidth"))

    def wire(key: str, default: Wire) -> Wire:
        return _wire(reader, table[key], default, ("host", nth, key)) if key in table else default

    def groups(key: str) -> tuple[tuple[int, ...], ...]:
        return _groups(reader, table.get(key, []), len(gpus), ("host", nth, key))

    count = _count(reader, table.get("count", 1), ("host", nth, "count"))
    return [
        Host(
            name=f"{name}{number}" if count > 1 else name,
            cpu=_model(reader, table.get("cpu", DEFAULT_CPU), "CPU", own, ("host", nth, "cpu")),
            gpus=gpus,
            pcie=wire("pcie", PCIE4),
            nic=wire("nic", NIC_25GBE),
            switches=groups("switches"),
            nvlinks=nvlinks,
            nvswitch=wire("nvswitch", PCIE4) if "nvswitch" in table else None,
            sockets=groups("sockets"),
            between_sockets=wire("between_sockets", PCIE4) if "between_sockets" in table else None,
        )
        for number in range(count)
    ]


def _gpus(reader: _Reader, text: object, nth: int, own: Mapping[str, Model]) -> tuple[Model, ...]:
    found = re.match(r"\s*(\d{1,4})\s*x?\s*([A-Za-z][A-Za-z0-9_.-]*)\s*\Z", text) if isinstance(text, str) else None
    if text == "":
        return ()
    if not found or int(found[1]) > MAX_DEVICES:
        reader.fail(f'gpus must be a number and a model, such as "8 a100", not {text!r}', "host", nth, "gpus")
    return (_model(reader, found[2], "GPU", own, ("host", nth, "gpus")),) * int(found[1])


def _tasks(reader: _Reader, tables: Sequence[object], hosts: Sequence[Host]) -> list[Task]:
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
        count = _count(reader, table.get("count", 1), ("task", nth, "count"))
        for number in range(count):
            wanted = str(table.get("host", hosts[0].name if len(hosts) == 1 else ""))
            # one task on each host of a [[host]] with a count: its name without the number
            name = wanted if wanted in by_name else f"{wanted}{number}"
            if name not in by_name:
                hint = near(wanted, list(by_name)) or f" Hosts: {some(list(by_name))}."
                reader.fail(f"there is no host {wanted!r}.{hint}", "task", nth, "host")
            size = len(by_name[name].gpus)
            gpus = _rows(reader, table["gpus"], size, ("task", nth, "gpus")) if "gpus" in table else tuple(range(size))
            cpus = _count(reader, table.get("cpus", 1), ("task", nth, "cpus"))
            tasks.append(Task(job, first + number, name, cpus, gpus))
    return tasks
