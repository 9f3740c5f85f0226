"""A check is of the cut that is shown, and says whether the session that is shown was asked."""

import pytest

from tests.viz.scenes import EXAMPLE
from viz.command.request import Request
from viz.command.running import run

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(("cluster", "same"), [("ps=2,worker=1x2cpu", True), ("ps=2,worker=1x2gpu", False)])
def test_the_cut_that_is_shown_is_compared_whoever_could_be_asked(cluster: str, same: bool) -> None:
    scene = run(Request(str(EXAMPLE), cluster=cluster, algorithm="tensorflow", check=True))
    check = scene.check
    assert check is not None
    assert (check["session"]["same"], check["cut"]) == (same, {"shown": "master", "compared": "master", "same": True})
    assert ("pinned" in check) == ("elsewhere" in check["session"]) == (not same)
    assert check["partition"]["agree"] == check["partition"]["of"] > 0
    assert check["placement"]["agree"] == check["placement"]["of"] == len(scene.graph)


def test_a_local_cut_of_several_tasks_is_no_sessions() -> None:
    check = run(
        Request(str(EXAMPLE), cluster="ps=2,worker=1x2cpu", algorithm="single", flavour="local", check=True)
    ).check
    assert check is not None
    assert check["cut"] == {"shown": "local", "compared": "master", "same": False}
