"""Draws panels of the dashboard from what Prometheus answered, as one SVG:

python -m tests.deploy.live --keep FOLDER && python -m tests.deploy.picture FOLDER docs/dashboard.svg
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

Line = tuple[str, list[tuple[float, float]]]

# Title in the dashboard, how a value reads, stacked.
SHOWN = (
    ("Requests by outcome", "{:.0f}/s", True),
    ("Tokens a second", "{:,.0f}", False),
    ("Cached share of prompt tokens", "{:.0%}", False),
    ("Tokens taken out a second", "{:,.0f}", True),
    ("Original and sent, p95", "{:.1f}", False),
    ("Summaries by result", "{:.1f}/s", True),
)
COLORS = ("#3274d9", "#56a64b", "#e0b400", "#e02f44", "#8f3bb8", "#ff780a", "#0a9396", "#7a7a7a")
WIDE, HIGH, LEFT, TOP, BOTTOM = 440, 200, 60, 28, 40


def read(folder: Path, title: str) -> Iterator[Line]:
    """The lines of a panel; a legend is the query's own, its labels filled in."""
    for file in sorted(folder.glob("*.json")):
        kept = json.loads(file.read_text())
        if kept["title"] == title:
            for series in kept["series"]:
                yield (
                    named(kept["legend"], series["metric"]),
                    [(at, float(value)) for at, value in series["values"] if value != "NaN"],
                )


def named(legend: str, labels: dict[str, str]) -> str:
    """A legend such as `{{model}} sent` with the labels of one series in it."""
    return re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), legend)


def stacked(lines: list[Line]) -> list[Line]:
    """Each line on top of those before it."""
    total: dict[float, float] = {}
    piled = []
    for name, points in lines:
        for at, value in points:
            total[at] = total.get(at, 0.0) + value
        piled.append((name, [(at, total[at]) for at, _ in points]))
    return piled


def panel(title: str, lines: list[Line], reads: str, x: int, y: int) -> str:
    """One panel with its frame, its highest value at the left and its legend below."""
    ats = [at for _, points in lines for at, _ in points] or [0.0]
    first, span = min(ats), (max(ats) - min(ats)) or 1.0
    most = max((value for _, points in lines for _, value in points), default=0.0) or 1.0
    wide, high = WIDE - LEFT - 12, HIGH - TOP - BOTTOM

    def place(at: float, value: float) -> str:
        return f"{x + LEFT + (at - first) / span * wide:.1f},{y + TOP + high - value / most * high:.1f}"

    out = [
        f'<rect x="{x}" y="{y}" width="{WIDE - 8}" height="{HIGH - 8}" rx="4" fill="#ffffff" stroke="#d8d9da"/>',
        _text(x + 10, y + 18, title, "#1f2328", 13, "600"),
        *(_grid(x, y + TOP + high * (1 - share), wide, reads.format(most * share)) for share in (0, 0.5, 1)),
    ]
    at, row = x + 10, 0
    for (name, points), color in zip(lines, COLORS, strict=False):
        path = " ".join(place(*point) for point in points)
        out.append(f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{path}"/>')
        length = 20 + 6 * len(name)
        if at + length > x + WIDE:
            at, row = x + 10, row + 1
        out.append(_text(at, y + HIGH - 26 + 13 * row, f"■ {name}", color, 10))
        at += length
    return "\n".join(out)


def _grid(x: int, y: float, wide: int, label: str) -> str:
    line = f'<line x1="{x + LEFT}" y1="{y:.1f}" x2="{x + LEFT + wide}" y2="{y:.1f}" stroke="#e6e7e8"/>'
    return line + _text(x + LEFT - 6, y + 4, label, "#6e7781", 10, anchor="end")


def _text(x: float, y: float, text: str, color: str, size: int, weight: str = "400", anchor: str = "start") -> str:
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{color}"'
    return f'<text x="{x:.0f}" y="{y:.0f}" {style}>{escape(text)}</text>'


def drawn(folder: Path) -> str:
    """The whole picture."""
    parts: list[Any] = []
    for number, (title, reads, pile) in enumerate(SHOWN):
        lines = [line for line in read(folder, title) if any(value for _, value in line[1])][: len(COLORS)]
        x, y = number % 2 * WIDE, number // 2 * HIGH
        parts.append(panel(title, stacked(lines) if pile else lines, reads, x + 8, y + 8))
    wide, high = 2 * WIDE + 8, (len(SHOWN) + 1) // 2 * HIGH + 8
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif">'
    return "\n".join([head, f'<rect width="{wide}" height="{high}" fill="#f4f5f5"/>', *parts, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(drawn(Path(sys.argv[1])))
