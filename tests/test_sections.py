"""Every section that the code cites can be looked up in docs/tensorflow.md."""

from __future__ import annotations

import re

from simulator.assignment import RULES
from tests.test_architecture import ROOT, modules

DOCUMENT = (ROOT / "docs" / "tensorflow.md").read_text(encoding="utf-8")
CITED = re.compile(r"(?<!\d{4}, )§(\d+(?:\.\d+)*)")  # after a year it is a section of that paper
HEADING = re.compile(r"^#+ (\d+(?:\.\d+)*)\.? ", re.MULTILINE)


def unknown(texts: dict[str, str]) -> list[str]:
    """The citations, each with where it stands, that are no heading of the document."""
    headings = set(HEADING.findall(DOCUMENT))
    return [
        f"§{cited} in {where}"
        for where, text in texts.items()
        for cited in CITED.findall(text)
        if cited not in headings
    ]


def test_what_the_code_cites_is_a_heading() -> None:
    assert unknown({name: text for name, (_, text, _) in modules().items()}) == []


def test_what_a_reader_of_the_report_is_told_is_a_heading() -> None:
    assert unknown({rule: rule for rule in RULES}) == []


def test_the_document_cites_itself_rightly() -> None:
    assert len(CITED.findall(DOCUMENT)) > 20
    assert unknown({"docs/tensorflow.md": DOCUMENT}) == []


def test_no_section_stands_twice() -> None:
    headings = HEADING.findall(DOCUMENT)
    assert len(headings) == len(set(headings))
    assert {"1", "2.2", "3.7", "3.9", "4", "5.9", "6"} <= set(headings)


def test_a_citation_of_nothing_is_found() -> None:
    assert unknown({"here": "as in placer.cc, §3.99, and in 2015, §3.2.1"}) == ["§3.99 in here"]
