"""Load a graph from any source: GraphDef, MetaGraph or SavedModel, binary or text, in a file or in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import text_format

from simulator.graph import messages
from simulator.graph.building import build
from simulator.graph.graph import Graph


def load(source: Any) -> Graph:
    """First version: binary and text GraphDef."""
    raw = Path(source).read_bytes()
    definition = messages.GraphDef()
    try:
        definition.ParseFromString(raw)
    except Exception:
        meta = messages.MetaGraphDef()
        try:
            meta.ParseFromString(raw)
            definition = meta.graph_def
        except Exception:
            text_format.Parse(raw.decode(), definition)
    return from_graph_def(definition, source=str(source))


def from_graph_def(definition: Any, **rest: Any) -> Graph:
    nodes = definition.node
    return build(
        [n.name for n in nodes], [n.op for n in nodes], [n.device for n in nodes], [tuple(n.input) for n in nodes],
        [dict(n.attr) for n in nodes],
        library={f.signature.name: f for f in definition.library.function},
        gradients={g.function_name: g.gradient_func for g in definition.library.gradient},
        producer=definition.versions.producer, min_consumer=definition.versions.min_consumer, **rest,
    )
