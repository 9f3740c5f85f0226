"""In the child process: the servers of a cluster that does not exist, a real master with stand-in workers.

    session ─── in the process ──▶ master          TensorFlow's server for the client's task
                                      │ gRPC
                                   stand-ins       a process with a server per other task: they claim its devices and
                                      │ gRPC       keep the graphs that they get
                                   real workers    TensorFlow's servers again, for tasks whose own cut is asked for

All of them use the loopback interface. TensorFlow's server listens on every interface of the machine as soon as it is
made, and whoever reaches it can make it run anything. So two things happen before it serves its first call. The master
stops listening, as its session finds it within the process. A real worker's socket is exchanged for one that only this
machine can reach.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from simulator.errors import OracleError
from simulator.oracle import child

MAX_REAL_WORKERS = 32  # each takes 85 threads and 50 MB
_NOWHERE = "127.0.0.1:1"  # the address of a task that this server never calls
_WORKERS = ("the stand-in workers", "ask again")  # who ends too early, and what to do
_SERVERS: list[Any] = []  # a server that nobody refers to is stopped
_MASTERS: set[int] = set()  # the ports of this process's masters

Taken = Callable[[], list[bytes]]  # the graphs that workers were sent since it was last called


def serve(master: str, cpus: int, tasks: Sequence[Mapping[str, Any]]) -> tuple[str, Taken]:
    """Start the servers of a cluster; return the target for sessions of this process, and how to get the graphs sent.

    `cpus` are the devices of the master's task. `tasks` are all others: `name`, `devices` as (name, type, memory
    bytes), and `real`, whether TensorFlow's own server shall stand behind the stand-in. The servers stay until the
    process ends, as those of TensorFlow can't be stopped.
    """
    if (count := sum(task["real"] for task in tasks)) > MAX_REAL_WORKERS:
        message = f"{count} tasks would need a real worker each, and {MAX_REAL_WORKERS} are the most"
        raise OracleError(f"{message}; ask without real workers, or about fewer tasks")
    nowhere = dict.fromkeys([master, *(task["name"] for task in tasks)], _NOWHERE)
    described = [
        {"devices": task["devices"], "behind": _real(task, nowhere) if task["real"] else None} for task in tasks
    ]
    workers = child.start("simulator.oracle.standin")
    ports, refused = json.loads(said(workers, json.dumps(described).encode(), *_WORKERS))
    if refused:
        message = f"the stand-in workers could not listen on 127.0.0.1 ({refused})"
        raise OracleError(f"{message}; see that ports are free and may be listened on, or ask about fewer tasks")
    addresses = {task["name"]: f"127.0.0.1:{port}" for task, port in zip(tasks, ports, strict=True)}
    server = make_master(master, cpus, {**nowhere, **addresses})
    server.start()

    def taken() -> list[bytes]:
        reply, graphs = child.unpack(said(workers, b"take", *_WORKERS))
        child.bounded(reply["bytes"], "what TensorFlow's master sent to its workers", reply["most"])
        return graphs

    return str(server.target), taken


def said(process: subprocess.Popen[bytes], question: bytes, who: str, remedy: str) -> bytes:
    """A process's answer to a question. Raises OracleError if it is gone: `who` ended how, and the remedy."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):  # the answer is missing, too
        child.write(process.stdin, question)
    answer = child.read(process.stdout)
    if answer is None:
        raise OracleError(f"{who} ended too early ({child.ending(process)}); {remedy}")
    return answer


def _real(task: Mapping[str, Any], nowhere: Mapping[str, str]) -> str:
    """Start TensorFlow's server for a worker; return its address.

    The server continues with the new socket under the old number, as gRPC polls by numbers (`session.prepare`).
    """
    server, listening = make_server(task["name"], len(task["devices"]), nowhere)
    with socket.create_server(("127.0.0.1", 0)) as local:
        local.setblocking(False)
        for number, _ in listening:
            os.dup2(local.fileno(), number, inheritable=False)
        address = "{}:{}".format(*local.getsockname())
    _shut({port for _, port in listening})
    server.start()
    return address


def make_master(task: str, cpus: int, addresses: Mapping[str, str]) -> Any:
    """Make the server of a master, which no longer listens, on a port that no earlier master of this process had.

    A session finds its master by the port. The system gives that of a master which no longer listens to others, and
    TensorFlow would still take the earlier one (tensorflow/core/distributed_runtime/local_master.cc).
    """
    while True:
        server, listening = make_server(task, cpus, addresses)
        ports = {port for _, port in listening}
        _shut(ports)
        if _MASTERS.isdisjoint(ports):
            _MASTERS.update(ports)
            return server


def make_server(task: str, cpus: int, addresses: Mapping[str, str], port: int = 0) -> tuple[Any, list[tuple[int, int]]]:
    """Make TensorFlow's server for a task, not yet serving; with the (descriptor, port) of its listening sockets.

    Its configuration overrides a session's (tensorflow/core/distributed_runtime/rpc/grpc_server_lib.cc), so it has no
    option of placing.
    """
    import tensorflow as tf

    jobs: dict[str, dict[int, str]] = {}
    for name, address in {**addresses, task: f"127.0.0.1:{port}"}.items():
        job, number = _parts(name)
        jobs.setdefault(job, {})[number] = address
    job, number = _parts(task)
    config = tf.compat.v1.ConfigProto(device_count={"CPU": cpus, "GPU": 0})
    config.inter_op_parallelism_threads = config.intra_op_parallelism_threads = 1  # nothing is run
    before = {found for found, _ in _listening()}
    server = tf.distribute.Server(jobs, job_name=job, task_index=number, config=config, start=False)
    _SERVERS.append(server)
    return server, [found for found in _listening() if found[0] not in before]


def reserved() -> socket.socket:
    """A socket that keeps a port of 127.0.0.1 until `start_reserved` needs it, and does not listen."""
    kept = socket.socket()
    kept.bind(("127.0.0.1", 0))
    return kept


def start_reserved(task: str, addresses: Mapping[str, str], kept: socket.socket, *, cpus: int = 1) -> Any:
    """TensorFlow's server of a task with so many CPUs, on a `reserved` port, for this machine alone (Linux 5.7).

    Others must know its address before it is made. So its socket can't be exchanged as in `_real`, for the next server
    of the process would notice. It is bound to the loopback device instead.
    """
    port = kept.getsockname()[1]
    kept.close()  # TensorFlow shares no port
    server, listening = make_server(task, cpus, addresses, port)
    for number, _ in listening:
        with socket.socket(fileno=os.dup(number)) as opened:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
    server.start()
    return server


def _parts(task: str) -> tuple[str, int]:
    """Job and task number of a task's name."""
    fields = dict(part.split(":", 1) for part in task.strip("/").split("/"))
    return fields["job"], int(fields["task"])


def _shut(ports: set[int]) -> None:
    """Shut all sockets of this process that have one of the ports: those that listen, and accepted calls."""
    for _, opened in _sockets():
        if opened.getsockname()[1] in ports:
            with suppress(OSError):  # the other side has left
                opened.shutdown(socket.SHUT_RDWR)


def _listening() -> list[tuple[int, int]]:
    """Descriptor and port of each listening socket of this process."""
    return [
        (number, opened.getsockname()[1])
        for number, opened in _sockets()
        if opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    ]


def _sockets() -> Iterator[tuple[int, socket.socket]]:
    """The internet sockets of this process by their descriptors; each is open until the next is asked for."""
    for number in [int(name) for name in os.listdir("/proc/self/fd")]:
        with suppress(OSError):  # the one that listed the folder is closed by now
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with socket.socket(fileno=os.dup(number)) as opened:
                if opened.family in (socket.AF_INET, socket.AF_INET6):
                    yield number, opened
