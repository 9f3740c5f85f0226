"""TensorBoard reads what is written for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.viz.scenes import example
from viz.formats.drawing import draw
from viz.formats.output import write

pytestmark = pytest.mark.tensorflow
SCRIPT = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1])
events.Reload()
(tag,) = events.Tags()["run_metadata"]
step = events.RunMetadata(tag).step_stats
times = {line.node_name: line.op_end_rel_nanos for one in step.dev_stats for line in one.node_stats}
print(json.dumps([{node.name: node.device for node in events.Graph().node}, times]))
"""


def test_the_folder_has_devices_and_times(tmp_path: Path) -> None:
    scene = example()
    folder = tmp_path / "a.tensorboard"
    write(str(folder), draw(scene, ".tensorboard"))
    asked = [sys.executable, "-c", SCRIPT, str(folder)]
    answer = subprocess.run(asked, capture_output=True, check=True, timeout=120)
    devices, times = json.loads(answer.stdout.splitlines()[-1])
    assert devices == {name: scene.assignment.name_of(row) for row, name in enumerate(scene.graph.names)}
    ops = scene.trace.ops
    assert sum(times.values()) == int((ops.end_ns - ops.start_ns)[~scene.partitions.inserted[ops.node]].sum())
