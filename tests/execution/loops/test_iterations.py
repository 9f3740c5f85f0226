"""Sets of iterations as bits, against sets of pairs (entry into the loop, iteration)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simulator.execution.loops.iterations import IterationSpace

Pairs = set[tuple[int, int]]
SPACES = st.builds(IterationSpace, outer=st.integers(1, 4), width=st.integers(1, 5), trips=st.just(0))


def pairs(space: IterationSpace, given: int) -> Pairs:
    return {divmod(bit, space.width) for bit in range(space.size) if given >> bit & 1}


def bits(space: IterationSpace, wanted: Pairs) -> int:
    return sum(1 << entry * space.width + iteration for entry, iteration in wanted)


@given(SPACES, st.integers(0), st.integers(0))
def test_bits_are_pairs(space: IterationSpace, some: int, around: int) -> None:
    given, entered = some & space.all, {entry for entry in range(space.outer) if around >> entry & 1}
    around = sum(1 << entry for entry in entered)
    found = pairs(space, given)
    assert space.first(around) == bits(space, {(entry, 0) for entry in entered})
    assert space.every(around) == bits(space, {(entry, i) for entry in entered for i in range(space.width)})
    assert space.following(given) == bits(space, {(entry, i + 1) for entry, i in found if i + 1 < space.width})
    assert space.any_of(given) == sum(1 << entry for entry in {entry for entry, _ in found})
    begun = {(entry, i) for entry, i in found if all((entry, before) in found for before in range(i))}
    assert space.unbroken(given) == bits(space, begun)
    last = {(entry, i) for entry, i in begun if (entry, i + 1) not in begun}
    assert space.last(space.unbroken(given)) == bits(space, last)
    assert space.grid(given).tolist() == [
        [(entry, i) in found for i in range(space.width)] for entry in range(space.outer)
    ]
