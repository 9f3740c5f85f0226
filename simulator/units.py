"""Units: integer nanoseconds and bytes, and their readable forms ("25 GB/s", "16 GiB", "10 us").

Time is an integer number of nanoseconds and memory an integer number of bytes everywhere, so that ties are exact and
sums associate. Decimal prefixes (k, M, G, T) are powers of 1000, binary ones (Ki, Mi, Gi, Ti) powers of 1024.
Fractions are rounded up. A malformed quantity, or one with another unit, raises a ValueError with a good example.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from math import floor, inf, log10
from numbers import Integral, Real
from operator import is_
from typing import Any, TypeAlias

Nanos: TypeAlias = int
Bytes: TypeAlias = int

_PREFIX = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_SECONDS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}  # in ns
_PICOS = {"ps": 1, "ns": 10**3, "us": 10**6, "µs": 10**6}  # picoseconds per unit
_QUANTITY = re.compile(r"\s*([0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?)\s*([A-Za-zµ/]*)\s*\Z")
FIGURES = 4  # digits of a number without a unit
SECOND_NS: Nanos = 10**9
PS_PER_NS = 1000
NEVER: Nanos = 2**61  # where no route leads: later than any other time, and safe to add to
DAY_NS: Nanos = 24 * 3600 * SECOND_NS  # the longest op or step that is believed
MAX_QUANTITY = 2**62  # every parsed quantity must fit a signed 64-bit integer with room to add


def _split(text: str, what: str) -> tuple[Fraction, str]:
    found = _QUANTITY.match(text)
    if not found:
        raise ValueError(f"{text!r} is not {what}")
    return Fraction(found[1]), found[2]


def _whole(value: Fraction, text: str) -> int:
    if value > MAX_QUANTITY:
        raise ValueError(f"{text!r} is too large")
    return -(-value.numerator // value.denominator)


def parse_bytes(text: str) -> Bytes:
    """Read an amount of memory such as "16 GiB", "80 GB" or "512". Raises ValueError for other text."""
    value, unit = _split(text, 'an amount of memory such as "16 GiB"')
    body = unit.removesuffix("B")
    scale = _BINARY.get(body) or _PREFIX.get(body)
    if scale is None:
        raise ValueError(f"{text!r} has the unknown unit {unit!r}; use B, kB, MB, GB, KiB, MiB or GiB")
    return _whole(value * scale, text)


def parse_nanos(text: str) -> Nanos:
    """Read a duration such as "10 us" or "1.5 ms". Raises ValueError for other text."""
    value, unit = _split(text, 'a duration such as "10 us"')
    if unit not in _SECONDS:
        raise ValueError(f"{text!r} has the unknown unit {unit!r}; use ns, us, ms, s, min or h")
    return _whole(value * _SECONDS[unit], text)


def parse_picos(text: str) -> int:
    """Read a short duration such as "0.3 ns" or "300 ps", for the work on a byte, as picoseconds.

    Raises ValueError for other text.
    """
    value, unit = _split(text, 'a duration such as "0.3 ns"')
    if unit not in _PICOS:
        raise ValueError(f"{text!r} has the unknown unit {unit!r}; use ps, ns or us")
    return _whole(value * _PICOS[unit], text)


def parse_rate(text: str) -> int:
    """Read a bandwidth such as "25 GB/s" (bytes) or "25 Gb/s" and "25 Gbit/s" (bits) as bytes per second.

    Raises ValueError for other text.
    """
    value, unit = _split(text, 'a bandwidth such as "25 GB/s"')
    for suffix, bits in (("bit/s", 1), ("bps", 1), ("B/s", 8), ("b/s", 1)):
        if unit.endswith(suffix):
            body = unit.removesuffix(suffix)
            scale = _BINARY.get(body) or _PREFIX.get(body)
            if scale is not None:
                return _whole(value * scale * bits / 8, text)
    raise ValueError(f"{text!r} has the unknown unit {unit!r}; use GB/s, GiB/s or Gbit/s")


def parse_flops(text: str) -> int:
    """Read a compute speed such as "19.5 TFLOP/s", or "624 TOP/s" of integers, as operations per second.

    Raises ValueError for other text.
    """
    value, unit = _split(text, 'a speed such as "19.5 TFLOP/s"')
    for suffix in ("FLOP/s", "FLOPS", "flop/s", "OP/s", "OPS"):
        if unit.endswith(suffix) and unit.removesuffix(suffix) in _PREFIX:
            return _whole(value * _PREFIX[unit.removesuffix(suffix)], text)
    raise ValueError(f"{text!r} has the unknown unit {unit!r}; use GFLOP/s or TFLOP/s")


def _scaled(value: int, steps: tuple[tuple[int, str], ...], digits: int = 3) -> str:
    for size, unit in steps:
        if abs(value) >= size:
            shown = value / size
            return f"{shown:.0f} {unit}" if shown >= 99.95 and digits == 3 else f"{shown:.{digits}g} {unit}"
    return f"{value} {steps[-1][1]}"


def show_nanos(value: Nanos, digits: int = 3) -> str:
    """Print a duration with three digits: "12.3 ms"."""
    return _scaled(value, ((10**9, "s"), (10**6, "ms"), (10**3, "us"), (1, "ns")), digits)


def show_apart(first: Nanos, second: Nanos) -> tuple[str, str]:
    """Print two durations with as many digits as tell them apart, 3 to 17: "4.322 ms" and "4.317 ms"."""
    digits = 3
    while first != second and digits < 17 and show_nanos(first, digits) == show_nanos(second, digits):
        digits += 1
    return show_nanos(first, digits), show_nanos(second, digits)


def show_bytes(value: Bytes) -> str:
    """Print an amount of memory with three digits: "1.5 GiB"."""
    return _scaled(value, ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")))


def show_share(share: float, digits: int = 0) -> str:
    """Print a share of a whole: "43%"; "99%" is less than all of it, and "<1%" more than nothing."""
    least = 10.0 ** (-digits - 2)
    if 0 < share < least / 2:
        return f"<{least:.{digits}%}"
    return f"{min(share, 1 - least) if share < 1 else share:.{digits}%}"


def show_rate(value: int) -> str:
    """Print a bandwidth given in bytes per second: "25 GB/s"."""
    return _scaled(value, ((10**12, "TB/s"), (10**9, "GB/s"), (10**6, "MB/s"), (10**3, "kB/s"), (1, "B/s")))


def show_figure(value: float) -> str:
    """Print a number with four digits and no exponent: "350,200", "107.3", "0.001234"."""
    magnitude = floor(log10(abs(value))) if value else 0
    whole, point, rest = f"{round(value, FIGURES - 1 - magnitude):,.{max(0, FIGURES - 1 - magnitude)}f}".partition(".")
    rest = rest.rstrip("0")
    return f"{whole}{point}{rest}" if rest else whole


def is_quantity(value: object) -> bool:
    """Tell whether the value is a finite number from 0, numpy's included, and no bool."""
    return not isinstance(value, bool) and isinstance(value, Real) and 0 <= float(value) < inf


def is_whole(value: object) -> bool:
    """Tell whether the value is an integer, numpy's included, and no bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def as_python(value: Any, depth: int = 2) -> Any:  # Any: whatever a user hands in
    """A number of numpy as Python's own, also in mappings, lists and tuples; all else as it is.

    Numpy's have 64 bits or fewer, beyond which they wrap around, and are no numbers of JSON.
    """
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    if depth and isinstance(value, Mapping):
        made = {name: as_python(one, depth - 1) for name, one in value.items()}
        return value if all(one is made[name] for name, one in value.items()) else made
    if depth and type(value) in (list, tuple):
        parts = [as_python(one, depth - 1) for one in value]
        return value if all(map(is_, parts, value)) else type(value)(parts)
    return value
