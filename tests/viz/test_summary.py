"""The command's summary: ten lines that fit a terminal, whatever the scene, and every fact on request."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.strategies import Rows, shapes_attr, type_attr
from tests.viz.scenes import crashed, example, hostile, loop, trained
from viz import run
from viz.command.summary import LINES, WIDTH, summarise
from viz.difference.outline import Crossing
from viz.difference.scene_outline import outline
from viz.scene import Scene

WRITTEN = ["ps_training.html", "/a/very/long/path/" * 20 + "plan.trace.json", "plan.svg", "plan.pdf"]


def named() -> Scene:
    """Hostile names, which no check has seen."""
    return replace(hostile(), check=None)


def checked() -> Scene:
    """A scene with all that a summary can say at once."""
    check: dict[str, Any] = {
        "mode": "predict",
        "oracle": "stand-in workers",
        "tensorflow": "2.21.0",
        "placement": {"agree": 223, "of": 224, "raw": 223},
        "partition": {"agree": 170, "of": 170, "raw": 170},
        "session": {"shown": "/job:worker/replica:0/task:0", "asked": "/job:ps/replica:0/task:0", "same": False},
        "differences": [],
        "laws": [],
        "refused": None,
    }
    scene = trained()
    return replace(scene, check=check, trace=replace(scene.trace, dead_fetches=("a" * 200,), notes=("b " * 200,) * 12))


def once_around() -> Scene:
    """A loop whose trips nothing tells."""
    return loop(trips={})


@pytest.mark.parametrize("scene", [example, named, once_around, trained, crashed, checked])
@pytest.mark.parametrize("written", [[], WRITTEN])
def test_the_summary_has_ten_lines_at_most_and_none_is_long(scene: Callable[[], Scene], written: list[str]) -> None:
    lines = summarise(scene(), written=written).splitlines()
    assert 5 <= len(lines) <= LINES == 10
    assert max(len(line) for line in lines if " takes " not in line) <= WIDTH == 120  # that of the makespan is whole
    assert all(line == line.strip() for line in lines)


def test_the_most_important_lines_stay_where_there_is_too_much_to_say() -> None:
    said = summarise(checked(), written=WRITTEN)
    for words in (
        "TensorFlow refuses this step",
        "steps/s",
        "Bottleneck",
        "agrees in placement",
        "Wrote",
        "Disturbed by",
    ):
        assert words in said
    assert "of another session" in said


def test_one_transfer_moves_in_the_singular() -> None:
    """It was "1 transfer move"."""
    made = Rows()
    made.add("size", "Const", device="/device:GPU:0", dtype=type_attr(3), _output_shapes=shapes_attr((1,)))
    made.add(
        "one", "RandomUniform", ["size"], device="/device:GPU:0", dtype=type_attr(), _output_shapes=shapes_attr((4,))
    )
    made.add("two", "Neg", ["one"], device="/device:CPU:0", T=type_attr(), _output_shapes=shapes_attr((4,)))
    assert "\n1 transfer moves 16 B; " in run(made.built(), cluster="1gpu", algorithm="requested").summary()


def test_one_node_runs_in_the_singular() -> None:
    """It was "1 of 1 nodes run"."""
    made = Rows()
    made.add("two", "Const", dtype=type_attr(), _output_shapes=shapes_attr(()))
    found = run(made.built(), cluster="2cpu")
    for said in (found.summary(), found.summary(verbose=True)):
        assert "1 of 1 node runs in a step" in said


def test_long_names_leave_room_for_figures() -> None:
    step, training = example(), trained()
    named = [
        replace(one, title="a" * 200, label="b" * 200, cluster=replace(one.cluster, name="c" * 200))
        for one in (step, training)
    ]
    outlined = replace(outline(step), circumstances={"batch": "1" * 99}, label="b" * 200)
    lines = summarise(replace(named[0], against=outlined)).splitlines()
    lines += summarise(replace(named[1], against=named[1])).splitlines()
    for words in ("112 of 224 nodes run", "5 devices; placed by", "as long, ", "training async", "examples/s as well"):
        assert any(words in line for line in lines), words


def test_sizes_that_look_alike_are_told_by_their_difference() -> None:
    scene = example()
    before = outline(scene)
    links = {link: nbytes + 8 for link, nbytes in before.link_bytes.items()}
    crossings = {tensor: Crossing(one.times, 2 * one.nbytes) for tensor, one in before.crossings.items()}
    said = summarise(replace(scene, against=replace(before, link_bytes=links, crossings=crossings)), verbose=True)
    assert "MiB, 8 B less than before" in said
    assert "B instead of 24.5 MiB, 1 transfer as before" in said
    sizes = [line.partition(": ")[2].split(" instead of ") for line in said.splitlines() if " instead of " in line]
    assert all(one[0] != one[-1] for one in sizes)


def test_every_fact_is_there_on_request() -> None:
    full = summarise(checked(), verbose=True, written=WRITTEN)
    assert full.count("\nwrote      ") == len(WRITTEN)
    for label in ("graph", "cluster", "placement", "simulated", "makespan", "memory", "moved", "critical", "training"):
        assert f"\n{label} " in full
    for label in ("rate", "step", "waiting", "updates", "held by", "memory"):
        assert f"\n  {label} " in full


def test_a_long_bottleneck_is_named_without_its_devices() -> None:
    """It ended within a bracket: "the GPUs of localhost (localhost:0/GPU:0 ...;"."""
    scene = trained()
    assert scene.training is not None
    held = scene.training.bottleneck
    assert held.relief is not None
    many = ", ".join(f"localhost:0/GPU:{number}" for number in range(8))
    relief = replace(held.relief, bottleneck=f"the GPUs of localhost ({many}), busy up to 90% of the time")
    said = summarise(replace(scene, training=replace(scene.training, bottleneck=replace(held, relief=relief))))
    assert "Bottleneck: the GPUs of localhost; " in said
