"""The limits that docs/limits.md names are those of the code, in the order of the page."""

from __future__ import annotations

import re

from simulator import wording
from simulator.graph.tensors import MAX_RANK
from simulator.limits import TABLE
from tests.pages.reading import ROOT


def test_the_page_tells_the_limits_of_the_code() -> None:
    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8").partition("\n## Sizes\n")[2]
    told = re.findall(r"^\| `([a-z-]+)` \| (.*) \| ([\d,]+) \| ([\d,]+) \|$", page, re.MULTILINE)
    assert told == [(one.name, one.what, f"{one.default:,}", f"{one.end:,}") for one in TABLE.values()]
    assert f"at most {MAX_RANK} dimensions" in page
    assert f"at most {wording.MAX_TEXT} characters" in page
