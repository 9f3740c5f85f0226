"""The page: how well the graph reads when it opens, how soon it is there, how large the file is.

    python benchmarks/page.py FOLDER...          every graph in the folders, at 1920, 1400, 800 and 500 pixels
    python benchmarks/page.py --sizes FOLDER...  files, first pictures and comparisons alone, without the score
    python benchmarks/page.py --frames GRAPH     frames per second of the timeline, by the trips of the loops of a graph

A folder may be a graph, too. The graph of eight towers is written by benchmarks/graphs.py. A comparison is the page
with the run of heft beside it (`--against heft`).

The score (page.js) listens to the canvas: whatever the page strokes is an edge, whatever it writes is a label. So it
asks nothing of the code that it judges, and an older page can be measured by the same rule:

- *foreign*: edges that run through a box at neither of their ends;
- *overlaps*: pairs of labels whose ink overlaps;
- *font*: the smallest letters, in pixels of the screen;
- *whole*: whether all of the picture is in sight;
- *spanned*, *covered*: the share of the pane from the first box to the last, and that of the boxes alone;
- *bends*: right angles that an edge turns by, on average;
- *cut*: labels that end in an ellipsis.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from simulator.errors import SimvizError
from simulator.execution.options import SimulationOptions
from tests.viz.conftest import started
from viz import draw_report
from viz.command.request import Request
from viz.command.running import run
from viz.scene import Scene

SIZES = ((1920, 1080), (1400, 900), (800, 700), (500, 900))
SUFFIXES = (".pb", ".pbtxt", ".meta")
REPEATS = 5

# Runs before the page does: the time from the start of the navigation to the first picture.
FIRST = """
new MutationObserver((_, watching) => {
  if (!document.documentElement?.dataset.ready) return;
  watching.disconnect();
  requestAnimationFrame(() => requestAnimationFrame(() => (window.firstPicture = performance.now())));
}).observe(document, { subtree: true, attributes: true, childList: true });
"""

SCORE = Path(__file__).with_suffix(".js").read_text("utf-8")


def graphs(folders: list[Path]) -> Iterator[Path]:
    """Files of the folders with a suffix of graphs, in order of their names, and files that are named themselves."""
    for folder in folders:
        found = [folder] if folder.is_file() else folder.iterdir()
        yield from sorted(path for path in found if path.suffix in SUFFIXES)


def cluster_of(path: Path) -> str | None:
    """The machine that a published graph was made for, by the number of GPUs in its name; None: simviz chooses."""
    parts = path.stem.split("_")
    if path.parent.name != "published":
        return None
    return f"{parts[1]}p100" if len(parts) > 3 and parts[1].isdigit() else "1p100"


class Report(NamedTuple):
    """The pages of a graph."""

    name: str
    nodes: int
    page: Path
    python_s: float  # of the processor, to draw the page
    compared: Path  # the page with a second run
    compared_s: float


def reports(paths: Iterator[Path], folder: Path) -> Iterator[Report]:
    """The pages of each graph that can be drawn."""
    for path in paths:
        cluster = cluster_of(path)
        how: dict[str, Any] = {"cluster": cluster} if cluster else {}
        try:
            request = Request(str(path), algorithm="tensorflow" if cluster else "requested", **how)
            scene, both = run(request), run(replace(request, against="heft"))
        except SimvizError:
            continue  # no graph, or one that is refused
        page, compared = folder / f"{path.name}.html", folder / f"{path.name}.compared.html"
        yield Report(path.stem, len(scene.graph), page, drawn(scene, page), compared, drawn(both, compared))


def drawn(scene: Scene, page: Path) -> float:
    """Write the page of a run; seconds of Python's processor."""
    before = time.process_time()
    text = draw_report(scene)
    took = time.process_time() - before
    page.write_text(text, "utf-8", "replace")
    return took


def visit(browser: Any, page: Path) -> float:
    """Seconds from the start of the navigation to the first picture."""
    browser.get(page.as_uri())
    while not (took := browser.execute_script("return window.firstPicture")):
        time.sleep(0.01)
    return float(took) / 1000


# Frames per second while the timeline moves for two seconds, the slowest frame in ms, and slices.
FRAMES = """
const [zoom, critical, done] = arguments;
const { timeline, state, model } = simviz;
state.set({ critical });
timeline.fit();
timeline.zoom(zoom);
let [frames, begin, last, slowest] = [0, null, null, 0];
requestAnimationFrame(function tick(now) {
  if (begin === null) begin = now;
  else slowest = Math.max(slowest, now - last);
  last = now;
  if (now - begin > 2000) return done([(1000 * frames) / (now - begin), slowest, model.timeline.lane.length]);
  timeline.move(frames++ % 40 < 20 ? 25 : -25, 0);
  requestAnimationFrame(tick);
});
"""
TRIPS = (20, 170, 500, 1000)
ZOOMS = (1, 4, 30)


def frames(path: Path) -> None:
    """Print a row for each number of trips: frames per second by zoom, and with the critical path."""
    head = " | ".join([f"fps at {zoom}x" for zoom in ZOOMS] + ["with the critical path", "slowest frame ms"])
    print(f"| slices | {head} |\n|{'---|' * (len(ZOOMS) + 3)}")
    with TemporaryDirectory() as scratch:
        browser = started(Path(scratch) / "profile")
        try:
            browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": FIRST})
            for trips in TRIPS:
                options = SimulationOptions(trips={"*": trips}, engine="compiled")
                page = Path(scratch) / f"{trips}.html"
                page.write_text(
                    draw_report(run(Request(str(path), algorithm="requested", simulation=options))), "utf-8"
                )
                visit(browser, page)
                rows = [browser.execute_async_script(FRAMES, zoom, False) for zoom in ZOOMS]
                rows.append(browser.execute_async_script(FRAMES, 1, True))
                rates = " | ".join(f"{rate:.0f}" for rate, _, _ in rows)
                print(f"| {rows[0][2]:,} | {rates} | {max(slowest for _, slowest, _ in rows):.0f} |", flush=True)
        finally:
            browser.quit()


def main(folders: list[Path], *, scored: bool = True) -> None:
    """Print a row per graph and width where it is scored, then a row per graph."""
    with TemporaryDirectory() as scratch:
        browser = started(Path(scratch) / "profile")
        try:
            browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": FIRST})
            pages = list(reports(graphs(folders), Path(scratch)))
            if scored:
                score(browser, pages)
            sizes(browser, pages)
        finally:
            browser.quit()


def score(browser: Any, pages: list[Report]) -> None:
    """Print how well each graph reads at each width."""
    print("| graph | width | whole | boxes | edges | foreign | overlaps | font px | spanned | covered | bends | cut |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for width, height in SIZES:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for report in pages:
            visit(browser, report.page)
            print(row(report.name, width, browser.execute_async_script(SCORE)), flush=True)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    print()


def sizes(browser: Any, pages: list[Report]) -> None:
    """Print how large the files of each graph are, how long Python takes for them, and how soon they are drawn."""
    print(
        "| graph | nodes | Python s | file KiB | KiB per 10k nodes | first picture s | with a second run: Python s",
        end="",
    )
    print(" | KiB | times one run | first picture s |\n|---|---|---|---|---|---|---|---|---|---|")
    for report in pages:
        one, both = (page.stat().st_size / 1024 for page in (report.page, report.compared))
        first, second = (
            statistics.median(visit(browser, page) for _ in range(REPEATS)) for page in (report.page, report.compared)
        )
        print(
            f"| {report.name} | {report.nodes} | {report.python_s:.2f} | {one:.0f} | {one * 1e4 / report.nodes:.0f} "
            f"| {first:.2f} | {report.compared_s:.2f} | {both:.0f} | {both / one:.2f} | {second:.2f} |",
            flush=True,
        )


def row(name: str, width: int, found: dict[str, Any]) -> str:
    """A line of the table of scores."""
    font = "" if found["font"] is None else f"{found['font']:.1f}"
    if found["lying"]:
        print(name, width, found["lying"], file=sys.stderr)
    return (
        f"| {name} | {width} | {'yes' if found['whole'] else 'no'} | {found['boxes']} | {found['edges']} "
        f"| {found['foreign']} | {found['overlaps']} | {font} "
        f"| {found['spanned']:.0%} | {found['covered']:.0%} | {found['bends']:.1f} | {found['cut']} |"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--frames"]:
        frames(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["--sizes"]:
        main([Path(argument) for argument in sys.argv[2:]], scored=False)
    else:
        main([Path(argument) for argument in sys.argv[1:]])
