"""Instances of DAGBench, written by hand from the form of its files."""

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
HAND: dict[str, Any] = {
    "name": "a fork",
    "task_graph": {
        "tasks": [{"name": name, "cost": cost} for name, cost in (("a", 2.0), ("b", 10.0), ("c", 12.0), ("d", 2.0))],
        "dependencies": [
            {"source": "a", "target": "b", "size": 100.0},
            {"source": "a", "target": "c", "size": 5.0},
            {"source": "b", "target": "d", "size": 100.0},
            {"source": "c", "target": "d", "size": 10.0},
        ],
    },
    "network": {
        "nodes": [{"name": "slow", "speed": 1.0}, {"name": "fast", "speed": 2.0}],
        "edges": [
            {"source": "slow", "target": "fast", "speed": 5.0},
            {"source": "slow", "target": "slow", "speed": None},
        ],
    },
}


def test_the_optimum_by_hand(tmp_path: Path) -> None:
    # all on the fast node: 1 + 5 + 6 + 1 s; with "c" on the slow one it would be 1 + 1 + 12 + 2 + 1
    file = tmp_path / "graph.json"
    file.write_text(json.dumps(HAND))
    result = run(file, budget=200)
    assert result.trace.makespan == 13 * S
    result.write(str(tmp_path / "out.placement.json"))
    written = json.loads((tmp_path / "out.placement.json").read_text())
    assert written == {"name": "a fork", "placement": {"slow": [], "fast": ["a", "b", "c", "d"]}}


def test_a_fork_over_two_nodes_of_one_speed() -> None:
    document = copy.deepcopy(HAND)
    document["network"]["nodes"][0]["speed"] = 2.0
    # 1 s, then 5 s beside 1 + 6 + 2 s, then 1 s
    assert run(json.dumps(document).encode(), budget=200).trace.makespan == 11 * S


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one["network"]["nodes"][0].update(speed=0), "'slow' has the speed 0"),
        (lambda one: one["task_graph"]["tasks"].clear(), "without tasks"),
        (lambda one: one["task_graph"]["dependencies"][0].update(target="z"), "names 'z', which is not there"),
        (lambda one: one["task_graph"]["tasks"][0].update(cost=1e9), "none takes longer than a day"),
    ],
)
def test_what_is_wrong_is_named(change: Any, said: str) -> None:
    document = copy.deepcopy(HAND)
    change(document)
    with pytest.raises(GraphError, match=said):
        read_instance(json.dumps(document).encode())


JUNK: st.SearchStrategy[Any] = st.sampled_from([None, -1, 0, 1.5, 10**400, float("inf"), "x", [], {}, True, [[]]])


@given(st.data())
def test_bad_values_are_refused_in_one_sentence(data: st.DataObject) -> None:
    document = copy.deepcopy(HAND)
    lists = [document["task_graph"][key] for key in ("tasks", "dependencies")]
    lists += [document["network"][key] for key in ("nodes", "edges")]
    holder = data.draw(
        st.sampled_from([document["task_graph"], document["network"], *(one for of in lists for one in of)])
    )
    holder[data.draw(st.sampled_from(sorted(holder)))] = data.draw(JUNK)
    said = refusal(json.dumps(document).encode())
    assert not said or (said.startswith("bytes in memory") and "\n" not in said)
