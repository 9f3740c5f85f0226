"""The example's results are those in the files; `python -m tests.golden.results` writes them anew."""

import pytest

from tests.golden.results import HERE, results


@pytest.mark.parametrize("name", list(results()))
def test_the_result_is_the_one_on_file(name: str) -> None:
    assert results()[name].splitlines() == (HERE / name).read_text(encoding="utf-8").splitlines()
