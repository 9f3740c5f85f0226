"""Damaged files: cut, overwritten, with flipped bits. Whatever comes of them, it is a sentence, never a traceback."""

import gzip
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import SimvizError
from simulator.graph.importer import read_graph
from simulator.graph.step import choose_step
from tests.graph.test_importer import FORMS, MESSAGES, events, meta_graph, sample

ORIGINALS = [FORMS[form](make()) for make in MESSAGES.values() for form in ("binary", "text")]


def outcome(raw: bytes) -> str:
    """What comes of loading it and choosing a step; any error that is not ours passes through."""
    try:
        return f"runs {choose_step(read_graph(raw)).runs.sum()} nodes"
    except SimvizError as error:
        return str(error)


ORIGINALS += [gzip.compress(ORIGINALS[0]), events(sample(), meta_graph())]


@given(
    original=st.sampled_from(ORIGINALS),
    begin=st.integers(0, 10_000),
    length=st.one_of(st.just(0), st.just(1), st.integers(0, 500)),
    new=st.one_of(st.binary(max_size=3), st.binary(max_size=60)),
    keep=st.booleans(),
)
def test_damage_never_escapes_as_another_error(
    original: bytes, begin: int, length: int, new: bytes, keep: bool
) -> None:
    begin %= len(original)
    damaged = original[:begin] + new + (original[begin + length :] if keep else b"")
    assert len(outcome(damaged)) < 2000


@given(original=st.sampled_from(ORIGINALS), flips=st.lists(st.integers(0, 10**6), min_size=1, max_size=8))
def test_flipped_bits_never_escape_as_another_error(original: bytes, flips: Sequence[int]) -> None:
    damaged = bytearray(original)
    for flip in flips:
        damaged[flip // 8 % len(damaged)] ^= 1 << flip % 8
    assert len(outcome(bytes(damaged))) < 2000


@given(st.binary(max_size=200))
def test_noise_never_escapes_as_another_error(noise: bytes) -> None:
    assert outcome(noise).startswith(("runs", "bytes in memory"))
