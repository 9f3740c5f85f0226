"""Placement as an environment of Gymnasium: groups are steps, devices are actions, the event loop gives the reward.

`gym` is the only module that imports gymnasium; docs/environment.md describes what an agent sees.
"""

from __future__ import annotations

from simulator.lazy import exported

TYPE_CHECKING = False  # as in `typing`, which takes long to load
if TYPE_CHECKING:
    from placement.environment.course import Course as Course
    from placement.environment.course import Question as Question
    from placement.environment.episode import DEVICE_FEATURES as DEVICE_FEATURES
    from placement.environment.episode import GROUP_FEATURES as GROUP_FEATURES
    from placement.environment.episode import Episode as Episode
    from placement.environment.gym import PlacementEnv as PlacementEnv

# name -> module that holds it
_EXPORTS = {
    "Course": "placement.environment.course",
    "DEVICE_FEATURES": "placement.environment.episode",
    "Episode": "placement.environment.episode",
    "GROUP_FEATURES": "placement.environment.episode",
    "PlacementEnv": "placement.environment.gym",
    "Question": "placement.environment.course",
}

__all__ = sorted(_EXPORTS)

__getattr__, __dir__ = exported(__name__, _EXPORTS)
