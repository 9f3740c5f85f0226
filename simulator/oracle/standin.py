"""Stand-in workers: gRPC servers that answer a TensorFlow master as if they owned the devices of a described cluster.

The master believes a worker's description of its devices, places on them and sends each worker its partition of the
graph. These workers keep that partition and run nothing. A worker with a real one behind it passes every call on to the
real one, which then cuts the partition by its devices. The stand-ins need a process of their own, for the master holds
Python's lock until every worker has answered. Each task has a server, as its port alone tells a worker from another.

    stdin                                                         stdout
    [{"devices": [[name, type, memory bytes], ...],               [[port per task], null]
      "behind": address of the real worker or null}, ...]         or [null, why not]
    "take", any number of times                                   the `bytes` that came since, the bound (`most`) of
                                                                  what is passed on, and the graphs, packed
    the end                                                       the end

The few messages are written and read in their wire format, as importing TensorFlow takes seconds. Field numbers:
tensorflow/core/protobuf/worker.proto and tensorflow/core/framework/device_attributes.proto.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from simulator.oracle import child

_THREADS = 8  # that answer calls, for all tasks together
# calls of the master whose answer it does not use
_UNHEEDED = (
    "CreateWorkerSession",
    "DeleteWorkerSession",
    "DeregisterGraph",
    "RunGraph",
    "CleanupGraph",
    "CleanupAll",
    "RecvTensor",
    "Logging",
    "Tracing",
)
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_GRAPH_DEF = 2  # field of RegisterGraphRequest
_SERVICE = "tensorflow.WorkerService"


def main() -> None:
    """Serve the tasks described on stdin until it ends."""
    child.die_with_parent()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    described = child.read(sys.stdin.buffer)
    assert described is not None
    received: list[tuple[int, bytes]] = []
    try:
        ports = serve(json.loads(described), received)
    except (ImportError, OSError, RuntimeError) as error:  # gRPC raises RuntimeError where a port is refused
        child.write(out, json.dumps([None, str(error).partition(";")[0]]).encode())
        os._exit(1)
    child.write(out, json.dumps([ports, None]).encode())
    while child.read(sys.stdin.buffer) is not None:
        nbytes = _size(received)
        graphs = [graph for _, graph in sorted(received)]  # they come in any order
        received.clear()
        most = child.MAX_MESSAGE_BYTES
        child.write(out, child.pack({"bytes": nbytes, "most": most}, graphs if nbytes <= most else ()))
    os._exit(0)  # an orderly stop waits for calls that the master never ends


def serve(tasks: Sequence[Mapping[str, Any]], received: list[tuple[int, bytes]]) -> list[int]:
    """Start a server per task on the loopback interface; return the ports. Graphs go to `received`, with task's row."""
    import grpc

    pool = ThreadPoolExecutor(max_workers=_THREADS)
    options = [
        ("grpc.max_receive_message_length", child.MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", child.MAX_MESSAGE_BYTES),
        ("grpc.so_reuseport", 0),  # a port is ours alone or refused
    ]
    ports = []
    for number, task in enumerate(tasks):
        server = grpc.server(pool, options=options)
        behind = task["behind"] and grpc.insecure_channel(task["behind"], options=options)
        calls = {
            name: grpc.unary_unary_rpc_method_handler(_passed_on(behind, name, call) if behind else call)
            for name, call in _calls(number, task["devices"], received).items()
        }
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(_SERVICE, calls)])
        ports.append(server.add_insecure_port("127.0.0.1:0"))
        server.start()
        _SERVERS.append(server)
    return ports


_SERVERS: list[Any] = []  # a server that nobody refers to is stopped


def _calls(
    number: int, devices: Sequence[tuple[str, str, int]], received: list[tuple[int, bytes]]
) -> dict[str, Callable[[bytes, Any], bytes]]:
    status = b"".join(
        _field(1, attributes(name, kind, memory, incarnation=(number << 16) + row + 1))
        for row, (name, kind, memory) in enumerate(devices)
    )

    def register_graph(request: bytes, _: Any) -> bytes:
        if _size(received) <= child.MAX_MESSAGE_BYTES:  # beyond it nothing is passed on, and nothing need be kept
            received.extend((number, value) for field, value in fields(request) if field == _GRAPH_DEF)
        return _field(1, f"graph {number}".encode())

    def nothing(request: bytes, _: Any) -> bytes:
        return b""

    return {
        **dict.fromkeys(_UNHEEDED, nothing),
        "GetStatus": lambda request, _: status,
        "RegisterGraph": register_graph,
    }


def _size(received: Sequence[tuple[int, bytes]]) -> int:
    return sum(len(graph) for _, graph in received)


def _passed_on(behind: Any, name: str, call: Callable[[bytes, Any], bytes]) -> Callable[[bytes, Any], bytes]:
    """The same call, answered by the real worker."""
    import grpc

    ask = behind.unary_unary(f"/{_SERVICE}/{name}")

    def passed_on(request: bytes, context: Any) -> bytes:
        call(request, context)
        try:
            answer: bytes = ask(request, wait_for_ready=True)
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())
        return answer

    return passed_on


def attributes(name: str, kind: str, memory_bytes: int, *, incarnation: int) -> bytes:
    """A DeviceAttributes message; the incarnation must be distinct and not zero."""
    return (
        _field(1, name.encode())
        + _field(2, kind.encode())
        + bytes([4 << 3 | _VARINT])
        + _varint(memory_bytes)
        + bytes([6 << 3 | _FIXED64])
        + incarnation.to_bytes(8, "little")
    )


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a message, as (number, content); other fields are skipped."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        size = {_FIXED64: 8, _FIXED32: 4}.get(tag & 7, 0)
        if tag & 7 in (_VARINT, _BYTES):
            value, at = _read_varint(message, at)
            size = value if tag & 7 == _BYTES else 0
        if tag & 7 == _BYTES:
            yield tag >> 3, message[at : at + size]
        at += size


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | _BYTES]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at += 1
        shift += 7
        if byte < 128:
            return value, at


if __name__ == "__main__":
    main()
