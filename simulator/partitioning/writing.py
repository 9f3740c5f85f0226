"""Write the pieces as GraphDefs in text, one file per device."""

from __future__ import annotations

from dataclasses import replace

from simulator.graph.graph_def import graph_def, to_text, untie
from simulator.partitioning.partitions import Partitions


def partition_files(partitions: Partitions) -> dict[str, str]:
    """File name -> the piece of one device as GraphDef text, in order of the devices; devices that run nothing lack.

    File names are device names without what file systems dislike: "job_worker_replica_0_task_1_device_GPU_0.pbtxt".
    Nodes stand in TensorFlow's order, each with the full name of its device. TensorFlow names the nodes of control
    loops "_cloop...", which its importer refuses; here they lack the first letter, so that every piece can be imported.
    For the same reason colocation with a node that is not in the piece (pruned, or on another device) is left out;
    every node has its device by now.
    """
    graph = replace(partitions.graph, names=_importable(partitions))
    whole = graph_def(graph, devices=[partitions.devices[row] for row in partitions.device.tolist()])
    used = sorted(set(partitions.device.tolist()))
    pieces = {row: type(whole)(versions=whole.versions, library=whole.library) for row in used}
    inside: dict[int, set[str]] = {row: set() for row in used}
    for name, device in zip(graph.names, partitions.device.tolist(), strict=True):
        inside[device].add(name)
    for row in graph.order.tolist():
        device = int(partitions.device[row])
        node = pieces[device].node.add()
        node.CopyFrom(whole.node[row])
        untie(node, inside[device])
    return {_file_name(partitions.devices[row]): to_text(pieces[row]) for row in used}


def _importable(partitions: Partitions) -> tuple[str, ...]:
    """The names, without a leading "_" where the cut made one; a name that is taken gets another "_" at its end."""
    names = list(partitions.graph.names)
    taken = set(names)
    for row, name in enumerate(names):
        if partitions.inserted[row] and name.startswith("_"):
            new = name.lstrip("_")
            while new in taken:
                new += "_"
            taken.add(new)
            names[row] = new
    return tuple(names)


def _file_name(device: str) -> str:
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in device.strip("/"))
    return f"{kept}.pbtxt"
