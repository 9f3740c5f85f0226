"""Public values say what they are in a line, whatever their size; a result shows its report in a notebook."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selenium.webdriver.chrome.webdriver import WebDriver

from placement.plan import Plan
from simulator import prepare
from simulator.wording import repr_of
from tests.viz.browsing import complaints, said, until
from tests.viz.scenes import EXAMPLE, SCRIPT, hostile, trained
from viz import Result, run

LONGEST = 600  # a record of a few fields may be longer than a table


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
    long = [(type(value).__name__, len(repr(value))) for value in found if len(repr(value)) > LONGEST]
    assert long == []
    assert len(found) > 20
    assert all("\n" not in repr(value) for value in found)


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
    shown = as_result(hostile())._repr_html_()
    assert SCRIPT not in shown
    assert shown.count("<") == shown.count(">") == 4  # of the paragraph and the frame


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # selenium leaves its own sockets to the collector
def test_a_result_shows_its_report_in_a_notebook(browser: WebDriver, tmp_path: Path) -> None:
    result = run(str(EXAMPLE), cluster="ps=2,worker=1x2gpu", algorithm="whitepaper")
    page = tmp_path / "notebook.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><body>{result._repr_html_()}</body>", "utf-8", "replace")
    said(browser)
    browser.get(page.as_uri())
    assert "a step takes 11.5 ms" in browser.find_element("tag name", "p").text
    browser.switch_to.frame(browser.find_element("tag name", "iframe"))
    until(lambda: browser.execute_script("return document.documentElement.dataset.ready"), "the frame")
    assert browser.execute_script("return simviz.model.count") == len(result.graph)
    assert browser.execute_script("return document.getElementById('graph').clientHeight") > 150
    browser.execute_script("simviz.state.select({kind: 'node', id: 3})")
    browser.switch_to.default_content()
    assert complaints(browser) == []
