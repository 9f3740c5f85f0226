"""The end of what the tests of a file share."""

from collections.abc import Iterator

import pytest

from tests.oracle import staying


@pytest.fixture(scope="module", autouse=True)
def _no_process_stays_longer_than_its_file() -> Iterator[None]:
    yield
    staying.end()
