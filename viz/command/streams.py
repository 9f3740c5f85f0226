"""Streams and files of times that several runs need, one beside another or all of a bench: each is read once."""

from __future__ import annotations

from dataclasses import replace

from simulator.cluster.description import load_cluster
from simulator.costs.measurements.reading import read_measurement
from simulator.costs.profile import read_profile
from simulator.files import is_stream
from simulator.graph.importer import read_graph
from viz.command.request import Request


def read_once(request: Request) -> Request:
    """The request with the content of files of times and of a pipe: a run with a change needs it again.

    A graph or a cluster in a file keeps its name, by which it is told. Raise SimvizError for what can't be read.
    """
    graph, cluster = request.graph, request.cluster
    return replace(
        request,
        graph=read_graph(graph) if is_stream(graph) else graph,
        cluster=load_cluster(cluster) if cluster is not None and is_stream(cluster) else cluster,
        costs=tuple([read_measurement(one) for one in request.costs]),
        profile=None if request.profile is None else read_profile(request.profile),
    )
