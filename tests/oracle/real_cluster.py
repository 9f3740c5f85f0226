"""A real cluster of local processes: its clients run a graph again and again, and each step is timed.

Each task has a process with TensorFlow's own server and with the clients of that task, which step in threads of their
own. A process has one thread for ops, no Grappler, and a core of its own where the caller names one. All processes
listen on 127.0.0.1 alone, on ports that were free and are theirs from the start. They end with the run, whatever
happens (`child`). Some of the clients step while the others rest, so one cluster can serve many trainings, in turn.

The graphs are executed. Ask for graphs that you trust.
"""

from __future__ import annotations

import math
import os
import selectors
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from simulator.errors import OracleError
from simulator.oracle import child

MAX_TASKS = 16  # each has a TensorFlow of its own: 250 MB
_CHUNK_BYTES = 2**16
_ENDLESS = "no client's steps count, so the run would have no end"
_QUIET_S = 0.1  # a message takes less, however busy the machine is
_AFTERWARDS_S = 0.5  # in which a process ends whose end made another's step fail


@dataclass(frozen=True, eq=False)
class RealClient:
    """One client of a real cluster: its graph, its step and the values to note."""

    name: str
    task: str  # "/job:worker/replica:0/task:0": the client lives in its process
    graph: bytes  # GraphDef with full device names
    targets: tuple[str, ...]  # nodes that a step runs
    notes: Mapping[str, str] = field(default_factory=dict)  # name -> tensor of one number, returned with each step
    first: tuple[tuple[str, ...], ...] = ()  # nodes to run before any client steps, one tuple after the other
    counted: bool = True  # whether its steps count towards the number that is asked for
    gap_s: float = 0.0  # from the end of a step to the next
    traced: bool = False  # whether its steps can be traced


@dataclass(frozen=True, slots=True)
class RealStep:
    """One step as its client saw it; times are those of the clock that all processes share (time.monotonic_ns)."""

    client: str
    start_ns: int
    end_ns: int
    notes: Mapping[str, int | float]
    stats: bytes = b""  # StepStats, of a traced step


class Stepping(Protocol):
    """Lets some clients make a number of steps, which are traced, and so longer, where that is asked for."""

    def __call__(self, asked: Collection[str], steps: int, *, traced: bool = False) -> tuple[RealStep, ...]: ...


@dataclass
class _Task:
    """The process of a task, and the bytes from it that are not yet handled."""

    name: str
    process: subprocess.Popen[bytes]
    heard: bytearray = field(default_factory=bytearray)
    errors: bytearray = field(default_factory=bytearray)


def measure(
    clients: Sequence[RealClient],
    steps: int,
    *,
    tasks: Sequence[str] = (),
    cores: Mapping[str, int] | None = None,
    timeout_s: float,
) -> tuple[RealStep, ...]:
    """Run the clients until the counted ones have made `steps` steps together; return all steps in order of their ends.

    Other arguments and errors are those of `running`.
    """
    with running(clients, tasks=tasks, cores=cores, timeout_s=timeout_s) as step:
        return step([client.name for client in clients], steps)


@contextmanager
def running(
    clients: Sequence[RealClient],
    *,
    tasks: Sequence[str] = (),
    cores: Mapping[str, int] | None = None,
    timeout_s: float,
) -> Iterator[Stepping]:
    """A cluster that lasts as long as the block; it yields a function that lets some clients step and the others rest.

    That function returns once the counted clients among them have begun and ended so many steps, with all steps that
    ended meanwhile, in order of their ends. A client that waits in its step for others, as for a token, rests there.
    `tasks` are further tasks without clients; `cores` are the cores to which tasks are pinned. Variables get their
    first values in the order of the tasks.

    Raises OracleError if TensorFlow is missing or a client fails, with its sentence, if a process ends, with its last
    words, and if all of it takes longer than `timeout_s`.
    """
    names = list(dict.fromkeys([*tasks, *(client.task for client in clients)]))
    if len(names) > MAX_TASKS:
        raise OracleError(f"{len(names)} tasks would need a process each, and {MAX_TASKS} are the most")
    counted = {client.name for client in clients if client.counted}
    if not counted:
        raise ValueError(_ENDLESS)
    deadline = time.monotonic() + timeout_s
    with _started(names) as processes:
        _serve(processes, clients, cores or {}, deadline)
        for process in processes:  # in turn: a worker's first values are read from those that the chief gave
            _say(process, {})
            _each([process], processes, deadline)
        last: list[str] = []  # who stepped last
        longest_s = 0.0

        def step(asked: Collection[str], steps: int, *, traced: bool = False) -> tuple[RealStep, ...]:
            nonlocal longest_s
            if not counted.intersection(asked):
                raise ValueError(_ENDLESS)
            _rest(processes, last, longest_s, deadline)
            last[:] = asked
            begun = time.monotonic_ns()
            for process in processes:
                _say(process, {"step": last, "traced": traced})
            made = _steps(processes, counted, steps, begun, deadline)
            for process in processes:
                _say(process, {"step": []})
            longest_s = longest(made, begun)
            return made

        yield step


@contextmanager
def _started(names: Sequence[str]) -> Iterator[list[_Task]]:
    """A process per task, all of which are gone when the block is left."""
    processes: list[_Task] = []
    try:
        for name in names:
            started = child.start("tests.oracle.real_task", stderr=subprocess.PIPE, alone=True)
            processes.append(_Task(name, started))
        yield processes
    finally:
        for process in processes:
            child.stop(process.process)


def _serve(
    processes: Sequence[_Task], clients: Sequence[RealClient], cores: Mapping[str, int], deadline: float
) -> None:
    """Have all tasks serve, each with the addresses of all others."""
    ports = _each(processes, processes, deadline)
    addresses = {process.name: f"127.0.0.1:{ports[process.name]['port']}" for process in processes}
    for process in processes:
        own = [client for client in clients if client.task == process.name]
        described = [
            {
                "name": client.name,
                "targets": client.targets,
                "notes": dict(client.notes),
                "first": client.first,
                "gap_s": client.gap_s,
                "traced": client.traced,
            }
            for client in own
        ]
        facts = {
            "task": process.name,
            "core": cores.get(process.name),
            "addresses": addresses,
            "clients": described,
        }
        _say(process, facts, [client.graph for client in own])
    _each(processes, processes, deadline)


def longest(steps: Sequence[RealStep], begun: int) -> float:
    """The seconds of the longest of these steps since `begun`; a client may have begun one long before and rested."""
    return max((one.end_ns - max(one.start_ns, begun) for one in steps), default=0) / 1e9


def _rest(processes: Sequence[_Task], last: Sequence[str], longest_s: float, deadline: float) -> None:
    """Wait until the clients that stepped last rest. One that waits in its step for others never says so: stop waiting
    after more than the longest step. Steps that end meanwhile are dropped.
    """
    awake = set(last)
    enough = time.monotonic() + 1.5 * longest_s + _QUIET_S
    for _, told, _ in _heard(processes, deadline, enough) if awake else ():
        if "rests" in told:
            awake.discard(told["client"])
            if not awake:
                break


def _steps(
    processes: Sequence[_Task], counted: Collection[str], steps: int, begun: int, deadline: float
) -> tuple[RealStep, ...]:
    """The steps that end until `steps` counted ones that began after `begun` have ended."""
    found: list[RealStep] = []
    left = steps
    for _, told, stats in _heard(processes, deadline):
        if "rests" in told:  # late
            continue
        found.append(RealStep(told["client"], told["start"], told["end"], told["notes"], *stats))
        left -= told["client"] in counted and told["start"] >= begun
        if not left:
            break
    return tuple(sorted(found, key=lambda step: (step.end_ns, step.client)))


def _say(process: _Task, facts: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
    assert process.process.stdin is not None
    try:
        child.write(process.process.stdin, child.pack(facts, blobs))
    except BrokenPipeError:
        raise _ended(process) from None


def _each(asked: Sequence[_Task], processes: Sequence[_Task], deadline: float) -> dict[str, dict[str, Any]]:
    """The next message of each of the asked."""
    found: dict[str, dict[str, Any]] = {}
    for process, told, _ in _heard(processes, deadline):
        found[process.name] = told
        if len(found) == len(asked):
            break
    return found


def _heard(
    processes: Sequence[_Task], deadline: float, enough: float = math.inf
) -> Iterator[tuple[_Task, dict[str, Any], list[bytes]]]:
    """The messages of all processes as they come, until the time `enough`; OracleError for an error or an end."""
    with selectors.DefaultSelector() as pipes:
        for process in processes:
            assert process.process.stdout is not None
            assert process.process.stderr is not None
            pipes.register(process.process.stdout, selectors.EVENT_READ, (process, process.heard))
            pipes.register(process.process.stderr, selectors.EVENT_READ, (process, process.errors))
        while True:
            for process in processes:
                while (message := child.next_message(process.heard)) is not None:
                    told, blobs = child.unpack(message)
                    if "failed" in told:
                        raise _failed(process, processes, told)
                    yield process, told, blobs
            left = min(deadline, enough) - time.monotonic()  # it may run out while steps still come
            ready = pipes.select(left) if left > 0 else []
            if not ready:
                if enough < deadline:
                    return
                raise OracleError("the real cluster was not done in time; allow it more time or ask for fewer steps")
            for key, _ in ready:
                process, pipe = key.data
                read = os.read(key.fd, _CHUNK_BYTES)
                if read:
                    pipe += read
                elif pipe is process.heard:
                    raise _ended(process)
                else:
                    pipes.unregister(key.fileobj)
                del process.errors[: -child.KEPT_STDERR_BYTES]


def _failed(process: _Task, processes: Sequence[_Task], told: Mapping[str, Any]) -> OracleError:
    """The error for a step that failed: another process has ended, if there is one, or TensorFlow's sentence."""
    time.sleep(_AFTERWARDS_S)
    for other in processes:
        if other.process.poll() is not None and other is not process:
            return _ended(other)
    who = told.get("client", process.name)
    return OracleError(f"{who} of the real cluster failed: {told['failed']}", refusal=told["failed"])


def _ended(process: _Task) -> OracleError:
    """The error for a process that has closed its pipes."""
    assert process.process.stderr is not None
    os.set_blocking(process.process.stderr.fileno(), False)
    errors = bytes(process.errors) + (process.process.stderr.read() or b"")
    how = f"({child.ending(process.process)}){child.last_words(errors)}"
    return OracleError(f"the process of {process.name} ended too early {how}")
