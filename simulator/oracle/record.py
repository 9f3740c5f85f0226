"""Record this machine's TensorFlow at work on every graph of a folder, in a small file for each.

Called as `python -m simulator.oracle.record DIR [-o OUT]`.

A record holds the placement log in its order, the pieces, and the times of one step. It also holds the versions and
devices of the machine, and the graph as TensorFlow got it. So any machine can compare a prediction with it. The file
is gzip over one JSON object; GraphDef and StepStats messages are base64 in it.

Placing and cutting run nothing of a graph. Timing a step executes its ops: do it for graphs that you trust, and give
`--no-run` for all others.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import json
import os
import random
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from google.protobuf.message import DecodeError

from simulator.cluster.description import load_cluster
from simulator.cluster.devicespec import LOCAL_TASK, LOCALHOST, DeviceSpec, parse
from simulator.errors import ClusterError, GraphError, OracleError, SimvizError
from simulator.files import replace_file
from simulator.graph.dtypes import REF, RESOURCE
from simulator.graph.graph_def import all_nodes, graph_def
from simulator.graph.importer import read_graph
from simulator.graph.inlining.expanding import inline, lower
from simulator.graph.messages import GraphDef, StepStats
from simulator.graph.sources import read_source
from simulator.graph.step import choose_step
from simulator.oracle.dry_runs import GPUS, TIMEOUT_S, DryRun, dry_run, local_devices, without_large_values
from simulator.oracle.machine import Machine, machine
from simulator.oracle.timing import timed
from simulator.shapes.filling import with_shapes
from simulator.units import show_bytes
from simulator.wording import printable

if TYPE_CHECKING:
    from simulator.graph.graph import Graph

SUFFIX = ".record.gz"
FORMAT = 1
MAX_FILE_BYTES = 2**24  # as written; a graph of 6,000 nodes with its pieces takes 0.5 MB
MAX_BYTES = 2**29  # unpacked
_NOTHING: tuple[Any | None, str | None] = (None, "it was not asked to be run")
STEP_TIMEOUT_S = 30.0  # a step that waits for a queue which nobody fills never ends
_SCATTERED = 0.3
AS_THEY_STAND = "as they stand"
FITTED = "without job, replica and task, to fit one machine"
_HERE = (LOCALHOST, 0, 0)  # job, replica and task of the one process of a machine


@dataclass(frozen=True, eq=False)
class Recording:
    """TensorFlow's answer about one graph."""

    name: str  # of the graph's file
    sha256: str  # of its content
    graph: Any  # the GraphDef that TensorFlow got: flat unless calls were kept, large constants emptied
    devices: str  # the change of its device strings, in words
    cluster: str  # compact notation
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    soft: bool
    machine: Machine
    seen: DryRun
    stats: Any | None = None  # StepStats of one step, without what it says of memory
    not_run: str | None = None  # why there are none


def cluster_of(devices: Sequence[tuple[str, str, int]]) -> str:
    """The devices of a session, in compact notation.

    Raises OracleError for devices that no cluster here can describe: other types than CPU and GPU, or gaps.

    >>> name = "/job:localhost/replica:0/task:0/device:"
    >>> cluster_of([(name + "CPU:0", "CPU", 2**28), (name + "GPU:0", "GPU", 2**36), (name + "GPU:1", "GPU", 2**36)])
    'cpu=1,gpu=2'
    """
    counts = _counts(devices)
    if odd := sorted({name for name, _, _ in devices} ^ local_devices(counts)):
        raise OracleError(f"TensorFlow's session has other devices than CPUs and GPUs numbered from 0: {odd[0]}")
    return ",".join(f"{kind.lower()}={count}" for kind, count in counts.items() if count)


def _counts(devices: Sequence[tuple[str, str, int]]) -> dict[str, int]:
    return {kind: sum(found == kind for _, found, _ in devices) for kind in ("CPU", "GPU")}


def record(
    path: Path,
    here: Machine,
    *,
    soft: bool = True,
    keep_calls: bool = False,
    scatter: int | None = None,
    runs: bool = True,
    timeout_s: float = TIMEOUT_S,
    step_timeout_s: float = STEP_TIMEOUT_S,
) -> Recording:
    """Ask this machine's TensorFlow about the graph of a file; with `runs` one step of it is executed and timed.

    If the device strings of a graph name other tasks than that of one process, job, replica and task are left out of
    all strings. `scatter` is a seed: nodes picked by it ask for a device of this machine instead. A graph that
    TensorFlow refuses makes a recording too, and so does one whose step does not run, with the reason. Raises
    GraphError for a file without a graph, and OracleError where TensorFlow does not answer.
    """
    given = read_graph(path)
    given = given if keep_calls else inline(given)
    placed = with_shapes(lower(given))
    step = choose_step(placed)
    whole = graph_def(given)
    devices = AS_THEY_STAND if not _localise(whole) else FITTED
    if scatter is not None:
        devices = _scatter(given, whole, here, scatter)
    asked = without_large_values(_copy(whole))
    graph = lower(read_graph(asked))
    cluster = cluster_of(here.devices)
    again = choose_step(graph, feeds=step.feeds, fetches=step.fetches)
    seen = dry_run(graph, load_cluster(cluster), step=again, soft=soft, timeout_s=timeout_s)
    if here.gpus and seen.oracle != GPUS:
        raise OracleError(f"TensorFlow finds {len(here.gpus)} GPUs, but the answer came from {seen.oracle}")
    stats, not_run = _NOTHING
    if seen.refusal is not None:
        stats, not_run = None, "TensorFlow refuses it"
    elif runs:
        stats, not_run = timed(
            whole,
            placed,
            step,
            counts=_counts(here.devices),
            soft=soft,
            step_timeout_s=step_timeout_s,
            timeout_s=timeout_s,
        )
    return Recording(
        name=path.name,
        sha256=hashlib.sha256(read_source(path)[0]).hexdigest(),
        graph=asked,
        devices=devices,
        cluster=cluster,
        feeds=step.feeds,
        fetches=step.fetches,
        soft=soft,
        machine=here,
        seen=seen,
        stats=stats,
        not_run=not_run,
    )


def _copy(message: Any) -> Any:
    made = type(message)()
    made.CopyFrom(message)
    return made


def _localise(message: Any) -> bool:
    """Leave job, replica and task out of all device strings if any names another task than a local session's."""
    nodes = list(all_nodes(message))
    specs = {text: _read(text) for text in {node.device for node in nodes}}
    if not any(_elsewhere(spec) for spec in specs.values() if spec is not None):
        return False
    for node in nodes:
        spec = specs[node.device]
        if spec is not None:
            node.device = str(spec._replace(job=None, replica=None, task=None))
    return True


def _scatter(graph: Graph, message: Any, here: Machine, seed: int) -> str:
    """Let random nodes ask for random devices; return the change in words.

    Variables and other makers of resources are not picked: one op often takes several, and TensorFlow refuses those
    that ask for different devices.
    """
    chance = random.Random(seed)
    wanted = [name.removeprefix(LOCAL_TASK) for name, _, _ in here.devices]
    for row, node in enumerate(message.node):
        made = graph.tensor_dtype[graph.outputs(row)].tolist()
        if chance.random() < _SCATTERED and not any(dtype == RESOURCE or dtype >= REF for dtype in made):
            node.device = chance.choice(wanted)
    return f"by chance for {_SCATTERED:.0%} of the nodes, with seed {seed}"


def _read(text: str) -> DeviceSpec | None:
    try:
        return parse(text)
    except ClusterError:  # TensorFlow shall say so itself
        return None


def _elsewhere(spec: DeviceSpec) -> bool:
    return any(asked not in (None, here) for asked, here in zip(spec[:3], _HERE, strict=True))


# --- the file ---------------------------------------------------------------------------------------------------------


def dump(recording: Recording) -> bytes:
    """The file's content: the same bytes for the same recording. Raises OracleError if it would be too large."""
    seen = {field.name: getattr(recording.seen, field.name) for field in fields(recording.seen)}
    seen["placement"] = list(recording.seen.placement.items())
    seen["partitions"] = [_packed(piece) for piece in recording.seen.partitions]
    facts = {
        "format": FORMAT,
        "graph": {
            "name": recording.name,
            "sha256": recording.sha256,
            "devices": recording.devices,
            "content": _packed(recording.graph),
        },
        "cluster": recording.cluster,
        "step": {"feeds": recording.feeds, "fetches": recording.fetches},
        "soft": recording.soft,
        "machine": asdict(recording.machine),
        "seen": seen,
        "stats": None if recording.stats is None else _packed(recording.stats),
        "not_run": recording.not_run,
    }
    content = gzip.compress(json.dumps(facts, sort_keys=True).encode(), compresslevel=9, mtime=0)
    if len(content) > MAX_FILE_BYTES:
        raise OracleError(f"the record of {recording.name} would have {len(content):,} bytes; ask about less of it")
    return content


def load(path: str | os.PathLike[str]) -> Recording:
    """Read a recording. Raises OracleError for a file that is none, that is damaged or that is too large."""
    where = os.fspath(path)
    try:
        if Path(path).stat().st_size > MAX_FILE_BYTES:
            raise OracleError(f"{where} is larger than any record ({MAX_FILE_BYTES:,} bytes)")
        with gzip.open(path) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise OracleError(f"{where} cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error):
        raise OracleError(f"{where} is damaged: write it anew") from None
    if len(content) > MAX_BYTES:
        raise OracleError(f"{where} unpacks to more than {MAX_BYTES:,} bytes: it is no record")
    try:
        facts = json.loads(content)
        if facts["format"] != FORMAT:
            raise OracleError(f"{where} is a record of format {facts['format']!r}, and {FORMAT} is read here")
        return _recording(facts)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, DecodeError) as error:
        raise OracleError(f"{where} is no record: {type(error).__name__} {str(error)[:200]}") from None


def _recording(facts: Mapping[str, Any]) -> Recording:
    graph, step, seen, machine = facts["graph"], facts["step"], dict(facts["seen"]), dict(facts["machine"])
    seen["placement"] = {str(name): str(device) for name, device in seen["placement"]}
    seen["partitions"] = tuple(GraphDef.FromString(base64.b64decode(piece)) for piece in seen["partitions"])
    machine["gpus"] = tuple(machine["gpus"])
    machine["devices"] = tuple((name, kind, memory) for name, kind, memory in machine["devices"])
    stats = facts["stats"]
    return Recording(
        name=graph["name"],
        sha256=graph["sha256"],
        graph=GraphDef.FromString(base64.b64decode(graph["content"])),
        devices=graph["devices"],
        cluster=facts["cluster"],
        feeds=tuple(step["feeds"]),
        fetches=tuple(step["fetches"]),
        soft=facts["soft"],
        machine=Machine(**machine),
        seen=DryRun(**seen),
        stats=None if stats is None else StepStats.FromString(base64.b64decode(stats)),
        not_run=facts["not_run"],
    )


def _packed(message: Any) -> str:
    return base64.b64encode(message.SerializeToString(deterministic=True)).decode()


# --- the command ------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Record a folder: 0 done, 1 a graph could not be recorded, 2 the call is wrong or TensorFlow is not there."""
    chosen = _parser().parse_args(arguments)
    try:
        files = sorted(path for path in chosen.folder.iterdir() if not path.name.startswith("."))
        chosen.out.mkdir(parents=True, exist_ok=True)
        here = machine(chosen.cpus, timeout_s=chosen.timeout)
        cluster = cluster_of(here.devices)
    except (OSError, SimvizError) as error:
        _say(f"error: {error}", sys.stderr)
        return 2
    _say(f"TensorFlow {here.tensorflow} on {cluster} ({'; '.join(here.gpus) or here.processor})")
    failed = 0
    for path in files:
        try:
            made = record(
                path,
                here,
                soft=chosen.soft,
                keep_calls=chosen.keep_calls,
                scatter=chosen.scatter,
                runs=chosen.runs,
                timeout_s=chosen.timeout,
                step_timeout_s=chosen.step_timeout,
            )
            content = dump(made)
            replace_file(chosen.out / f"{path.name}{SUFFIX}", content)
        except GraphError as error:
            _say(f"{path.name}: passed over: {error}")
        except (OSError, SimvizError) as error:
            failed += 1
            _say(f"{path.name}: not recorded: {error}", sys.stderr)
        else:
            _say(f"{path.name}: {_summary(made)}; {show_bytes(len(content))}")
    return 1 if failed else 0


def _say(text: str, file: TextIO | None = None) -> None:
    """Print a line, in which names of files and nodes are escaped for a terminal."""
    print(printable(text), file=file)


def _summary(made: Recording) -> str:
    """A recording in one line."""
    if made.seen.refusal is not None:
        return f"refused: {made.seen.refusal}"
    cut = f"{sum(len(piece.node) for piece in made.seen.partitions)} in {len(made.seen.partitions)} pieces"
    ran = f"not run: {made.not_run}" if made.stats is None else "one step timed"
    return f"{len(made.seen.placement)} nodes placed, {cut}, {ran}; device strings {made.devices}"


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of devices; give one from 1")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m simulator.oracle.record",
        description="Write what this machine's TensorFlow does with every graph of a folder: placement, pieces, times.",
        epilog="Timing a step executes the ops of the graph, which may read and write files: without --no-run record "
        "only graphs that you trust. Nothing else here, and nothing that `simviz --check` does, runs a graph.",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="where the graphs are; what is none is passed over")
    parser.add_argument("-o", dest="out", type=Path, metavar="OUT", default=Path("records"), help="default: records")
    parser.add_argument("--cpus", type=_count, default=1, metavar="N", help="CPU devices of the session (default 1)")
    parser.add_argument("--hard", dest="soft", action="store_false", help="hard placement (default: soft)")
    parser.add_argument("--keep-calls", action="store_true", help="leave function calls as they are")
    parser.add_argument("--scatter", type=int, metavar="SEED", help="let some nodes ask for devices picked by chance")
    parser.add_argument(
        "--timeout", type=float, default=TIMEOUT_S, metavar="S", help=f"seconds for a graph (default {TIMEOUT_S:g})"
    )
    parser.add_argument(
        "--step-timeout",
        type=float,
        default=STEP_TIMEOUT_S,
        metavar="S",
        help=f"for a step (default {STEP_TIMEOUT_S:g})",
    )
    parser.add_argument("--no-run", dest="runs", action="store_false", help="run nothing: placement and pieces alone")
    return parser


if __name__ == "__main__":
    sys.exit(main())
