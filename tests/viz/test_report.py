"""The report: one file that holds the whole scene, asks nobody for anything, and lets no name out of its string."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from selenium.webdriver.chrome.webdriver import WebDriver

from simulator.columns import ids
from simulator.graph.messages import AttrValue
from simulator.json_text import plain
from tests.viz.scenes import EXAMPLE, HOSTILE, SCRIPT, example, hostile, loop, shown
from viz import draw_report
from viz.command.request import Request
from viz.command.running import run
from viz.difference.scene_outline import outline
from viz.figures import critical_shares, devices, longest_transfers, moved_bytes, time_by_category
from viz.page.packing import packed_parts
from viz.page.report import SCRIPTS, lean
from viz.scene import Scene


class Page(HTMLParser):
    """Elements of a page with their attributes, and the text of each script and style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[tuple[str, str | None], str] = {}
        self._open: tuple[str, str | None] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = (tag, dict(attrs).get("id") or dict(attrs).get("type"))

    def handle_endtag(self, tag: str) -> None:
        self._open = None

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open] = self.texts.get(self._open, "") + data


@pytest.fixture(scope="module")
def page() -> str:
    return draw_report(example())


def unpacked(page: str) -> dict[str, Any]:
    """The scene as the page holds it, with its columns as they are packed."""
    packed = Page(page).texts["script", "scene"]
    found: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(packed)))
    return found


def policy_of(page: str) -> str:
    return next(a["content"] or "" for tag, a in Page(page).tags if a.get("http-equiv") == "Content-Security-Policy")


def test_the_page_asks_nobody_for_anything(page: str) -> None:
    for tag, attributes in Page(page).tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
    assert policy_of(page).startswith("default-src 'none';")
    assert "http://" not in page
    assert "https://" not in page


def test_only_its_own_script_and_style_may_run(page: str) -> None:
    texts = Page(page).texts
    for kind, text in (("script", texts["script", "module"]), ("style", texts["style", None])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy_of(page)
    assert "unsafe" not in policy_of(page)


def test_the_page_holds_the_scene(page: str) -> None:
    packed = packed_scene(example())
    assert unpacked(page) == json.loads(json.dumps(packed))


def packed_scene(scene: Scene) -> dict[str, Any]:
    parts = packed_parts(shown(scene).items(), scene.graph, compared=scene.against is not None)
    return {name: plain(value) for name, value in parts}


def runs() -> list[Scene]:
    """A step, two steps, one of them with a loop, and a comparison with an earlier result."""
    again = Request(str(EXAMPLE), cluster="ps=2,worker=1x2gpu,protocol=rdma", algorithm="whitepaper", against="single")
    compared = run(again)
    other = compared.against
    assert isinstance(other, Scene)
    return [example(), hostile(), loop(trips={"*": 3}), compared, replace(compared, against=outline(other))]


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # selenium leaves its own sockets to the collector
@pytest.mark.parametrize("which", range(5))
def test_the_page_unpacks_what_was_packed(browser: WebDriver, which: int) -> None:
    scene = runs()[which]
    whole = json.loads(json.dumps(shown(scene)))
    script = resources.files("viz").joinpath("assets/unpacking.js").read_text("utf-8")
    packed = packed_scene(scene)
    code = "return JSON.stringify(unpacked(JSON.parse(arguments[0])))"
    browser.get("data:text/html,packing")
    found = json.loads(browser.execute_script(f"{script}; {code}", json.dumps(packed)))
    if whole["against"] and whole["against"]["run"]:
        run = found["against"]["run"]
        for shared in ("nodes", "edges"):  # what both runs have in common is there, too
            run[shared] = {key: run[shared][key] for key in whole["against"]["run"][shared]}
    for name, member in whole.items():
        assert found[name] == member, name


@given(st.lists(st.integers(-(2**52), 2**52), max_size=20))
def test_differences_add_up(column: list[int]) -> None:
    ((_, packed),) = packed_parts([("critical", column)], example().graph, compared=False)
    assert list(accumulate(plain(packed))) == column


def test_most_of_what_a_page_can_tell_is_not_sent() -> None:
    """A run beside another took up to three quarters of a page again."""
    for scene in (example(), runs()[3]):
        packed = packed_scene(scene)
        for part in filter(None, (packed, packed["against"] and packed["against"]["run"])):
            assert not any(part["edges"]["transfer"])
            for column in ("ready_ns", "start_ns"):
                assert sum(map(bool, part["timeline"][column])) < 0.5 * len(part["timeline"][column])
    compared = packed_scene(runs()[3])["against"]
    assert sum(map(len, compared["moved"])) < 0.1 * len(shown(runs()[3])["against"]["moved"])
    assert not set(compared["run"]["nodes"]) & {"runs", "fed", "flops", "moved_bytes"}


def test_names_stay_names() -> None:
    scene = hostile()
    page = draw_report(scene)
    tags = [tag for tag, _ in Page(page).tags]
    assert tags == [tag for tag, _ in Page(draw_report(example())).tags]
    assert SCRIPT not in page
    assert "onerror" not in page
    names = unpacked(page)["nodes"]["names"]
    for name in HOSTILE:
        assert name.encode("utf-8", "replace").decode() in names  # a lone surrogate becomes "?"


def test_the_title_of_a_tab_reads_from_left_to_right_whatever_its_first_letter() -> None:
    page = draw_report(replace(example(), title="שלום.pb"))
    assert "<title>\u200eשלום.pb – simviz</title>" in page


def test_the_same_scene_gives_the_same_bytes_under_any_hash_seed() -> None:
    code = (
        "import hashlib, sys; from viz.command.request import Request; from viz.command.running import run;"
        "from viz import draw_report, draw_timeline, draw_graph;"
        "s = run(Request(sys.argv[1], cluster='ps=2,worker=1x2gpu', algorithm='requested'));"
        "print(hashlib.sha256((draw_report(s) + draw_graph(s) + draw_timeline(s)).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code, str(EXAMPLE)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "4321")
    }
    assert len(digests) == 1


def test_the_tree_has_a_parent_and_an_order_for_every_item() -> None:
    found = shown(example())
    tree, names = found["tree"], found["nodes"]["names"]
    items = len(tree["labels"]) + len(names)
    assert len(tree["parent"]) == items
    assert sorted(tree["order"]) == list(range(items))
    assert len(tree["folded"]) == len(tree["host"]) == len(set(tree["folded"]))


def test_every_edge_that_crosses_names_the_transfer_that_carries_it() -> None:
    scene = example()
    edges, transfers = shown(scene)["edges"], scene.partitions
    device = shown(scene)["nodes"]["device"]
    cut, fed = scene.partitions, {name.partition(":")[0] for name in scene.step.feeds}
    carried = 0
    for src, dst, tensor, transfer in zip(edges["src"], edges["dst"], edges["tensor"], edges["transfer"], strict=True):
        if transfer >= 0:
            carried += 1
            assert transfers.tensor[transfer] == (tensor if tensor >= 0 else -1 - src)
            made = scene.cluster.client if scene.graph.names[src] in fed else device[src]
            assert transfers.src_device[transfer] == made != device[dst] == transfers.dst_device[transfer]
    readers = set(cut.graph.edge_src[cut.endpoint[cut.graph.edge_dst] >= 0].tolist())
    inside = ~np.isin(cut.recv, list(readers))  # the others bring the client what it fetches
    assert set(edges["transfer"]) - {-1} == set(np.flatnonzero(inside).tolist())
    assert carried >= len(scene.trace.transfers.row) == len(cut.recv)


def test_the_tables_add_up() -> None:
    scene = example()
    assert [row.busy_ns for row in devices(scene)] == scene.trace.busy_ns.tolist()
    by_category = time_by_category(scene)
    assert [sum(column) for column in zip(*by_category.values(), strict=True)] == scene.trace.busy_ns.tolist()
    assert sum(share.nanos for share in critical_shares(scene)) == scene.trace.makespan
    assert moved_bytes(scene) == sum(max(0, int(n)) for n in scene.partitions.nbytes)
    lengths = [row.took_ns for row in longest_transfers(scene)]
    assert lengths == sorted(lengths, reverse=True)


def test_attributes_are_those_of_the_file_in_a_line_each() -> None:
    scene = example()
    held = shown(scene)["nodes"]["attributes"]
    row = scene.graph.index["conv1/Conv2D"]
    said = [held["texts"][at] for at in held["sets"][held["set"][row]]]
    assert "strides: [1, 1, 1, 1]" in said
    assert "T: float32" in said
    assert any(text.startswith("padding: ") for text in said)
    strange = AttrValue(f=float("inf")), AttrValue(s=b"\xff" * 999), AttrValue(), AttrValue()
    strange[3].list.i.extend(range(99))
    attrs = [dict(zip("abcd", strange, strict=True)), *scene.graph.attrs[1:]]
    held = shown(replace(scene, graph=replace(scene.graph, attrs=tuple(attrs))))["nodes"]["attributes"]
    said = [held["texts"][at] for at in held["sets"][held["set"][0]]]
    assert said[0] == "a: inf"
    assert len(said[1]) < 210
    assert said[2:] == ["c: ", "d: [0, 1, 2, 3, 4, 5, 6, 7, ...]"]


def test_a_scene_without_a_critical_path_is_drawn_too() -> None:
    scene = example()
    found = shown(replace(scene, trace=replace(scene.trace, critical=None)))
    assert found["critical"] is None
    assert found["tables"]["critical"] == []
    assert draw_report(replace(scene, trace=replace(scene.trace, critical=ids([]))))


def test_memory_curves_keep_their_peaks_when_they_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viz.page.time_content.MAX_MEMORY_POINTS", 20)
    monkeypatch.setattr("viz.page.time_content.FEWEST_MEMORY_POINTS", 4)
    scene = example()
    for device, curve in enumerate(shown(scene)["memory"]["curves"]):
        mine = scene.trace.memory_bytes[scene.trace.memory_device == device]
        assert len(curve["bytes"]) <= 8
        assert max(curve["bytes"], default=0) == (mine.max() if len(mine) else 0)


def test_scripts_are_written_for_readers() -> None:
    page = Page(draw_report(example()))
    lines = page.texts["script", "module"].splitlines()
    assert max(map(len, lines)) < 320
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", "\n".join(lines)
    )


def test_no_text_of_the_script_spans_lines_so_that_indents_can_be_left_out() -> None:
    folder = resources.files("viz") / "assets"
    for name in SCRIPTS:
        lines = (folder / name).read_text("utf-8").splitlines()
        assert [line for line in lines if line.count("`") % 2 or line.endswith("\\")] == []
    style = (folder / "report.css").read_text("utf-8")
    assert [line for line in style.splitlines() if line.strip().startswith("//")] == []
    assert lean("  a\n\n  // b\n\tc // d\n") == "a\nc // d"
