"""In child processes: TensorFlow's servers for a cluster that is real, each in a process that another one starts.

    starter ── port_of ──▶ peer     it keeps a free port
            ── begin ────▶          it learns its task and all addresses, and serves until its stdin ends

A peer stays in the process group of its starter, and ends with it, whether the starter still refers to it or not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from simulator.oracle import child, servers

ARGUMENT = "--peer"  # with it a module calls `be_peer`
_STARTED: list[subprocess.Popen[bytes]] = []  # of one that nobody refers to the pipes are closed, at which it ends


def start(module: str) -> subprocess.Popen[bytes]:
    """Start a peer in the module's name. Raises OracleError as `child.start`."""
    _STARTED.append(child.start(module, [ARGUMENT]))
    return _STARTED[-1]


def port_of(peer: subprocess.Popen[bytes]) -> int:
    """The port of 127.0.0.1 that the peer keeps for its server. Raises OracleError if the peer is gone."""
    return int(_said(peer, {}))


def begin(
    peer: subprocess.Popen[bytes], task: str, addresses: Mapping[str, str], *, core: int | None, cpus: int = 1
) -> None:
    """Have the peer serve `task` with so many CPU devices, on one core or on all; return when it does.

    `addresses` are those of all tasks. Raises OracleError if the peer is gone, as when another program took its port.
    """
    _said(peer, {"task": task, "addresses": dict(addresses), "core": core, "cpus": cpus})


def _said(peer: subprocess.Popen[bytes], facts: Mapping[str, Any]) -> bytes:
    return servers.said(peer, child.pack(facts), "a process of the cluster", "run it again")


def be_peer(prepare: Callable[[], None]) -> NoReturn:
    """Be a peer until stdin ends. `prepare` sets the environment before TensorFlow is imported, on the peer's core."""
    child.die_with_parent()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        child.read(sys.stdin.buffer)
        with servers.reserved() as kept:
            child.write(out, str(kept.getsockname()[1]).encode())
            if (message := child.read(sys.stdin.buffer)) is not None:
                facts, _ = child.unpack(message)
                if facts["core"] is not None:
                    os.sched_setaffinity(0, {facts["core"]})
                prepare()
                servers.start_reserved(facts["task"], facts["addresses"], kept, cpus=facts["cpus"])
                child.write(out, b"serves")
                child.read(sys.stdin.buffer)
    finally:
        os._exit(0)  # a server can't be stopped
