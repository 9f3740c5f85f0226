"""Clusters as TOML: hosts with their processors, GPUs and wires, and the tasks on them.

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
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypeAlias

from simulator import limits
from simulator.cluster.cluster import Cluster, Link
from simulator.cluster.devicespec import LOCALHOST
from simulator.cluster.models import DEFAULT_CPU, MODEL_KEYS, Model, find_model, read_cores, read_model
from simulator.cluster.protocols import GRPC, PLAIN, Protocol, find_protocol
from simulator.cluster.topology import (
    LOOPBACK,
    NIC_25GBE,
    PCIE4,
    UPLINK,
    Host,
    Rack,
    Task,
    Wire,
    connect,
)
from simulator.errors import ClusterError
from simulator.units import parse_nanos, parse_picos, parse_rate, show_nanos
from simulator.wording import near, some

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


# --- values with their lines -----------------------------------------------------------------------------------------


Table: TypeAlias = Mapping[str, Any]  # Any: whatever TOML holds; each value is narrowed where it is read
At: TypeAlias = tuple[str, int, str]  # place of a value: section, its number among those of that name, key
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\Z")


class Reader:
    """The text beside its parsed form; it checks values and raises errors that name the line."""

    def __init__(self, text: str, source: str) -> None:
        self.lines = text.splitlines()
        self.source = source

    def fail(self, message: str, section: str = "", nth: int = 0, key: str = "") -> NoReturn:
        """Raise a ClusterError that names the line of the key."""
        line = self.line(section, nth, key)
        where = f"{self.source}, line {line}" if line else self.source
        raise ClusterError(f"{where}: {message}", line=line)

    def line(self, section: str, nth: int, key: str) -> int | None:
        """Line of a key in the nth table of that name; without such a key, line of the table, which may be inline."""
        seen, inside, header = -1, not section, None
        for number, raw in enumerate(self.lines, 1):
            stripped = raw.strip()
            if stripped.startswith("["):
                title = stripped.strip("[] \t").split("#")[0].rstrip("] ")
                if (title == f"{section}.{key}" and inside) or (not section and key and title.split(".")[0] == key):
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
        return self.line("", 0, section) if header is None and section else header

    def keys(self, table: object, allowed: Sequence[str], section: str, nth: int = 0) -> Table:
        """The value as a table with no key outside `allowed`."""
        if not isinstance(table, dict):
            self.fail(f"{section!r} must be a table", section, nth)
        for key in table:
            if key not in allowed:
                hint = near(key, list(allowed)) or f" Known are {some(allowed)}."
                self.fail(f"unknown key {key!r}{' in ' + section if section else ''}.{hint}", section, nth, key)
        return table

    def tables(self, value: object, name: str, at: At | None = None) -> list[object]:
        """The value as the tables of [[name]]; `at` is its place, if not a section of that name."""
        if not isinstance(value, list):
            self.fail(f"write [[{name}]], with two brackets: there may be several", *(at or (name,)))
        return value

    def name(self, value: object, at: At) -> str:
        """The value as a name: a letter, then letters, digits and any of `_.-`."""
        if not isinstance(value, str) or not _NAME.match(value):
            self.fail(f"{value!r} is not a {at[0]} name", *at)
        return value

    def quantity(self, parse: Callable[[str], int], value: object, at: At) -> int:
        """The value as a quantity with its unit."""
        try:
            if not isinstance(value, str):
                raise ValueError(f"{value!r} needs a unit: write both in quotes")
            return parse(value)
        except ValueError as error:
            self.fail(f"{at[2]}: {error}", *at)

    def count(self, value: object, at: At) -> int:
        """The value as a number of devices, tasks or hosts."""
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= limits.DEVICES.most:
            self.fail(f"{at[2]} must be a number from 1 to {limits.DEVICES.most:,}, not {value!r}", *at)
        return value

    def rows(self, value: object, limit: int, at: At) -> tuple[int, ...]:
        """The value as numbers of GPUs below `limit`."""
        if not isinstance(value, list) or not all(type(v) is int and 0 <= v < limit for v in value):
            self.fail(f"{at[2]} must list numbers of GPUs from 0 to {limit - 1}, not {value!r}", *at)
        return tuple(value)

    def groups(self, value: object, limit: int, at: At) -> tuple[tuple[int, ...], ...]:
        """The value as groups of GPUs, each of which is in one at most."""
        if not isinstance(value, list):
            self.fail(f"{at[2]} must be lists of GPU numbers, such as [[0, 1], [2, 3]]", *at)
        found = tuple(self.rows(group, limit, at) for group in value)
        for gpu, times in Counter(gpu for group in found for gpu in group).items():
            if times > 1:
                self.fail(f"{at[2]} must name GPU {gpu} once", *at)
        return found


# --- connections and the protocol ------------------------------------------------------------------------------------


WIRE = ("bandwidth", "latency", "contention", "duplex")
_DUPLEX = ("full", "half")
_RACK = ("name", "hosts", "uplink")
# key -> field of Protocol and how its value is read
_PROTOCOL: Mapping[str, tuple[str, Callable[[str], int]]] = {
    "request": ("request_ns", parse_nanos),
    "latency": ("latency_ns", parse_nanos),
    "send": ("send_ns", parse_nanos),
    "receive": ("receive_ns", parse_nanos),
    "send_per_byte": ("send_ps_per_byte", parse_picos),
    "receive_per_byte": ("receive_ps_per_byte", parse_picos),
}


def _wire(reader: Reader, table: object, default: Wire, at: At) -> Wire:
    """A wire as { bandwidth, latency, contention, duplex }; `default` gives the missing keys."""
    section, nth, key = at
    if not isinstance(table, dict):
        reader.fail(f'{key}: write {{ bandwidth = "25 GB/s", latency = "5 us" }}', *at)
    for inner in table:
        if inner not in WIRE:
            reader.fail(f"unknown key {inner!r} in {key}.{near(inner, WIRE)}", section, nth, inner)
    rate, latency = default.bytes_per_s, default.latency_ns
    if "bandwidth" in table:
        rate = reader.quantity(parse_rate, table["bandwidth"], at)
    if "latency" in table:
        latency = reader.quantity(parse_nanos, table["latency"], at)
    contention = table.get("contention", default.contention)
    try:
        Link(key, latency, rate, contention)
    except ClusterError as error:
        reader.fail(str(error), *at)
    duplex = table.get("duplex", "half" if default.half else "full")
    if duplex not in _DUPLEX:
        reader.fail(f"{key}: duplex must be one of {', '.join(_DUPLEX)}, not {duplex!r}", *at)
    return Wire(latency, rate, contention, duplex == "half")


def _protocol(reader: Reader, described: object) -> Protocol:
    """The protocol between tasks: a name, or a table of the user's own; the protocol `like` gives the missing keys."""
    if isinstance(described, str):
        return _named(reader, described, ("", 0, "protocol"))
    table = reader.keys(described, ("name", "like", "source", "threads", *_PROTOCOL), "protocol")
    like = _named(reader, table.get("like", PLAIN.name), ("protocol", 0, "like"))
    figures = {
        field: reader.quantity(parse, table[key], ("protocol", 0, key))
        for key, (field, parse) in _PROTOCOL.items()
        if key in table
    }
    if "threads" in table:
        figures["threads"] = table["threads"]  # checked by Protocol
    name = str(table.get("name", "own"))
    try:
        return replace(like, name=name, source=str(table.get("source", "")), **figures)
    except ClusterError as error:
        reader.fail(str(error), "protocol")


def _named(reader: Reader, name: object, at: At) -> Protocol:
    try:
        return find_protocol(str(name))
    except ClusterError as error:
        reader.fail(str(error), *at)


def _racks(reader: Reader, tables: Sequence[object], named: Mapping[str, Sequence[str]]) -> list[Rack]:
    """The racks; `named` maps a name to its hosts, several for a [[host]] with a count."""
    racks: dict[str, Rack] = {}
    rack_of: dict[str, str] = {}
    for nth, raw in enumerate(tables):
        table = reader.keys(raw, _RACK, "rack", nth)
        name = reader.name(table.get("name", f"rack{nth}"), ("rack", nth, "name"))
        if name in racks:
            reader.fail(f"there is a rack {name!r} already", "rack", nth, "name")
        wire = table.get("uplink", {})
        if not isinstance(wire, dict) or "bandwidth" not in wire:
            reader.fail('a rack needs an uplink = { bandwidth = "100 Gbit/s" }', "rack", nth, "uplink")
        members = _members(reader, table.get("hosts"), named, ("rack", nth, "hosts"))
        for host in members:
            if host in rack_of:
                reader.fail(f"host {host!r} is in rack {rack_of[host]!r} already", "rack", nth, "hosts")
            rack_of[host] = name
        racks[name] = Rack(name, members, _wire(reader, wire, UPLINK, ("rack", nth, "uplink")))
    return list(racks.values())


def _members(reader: Reader, wanted: object, named: Mapping[str, Sequence[str]], at: At) -> tuple[str, ...]:
    if not isinstance(wanted, list) or not wanted or not all(isinstance(one, str) for one in wanted):
        reader.fail('hosts must list names of hosts, such as ["box0", "box1"]', *at)
    for one in wanted:
        if one not in named:
            reader.fail(f"there is no host {one!r}.{near(one, list(named))}", *at)
    return tuple(host for one in wanted for host in named[one])


# --- machines and tasks ----------------------------------------------------------------------------------------------


_TOP = ("name", "source", "protocol", "model", "host", "rack", "task")
_HOST = (
    "name", "count", "cpu", "cores", "gpus", "pcie", "nic", "loopback", "switches", "nvlink", "nvswitch", "sockets",
    "between_sockets",
)  # fmt: skip
_TASK = ("job", "task", "count", "host", "cpus", "gpus")
_JOB = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


def read_toml(text: str, source: str, *, name: str | None = None) -> Cluster:
    """Read a cluster from TOML text; `source` names it in messages. Raises ClusterError with the line."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        raise ClusterError(f"{source} is not TOML: {error}", line=int(found[1]) if found else None) from None
    except RecursionError:
        raise ClusterError(f"{source} is nested too deeply to describe a cluster") from None
    except ValueError:  # Python reads no number of so many digits
        raise ClusterError(f"{source} has a number of thousands of digits; a number in TOML has 64 bits") from None
    _check_numbers(document, source)
    reader = Reader(text, source)
    top = reader.keys(document, _TOP, "")
    own = _models(reader, top.get("model", {}))
    hosts: list[Host] = []
    nvlinks = 0  # [[host.nvlink]] so far
    named: dict[str, list[str]] = {}  # hosts by the name of their table, and each by its own
    for nth, raw in enumerate(reader.tables(top.get("host", []), "host")):
        table = reader.keys(raw, _HOST, "host", nth)
        if len(str(table.get("name", ""))) > limits.NAME.most:
            reader.fail(f"a name has at most {limits.NAME.most} characters; {limits.NAME.remedy}", "host", nth, "name")
        made = _hosts(reader, table, nth, own, nvlinks)
        hosts += made
        nvlinks += len(table.get("nvlink", ()))
        if len(hosts) > limits.DEVICES.most:
            reader.fail(
                f"there are more than the {limits.DEVICES.most:,} hosts that simviz takes; {limits.DEVICES.remedy}",
                "host",
                nth,
            )
        named[str(table.get("name", f"host{nth}"))] = [host.name for host in made]
    if not hosts:
        reader.fail("no [[host]] is described")
    if len({host.name for host in hosts}) < len(hosts):
        reader.fail("two hosts have the same name", "host")
    named |= {host.name: [host.name] for host in hosts}
    racks = _racks(reader, reader.tables(top.get("rack", []), "rack"), named)
    protocol = _protocol(reader, top.get("protocol", GRPC.name))
    tasks = _tasks(reader, reader.tables(top.get("task", []), "task"), hosts)
    said = [
        *_missing_figures(own, top.get("model", {}), hosts),
        *([f"figures: {top['source']}"] if "source" in top else []),
    ]
    try:
        title = name or str(top.get("name", source))
        return connect(hosts, tasks, name=title, notes=said, protocol=protocol, racks=racks)
    except ClusterError as error:
        raise ClusterError(f"{source}: {error}") from None


def _check_numbers(value: object, source: str) -> None:
    """Raise ClusterError for an integer of more than 64 bits, which TOML does not have."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ClusterError(f"{source} has the number {value:#x}; a number in TOML has 64 bits")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        _check_numbers(one, source)


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


def _missing_figures(own: Mapping[str, Model], tables: Mapping[str, Table], hosts: Sequence[Host]) -> list[str]:
    """Notes on models without a launch time, or without a number of cores on a host that says none, either."""
    without_cores = {host.cpu.name for host in hosts if not host.cpu.cores}
    launches = [
        f"model {name} gives no launch: {show_nanos(model.launch_ns)} is assumed, as for other {model.type}s"
        for name, model in own.items()
        if "launch" not in tables[name]
    ]
    return launches + [
        f"model {name} gives no cores: one is assumed, for messages and for the prices of a profile"
        for name in own
        if name in without_cores
    ]


def _model(reader: Reader, name: object, type_: str, own: Mapping[str, Model], at: At) -> Model:
    try:
        model = find_model(str(name), own)
    except ClusterError as error:
        reader.fail(str(error), *at)
    if model.type != type_:
        reader.fail(f"{at[2]}: {name!r} is a {model.type}, not a {type_}", *at)
    return model


def _hosts(reader: Reader, table: Table, nth: int, own: Mapping[str, Model], nvlinks_before: int) -> list[Host]:
    """The hosts of one [[host]] table; `nvlinks_before` is the number of [[host.nvlink]] that stand before it."""
    name = reader.name(table.get("name", f"host{nth}"), ("host", nth, "name"))
    gpus = _gpus(reader, table.get("gpus", ""), nth, own)
    nvlinks: dict[tuple[int, int], Wire] = {}
    tables = reader.tables(table.get("nvlink", []), "host.nvlink", ("host", nth, "nvlink"))
    for row, link in enumerate(tables, nvlinks_before):
        described = reader.keys(link, ("between", *WIRE), "host.nvlink", row)
        ends = reader.rows(described.get("between"), len(gpus), ("host.nvlink", row, "between"))
        if len(ends) != 2 or ends[0] == ends[1]:
            reader.fail("between must name two different GPUs", "host.nvlink", row, "between")
        speed = {key: described[key] for key in WIRE if key in described}
        nvlinks[min(ends), max(ends)] = _wire(reader, speed, PCIE4, ("host.nvlink", row, "bandwidth"))

    def wire(key: str, default: Wire) -> Wire:
        return _wire(reader, table[key], default, ("host", nth, key)) if key in table else default

    def groups(key: str) -> tuple[tuple[int, ...], ...]:
        return reader.groups(table.get(key, []), len(gpus), ("host", nth, key))

    for key, other in (("sockets", "between_sockets"), ("between_sockets", "sockets")):
        if key in table and other not in table:
            reader.fail(f"{key} needs {other} beside it", "host", nth, key)
    cpu = _model(reader, table.get("cpu", DEFAULT_CPU), "CPU", own, ("host", nth, "cpu"))
    if "cores" in table:
        try:
            cpu = cpu.with_cores(read_cores(table["cores"]))
        except ValueError as error:
            reader.fail(str(error), "host", nth, "cores")
    count = reader.count(table.get("count", 1), ("host", nth, "count"))
    host = Host(
        name=name,
        cpu=cpu,
        gpus=gpus,
        pcie=wire("pcie", PCIE4) if "pcie" in table else None,
        nic=wire("nic", NIC_25GBE),
        loopback=wire("loopback", LOOPBACK),
        switches=groups("switches"),
        nvlinks=nvlinks,
        nvswitch=wire("nvswitch", PCIE4) if "nvswitch" in table else None,
        sockets=groups("sockets"),
        between_sockets=wire("between_sockets", PCIE4) if "between_sockets" in table else None,
    )
    return [replace(host, name=f"{name}{number}") for number in range(count)] if count > 1 else [host]


def _gpus(reader: Reader, text: object, nth: int, own: Mapping[str, Model]) -> tuple[Model, ...]:
    found = re.match(r"\s*(\d{1,4})\s*(?:x\s*)?([A-Za-z][A-Za-z0-9_.-]*)\s*\Z", text) if isinstance(text, str) else None
    if text == "":
        return ()
    if not found or int(found[1]) > limits.DEVICES.most:
        reader.fail(f'gpus must be a number and a model, such as "8 a100", not {text!r}', "host", nth, "gpus")
    return (_model(reader, found[2], "GPU", own, ("host", nth, "gpus")),) * int(found[1])


def _tasks(reader: Reader, tables: Sequence[object], hosts: Sequence[Host]) -> list[Task]:
    if not tables:
        if len(hosts) > 1:
            reader.fail("there are several hosts: say with [[task]] which job runs on which")
        return [Task(LOCALHOST, 0, hosts[0].name, 1, tuple(range(len(hosts[0].gpus))))]
    by_name = {host.name: host for host in hosts}
    tasks: list[Task] = []
    numbers, devices = Counter[str](), 0
    for nth, raw in enumerate(tables):
        table = reader.keys(raw, _TASK, "task", nth)
        job = table.get("job")
        if not isinstance(job, str) or not _JOB.match(job):
            reader.fail(f"job must be a name of letters, digits and _, not {job!r}", "task", nth, "job")
        first = table.get("task", numbers[job])
        if not isinstance(first, int) or isinstance(first, bool) or first < 0:
            reader.fail(f"task must be a number from 0, not {first!r}", "task", nth, "task")
        count = reader.count(table.get("count", 1), ("task", nth, "count"))
        numbers[job] += count
        for number in range(count):
            wanted = str(table.get("host", hosts[0].name if len(hosts) == 1 else ""))
            # one task on each host of a [[host]] with a count: its name without the number
            name = wanted if wanted in by_name else f"{wanted}{number}"
            if name not in by_name:
                hint = near(wanted, list(by_name)) or f" Hosts: {some(list(by_name))}."
                reader.fail(f"there is no host {wanted!r}.{hint}", "task", nth, "host")
            size = len(by_name[name].gpus)
            cpus = reader.count(table.get("cpus", 1), ("task", nth, "cpus"))
            devices += cpus + (0 if "gpus" in table else size)
            if devices > limits.DEVICES.most:
                said = f"the tasks have more than the {limits.DEVICES.most:,} devices that simviz takes"
                reader.fail(f"{said}; {limits.DEVICES.remedy}", "task", nth)
            gpus = reader.rows(table["gpus"], size, ("task", nth, "gpus")) if "gpus" in table else tuple(range(size))
            tasks.append(Task(job, first + number, name, cpus, gpus))
    return tasks
