"""A graph while it is being rewritten: rows that are added and replaced, until `finish` makes a Graph of what is left.

A replaced node stays as a row, together with what stands in for each of its outputs and for its completion; readers
are pointed there when they are asked for, so that no list of readers has to be kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from simulator.errors import GraphError
from simulator.graph import ops
from simulator.graph.building import build
from simulator.graph.dtypes import base
from simulator.graph.graph import Attrs, Graph
from simulator.graph.inlining.bodies import Endpoint
from simulator.graph.messages import AttrValue, Proto, TensorShapeProto
from simulator.graph.tensors import SHAPES

MAX_NODES = 1_000_000  # of an expanded graph: fifty times the largest that people look at
MAX_DEPTH = 100  # calls within calls; a name grows by one part with each
COLOCATION = "_class"
NO_ATTRS: Attrs = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Call:
    """The chain of function calls from which a node came, innermost first."""

    function: str
    caller: Call | None
    depth: int

    def calls(self, function: str) -> bool:
        """Whether that function stands in the chain."""
        at: Call | None = self
        while at is not None:
            if at.function == function:
                return True
            at = at.caller
        return False


@dataclass(slots=True)
class Draft:
    """Columns of a graph in the making; a row is never removed, only replaced."""

    names: list[str]
    ops: list[str]
    devices: list[str]
    inputs: list[list[Endpoint]]  # data inputs
    controls: list[list[int]]  # control inputs
    attrs: list[Attrs]
    call: list[Call | None]  # the call that made the node; None: it is in the file
    library: Mapping[str, Proto]
    source: str
    taken: set[str]  # names in use; only asked for membership
    outputs_of: dict[int, Sequence[Endpoint]] = field(default_factory=dict)  # replaced row -> per port what stands in
    done_of: dict[int, int] = field(default_factory=dict)  # replaced row -> what stands in for its completion
    counter: int = 0  # the next number of TensorFlow's Graph::NewName

    def fresh(self, prefix: str) -> str:
        """A new name in TensorFlow's manner, "prefix/_7"; numbers whose name is taken are passed over."""
        while True:
            name = f"{prefix}/_{self.counter}"
            self.counter += 1
            if name not in self.taken:
                return name

    def add(
        self,
        name: str,
        op: str,
        inputs: Sequence[Endpoint] = (),
        controls: Sequence[int] = (),
        attrs: Attrs = NO_ATTRS,
        *,
        device: str = "",
        call: Call | None = None,
    ) -> int:
        """Append a node and return its row."""
        row = len(self.names)
        if row >= MAX_NODES:
            raise GraphError(
                f"{self.source}: with its functions expanded the graph has more than {MAX_NODES:,} nodes; keep the "
                f"calls. {name!r} was to be the next.",
                node=name,
            )
        self.taken.add(name)
        self.names.append(name)
        self.ops.append(op)
        self.devices.append(device)
        self.inputs.append(list(inputs))
        self.controls.append(list(controls))
        self.attrs.append(attrs)
        self.call.append(call)
        return row

    def replace(self, row: int, outputs: Sequence[Endpoint], done: int) -> None:
        """Let readers of a node's outputs read `outputs` instead, and those that wait for it wait for `done`."""
        self.outputs_of[row] = outputs
        self.done_of[row] = done

    def endpoint(self, at: Endpoint) -> Endpoint:
        """What an output is now, after replacements."""
        while at[0] in self.outputs_of:
            stand_ins = self.outputs_of[at[0]]
            if at[1] >= len(stand_ins):
                name = self.names[at[0]]
                raise GraphError(f"{self.source}: {name!r} has no output {at[1]}; its function gives {len(stand_ins)}.")
            at = stand_ins[at[1]]
        return at

    def completion(self, row: int) -> int:
        """What a control input is now, after replacements."""
        while row in self.done_of:
            row = self.done_of[row]
        return row

    def dtype(self, at: Endpoint) -> int:
        """DataType of an output, without the mark of a reference; 0 where unknown."""
        types = ops.outputs(self.ops[at[0]], self.attrs[at[0]], self.library)
        return base(types[at[1]]) if types and at[1] < len(types) else 0

    def shape(self, at: Endpoint) -> Proto | None:
        """The TensorShapeProto that the file gives for an output, if it gives one."""
        listed = self.attrs[at[0]].get(SHAPES)
        return listed.list.shape[at[1]] if listed is not None and at[1] < len(listed.list.shape) else None


SCALAR = TensorShapeProto()
_UNKNOWN = TensorShapeProto(unknown_rank=True)


def shaped(shapes: Sequence[Proto | None]) -> Attrs:
    """The attribute that says those shapes of a node's outputs; none when all are unknown."""
    if not any(shape is not None for shape in shapes):
        return NO_ATTRS
    made = AttrValue()
    made.list.shape.extend(_UNKNOWN if shape is None else shape for shape in shapes)
    return {SHAPES: made}


def declared_shapes(attrs: Attrs, count: int) -> list[Proto | None]:
    """The shapes that an If, Case or While declares for its outputs; TensorFlow's `output_shapes` may be empty."""
    for key in ("output_shapes", SHAPES):
        listed = attrs.get(key)
        if listed is not None and len(listed.list.shape) == count:
            return list(listed.list.shape)
    return [None] * count


@lru_cache(maxsize=4096)
def typed(dtype: int) -> Attrs:
    """The attribute T of a node that has one type; none where it is unknown."""
    return {"T": AttrValue(type=dtype)} if dtype else NO_ATTRS


@lru_cache(maxsize=4096)
def number(value: int) -> Proto:
    """An AttrValue that holds an integer."""
    return AttrValue(i=value)


def texts(values: Sequence[str]) -> Proto:
    """An AttrValue that holds a list of strings."""
    made = AttrValue()
    made.list.s.extend(value.encode() for value in values)
    return made


def types(values: Sequence[int]) -> Proto:
    """An AttrValue that holds a list of types."""
    made = AttrValue()
    made.list.type.extend(values)
    return made


def beside(name: str) -> Proto:
    """The AttrValue of `_class` that colocates a node with the one of that name."""
    return texts([f"loc:@{name}"])


def draft_of(graph: Graph) -> Draft:
    """A draft with the graph's nodes as its first rows."""
    inputs: list[list[Endpoint]] = [[] for _ in graph.names]
    controls: list[list[int]] = [[] for _ in graph.names]
    ports = graph.tensor_port.tolist()
    for src, dst, tensor in zip(
        graph.edge_src.tolist(), graph.edge_dst.tolist(), graph.edge_tensor.tolist(), strict=True
    ):
        if tensor < 0:
            controls[dst].append(src)
        else:
            inputs[dst].append((src, ports[tensor]))
    return Draft(
        list(graph.names),
        list(graph.ops),
        list(graph.requested),
        inputs,
        controls,
        list(graph.attrs),
        [None] * len(graph),
        graph.library,
        graph.source,
        set(graph.names),
    )


def finish(draft: Draft, graph: Graph, library: Mapping[str, Proto], notes: Sequence[str]) -> Graph:
    """Make a Graph of the rows that are left, in the order in which they were made; the rest is as in `graph`."""
    rows = [row for row in range(len(draft.names)) if row not in draft.done_of]
    names = draft.names
    written = []
    for row in rows:
        data = [draft.endpoint(at) for at in draft.inputs[row]]
        texts = [f"{names[src]}:{port}" if port else names[src] for src, port in data]
        waits = dict.fromkeys(draft.completion(src) for src in draft.controls[row])
        written.append(texts + ["^" + names[src] for src in waits])
    return build(
        [names[row] for row in rows],
        [draft.ops[row] for row in rows],
        [draft.devices[row] for row in rows],
        written,
        [draft.attrs[row] for row in rows],
        library=library,
        gradients={name: other for name, other in graph.gradients.items() if name in library},
        producer=graph.producer,
        min_consumer=graph.min_consumer,
        signatures=graph.signatures,
        train_ops=graph.train_ops,
        ends=graph.ends or [graph.names[row] for row in np.flatnonzero(np.diff(graph.out_ptr) == 0).tolist()],
        source=graph.source,
        notes=(*graph.notes, *notes),
    )
