"""The director compiled: the same training as `training.train` finds in plain Python, bit for bit.

`director` is what the compiled loop calls; `arming`, `lines`, `feeding`, `sums`, `lengths` and `crashing` are its
parts, as they are of the plain one. `arrays` says what they read and write, `laying` makes it, `engine` is the way in.
numba is not loaded here (`execution.choosing`).
"""

from simulator.execution.caching import STEP, Sources

TRAINING = Sources(
    "The event loop of many steps",
    "training/compiled/engine.py",
    "_play",
    (
        *STEP.parts,
        "training/crew/combining.py",
        "training/training.py",
        "training/compiled",
        "training/disturbances/noise.py",
        "training/disturbances/pauses.py",
        "training/crew/synchronising.py",
    ),
)
