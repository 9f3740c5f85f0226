"""A folder for TensorBoard: the placed graph and the step, in a file of events.

Its graph view then colours nodes by device, and by the time and memory of the run "step". A file of events is a
TFRecord file (tensorflow/core/lib/io/record_writer.cc): each record is a length and data, each with a masked CRC-32C
behind it. The polynomial is that of RFC 3720, appendix B.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack

from simulator.graph.graph_def import placed_graph_def
from simulator.graph.messages import Event
from viz.formats.run_metadata import run_metadata
from viz.scene import Scene

FILE = "events.out.tfevents.0.simviz"  # TensorBoard looks for "tfevents"; the number is a time, and the bytes have none
TAG = "step"


def event_file(scene: Scene) -> bytes:
    """The file of events. Raises GraphError as `placed_graph_def` does, ValueError for more than a message may hold."""
    placed = placed_graph_def(scene.graph, scene.assignment.placed_on, scene.waits)
    graph = placed.SerializeToString(deterministic=True)
    stepped = Event(step=1)
    stepped.tagged_run_metadata.tag = TAG
    stepped.tagged_run_metadata.run_metadata = run_metadata(scene).SerializeToString(deterministic=True)
    events = (Event(file_version="brain.Event:2"), Event(graph_def=graph), stepped)
    return b"".join(_record(event.SerializeToString(deterministic=True)) for event in events)


def _record(data: bytes) -> bytes:
    length = pack("<Q", len(data))
    return length + pack("<I", _masked(length)) + data + pack("<I", _masked(data))


def _masked(data: bytes) -> int:
    """The CRC as TFRecord keeps it: rotated by 15 bits and moved on (tensorflow/core/lib/hash/crc32c.h)."""
    crc = _crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _crc32c(data: bytes) -> int:
    table, crc = _TABLE, 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _remainders() -> Iterator[int]:
    for remainder in range(256):
        for _ in range(8):
            remainder = remainder >> 1 ^ 0x82F63B78 * (remainder & 1)
        yield remainder


_TABLE = tuple(_remainders())
