"""The discipline of links: which a transfer holds alone and which it shares, by the contention of a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from simulator.columns import Flags, Ints, Lists, flags, ints
from simulator.errors import ClusterError
from simulator.execution.arrays import SharedLinks, filled
from simulator.execution.routes import Routes

_NO_BOUND = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Discipline:
    """The use that transfers of each route make of its links. Axes: W routes, L links."""

    held: Lists  # [W] links that one transfer at a time has to itself while its bytes pass
    shared: Lists  # [W] links that all transfers on them share
    cap: Ints  # [W] what the other links let each of those have, bytes per second; 0: no bound
    bytes_per_s: Ints  # [W] of the slowest link of each route
    link_bytes_per_s: Ints  # [L]
    contended: Flags  # [L] transfers hold it alone or share it

    @property
    def flows(self) -> Flags:
        """[W] some link is shared."""
        return flags(self.shared.sizes > 0)

    @cached_property
    def even(self) -> Flags:
        """[W] all held links are as fast as the route."""
        return self._none(self._faster != 0)

    @cached_property
    def slower(self) -> Flags:
        """[W] no held link is as slow as the route."""
        return self._none(self._faster <= 0)

    @cached_property
    def _faster(self) -> Ints:
        """Bytes per second by which each held link is faster than its route."""
        return ints(self.link_bytes_per_s[self.held.item] - self.bytes_per_s[self.held.of])

    def _none(self, wrong: Flags) -> Flags:
        """[W] of its held links none is wrong."""
        return flags(np.bincount(self.held.of, wrong, len(self.held)) == 0)

    @cached_property
    def links(self) -> SharedLinks:
        """The shared links of all routes, as the loop reads them."""
        users = np.bincount(self.shared.item, minlength=len(self.link_bytes_per_s))
        found: SharedLinks = filled(
            SharedLinks,
            link_ptr=self.shared.ptr,
            link=self.shared.item,
            user_ptr=np.append(0, np.cumsum(users)),
            cap=self.cap,
            capacity=self.link_bytes_per_s,
        )
        return found


# results of `discipline`: the plans of a search are simulated on the same routes
_OF_ROUTES: WeakKeyDictionary[Routes, dict[str, Discipline]] = WeakKeyDictionary()


def discipline(routes: Routes, contention: str) -> Discipline:
    """Apply the simulation's contention to the links that have none of their own.

    Raises ClusterError for a route on which one link serves in turn and another is shared. The bytes that the first
    would let through depend on those that the second leaves.
    """
    known = _OF_ROUTES.setdefault(routes, {})
    if contention not in known:
        known[contention] = _discipline(routes, contention)
    return known[contention]


def _discipline(routes: Routes, contention: str) -> Discipline:
    said = np.array([own or contention for own in routes.link_contention], np.str_)
    held, shared = (routes.links.where(flags((said == one)[routes.links.item])) for one in ("serial", "fair"))
    mixed = np.flatnonzero((held.sizes > 0) & (shared.sizes > 0))
    if len(mixed):
        raise _mixed(routes, held[int(mixed[0])][0], shared[int(mixed[0])][0])
    cap = np.zeros(len(routes.links), np.int64)
    if len(shared.item):
        others = routes.links.where(flags((said != "fair")[routes.links.item]))
        cap[:] = _NO_BOUND
        np.minimum.at(cap, others.of, routes.link_bytes_per_s[others.item])
        cap[(shared.sizes == 0) | (others.sizes == 0)] = 0
    slowest = ints(routes.bytes_per_s[routes.pace])
    return Discipline(held, shared, ints(cap), slowest, routes.link_bytes_per_s, flags(said != "none"))


def _mixed(routes: Routes, serial: int, fair: int) -> ClusterError:
    """The error for two links of one route; the simulation can mend it where it speaks for one of them."""
    asks = [link for link in (serial, fair) if routes.link_contention[link] is not None]
    if len(asks) == 2:
        advice = "Give them one contention."
    else:
        name, said = routes.link_names[asks[0]], routes.link_contention[asks[0]]
        advice = f"Simulate with the contention {said!r}, as {name!r} says itself, or let the other say it, too."
    return ClusterError(
        f"Link {routes.link_names[serial]!r} is serial and {routes.link_names[fair]!r} is shared fairly, but one route "
        f"leads over both. {advice}"
    )
