"""Laws of `combining.py` about copies of a model, towers, replicas and microbatches, and about ops that change nothing.

Each is a function of a case as those of `combining_laws.py`. `COPIED` has the laws, `WANTED_OF_COPIES` the options that
a case needs for a law to say something of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from combining_running import Call, Case, NothingSaid, compared, equal, message_of

from simulator.errors import SimvizError
from simulator.graph.dataflow import source_of
from simulator.graph.graph import Graph
from simulator.graph.messages import GraphDef, NodeDef, Proto
from simulator.training.programs.tasks import computing, worker_tasks
from viz.formats.json_object import record

OF_TRAININGS = ("--training", "--steps", "--disturb", "--workers", "--input", "--gap", "--device-filters", "--until-ci")
COMPUTING = ("MatMul", "Conv2D", "BiasAdd", "Relu", "Softmax", "Mul", "Add", "AddV2", "Tanh", "Sigmoid", "MaxPool")
ROUNDING = 0.02  # of the bytes of an all-reduce: chunks are whole elements, and small gradients have few
INSERTED = 5  # ops that change nothing, at most
REALS = (1, 2, 19)  # DT_FLOAT, DT_DOUBLE, DT_HALF


def first_step(case: Case) -> Iterator[str]:
    """The step that a training shows is that of the same replication alone."""
    case.only(trainings=True)
    how = _replication(case)
    regime = "sync" if how == "in" or how.startswith("allreduce") else "async"  # in which the graph is the same
    options = {"--training": regime, "--algorithm": case.call.options.get("--algorithm", "whitepaper")}
    trained = case.scene(case.call.having(options, "--disturb", "--workers"))
    alone = case.scene(case.call.having({"--algorithm": options["--algorithm"]}, *OF_TRAININGS))
    yield from compared("the step without a training", record(trained), record(alone), but=("training", "notes"))


def _replication(case: Case) -> str:
    how = case.call.options.get("--replicate", "none")
    if how == "none":
        raise NothingSaid
    return how


def copies_alike(case: Case) -> Iterator[str]:
    """Copies of a node have its op and shapes and cost the same; each copy of the model has the same nodes."""
    scene = case.scene()
    graph, costs = scene.graph, scene.costs
    held: dict[str, dict[str, int]] = defaultdict(dict)  # prefix -> original -> row
    for copy, original in graph.copies.items():
        if copy.endswith(f"/{original}") and original in graph.index:
            held[copy.removesuffix(original)][original] = graph.index[copy]
    if not held:
        raise NothingSaid
    first = next(iter(held.values()))
    for prefix, rows in held.items():
        if set(rows) != set(first):
            yield f"{prefix} has other nodes than the first copy: {sorted(set(rows) ^ set(first))[:3]}"
        for original, row in rows.items():
            other = graph.index[original]
            if graph.ops[row] != graph.ops[other] or _shapes(graph, row) != _shapes(graph, other):
                yield f"{graph.names[row]} is another op than {original}, or has other shapes"
            elif _readers(graph, row) != _readers(graph, other) or _waits(graph, row) != _waits(graph, other):
                continue  # a reader in host memory makes a value dearer on a GPU; what waits is not joined with another
            elif (mine := costs.run_ns[row].tolist()) != (theirs := costs.run_ns[other].tolist()):
                yield f"{graph.names[row]} costs {mine}, {original} {theirs}"


def _shapes(graph: Graph, row: int) -> Sequence[object]:
    return graph.tensor_shape[graph.tensor_ptr[row] : graph.tensor_ptr[row + 1]]


def _readers(graph: Graph, row: int) -> Sequence[str]:
    """The ops that read a node."""
    return sorted(graph.ops[reader] for reader in graph.edge_dst[graph.edge_src == row].tolist())


def _waits(graph: Graph, row: int) -> Sequence[bool]:
    """Whether control edges are at a node and at the two before it, with which it may be one kernel on a GPU.

    The turn of a microbatch is such an edge.
    """
    found: list[bool] = []
    while row >= 0 and len(found) < 3:
        touching = (graph.edge_src == row) | (graph.edge_dst == row)
        found.append(bool((graph.edge_tensor[touching] < 0).any()))
        row = source_of(graph, row)
    return found


def bytes_of_collectives(case: Case) -> Iterator[str]:
    """A ring, a tree and a hierarchy of the same gradients move the same bytes, whether or not these are fused."""
    if not _replication(case).startswith("allreduce"):
        raise NothingSaid
    call = case.call.having({"--algorithm": "tensorflow"}, *OF_TRAININGS, "--fuse")
    moved = {}
    for name in ("ring", "tree", "hierarchical"):
        for fused in (False, True):
            options = {"--replicate": f"allreduce:{name}", **({"--fuse": "1MiB"} if fused else {})}
            told = record(case.scene(call.having(options)))
            moved[name, fused] = sum(row["bytes"] for row in told["transfers"])
    least, most = min(moved.values()), max(moved.values())
    if not least:
        raise NothingSaid  # a single copy
    if most - least > ROUNDING * most:
        yield f"all-reduces of the same gradients move {moved} bytes"


def examples_of_copies(case: Case) -> Iterator[str]:
    """An update has as many examples, times its copies, whoever made the copies."""
    case.only(trainings=True)
    _replication(case)
    per_copy: dict[str, float] = {}
    for how, regime in (("in", "sync"), ("allreduce:ring", "sync"), ("between", "async"), ("both", "async")):
        options = {"--replicate": how, "--training": regime, "--steps": "2", "--engine": "python"}
        try:
            scene = case.scene(case.call.having(options, "--disturb", "--workers", "--until-ci", "--fuse"))
        except SimvizError:
            continue  # no ps tasks, or no training at all
        assert scene.training is not None
        examples = set(scene.training.training.update_examples.tolist())
        workers = worker_tasks(scene.cluster)
        copies = {len(computing(scene.cluster, [one])) for one in workers} if how == "both" else {1}
        if how in ("in", "allreduce:ring"):
            copies = {len(computing(scene.cluster, workers))}
        if len(examples) == 1 and len(copies) == 1:
            per_copy[how] = examples.pop() / copies.pop()
    if len(per_copy) < 2:
        raise NothingSaid
    if len(set(per_copy.values())) > 1:
        yield f"each copy has so many examples: {per_copy}"


def asked_of_copies(case: Case) -> Iterator[str]:
    """A node that asks for a CPU runs on one, and so does each of its copies."""
    if "--microbatches" not in case.call:
        _replication(case)
    message, suffix = message_of(case.call.graph)
    if suffix == ".meta" or "--pin" in case.call:
        raise NothingSaid
    tied = {text.decode().removeprefix("loc:@") for node in message.node for text in _ties(node)}
    offered = [n for n in message.node if n.op in COMPUTING and n.name not in tied and not _ties(n)]
    if not offered:
        raise NothingSaid
    for node in message.node:
        node.device = ""
    asking = case.random("asking").choice(offered)
    asking.device = "/device:CPU:0"
    file = case.folder / "asking.pb"
    file.write_bytes(message.SerializeToString(deterministic=True))
    scene = case.scene(case.call.having({}, "--ignore-devices", graph=file))
    rows = [row for row, name in enumerate(scene.graph.names) if scene.graph.copies.get(name, name) == asking.name]
    if len(rows) < 2:
        raise NothingSaid
    for row in rows:
        device = scene.cluster.devices[scene.assignment.device[row]]
        if device.type != "CPU":
            yield f"{asking.name} asks for a CPU, and {scene.graph.names[row]} is on {device.short}"


def _ties(node: Proto) -> Sequence[bytes]:
    return node.attr["_class"].list.s if "_class" in node.attr else ()


def as_an_identity(case: Case) -> Iterator[str]:
    """A sum of one summand or a cast to the same type is as an Identity there: it takes no time and no memory."""
    if "--keep-calls" in case.call or "--observation" in case.call or case.call.options.get("--order") == "tensorflow":
        raise NothingSaid  # the executor takes an Identity for cheap, whatever it costs; another graph was observed
    message, suffix = message_of(case.call.graph)
    graph = case.scene().graph
    if suffix == ".meta" or graph.lowered is not None or graph.expanded:
        raise NothingSaid
    runs = case.scene().step.runs
    edges = []
    for node in message.node:
        if node.op in FLOW or _ties(node) or not runs[graph.index[node.name]]:
            continue
        for slot, source in enumerate(node.input):
            row = graph.index.get(source, -1)  # of a first output; those of others and control edges are left out
            if row < 0 or graph.ops[row] in FLOW or graph.tensor_ptr[row] == graph.tensor_ptr[row + 1]:
                continue
            dtype = int(graph.tensor_dtype[graph.tensor_ptr[row]])
            if dtype in REALS:  # a reference has another number
                edges.append((node.name, slot, source, dtype))
    if not edges:
        raise NothingSaid
    chosen = case.random("inserted").sample(edges, min(INSERTED, len(edges)))
    one = case.scene(_with(case, message, chosen, "Identity"))
    for op in ("AddN", "Cast"):
        other = case.scene(_with(case, message, chosen, op))
        if one.assignment.device.tolist() != other.assignment.device.tolist():
            raise NothingSaid  # the placer has a rule of its own for an Identity
        yield from equal(f"makespan with {op}", int(one.trace.makespan), int(other.trace.makespan))
        yield from equal(f"busy times with {op}", one.trace.busy_ns.tolist(), other.trace.busy_ns.tolist())
        yield from equal(f"peaks with {op}", one.trace.peak_bytes.tolist(), other.trace.peak_bytes.tolist())


FLOW = frozenset(("Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "RefEnter", "RefSwitch", "RefMerge"))


def _with(case: Case, message: Proto, edges: Sequence[tuple[str, int, str, int]], op: str) -> Call:
    """The call with an op on each of those edges, beside the node that makes the value."""
    changed = GraphDef()
    changed.CopyFrom(message)
    nodes = {node.name: node for node in changed.node}
    for at, (reader, slot, source, dtype) in enumerate(edges):
        added = NodeDef(name=f"unchanged_{at}", op=op, input=[source], device=nodes[source].device)
        added.attr["_class"].list.s.append(f"loc:@{source}".encode())
        for attr in ("SrcT", "DstT") if op == "Cast" else ("T",):
            added.attr[attr].type = dtype
        if op == "AddN":
            added.attr["N"].i = 1
        nodes[reader].input[slot] = added.name
        changed.node.append(added)
    file = case.folder / f"with_{op}.pb"
    file.write_bytes(changed.SerializeToString(deterministic=True))
    return case.call.having(graph=file)


COPIED: Mapping[str, tuple[Callable[[Case], Iterator[str]], bool]] = {
    "a training's step and the same alone": (first_step, False),
    "copies are alike": (copies_alike, True),
    "bytes of an all-reduce": (bytes_of_collectives, False),
    "examples of all copies": (examples_of_copies, False),
    "a CPU asked for, in each copy": (asked_of_copies, False),
    "what changes nothing, as an Identity": (as_an_identity, False),
}
_TRAINS: Mapping[str, Sequence[str]] = {
    "--training": ("sync", "async"),
    "--steps": ("2", "6"),
    "--ignore-devices": ("",),
}
_COPYING = ("in", "between", "both", "allreduce:ring", "allreduce:tree", "allreduce:hierarchical")
_SEVERAL = ("ps=1,worker=2x2gpu", "ps=2,worker=3x1gpu", "worker=2x2gpu", "4gpu", "2gpu", "ps=2,worker=3", "worker=3")
WANTED_OF_COPIES: Mapping[str, Mapping[str, Sequence[str] | None]] = {
    "a training's step and the same alone": {**_TRAINS, "--replicate": _COPYING, "--cluster": _SEVERAL, "--pin": None,
                                             "--observation": None},
    "bytes of an all-reduce": {**_TRAINS, "--training": ("sync",), "--replicate": _COPYING[3:], "--pin": None,
                               "--order": None,
                               "--cluster": ("4gpu", "2gpu", "worker=2x2gpu", "worker=3", "worker=3x1gpu")},
    "examples of all copies": {**_TRAINS, "--replicate": _COPYING, "--cluster": _SEVERAL, "--pin": None},
    "a CPU asked for, in each copy": {**_TRAINS, "--replicate": _COPYING, "--cluster": _SEVERAL, "--pin": None},
    "copies are alike": {"--microbatches": ("2", "4"), "--training": None, "--ignore-devices": ("",), "--pin": None,
                         "--cluster": ("2gpu", "4gpu", "8v100", "2t4"), "--replicate": None},
    "what changes nothing, as an Identity": {"--keep-calls": None, "--order": ("fifo",), "--pin": None,
                                             "--observation": None},
}  # fmt: skip
