"""Hold every graph of a folder against the real TensorFlow on several clusters: a table for RESULTS.md.

    python benchmarks/fidelity.py FOLDER [CLUSTER ...] [--pin SEED ...] [--whole] [--differences FILE]

Each graph is placed as TensorFlow would place it, soft and hard, flat and with its calls kept, and cut as its master
and workers, or its local session, would cut it; n/N counts what is the same, "raw" before undoing what TensorFlow
itself does by chance (docs/tensorflow.md). With `--pin` the devices are drawn instead, one for each group of nodes that
must stay together, and TensorFlow is asked with hard placement whether it takes them and cuts alike. The step is the
one that simviz chooses, with `--whole` one that runs every node.

A graph that either side refuses is a row with both sentences. A crash of TensorFlow, or no answer in time, is a row
too; the next question starts a fresh process.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from google.protobuf import message, text_format

from placement import place
from simulator import choose_step, estimate, inline, load_cluster, partition, read_graph
from simulator.assignment import COST, Assignment
from simulator.cluster.cluster import Cluster
from simulator.columns import ids
from simulator.errors import GraphError, InfeasibleError, OracleError, SimvizError
from simulator.graph.graph import Graph
from simulator.graph.inlining.expanding import isolated, lower
from simulator.graph.messages import GraphDef, merge_text
from simulator.oracle.child import Asking, pack, unpack
from simulator.oracle.dry_runs import STAND_INS, conversation, dry_run, extended
from simulator.oracle.verification import agreement, compare_refusals
from simulator.placer.constraints import constrain

# one process, with and without GPUs; a cluster; a device per task; a GPU per task, beside the CPU that every task has
CLUSTERS = ("cpu=4", "4gpu", "ps=2,worker=2x4gpu", "ps=2,worker=6", "ps=2,worker=8x1gpu")
SUFFIXES = (".pb", ".pbtxt", ".meta", ".gz")
TIMEOUT_S = 300.0
T = TypeVar("T")
COLUMNS = ("graph", "cluster", "how", "nodes", "placement", "raw", "log order", "partition", "raw", "errors alike")


@dataclass
class Row:
    """One line of the table; counts are (equal, all)."""

    nodes: int = 0
    placement: tuple[int, int, int] | None = None  # agree, raw, of
    order: tuple[int, int] | None = None
    partition: tuple[int, int, int] | None = None
    errors: str = ""  # "alike", "differ" or "" where nobody refuses
    ours_s: float | None = None
    theirs_s: float | None = None
    said: str = ""
    differences: list[dict[str, str]] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether there is nothing on which the two sides differ."""
        counts = [self.placement, self.order, self.partition]
        return self.errors != "differ" and all(count is None or count[0] == count[-1] for count in counts)


def drawn(graph: Graph, cluster: Cluster, seed: int) -> Assignment:
    """A random device for each group of nodes, among those that may run it."""
    free = replace(graph, requested=("",) * len(graph))
    rules, chance = constrain(free, cluster, soft=False), random.Random(seed)
    device = [0] * len(graph)
    for members, allowed in zip(rules.members, rules.allowed, strict=True):
        row = chance.choice(allowed)
        for member in members:
            device[member] = row
    names = tuple(one.name for one in cluster.devices)
    return Assignment(names, ids(device), ids([COST] * len(graph)), "by chance", "by chance")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    return work(), time.perf_counter() - started


def sinks(graph: Graph) -> list[str]:
    """The nodes that nobody reads or waits for: with them as targets everything runs."""
    read = set(graph.edge_src.tolist())
    return [name for row, name in enumerate(graph.names) if row not in read]


def compared(graph: Graph, cluster: Cluster, *, soft: bool, seed: int | None, whole: bool, asking: Asking) -> Row:
    """One graph on one cluster: our answer, TensorFlow's, and how far they agree."""
    cluster = extended(cluster)
    if seed is not None:  # devices can be written into the nodes that there are in the end
        graph = graph.imported()
    step, costs = choose_step(graph, fetches=sinks(graph) if whole else None), estimate(graph, cluster)
    row = Row(nodes=len(graph))

    def placed(seen: Mapping[str, str] | None = None) -> Assignment:
        if seed is not None:
            return drawn(graph, cluster, seed)
        return place(graph, cluster, costs, step=step, algorithm="tensorflow", soft=soft, seen=seen or {})

    ours: Assignment | None = None
    error: InfeasibleError | GraphError | None = None
    try:
        mine, placing = timed(placed)
        ours = mine
        legal = seed is None  # devices that are pinned take the place of those that the graph asks for
        _, cutting = timed(partial(partition, graph, mine, cluster, step=step, flavour="local", legal=legal))
        row.ours_s = placing + cutting
    except (InfeasibleError, GraphError) as raised:
        error = raised
    pinned = None if seed is None or ours is None else [ours.name_of(node) for node in range(len(graph))]
    seen, row.theirs_s = timed(
        lambda: dry_run(graph, cluster, step=step, soft=soft, devices=pinned, timeout_s=TIMEOUT_S, asking=asking)
    )
    if error is not None:
        refused = compare_refusals(graph, error, seen)
        row.errors = "alike" if refused.agree else "differ"
        row.said = f"{first_line(error)} // {shortened(refused.said)}"
        return row
    assert ours is not None
    found = agreement(graph, cluster, ours, step, seen, placed if seed is None else None)
    if seen.refusal is not None:
        row.errors, row.said = "differ", f"only TensorFlow refuses: {shortened(seen.refusal)}"
        return row
    for name in ("placement", "partition"):
        setattr(row, name, (found[name]["agree"], found[name]["raw"], found[name]["of"]))
    if found["log_order"]:
        row.order = found["log_order"]["agree"], found["log_order"]["of"]
    row.differences = found["differences"]
    row.said = f"{found['bodies']} nodes of bodies apart" if found["bodies"] else ""
    if seen.oracle == STAND_INS and seen.added_task:
        row.said = "; ".join(filter(None, (row.said, "with a task for the master")))
    return row


def first_line(error: object) -> str:
    return shortened(str(error).strip().split("\n", 1)[0])


def shortened(sentence: str, most: int = 200) -> str:
    return sentence if len(sentence) <= most else f"{sentence[:most]}..."


def forms(path: Path) -> Iterator[tuple[str, Graph]]:
    """The graph flat and with its calls kept; once where there are none."""
    graph = read_graph(str(path))
    flat = lower(inline(graph))
    yield ("flat", flat)
    if len(graph) != len(flat) or graph.names != flat.names:
        yield ("keep-calls", lower(graph))


def import_refusal(content: bytes, asking: Asking) -> str | None:
    """TensorFlow's sentence about a file that holds a GraphDef, in text or binary, which it does not import; else None.

    For files that we do not take for a graph. One that is no GraphDef at all is refused by protobuf, in its words.
    """
    found = GraphDef()
    try:
        merge_text(content.decode("utf-8"), found)
    except (text_format.ParseError, UnicodeDecodeError) as error:  # then it is binary, or no GraphDef
        try:
            found.ParseFromString(content)
        except message.DecodeError:  # the text's error says more
            return f"no GraphDef: {error}"
    step = {"target": [node.name for node in found.node[:1]]}
    question = {"soft": True, "step": step, "tasks": [], "master": "", "counts": {"CPU": 1}}
    reply, _ = unpack(asking(pack(question, [found.SerializeToString(deterministic=True)]), TIMEOUT_S))
    refusal: str | None = reply["refusal"]
    return refusal


def unread(path: Path, error: Exception, asking: Asking) -> Row:
    """A file that we cannot read as a graph: would TensorFlow import it?"""
    row = Row(said=first_line(str(error).replace(str(path), path.name)))
    try:
        refusal = import_refusal(path.read_bytes(), asking)
    except OracleError as oracle:
        row.errors, row.said = "differ", f"{row.said} // TensorFlow: {first_line(oracle)}"
        return row
    row.errors = "alike" if refusal else "differ"
    row.said = f"{row.said} // TensorFlow: {refusal or 'imports it'}"
    return row


def rows(paths: Sequence[Path], asked: argparse.Namespace, asking: Asking) -> Iterator[tuple[str, str, str, Row]]:
    """(graph, cluster, how, row) of every run, as each is done."""
    softness: list[tuple[bool, int | None]] = [(False, seed) for seed in asked.pin] or [(True, None), (False, None)]
    for path in paths:
        try:
            graphs = list(forms(path))
        except (SimvizError, RecursionError) as error:
            yield path.name, "", "", unread(path, error, asking)
            continue
        for form, graph in graphs:
            if asked.pin and len(isolated(graph)) > len(graph):
                continue  # TensorFlow adds nodes, into which no device can be written
            for name in asked.clusters:
                for soft, seed in softness:
                    how = f"{form}, {'soft' if soft else 'hard'}" if seed is None else f"{form}, pinned {seed}"
                    try:
                        cluster = load_cluster(name)
                        row = compared(graph, cluster, soft=soft, seed=seed, whole=asked.whole, asking=asking)
                    except SimvizError as error:  # TensorFlow died or is too slow, or a step that cannot be chosen
                        row = Row(
                            nodes=len(graph), errors="differ", said=f"{type(error).__name__}: {first_line(error)}"
                        )
                    yield path.name, name, how, row


def line(graph: str, cluster: str, how: str, row: Row) -> str:
    """A row of the table in Markdown."""
    cells = [graph, cluster, how, f"{row.nodes:,}" if row.nodes else ""]
    for count, raw in ((row.placement, True), (row.order, False), (row.partition, True)):
        cells.append("" if count is None else f"{count[0]:,}/{count[-1]:,}")
        if raw:
            cells.append("" if count is None else f"{count[1]:,}")
    cells += [row.errors, *("" if took is None else f"{took:.2f} s" for took in (row.ours_s, row.theirs_s))]
    return "| " + " | ".join([*cells, row.said.replace("|", "/")]) + " |"


def total(found: Sequence[Row]) -> str:
    """The sums of all rows, and how many of them agree in everything."""
    sums: Counter[str] = Counter()
    for row in found:
        sums["rows"] += 1
        sums["whole"] += row.whole
        sums[f"errors {row.errors}"] += bool(row.errors)
        for name, count in (("placement", row.placement), ("order", row.order), ("partition", row.partition)):
            if count is not None:
                sums[name] += count[0]
                sums[f"{name} raw"] += count[1] if len(count) == 3 else 0
                sums[f"{name} of"] += count[-1]
    return (
        f"{sums['whole']} of {sums['rows']} runs agree in everything. Placement {sums['placement']:,} of "
        f"{sums['placement of']:,} nodes ({sums['placement raw']:,} raw), log order {sums['order']:,} of "
        f"{sums['order of']:,}, partition {sums['partition']:,} of {sums['partition of']:,} nodes "
        f"({sums['partition raw']:,} raw); errors alike {sums['errors alike']}, not alike {sums['errors differ']}."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("clusters", nargs="*", default=CLUSTERS)
    parser.add_argument("--pin", type=int, action="append", default=[], metavar="SEED")
    parser.add_argument("--whole", action="store_true", help="a step that runs every node")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a file of the folder; repeatable")
    parser.add_argument("--differences", type=Path, metavar="FILE", help="write every difference there")
    asked = parser.parse_args(arguments)
    paths = [path for path in sorted(asked.folder.iterdir()) if path.suffix in SUFFIXES]
    paths = [path for path in paths if not asked.only or path.name in asked.only]
    heads = (*COLUMNS, "ours", "TensorFlow's", "said")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    found, told = [], asked.differences.open("w", encoding="utf-8") if asked.differences else None
    with conversation() as asking:
        for graph, cluster, how, row in rows(paths, asked, asking):
            print(line(graph, cluster, how, row), flush=True)
            found.append(row)
            for one in row.differences if told else ():
                said = (f"  {key}: {text}" for key, text in one.items())
                print(graph, cluster, how, *said, sep="\n", file=told, flush=True)
    print(f"\n{total(found)}")
    return 0 if all(row.whole for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
