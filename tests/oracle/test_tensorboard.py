"""TensorBoard reads what is written for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.oracle.forking import printed
from tests.viz.scenes import example
from viz.formats.drawing import draw
from viz.formats.output import write

pytestmark = pytest.mark.tensorflow


def test_the_folder_has_devices_and_times(tmp_path: Path) -> None:
    scene = example()
    folder = tmp_path / "a.tensorboard"
    write(str(folder), draw(scene, ".tensorboard"))
    devices, times = json.loads(printed("tests.oracle.reading_events", str(folder))[-1])
    assert devices == {name: scene.assignment.name_of(row) for row, name in enumerate(scene.graph.names)}
    ops = scene.trace.ops
    assert sum(times.values()) == int((ops.end_ns - ops.start_ns)[~scene.partitions.inserted[ops.node]].sum())
