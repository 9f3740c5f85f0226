"""The bytes that a command writes under settings of a machine that no result may depend on.

    python benchmarks/same_bytes.py [GRAPH ...] [--only TEXT]

Each command runs once in a plain environment and once under each setting, in an empty folder. Its standard output, its
exit status and every file are compared with those of the first run. GRAPHs are run in addition to the example.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "ps_training.pbtxt"
PS, HOSTS = ("--cluster", "ps=2,worker=2"), ("--cluster", "worker=2x2gpu", "--ignore-devices")
COMMANDS: Mapping[str, Sequence[str]] = {
    "report and JSON": (*PS, "-o", "a.html", "--json", "a.json"),
    "pictures": (*PS, "-o", "a.svg", "-o", "a.png", "-o", "a.pdf", "-o", "a.dot"),
    "time and memory": (*PS, "-o", "a.timeline.svg", "-o", "a.memory.svg", "-o", "a.trace.json"),
    "graphs": (*PS, "-o", "a.pb", "-o", "a.pbtxt", "-o", "a.partitions"),
    "folders": (*PS, "-o", "a.parquet", "-o", "a.tables", "-o", "a.model_explorer", "-o", "a.tensorboard"),
    "search on two hosts": (*HOSTS, "--budget", "300", "-o", "a.html", "--json", "a.json"),
    "search by default": (*HOSTS, "--json", "a.json"),
    **{f"{name} on two hosts": (*HOSTS, "--algorithm", name, "--json", "a.json") for name in ("heft", "m_sct")},
    "the executor's order": (*PS, "--order", "tensorflow", "--seed", "5", "--json", "a.json"),
    "microbatches": ("--cluster", "2gpu", "--ignore-devices", "--microbatches", "4", "--json", "a.json"),
    "two runs": (*PS, "--against", "ps=2,worker=1", "-o", "a.html", "-o", "a.comparison.svg", "--json", "a.json"),
    "what if": (*PS, "--what-if", "--json", "a.json"),
}
TRAININGS: Mapping[str, Sequence[str]] = {
    "asynchronous training": (*PS, "--training", "async", "--steps", "40", "-o", "a.html", "--json", "a.json"),
    "synchronous training": (*PS, "--training", "sync:aggregate=1", "--steps", "40", "-o", "a.html"),
    "numbers of workers": (*PS, "--training", "async", "--workers", "1,2,4", "--steps", "20", "--json", "a.json"),
}
WITHOUT_TENSORFLOW = "import sys; sys.modules['tensorflow'] = None; from viz.entry import main; sys.exit(main())"
MODULE, HIDDEN = ("-m", "viz"), ("-c", WITHOUT_TENSORFLOW)


class Setting(NamedTuple):
    """Variables of an environment, and how the command is started there."""

    environment: Mapping[str, str]
    start: Sequence[str] = MODULE
    cores: int | None = None  # None: all


SETTINGS: Mapping[str, Setting] = {
    "hash seed": Setting({"PYTHONHASHSEED": "4711"}),
    "threads": Setting({"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}),
    "one core": Setting({}, cores=1),
    "locale": Setting({"LC_ALL": "tr_TR.UTF-8", "LANG": "de_DE.UTF-8", "PYTHONUTF8": "0"}),
    "ASCII alone": Setting({"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}),
    "time zone": Setting({"TZ": "Pacific/Apia"}),
    "terminal": Setting({"COLUMNS": "37", "TERM": "dumb", "NO_COLOR": "1"}),
    "no TensorFlow": Setting({}, HIDDEN),
    "optimised Python": Setting({}, ("-O", *MODULE)),
}


def run(command: Sequence[str], setting: Setting) -> dict[str, bytes]:
    """Run a command in an empty folder, and return what it says and writes, by name."""
    with tempfile.TemporaryDirectory() as folder:
        start = [sys.executable, *setting.start]
        cores = sorted(os.sched_getaffinity(0))[: setting.cores]
        done = subprocess.run(
            [*start, *command],
            cwd=folder,
            env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT), **setting.environment},
            capture_output=True,
            check=False,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        files = {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
    return {"status": str(done.returncode).encode(), "standard output": done.stdout, **files}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", type=Path, help="graphs beside the example; trainings run on that alone")
    parser.add_argument("--only", default="", help="commands with this text in their name")
    options = parser.parse_args()
    cases = {name: (str(EXAMPLE), *command) for name, command in {**COMMANDS, **TRAININGS}.items()}
    for graph in options.graphs:
        cases |= {f"{graph.name}: {name}": (str(graph.resolve()), *command) for name, command in COMMANDS.items()}
    differ = dict.fromkeys(SETTINGS, 0)
    compared = 0
    for name, command in cases.items():
        if options.only not in name:
            continue
        first = run(command, Setting({}))
        compared += 1
        print(f"{name}: status {first['status'].decode()}, {len(first) - 2} files", flush=True)
        for title, setting in SETTINGS.items():
            found = run(command, setting)
            wrong = sorted(key for key in first.keys() | found.keys() if first.get(key) != found.get(key))
            differ[title] += bool(wrong)
            if wrong:
                print(f"  {title}: {', '.join(wrong)}", flush=True)
    print("\n| setting | commands | differ |\n|---|---|---|")
    for title, number in differ.items():
        print(f"| {title} | {compared} | {number} |")


if __name__ == "__main__":
    main()
