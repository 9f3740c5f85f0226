"""Every section that the code cites can be looked up in docs/tensorflow.md."""

from __future__ import annotations

import re

from placement.algorithms import TABLE
from simulator.assignment import COST, RULES, SENTENCES
from tests.test_architecture import FLOORS, ROOT
from viz.page.report import cited

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
    texts = {str(path): path.read_text("utf-8") for floor in FLOORS for path in (ROOT / floor).rglob("*.py")}
    assert len(texts) > 40
    assert unknown(texts) == []


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


def section(number: str) -> str:
    """The words of a section of the document, without marks."""
    text = DOCUMENT.partition(f"\n### {number.removeprefix('§')} ")[2]
    return " ".join(re.sub(r"[*`]", "", re.split(r"\n##", text)[0]).split())


def test_each_rule_is_cited_from_the_sections_that_it_names() -> None:
    for rule, said in enumerate(RULES):
        assert [where for where, _ in SENTENCES.get(rule, ())] == [f"§{one}" for one in CITED.findall(said)], said


def test_each_cited_sentence_stands_in_its_section() -> None:
    for citations in SENTENCES.values():
        for where, said in citations:
            assert said.removesuffix(".") in section(where), said


def test_a_choice_by_cost_is_cited_from_its_algorithm() -> None:
    for name, entry in TABLE.items():
        assert cited(name)[COST] == ((name, entry.help),)
    assert cited("one_of_my_own")[COST] == ()
    assert len(cited("heft")) == len(RULES)
