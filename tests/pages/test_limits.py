"""The sizes that docs/limits.md names are those of the code, in the order of the page."""

from __future__ import annotations

import re

from placement import effort
from placement.search import walk
from simulator import files, wording
from simulator.cluster import cluster, description, topology
from simulator.costs import profile
from simulator.execution.loops import choices
from simulator.graph import messages, ops, sources, tensors
from simulator.graph.inlining import calls
from simulator.instances import fields
from simulator.shapes import dims
from simulator.training.answers import scaling
from simulator.training.control import results
from tests.pages.reading import ROOT
from viz.command import request, training_request

SIZES = (
    sources.MAX_FILE_BYTES,
    sources.MAX_STREAM_BYTES,
    files.MAX_RATIO,
    messages.MAX_BACKSLASHES,
    calls.MAX_NODES,
    calls.MAX_GROWTH,
    calls.MAX_DEPTH,
    tensors.MAX_TENSORS,
    ops.MAX_INPUTS,
    ops.MAX_ARGUMENTS,
    dims.MAX_RANK,
    choices.MAX_INSTANCES,
    request.MOST,
    topology.MAX_DEVICES,
    cluster.MAX_IN_STEP,
    topology.MAX_NAME_CHARS,
    topology.MAX_PAIRS,
    fields.MAX_NODES,
    fields.MAX_EDGES,
    training_request.MAX_STEPS,
    scaling.MAX_WORKERS,
    results.MAX_ROWS,
    description.MAX_FILE_BYTES,
    effort.MOST,
    walk.HOPELESS,
    wording.MAX_TEXT,
)


def test_the_page_tells_the_sizes_of_the_code() -> None:
    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8").partition("\n## Sizes\n")[2]
    told = re.findall(r"^\| .* \| ([\d,]+) \|$", page, re.MULTILINE)
    assert [int(number.replace(",", "")) for number in told] == list(SIZES)
    assert profile.MAX_FILE_BYTES == description.MAX_FILE_BYTES
    assert tensors.MAX_OUTPUTS == ops.MAX_ARGUMENTS
