"""Two trainings side by side: parts of a step that add up, sentences, the JSON, and the page."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from selenium.webdriver.chrome.webdriver import WebDriver

from simulator.columns import flags, ids, ints
from simulator.errors import SimvizError
from tests.viz.browsing import beyond, complaints, opened, settled
from tests.viz.scenes import EXAMPLE, SCRIPT, crashed, trained
from viz import compare, run
from viz.command.library import Result
from viz.difference.trainings import ComparedFigure, compare_trainings, names, sentences, training_difference
from viz.formats.json_object import record
from viz.scene import Scene

MS = 10**6


@cache
def compared() -> Result:
    """Three workers, asynchronously, against two of three gradients per update."""
    how = {"cluster": "ps=2,worker=3x1gpu", "steps": 8}
    return run(EXAMPLE, training="async", against="sync:aggregate=2", **how)  # type: ignore[arg-type]  # keywords of run


def test_the_other_run_has_the_other_regime_and_nothing_else() -> None:
    scene = compared()
    found = training_difference(scene)
    assert found is not None
    assert isinstance(scene.against, Scene)
    assert scene.against.training is not None
    assert scene.against.training.training.regime.startswith("sync:aggregate=2")
    assert found.names == ("sync:aggregate=2", "async")
    assert found.values["workers"] == (3, 3)
    assert scene.training is not None
    assert found.values["steps/s"][1] == scene.training.answers.steps_per_s
    assert found.values["mean staleness"][0] == 0
    assert scene.cluster.name == scene.against.cluster.name


def test_two_results_that_train_are_compared_as_trainings() -> None:
    """Of four workers and eight it was said that one step is as long as the other, and nothing else."""
    few, more = (run(EXAMPLE, training="async", cluster=f"ps=2,worker={count}x1gpu", steps=8) for count in (2, 4))
    found = compare(few, more)
    assert found.difference_ns == 0
    assert found.training is not None
    assert found.names == found.training.names == ("ps=2,worker=2x1gpu", "ps=2,worker=4x1gpu")
    assert few.training is not None
    assert more.training is not None
    rates = few.training.answers.steps_per_s, more.training.answers.steps_per_s
    assert found.training.values["steps/s"] == rates
    assert str(found).splitlines()[0] == sentences(found.training)[0]
    assert "examples/s" in repr(found)
    assert "Of one step of the first client:" in str(found)
    named = compare(few, more, names=("few", "more"))
    assert named.training is not None
    assert str(named).startswith("Against few: ")
    with_single = compare(run(EXAMPLE, cluster="ps=2,worker=2x1gpu", algorithm="single"), few)
    assert with_single.training is None
    by_option = compared()
    assert by_option.difference is not None
    assert str(by_option.difference.training) == str(training_difference(by_option))


def test_runs_on_two_clusters_have_the_names_of_these() -> None:
    """One was called by its cluster, the other by an algorithm that stood in for the one that was asked."""
    other = "ps=2,worker=3x1gpu,protocol=rdma"
    found = run(EXAMPLE, training="async", cluster="ps=2,worker=3x1gpu", against=other, algorithm="whitepaper", steps=8)
    assert isinstance(found.against, Scene)
    assert found.against.assignment.used != found.assignment.used
    difference = training_difference(found)
    assert difference is not None
    assert difference.names == (other, "ps=2,worker=3x1gpu")


def test_a_training_beside_a_step_says_what_of_it_counts(tmp_path: Path) -> None:
    """Their steps are as long, which read as if eight workers brought nothing."""
    (tmp_path / "training.json").write_text(compared().to_json(), encoding="utf-8")
    step = run(EXAMPLE, cluster="ps=2,worker=3x1gpu", against=str(tmp_path / "training.json"))
    for found in (compare(compared(), step), compare(step, compared()), step.difference):
        assert "of a training, one step of its first client counts" in str(found).partition("\n")[0]
    assert "first client counts" not in str(compare(step, step)) + str(compare(compared(), compared()))


def test_sentences_begin_with_the_rate_and_name_what_a_step_waits_for() -> None:
    found = training_difference(compared())
    assert found is not None
    first, second, *_ = sentences(found)
    assert first.startswith("Against sync:aggregate=2: ")
    assert "examples/s instead of" in first
    assert second.startswith("A worker begins a step every ")
    assert "waiting for tokens" in second
    assert sentences(found)[0] in compared().summary()
    assert "waits" in compared().summary(verbose=True)


def test_a_training_does_not_differ_from_itself() -> None:
    scene = trained()
    found = compare_trainings(scene, scene)
    assert found is not None
    assert found.names == ("the first run", "the second run")
    assert names(replace(scene, label="async"), scene) == ("async", "this run")
    assert all(one.values[0] == one.values[1] for one in found.figures)
    assert all(part.difference_ns == 0 for part in found.parts)
    assert len(sentences(found)) == 1
    assert "as well" in sentences(found)[0]


def test_tasks_of_one_run_alone_are_there_without_shares_of_the_other() -> None:
    found = compare_trainings(trained(), crashed())
    assert found is not None
    sides = {one.task: [of is not None for of in one.shares] for one in found.tasks}
    assert sides["worker:1"] == [True, True]
    assert sides["worker:2"] == [True, False]
    assert found.figures[0] == ComparedFigure("examples/s", "per_s", found.values["examples/s"])
    for one in found.tasks:
        assert all(abs(sum(of) - 1) < 1e-9 for of in one.shares if of is not None)


_LENGTHS = st.tuples(st.integers(0, 50), st.integers(0, 9), st.integers(0, 9), st.integers(0, 20))


@given(st.lists(st.lists(_LENGTHS, max_size=6), min_size=3, max_size=3))
def test_the_parts_of_a_step_add_up_to_the_nanosecond(workers: list[list[tuple[int, int, int, int]]]) -> None:
    """Each worker's steps: work, tokens, input, and the time to the next step."""
    scene = trained()
    assert scene.training is not None
    rows, periods = [], []
    for client, steps in enumerate(workers):
        now = 0
        for number, (work, tokens, dry, gap) in enumerate(steps):
            end = now + work + tokens + dry
            rows.append((end, client, number, now, tokens, dry))
            if number + 1 < len(steps):
                periods.append(end + gap - now)
            now = end + gap
    rows.sort()
    columns = np.array(rows, np.int64).reshape(-1, 6).T
    training = replace(
        scene.training.training,
        is_worker=flags([True] * 3),
        step_client=ids(columns[1]),
        step_number=ids(columns[2]),
        step_start_ns=ints(columns[3]),
        step_end_ns=ints(columns[0]),
        step_waiting_ns=ints(columns[4]),
        step_input_ns=ints(columns[5]),
    )
    answers = replace(scene.training.answers, cut_ns=0)
    found = compare_trainings(
        scene, replace(scene, training=replace(scene.training, training=training, answers=answers))
    )
    assert found is not None
    if not periods:  # then whole steps are all there is
        periods = [end - start for end, _, _, start, _, _ in rows]
    mean = Fraction(sum(periods), len(periods)) if periods else Fraction(0)
    assert abs(found.period_ns[1] - mean) <= Fraction(1, 2)
    assert sum(part.difference_ns for part in found.parts) == found.period_ns[1] - found.period_ns[0]


def test_the_json_has_both_sides() -> None:
    held = record(compared())["training"]["against"]
    assert held["name"] == "sync:aggregate=2"
    assert set(held["figures"]["steps/s"]) == {"other", "this"}
    assert held["tasks"]["ps:0"]["other"].keys() == {"computing", "handling", "sending", "waiting"}
    assert record(trained())["training"]["against"] is None


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"against": "sync"}, "add --training"),
        ({"against": "EARLIER", "training": "async"}, "keeps no steps of a training"),
        ({"against": "sync:aggregate=0", "training": "async"}, "aggregate"),
    ],
)
def test_what_cannot_be_compared_is_refused(how: dict[str, str], says: str, tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.json"
    earlier.write_text(compared().to_json())
    how = {key: str(earlier) if value == "EARLIER" else value for key, value in how.items()}
    with pytest.raises(SimvizError, match=says):
        run(EXAMPLE, cluster="ps=2,worker=3x1gpu", **how)  # type: ignore[arg-type]  # keywords of run


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # selenium leaves its own sockets to the collector
def test_the_page_shows_both_on_one_clock(browser: WebDriver, tmp_path: Path) -> None:
    scene = compared()
    assert isinstance(scene.against, Scene)
    page = opened(browser, tmp_path, replace(scene, against=replace(scene.against, label=SCRIPT)))
    sights = "simviz.steps.all.map((one) => [one.view.from, one.view.to])"
    for at in (0, 1):  # each moves the other
        page("simviz.steps.all[arguments[0]].zoom(3)", at)
        settled(browser)
        settled(browser)
        assert page(sights)[0] == page(sights)[1]
    panel = page("document.getElementById('training-words').innerText")
    for word in (f"Against {SCRIPT}", "A worker's step", "mean staleness", "in all"):
        assert word in panel
    charts = page("document.getElementById('training-charts').innerText")
    for word in ("Tasks: above", "Links: busy share", "Staleness"):
        assert word in charts
    assert page("document.querySelectorAll('.bar-other').length") > 0
    assert page("document.getElementById('figures').innerText").count("against") == 1
    colours = page("[simviz.model, simviz.model.training_against].map((one) => one.cluster.colours)")
    assert colours[0] == colours[1]
    waits = "steps.waiting_ns.some((ns) => ns > 0)"
    assert page(f"simviz.model.training_against.training.{waits}")
    assert not page(f"simviz.model.training.{waits}")
    assert "pale: waits for tokens" in page("document.getElementById('steps-legend').innerText")  # of the other alone
    assert page("document.title") != "owned"
    assert {width: found for width in (1400, 800, 500) if (found := beyond(browser, width, 900))} == {}
    assert complaints(browser) == []


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # selenium leaves its own sockets to the collector
@pytest.mark.parametrize(
    "label", ["sync", "whitepaper", "ps=2,worker=2", "ps=2,worker=2x1gpu", "ps=2,worker=3x1gpu,protocol=rdma"]
)
def test_names_of_runs_leave_title_words_and_numbers_whole(browser: WebDriver, tmp_path: Path, label: str) -> None:
    """At 900 pixels, and at 1400, "examples/s" was in two lines, at 1100 there was no title, and figures were cut."""
    scene = compared()
    assert isinstance(scene.against, Scene)
    opened(browser, tmp_path, replace(scene, against=replace(scene.against, label=label)))
    widths = (1920, 1400, 1250, 1100, 1000, 900, 800, 500, 390)
    assert {width: found for width in widths if (found := beyond(browser, width, 900))} == {}
