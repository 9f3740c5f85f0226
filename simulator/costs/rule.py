"""The form of a row of the cost table."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from simulator.costs.formulas.instance import Formula, nothing

Row: TypeAlias = tuple[str, Formula, Formula, str, str]  # category, arithmetic, bytes moved, attributes, ops


class Rule(NamedTuple):
    """How an op is priced."""

    category: str
    flops: Formula
    moved: Formula
    attrs: tuple[str, ...] = ()  # attributes that the formulas read
    launches: bool = True  # False: done by the executor on the host, no kernel starts
    scratch: Formula = nothing
