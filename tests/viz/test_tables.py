"""The figures of a scene: the report, the summary and the JSON say the same."""

import json
from dataclasses import replace

from tests.viz.scenes import example
from viz.content import contents
from viz.record import record
from viz.summary import MOST_NOTES, summarise
from viz.tables import critical_shares, notes, result_notes

PARTS = ("graph", "cluster", "costs", "assignment", "partitions", "trace")


def annotated():
    """The example where every value has a note of its own."""
    scene = example()
    values = {part: replace(getattr(scene, part), notes=(f"said by {part}",)) for part in PARTS}
    return replace(scene, **values, notes=("said by the scene",))


def test_every_note_is_shown_by_every_window():
    scene = annotated()
    said = [*(f"said by {part}" for part in PARTS), "said by the scene"]
    assert len(said) <= MOST_NOTES
    assert sorted(notes(scene)) == sorted(said)
    summary, described = summarise(scene), json.dumps(record(scene))
    assert contents(scene)["tables"]["notes"] == notes(scene)
    for sentence in said:
        assert summary.count(sentence) == 1
        assert described.count(sentence) == 1


def test_a_note_that_two_values_make_is_said_once():
    scene = annotated()
    scene = replace(scene, notes=scene.trace.notes)
    assert result_notes(scene).count("said by trace") == 1


def test_sizes_that_are_unknown_count_alike_everywhere():
    scene = example()
    graph = scene.graph
    unknown = graph.tensor_bytes.copy()
    unknown[::3] = -1
    scene = replace(scene, graph=replace(graph, tensor_bytes=unknown))
    listed = sum(count for _, count in contents(scene)["tables"]["unknown"])
    assert listed == record(scene)["counts"]["unknown_shapes"] > 0
    assert f"{listed} tensors of unknown size" in summarise(scene)


def test_the_critical_path_explains_the_whole_makespan():
    scene = example()
    assert sum(share.nanos for share in critical_shares(scene)) == scene.trace.makespan
