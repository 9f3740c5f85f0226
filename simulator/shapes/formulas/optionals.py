"""Optionals: values that a branch wraps for its gradient.

The branches of a conditional hand out their optionals in the same slots, in each branch another list. So behind the
conditional an optional may wrap tensors of several types and ranks. The gradient of each branch declares what it takes
out, and gets what fits (`_make_intermediates_match` in tensorflow/python/ops/cond_v2.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.shapes.dims import Dims, Value
from simulator.shapes.site import Handle, Outputs, Site, either_handle


def wrapping(site: Site) -> Outputs:
    """OptionalFromValue: a handle of the only value that it wraps."""
    if len(site.shapes) == 1:
        inside = Handle("wrapped", held=site.shape(0), value=site.value(0), inner=site.handles[0], dtype=site.dtype(0))
        site.made[0] = Handle("optional", choices=(inside,))
    return ((),)


def nothing(site: Site) -> Outputs:
    """OptionalNone: a handle of nothing, from a branch that was not taken."""
    site.made[0] = Handle("optional")
    return ((),)


def unwrapped(site: Site) -> Outputs:
    """OptionalGetValue: what is wrapped, of the declared shapes."""
    declared = site.listed("output_shapes")
    if site.handle(0, "optional") is None or len(declared) != 1:
        return declared
    found = _fitting(site, declared[0])
    if found is None:
        site.wait()
        return declared
    if found.inner is not None:
        site.made[0] = found.inner
    return (declared[0] if isinstance(found.held, bool) else site.merged(declared[0], found.held),)


def value(site: Site, out: Outputs) -> Sequence[Value | None]:
    """OptionalGetValue: the elements of what is wrapped."""
    found = _fitting(site, out[0] if out else None)
    return (None if found is None else found.value,)


def _fitting(site: Site, declared: Dims) -> Handle | None:
    """The wrapped value that fits the declared type and shape; None if none does."""
    handle, types = (
        site.handle(0, "optional"),
        site.attrs["output_types"].list.type if "output_types" in site.attrs else (),
    )
    fits = [
        one
        for one in (() if handle is None else handle.choices)
        if list(types[:1]) in ([], [one.dtype]) and (isinstance(one.held, bool) or _agree(declared, one.held))
    ]
    if not fits:
        return None
    found: Handle | None = fits[0]
    for one in fits[1:]:
        found = either_handle(site.algebra, ("fitting", site.node), found, one)
    return found


def _agree(a: Dims, b: Dims) -> bool:
    """Whether two shapes may be the same."""
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(x == y or min(x, y) < 0 for x, y in zip(a, b, strict=True))
