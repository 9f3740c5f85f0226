"""Good files of every form that the command reads beside graphs and clusters: what the fuzzer changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache

from simulator.graph.graph_def import graph_def
from tests.costs.test_malformed import FILES, GRAPH
from tests.instances import test_dagbench, test_dnn_partitioning, test_wfcommons


def measured() -> Mapping[str, bytes]:
    """The graph of which times, profile, observed step and result are."""
    return {"measured": graph_def(GRAPH).SerializeToString()}


def times() -> Sequence[bytes]:
    """Measured times in each form."""
    return [content for form, (_, content) in FILES.items() if form not in ("profile", "observed")]


def profiles() -> Sequence[bytes]:
    """The profile of a machine."""
    return [FILES["profile"][1]]


def observed() -> Sequence[bytes]:
    """An observed step."""
    return [FILES["observed"][1]]


@cache
def results() -> Sequence[bytes]:
    """What `--json` wrote of the graph."""
    from viz import run

    return [run(GRAPH, cluster="cpu=2", algorithm=name).to_json().encode() for name in ("single", "heft")]


def instances() -> Sequence[bytes]:
    """Instances in each form."""
    documents = (
        test_dagbench.HAND,
        test_dnn_partitioning.HAND,
        test_wfcommons.HAND,
        test_wfcommons.older(test_wfcommons.HAND),
    )
    return [json.dumps(document).encode() for document in documents]


@cache
def beside() -> Mapping[str, bytes]:
    """A file of each form, by a name that a call may give."""
    return {
        "trace.json": FILES["trace"][1],
        "host.toml": FILES["profile"][1],
        "seen.observed": FILES["observed"][1],
        "result.json": results()[0],
        "instance.json": instances()[0],
        "cluster.toml": b'[[host]]\nname = "a"\ngpus = "2 a100"\n[[host]]\nname = "b"\n',
    }
