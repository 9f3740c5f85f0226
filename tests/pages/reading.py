"""Read a page of Markdown: its sentences, its blocks of Python, its commands, the files that it names.

A block of Python is fenced with "```python"; a fenced block without a language right below it is what it prints.
A command is the first line of an indented block, after "$ "; the lines below it are what the command prints. An
ellipsis in either output stands for any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
INDENT = "    "
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```\n", re.MULTILINE | re.DOTALL)  # within an item it is indented
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.) |^\S+ {2,}(?=\S)")  # of a list, or of words and meanings
_END = re.compile(r"[.!?][\"')*_]*(?=\s+(?:simviz|[^a-z])|$)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NAME = re.compile(r"`([\w.{},*-]+(?:/[\w.{},*=-]*)+)`")


class Output(NamedTuple):
    """What was written, and what it should print."""

    line: int
    source: str
    printed: str


def python_blocks(text: str) -> list[Output]:
    """The blocks of Python of a page, in order."""
    found: list[Output] = []
    end = 0
    for block in _FENCE.finditer(text):
        content, language = dedent(block[3]), block[2]
        if language == "python":
            found.append(Output(text[: block.start()].count("\n") + 1, content, ""))
        elif not language and found and not text[end : block.start()].strip() and not found[-1].printed:
            found[-1] = found[-1]._replace(printed=content)
        end = block.end()
    return found


def commands(text: str) -> list[Output]:
    """The commands of a page, in order."""
    lines = text.split("\n")
    found = []
    for row, line in enumerate(lines):
        if line.startswith(f"{INDENT}$ "):
            printed = list(takewhile(lambda line: line.startswith(INDENT), lines[row + 1 :]))
            found.append(Output(row + 1, line[6:], "".join(f"{line[4:]}\n" for line in printed)))
    return found


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page: no code, no pictures; an item of a list, a heading and a cell of a table end one."""
    for paragraph in paragraphs(_FENCE.sub("\n", text)):
        plain = re.sub(r"!\[[^]]*\]\([^)]*\)", "", paragraph)
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", plain)
        plain = re.sub(r"`[^`]*`", lambda code: re.sub(r"[\s.!?]", "_", code.group()), plain)
        begin = 0
        for end in _END.finditer(plain):
            yield plain[begin : end.end()].strip()
            begin = end.end()
        if plain[begin:].strip():
            yield plain[begin:].strip()


def paragraphs(text: str) -> Iterator[str]:
    """What stands together, each in one line."""
    held: list[str] = []
    for line in [*text.split("\n"), ""]:
        table, heading = line.startswith("|"), line.startswith("#")
        if held and (not line.strip() or table or heading or _ITEM.match(line)):
            yield " ".join(held)
            held = []
        if table:
            yield from (cell.strip() for cell in line.strip("|").split("|"))
        elif heading:
            yield line.lstrip("# ")
        elif line.strip() and (held or not line.startswith(INDENT)):
            held.append(_ITEM.sub("", line).strip())


def words(sentence: str) -> int:
    """How many words a sentence has; what is written as code counts as one."""
    return sum(any(char.isalnum() for char in word) for word in sentence.split())


def links(text: str) -> list[str]:
    """Where the links of a page lead, without those to other sites."""
    return [link for link in _LINK.findall(text) if "://" not in link]


def paths(text: str) -> list[str]:
    """The files and folders that a page names in code: `simulator/bounds.py`, `simulator/cluster/`."""
    return [name for name in _NAME.findall(text) if name.split("/")[0] in TOPS]


TOPS = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((".", "_"))} | {".ci"}
