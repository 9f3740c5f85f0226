"""ETF: earliest task first.

Hwang, Chow, Anger and Lee, "Scheduling precedence graphs in systems with interprocessor communication times", SIAM
Journal on Computing 18(2), 1989, section 3. Of all ready ops and devices, the pair is taken that starts first. An op is
never put before one that was taken earlier on its device. The paper leaves ties open. Here, as in its successors, the
op with the higher static level wins. That level is the longest path of mean run times to the end of the step.
"""

from __future__ import annotations

from placement.plan import Plan
from placement.problem import Problem
from placement.scheduling.earliest_start import earliest_start, enter_first
from placement.scheduling.insertion import Schedule, better
from placement.scheduling.ranks import levels
from placement.scheduling.running import runner_of


def etf(problem: Problem) -> Plan:
    """Take the pair that starts first, whatever its run time; the plan has an order if that helps.

    Equal levels go to the smaller row, then to the device that TensorFlow would prefer. The first member of a group
    decides for all. Raises InfeasibleError when memory runs out on the way.
    """
    return better(schedule(problem))


def schedule(problem: Problem) -> Schedule:
    """The schedule of all ops; a search judges it with and without its order."""
    runner = runner_of(problem, enter_first)
    return earliest_start(problem, runner, levels(problem, runner))
