"""Write the pieces as GraphDefs in text, one file per device."""

from __future__ import annotations

from simulator.graph.exporting import graph_def, to_text
from simulator.partitioning.partitions import Partitions


def partition_files(partitions: Partitions) -> dict[str, str]:
    """File name -> the piece of one device as GraphDef text, in order of the devices; devices that run nothing lack.

    File names are device names without what file systems dislike: "job_worker_replica_0_task_1_device_GPU_0.pbtxt".
    Nodes stand in TensorFlow's order, each with the full name of its device.
    """
    graph = partitions.graph
    whole = graph_def(graph, devices=[partitions.devices[row] for row in partitions.device.tolist()])
    used = sorted(set(partitions.device.tolist()))
    pieces = {row: type(whole)(versions=whole.versions, library=whole.library) for row in used}
    for row in graph.order.tolist():
        pieces[int(partitions.device[row])].node.add().CopyFrom(whole.node[row])
    return {_file_name(partitions.devices[row]): to_text(pieces[row]) for row in used}


def _file_name(device: str) -> str:
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in device.strip("/"))
    return f"{kept}.pbtxt"
