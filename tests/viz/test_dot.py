"""The folded graph in DOT: what Graphviz reads back is what was meant, whatever the names are."""

import re
from pathlib import Path

import pytest

from simulator.errors import SimvizError
from tests.strategies import Rows, shapes_attr, type_attr
from tests.viz.scenes import HOSTILE, example, hostile
from viz import draw_graph, run
from viz.figures import moved_bytes, taking_part
from viz.formats.dot import quoted, render
from viz.palette import device_colour

NODE = re.compile(r"^\s*(i\d+) \[label=", re.MULTILINE)


@pytest.mark.parametrize("most", [5, 20, 60, 1000])
def test_no_more_boxes_than_asked_for(most: int) -> None:
    boxes = NODE.findall(draw_graph(example(), max_nodes=most))
    top = len(NODE.findall(draw_graph(example(), max_nodes=0)))
    assert len(boxes) == len(set(boxes)) <= max(most, top)


def test_opened_wide_it_shows_every_node_that_runs_or_is_fed() -> None:
    scene = example()
    assert len(NODE.findall(draw_graph(scene, max_nodes=10**6))) == int(taking_part(scene).sum())


def test_what_crosses_is_labelled_with_all_its_transfers() -> None:
    scene = example()
    source = draw_graph(scene, max_nodes=10**6)
    crossing = re.findall(r'-> i\d+ \[.*label="([^"]*)", color="(#[0-9a-f]{6})"', source)
    assert len(crossing) >= len(scene.trace.transfers.row)
    assert {colour for _, colour in crossing} <= {device_colour(row) for row in range(len(scene.cluster))}
    assert moved_bytes(scene) > 0


def test_devices_are_clusters_in_their_task() -> None:
    source = draw_graph(example())
    for label in ("/job:ps/replica:0/task:0", "ps:0/CPU:0", "worker:0/GPU:0"):
        assert f"label={quoted(label)}" in source


def test_scopes_of_one_name_are_told_apart() -> None:
    """Of two towers both boxes said "dense", as no box stands for a tower that is opened."""
    made = Rows()
    for scope in ("tower_0/dense", "tower_1/dense"):
        for op in ("a", "b"):
            made.add(f"{scope}/{op}", "Const", dtype=type_attr(), _output_shapes=shapes_attr(()))
        made.add(f"{scope[:7]}/c", "Const", dtype=type_attr(), _output_shapes=shapes_attr(()))
    drawn = draw_graph(run(made.built(), cluster="1cpu"), max_nodes=4)
    assert [drawn.count(f'"{tower}/dense\\n') for tower in ("tower_0", "tower_1")] == [1, 1]


def test_boxes_on_several_devices_show_each() -> None:
    assert 'style="striped"' in draw_graph(example(), max_nodes=0)


@pytest.mark.parametrize("text", [*HOSTILE, "a\\", 'a"b', "\\N", "{x|y}", "tab\t\0nul"])
def test_quoting_ends_where_it_should(text: str) -> None:
    written = quoted(text)
    assert re.fullmatch(r'"(?:[^"\\]|\\.)*"', written)
    assert "\n" not in written
    assert "\0" not in written


@pytest.mark.graphviz
def test_graphviz_draws_hostile_names_without_a_word() -> None:
    for scene in (hostile(), example()):
        drawn = render(draw_graph(scene, max_nodes=200), "svg").decode()
        assert drawn.startswith("<?xml")
        assert "<script" not in drawn


@pytest.mark.graphviz
@pytest.mark.parametrize(("format", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_every_format(format: str, magic: bytes) -> None:
    assert render(draw_graph(example()), format).startswith(magic)


def test_a_missing_dot_is_said_with_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SimvizError, match=r"Install it .*or write \.dot or \.html"):
        render("digraph {}", "svg")


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(SimvizError, match="svg, png, pdf"):
        render("digraph {}", "gif")


@pytest.mark.graphviz
def test_what_graphviz_refuses_is_told() -> None:
    with pytest.raises(SimvizError, match="failed: Error"):
        render("digraph { a -> ", "svg")


def test_of_too_many_edges_those_that_move_most_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = example()
    whole = re.findall(r"^  (i\d+ -> i\d+)", draw_graph(scene, max_nodes=10**6), re.MULTILINE)
    monkeypatch.setattr("viz.formats.dot.MAX_EDGES", 5)
    source = draw_graph(scene, max_nodes=10**6)
    kept = re.findall(r"^  (i\d+ -> i\d+) .*color=", source, re.MULTILINE)
    assert len(kept) == 5
    assert set(kept) <= set(whole)
    assert f"{len(whole) - 5} edges with least bytes left out" in source
