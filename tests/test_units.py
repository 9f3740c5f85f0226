"""Units: what is read is exact, what is printed is short."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.units import (
    parse_bytes,
    parse_flops,
    parse_nanos,
    parse_picos,
    parse_rate,
    show_apart,
    show_bytes,
    show_figure,
    show_nanos,
    show_rate,
    show_share,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_bytes, "16 GiB", 16 * 2**30),
        (parse_bytes, "80GB", 80 * 10**9),
        (parse_bytes, "512", 512),
        (parse_bytes, "1.5 kB", 1500),
        (parse_nanos, "10 us", 10_000),
        (parse_nanos, "0.1 ns", 1),
        (parse_nanos, "1.5 ms", 1_500_000),
        (parse_nanos, "2min", 120 * 10**9),
        (parse_nanos, "1.5 h", 5400 * 10**9),
        (parse_picos, "0.3 ns", 300),
        (parse_picos, "1 us", 10**6),
        (parse_picos, "0.1 ps", 1),
        (parse_rate, "25 GB/s", 25 * 10**9),
        (parse_rate, "25 Gbit/s", 3_125_000_000),
        (parse_rate, "25 Gb/s", 3_125_000_000),
        (parse_rate, "8 bit/s", 1),
        (parse_flops, "19.5 TFLOP/s", 195 * 10**11),
        (parse_flops, "3 GFLOPS", 3 * 10**9),
    ],
)
def test_reading(parse: Callable[..., Any], text: str, value: int) -> None:
    assert parse(text) == value


@pytest.mark.parametrize("parse", [parse_bytes, parse_nanos, parse_picos, parse_rate, parse_flops])
@pytest.mark.parametrize("text", ["", "x", "-1 GB", "1 parsec", "1e999 GB", "nan", "9" * 400 + " GB/s", "1 GBB"])
def test_other_words_are_refused(parse: Callable[..., Any], text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|unknown unit|too large"):
        parse(text)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (show_nanos(0), "0 ns"),
        (show_nanos(999), "999 ns"),
        (show_nanos(1234), "1.23 us"),
        (show_nanos(123_456_789), "123 ms"),
        (show_bytes(1536), "1.5 KiB"),
        (show_rate(3_125_000_000), "3.12 GB/s"),
        (show_figure(350_249.9), "350,200"),
        (show_figure(13_520), "13,520"),
        (show_figure(1039.6), "1,040"),
        (show_figure(999.96), "1,000"),
        (show_figure(107.25), "107.2"),
        (show_figure(126.0), "126"),
        (show_figure(0.1209), "0.1209"),
        (show_figure(0.000012345), "0.00001234"),
        (show_figure(0), "0"),
    ],
)
def test_printing(shown: str, text: str) -> None:
    assert shown == text


@given(st.integers(0, 2**40))
def test_what_is_printed_is_near_what_it_was(value: int) -> None:
    assert abs(parse_bytes(show_bytes(value)) - value) <= value * 0.01


@given(st.integers(0, 10**12), st.integers(-(10**6), 10**6))
def test_two_durations_are_shown_with_no_more_digits_than_tell_them_apart(first: int, more: int) -> None:
    second = max(0, first + more)
    shown = show_apart(first, second)
    assert (shown[0] == shown[1]) == (first == second)
    if show_nanos(first) != show_nanos(second):
        assert shown == (show_nanos(first), show_nanos(second))
    assert show_apart(4_321_900, 4_317_000) == ("4.322 ms", "4.317 ms")


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [
        (0, 0, "0%"),
        (0.004, 0, "<1%"),
        (0.434, 0, "43%"),
        (0.997, 0, "99%"),
        (1, 0, "100%"),
        (0.0004, 1, "<0.1%"),
        (0.12345, 1, "12.3%"),
        (0.9996, 1, "99.9%"),
        (1.0, 1, "100.0%"),
    ],
)
def test_a_share_is_all_or_nothing_only_where_it_is(share: float, digits: int, text: str) -> None:
    """A CPU was busy for 100.0% of a step in the summary, and for 99.9 % of it on the page."""
    assert show_share(share, digits) == text
