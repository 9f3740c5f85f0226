"""Child process: start a real cluster of two tasks, while another program takes a port of the first N tries."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

from simulator.oracle import placed_steps, servers
from simulator.oracle.child import serve
from tests.oracle.processes import alive, descendants

TASKS = {f"/job:worker/replica:0/task:{number}": 1 for number in range(2)}


def answer(payload: bytes) -> bytes:
    tries, honest = [0], servers.start_reserved

    def robbed(task: str, addresses: dict[str, str], kept: socket.socket, *, cpus: int = 1) -> Any:
        """As `start_reserved`, but the port goes to another at the moment when it is free."""
        tries[0] += 1
        if tries[0] > int(payload):
            return honest(task, addresses, kept, cpus=cpus)
        port = kept.getsockname()[1]
        kept.close()
        with socket.socket() as other, socket.socket() as nobody:
            other.bind(("127.0.0.1", port))
            other.listen()
            return honest(task, addresses, _Kept(nobody, port), cpus=cpus)

    servers.start_reserved = robbed  # type: ignore[assignment]
    target = placed_steps._serve(TASKS)
    living = sum(alive(pid) for pid in descendants(os.getpid()))
    return json.dumps({"target": target, "tries": tries[0], "living": living}).encode()


class _Kept(socket.socket):
    """A closed socket that says which port it kept."""

    def __init__(self, closed: socket.socket, port: int) -> None:
        super().__init__(fileno=os.dup(closed.fileno()))
        self._port = port

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", self._port


if __name__ == "__main__":
    serve(answer)
