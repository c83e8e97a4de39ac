"""The structure of a history: units and turns, and so the places where it may be cut.

A unit is a message, or an assistant message with the results of its tool calls that follow it. A turn starts at a
user message and runs to the next. Results are paired by position, not by id alone: providers reuse ids, so a result
belongs to the nearest assistant message before it that declares its id. One that comes late, after other messages,
is a unit of its own (what was cut before it came must not change) and goes and stays with its call.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trimtab.context.read.views import View

SYSTEM_ROLES = ("system", "developer")


class Unit(msgspec.Struct, frozen=True, gc=False):
    """Messages [start, stop) that stay or go together."""

    start: int
    stop: int
    turn: int
    role: str  # of its first message


def homes(views: Sequence[View]) -> list[int]:
    """For each message the index of the assistant message whose call it answers; its own index if it answers none."""
    declared: dict[str, int] = {}  # call id -> the nearest assistant message that declares it
    found: list[int] = []
    for i, view in enumerate(views):
        found.append(i if view.answers is None else declared.get(view.answers, i))
        if view.role == "assistant":
            for call in view.calls:
                declared[call.id] = i
    return found


def units(views: Sequence[View], home_of: Sequence[int] | None = None) -> list[Unit]:
    """Cut a history into units, in order and without a gap. Linear in the number of messages."""
    out: list[Unit] = []
    turn = start = 0
    home_of = homes(views) if home_of is None else home_of
    for stop in range(1, len(views) + 1):
        if stop < len(views) and home_of[stop] == start:
            continue
        role = views[start].role
        turn += role == "user"
        out.append(Unit(start, stop, turn, role))
        start = stop
    return out


def late_results(units: Sequence[Unit], home_of: Sequence[int]) -> dict[int, list[int]]:
    """The results that stand outside the unit of their call, by the index of the call's message."""
    late: dict[int, list[int]] = {}
    for unit in units:
        home = home_of[unit.start]
        if home != unit.start:
            late.setdefault(home, []).append(unit.start)
    return late


def boundaries(views: Sequence[View]) -> list[int]:
    """The lengths of all prefixes that once were a request: those that end before an assistant message, and the
    whole history."""
    return [i for i, view in enumerate(views) if view.role == "assistant" and i] + [len(views)]
