"""Disturbed trainings on their whole way: from the command to figures, page and trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from viz.command.cli import main

GRAPH = str(Path(__file__).parents[2] / "examples" / "ps_training.pbtxt")
ASKED = ("--cluster", "ps=2,worker=2x1gpu", "--training", "async", "--steps", "20")


def trained(where: Path, *said: str) -> dict[str, object]:
    """The training of the JSON; page and trace are written, too."""
    disturbed = [word for text in said for word in ("--disturb", text)]
    files = [str(where / name) for name in ("run.html", "run.trace.json", "run.json")]
    assert main([GRAPH, *ASKED, *disturbed, "--quiet", "-o", files[0], "-o", files[1], "--json", files[2]]) == 0
    assert "</html>" in Path(files[0]).read_text(encoding="utf-8")
    assert json.loads(Path(files[1]).read_text(encoding="utf-8"))["traceEvents"]
    found: dict[str, object] = json.loads(Path(files[2]).read_text(encoding="utf-8"))["training"]
    return found


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    return trained(tmp_path_factory.mktemp("quiet"))


@pytest.mark.parametrize(
    "said",
    [
        "worker:1=slow:50",
        "worker:*=noise:lognormal:0.5",
        "ps:0=pause:every=4 ms,for=1 ms",
        "worker:1=late:30 ms",
        "worker:1=crash:at=10 ms,for=20 ms",
        "ps:0=crash:at=10 ms,for=20 ms,restore=5 ms,checkpoint=4 ms",
        "link:ps:0->worker:1=degrade:100",
        "link:ps:0->worker:1=traffic:3 GB/s",
    ],
)
def test_each_disturbance_changes_the_run_and_is_drawn(tmp_path: Path, quiet: dict[str, object], said: str) -> None:
    found = trained(tmp_path, said)
    assert found["disturbances"] == [said]
    assert found["end_ns"] != quiet["end_ns"]
    assert found["workers"] == quiet["workers"] == 2


def notes(where: Path, said: str) -> list[str]:
    found = trained(where, said)["notes"]
    assert isinstance(found, list)
    return found


def test_a_crash_is_in_the_rate_or_told(tmp_path: Path, quiet: dict[str, object]) -> None:
    found = trained(tmp_path, "worker:1=crash:at=10 ms,for=20 ms")
    assert found["notes"] == []
    rates = [quiet["steps_per_s"], found["steps_per_s_between_upsets"], found["steps_per_s"]]
    assert all(isinstance(rate, float) for rate in rates)
    assert rates[2] < rates[1]  # type: ignore[operator]  # they are floats
    assert quiet["steps_per_s_between_upsets"] is None
    (late,) = notes(tmp_path, "worker:1=crash:at=1000 s,for=20 ms")
    assert late.startswith("worker:1 crashes at 1000 s, after the last update at ")


def test_traffic_that_finds_less_time_than_asked_for_is_told(tmp_path: Path) -> None:
    *_, said = notes(tmp_path, "link:ps:0->worker:1=traffic:3 GB/s,bytes=64 MiB")
    assert "of the requested 3 GB/s were sent" in said
    assert notes(tmp_path, "link:ps:0->worker:1=traffic:1 kB/s,bytes=1 kB") == []


def test_a_slower_way_that_leads_elsewhere_too_is_told(tmp_path: Path) -> None:
    """The adapter of a server is on the way to all workers."""
    (said,) = notes(tmp_path, "link:ps:0->worker:1=degrade:8")
    assert said == (
        "link:ps:0->worker:1=degrade:8: ps0 nic out, worker1 nic in are on routes between other tasks, too. "
        "These slow down as well."
    )
    assert notes(tmp_path, "link:worker1 nic in=degrade:8") == []
