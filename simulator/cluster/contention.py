"""The ways in which transfers share a link. The command's help reads them, so this module imports no numpy."""

from __future__ import annotations

from typing import Literal, TypeAlias

Contention: TypeAlias = Literal["serial", "fair", "none"]
# one at a time in the order in which they come; all at once in max-min fair shares; each as if it were alone
CONTENTIONS: tuple[Contention, ...] = ("serial", "fair", "none")
