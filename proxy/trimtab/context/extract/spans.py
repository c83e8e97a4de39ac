"""Spans of a text: a name with the words around it, and what becomes of spans that touch.

A name alone means little to a model. With the words around it it can be told what the name is of.
"""

from __future__ import annotations

from bisect import bisect

SIDE = 24
"""Characters of text around a name, on each side."""

_GLUE = 12  # characters between two spans that are cheaper to keep than to mark as left out
_WHOLE_LINE = 16  # characters; a line that begins at least so far before the name is not reached beyond

Span = tuple[int, int]


def around(text: str, start: int, stop: int, side: int = SIDE) -> Span:
    """The span of a name and of whole words around it."""
    first, last = max(0, start - side), min(len(text), stop + side)
    if first and 0 <= (blank := text.find(" ", first, start)) < start - 1:
        first = blank + 1
    if (line := text.rfind("\n", first, max(first, start - _WHOLE_LINE))) >= 0:
        first = line + 1
    if last < len(text) and (blank := text.rfind(" ", stop, last)) > stop:
        last = blank
    return first, last


def add(spans: list[Span], span: Span) -> int:
    """Add a span to spans in order; those that touch or nearly touch it become one with it. The characters added."""
    first, last = span
    start = stop = bisect(spans, span)
    before = 0
    while start and first <= spans[start - 1][1] + _GLUE:
        start -= 1
        first, last = spans[start][0], max(last, spans[start][1])
        before += spans[start][1] - spans[start][0]
    while stop < len(spans) and spans[stop][0] <= last + _GLUE:
        last = max(last, spans[stop][1])
        before += spans[stop][1] - spans[stop][0]
        stop += 1
    spans[start:stop] = [(first, last)]
    return last - first - before


def covers(spans: list[Span], start: int, stop: int) -> bool:
    """True when one of the spans holds all of [start, stop)."""
    return any(first <= start and stop <= last for first, last in spans)
