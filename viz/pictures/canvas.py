"""A canvas in points, which Graphviz writes as SVG, PDF or PNG.

What is drawn becomes the background of an empty graph, in Graphviz's own language of drawings (xdot). So pictures of
times need no other library than those of graphs. A PDF embeds its fonts. An SVG names Helvetica, then any sans-serif,
or holds the shapes of its letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from viz.formats.dot import quoted, render

FONT = "Helvetica"
SIZE = 6.5  # points: the smallest letters that journals allow are 6
DARK, PALE, RULE = "#1f2933", "#5b6673", "#d5dae0"
# widths of the letters from " " to "~" in thousandths of the size, from Adobe's metrics of Helvetica, 1997
_METRICS = (
    "278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 278 "
    "278 584 584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 667 778 722 667 611 722 "
    "667 944 667 667 611 278 278 278 469 556 333 556 556 500 556 556 278 556 556 222 222 500 222 833 556 556 556 "
    "556 333 500 278 556 500 722 500 500 500 334 260 334 584 "
)
_WIDTHS = {chr(32 + at): int(width) for at, width in enumerate(_METRICS.split())}
_WIDEST = 1000  # of other letters
_ROUNDED = 1.19  # Graphviz rounds the widths of small letters, mostly up, and makes room for what it measures
_MOST_LETTERS = 4000  # of UTF-8 each may be three bytes or more
_EDGE = 1.5  # points above and below, for what letters need beside their size
_HAIR = 0.05  # points: a border that nobody sees

Point = tuple[float, float]


class Canvas:
    """Shapes from the top down; y grows downwards."""

    def __init__(self, width: float) -> None:
        self.width = width
        self.height = 0.0
        self._drawn: list[str] = []  # with y as given; turned when the height is known
        self._shapes: list[tuple[str, str, Sequence[Point], str]] = []

    def box(self, left: float, top: float, width: float, height: float, colour: str) -> None:
        """A filled rectangle, without a border."""
        self.area([(left, top), (left + width, top), (left + width, top + height), (left, top + height)], colour)

    def area(self, corners: Sequence[Point], colour: str) -> None:
        """A filled polygon, without a border."""
        self._add(f"{_line_width(_HAIR)} {_pen(colour)} {_fill(colour)} P", corners)

    def line(self, points: Sequence[Point], colour: str, width: float = 0.5) -> None:
        """A line through these points."""
        self._add(f"{_line_width(width)} {_pen(colour)} L", points)

    def text(
        self, x: float, baseline: float, said: str, *, at: str = "start", colour: str = DARK, size: float = SIZE
    ) -> None:
        """A text that starts at x, ends there ("end") or has its middle there ("middle").

        Nothing is drawn of an empty one: Graphviz would read no further.
        """
        if not said:
            return
        number = {"start": -1, "middle": 0, "end": 1}[at]
        width = width_of(said, size)
        self._add(
            f"F {size:g} {_counted(FONT)} {_pen(colour)} T", [(x, baseline)], f"{number} {width:.1f} {_counted(said)}"
        )

    def _add(self, head: str, points: Sequence[Point], tail: str = "") -> None:
        self.height = max(self.height, *(y for _, y in points))
        self._shapes.append((head, str(len(points)) if not tail else "", points, tail))

    def drawn(self, format: str, title: str, *, shapes: bool = False) -> bytes:
        """The picture as "svg", "pdf" or "png"; with `shapes` an SVG needs no font."""
        high = self.height
        ops = []
        for head, count, points, tail in self._shapes:
            places = " ".join(f"{x:.2f} {high - y:.2f}" for x, y in points)
            ops.append(" ".join(filter(None, (head, count, places, tail))))
        background = " + ".join(f'"{chunk} "' for chunk in _chunks(ops))
        corners = ((0.0, -_EDGE), (self.width, high + _EDGE))
        nodes = "".join(f'  c{n} [pos="{x:.2f},{y:.2f}!"];\n' for n, (x, y) in enumerate(corners))
        source = (
            f"digraph {quoted(title)} {{\n"
            '  bgcolor="transparent"; pad=0; margin=0;\n'
            '  node [shape=point, width=0.001, height=0.001, fixedsize=true, style=invis, label=""];\n'
            f"{nodes}  _background={background};\n}}\n"
        )
        return render(source, format, placed=True, shapes=shapes)


def _chunks(ops: Sequence[str]) -> Iterator[str]:
    """The operations in texts of a length that Graphviz reads: its scanner takes 16,384 bytes at once."""
    chunk: list[str] = []
    for op in ops:
        if chunk and sum(map(len, chunk)) + len(op) > _MOST_LETTERS:
            yield " ".join(chunk)
            chunk = []
        chunk.append(op)
    yield " ".join(chunk)


def width_of(said: str, size: float = SIZE) -> float:
    """How much room a text takes in Helvetica, in points."""
    return sum(_WIDTHS.get(letter, _WIDEST) for letter in said) * size * _ROUNDED / 1000


def fitting(said: str, width: float, size: float = SIZE) -> str:
    """The text, cut in the middle where it is wider; names of links differ at their ends, so more of the end stays."""
    if width_of(said, size) <= width:
        return said
    for kept in range(min(len(said), int(width)) - 1, 1, -1):
        tail = kept * 2 // 3
        shown = f"{said[: kept - tail]}…{said[len(said) - tail :]}"
        if width_of(shown, size) <= width:
            return shown
    return "…"


def wrapped(said: str, width: float, most: int) -> list[str]:
    """The text in at most so many lines of that width; what is left is cut off."""
    lines: list[str] = []
    for word in said.split():
        if lines and width_of(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        elif len(lines) == most:
            lines[-1] = fitting(f"{lines[-1]} …", width)
            break
        else:
            lines.append(fitting(word, width))
    return lines


def _pen(colour: str) -> str:
    return f"c {_counted(colour)}"


def _fill(colour: str) -> str:
    return f"C {_counted(colour)}"


def _line_width(points: float) -> str:
    return f"S {_counted(f'setlinewidth({points:g})')}"


def _counted(text: str) -> str:
    """A text with the number of its bytes before it, as xdot wants it."""
    kept = "".join(c if c.isprintable() else "�" for c in text).encode("utf-8", "replace").decode()
    kept = kept.replace("\\", "∖")  # in this attribute Graphviz leaves a backslash as it is written, even a doubled one
    quoting = kept.replace('"', '\\"')
    return f"{len(kept.encode())} -{quoting}"
