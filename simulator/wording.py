"""Parts of sentences in errors and notes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

MAX_NEAR = 200  # characters: the comparison of longer names costs their square
MAX_COMPARED = 5000  # names
MOST_NEAR = 3  # names that a question can carry
LISTED = 8  # names that a sentence can carry
MAX_TEXT = 600  # characters of an error: two long sentences
MAX_WORD = 100  # characters of a name in a sentence: paths and names of nodes are rarely longer
# A quotation begins behind no letter, as an apostrophe does. It holds its own mark only behind a backslash.
_LONG = re.compile(rf"(?<!\w)(['\"])(?:\\.|(?!\1)[^\n\\]){{{MAX_WORD},}}\1(?!\w)|\S{{{MAX_WORD + 1},}}")


def near(name: str, names: Sequence[str]) -> str:
    """A clause " Did you mean 'a' or 'b'?" with the nearest names in any case, or ""."""
    from difflib import get_close_matches

    if not isinstance(name, str) or len(name) > MAX_NEAR:  # a notebook can ask for anything
        return ""
    distance = 4 if len(names) > MAX_COMPARED else MAX_NEAR  # among many, only names of about this length
    pool = [n for n in names if abs(len(n) - len(name)) < distance][:MAX_COMPARED]
    cases: dict[str, list[str]] = {}
    for one in dict.fromkeys(pool):
        cases.setdefault(one.lower(), []).append(one)
    same = [name.lower()] if name.lower() in cases else []
    found = same or get_close_matches(name.lower(), cases, n=MOST_NEAR, cutoff=0.6)
    return meant([one for lower in found for one in cases[lower]])


def choices(name: object, names: Sequence[str]) -> str:
    """ "a, b and 3 more. Did you mean 'b'?": the names that exist, of many the first, and those nearest to another."""
    return f"{some(names)}.{near(name, names) if isinstance(name, str) else ''}"


def meant(names: Sequence[str]) -> str:
    """A clause " Did you mean 'a' or 'b'?" with the first of the names; "" without names."""
    return f" Did you mean {' or '.join(map(repr, names[:MOST_NEAR]))}?" if names else ""


def some(names: Sequence[str], most: int = LISTED) -> str:
    """ "a, b and 3 more": the first names, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def most_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Names and their counts, the largest first, ties by name."""
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))


def by_count(counts: Mapping[str, int], most: int = LISTED) -> str:
    """ "Foo 3, Bar 1 and 2 more": the most frequent first, ties by name."""
    return some([f"{name} {count}" for name, count in most_first(counts)], most)


def repr_of(value: object, *facts: str) -> str:
    """ "<Graph: 3 nodes, 2 edges>": what `repr` says of a table, whose columns nobody could read in one line."""
    return f"<{type(value).__name__}: {', '.join(shortened(fact) for fact in facts)}>"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines with their columns below one another; the last cell of a row may be of any length."""
    columns = range(max(map(len, rows)) - 1)
    wide = [max(len(row[column]) for row in rows if column < len(row) - 1) for column in columns]
    return ["  ".join([*map(str.ljust, row[:-1], wide), row[-1]]).rstrip() for row in rows]


def shortened(text: str) -> str:
    """The text printable and in one line, cut in the middle where it has more than 80 characters."""
    shown = printable(text[:320] + text[-80:] if len(text) > 400 else text)
    return shown if len(shown) <= 80 else f"{shown[:54]}…{shown[-25:]}"


def cut_off(text: str, most: int) -> str:
    """The text, or its beginning with an ellipsis where it is longer than `most`."""
    return text if len(text) <= most else text[: most - 1] + "…"


def ending(name: str, most: int = 56) -> str:
    """The end of a name that is longer than `most`, where the op is: "...block/MatMul"."""
    return name if len(name) <= most else "..." + name[3 - most :]


def counted(number: int, noun: str) -> str:
    """ "1 node", "3,000 nodes"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def brief(text: str) -> str:
    """The text without the middle of each word or quotation longer than MAX_WORD, and of all that exceeds MAX_TEXT."""
    short = _LONG.sub(lambda found: f"{found[0][: MAX_WORD * 2 // 3]}...{found[0][-MAX_WORD // 4 :]}", text)
    return short if len(short) <= MAX_TEXT else f"{short[: MAX_TEXT * 2 // 3]} ... {short[5 - MAX_TEXT // 3 :]}"


def printable(text: str) -> str:
    """The text for a terminal: characters that it cannot print become escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
