"""Colours: one per device, the same in every picture, and distinct for colour-blind readers.

The first eight hues are those of Okabe and Ito, "Color Universal Design" (2008); a grey that shows on a dark page
replaces black. The other eight were searched for. Each is at least 21 apart from all others in CIE L*a*b*, to normal
eyes, without red and without green. A larger cluster repeats them lighter, darker and greyer, each at least 18 apart
from the light page and the dark one. The selection's colours (`--chosen` in report.css) are further from the first
sixteen. Every picture also names the device.

Categories have colours of their own, so that none is taken for a device. They were searched for likewise. Each is at
least 10 from the sixteen devices, 24 from the first eight to normal eyes, and 20 from other categories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simulator.costs.rules import (
    ARRAY,
    CHECKPOINT,
    COMMUNICATION,
    CONTROL,
    ELEMENTWISE,
    MATRIX,
    NEURAL,
    OTHER,
    QUEUE,
    STATE,
)

HUES = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#666e7a", "#f0e442"),
    *("#ccee99", "#882200", "#7788ff", "#0044aa", "#334466", "#bbaa55", "#77ddaa", "#773333"),
)
GREY = 6  # of these
# (towards, how far) of each further round of the hues
ROUNDS = (("#ffffff", 0.0), ("#ffffff", 0.4), ("#000000", 0.2), ("#808080", 0.45), ("#ffffff", 0.2))
PACKING, UNPACKING = "packing", "unpacking"  # the work of CPUs and hosts of GPUs for transfers
CATEGORY_COLOURS: Mapping[str, str] = {
    MATRIX: "#4466cc",
    NEURAL: "#00bbcc",
    ELEMENTWISE: "#aadd55",
    ARRAY: "#9999ff",
    STATE: "#553388",
    QUEUE: "#885544",
    CONTROL: "#775588",
    CHECKPOINT: "#88aa66",
    COMMUNICATION: "#aa5522",
    PACKING: "#aaeeaa",
    UNPACKING: "#0033bb",
    OTHER: "#99bbaa",
}


def rgb(colour: str) -> tuple[int, int, int]:
    """Red, green and blue, 0 to 255, of "#rrggbb"."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def mixed(colour: str, towards: str, share: float) -> str:
    """The colour moved towards another by a share between 0 and 1."""
    parts = (round(a + (b - a) * share) for a, b in zip(rgb(colour), rgb(towards), strict=True))
    return "#" + "".join(f"{part:02x}" for part in parts)


def device_colour(row: int) -> str:
    """Colour of a device by its row in the cluster; after eighty devices the colours repeat."""
    towards, share = ROUNDS[row // len(HUES) % len(ROUNDS)]
    return mixed(HUES[row % len(HUES)], towards, share)


def device_colours(devices: Sequence[object]) -> tuple[str, ...]:
    """One colour per device of a cluster, in order."""
    return tuple(device_colour(row) for row in range(len(devices)))
