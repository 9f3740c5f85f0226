"""What TensorFlow says of an error, and peers that live as long as they are needed: without TensorFlow itself."""

import gc
import weakref

import pytest

from simulator.oracle import peers
from simulator.oracle.session import sentence

UNREACHABLE = "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:5: Connection refused"
DETECTED = (
    "Graph execution error:\n\nDetected at node 'm' defined at (most recent call last):\n    File \"a.py\", line 7"
)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (f"Graph execution error:\n\n{UNREACHABLE}\nAdditional GRPC error information:\n:UNKNOWN", UNREACHABLE),
        (f"{DETECTED}\nNode: 'm'\nIncompatible: [1,2]\n\t [[{{{{node m}}}}]]", "Incompatible: [1,2] [[{{node m}}]]"),
        (f"{DETECTED}\nNode: 'm'\nNode: 'm'\n2 root error(s) found.\n  (0) Bad: m\n  (1) Bad: n", "Bad: m"),
        ("Bad shape\n\t [[{{node x}}]]", "Bad shape [[{{node x}}]]"),
        ("From /job:worker/replica:0/task:0:\nNo value: w\n\t [[{{node r}}]]", "No value: w [[{{node r}}]]"),
        ("Graph execution error:", "Graph execution error:"),
    ],
)
def test_an_error_keeps_its_cause(message: str, said: str) -> None:
    assert sentence(ValueError(message)) == said


def test_a_peer_lives_though_nobody_refers_to_it() -> None:
    """Python closes the pipes of a process with the last reference to it, in a cycle when garbage is collected."""
    peer = peers.start("simulator.oracle.placed_steps")
    peers.port_of(peer)
    there = weakref.ref(peer)
    cycle: list[object] = [peer]
    cycle.append(cycle)
    del peer, cycle
    gc.collect()
    kept = there()
    assert kept is not None
    kept.kill()
    kept.wait()
