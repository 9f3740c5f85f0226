"""The environment of Gymnasium: what its checker says, masks, rewards by the library, seeds, vectors, and refusals."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from placement import Plan, Problem, place, verdict
from placement.algorithms.single import single
from placement.environment import DEVICE_FEATURES, GROUP_FEATURES, PlacementEnv, Question
from placement.environment.course import ORDERS
from placement.environment.gym import FORBIDDEN, ID, LEAST, PENALTY
from placement.problem import NEVER
from simulator import partition, simulate
from simulator.errors import SimvizError, UnsupportedError
from simulator.placer.constraints import constrain
from tests.execution.cases import dags, runs, whole
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "ps_training.pbtxt")
NAME = f"placement.environment.gym:{ID}"
SHARED: dict[tuple[str, ...], PlacementEnv] = {}


def example(*clusters: str) -> PlacementEnv:
    """The environment of the example without its device strings, made once."""
    if clusters not in SHARED:
        SHARED[clusters] = PlacementEnv(graph=EXAMPLE, cluster=clusters, ignore_devices=True)
    return SHARED[clusters]


def played(env: PlacementEnv, seed: int, **options: Any) -> tuple[list[float], dict[str, Any], list[Any]]:
    """Rewards, the last information and all observations of an episode by chance within the masks."""
    chance = np.random.default_rng(seed)
    seen, said = env.reset(seed=seed, options=options or None)
    rewards, every, over = [], [seen], False
    while not over:
        seen, reward, over, cut, said = env.step(chance.choice(np.flatnonzero(env.action_masks())))
        assert not cut
        assert not said["forbidden"]
        assert env.observation_space.contains(seen)
        rewards.append(reward)
        every.append(seen)
    return rewards, said, every


def by_hand(question: Question, plan: Plan) -> int:
    """The makespan of a plan by the library's own functions."""
    graph, on, costs, step = question.graph, question.cluster, question.costs, question.step
    assignment = place(graph, on, costs, step=step, algorithm=lambda _: plan, fallback=False)
    return simulate(partition(graph, assignment, on, step=step), on, costs).makespan


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """Small steps on clusters of all sorts; sometimes memory is short."""
    graph = draw(dags(max_nodes=12))
    on, costs, _ = draw(runs(graph))
    if draw(st.booleans()):
        room = draw(st.sampled_from([60, 100, 200, 1000]))
        on = replace(on, devices=tuple(replace(one, memory_bytes=room) for one in on.devices))
    return Question(graph, on, costs, whole(graph))


# --- Gymnasium's own checks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shaped", [False, True])
@pytest.mark.parametrize("clusters", [["4gpu"], ["4gpu", "ps=2,worker=1x2gpu", "2cpu"]])
def test_gymnasiums_checker_has_no_complaint(shaped: bool, clusters: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(NAME, graph=EXAMPLE, cluster=clusters, ignore_devices=True, shaped=shaped)
        check_env(env.unwrapped)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_vector_of_environments_is_as_many_single_ones(mode: str) -> None:
    given: dict[str, Any] = {"graph": EXAMPLE, "cluster": ["4gpu", "2gpu"], "ignore_devices": True}
    vector = gymnasium.make_vec(NAME, num_envs=2, vectorization_mode=mode, **given)
    alone = [example("4gpu", "2gpu"), pickle.loads(pickle.dumps(example("4gpu", "2gpu")))]
    seen, _ = vector.reset(seed=5)
    for row, env in enumerate(alone):
        first, _ = env.reset(seed=5 + row)
        assert all((seen[key][row] == first[key]).all() for key in first)
    for _ in range(71):
        actions = seen["action_mask"].argmax(axis=1)
        seen, rewards, over, _, said = vector.step(actions)
        expected = [env.step(action) for env, action in zip(alone, actions, strict=True)]
        assert rewards.tolist() == [one[1] for one in expected]
        assert over.tolist() == [one[2] for one in expected]
    assert over.all()
    assert said["makespan_ns"].tolist() == [one[4]["makespan_ns"] for one in expected]
    vector.close()


def test_the_same_seed_gives_the_same_episodes() -> None:
    env = example("4gpu", "2gpu", "2cpu")
    first, again, other = (played(env, seed) for seed in (3, 3, 4))
    assert first[0] == again[0]
    assert all((a[key] == b[key]).all() for a, b in zip(first[2], again[2], strict=True) for key in a)
    assert first[0] != other[0]
    env.reset(seed=1)
    drawn = [env.reset()[1]["question"] for _ in range(40)]
    env.reset(seed=1)
    assert drawn == [env.reset()[1]["question"] for _ in range(40)]
    assert set(drawn) == {0, 1, 2}


def test_a_pickled_environment_plays_the_same() -> None:
    env = example("4gpu", "2gpu")
    copy = pickle.loads(pickle.dumps(env))
    assert played(copy, 7)[0] == played(env, 7)[0]


# --- rewards ---------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(questions(), st.integers(0, 99), st.sampled_from(ORDERS))
def test_an_episode_is_worth_what_the_library_simulates(question: Question, seed: int, order: str) -> None:
    try:
        env = PlacementEnv(question, order=order)
    except SimvizError:  # a group has no device, or none has a choice
        problem = question.problem()
        assert not all(problem.allowed) or not any(
            ops and len(allowed) > 1 for ops, allowed in zip(problem.ops, problem.allowed, strict=True)
        )
        return
    rewards, said, _ = played(env, seed)
    plan = env.plan()
    assert rewards[:-1] == [0.0] * (len(rewards) - 1)
    problem = env.course.problem
    over, taken = verdict(problem, plan)
    assert said["makespan_ns"] == taken
    assert (said["lacking_bytes"] > 0) == over
    assert bool(said["refused"]) == (taken >= NEVER)
    if taken >= NEVER:
        assert rewards[-1] == PENALTY
        return
    assert taken == by_hand(question, plan)
    if over:
        assert PENALTY <= rewards[-1] < LEAST
    else:
        assert rewards[-1] == max(log(said["single_ns"] / max(taken, 1)), LEAST)


@pytest.mark.parametrize("cluster", ["4gpu", "ps=2,worker=1x2gpu", "dgx-a100"])
def test_the_example_is_worth_what_the_library_simulates(cluster: str) -> None:
    env = example(cluster)
    for seed in range(3):
        rewards, said, _ = played(env, seed)
        assert said["makespan_ns"] == by_hand(env.questions[0], env.plan())
        assert rewards[-1] == log(said["single_ns"] / said["makespan_ns"])
    assert said["single_ns"] == verdict(env.course.problem, single(env.course.problem))[1]


def test_the_plan_of_single_is_worth_nothing_and_a_faster_one_something() -> None:
    env = example("4gpu")
    device = single(env.course.problem).device
    env.reset(seed=0)
    assert env.episode is not None
    over = False
    while not over:
        _, reward, over, _, _ = env.step(device[env.episode.group])
    assert reward == 0.0
    on = cluster_of("gg")
    two = problem_of(tasks({}, ["a", "b"]), on, costs_of(on, [(10, 10), (10, 10)]))
    env = PlacementEnv(two)
    env.reset()
    env.step(0)
    assert env.step(1)[1] == log(2)


def test_shaping_moves_rewards_within_an_episode_and_keeps_their_sum() -> None:
    plain = example("4gpu")
    shaped = PlacementEnv(plain.questions, shaped=True)
    for seed in range(3):
        expected, rewards = played(plain, seed)[0], played(shaped, seed)[0]
        assert sum(rewards) == pytest.approx(sum(expected), abs=1e-9)
        assert sum(reward != 0 for reward in rewards) > len(rewards) / 2


# --- masks -----------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(questions(), st.integers(0, 99))
def test_masks_are_what_tensorflow_allows_where_all_has_a_cost_and_room(question: Question, seed: int) -> None:
    try:
        env = PlacementEnv(question)
    except SimvizError:
        return
    constraints = constrain(question.graph, question.cluster)
    chance = np.random.default_rng(seed)
    room = np.array([device.memory_bytes for device in question.cluster.devices])
    resident = question.costs.resident_bytes
    held = np.zeros(len(room), np.int64)
    env.reset()
    assert env.episode is not None
    for group, device in enumerate(env.course.fixed[: len(constraints.members)]):
        if device >= 0:
            held[device] += sum(int(resident[node]) for node in constraints.members[group])
    while not env.episode.over:
        group = env.episode.group
        needs = sum(int(resident[node]) for node in constraints.members[group])
        lawful = [at for at in constraints.allowed[group] if needs <= room[at]]  # all ops have a cost everywhere
        fitting = [at for at in lawful if held[at] + needs <= room[at]]
        assert np.flatnonzero(env.action_masks()).tolist() == sorted(fitting or lawful)
        action = chance.choice(np.flatnonzero(env.action_masks()))
        held[action] += needs
        env.step(action)


def test_device_strings_and_kernels_bind_an_agent() -> None:
    env = PlacementEnv(graph=EXAMPLE, cluster="ps=2,worker=1x2gpu")
    constraints = constrain(env.questions[0].graph, env.questions[0].cluster)
    played(env, 1)
    chosen = env.plan().device
    assert len(chosen) >= len(constraints.members)
    assert all(device in allowed for device, allowed in zip(chosen, constraints.allowed, strict=False))
    devices = env.questions[0].cluster.devices
    assert {devices[chosen[group]].short.split(":")[0] for group in constraints.group.tolist()} == {"ps", "worker"}


def test_an_action_that_the_mask_forbids_costs_and_goes_elsewhere() -> None:
    env = PlacementEnv(example("2gpu").questions, devices=6)
    env.reset(seed=0)
    assert env.action_masks()[3:].tolist() == [False] * 3
    assert env.episode is not None
    group, first = env.episode.group, int(env.action_masks().argmax())
    _, reward, _, _, said = env.step(5)
    assert (reward, said["forbidden"]) == (FORBIDDEN, True)
    assert env.episode.device[group] == first


def test_memory_forbids_a_full_device_and_a_plan_without_room_is_worth_less_than_any_other() -> None:
    on = cluster_of("gg", memory=[100, 100])
    costs = costs_of(on, [(10, 10)] * 3, [60, 60, 60])
    env = PlacementEnv(problem_of(tasks({}, ["a", "b", "c"]), on, costs))
    env.reset()
    env.step(0)
    assert env.action_masks().tolist() == [False, True]
    env.step(1)
    assert env.action_masks().tolist() == [True, True]  # no device has room
    _, reward, over, _, said = env.step(1)
    assert over
    assert said["lacking_bytes"] == 20
    assert reward == LEAST + (PENALTY - LEAST) * (1 + 20 / 200) / 2


# --- observations ----------------------------------------------------------------------------------------------------


def test_features_say_where_neighbours_are_and_who_is_busy() -> None:
    on = cluster_of("gg")
    costs = costs_of(on, [(30, 10), (40, 40), (10, 10)])
    env = PlacementEnv(problem_of(tasks({("a", "c"): 5, ("b", "c"): 20}, ["a", "b", "c"]), on, costs), order="ranks")
    seen, _ = env.reset()
    unit = (10 + 40 + 10) / 3
    of_group, of_device = dict(zip(GROUP_FEATURES, seen["group"], strict=True)), column_of(seen)
    assert (of_group["position"], of_group["decided"], of_group["rank"]) == (0, 0, 1)  # b has the most behind it
    assert of_group["bytes_out"] == pytest.approx(np.log1p(20 / 1024))
    assert of_device["run"] == pytest.approx([np.log1p(40 / unit)] * 2)
    env.step(0)
    seen, *_ = env.step(1)  # b on 0, a on 1, now c
    of_device = column_of(seen)
    assert of_device["near"] == pytest.approx([0.8, 0.2])
    assert of_device["closest"].tolist() == [1, 0]
    assert of_device["last"].tolist() == [0, 1]
    assert of_device["crossing"] == pytest.approx([np.log1p(5 / unit), np.log1p(20 / unit)])
    assert of_device["load"] == pytest.approx([np.log1p(30 / unit), 0])
    assert of_device["start"] == pytest.approx([0, np.log1p(20 / unit)])  # at 40, and at 60
    assert seen["links"].diagonal().tolist() == [0, 0]


def column_of(seen: dict[str, Any]) -> dict[str, Any]:
    """Features of devices by their names."""
    return dict(zip(DEVICE_FEATURES, seen["devices"].T, strict=True))


def test_a_mapping_is_one_cluster_and_an_action_is_any_whole_number() -> None:
    tasks = {"ps": ["one:1"], "worker": ["two:1", "three:1"]}
    env = PlacementEnv(graph=EXAMPLE, cluster=tasks, ignore_devices=True)
    assert [len(question.cluster.devices) for question in env.questions] == [3]
    ends = []
    for action in (1, True, np.int32(1), np.array(1)):
        env.reset()
        ends.append(env.step(action)[0])  # type: ignore[arg-type]  # an array of one number is what policies return
    for end in ends[1:]:
        assert all(np.array_equal(end[name], ends[0][name]) for name in end)


# --- refusals --------------------------------------------------------------------------------------------------------


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(SimvizError, match="needs a question"):
        PlacementEnv()
    with pytest.raises(SimvizError, match="nothing to decide"):
        PlacementEnv(graph=EXAMPLE, cluster="1cpu", ignore_devices=True)
    with pytest.raises(SimvizError, match="order='fifo': it is one of depth, ranks"):
        PlacementEnv(example("4gpu").questions, order="fifo")
    with pytest.raises(SimvizError, match="devices=2: a cluster of these questions has 5"):
        PlacementEnv(example("4gpu").questions, devices=2)
    with pytest.raises(SimvizError, match=r"devices=7\.5: a cluster"):
        PlacementEnv(example("4gpu").questions, devices=7.5)  # type: ignore[arg-type]  # no number of devices
    with pytest.raises(SimvizError, match="questions= holds 3: give Questions and Problems"):
        PlacementEnv([3])  # type: ignore[list-item]  # no question
    with pytest.raises(SimvizError, match="questions= holds 3: give Questions and Problems"):
        PlacementEnv(3)  # type: ignore[arg-type]  # no question
    with pytest.raises(SimvizError, match="5 describes no cluster"):
        PlacementEnv(graph=EXAMPLE, cluster=5)  # type: ignore[arg-type]  # no cluster
    assert PlacementEnv(example("4gpu").questions, devices=np.int64(7)).devices == 7
    env = PlacementEnv(example("4gpu").questions)
    with pytest.raises(SimvizError, match="call reset first"):
        env.step(0)
    with pytest.raises(SimvizError, match="question=7: give a number from 0 to 0"):
        env.reset(options={"question": 7})
    env.reset()
    with pytest.raises(SimvizError, match="give a whole number from 0 to 4"):
        env.step(9)
    with pytest.raises(SimvizError, match="not over"):
        env.plan()


def test_a_problem_of_tables_alone_is_refused() -> None:
    problem: Problem = example("4gpu").course.problem
    with pytest.raises(SimvizError, match="tables alone"):
        PlacementEnv(replace(problem, prepared=replace(problem.prepared, given=None)))


def test_without_gymnasium_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "placement.environment.gym")
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'simviz\[gym\]'"):
        __import__("placement.environment.gym")


def test_nothing_else_loads_gymnasium() -> None:
    code = (
        "import simulator, placement, viz, viz.command.cli, placement.environment, sys\n"
        "from placement.environment import Course, Episode, Question\n"
        "print('gymnasium' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
