from hypothesis import given
from hypothesis import strategies as st

from simulator.graph.graph import Graph
from simulator.graph.traversal import fan_in, fan_out, loop_depths, sinks
from tests.strategies import Rows, graphs, loop, typed


@given(graphs(max_nodes=15), st.data())
def test_fan_in_is_what_reachability_says(graph: Graph, data: st.DataObject) -> None:
    target = data.draw(st.integers(0, len(graph) - 1))
    needed: set[int] = {target}
    before: set[int] = set()
    while needed != before:
        before = set(needed)
        needed |= {
            source
            for source, reader in zip(graph.edge_src.tolist(), graph.edge_dst.tolist(), strict=True)
            if reader in before
        }
    assert set(fan_in(graph, [target]).nonzero()[0].tolist()) == needed


@given(graphs(max_nodes=15), st.data())
def test_fan_out_is_fan_in_seen_from_the_other_end(graph: Graph, data: st.DataObject) -> None:
    source = data.draw(st.integers(0, len(graph) - 1))
    assert fan_out(graph, [source]) == [row for row in range(len(graph)) if fan_in(graph, [row])[source]]


@given(graphs())
def test_the_sinks_need_everything_together(graph: Graph) -> None:
    ends = sinks(graph)
    assert fan_in(graph, ends).all()
    assert all(fan_out(graph, [row]) == [row] for row in ends)


def test_a_loop_in_a_loop_is_twice_as_deep() -> None:
    made = Rows()
    made.add("x", "Const", **typed("Const"))
    made.add("after", "Neg", [loop(made, start="x")], **typed("Neg"))
    inner = loop(made, prefix="inner", start="while/Neg")
    made.inputs[made.names.index("while/NextIteration")] = [inner]
    graph = made.built()
    depth = dict(zip(graph.names, loop_depths(graph), strict=True))
    assert {depth[name] for name in ("x", "while/Exit", "after")} == {0}
    assert {
        depth[name] for name in ("while/Enter", "while/limit", "while/Neg", "inner/Exit", "while/NextIteration")
    } == {1}
    assert {depth[name] for name in ("inner/Enter", "inner/limit", "inner/Neg", "inner/NextIteration")} == {2}
