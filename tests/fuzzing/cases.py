"""Cases of the fuzzer: calls of the command with hostile files, drawn by a grammar or by mutation of seeds.

A case is all that a call depends on: arguments, files and environment. `draw` makes one of a sort of input. A grammar
writes new inputs with figures, names and structures that no program writes. Mutations change a seed: bytes, tokens of a
text, or fields of a message. Every draw comes from a `Chance`, so a number gives the same case anywhere.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from simulator.graph.messages import GraphDef, MetaGraphDef, Proto, RunMetadata, SavedModel
from tests.fuzzing import materials
from tests.fuzzing.graphs import any_graph, changed_message, meta_graph_of, saved_model_of, seeds, zipped
from tests.fuzzing.library import library_call
from tests.fuzzing.numbers import NUMBERS, forms, is_wish, typed
from tests.fuzzing.options import option_list
from tests.fuzzing.texts import NUMBERS as HOSTILE
from tests.fuzzing.texts import (
    Chance,
    changed_bytes,
    changed_text,
    cluster_text,
    costs_text,
    tf_config,
    toml,
)

INPUT = "input"  # the name of the file in which the input of a case lies; its content tells its kind
LIBRARY = "library"  # the sort of calls of public functions
LINKS = {"circle": "circle", "there": "back", "back": "there", "gone": "nowhere", "here": "."}
GRAPH = "graph.pbtxt"  # a small graph beside it, where the input is something else
SMALL = b"""
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: -1 } dim { size: 8 } } } } }
node { name: "w" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: 8 } dim { size: 4 } } } } }
node { name: "y" op: "MatMul" input: "x" input: "w" attr { key: "T" value { type: DT_FLOAT } } }
"""


@dataclass(frozen=True)
class Case:
    """A call of the command: its arguments, the files in its folder, and what it has in its environment."""

    sort: str
    arguments: tuple[str, ...]
    files: Mapping[str, bytes]
    environment: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)  # name -> where it leads

    @property
    def size(self) -> int:
        """Bytes of the input: of its file, else of what is typed."""
        return len(self.files.get(INPUT, b"")) or sum(map(len, (*self.arguments, *self.environment.values())))

    def written(self) -> str:
        """The case as JSON, from which `read` makes it again."""
        files = {name: base64.b64encode(raw).decode() for name, raw in self.files.items()}
        found = {"sort": self.sort, "arguments": self.arguments, "files": files, "env": {**self.environment}}
        return json.dumps({**found, "links": {**self.links}})


def read(text: str) -> Case:
    """A case from the text of `Case.written`."""
    found = json.loads(text)
    files = {name: base64.b64decode(raw) for name, raw in found["files"].items()}
    return Case(found["sort"], tuple(found["arguments"]), files, found["env"], found.get("links", {}))


_READ_BY = {
    "measured times": "--costs",
    "profile": "--profile",
    "observed step": "--observation",
    "result": "--against",
}


@cache
def beside() -> Mapping[str, bytes]:
    """The files that a call may name, beside those that it does not have."""
    files = {name: seeds()[name][0] for name in ("graph", "train", "loop", "calls")}
    return {**files, "costs.csv": b"y,cpu,500\n", "log": _LOG.encode(), **materials.beside()}


def draw(sort: str, random: Chance) -> Case:
    """A case of that sort."""
    return of_input(sort, SORTS[sort](random), random)


def of_input(sort: str, raw: bytes, random: Chance) -> Case:
    """The call that reads these bytes as an input of that sort."""
    small = {INPUT: raw, GRAPH: SMALL}
    if sort in ("options", "numbers"):
        words = raw.decode("utf-8", "surrogateescape").replace("\0", "").split("\n")
        return Case(sort, tuple(words), beside(), links=LINKS)
    if sort == LIBRARY:
        return Case(sort, (raw.decode("utf-8", "replace"),), {})
    if sort == "cluster, notation":
        return Case(sort, (GRAPH, "--cluster", raw.decode("utf-8", "replace").replace("\0", "")), {GRAPH: SMALL})
    if sort == "TF_CONFIG, environment":
        return Case(
            sort,
            (GRAPH, "--cluster", "TF_CONFIG"),
            {GRAPH: SMALL},
            {"TF_CONFIG": raw.decode("utf-8", "replace").replace("\0", "")},
        )
    if sort.startswith("cluster"):
        return Case(sort, (GRAPH, "--cluster", INPUT), small)
    if sort.startswith("costs"):
        return Case(sort, (GRAPH, "--costs", INPUT, "--cluster", "cpu=2"), small)
    if sort in _READ_BY:
        return Case(
            sort, ("measured", "--cluster", "cpu=2", _READ_BY[sort], INPUT), {INPUT: raw, **materials.measured()}
        )
    if sort == "placement log":
        return Case(sort, (GRAPH, "--check", INPUT), small)
    arguments = [INPUT]
    if random.random() < 0.5:
        arguments += ["--cluster", random.choice(("2gpu", "ps=1,worker=2x1gpu", "cpu=2", "worker=3"))]
    if random.random() < 0.3:
        arguments += ["--algorithm", random.choice(("tensorflow", "requested", "single", "heft"))]
    for option, share in (("--keep-calls", 0.1), ("--hard", 0.1), ("--ignore-devices", 0.2), ("--verbose", 0.1)):
        if random.random() < share:
            arguments.append(option)
    if sort == "instance":
        arguments += random.choice(
            ([], ["-o", "a.placement.json"], ["--algorithm", "heft"], ["--compare", "single,heft"])
        )
        return Case(sort, (INPUT, *arguments[1:], "--budget", "50"), {INPUT: raw})
    if random.random() < 0.1:
        arguments += ["--training", "async", "--steps", "3"]
    if random.random() < 0.15:
        arguments += ["-o", random.choice(("a.html", "a.dot", "a.trace.json", "a.pb", "a.pbtxt", "a.partitions"))]
    return Case(sort, tuple(arguments), {INPUT: raw})


# ---- sorts ----------------------------------------------------------------------------------------------------------


def _message(kind: type[Proto], make: Callable[[Chance], Proto], name: str) -> Callable[[Chance], bytes]:
    """A binary message: by the grammar, or a seed with fields or bytes changed."""

    def drawn(random: Chance) -> bytes:
        if random.random() < 0.4:
            return make(random).SerializeToString()  # type: ignore[no-any-return]  # of a dynamic message
        raw = random.choice(seeds()[name])
        if random.random() < 0.7:
            return changed_message(kind.FromString(raw), random).SerializeToString()  # type: ignore[no-any-return]
        return changed_bytes(raw, random, seeds()[name])

    return drawn


def _text(kind: type[Proto], make: Callable[[Chance], Proto], name: str) -> Callable[[Chance], bytes]:
    """The same in text form, also with tokens changed."""

    def drawn(random: Chance) -> bytes:
        from google.protobuf import text_format

        message = make(random) if random.random() < 0.4 else kind.FromString(random.choice(seeds()[name]))
        if random.random() < 0.3:
            message = changed_message(message, random)
        text = text_format.MessageToString(message, as_one_line=random.random() < 0.1)
        if random.random() < 0.3:
            text = changed_text(text, random)
        if random.random() < 0.03:
            text = text.replace('"', '"' + "\\" * random.choice((511, 512, 514, 100_000)), random.choice((1, 40)))
        raw = text.encode("utf-8", "surrogateescape")
        return changed_bytes(raw, random, [raw]) if random.random() < 0.15 else raw

    return drawn


def _zipped(random: Chance) -> bytes:
    raw = SORTS[random.choice(("GraphDef, binary", "GraphDef, text", "SavedModel, binary"))](random)
    return zipped(raw, random)


def _of_text(make: Callable[[Chance], str], given: Sequence[str] = ()) -> Callable[[Chance], bytes]:
    def drawn(random: Chance) -> bytes:
        text = random.choice(given) if given and random.random() < 0.5 else make(random)
        text = changed_text(text, random) if random.random() < 0.3 else text
        raw = text.encode("utf-8", "surrogateescape")
        return changed_bytes(raw, random, [raw]) if random.random() < 0.1 else raw

    return drawn


def _numbered(random: Chance) -> list[str]:
    """A call with a hostile number in one option."""
    trains = random.random() < 0.5
    form, number = random.choice(forms(trains=trains)), random.choice((*NUMBERS, *HOSTILE))
    return typed("train" if trains else "graph", form, "3" if is_wish(form, number) else number, trains=trains)


def _spoilt(make: Callable[[], Sequence[bytes]]) -> Callable[[Chance], bytes]:
    """One of these files with tokens or bytes changed; what is gzipped is changed inside of it, too."""

    def drawn(random: Chance) -> bytes:
        raw = random.choice(make())
        inside = raw[:2] == b"\x1f\x8b" and random.random() < 0.7
        plain = gzip.decompress(raw) if inside else raw
        if random.random() < 0.2:
            made = plain
        elif plain.isascii() and random.random() < 0.85:
            made = changed_text(plain.decode("ascii"), random).encode("utf-8", "surrogateescape")
        else:
            made = changed_bytes(plain, random, make())
        return gzip.compress(made, mtime=0) if inside else made

    return drawn


_MATRIX = """        GPU0    GPU1    GPU2    GPU3    CPU Affinity    NUMA Affinity
GPU0     X      NV1     NV2     SYS     0-19    0
GPU1    NV1      X      PIX     PHB     0-19    0
GPU2    NV2     PIX      X      NODE    20-39   1
GPU3    SYS     PHB     NODE     X      20-39   1
"""
_LOG = """y: (MatMul): /job:localhost/replica:0/task:0/device:GPU:0
2021-01-01 00:00: I tensorflow/core/common_runtime/placer.cc:1] x: (Placeholder): /job:ps/replica:0/task:0/device:CPU:0
w: (VariableV2)/job:localhost/replica:0/task:0/device:CPU:0
"""  # fmt: skip

SORTS: Mapping[str, Callable[[Chance], bytes]] = {
    "GraphDef, binary": _message(GraphDef, any_graph, "graph"),
    "GraphDef, text": _text(GraphDef, any_graph, "graph"),
    "MetaGraph, binary": _message(MetaGraphDef, meta_graph_of, "meta graph"),
    "MetaGraph, text": _text(MetaGraphDef, meta_graph_of, "meta graph"),
    "SavedModel, binary": _message(SavedModel, saved_model_of, "saved model"),
    "SavedModel, text": _text(SavedModel, saved_model_of, "saved model"),
    "gzip": _zipped,
    "cluster, notation": _of_text(cluster_text),
    "cluster, TOML": _of_text(toml),
    "cluster, TF_CONFIG": _of_text(tf_config),
    "TF_CONFIG, environment": _of_text(tf_config),
    "cluster, nvidia-smi": _of_text(lambda random: _MATRIX),
    "costs, CSV": _of_text(costs_text),
    "costs, binary": _message(RunMetadata, lambda random: RunMetadata.FromString(seeds()["costs"][0]), "costs"),
    "costs, text": _text(RunMetadata, lambda random: RunMetadata.FromString(seeds()["costs"][0]), "costs"),
    "measured times": _spoilt(materials.times),
    "profile": _spoilt(materials.profiles),
    "observed step": _spoilt(materials.observed),
    "result": _spoilt(materials.results),
    "instance": _spoilt(materials.instances),
    "placement log": _of_text(lambda random: _LOG),
    LIBRARY: library_call,
    "numbers": lambda random: "\n".join(_numbered(random)).encode("utf-8", "surrogateescape"),
    "options": lambda random: "\n".join(option_list(random)).encode("utf-8", "surrogateescape"),
}
