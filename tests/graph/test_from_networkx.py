import networkx as nx
import pytest
from hypothesis import given

from simulator.errors import GraphError
from simulator.graph.building import from_networkx
from simulator.graph.graph import Graph
from simulator.graph.graph_def import graph_def
from tests.strategies import DEVICES, Rows, graphs, loop, typed


@given(graphs(devices=DEVICES, colocations=True))
def test_there_and_back_is_the_same_graph(graph: Graph) -> None:
    again = from_networkx(graph.to_networkx())
    assert graph_def(again) == graph_def(graph)
    assert again.tensor_bytes.tolist() == graph.tensor_bytes.tolist()


def test_edges_say_what_they_carry() -> None:
    made = Rows()
    made.add("a", "Const", **typed("Const", (2, 3)))
    made.add("b", "Identity", ["a", "^a"], **typed("Identity", (2, 3)))
    edges = list(made.built().to_networkx().edges(data=True))
    assert edges == [
        ("a", "b", {"tensor": "a:0", "slot": 0, "nbytes": 24, "back": False}),
        ("a", "b", {"tensor": None, "slot": 1, "nbytes": 0, "back": False}),
    ]


def test_a_loops_back_edge_is_marked() -> None:
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder"))
    loop(made, start="x")
    made = made.built().to_networkx()
    assert [edge[:2] for edge in made.edges(data="back") if edge[2]] == [("while/NextIteration", "while/Merge")]
    assert nx.is_directed_acyclic_graph(nx.DiGraph((u, v) for u, v, back in made.edges(data="back") if not back))


def test_a_bare_digraph_becomes_a_graph() -> None:
    graph = from_networkx(nx.DiGraph([("a", "b"), ("a", "c"), ("b", "c")]))
    assert graph.ops == ("Unknown", "Unknown", "NoOp")
    assert graph.inputs_of(2) == ("a", "b")


def test_a_missing_source_is_refused_like_in_a_file() -> None:
    made = nx.DiGraph()
    made.add_edge("a", "b", tensor="c:0")
    with pytest.raises(GraphError, match="'b' takes its input from 'c'"):
        from_networkx(made)


def test_an_undirected_graph_is_refused() -> None:
    with pytest.raises(GraphError, match="directed"):
        from_networkx(nx.Graph([("a", "b")]))
