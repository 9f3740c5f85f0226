"""What --check found, in words."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from simulator.cluster.cluster import Cluster
from simulator.cluster.master import STANDIN_CLIENT, with_client
from simulator.errors import InfeasibleError
from simulator.graph.graph import Graph
from simulator.graph.step import Step
from simulator.oracle.verification import Refusal
from tests.viz.scenes import EXAMPLE, example
from viz import agreement
from viz.command.request import Request
from viz.command.running import run
from viz.command.summary import summarise
from viz.scene import Scene

FOUND = {
    "mode": "predict",
    "oracle": "stand-in workers",
    "tensorflow": "2.21.0",
    "placement": {"agree": 224, "of": 224, "raw": 220},
    "log_order": {"agree": 223, "of": 224},
    "partition": {"agree": 170, "of": 170, "raw": 170},
    "session": {
        "shown": "/job:worker/replica:0/task:0",
        "asked": "/job:standin_client/replica:0/task:0",
        "same": False,
        "elsewhere": 1,
    },
    "cut": {"shown": "master", "compared": "master", "same": True},
    "added_task": "/job:standin_client/replica:0/task:0",
    "unseen_cuts": ["/job:worker/replica:0/task:0"],
    "bodies": 2,
    "differences": [],
    "laws": [],
    "refused": None,
}


def scene(**changes: Sequence[Any] | Mapping[str, Any] | int | str) -> Scene:
    return replace(example(), check={**FOUND, **changes})


def test_each_count_says_how_much_of_it_stands_by_itself() -> None:
    assert [str(one) for one in agreement.agreements(FOUND)] == [
        "placement by a session at standin_client:0 agrees for 224 of 224 nodes, 220 before correcting for chance",
        "order of placing by a session at standin_client:0 agrees for 223 of 224 nodes",
        "partition as shown agrees for 170 of 170 nodes, none corrected",
    ]
    assert [str(one) for one in agreement.agreements({**FOUND, "shapes": {"agree": 2, "of": 3}})][-1:] == [
        "inference of shapes agrees for 2 of 3 tensors"
    ]


def test_what_is_asked_about_and_what_is_not_compared_are_said() -> None:
    (bodies,) = agreement.notes(scene())
    session, unseen = agreement.apart(scene())
    assert session.startswith("another session was asked, at standin_client:0: a real master owns CPUs alone")
    assert "That session places 1 of 224 nodes elsewhere; for these the shown device is not confirmed" in session
    assert unseen == (
        "not compared: the cut between devices of one task (/job:worker/replica:0/task:0); stand-ins do not make it"
    )
    assert bodies.startswith("not compared: 2 nodes of bodies")


def test_a_pinned_placement_is_no_prediction_that_could_move() -> None:
    session = {"shown": "/job:worker/replica:0/task:0", "asked": STANDIN_CLIENT, "same": False}
    (said,) = agreement.apart(scene(mode="pin", unseen_cuts=[], bodies=0, session=session))
    assert "at standin_client:0" in said
    assert "The shown device was written into every node" in said


def test_what_differs_from_what_is_shown_is_said_before_anything_else() -> None:
    cut = {"shown": "local", "compared": "master", "same": False}
    lines = summarise(scene(cut=cut), verbose=True).splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("check"))
    assert [line[2:40] for line in lines[at + 1 : at + 4]] == [
        "another session was asked, at standin_",
        "another cut was compared: the shown on",
        "not compared: the cut between devices ",
    ]
    assert "partition by task agrees for 170 of 170 nodes, none corrected" in lines[at + 6]


def test_a_client_task_that_the_user_chose_was_not_added() -> None:
    session = {"shown": STANDIN_CLIENT, "asked": STANDIN_CLIENT, "same": True}
    own = replace(scene(unseen_cuts=[], bodies=0, session=session), cluster=with_client(example().cluster))
    assert agreement.notes(own) == agreement.apart(own) == []


@pytest.mark.parametrize("end", [" ]", "]"])
def test_lists_of_devices_in_a_refusal_are_short(end: str) -> None:
    devices = [f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(64)]
    said = agreement.with_short_lists(
        f"operation a: {{{{node a}}}} available devices are [ {', '.join(devices)}{end}. [[a]]"
    )
    assert said.endswith("/task:7/device:CPU:0 and 56 more ]. [[a]]")
    assert "/task:8/" not in said


def test_a_list_of_devices_that_the_sentence_does_not_finish_is_not_counted() -> None:
    devices = ", ".join(f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(40))
    assert agreement.with_short_lists(f"All available devices [{devices}"[:-9]).endswith("/task:7/device:CPU:0, ...")


def test_the_summary_tells_a_refusal_with_its_node_and_no_counts() -> None:
    refusal = "Cannot assign a device for operation a: because"
    said = summarise(scene(refused=refusal, foreseen=True, unseen_cuts=[]), verbose=True).splitlines()
    at = next(at for at, line in enumerate(said) if line.startswith("check"))
    assert said[at + 1].endswith("a real master owns CPUs alone and can't be worker:0")
    assert said[at + 2 :] == ["  refused, as predicted: Cannot assign a device for operation a: because"]


@pytest.mark.parametrize("algorithm", ["tensorflow", "whitepaper"])
def test_whichever_algorithm_refuses_tensorflow_is_asked(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(graph: Graph, cluster: Cluster, error: InfeasibleError, step: Step, *, soft: bool) -> Refusal:
        asked.append((cluster.name, error.node, soft))
        return Refusal(agree=True, said="TensorFlow refuses too")

    monkeypatch.setattr("simulator.oracle.check_refusal", refuse)
    with pytest.raises(InfeasibleError, match=r"TensorFlow refuses too$"):
        run(Request(str(EXAMPLE), cluster="2gpu", algorithm=algorithm, check=True))
    assert asked == [("2gpu with a client", "conv1/weights/Initializer/random_uniform/RandomUniform", True)]


def test_what_only_our_algorithm_refuses_tensorflow_is_not_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, algorithm: str, **__: Any) -> None:
        if algorithm == "single":
            raise InfeasibleError("does not fit")

    for module in ("one_step", "check"):
        monkeypatch.setattr(f"viz.command.{module}.place", full)
    with pytest.raises(InfeasibleError, match="does not fit\nTensorFlow was not asked: by its own rules"):
        run(Request(str(EXAMPLE), cluster="cpu=2", algorithm="single", check=True))


def test_a_refusal_of_another_session_at_another_node_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of two nodes without a kernel: one was named, and TensorFlow was said to refuse the same node, the other."""

    def refused_at(node: str) -> Any:
        def place(*_: Any, **__: Any) -> None:
            raise InfeasibleError(f"no kernel for {node}", node=node)

        return place

    monkeypatch.setattr("viz.command.one_step.place", refused_at("a"))
    monkeypatch.setattr("viz.command.check.place", refused_at("b"))
    monkeypatch.setattr("simulator.oracle.check_refusal", lambda *_, **__: Refusal(True, "TensorFlow refuses too"))
    with pytest.raises(InfeasibleError, match=r"for a\n.* is refused at 'b' by our rules. TensorFlow refuses too$"):
        run(Request(str(EXAMPLE), cluster="2gpu", algorithm="tensorflow", check=True))
