"""Workflows of WfCommons, written by hand from the description of their form."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import GraphError
from simulator.instances.reading import read_instance
from tests.instances.refusing import refusal
from viz import run

S = 10**9
# A file of one second on the assumed network leads from "a" to "b"; from "a" to "c" leads only the order.
HAND: dict[str, Any] = {
    "name": "diamond",
    "schemaVersion": "1.5",
    "workflow": {
        "specification": {
            "tasks": [
                {"id": "a", "name": "a", "parents": [], "children": ["b", "c"], "outputFiles": ["f"]},
                {"id": "b", "name": "b", "parents": ["a"], "children": ["d"], "inputFiles": ["f", "given"]},
                {"id": "c", "name": "c", "parents": ["a"], "children": ["d"]},
                {"id": "d", "name": "d", "parents": ["b", "c"], "children": []},
            ],
            "files": [{"id": "f", "sizeInBytes": 3_125_000_000}, {"id": "given", "sizeInBytes": 7}],
        },
        "execution": {
            "makespanInSeconds": 9,
            "tasks": [{"id": name, "runtimeInSeconds": 5 if name in "bc" else 1} for name in "abcd"],
            "machines": [{"nodeName": name, "cpu": {"coreCount": 1}} for name in ("left", "right")],
        },
    },
}


def older(document: dict[str, Any]) -> dict[str, Any]:
    """The same workflow as WfFormat 1.4 wrote it."""
    form, ran = (document["workflow"][key] for key in ("specification", "execution"))
    size = {file["id"]: file["sizeInBytes"] for file in form["files"]}
    tasks = []
    for task, record in zip(form["tasks"], ran["tasks"], strict=True):
        links = [(link, file) for link in ("input", "output") for file in task.get(f"{link}Files", [])]
        files = [{"link": link, "name": file, "sizeInBytes": size[file]} for link, file in links]
        kept = {key: task[key] for key in ("id", "name", "parents", "children")}
        tasks.append({**kept, "runtimeInSeconds": record["runtimeInSeconds"], "files": files})
    return {"name": "diamond", "schemaVersion": "1.4", "workflow": {"tasks": tasks, "machines": ran["machines"]}}


@pytest.mark.parametrize("document", [HAND, older(HAND)], ids=["1.5", "1.4"])
def test_the_optimum_by_hand(document: dict[str, Any], tmp_path: Path) -> None:
    # "b" stays with its file, "c" goes elsewhere: 1 + 5 + 1 s, and the links' latency of 2 us for an order or a signal
    file = tmp_path / "diamond.json"
    file.write_text(json.dumps(document))
    result = run(file, budget=200)
    assert 7 * S <= result.trace.makespan < 7 * S + 10_000
    result.write(str(tmp_path / "out.placement.json"))
    written = json.loads((tmp_path / "out.placement.json").read_text())["workflow"]
    tasks = written["tasks"] if "tasks" in written else written["execution"]["tasks"]
    where = {task["id"]: task["machine"] if "machine" in task else task["machines"][0] for task in tasks}
    assert where["a"] == where["b"] != where["c"]
    assert set(where.values()) == {"left", "right"}
    again = run(tmp_path / "out.placement.json", budget=200)  # what was written is a workflow again
    assert again.trace.makespan == result.trace.makespan


def test_another_cluster() -> None:
    result = run(json.dumps(HAND).encode(), cluster="worker=2x1gpu", algorithm="heft")
    assert all("CPU" in result.assignment.name_of(row) for row in range(4))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda flow: flow["specification"]["tasks"][1]["parents"].append("z"), "'z' among its parents"),
        (lambda flow: flow.pop("execution"), "task 'a' has no 'runtimeInSeconds'"),
        (lambda flow: flow["specification"]["tasks"][1].update(id="a"), "two tasks are called 'a'"),
        (lambda flow: flow["specification"]["tasks"][0]["parents"].append("d"), "cycle"),
    ],
)
def test_what_is_missing_is_named(change: Any, said: str) -> None:
    document = copy.deepcopy(HAND)
    change(document["workflow"])
    with pytest.raises(GraphError, match=said):
        read_instance(json.dumps(document).encode())


JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, -1, 0, 1.5, 10**400, float("nan"), "x", [], {}, True, [[]], [1], 2**70]
)


@given(st.data(), st.booleans())
def test_bad_values_are_refused_in_one_sentence(data: st.DataObject, old: bool) -> None:
    document = copy.deepcopy(HAND)
    document = older(document) if old else document
    holder: Any = document
    while True:
        keys = sorted(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = data.draw(st.sampled_from(keys))
        inner = holder[key]
        if not (isinstance(inner, dict | list) and inner) or data.draw(st.booleans()):
            holder[key] = data.draw(JUNK)
            break
        holder = inner
    said = refusal(json.dumps(document).encode())
    assert not said or (said.startswith("bytes in memory") and "\n" not in said)
