"""Pictures for papers say what the trace says, in the width that was asked for, whatever the names."""

import os
import re
import time
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import example as explicitly
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import SimvizError
from simulator.units import show_nanos
from tests.shapes.test_unknown import images
from tests.viz.scenes import EXAMPLE, example, hostile, trained
from viz import draw_graph, run
from viz.command.request import Request
from viz.command.running import run as run_request
from viz.difference.difference import difference
from viz.formats.drawing import TIMES, draw
from viz.palette import device_colour
from viz.pictures.canvas import Canvas, fitting, width_of
from viz.pictures.look import KEYS, POINTS_PER_MM, Look, read_look
from viz.pictures.rows import clock_of, rows_of, ticks
from viz.pictures.timeline import timeline_picture
from viz.scene import Scene
from viz.timeline.step_timeline import step_timeline

NAME = "{http://www.w3.org/2000/svg}"


def compared() -> Scene:
    return run_request(
        Request(str(EXAMPLE), cluster="ps=2,worker=1x2gpu,protocol=rdma", algorithm="heft", against="single")
    )


def svg(scene: Scene, suffix: str, look: Look | None = None) -> ElementTree.Element:
    drawn = draw(scene, suffix, look)
    assert isinstance(drawn, bytes)
    return ElementTree.fromstring(drawn.decode())


def texts(picture: ElementTree.Element) -> list[str]:
    return [one.text or "" for one in picture.iter(f"{NAME}text")]


def boxes(picture: ElementTree.Element) -> list[tuple[str, float, float]]:
    """Colour, left and right of each area."""
    found = []
    for one in picture.iter(f"{NAME}polygon"):
        xs = [float(point.split(",")[0]) for point in one.attrib["points"].split()]
        found.append((one.attrib["fill"], min(xs), max(xs)))
    return found


@pytest.mark.graphviz
@pytest.mark.parametrize("suffix", [".timeline.svg", ".memory.svg", ".comparison.svg"])
def test_what_is_a_lower_bound_is_marked(suffix: str) -> None:
    scene = run(images(), cluster="2gpu", algorithm="heft", against="single")
    assert "≥ " in " ".join(texts(svg(scene, suffix)))


@pytest.mark.graphviz
def test_each_long_op_is_a_bar_of_its_device_from_its_start_to_its_end() -> None:
    scene = example()
    picture, canvas = svg(scene, ".timeline.svg"), timeline_picture(scene, Look())
    bars, ops = boxes(picture), scene.trace.ops
    clock = clock_of(canvas, int(step_timeline(scene).slices.end_ns.max()))
    long = [row for row in range(len(ops)) if clock.at(ops.end_ns[row]) - clock.at(ops.start_ns[row]) > 1]
    assert len(long) > 1
    for row in long:
        colour, start, end = device_colour(ops.device[row]), clock.at(ops.start_ns[row]), clock.at(ops.end_ns[row])
        assert any(fill == colour and abs(a - start) < 0.3 and abs(b - end) < 0.3 for fill, a, b in bars)


@pytest.mark.graphviz
def test_pictures_are_as_wide_as_asked_and_name_what_they_show() -> None:
    scene = compared()
    found = difference(scene)
    assert found is not None
    for suffix in (".timeline.svg", ".memory.svg", ".comparison.svg"):
        for look in (Look(), Look(width_mm=180, legend=False)):
            picture = svg(scene, suffix, look)
            width = float(picture.attrib["width"].removesuffix("pt"))
            assert abs(width - (look.width_mm or 85) * POINTS_PER_MM) < 2
            for _, left, right in boxes(picture):
                assert -0.1 <= left <= right <= width
            assert {"ps:0/CPU:0", "worker:0/GPU:0"} <= set(texts(picture))
    legend = "op or transfer, in the colour of its device or source"
    assert legend in texts(svg(scene, ".timeline.svg"))
    assert legend not in texts(svg(scene, ".timeline.svg", Look(legend=False)))
    said = " ".join(texts(svg(scene, ".comparison.svg", Look(width_mm=300))))
    assert all(str(part) in said for part in found.explanation())
    assert all(show_nanos(ns) in said for ns in found.makespan_ns)


@pytest.mark.graphviz
def test_a_pdf_is_the_same_bytes_at_any_time_in_any_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TZ", raising=False)
    first = draw(example(), ".timeline.pdf")
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.sleep(1.1)  # the date of a PDF has seconds
    assert draw(example(), ".timeline.pdf") == first
    assert os.environ["TZ"] == "Pacific/Kiritimati"


@pytest.mark.graphviz
def test_a_pdf_has_its_size_and_embeds_its_fonts() -> None:
    drawn = draw(example(), ".timeline.pdf")
    assert isinstance(drawn, bytes)
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", drawn, re.DOTALL)
    text = drawn + b"".join(zlib.decompressobj().decompress(one) for one in streams if one[:1] == b"x")
    assert b"/FontFile" in text
    (box,) = re.findall(rb"/MediaBox \[ ?0 0 ([\d.]+)", text)
    assert abs(float(box) - 85 * POINTS_PER_MM) < 2


@pytest.mark.graphviz
@pytest.mark.parametrize("suffix", [".svg", ".timeline.svg", ".memory.svg", ".comparison.svg"])
def test_an_svg_holds_the_shapes_of_its_letters_where_that_is_asked_for(suffix: str) -> None:
    plain, shaped = svg(compared(), suffix), svg(compared(), suffix, read_look("letters=shapes"))
    assert texts(plain)
    assert not texts(shaped)
    assert len(shaped.findall(f".//{NAME}path")) > len(plain.findall(f".//{NAME}path"))
    wide, usual = (float(one.attrib["viewBox"].split()[2]) for one in (shaped, plain))
    assert abs(wide - usual) < 1


@pytest.mark.graphviz
@pytest.mark.parametrize("letters", ["text", "shapes"])
def test_pictures_in_one_page_share_no_ids(letters: str) -> None:
    """A glyph of one was drawn with the shapes of another where both stood in one page."""
    look, seen = read_look(f"letters={letters}"), set[str]()
    for suffix in (".svg", ".timeline.svg", ".memory.svg", ".comparison.svg"):
        picture = svg(compared(), suffix, look)
        given = [one.attrib["id"] for one in picture.iter() if "id" in one.attrib]
        named = re.findall(r"#([^\")]*[^0-9a-f\")][^\")]*)[\")]", ElementTree.tostring(picture, "unicode"))
        assert given
        assert len(given) == len(set(given))
        assert set(named) <= set(given)
        assert not seen & set(given)
        seen |= set(given)
        assert draw(compared(), suffix, look) == draw(compared(), suffix, look)


@pytest.mark.graphviz
def test_hostile_names_stay_text() -> None:
    scene = hostile()
    for suffix in (".timeline.svg", ".memory.svg"):
        assert svg(scene, suffix).find(f".//{NAME}script") is None


@pytest.mark.graphviz
@given(st.lists(st.text(max_size=30), min_size=1, max_size=300))
@explicitly(["", "0"])
def test_any_text_can_be_drawn(said: list[str]) -> None:
    canvas = Canvas(200)
    for row, text in enumerate(said):
        canvas.text(0, 10 + row, text)
    picture = ElementTree.fromstring(canvas.drawn("svg", said[0]).decode())
    shown = texts(picture)
    for text in said:
        if text.isascii() and text.isprintable() and text.strip():
            assert text.replace("\\", "∖").strip() in [one.replace("\xa0", " ").strip() for one in shown]


def test_rows_are_the_busiest_and_links_leave_room_for_devices() -> None:
    timeline = step_timeline(example())
    every, none = rows_of(timeline, 1000)
    assert all(row.busy_ns for row in every)
    assert not any(row.busy_ns for row in none)
    for most in (1, 2, 4, 6):
        kept, left = rows_of(timeline, most)
        assert len(kept) == most
        assert len(kept) + len(left) == len(every) + len(none)
        for kind in ("device", "link"):
            shown = [row.busy_ns for row in kept if row.kind == kind]
            assert (
                min(shown, default=0) >= max((row.busy_ns for row in left if row.kind == kind), default=0) or not shown
            )


@pytest.mark.graphviz
def test_a_training_has_a_timeline_and_no_memory_curve() -> None:
    assert any("worker:0" in text for text in texts(svg(trained(), ".timeline.svg")))
    for suffix in (".memory.svg", ".comparison.pdf"):
        with pytest.raises(SimvizError, match="training"):
            draw(trained(), suffix)


def test_a_comparison_needs_another_run() -> None:
    with pytest.raises(SimvizError, match="add --against"):
        draw(example(), ".comparison.svg")


@pytest.mark.graphviz
def test_files_are_written_by_their_endings(tmp_path: Path) -> None:
    result = run(str(EXAMPLE), cluster="ps=2,worker=1x2gpu,protocol=rdma", algorithm="heft", against="single")
    paths = [tmp_path / f"plan{suffix}" for suffix in TIMES]
    result.write(*paths, picture="width=12cm,rows=4,legend=no")
    for path in paths:
        assert path.read_bytes()[:4] == (b"%PDF" if path.suffix == ".pdf" else b"<?xm")


def test_the_graph_is_opened_as_deep_and_as_wide_as_asked() -> None:
    scene = example()
    deep, flat = draw_graph(scene), draw_graph(scene, max_depth=1, width_mm=85)
    assert 'size="3.346,100"' in flat
    assert ' size="' not in deep
    assert flat.count("[label=") < deep.count("[label=")


@given(st.integers(1, 10**12))
def test_ticks_are_few_and_reach_far(end_ns: int) -> None:
    found = ticks(end_ns)
    assert found[0] == 0
    assert 2 <= len(found) <= 13
    assert found[-1] <= end_ns


@given(st.text(max_size=80), st.floats(10, 300))
def test_a_text_that_is_cut_keeps_both_ends(said: str, width: float) -> None:
    shown = fitting(said, width)
    assert len(shown) <= len(said)
    if shown != said:
        assert "…" in shown
        assert shown[-1] in (said[-1], "…")
    assert width_of(shown) <= max(width, 6.5)


def test_a_look_is_read_and_what_is_none_is_refused_in_a_sentence() -> None:
    assert read_look(None) == read_look("") == Look()
    assert read_look("width=18cm, rows=3,boxes=60,depth=2,legend=no") == Look(180, 3, 60, 2, False)
    for wrong in ("width=3mm", "width=wide", "rows=0", "rows=many", "depth=-1", "legend=maybe", "hue=red", "legend"):
        with pytest.raises(SimvizError, match=rf"--picture .*({'|'.join(KEYS)})") as raised:
            read_look(wrong)
        assert "\n" not in str(raised.value)
