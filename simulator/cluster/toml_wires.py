"""What a cluster's TOML says between its machines: wires, racks and the protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from simulator.cluster.cluster import Link
from simulator.cluster.protocols import PLAIN, Protocol, find_protocol
from simulator.cluster.toml_reader import At, Reader
from simulator.cluster.topology import UPLINK, Rack, Wire
from simulator.errors import ClusterError
from simulator.units import parse_nanos, parse_picos, parse_rate
from simulator.wording import near

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


def read_wire(reader: Reader, table: object, default: Wire, at: At) -> Wire:
    """A wire as { bandwidth, latency, contention, duplex }; what is not said is as in `default`."""
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


def read_protocol(reader: Reader, described: object) -> Protocol:
    """The protocol between tasks: a name, or the user's own as a table, `like` another where it is silent."""
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
        figures["threads"] = table["threads"]  # judged by the protocol
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


def read_racks(reader: Reader, tables: Sequence[object], named: Mapping[str, Sequence[str]]) -> list[Rack]:
    """The racks; `named` gives the hosts that a name stands for, several for a [[host]] with a count."""
    racks: list[Rack] = []
    rack_of: dict[str, str] = {}
    for nth, raw in enumerate(tables):
        table = reader.keys(raw, _RACK, "rack", nth)
        name = reader.name(table.get("name", f"rack{nth}"), ("rack", nth, "name"))
        if any(rack.name == name for rack in racks):
            reader.fail(f"there is a rack {name!r} already", "rack", nth, "name")
        wire = table.get("uplink", {})
        if not isinstance(wire, dict) or "bandwidth" not in wire:
            reader.fail('a rack needs an uplink = { bandwidth = "100 Gbit/s" }', "rack", nth, "uplink")
        members = _members(reader, table.get("hosts"), named, ("rack", nth, "hosts"))
        for host in members:
            if host in rack_of:
                reader.fail(f"host {host!r} stands in rack {rack_of[host]!r} already", "rack", nth, "hosts")
            rack_of[host] = name
        racks.append(Rack(name, members, read_wire(reader, wire, UPLINK, ("rack", nth, "uplink"))))
    return racks


def _members(reader: Reader, wanted: object, named: Mapping[str, Sequence[str]], at: At) -> tuple[str, ...]:
    if not isinstance(wanted, list) or not wanted or not all(isinstance(one, str) for one in wanted):
        reader.fail('hosts must list names of hosts, such as ["box0", "box1"]', *at)
    for one in wanted:
        if one not in named:
            reader.fail(f"there is no host {one!r}.{near(one, list(named))}", *at)
    return tuple(host for one in wanted for host in named[one])
