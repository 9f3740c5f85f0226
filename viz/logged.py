"""What --check LOG finds: our placement beside the one that TensorFlow logged somewhere, without asking TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from simulator.comparison.comparison import compare
from simulator.comparison.placement_log import Logged, read_log
from simulator.errors import SimvizError
from simulator.wording import some
from viz.request import Request
from viz.scene import Scene


def read(path: str | os.PathLike[str]) -> Logged:
    """The log in a file. Raises SimvizError where it cannot be read or says nothing of nodes."""
    name = os.fspath(path)
    try:
        return read_log(Path(name).read_text(encoding="utf-8", errors="replace"), name)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise SimvizError(f"--check {name}: the log cannot be read: {reason}.") from None


def compared(request: Request, scene: Scene, log: Logged) -> Scene:
    """The scene with what the log says beside it. Raises SimvizError where the log names none of the graph's nodes."""
    return replace(scene, check=_answer(request, scene, log))


def _answer(request: Request, scene: Scene, log: Logged) -> Mapping[str, Any]:
    """Any: the JSON object of --check."""
    graph, assignment = scene.graph, scene.assignment
    ambiguous = set(log.ambiguous)
    known = {name: device for name, device in log.placement.items() if name in graph.index}
    if not known and ambiguous & graph.index.keys():
        raise SimvizError(
            f"{log.source} gives several devices to each of the {len(ambiguous)} nodes that it names, as several runs "
            "do. Give the log of one of them."
        )
    if not known:
        raise SimvizError(
            f"{log.source} names none of the {len(graph)} nodes of {scene.title}, but {some(list(log.placement), 3)}: "
            "it is of another graph. Calls are logged as single nodes (--keep-calls), bodies of functions by their own "
            "names."
        )
    found = compare(assignment, known, graph=graph)
    differences = [asdict(one) for one in found.differences if one.theirs]
    return {
        "mode": "log",
        "oracle": "placement log",
        "tensorflow": None,
        "log": log.source,
        "predicts": request.predicts,
        "placement": {"agree": found.agree, "of": len(known), "raw": None},
        "log_order": None,
        "partition": None,
        "differences": differences,
        "only_ours": [name for name in graph.names if name not in known and name not in ambiguous],
        "only_logged": [name for name in log.placement if name not in graph.index],
        "ambiguous": list(log.ambiguous),
        "eager": log.eager,
        "no_devices": sorted(set(known.values()) - set(assignment.devices)),
        "laws": [],
        "refused": None,
    }
