"""Peak speeds of a device by number format, float64 to int8.

Plain units are CUDA cores and a processor's vector units. Matrix units are tensor cores and AMX tiles; only products of
matrices and convolutions run on them. `Device.flop_per_s` is the speed in float32 on plain units. A missing speed
follows from it. `chips` says what parts of its peaks a GPU's kernels reach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from simulator.units import parse_flops

FORMATS = ("float64", "float32", "bfloat16", "float16", "int8")  # widest first


@dataclass(frozen=True, slots=True)
class Peaks:
    """Operations per second, 0 where unknown; the device itself has the speed in float32 on plain units."""

    float64: int = 0
    bfloat16: int = 0
    float16: int = 0
    int8: int = 0
    matrix_float64: int = 0
    matrix_float32: int = 0  # TF32, which TensorFlow uses by default for float32 (Ampere and later)
    matrix_bfloat16: int = 0
    matrix_float16: int = 0
    matrix_int8: int = 0

    def scaled(self, times: int, parts: int) -> Peaks:
        """The speeds of a device that is so many of so many equal parts of this one."""
        speeds = [int(getattr(self, field.name)) for field in fields(self)]
        return Peaks(*[max(1, speed * times // parts) if speed else 0 for speed in speeds])


NO_PEAKS = Peaks()


def peak(flop_per_s: int, peaks: Peaks, number: str, *, matrix: bool = False) -> tuple[int, bool]:
    """Operations per second in that format, and whether they are assumed because the device lacks the figure.

    `flop_per_s` is the plain speed in float32. The assumed speed in float64 is half of it, as a vector holds half as
    many numbers; in a narrower format it is the same. A format that the matrix units lack runs on plain units. A format
    narrower than float32 is never slower than float32.
    """
    if number == "float32":
        plain, assumed = flop_per_s, False
    else:
        given = int(getattr(peaks, number))
        plain, assumed = given or (max(1, flop_per_s // 2) if number == "float64" else flop_per_s), not given
    if not matrix:
        return plain, assumed
    given = int(getattr(peaks, f"matrix_{number}"))
    if given:
        return given, False
    if number in ("float64", "float32"):
        return plain, assumed
    return max(plain, peaks.matrix_float32), assumed


def read_peaks(table: Mapping[str, Any]) -> tuple[int, Peaks]:  # Any: whatever TOML holds
    """Read the keys `compute`, a speed in float32 or a table by format, and `matrix_compute`, such a table.

    Raises ValueError for an unknown format or a malformed speed, KeyError without float32.
    """
    compute = table["compute"]
    plain = {"float32": _speed("compute", compute)} if isinstance(compute, str) else _speeds("compute", compute)
    if "float32" not in plain:
        raise KeyError("compute: a table of speeds lacks the key 'float32'")
    matrix = _speeds("matrix_compute", table.get("matrix_compute", {}))
    flop_per_s = plain.pop("float32")
    return flop_per_s, Peaks(**plain, **{f"matrix_{number}": speed for number, speed in matrix.items()})


def _speeds(key: str, value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        raise ValueError(f'{key}: {value!r} is no table of speeds, such as {{ float32 = "19.5 TFLOP/s" }}')
    for number in value:
        if number not in FORMATS:
            raise ValueError(f"{key}: there is no number format {number!r}; known are {', '.join(FORMATS)}")
    return {number: _speed(f"{key}: {number}", text) for number, text in value.items()}


def _speed(key: str, text: object) -> int:
    speed = quantity(key, text, parse_flops)
    if speed < 1:
        raise ValueError(f"{key}: {text!r} is not above zero")
    return speed


def quantity(key: str, text: object, parse: Callable[[str], int]) -> int:
    """A quantity with its unit. Raises ValueError, which begins with the key."""
    if not isinstance(text, str):
        raise ValueError(f"{key}: {text!r} needs a unit: write it in quotes")
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def whole(key: str, value: object, what: str, least: int, most: int) -> int:
    """A number of something. Raises ValueError, which begins with the key."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{key}: {value!r} is not a number {what}from {least} to {most}")
    return value
