"""A child process for the tests: starts TensorFlow's server and says on which addresses it listens then."""

import json
import os

from simulator.oracle import child, session
from tests.oracle.processes import listening


def work(_: bytes) -> bytes:
    session.prepare(gpus=False)
    config = session.configuration(soft=True)
    session._master("/job:client/replica:0/task:0", {"/job:w/replica:0/task:0": "127.0.0.1:1"}, config)
    return json.dumps(sorted(listening([os.getpid()]))).encode()


if __name__ == "__main__":
    child.serve(work)
