"""Every file, heading and option that a page names is there, and every option has its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages.reading import PAGES, ROOT, links, paths
from viz.command.options import parser
from viz.formats.drawing import SUFFIXES

SOURCES = ("simulator", "placement", "viz", "benchmarks")
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
DECISIONS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "decisions").glob("*.md"))
FIGURES = "benchmarks/RESULTS.md", "benchmarks/rows.md"
HISTORY = {"CHANGELOG.md"}  # names what was there at the time
TO_WRITE = {  # by the recipes of CONTRIBUTING.md
    "placement/algorithms/in_turn.py",
    "tests/placement/test_in_turn.py",
    "viz/formats/schedule.py",
    "tests/viz/test_schedule.py",
}


def slug(heading: str) -> str:
    """A heading as the end of a link."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", [*NAMES, *DECISIONS, *FIGURES])
def test_links_lead_to_files_and_headings(page: str) -> None:
    wrong = []
    for link in links((ROOT / page).read_text(encoding="utf-8")):
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        headings = {slug(line.lstrip("#")) for line in _lines(target) if line.startswith("#")} if anchor else {""}
        if not target.exists() or anchor not in headings:
            wrong.append(link)
    assert wrong == []


def _lines(target: object) -> list[str]:
    return (ROOT / str(target)).read_text(encoding="utf-8").splitlines()


def test_each_decision_is_listed_once() -> None:
    names = [name.removeprefix("docs/decisions/") for name in DECISIONS if not name.endswith("README.md")]
    listed = set(links((ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")))
    numbers = [name[:4] for name in names]
    assert [number for number in numbers if numbers.count(number) > 1] == []
    assert [name for name in names if name not in listed] == []


def test_the_list_of_decisions_names_what_changed_each() -> None:
    """A record links to those that it changes, or that change it, before its context."""
    changed: dict[str, set[str]] = {}
    for name in DECISIONS:
        number = Path(name).name[:4]
        head, _, _ = (ROOT / name).read_text(encoding="utf-8").partition("**Context")
        if number.isdecimal():
            for other in re.findall(r"\[(\d{4})\]\(", head):
                changed.setdefault(min(number, other), set()).add(max(number, other))
    rows = re.findall(
        r"^\| \[(\d{4})\].*\|([^|]*)\|$", (ROOT / "docs/decisions/README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {number: set(re.findall(r"\d{4}", cell)) for number, cell in rows if cell.strip()} == changed


@pytest.mark.parametrize("page", [*(name for name in NAMES if name not in HISTORY), *DECISIONS, *FIGURES])
def test_files_that_are_named_are_there(page: str) -> None:
    named = set(paths((ROOT / page).read_text(encoding="utf-8"))) - TO_WRITE
    assert (
        sorted(name for name in named if not (list(ROOT.glob(name)) if "*" in name else (ROOT / name).exists())) == []
    )


def test_modules_that_docstrings_and_comments_name_are_there() -> None:
    """A path begins with a folder of ours, in full or from some room on; TensorFlow's begin with others."""
    modules = [f"/{path.relative_to(ROOT).as_posix()}" for top in SOURCES for path in (ROOT / top).rglob("*.py")]
    rooms = {part for module in modules for part in module.split("/")[1:-1]}
    wrong = []
    for module in modules:
        for named in re.findall(r"[\w/]*\w/\w+\.py\b", (ROOT / module[1:]).read_text(encoding="utf-8")):
            known = any(other.endswith(f"/{named.lstrip('/')}") for other in modules)
            if named.strip("/").split("/")[0] in rooms and not known:
                wrong.append(f"{module[1:]}: {named}")
    assert wrong == []


def test_each_option_and_each_format_has_its_line() -> None:
    text = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert [suffix for suffix in SUFFIXES if f"`{suffix}`" not in text or suffix not in parser().format_help()] == []
    known = {option for action in parser()._actions for option in action.option_strings if option.startswith("--")}
    assert sorted(option for option in known if not re.search(rf"`{option}[ `]", text)) == []
    assert set(re.findall(r"`(--[a-z-]+)", text)) <= known


def test_each_word_of_the_glossary_has_one_sentence_and_a_place() -> None:
    rows = [line.strip("| ").split(" | ") for line in _lines("docs/glossary.md") if line.startswith("| ")]
    terms = [row for row in rows if row[0] != "term"]
    assert len(terms) > 60
    assert [row[0] for row in terms if len(row) != 3 or not row[1].endswith(".") or not paths(row[2])] == []
    names = [name for row in terms for name in row[0].split(", ")]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []
