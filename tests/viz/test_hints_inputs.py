"""A single step finds its inputs ready; a note says where steps in a row would wait for them."""

from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.chrome.webdriver import WebDriver

from tests.training.inputs.graphs import iterating, reading
from tests.viz.browsing import complaints, opened, settled
from tests.viz.scenes import EXAMPLE
from viz.command.library import run
from viz.scene import Scene

SLOW_NS = 5_000_000


def told(scene: Scene) -> list[str]:
    return [note for note in scene.notes if "later steps wait" in note]


def measured(folder: Path, make_ns: int, work_ns: int) -> str:
    (folder / "times.csv").write_text(f"node,kind,ns\nmake,CPU,{make_ns}\nwork,CPU,{work_ns}\n")
    return str(folder / "times.csv")


@pytest.mark.parametrize(("make_ns", "work_ns", "said"), [(SLOW_NS, 1000, True), (1000, 5 * SLOW_NS, False)])
@pytest.mark.parametrize("cluster", ["1cpu", "2cpu", "ps=1,worker=1"])
def test_the_note_is_there_where_a_training_would_wait(
    cluster: str, make_ns: int, work_ns: int, said: bool, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"cluster": cluster, "costs": measured(tmp_path, make_ns, work_ns), "fetches": "work"}
    graph = reading(batch=4).built(queue_runners=("add",) * 2)
    notes = told(run(graph, **options))
    assert len(notes) == said
    if said:  # two threads, each SLOW_NS its session, Const and enqueue for an example
        assert notes[0].startswith("queue examples makes 397.6 elements/s; Identity 99% of its work.")
        assert "A step takes 4 elements, which need 10.1 ms." in notes[0]
        assert notes[0] in run(graph, **options).summary(verbose=True)


def test_an_input_that_nobody_knows_is_passed_over() -> None:
    assert not told(run(iterating().built(), cluster="1cpu", fetches="work"))


HEARD = """(() => {
  window.heard = [];
  const draw = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
    window.heard.push([text, this.fillStyle]);
    return draw.call(this, text, ...at);
  };
  document.getElementById("steps-first").click();
})()"""


@pytest.mark.parametrize(("rate", "pale"), [("none", False), ("feed=50/s", True)])
def test_a_step_that_waits_for_input_has_its_number_in_plain_ink(
    rate: str, pale: bool, browser: WebDriver, tmp_path: Path
) -> None:
    scene = run(str(EXAMPLE), cluster="ps=2,worker=2x1gpu", training="async", inputs=rate, steps=6)
    page = opened(browser, tmp_path, scene)
    page(HEARD)
    settled(browser)
    ink = page("getComputedStyle(document.documentElement).getPropertyValue('--ink')")
    inks = {colour for text, colour in page("window.heard") if text == "1"}
    assert inks
    assert (inks == {ink}) == pale
    assert not complaints(browser)
