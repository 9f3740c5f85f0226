"""Record what this machine's TensorFlow does with every graph of a folder, in a small file for each.

Called as `python -m simulator.oracle.record DIR [-o OUT]`.

A record holds the placement log in its order, the pieces, and the times of one step, with the versions and devices that
were there. Placing and cutting run nothing of a graph. Timing a step executes its ops: do it for graphs that you trust,
and give `--no-run` for all others.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from simulator.cluster.description import load_cluster
from simulator.cluster.devicespec import DeviceSpec, parse
from simulator.errors import ClusterError, GraphError, OracleError, SimvizError
from simulator.files import replace_file
from simulator.graph.dtypes import REF, RESOURCE
from simulator.graph.graph_def import graph_def
from simulator.graph.importer import read_graph
from simulator.graph.inlining import inline, lower
from simulator.graph.shapes import with_shapes
from simulator.graph.sources import read_source
from simulator.graph.step import choose_step
from simulator.oracle.machine import Machine, machine
from simulator.oracle.measurement import GPUS
from simulator.oracle.observing import LOCALHOST, TIMEOUT_S, observe, without_large_values
from simulator.oracle.recording import Recording, dump
from simulator.oracle.recording import load as load
from simulator.oracle.timing import timed
from simulator.units import show_bytes
from simulator.wording import printable

if TYPE_CHECKING:
    from simulator.graph.graph import Graph

SUFFIX = ".record.gz"
_NOTHING: tuple[Any | None, str | None] = (None, "it was not asked to be run")
STEP_TIMEOUT_S = 30.0  # a step that waits for a queue which nobody fills never ends
_SCATTERED = 0.3
AS_THEY_STAND = "as they stand"
FITTED = "without job, replica and task, to fit one machine"
_HERE = ("localhost", 0, 0)  # job, replica and task of the one process of a machine


def cluster_of(devices: Sequence[tuple[str, str, int]]) -> str:
    """The devices of a session, in compact notation.

    Raises OracleError for devices that no cluster here can describe: other types than CPU and GPU, or gaps.

    >>> name = "/job:localhost/replica:0/task:0/device:"
    >>> cluster_of([(name + "CPU:0", "CPU", 2**28), (name + "GPU:0", "GPU", 2**36), (name + "GPU:1", "GPU", 2**36)])
    'cpu=1,gpu=2'
    """
    counts = _counts(devices)
    named = {f"{LOCALHOST}/device:{kind}:{number}" for kind, count in counts.items() for number in range(count)}
    if odd := sorted({name for name, _, _ in devices} ^ named):
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

    A graph whose device strings name other tasks than that of one process has job, replica and task left out of them.
    `scatter` is a seed: nodes picked by it ask for a device of this machine instead. A graph that TensorFlow refuses
    makes a recording too, and one whose step does not run says why. Raises GraphError for a file that holds no
    graph, and OracleError where TensorFlow does not answer.
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
    seen = observe(graph, load_cluster(cluster), step=again, soft=soft, timeout_s=timeout_s)
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
    nodes = [*message.node, *(node for function in message.library.function for node in function.node_def)]
    specs = {text: _read(text) for text in {node.device for node in nodes}}
    if not any(_elsewhere(spec) for spec in specs.values() if spec is not None):
        return False
    for node in nodes:
        spec = specs[node.device]
        if spec is not None:
            node.device = str(spec._replace(job=None, replica=None, task=None))
    return True


def _scatter(graph: Graph, message: Any, here: Machine, seed: int) -> str:
    """Let nodes that chance picks ask for devices that it picks too; what was done, in words.

    Variables and other makers of resources are not picked: one operation often takes several, and TensorFlow refuses
    those that ask for different devices.
    """
    chance = random.Random(seed)
    wanted = [name.removeprefix(LOCALHOST) for name, _, _ in here.devices]
    for row, node in enumerate(message.node):
        first, last = graph.tensor_ptr[row], graph.tensor_ptr[row + 1]
        made = graph.tensor_dtype[first:last].tolist()
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
            _say(f"{path.name}: {_told(made)}; {show_bytes(len(content))}")
    return 1 if failed else 0


def _say(text: str, file: TextIO | None = None) -> None:
    """Print a line; names of files and nodes are nothing that a terminal shall obey."""
    print(printable(text), file=file)


def _told(made: Recording) -> str:
    """A recording in one line."""
    if made.seen.refusal is not None:
        return f"refused: {made.seen.refusal}"
    cut = f"{sum(len(piece.node) for piece in made.seen.partitions)} in {len(made.seen.partitions)} pieces"
    ran = f"not run: {made.not_run}" if made.stats is None else "one step timed"
    return f"{len(made.seen.placement)} nodes placed, {cut}, {ran}; device strings {made.devices}"


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
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
