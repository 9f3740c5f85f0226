"""What `combining.py` draws of each graph beside figures: feeds, pins, predicates, measured times, observed steps."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from combining_running import ROOT

from simulator import load
from simulator.errors import SimvizError
from tests.fuzzing.materials import profiles

OBSERVED_BYTES, OBSERVED_S = 60_000, 60  # of larger graphs none is observed; a step of a small one takes some ten
PINNED_ON = ("GPU:0", "GPU:1", "CPU:0", "worker:0/CPU:0", "worker:0/GPU:0", "ps:0/CPU:0")


@dataclass(frozen=True)
class Material:
    """Values of options that name something of a graph, or a file; none where the graph has no such thing."""

    values: Mapping[str, Sequence[str]]

    def some(self, option: str, random: Random) -> str | None:
        """A value of an option."""
        found = self.values.get(option, ())
        return random.choice(found) if found else None


def material(path: Path, folder: Path) -> Material:
    """The values that a graph offers. Files are written into the folder."""
    profile = folder / "host.toml"
    profile.write_bytes(profiles()[0])
    values: dict[str, Sequence[str]] = {"--profile": (str(profile),)}
    try:
        graph = load(str(path))
    except SimvizError:
        return Material(values)
    scopes = sorted({name.split("/")[0] for name in graph.names})[:12]
    values["--pin"] = [f"{scope}={device}" for scope in scopes for device in PINNED_ON]
    feeds, predicates = list[str](), set[str]()
    for row, (name, op) in enumerate(zip(graph.names, graph.ops, strict=True)):
        sources = graph.inputs_of(row)
        if op == "Switch" and len(sources) > 1:
            predicates.add(sources[1].partition(":")[0])
        if op in ("Placeholder", "PlaceholderWithDefault", "PlaceholderV2"):
            shape = graph.tensor_shape[graph.tensor_ptr[row]]
            if shape and all(size >= 0 for size in shape[1:]):
                feeds += [f"{name}={','.join(map(str, (batch, *shape[1:])))}" for batch in (3, 8)]
    values["--feed"] = feeds
    values["--branch"] = [f"{name}={way}" for name in sorted(predicates)[:8] for way in ("true", "false", "0.5")]
    times = [f"{name},{kind},{1000 + 7 * at}" for at, name in enumerate(graph.names) for kind in ("CPU", "GPU")
             if at % 3 == 0 and "," not in name]  # fmt: skip
    costs = folder / f"{path.name}.times.csv"
    costs.write_text("\n".join(["node,kind,ns", *times]))
    values["--costs"] = (str(costs),)
    if path.stat().st_size <= OBSERVED_BYTES:
        values["--observation"] = observed(path, folder)
    return Material(values)


def observed(path: Path, folder: Path) -> Sequence[str]:
    """The file of a step of the graph that this machine's TensorFlow ran; none if it could not.

    Either is found in the folder if an earlier run left it there.
    """
    file, failed = folder / f"{path.name}.observed", folder / f"{path.name}.not_observed"
    if not file.exists() and not failed.exists():
        command = [sys.executable, "-m", "viz", str(path), "--observe", str(file), "--quiet"]
        try:
            ended = subprocess.run(command, cwd=ROOT, timeout=OBSERVED_S, capture_output=True, check=False)
        except subprocess.TimeoutExpired:
            ended = None
        if ended is None or ended.returncode != 0:
            file.unlink(missing_ok=True)
            failed.touch()
    return (str(file),) if file.exists() else ()
