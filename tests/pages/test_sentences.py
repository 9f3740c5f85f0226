"""A page is read once: no sentence of a page or of a docstring is long."""

from __future__ import annotations

import ast

import pytest

from tests.pages.reading import PAGES, ROOT, sentences, words
from tests.test_architecture import modules

LONG = 25  # words: nobody reads a longer sentence once
README = 25
LONGEST_README = 90  # lines
LONGEST_RESULTS = 2_000  # lines: who looks for one figure should not meet ten that it replaced


def long_ones(text: str, most: int = LONG) -> list[str]:
    """The sentences with more words than `most`."""
    return [sentence for sentence in sentences(text) if words(sentence) > most]


def test_the_readme_is_a_screen_and_a_half_of_short_sentences() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert long_ones(text, README) == []
    assert len(text.splitlines()) <= LONGEST_README


def test_new_figures_take_the_place_of_old_ones() -> None:
    assert len((ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8").splitlines()) <= LONGEST_RESULTS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_have_no_long_sentences(page: object) -> None:
    assert long_ones((ROOT / str(page)).read_text(encoding="utf-8")) == []


def test_docstrings_have_no_long_sentences() -> None:
    """An item of a list ends where the next begins, as in a page."""
    kinds = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    found = []
    for name, (_, _, tree) in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, kinds):
                text = ast.get_docstring(node) or ""
                found += [f"{name}, {getattr(node, 'name', '')}: {one}" for one in long_ones(text)]
    assert found == []


def test_sentences_and_their_words_are_counted() -> None:
    text = "# A head\n\nOne `a. b` two. Three\nfour:\n\n    code. code\n\n- five six\n- seven\n\n| a b | c |\n"
    assert list(sentences(text)) == ["A head", "One `a__b` two.", "Three four:", "five six", "seven", "a b", "c"]
    assert words("One `a__b` -> [two](x), three.") == 4
