"""One colour per device: told apart by everybody, with readable text on it."""

import itertools
import re
from importlib import resources
from typing import Any

import pytest

from simulator.costs.rules import CATEGORIES
from viz.palette import (
    CATEGORY_COLOURS,
    HUES,
    PACKING,
    UNPACKING,
    device_colour,
    device_colours,
    mixed,
    rgb,
)

# What a dichromat sees, on linear RGB: Machado, Oliveira and Fernandes (2009), severity 1.
PROTANOPIA = ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998))
DEUTERANOPIA = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881))
NORMAL = ((1, 0, 0), (0, 1, 0), (0, 0, 1))


def linear(colour: str) -> list[float]:
    return [(p / 255 / 12.92 if p <= 10 else ((p / 255 + 0.055) / 1.055) ** 2.4) for p in rgb(colour)]


def lab(colour: str, seen: Any = NORMAL) -> tuple[float, float, float]:
    r, g, b = (min(1, max(0, sum(k * c for k, c in zip(row, linear(colour), strict=True)))) for row in seen)
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("seen", [NORMAL, PROTANOPIA, DEUTERANOPIA], ids=["normal", "protanopia", "deuteranopia"])
def test_sixteen_devices_are_told_apart(seen: Any) -> None:
    assert len(HUES) == 16
    for a, b in itertools.combinations(HUES, 2):
        distance = sum((p - q) ** 2 for p, q in zip(lab(a, seen), lab(b, seen), strict=True)) ** 0.5
        assert distance > 12, (a, b)  # 2.3 is a just noticeable difference


@pytest.mark.parametrize("seen", [NORMAL, PROTANOPIA, DEUTERANOPIA], ids=["normal", "protanopia", "deuteranopia"])
def test_the_selection_is_apart_from_every_device(seen: Any) -> None:
    style = resources.files("viz").joinpath("assets/report.css").read_text("utf-8")
    chosen = re.findall(r"--chosen: (#[0-9a-f]{6});", style)
    assert len(chosen) == 2  # on the light page and on the dark one
    for colour, device in itertools.product(chosen, HUES):
        distance = sum((p - q) ** 2 for p, q in zip(lab(colour, seen), lab(device, seen), strict=True)) ** 0.5
        assert distance > 25, (colour, device)


def test_eighty_devices_have_eighty_colours() -> None:
    assert len(set(device_colours(range(80)))) == 80


def test_every_device_is_seen_on_a_light_page_and_on_a_dark_one() -> None:
    """One of sixteen workers was drawn in "#f0fae0", which nobody sees on white."""
    style = resources.files("viz").joinpath("assets/report.css").read_text("utf-8")
    papers = re.findall(r"--paper: (#[0-9a-f]{6});", style)
    assert len(papers) == 2
    for paper, device in itertools.product(papers, device_colours(range(80))):
        assert sum((p - q) ** 2 for p, q in zip(lab(paper), lab(device), strict=True)) ** 0.5 > 18, (paper, device)


def test_a_device_keeps_its_colour_in_a_larger_cluster() -> None:
    assert device_colours(range(5)) == device_colours(range(30))[:5]
    assert device_colour(3) == device_colours(range(5))[3]


@pytest.mark.parametrize("row", range(80))
def test_text_on_a_device_is_readable(row: int) -> None:
    """In black or in white, whichever the page chooses."""
    light = sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear(device_colour(row)), strict=True))
    assert max((light + 0.05) / 0.05, 1.05 / (light + 0.05)) >= 4.5  # WCAG 2.1 AA


def test_every_category_has_a_colour_of_its_own() -> None:
    assert set(CATEGORY_COLOURS) == {*CATEGORIES, PACKING, UNPACKING}
    assert len(set(CATEGORY_COLOURS.values())) == len(CATEGORY_COLOURS)


@pytest.mark.parametrize("seen", [NORMAL, PROTANOPIA, DEUTERANOPIA], ids=["normal", "protanopia", "deuteranopia"])
def test_no_category_looks_like_a_device_or_another_category(seen: Any) -> None:
    """They shared eight colours with devices, so blue was a CPU and a product of matrices."""

    def apart(a: str, b: str) -> float:
        return float(sum((p - q) ** 2 for p, q in zip(lab(a, seen), lab(b, seen), strict=True)) ** 0.5)

    colours = list(CATEGORY_COLOURS.values())
    for category, device in itertools.product(colours, HUES):
        first = device in HUES[:8] and seen is NORMAL
        assert apart(category, device) > (24 if first else 10), (category, device)
    for a, b in itertools.combinations(colours, 2):
        assert apart(a, b) > 20, (a, b)


def test_mixing() -> None:
    assert mixed("#000000", "#ffffff", 0.5) == "#808080"
    assert mixed("#123456", "#ffffff", 0.0) == "#123456"
