"""Shapes of random graphs: what TensorFlow knows, we know; what we know is what the tensors have when they run.

`python benchmarks/shapes.py --graphs 2000` is the long run.
"""

import pytest

from tests.oracle.judging_shapes import Verdict, judged

pytestmark = pytest.mark.tensorflow

GRAPHS = 40
FOUND = (311, 1034)  # in which a dimension was once taken for another one


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    """The verdict on a few graphs, drawn by one process."""
    return judged((*range(GRAPHS), *FOUND))


def test_there_is_something_to_compare(verdict: Verdict) -> None:
    assert verdict.counts["tensors"] > 100 * GRAPHS
    assert verdict.counts["run"] > 20 * GRAPHS


def test_nothing_is_another_shape_than_tensorflow_s(verdict: Verdict) -> None:
    assert verdict.other == []


def test_what_is_known_is_true_when_the_graph_runs(verdict: Verdict) -> None:
    assert verdict.untrue == []


def test_almost_all_that_tensorflow_knows_is_known(verdict: Verdict) -> None:
    """What is left hangs on what readers ask of tensors in branches, and of the whole of a loop."""
    assert verdict.counts["less"] * 500 < verdict.counts["tensors"]


def test_what_tensorflow_refuses_is_refused(verdict: Verdict) -> None:
    assert verdict.counts["refused alike"] == verdict.counts["refused"]
    assert verdict.counts["refused by us alone"] == 0
