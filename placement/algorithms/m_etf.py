"""m-ETF: earliest task first, under memory.

Jeon, Cai, Shetty et al., "Baechi: fast device placement of machine learning graphs", SoCC 2020, section 3.2. It is ETF
(`etf.py`), but a pair of op and device counts only if the device has room for the op.
"""

from __future__ import annotations

from placement.plan import Plan
from placement.problem import Problem
from placement.scheduling.earliest_start import earliest_start, enter_first
from placement.scheduling.insertion import Schedule, better
from placement.scheduling.ranks import levels
from placement.scheduling.running import runner_of


def m_etf(problem: Problem) -> Plan:
    """Take the pair that starts first on a device with room; ties and orders are those of ETF.

    An op needs what stays resident with its group, and what it makes, until its last reader was entered. Where no
    device has room for both, what stays resident decides alone, and the simulator judges the plan. Raises
    InfeasibleError when there is no room for that either.
    """
    return better(schedule(problem))


def schedule(problem: Problem) -> Schedule:
    """The schedule of all ops; a search judges it with and without its order."""
    runner = runner_of(problem, enter_first)
    return earliest_start(problem, runner, levels(problem, runner), values=True)
