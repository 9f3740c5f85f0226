"""Reading of an instance from a file or from bytes; the content decides the form, never the name."""

from __future__ import annotations

import os

from simulator import limits
from simulator.errors import GraphError
from simulator.graph.sources import read_source, text_of
from simulator.instances.dagbench import is_dagbench, read_dagbench
from simulator.instances.dnn_partitioning import is_dnn_partitioning, read_dnn_partitioning
from simulator.instances.instance import Instance
from simulator.instances.recognising import looks_like_json, opens
from simulator.instances.wfcommons import is_wfcommons, read_wfcommons
from simulator.json_text import JsonError, parse_json
from simulator.units import show_bytes


def read_instance(source: object) -> Instance | None:
    """The instance of a file or of bytes, None where it is something else, such as a graph.

    Raises GraphError for JSON that is damaged, for an instance that is malformed, and for one that is too large.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        raw, label = bytes(source), "bytes in memory"
        if not opens(raw):
            return None
    elif isinstance(source, str | os.PathLike) and looks_like_json(source):
        raw, label = read_source(source)
    else:
        return None
    text = text_of(raw, label)
    if text is None:  # a binary graph may begin so
        return None
    limit = limits.INSTANCE_BYTES
    if len(raw) > limit.most:
        raise GraphError(f"{label} is larger than {show_bytes(limit.most)}, as no instance is; {limit.remedy}.")
    try:
        document = parse_json(text)
    except JsonError as error:
        raise GraphError(f"{label} begins as JSON, but {error}. Fetch it again.") from None
    if isinstance(document, dict) and is_dnn_partitioning(document):
        return read_dnn_partitioning(document, label)
    if isinstance(document, dict) and is_wfcommons(document):
        return read_wfcommons(document, label)
    if isinstance(document, dict) and is_dagbench(document):
        return read_dagbench(document, label)
    return None
