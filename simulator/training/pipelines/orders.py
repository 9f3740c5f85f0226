"""Orders of a pipeline: the turns that each stage takes, a microbatch forward or backward at a time.

    gpipe, 2 stages            F0 F1 F2 F3 B3 B2 B1 B0           all activations stay until the last forward pass
                                  F0 F1 F2 F3 B3 B2 B1 B0
    1f1b, 2 stages             F0 F1 B0 F2 B1 F3 B2 B3           a stage holds no more microbatches than stages follow
                                  F0 B0 F1 B1 F2 B2 F3 B3

GPipe: Huang, Cheng, Bapna et al., "GPipe: efficient training of giant neural networks using pipeline parallelism",
NeurIPS 2019, section 2.3. 1F1B has a flush at the end of the step (PipeDream-Flush). Source: Narayanan, Shoeybi, Casper
et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM", SC 2021, section 2.2.1.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Order: TypeAlias = Literal["gpipe", "1f1b"]


class Turn(NamedTuple):
    """A microbatch on its way through a stage."""

    forward: bool  # else backward
    microbatch: int


def turns(order: Order, stages: int, microbatches: int) -> tuple[tuple[Turn, ...], ...]:
    """[S] the turns of each stage, in order."""
    return tuple(
        _gpipe(microbatches) if order == "gpipe" else _one_by_one(min(stages - 1 - stage, microbatches), microbatches)
        for stage in range(stages)
    )


def held(taken: tuple[Turn, ...]) -> int:
    """The most microbatches that went forward and not yet backward on a stage that takes these turns."""
    most = now = 0
    for turn in taken:
        now += 1 if turn.forward else -1
        most = max(most, now)
    return most


def _gpipe(microbatches: int) -> tuple[Turn, ...]:
    there = [Turn(True, at) for at in range(microbatches)]
    return (*there, *(Turn(False, at) for at in reversed(range(microbatches))))


def _one_by_one(ahead: int, microbatches: int) -> tuple[Turn, ...]:
    """So many forward passes ahead, then one forward and one backward, then the backward passes that are left."""
    made = [Turn(True, at) for at in range(ahead)]
    for at in range(microbatches):
        if ahead + at < microbatches:
            made.append(Turn(True, ahead + at))
        made.append(Turn(False, at))
    return tuple(made)
