"""A case as a text file: its facts in JSON, as a comment, then its GraphDef; any reader of GraphDefs takes it."""

from __future__ import annotations

import json

from google.protobuf import text_format

from simulator.graph.graph_def import graph_def, to_text
from simulator.graph.importer import read_graph
from simulator.graph.messages import GraphDef
from tests.difference.cases import Case


def written(case: Case) -> str:
    """The text of a case."""
    facts = {
        "cluster": case.notation,
        "master": case.master,
        "soft": case.soft,
        "feeds": case.feeds,
        "fetches": case.fetches,
        "sorts": case.sorts,
    }
    return f"# {json.dumps(facts)}\n{to_text(graph_def(case.given))}"


def read(text: str) -> Case:
    """The case of such a text."""
    head, _, body = text.partition("\n")
    facts = json.loads(head.removeprefix("# "))
    lists = {key: tuple(facts[key]) for key in ("feeds", "fetches", "sorts")}
    graph = read_graph(text_format.Parse(body, GraphDef()))
    return Case(given=graph, notation=facts["cluster"], master=facts["master"], soft=facts["soft"], **lists)
