"""Ctrl-C at every moment of a short run: how often the command ends with a line, without a word, or with a traceback.

    python benchmarks/interrupting.py [--script FILE] [--until MS] [--times N] [-- OPTION...]

A process is sent SIGINT after 0, 5, 10 ... ms, several times each. Until Python has started and called the first
function of simviz, it is Python's own affair what becomes of the signal: it ends without a word or with Python's
traceback.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINE = b"simviz: interrupted"
OURS = re.compile(rb"/(viz|simulator|placement)/[a-z_/]+\.py")


def ended(command: list[str], folder: str, after_s: float) -> str:
    """How the command ends that is interrupted after so many seconds."""
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(max(0.0, start + after_s - time.perf_counter()))
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    if b"Traceback" in said or b"Exception ignored" in said:
        if OURS.search(said):
            print(said.decode())
            return "traceback through simviz"
        return "traceback of Python's start"
    if said.startswith(LINE) and said.count(b"\n") == 1:
        return "line"
    if not said:
        return {0: "had ended", -signal.SIGINT: "no word"}.get(process.returncode, f"code {process.returncode}")
    return f"other: {said[:200]!r}"


def main() -> None:
    """Print, for each way to end, how often it came and between which moments."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--begin", type=int, default=0, metavar="MS")
    options.add_argument("--until", type=int, default=300, metavar="MS")
    options.add_argument("--every", type=int, default=5, metavar="MS")
    options.add_argument("--times", type=int, default=10)
    options.add_argument("--script", help="the installed command instead of python -m viz")
    options.add_argument("options", nargs="*", help="of the command, after --")
    asked = options.parse_args()
    command = [asked.script] if asked.script else [sys.executable, "-m", "viz"]
    command += [str(ROOT / "examples" / "ps_training.pbtxt"), *asked.options]
    found: Counter[str] = Counter()
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        for after_ms in range(asked.begin, asked.until + 1, asked.every):
            for _ in range(asked.times):
                way = ended(command, folder, after_ms / 1000)
                found[way] += 1
                first.setdefault(way, after_ms)
                last[way] = after_ms
    for way, count in found.most_common():
        print(f"{count:5}  {way}, after {first[way]} to {last[way]} ms")


if __name__ == "__main__":
    main()
