"""A child process for the tests: starts the servers of a cluster and says on which addresses they listen then."""

import json
import os

from simulator.oracle import child, servers, session
from tests.oracle.processes import descendants, listening


def work(_: bytes) -> bytes:
    session.prepare(gpus=False)
    tasks = [
        {
            "name": f"/job:w/replica:0/task:{number}",
            "devices": [(f"/job:w/replica:0/task:{number}/device:CPU:0", "CPU", 1)],
        }
        for number in range(3)
    ]
    servers.serve("/job:client/replica:0/task:0", 1, [{**task, "real": row > 0} for row, task in enumerate(tasks)])
    own, others = listening([os.getpid()]), listening(descendants(os.getpid()))
    return json.dumps({"own": sorted(own.values()), "stand-ins": sorted(others.values())}).encode()


if __name__ == "__main__":
    child.serve(work)
