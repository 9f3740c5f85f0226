"""Crashes, pauses and late starts: what is said of them and where they are drawn."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.chrome.webdriver import WebDriver

from simulator.json_text import plain
from simulator.training.disturbances.noise import Pauses
from tests.viz.browsing import complaints, opened, settled
from tests.viz.scenes import crashed
from viz.formats.trace_events import draw_training
from viz.page.report import training_contents
from viz.timeline.training_timeline import Band, bands, lost_updates, not_drawn

MS = 10**6


def found() -> tuple[Band, ...]:
    scene = crashed()
    assert scene.training is not None
    return bands(scene.training)


def test_bands_are_where_the_disturbances_say() -> None:
    scene = crashed()
    assert scene.training is not None
    training = scene.training.training
    said = [(one.kind, training.tasks[one.task][-13:], one.start_ns // MS, one.end_ns // MS) for one in found()]
    ps, first, second = "ca:0/task:0", "a:0/task:0", "a:0/task:1"
    assert [kind for kind, *_ in said if kind != "pause"] == ["gone", "restores", "late"]
    assert [row[2:] for row in said if row[0] == "gone"] == [(100, 140)]
    assert [row[2:] for row in said if row[0] == "restores"] == [(140, 160)]
    assert [row[2:] for row in said if row[0] == "late"] == [(0, 20)]
    pauses = [row for row in said if row[0] == "pause"]
    assert [row[2:] for row in pauses] == [(start, start + 10) for start in range(5, training.end_ns // MS + 1, 50)]
    assert all(row[1].endswith(second) for row in pauses)
    assert [row[1].endswith((ps, first)) for row in said if row[0] in ("gone", "late")] == [True, True]


def test_a_crash_says_what_it_cost() -> None:
    scene = crashed()
    assert scene.training is not None
    training = scene.training.training
    (gone,) = (one for one in found() if one.kind == "gone")
    assert gone.lost == training.lost_updates > 0
    assert gone.saved_ns == 60 * MS
    assert {one.client for one in gone.cut} == {0, 1}  # both have ops there
    lost = lost_updates(scene.training, found()).tolist()
    assert len(lost) == gone.lost
    assert all(60 * MS < when <= 100 * MS for when in training.update_ns[lost].tolist())


def test_the_page_holds_what_happened_and_the_steps_that_were_cut_short() -> None:
    scene = crashed()
    assert scene.training is not None
    training = scene.training.training
    page: Any = plain(training_contents(scene.training, scene.cluster))
    held = page["steps"]
    (gone,) = (one for one in held["bands"] if one["kind"] == "gone")
    assert gone["cut"] == [[one.client, one.number, one.start_ns] for one in training.cut_short]
    assert [held["end_ns"][row] for row, by in enumerate(held["cut"]) if by >= 0] == [100 * MS] * 2
    assert len(held["lost"]) == training.lost_updates


def test_the_trace_has_slices_for_what_happened_and_none_overlap() -> None:
    scene = crashed()
    assert scene.training is not None
    text = json.loads(draw_training(scene, scene.training))["traceEvents"]
    happened = [one for one in text if one.get("cat") == "disturbance"]
    assert len(happened) == len(found())
    (gone,) = (one for one in happened if one["name"].endswith("is gone"))
    assert (gone["ts"], gone["dur"]) == (100_000, 40_000)
    assert gone["args"]["updates lost"] == scene.training.training.lost_updates
    assert gone["args"]["steps cut short"] == 2
    cut = [one for one in text if "by the crash" in one.get("args", {}).get("cut off", "")]
    assert [(one["ts"] + one["dur"], one["name"]) for one in cut] == [
        (100_000, f"step {one.number}") for one in scene.training.training.cut_short
    ]
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for one in text:
        if one["ph"] == "X":
            tracks.setdefault((one["pid"], one["tid"]), []).append((one["ts"], one["ts"] + one["dur"]))
    for spans in tracks.values():
        assert all(begin >= end for (_, end), (begin, _) in pairwise(sorted(spans)))


def test_pauses_without_end_are_not_all_drawn_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = crashed()
    assert scene.training is not None
    whole = sum(one.kind == "pause" for one in found())
    assert not_drawn(scene.training) == ""
    monkeypatch.setattr("viz.timeline.training_timeline.MOST_PAUSES", 2)
    assert sum(one.kind == "pause" for one in found()) == 2
    assert f"{whole - 2} later pause" in not_drawn(scene.training)
    page: Any = plain(training_contents(scene.training, scene.cluster))
    assert any("not drawn" in note for note in page["notes"])


def test_each_task_has_its_own_pauses() -> None:
    """All were once those of the last task."""
    scene = crashed()
    assert scene.training is not None
    disturbed, end_ns = scene.training.disturbed, scene.training.training.end_ns
    task = scene.training.training.tasks.index("/job:ps/replica:0/task:1")
    mine = Pauses(0, 40 * MS, 3 * MS)
    pauses_of = tuple(mine if row == task else old for row, old in enumerate(disturbed.pauses))
    both = bands(replace(scene.training, disturbed=replace(disturbed, pauses=pauses_of)))
    pauses = [one for one in both if one.kind == "pause"]
    assert [one.start_ns for one in pauses if one.task == task] == list(range(0, end_ns, 40 * MS))
    others = [one for one in pauses if one.task != task]
    assert others == [one for one in found() if one.kind == "pause"]


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # selenium leaves its own sockets to the collector
def test_the_page_draws_and_names_what_happened(browser: WebDriver, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, crashed())
    settled(browser)
    assert complaints(browser) == []
    kinds = (
        "simviz.steps.rows.filter((row) => row.bands).map((row) => [row.kind, row.label, row.bands.map((b) => b.kind)])"
    )
    rows = page(kinds)
    assert ["task", "ps:0", ["gone", "restores"]] in rows  # no client is there
    (second,) = (row for row in rows if row[:2] == ["client", "worker:1"])
    assert {"gone", "restores", "pause"} == set(second[2])
    said = "simviz.steps.said(simviz.steps.rows.findIndex((row) => row.label === arguments[0]), arguments[1])"
    lines = page(said, "ps:0", 110 * MS)
    assert lines[0] == "ps:0 is gone"
    assert "from 100 ms" in lines[1]
    assert "lost: step" in lines[2]
    assert "since the checkpoint at 60 ms" in lines[3]
    assert page(said, "worker:1", 56 * MS)[-2] == "worker:1 pauses"
    assert "cut short by the crash of ps:0" in page(said, "worker:1", 99 * MS)
    for word in ("gone", "restores", "pauses", "cut off"):
        assert word in page("document.getElementById('steps-legend').innerText")
