"""What if, in Chromium: a tornado plot, and a table that can be sorted."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from selenium.webdriver.chrome.webdriver import WebDriver

from tests.shapes.test_unknown import a_training
from tests.strategies import Rows, shapes_attr, type_attr
from tests.viz.browsing import beyond, complaints, opened
from tests.viz.scenes import EXAMPLE, example, renamed
from viz import run as library_run
from viz.command.cli import main
from viz.command.request import Request
from viz.command.running import run
from viz.what_if import LEAST_SHARE

CLUSTER = "ps=2,worker=1x2gpu"
pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def test_the_plot_has_a_bar_per_change_and_the_table_is_sorted_by_a_click(browser: WebDriver, tmp_path: Path) -> None:
    scene = run(Request(str(EXAMPLE), cluster="ps=2,worker=1x2gpu", batch=512, what_if="kept"))
    assert scene.what_if is not None
    page = opened(browser, tmp_path, scene)
    card = "[...document.querySelectorAll('.card')].find((one) => one.querySelector('h3')?.textContent === 'What if')"
    plot = f"{card}.querySelector('svg')"
    written = page(f"[...{plot}.querySelectorAll('text')].map((one) => one.textContent)")
    named = [one.replace("\u00a0", " ").replace("µs", "us") for one in written]
    assert any("\u00a0µs" in one for one in written)
    seen = {row.figure for row in scene.what_if.rows if row.change and abs(row.change) >= LEAST_SHARE}
    assert seen < {row.figure for row in scene.what_if.rows if row.change}
    figures = list(dict.fromkeys(f"{row.what} ({row.before})" for row in scene.what_if.rows if row.figure in seen))
    assert not any("±0" in one for one in written)
    assert [one for one in figures if one in named] == figures[:12]
    widths = page(
        f"[...{plot}.querySelectorAll('rect')].map((one) => [one.getAttribute('class'), one.width.baseVal.value])"
    )
    changes = [row.change for row in scene.what_if.rows if row.change and f"{row.what} ({row.before})" in figures[:12]]
    assert sorted(kind for kind, _ in widths) == sorted("gain" if change < 0 else "loss" for change in changes)
    spans = f"{plot}.viewBox.baseVal.width"
    assert max(width for _, width in widths) <= page(spans)
    steps = f"[...{card}.querySelectorAll('tbody tr td:nth-child(2)')].map((one) => one.textContent)"
    before = page(steps)
    assert len(before) == len(scene.what_if.rows)
    page(f"{card}.querySelector('th:nth-child(3)').click()")
    signs = page(f"[...{card}.querySelectorAll('tbody tr td:nth-child(3)')].map((one) => one.textContent)")
    assert signs[0] == "refused"  # what can't be run is the longest
    assert signs[1].startswith("+")
    assert signs[-1].startswith("−")
    assert page("document.querySelector('.elsewhere') === null")
    page("simviz.state.select({kind: 'node', id: 3})")
    assert page("document.querySelector('.elsewhere') === null")  # nobody gave a command that makes the run again
    assert complaints(browser) == []


def test_a_scope_has_the_command_that_runs_it_elsewhere(browser: WebDriver, tmp_path: Path) -> None:
    result = library_run(str(EXAMPLE), cluster=CLUSTER, algorithm="heft", contention="fair")
    page = opened(browser, tmp_path, result)
    page("simviz.state.select({kind: 'node', id: simviz.model.nodes.names.indexOf('conv1/Conv2D')})")
    shown = "document.querySelector('.elsewhere code').textContent"
    assert "--pin=conv1/Conv2D=" in page(shown)
    page("simviz.state.select({kind: 'scope', id: simviz.model.tree.labels.indexOf('conv1')})")
    chosen = "document.querySelector('.elsewhere select')"
    page(f"{chosen}.selectedIndex = 4, {chosen}.dispatchEvent(new Event('change'))")
    assert page(shown) == f"{result.command} --pin=conv1=worker:0/GPU:1 --against=unpinned"
    words = shlex.split(page(shown))
    assert main([*words[1:], "--quiet", "--json", str(tmp_path / "moved.json")]) == 0
    moved = json.loads((tmp_path / "moved.json").read_text())
    assert moved["against"]["name"] == "unpinned"
    name = "it's $(here) \\ now"
    page = opened(browser, tmp_path, replace(renamed(example(), (name, "b")), command="simviz g"))
    page(f"simviz.state.select({{kind: 'node', id: simviz.model.nodes.names.indexOf({json.dumps(name)})}})")
    assert shlex.split(page(shown))[2].startswith(f"--pin={name}=")
    assert complaints(browser) == []


def test_bounds_are_marked_where_sizes_are_unknown(browser: WebDriver, tmp_path: Path) -> None:
    """The step had its mark, the rates of a training and what moves had none."""
    figures = "[...document.querySelectorAll('#figures dd')].map((one) => one.textContent)"
    title = "document.querySelector('#figures > div').title"
    cure = "It counts nothing; it becomes known by --feed gradient:0=64"
    page = opened(browser, tmp_path, library_run(a_training(), cluster="ps=1,worker=2", what_if=True))
    makespan, _, moved, memory = page(figures)
    assert [one[:2] for one in (makespan, moved, memory)] == ["≥ "] * 3
    assert page(title).endswith(f"last end. {cure}")
    assert cure in page("document.getElementById('panel').textContent")
    card = "[...document.querySelectorAll('.card')].find((one) => one.textContent.startsWith('Devices'))"
    rows = page(f"[...{card}.querySelectorAll('tbody tr')].map((row) => row.lastElementChild.textContent.trim())")
    assert "0 B" in rows  # of a device that does nothing
    assert any(one.startswith("≥ ") for one in rows)
    assert "≥ 0 B" not in rows
    trained = library_run(a_training(), cluster="ps=1,worker=2", training="async", steps=4, workers=(1, 2))
    page = opened(browser, tmp_path, trained)
    steps, examples, median, *_ = page(figures)
    assert [one[:2] for one in (steps, examples, median)] == ["≤ ", "≤ ", "≥ "]
    assert page(title).endswith(f"after the warm-up. {cure}")
    rows = "[...document.querySelectorAll('#training-charts td:nth-child(2)')].map((one) => one.textContent)"
    assert sum(one.startswith("≤ ") for one in page(rows)) == 2
    assert not complaints(browser)


def test_changes_of_nothing_are_whole(browser: WebDriver, tmp_path: Path) -> None:
    """On a phone "±0 %" was cut, as a sign and a percent are wider than digits."""
    made = Rows()
    made.add("two", "Const", dtype=type_attr(), _output_shapes=shapes_attr(()))
    opened(browser, tmp_path, library_run(made.built(), cluster="1cpu", what_if=True))
    assert beyond(browser, 390, 844) == []
