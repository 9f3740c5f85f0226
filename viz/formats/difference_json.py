"""A comparison of runs as JSON, as docs/json.md describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from viz.difference.difference import Difference
from viz.difference.outline import PathPart


def path_record(path: Sequence[PathPart]) -> list[Mapping[str, Any]]:
    """The critical path by subject. Any: JSON."""
    return [
        {"kind": part.kind, "subject": part.subject, "place": part.place, "times": part.times, "ns": part.ns}
        for part in path
    ]


def difference_record(found: Difference) -> Mapping[str, Any]:
    """What differs between another run and this one. Any: JSON."""
    return {
        "name": found.names[0],
        "makespan_ns": _pair(found.makespan_ns),
        "nodes": found.nodes,
        "nodes_alone": _pair(found.alone),
        "moved": [{"node": one.node, **_pair(one.devices), "runs": one.runs} for one in found.moved],
        "crossings": [
            {"tensor": one.tensor, "times": _pair(one.times), "bytes": _pair(one.nbytes)} for one in found.crossings
        ],
        "links": {one.link: _pair(one.nbytes) for one in found.links},
        "devices": {
            one.device: {"peak_bytes": _pair(one.peak_bytes), "busy_ns": _pair(one.busy_ns)} for one in found.devices
        },
        "explanation": [
            {
                "sentence": part.sentence,
                "difference_ns": part.difference_ns,
                "ns": _pair(part.ns),
                "rows": [
                    {
                        "kind": row.kind,
                        "subject": row.subject,
                        "place": _pair(tuple(place or None for place in row.places)),
                        "times": _pair(row.times),
                        "ns": _pair(row.ns),
                    }
                    for row in part.rows
                ],
            }
            for part in found.parts
        ],
    }


def _pair(values: Sequence[object]) -> Mapping[str, Any]:
    return dict(zip(("other", "this"), values, strict=True))
