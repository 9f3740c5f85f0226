"""The environment of Gymnasium. `pip install "simviz[gym]"` brings it.

An episode places one step. Its reward is by the event loop: the logarithm of how many times faster the step is than on
its best single device. Where memory runs out, or a value has no route, there is a penalty instead, which is below each
reward of a plan that fits.

Shaping is by potentials (Ng, Harada and Russell, "Policy invariance under reward transformations", ICML 1999). The
potential is how far the partial schedule has come. As it is 0 at both ends, the sum of the rewards stays what it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from os import PathLike
from typing import Any, TypeAlias  # Any: what Gymnasium's types say of options and information; what a list may hold

import numpy as np
import numpy.typing as npt

from placement.environment.course import Course, Question, course_of
from placement.environment.episode import DEVICE_FEATURES, GROUP_FEATURES, HIGHEST, Episode
from placement.plan import Plan
from placement.problem import NEVER, Problem
from simulator.arguments import shown
from simulator.cluster.cluster import Cluster
from simulator.errors import ClusterError, InfeasibleError, SimvizError, UnsupportedError
from simulator.execution.evaluate import evaluate_with_peaks
from simulator.units import Bytes, Nanos, is_whole

try:
    import gymnasium
    from gymnasium import spaces
except ImportError:
    raise UnsupportedError(
        "The environment needs Gymnasium, which is not installed: pip install 'simviz[gym]'."
    ) from None

ID = "simviz/Placement-v0"
LEAST, PENALTY = -10.0, -20.0  # of a plan that fits; of one that cannot run at all
FORBIDDEN = -1.0  # of an action that the mask forbids

Named: TypeAlias = str | PathLike[str] | Mapping[str, object] | Cluster
Observation: TypeAlias = dict[str, npt.NDArray[Any]]


class PlacementEnv(gymnasium.Env[Observation, np.int64]):
    """Each step decides the device of a group. Each episode is about one of the questions, drawn by the seed.

    A question is a Question, or a Problem whose step was prepared from a graph. Without `questions`, `graph` and
    `cluster` name them: each of the graphs on each of the clusters, as `Question.of` takes them, with `batch` and
    `ignore_devices`. `devices` is the number of actions, by default that of the largest cluster. `order` is that of the
    decisions, one of `course.ORDERS`. With `shaped`, steps have rewards of their own. docs/environment.md has
    observations, rewards and information.

    `reset(options={"question": i})` asks the question of that number. Raises SimvizError for a step in which nothing
    can be decided or that has more devices, and whatever `Question.of` raises.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  # as Gymnasium declares it

    def __init__(
        self,
        questions: Question | Problem | Sequence[Question | Problem] = (),
        *,
        graph: object = (),
        cluster: Named | Sequence[Named] = "4gpu",
        batch: int | None = None,
        ignore_devices: bool = False,
        devices: int | None = None,
        order: str = "depth",
        shaped: bool = False,
    ) -> None:
        self.questions = [_question(one) for one in _several(questions)]
        for source in _several(graph):
            for on in _several(cluster):
                self.questions.append(Question.of(source, on, batch=batch, ignore_devices=ignore_devices))
        if not self.questions:
            raise SimvizError("An environment needs a question: give questions=, or graph= and cluster=.")
        self.courses = [course_of(question.problem(), order) for question in self.questions]
        largest = max(len(course.problem.capacity) for course in self.courses)
        if devices is not None and not (is_whole(devices) and devices >= largest):
            raise SimvizError(f"devices={devices}: a cluster of these questions has {largest}; give as many or more.")
        self.devices = largest if devices is None else int(devices)  # Gymnasium takes no number of numpy
        self.order = order
        self.shaped = shaped
        self.action_space = spaces.Discrete(self.devices)
        seen: dict[str, spaces.Space[Any]] = {
            "group": _box(len(GROUP_FEATURES)),
            "devices": _box(self.devices, len(DEVICE_FEATURES)),
            "links": _box(self.devices, self.devices),
            "action_mask": spaces.MultiBinary(self.devices),
        }
        self.observation_space = spaces.Dict(seen)  # type: ignore[assignment]  # a Dict is typed by its spaces
        self.asked = 0  # the question of this episode
        self.episode: Episode | None = None

    @property
    def course(self) -> Course:
        """The course of the question of this episode."""
        return self.courses[self.asked]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode. Raise SimvizError for a question that is not there."""
        super().reset(seed=seed)
        wanted = (options or {}).get("question")
        if wanted is None:
            wanted = self.np_random.integers(len(self.courses))
        elif wanted not in range(len(self.courses)):
            raise SimvizError(f"question={wanted}: give a number from 0 to {len(self.courses) - 1}.")
        self.asked = int(wanted)
        self.episode = Episode(self.course)
        return self._seen()

    def step(self, action: np.integer[Any] | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Put the group on a device.

        Where the mask forbids it, the group takes the first device that the mask allows, at a reward of FORBIDDEN.
        Raises SimvizError before `reset`, after the end of an episode, and for an action that is none.
        """
        episode = self._running()
        if not self._is_action(action):
            raise SimvizError(f"Action {action!r}: give a whole number from 0 to {self.devices - 1}.")
        mask, before, device = self.action_masks(), self._potential(episode), int(action)
        forbidden = not mask[device]
        episode.decide(int(mask.argmax()) if forbidden else device)
        reward = FORBIDDEN if forbidden else 0.0
        seen, said = self._seen()
        if episode.over:
            worth, verdict = judged(self.course, self.plan())
            reward, said = reward + worth, {**said, **verdict}
        if self.shaped:
            reward += self._potential(episode) - before
        return seen, float(reward), episode.over, False, {**said, "forbidden": forbidden}

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """[devices] whether each action is allowed: by kernels, device strings, colocation, and resident memory."""
        found = np.zeros(self.devices, bool)
        if self.episode is not None and not self.episode.over:
            mask = self.episode.mask()
            found[: len(mask)] = mask
        return found

    def plan(self) -> Plan:
        """The plan of this episode, for `place` and `verdict`. Raise SimvizError before its end."""
        if self.episode is None or not self.episode.over:
            raise SimvizError("The episode is not over: some groups have no device.")
        return self.course.plan(self.episode.device)

    def __getstate__(self) -> dict[str, Any]:
        """All but what is made from the questions; an episode that runs is lost."""
        return {**self.__dict__, "courses": None, "episode": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.courses = [course_of(question.problem(), self.order) for question in self.questions]

    def _is_action(self, action: object) -> bool:
        return bool(self.action_space.contains(action))

    def _potential(self, episode: Episode) -> float:
        if not self.shaped or episode.over or not episode.decided:
            return 0.0
        return -log(1 + episode.end_ns / self.course.base_ns)

    def _running(self) -> Episode:
        if self.episode is None or self.episode.over:
            raise SimvizError("The episode is over: call reset first.")
        return self.episode

    def _seen(self) -> tuple[Observation, dict[str, Any]]:
        """The observation, all 0 after the end, and the information."""
        mask = self.action_masks().astype(np.int8)
        seen: Observation = {
            "group": np.zeros(len(GROUP_FEATURES), np.float32),
            "devices": np.zeros((self.devices, len(DEVICE_FEATURES)), np.float32),
            "links": np.zeros((self.devices, self.devices), np.float32),
            "action_mask": mask,
        }
        if self.episode is not None and not self.episode.over:
            count = len(self.course.problem.capacity)
            seen["group"][:] = self.episode.group_features()
            seen["devices"][:count] = self.episode.device_features(mask[:count])
            seen["links"][:count, :count] = self.course.between
        return seen, {"question": self.asked, "action_mask": mask.copy()}


def judged(course: Course, plan: Plan) -> tuple[float, dict[str, Any]]:
    """The reward of a plan by the event loop, with its makespan, that of `single`, and the bytes that devices lack.

    `refused` says why a plan can't run; "" where it can.
    """
    problem = course.problem
    device = np.array(plan.device, np.int32)[problem.constraints.group]
    taken: Nanos = NEVER
    lacking: Bytes = 0
    try:
        found = evaluate_with_peaks(problem.prepared, device[None], flavour=problem.flavour, threads=1)
        taken = int(found.makespan_ns[0])
        lacking = int(np.maximum(found.peak_bytes[0] - np.array(problem.capacity), 0).sum())
        refused = "" if taken < NEVER else "a value has no route to a device that reads it"
    except (ClusterError, InfeasibleError) as error:  # no route, or control flow moves an op to where it has no kernel
        refused = str(error)
    if refused:
        reward = PENALTY
    elif lacking:
        reward = LEAST + (PENALTY - LEAST) * min((1 + lacking / max(sum(problem.capacity), 1)) / 2, 1.0)
    else:
        reward = max(log(course.base_ns / max(taken, 1)), LEAST)
    return reward, {
        "makespan_ns": taken,
        "single_ns": course.base_ns,
        "lacking_bytes": lacking,
        "refused": refused,
    }


def _question(given: Question | Problem) -> Question:
    if isinstance(given, Question):
        return given
    if not isinstance(given, Problem):
        raise SimvizError(f"questions= holds {shown(given)}: give Questions and Problems.")
    told = given.prepared.given
    if told is None:
        raise SimvizError("This problem has tables alone, and an environment needs their graph; give a Question.")
    soft = given.constraints.soft
    return Question(told.graph, told.cluster, told.costs, told.step, soft, given.options, given.flavour)


def _several(given: object) -> list[Any]:
    """Several as they are, and one as a list."""
    return list(given) if isinstance(given, list | tuple) else [given]


def _box(*shape: int) -> spaces.Box:
    return spaces.Box(0.0, HIGHEST, shape, np.float32)


gymnasium.register(ID, entry_point=f"{__name__}:PlacementEnv")
