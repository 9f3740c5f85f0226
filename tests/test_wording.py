"""Parts of sentences."""

from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import SimvizError
from simulator.wording import (
    MAX_COMPARED,
    MAX_NEAR,
    MAX_TEXT,
    MAX_WORD,
    brief,
    by_count,
    choices,
    counted,
    near,
    printable,
    some,
)


def test_a_long_list_says_how_much_is_left_out() -> None:
    assert some([]) == ""
    assert some(["a", "b", "c"], 3) == "a, b, c"
    assert some(["a", "b", "c", "d", "e"], 3) == "a, b, c and 2 more"


def test_counts_are_ranked_and_ties_go_by_name() -> None:
    assert by_count({"b": 1, "a": 1, "c": 5}, 2) == "c 5, a 1 and 1 more"


def test_one_is_no_plural() -> None:
    assert [counted(number, "node") for number in (0, 1, 3000)] == ["0 nodes", "1 node", "3,000 nodes"]


def test_near_names_are_proposed() -> None:
    assert near("weigths", ("bias", "weights")) == " Did you mean 'weights'?"
    assert near("WEIGHTS", ("bias", "weights")) == " Did you mean 'weights'?"
    assert near("add", ("Add", "ADD", "add", "mul")) == " Did you mean 'Add' or 'ADD' or 'add'?"
    assert near("nothing", ("bias", "weights")) == ""
    assert near("x" * (MAX_NEAR + 1), ("x" * MAX_NEAR,)) == ""
    assert near("node_10", [f"node_{row}" for row in range(MAX_COMPARED + 1)]).startswith(" Did you mean 'node_10'")


@given(st.lists(st.text("ab '", max_size=400)).map(" ".join))
def test_a_word_or_a_quotation_has_an_end(text: str) -> None:
    assert max(map(len, brief(text).split()), default=0) <= MAX_WORD
    said = "the node '" + "n " * 5000 + "' isn't there, and it doesn't matter"
    assert len(brief(said)) < MAX_WORD + 50
    assert brief(said).endswith("n ' isn't there, and it doesn't matter")
    assert brief("short 'quotations' stay") == "short 'quotations' stay"


@given(st.text("ab '\"\\\n", max_size=3000))
def test_no_text_is_longer_than_two_sentences(text: str) -> None:
    short = brief(text)
    assert len(short) <= MAX_TEXT
    assert len(brief(f"the node {text!r} is not there")) < MAX_WORD + 50
    assert short.startswith(brief(text[:50])[:40])
    assert len(str(SimvizError(", ".join(["name"] * 9999)))) == MAX_TEXT


def test_of_many_names_eight_and_the_nearest_are_told() -> None:
    names = [f"name{row}" for row in range(99)]
    assert choices("name_98", names).endswith("name7 and 91 more. Did you mean 'name98' or 'name9' or 'name8'?")
    assert choices(None, ["a", "b"]) == "a, b."


def test_a_terminal_is_told_nothing_by_a_name() -> None:
    assert printable("a\x1b[2J\u202eb\n\ud800é") == "a\\x1b[2J\\u202eb\\n\\ud800é"
