"""How transfers share a link. This file stands alone, so that the command's help names them without numpy."""

from __future__ import annotations

from typing import Literal, TypeAlias

Contention: TypeAlias = Literal["serial", "fair", "none"]
# one at a time in the order in which they come; all at once in max-min fair shares; each as if it were alone
CONTENTIONS: tuple[Contention, ...] = ("serial", "fair", "none")
