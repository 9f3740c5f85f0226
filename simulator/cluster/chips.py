"""A GPU's chip: how far its kernels stay below the peaks of the data sheet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulator.units import Nanos, parse_nanos

MAX_MULTIPROCESSORS = 2**10
REACHED = ("bandwidth", "products", "convolutions", "matrix_products", "matrix_convolutions")


@dataclass(frozen=True, slots=True)
class Chip:
    """The number of multiprocessors, the time of the host per kernel, and the parts of the peaks that are reached."""

    multiprocessors: int
    dispatch_ns: Nanos  # of an op by executor and driver on the host: a shorter kernel waits for the next one
    bandwidth: float  # part of the memory's bandwidth that a kernel reaches which streams
    products: float  # part of the plain peaks that a large product reaches
    convolutions: float  # part of them that a large convolution reaches, done as a product
    matrix_products: float  # part of the peaks of tensor cores that a large product reaches
    matrix_convolutions: float  # part of them that a large convolution reaches


def read_chip(table: Mapping[str, Any]) -> Chip | None:  # Any: whatever TOML holds
    """Read the keys `multiprocessors`, `dispatch` and `reached` of a GPU model; None: they are missing.

    Raises KeyError if only some are there, and ValueError, which begins with the key, for a wrong value.
    """
    keys = ("multiprocessors", "dispatch", "reached")
    if not any(key in table for key in keys):
        return None
    for key in keys:
        if key not in table:
            raise KeyError(f"{key}: give all of {', '.join(keys)}, or none")
    count, parts = table["multiprocessors"], table["reached"]
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_MULTIPROCESSORS:
        raise ValueError(f"multiprocessors: {count!r} is not a number from 1 to {MAX_MULTIPROCESSORS}")
    if not isinstance(table["dispatch"], str):
        raise ValueError(f"dispatch: {table['dispatch']!r} needs a unit: write it in quotes")
    if not isinstance(parts, dict) or not {"bandwidth", "products"} <= set(parts) <= set(REACHED):
        raise ValueError(f"reached: {parts!r} is no table of parts, such as {{ bandwidth = 0.8, products = 0.9 }}")
    return Chip(
        multiprocessors=count,
        dispatch_ns=parse_nanos(table["dispatch"]),
        bandwidth=_part("bandwidth", parts["bandwidth"]),
        products=_part("products", parts["products"]),
        convolutions=_part("convolutions", parts.get("convolutions", parts["products"])),
        matrix_products=_part("matrix_products", parts.get("matrix_products", parts["products"])),
        matrix_convolutions=_part("matrix_convolutions", parts.get("matrix_convolutions", parts["products"])),
    )


def _part(name: str, value: object) -> float:
    if not isinstance(value, float | int) or isinstance(value, bool) or not 0.01 <= value <= 1:
        raise ValueError(f"reached: {name} = {value!r} is not a part from 0.01 to 1")
    return float(value)
