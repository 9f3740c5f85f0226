"""The report: a scene as one HTML file with graph, timeline, memory and tables, without network or server.

The page carries the scene as JSON, deflated and in base64, in an element that browsers do not run. Its code draws on
canvases and writes text as text nodes only. A policy in the page allows only its own script and style, by their hashes,
so that no name in a graph file can run as code.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import zlib
from functools import cache
from importlib import resources

from viz.page.content import contents
from viz.scene import Scene

# Joined into one script in this order; each file names at its top the files that it needs.
SCRIPTS = (
    "format.js",
    "timeline.js",
    "model.js",
    "canvas.js",
    "layers.js",
    "edges.js",
    "boxes.js",
    "routes.js",
    "graph_drawing.js",
    "graph_view.js",
    "timeline_drawing.js",
    "timeline_window.js",
    "timeline_step.js",
    "cards.js",
    "devices.js",
    "edge_panel.js",
    "transfer_panel.js",
    "panel.js",
    "search.js",
    "training_charts.js",
    "training_bands.js",
    "timeline_training.js",
    "training.js",
    "main.js",
)
LEVEL = 6  # zlib's default: a tenth smaller than 3 at little cost


def draw_report(scene: Scene) -> str:
    """One HTML document that shows the scene; equal scenes give equal text."""
    text = json.dumps(contents(scene), ensure_ascii=False, separators=(",", ":"))
    # Names may hold lone surrogates when a caller made the graph in memory: they are shown as "?".
    packed = base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), LEVEL)).decode()
    page, style, script = _assets()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    title = html.escape(scene.title)
    return _filled(page, {"title": title, "policy": policy, "style": style, "script": script, "scene": packed})


@cache
def _assets() -> tuple[str, str, str]:
    """The page, its style and its script."""
    folder = resources.files("viz") / "assets"
    script = "\n".join((folder / name).read_text("utf-8") for name in SCRIPTS)
    return (folder / "report.html").read_text("utf-8"), (folder / "report.css").read_text("utf-8"), script


def _filled(page: str, values: dict[str, str]) -> str:
    """The page with each `<!--simviz:name-->` replaced, in one pass, so that no value is searched in its turn."""
    pieces = page.split("<!--simviz:")
    filled = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("-->")
        filled += [values[name], rest]
    return "".join(filled)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
