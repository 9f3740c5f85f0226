"""A child process for the tests: makes a master on the port of an earlier one, as chance may, and lists its devices."""

import json
from collections.abc import Mapping
from typing import Any

from simulator.oracle import child, servers, session


def work(_: bytes) -> bytes:
    session.prepare(gpus=False)
    import tensorflow as tf

    make, first = servers.make_server, servers.make_master("/job:a/replica:0/task:0", 1, {})
    ports = [int(first.target.rpartition(":")[2]), 0]

    def unlucky(task: str, cpus: int, addresses: Mapping[str, str]) -> tuple[Any, list[tuple[int, int]]]:
        return make(task, cpus, addresses, ports.pop(0))

    servers.make_server = unlucky  # type: ignore[assignment]  # the port is chosen here
    second = servers.make_master("/job:b/replica:0/task:0", 2, {})
    second.start()
    with tf.compat.v1.Session(second.target) as asked:
        return json.dumps([device.name for device in asked.list_devices()]).encode()


if __name__ == "__main__":
    child.serve(work)
