"""Public values say what they are in a line, whatever their size; a result shows its report in a notebook."""

import copy
import gc
import html
import pickle
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selenium.webdriver.chrome.webdriver import WebDriver

from placement.plan import Plan
from simulator import Graph, load, load_cluster, pipeline, prepare
from simulator.graph.messages import GraphDef
from simulator.training.programs.program import Program
from simulator.wording import repr_of
from tests.viz.browsing import complaints, said, until
from tests.viz.notebooks import cells
from tests.viz.scenes import EXAMPLE, SCRIPT, example, hostile, trained
from viz import Result, compare, run
from viz.difference.scene_outline import outline
from viz.formats.json_object import to_json

NOTEBOOK = EXAMPLE.with_name("in_a_notebook.ipynb")

LONGEST = 300


def values(value: object, seen: dict[type, object]) -> Iterator[object]:
    """One value of each kind of dataclass of simviz that a value holds."""
    if is_dataclass(value) and not isinstance(value, type):
        if type(value) not in seen:
            seen[type(value)] = value
            yield value
            for part in fields(value):
                yield from values(getattr(value, part.name), seen)
    elif isinstance(value, tuple | list):
        yield from (one for part in value[:3] for one in values(part, seen))


def test_every_value_of_a_run_says_itself_in_a_line() -> None:
    scene = trained()
    found = list(values(scene, {}))
    found.append(prepare(scene.graph, scene.step, scene.cluster, scene.costs))
    found.append(Plan([0] * 1000))
    found += values(compare(example(), run(str(EXAMPLE), cluster="ps=2,worker=1x2gpu", algorithm="single")), {})
    found += [replace(value, graph=deep(value.graph)) for value in found if isinstance(value, Program)]
    long = [(type(value).__name__, len(repr(value))) for value in found if len(repr(value)) > LONGEST]
    assert long == []
    assert len(found) > 20
    assert all("\n" not in repr(value) for value in found)


def test_a_run_with_its_training_can_be_pickled_and_copied() -> None:
    for scene in (trained(), example()):
        said_before = to_json(scene)
        for made in (pickle.loads(pickle.dumps(scene)), copy.deepcopy(scene)):
            assert (repr(made), to_json(made)) == (repr(scene), said_before)


def test_a_graph_with_added_nodes_can_be_pickled_and_copied() -> None:
    made = pipeline(load(EXAMPLE, ignore_devices=True), load_cluster("2gpu"), microbatches=2).graph
    for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert (again.names, again.attrs) == (made.names, made.attrs)


def deep(graph: Graph) -> Graph:
    """The graph as if its file lay in a folder of a very long path."""
    return replace(graph, source="/folder" * 100 + "/graph.pbtxt")


def test_a_repr_has_the_figures_that_matter() -> None:
    scene = trained()
    assert repr(scene.graph).startswith("<Graph: 224 nodes, 316 edges, 187 tensors")
    assert "fetches train" in repr(scene.step)
    assert scene.cluster.name in repr(scene.cluster)
    assert "updates in" in repr(scene.training and scene.training.training)


@given(st.lists(st.text(), max_size=4))
def test_no_text_breaks_the_line(facts: list[str]) -> None:
    shown = repr_of(object(), *facts)
    assert shown.isprintable()
    assert len(shown) <= 20 + 84 * max(1, len(facts))


def as_result(scene: object) -> Result:
    return Result(**{part.name: getattr(scene, part.name) for part in fields(Result)})


def test_hostile_names_stay_text_in_a_notebook() -> None:
    drawn = shown(as_result(hostile()))
    assert SCRIPT not in drawn
    assert drawn.count("<") == drawn.count(">") == 4  # of the paragraph and the frame


def test_each_cell_of_the_notebook_shows_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)
    for cell, printed, value in cells(NOTEBOOK):
        saved: dict[str, str] = {}
        for one in cell["outputs"]:
            saved[one["output_type"]] = "".join(one["text"] if "text" in one else one["data"]["text/plain"])
        assert saved.get("stream", "") == printed
        assert saved.get("execute_result") == (None if value is None else repr(value))


def shown(value: object) -> str:
    html = value._repr_html_()  # type: ignore[attr-defined]  # as a notebook calls it
    assert isinstance(html, str)
    return html


def test_parts_of_a_result_are_shown_by_its_page_and_others_by_a_sentence() -> None:
    result = as_result(trained())
    assert result.training is not None
    for part in (result.graph, result.assignment, result.trace, result.training, result.training.training):
        assert shown(part).count("<iframe") == 1
        assert html.escape(repr(result)) in shown(part)
    alone = replace(result.trace)  # equal, but of no run
    assert shown(alone).startswith(f"<p>{html.escape(repr(alone))}.")
    assert "<iframe" not in shown(alone)


def test_what_forgets_its_run_says_so() -> None:
    assignment = replace(example().assignment)
    result = as_result(replace(example(), assignment=assignment))
    assert "<iframe" in shown(assignment)
    del result
    gc.collect()
    assert "<iframe" not in shown(assignment)


def test_a_graph_that_cannot_be_placed_says_why() -> None:
    nodes = GraphDef()
    nodes.node.add(name="a", op="Const").attr["dtype"].type = 1
    nodes.node.add(name="b", op="NoSuchOp")
    assert "be drawn" in shown(load(nodes))


def test_a_difference_from_an_earlier_result_is_shown_in_sentences() -> None:
    found = compare(outline(example()), example())
    assert "<iframe" not in shown(found)
    assert html.escape(str(found).splitlines()[0]) in shown(found)
    assert "<iframe" in shown(compare(example(), example()))


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # selenium leaves its own sockets to the collector
def test_values_are_drawn_in_a_notebook(browser: WebDriver, tmp_path: Path) -> None:
    graph = load(str(EXAMPLE))
    on = "ps=2,worker=1x2gpu,protocol=rdma"
    result, other = (run(graph, cluster=on, algorithm=name) for name in ("whitepaper", "single"))
    trains = as_result(trained())  # kept
    page = tmp_path / "notebook.html"
    outputs = "".join(map(shown, (load(str(EXAMPLE)), result, compare(other, result), trains.training)))
    page.write_text(f"<!doctype html><meta charset=utf-8><body>{outputs}</body>", "utf-8", "replace")
    said(browser)
    browser.get(page.as_uri())
    assert "a step takes 9.12 ms" in browser.find_elements("tag name", "p")[1].text
    for number, asked in enumerate(
        ("against === null", "count > 0", "against.names[0] === 'single'", "training !== null")
    ):
        browser.switch_to.frame(browser.find_elements("tag name", "iframe")[number])
        until(lambda: browser.execute_script("return document.documentElement.dataset.ready"), "the frame")
        assert browser.execute_script("return simviz.model." + asked)
        drawn = "document.getElementById('graph').clientHeight > 150 || simviz.model.training !== null"
        until(lambda: browser.execute_script("return " + drawn), "the picture")  # noqa: B023  # called at once
        browser.execute_script("simviz.state.select({kind: 'node', id: 3})")
        browser.switch_to.default_content()
    assert complaints(browser) == []
