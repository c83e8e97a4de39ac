"""Draws panels of the dashboard from what Prometheus answered, as one SVG:

python -m tests.deploy.live --keep FOLDER && python -m tests.deploy.picture FOLDER docs/dashboard.svg

Stacked panels are filled areas, others are lines; below each is the time since the load began.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from msgspec import Struct

Points = list[tuple[float, float]]  # seconds since 1970, value
Line = tuple[str, Points]

BLUE, GREEN, YELLOW, RED, VIOLET, ORANGE = "#3274d9", "#56a64b", "#e0b400", "#e02f44", "#8f3bb8", "#ff780a"
COLORS = (BLUE, GREEN, VIOLET, ORANGE, "#0a9396", "#7a7a7a")
# What people expect: a fault is red, what went as it should is green.
MEANT = {"passed": GREEN, "shaped": BLUE, "refused": YELLOW, "upstream_rejected": ORANGE, "upstream_error": RED}
TEXT, FAINT, GRID = "#1f2328", "#6e7781", "#e6e7e8"
WIDE, HIGH, LEFT, RIGHT, TOP, BOTTOM = 440, 220, 62, 20, 34, 62


class Shown(Struct, frozen=True):
    """One panel of the picture: its title in the dashboard, the unit of its values, whether its lines are stacked, and
    which of them are shown (a part of their names)."""

    title: str
    unit: str = ""
    stacked: bool = False
    only: str = ""


SHOWN = (
    Shown("Requests by outcome", "/s", stacked=True),
    Shown("Tokens a second"),
    Shown("Tokens taken out a second", stacked=True),
    Shown("Original and sent, p95", "%", only="model-8k"),
    Shown("Cached share of prompt tokens", "%", only="model-8k"),
    Shown("Summaries by result", "/s", stacked=True),
)


def read(folder: Path, shown: Shown) -> Iterator[Line]:
    """The lines of a panel that are not 0 all the time. A legend is the query's own, its labels filled in."""
    for file in sorted(folder.glob("*.json")):
        kept = json.loads(file.read_text())
        for series in kept["series"] if kept["title"] == shown.title else ():
            points = [(at, float(value)) for at, value in series["values"] if value != "NaN"]
            name = named(kept["legend"], series["metric"])
            if any(value for _, value in points) and shown.only in name:
                yield name, points


def named(legend: str, labels: dict[str, str]) -> str:
    """A legend such as `{{model}} sent` with the labels of one series in it."""
    return re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), legend)


def piled(lines: Sequence[Line]) -> list[tuple[str, Points, Points]]:
    """Each line on top of those before it: its name, its lower edge and its upper edge. A line without a value at a
    time has the height 0 there."""
    times = sorted({at for _, points in lines for at, _ in points})
    lower = [(at, 0.0) for at in times]
    made = []
    for name, points in lines:
        heights = dict(points)
        upper = [(at, below + heights.get(at, 0.0)) for at, below in lower]
        made.append((name, lower, upper))
        lower = upper
    return made


def round_top(most: float) -> float:
    """The next of 1, 1.5, 2, 3, 4, 5, 6, 8, 10 times a power of ten: where an axis may end."""
    power = 10.0 ** math.floor(math.log10(most or 1.0))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= most * 0.999)


def reads(value: float, unit: str) -> str:
    """A value as people read it: 40/s, 250 k, 1.5 M, 80 %."""
    if unit == "%":
        return f"{value:.0%}"
    for power, letter in ((1e6, " M"), (1e3, " k")):
        if value >= power:
            return f"{value / power:g}{letter}{unit}"
    return f"{value:g}{unit}"


def colors(names: Sequence[str]) -> list[str]:
    """A color for each line: the one its name stands for, or the next free one."""
    free = iter(color for color in COLORS if color not in {MEANT.get(name) for name in names})
    return [MEANT.get(name) or next(free) for name in names]


class Axes:
    """Where a value at a time lies in the panel whose corner is (x, y)."""

    def __init__(self, x: int, y: int, began: float, ends: float, most: float) -> None:
        self.left, self.bottom = x + LEFT, y + HIGH - BOTTOM
        self.wide, self.high = WIDE - LEFT - RIGHT, HIGH - TOP - BOTTOM
        self.began, self.span, self.most = began, (ends - began) or 1.0, most

    def place(self, at: float, value: float) -> str:
        return f"{self.across(at):.1f},{self.up(value):.1f}"

    def across(self, at: float) -> float:
        return self.left + (at - self.began) / self.span * self.wide

    def up(self, value: float) -> float:
        return self.bottom - value / self.most * self.high

    def drawn(self, unit: str) -> Iterator[str]:
        """Three values at the left, and the time every ten seconds below."""
        for value in (0.0, self.most / 2, self.most):
            yield _rule(self.left, self.up(value), self.left + self.wide, self.up(value))
            yield _text(self.left - 6, self.up(value) + 4, reads(value, unit), FAINT, 10, anchor="end")
        for second in range(0, int(self.span) + 1, 10):
            across = self.across(self.began + second)
            yield _rule(across, self.bottom, across, self.bottom + 4)
            yield _text(across, self.bottom + 15, f"{second} s", FAINT, 10, anchor="middle")


def panel(shown: Shown, lines: Sequence[Line], x: int, y: int) -> str:
    """One panel with its frame, its axes and its legend below."""
    times = [at for _, points in lines for at, _ in points] or [0.0]
    areas = piled(lines)
    heights = (
        [value for _, _, upper in areas for _, value in upper]
        if shown.stacked
        else [value for _, points in lines for _, value in points]
    )
    axes = Axes(x, y, min(times), max(times), round_top(max(heights, default=0.0)))
    out = [
        f'<rect x="{x}" y="{y}" width="{WIDE - 8}" height="{HIGH - 8}" rx="4" fill="#ffffff" stroke="#d8d9da"/>',
        _text(x + 12, y + 20, shown.title, TEXT, 13, "600"),
        *axes.drawn(shown.unit),
    ]
    chosen = colors([name for name, _ in lines])
    for (_, lower, upper), (_, points), color in zip(areas, lines, chosen, strict=True):
        out.append(_area(axes, lower, upper, color) if shown.stacked else _line(axes, points, color))
    return "\n".join([*out, *_legend(lines, chosen, x, y)])


def _area(axes: Axes, lower: Points, upper: Points, color: str) -> str:
    edge = " ".join(axes.place(*point) for point in [*upper, *reversed(lower)])
    return f'<polygon fill="{color}" fill-opacity="0.7" stroke="{color}" stroke-width="0.5" points="{edge}"/>'


def _line(axes: Axes, points: Points, color: str) -> str:
    path = " ".join(axes.place(*point) for point in points)
    return f'<polyline fill="none" stroke="{color}" stroke-width="1.8" points="{path}"/>'


def _legend(lines: Sequence[Line], chosen: Sequence[str], x: int, y: int) -> Iterator[str]:
    across, row = x + 12, 0
    for (name, _), color in zip(lines, chosen, strict=True):
        length = 24 + int(5.6 * len(name))
        if across + length > x + WIDE - 8:
            across, row = x + 12, row + 1
        top = y + HIGH - 38 + 14 * row
        yield f'<rect x="{across}" y="{top}" width="9" height="9" rx="1" fill="{color}"/>'
        yield _text(across + 13, top + 9, name, TEXT, 10)
        across += length


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{GRID}"/>'


def _text(x: float, y: float, text: str, color: str, size: int, weight: str = "400", anchor: str = "start") -> str:
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{color}"'
    return f'<text x="{x:.0f}" y="{y:.0f}" {style}>{escape(text)}</text>'


def drawn(folder: Path) -> str:
    """The whole picture."""
    parts: list[str] = []
    for number, shown in enumerate(SHOWN):
        x, y = number % 2 * WIDE, number // 2 * HIGH
        parts.append(panel(shown, list(read(folder, shown))[: len(COLORS)], x + 8, y + 8))
    wide, high = 2 * WIDE + 8, (len(SHOWN) + 1) // 2 * HIGH + 8
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif">'
    return "\n".join([head, f'<rect width="{wide}" height="{high}" fill="#f4f5f5"/>', *parts, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(drawn(Path(sys.argv[1])))
