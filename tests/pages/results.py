"""Write what the commands, the Python and the examples of the pages print now, where it differs from what they show.

    python -m tests.pages.results

An output that an ellipsis shortens is written whole when it differs: shorten it again by hand.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.pages.reading import INDENT, PAGES, ROOT, Output, commands, python_blocks
from tests.pages.test_commands import differences
from viz.command.cli import main


def printed_by(command: Output) -> str:
    """What a command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(shlex.split(command.source)[1:])
    return out.getvalue()


def refresh(page: Path) -> bool:
    """Write the outputs of a page anew where they differ; whether any does."""
    text = page.read_text(encoding="utf-8")
    changes = []
    for command in commands(text):
        printed = printed_by(command)
        if differences(command, printed):
            changes.append((_indented(command.printed), _indented(printed)))
    known: dict[str, object] = {}
    for block in python_blocks(text):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(block.source, page.name, "exec"), known)
        if differences(block, out.getvalue()):
            changes.append((block.printed, out.getvalue()))
    for before, after in changes:
        if text.count(before) != 1:
            print(f"{page.name}: write by hand:\n{after}")
            continue
        text = text.replace(before, after)
    page.write_text(text, encoding="utf-8")
    return bool(changes)


def _indented(printed: str) -> str:
    return "".join(f"{INDENT}{line}\n" for line in printed.splitlines())


def write() -> None:
    """Refresh all pages and examples."""
    for script in sorted((ROOT / "examples").glob("[0-9]*.py")):
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
        script.with_suffix(".out").write_text(done.stdout, encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("examples", "tests"):
            (Path(folder) / name).symlink_to(ROOT / name)
        os.chdir(folder)
        for page in PAGES:
            if refresh(page):
                print(f"Wrote {page.name}.")
        os.chdir(ROOT)


if __name__ == "__main__":
    write()
