"""How stale an update is: how many updates others made since its worker read what the gradient was computed from.

As in staleness-aware asynchronous SGD (Zhang et al., IJCAI 2016) weights have the time stamp of the last update, and a
gradient that of the weights it was computed from: of the first that its step read, as no other is older. A step that
reads nothing that it trains computes with what there was when it began.
"""

from __future__ import annotations


class Staleness:
    """Axis: C clients."""

    def __init__(self, clients: int) -> None:
        self.base = [0] * clients  # the global step when the step read first; before, when it began
        self.own = [0] * clients  # updates of its own since
        self.has_read = [False] * clients  # in its step

    def begin(self, client: int, global_step: int) -> None:
        """Its step begins."""
        self.base[client], self.own[client], self.has_read[client] = global_step, 0, False

    def read(self, client: int, global_step: int) -> None:
        """Its step reads what it trains."""
        if not self.has_read[client]:
            self.base[client], self.own[client], self.has_read[client] = global_step, 0, True

    def count(self, client: int, global_step: int) -> int:
        """Its step makes an update, the next after `global_step`, which may have fallen back: how stale it is."""
        stale = max(0, global_step - self.base[client] - self.own[client])
        self.own[client] += 1
        return stale
