"""Limits of what one call takes: each has a name, by which `--limit nodes=5000000` or `raised` sets another.

A number in a file is a few bytes, and can claim anything. So whatever takes time or memory by such a number has an end.
The default ends are far above the graphs that we know, and low enough for a machine of a few gigabytes. A limit can be
set up to the number from which columns or a file format can hold no more. The page docs/limits.md has a table of all.

Numbers that were set hang on the context of a call (PEP 567), as a precision does in `decimal`. Limits are met in
many places, and no function between needs to know of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from simulator.errors import SimvizError
from simulator.wording import near

_UNKNOWN_BYTES = 2**33
_SET: ContextVar[Mapping[str, int]] = ContextVar("limits that were set", default=MappingProxyType({}))  # name -> number


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit; `most` is the number that holds now, in this thread."""

    name: str
    default: int
    end: int  # it can be set up to this
    what: str  # it counts, as in docs/limits.md

    @property
    def most(self) -> int:
        """The number that holds now: the default, or what `raised` set around this call."""
        return _SET.get().get(self.name, self.default)

    @property
    def remedy(self) -> str:
        """The clause of a refusal that says how to take more."""
        if self.most >= self.end:
            return "there is no way to take more"
        return f"--limit {self.name}=N takes more"


TABLE: dict[str, Limit] = {}  # by name, in the order of docs/limits.md


def _limit(name: str, default: int, end: int, what: str) -> Limit:
    made = TABLE[name] = Limit(name, default, end, what)
    return made


GRAPH_BYTES = _limit("graph-bytes", 2**31, 2**31, "bytes of a graph's file; protobuf has no larger messages")
STREAM_BYTES = _limit("stream-bytes", 2**29, 2**31, "bytes of a graph from a pipe, or out of gzip")
GZIP_RATIO = _limit("gzip-ratio", 100, 1100, "bytes out of one byte of gzip, of what unfolds to more than 4 MiB")
BACKSLASHES = _limit("backslashes", 512, 2**20, "backslashes in a row in a text; time grows with the square")
NODES = _limit("nodes", 10**6, 2**24, "nodes of a graph after its calls are expanded")
GROWTH = _limit(
    "growth", 100, 2**24, "nodes of it for each node of the file and its functions, above 50,000 nodes in all"
)
CALLS = _limit("calls", 100, 400, "calls within calls")
BODY_NODES = _limit(
    "body-nodes", 200_000, 2**24, "nodes of kept calls whose shapes are inferred; the others stay unknown"
)
TENSORS = _limit("tensors", 2**23, 2**27, "tensors of a graph")
INPUTS = _limit("inputs", 2**22, 2**24, "inputs of one op that the file lists")
CLAIMED = _limit("claimed", 2**16, 2**22, "inputs or outputs of one op that a number claims")
UNROLLED = _limit("unrolled", 2 * 10**6, 2**26, "ops that loops unroll to")
COUNT = _limit("count", 2**31, 2**40, "a batch, a dimension that is fed, the iterations of a loop")
MICROBATCHES = _limit("microbatches", 1024, 2**16, "microbatches of `--microbatches`")
DEVICES = _limit("devices", 2**16, 2**20, "devices of a cluster")
WHOLE_CLUSTER = _limit("whole-cluster", 1024, 2**14, "devices of a cluster of which a step of many groups may use all")
PART = _limit(
    "part", 256, 2**14, "devices that a step uses of a larger cluster, if it asks for no more and has few groups"
)
STEP_DEVICES = _limit("step-devices", 2560, 2**14, "devices of a training, and of a step that may use all")
NAME = _limit("name", 512, 2**16, "characters of the name of a job or host")
GPU_PAIRS = _limit("gpu-pairs", 2**22, 2**26, "pairs of GPUs of one host with wires of their own")
INSTANCE_NODES = _limit("instance-nodes", 200_000, 2**24, "nodes of an instance")
INSTANCE_EDGES = _limit("instance-edges", 4 * 10**6, 2**26, "edges of an instance, and its files")
INSTANCE_DEVICES = _limit("instance-devices", 256, 2**14, "devices or accelerators of an instance")
INSTANCE_BYTES = _limit("instance-bytes", 2**28, 2**31, "bytes of an instance")
EXACT_PAIRS = _limit("exact-pairs", 50_000, 2**24, "pairs of devices over all edges that `exact` takes")
STEPS = _limit("steps", 10**6, 2**31 - 1, "steps of a training")
CI_STEPS = _limit("ci-steps", 10_000, 2**31 - 1, "steps of a training that `--until-ci` lengthens")
WORKERS = _limit("workers", 1024, 2**16, "workers of `--workers`")
RECORDED = _limit("recorded", 2 * 10**6, 2**26, "tasks of a training that are recorded; the rest still runs")
FILE_BYTES = _limit("file-bytes", 2**22, 2**30, "bytes of a cluster's or a profile's file")
NOISE_BYTES = _limit("noise-bytes", 2**24, 2**30, "bytes of a file of times of `--disturb`")
OBSERVED_BYTES = _limit("observed-bytes", 2**28, 2**31, "bytes of an observed step, unfolded; of its file a quarter")
RESULT_BYTES = _limit("result-bytes", 2**31, 2**34, "bytes of an earlier result of `--against`")
PLACEMENTS = _limit("placements", 2**40, 2**62, "placements of a `--budget`")
PATIENCE = _limit(
    "patience", 1000, 2**40, "times as many placements as its best one took, or its first cycle: there a search ends"
)


@contextmanager
def raised(numbers: Mapping[str, int]) -> Iterator[None]:
    """Set these limits within a block, in this thread: `with raised({"nodes": 5_000_000}): load(...)`.

    A limit can be lowered, too, for files that nobody trusts. Raises SimvizError for a name that is none, and for a
    number that is not from 1 to the limit's end.
    """
    for name, number in numbers.items():
        if name not in TABLE:
            raise SimvizError(f"there is no limit {name!r}; docs/limits.md lists them.{near(name, list(TABLE))}")
        end = TABLE[name].end
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= end:
            raise SimvizError(f"the limit {name} is a number from 1 to {end:,}: {TABLE[name].what}.")
    token = _SET.set({**_SET.get(), **numbers})
    try:
        yield
    finally:
        _SET.reset(token)


def free_bytes() -> int:
    """The memory that is free now; _UNKNOWN_BYTES where the system is not Linux and does not say it."""
    try:
        said = Path("/proc/meminfo").read_text(encoding="ascii")
        free = next(int(line.split()[1]) * 1024 for line in said.splitlines() if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):  # another system than Linux
        free = _UNKNOWN_BYTES
    return free


def read_limit(text: str) -> tuple[str, int]:
    """Read NAME=N. Raises ValueError for another form; `raised` looks at name and number."""
    name, equals, number = text.partition("=")
    plain = number.strip().replace("_", "").replace(",", "")
    if not equals or not plain.isdecimal() or len(plain) > len(str(2**63)):
        raise ValueError(f"{text!r} is not of the form NAME=N, such as nodes=5000000")
    return name.strip(), int(plain)
