"""What the tests ask about processes, without a package for it (Linux)."""

import ctypes
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISSOCK

from tests.oracle.forking import templates


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie that nobody has reaped yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def ended(pids: list[int], within_s: float = 20) -> bool:
    """Whether all of them end within the time."""
    return _soon(lambda: not any(alive(pid) for pid in pids), within_s)


def _soon(holds: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def awaited(file: Path, within_s: float = 60) -> list[int]:
    """The process ids that another process writes into a file."""
    deadline = time.monotonic() + within_s
    while not file.exists():
        assert time.monotonic() < deadline, f"{file} was not written"
        time.sleep(0.02)
    return [int(word) for word in file.read_text().split()]


def descendants(pid: int) -> list[int]:
    """The processes started by a process, and by those; but for the templates of forks, which stay."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(stat.parent.name) not in templates():
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = list(children.get(pid, ()))
    for one in found:
        found += children.get(one, ())
    return found


def listening(pids: Iterable[int] | None = None) -> dict[str, str]:
    """The listening TCP sockets, of some processes or all: local address, as /proc/net writes it, by inode."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    own = None if pids is None else {inode for pid in pids for inode in _sockets(pid)}
    return {fields[9]: fields[1] for fields in lines if fields[3] == "0A" and (own is None or fields[9] in own)}


def traces(pid: int) -> tuple[list[int], dict[str, str]]:
    """What a process has started: processes, and the sockets on which they listen.

    Python's own trackers of semaphores do not count: they live as long as the process that used `multiprocessing`.
    """
    found = [one for one in descendants(pid) if not _tracks(one)]
    return found, listening(found)


def gone(left: tuple[list[int], dict[str, str]]) -> bool:
    """Whether nothing is left of them soon, nor of the process groups that they led.

    A process counts as ended when its first thread has; its others may hold its sockets for a moment longer.
    """
    pids, sockets = left
    return ended(pids) and _soon(lambda: not _members(set(pids)) and not sockets.keys() & listening().keys(), 20)


def _tracks(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return b"resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _members(groups: set[int]) -> list[int]:
    """The living processes of process groups."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) in groups and fields[0] not in "ZX":
                found.append(int(stat.parent.name))
    return found


def _sockets(pid: int) -> Iterator[str]:
    """Inodes of a process's sockets."""
    with suppress(FileNotFoundError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    yield target[len("socket:[") : -1]


def devices_listened_to(pid: int) -> set[str]:
    """The network devices to which the listening sockets of a process are bound; "" for one that hears all (Linux 5.7).

    Its descriptors are taken over for that, by pidfd_getfd, whose number is the same on every machine.
    """
    found = set()
    process = os.pidfd_open(pid)
    for descriptor in [int(name) for name in os.listdir(f"/proc/{pid}/fd")]:
        own = ctypes.CDLL(None).syscall(438, process, descriptor, 0)
        if own < 0:  # closed by now
            continue
        if not S_ISSOCK(os.fstat(own).st_mode):
            os.close(own)
            continue
        with socket.socket(fileno=own) as opened:
            if opened.family != socket.AF_UNIX and opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                bound = opened.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
                found.add(bound.rstrip(b"\0").decode())
    os.close(process)
    return found


def on_loopback(address: str) -> bool:
    """Whether an address, as /proc/net writes it, is 127.0.0.1, be it mapped into IPv6."""
    return address.rpartition(":")[0] in ("0100007F", "0000000000000000FFFF00000100007F")
