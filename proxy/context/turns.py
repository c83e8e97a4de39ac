"""The structure of a history: units and turns, and so the places where it may be cut.

A unit is a message, or an assistant message with all results of its tool calls. A turn starts at a user message and
runs to the next. Results are paired by position, not by id alone: providers reuse ids, so a result belongs to the
nearest assistant message before it that declares its id.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from proxy.context.views import View

SYSTEM_ROLES = ("system", "developer")


class Unit(msgspec.Struct, frozen=True, gc=False):
    """Messages [start, stop) that stay or go together."""

    start: int
    stop: int
    turn: int
    role: str  # of its first message


def units(views: Sequence[View]) -> list[Unit]:
    """Cut a history into units, in order and without a gap. Linear in the number of messages."""
    out: list[Unit] = []
    turn = 0
    for start, stop in _spans(views):
        role = views[start].role
        if role == "user":
            turn += 1
        out.append(Unit(start, stop, turn, role))
    return out


def _spans(views: Sequence[View]) -> list[tuple[int, int]]:
    """Start and stop of each unit. A result that comes late, after other messages, draws them into its unit; a
    second result for a call that was answered long ago stands alone."""
    spans: list[tuple[int, int]] = []
    declared: dict[str, int] = {}  # call id -> message index of the nearest assistant that declares it
    unanswered: set[str] = set()
    for i, view in enumerate(views):
        spans.append((i, i + 1))
        for call in view.calls:
            declared[call.id] = i
            unanswered.add(call.id)
        if view.answers is None or (home := declared.get(view.answers)) is None:
            continue
        if view.answers not in unanswered and spans[-2][0] != home:
            continue
        unanswered.discard(view.answers)
        while spans[-1][0] > home:
            spans.pop()
        spans[-1] = (spans[-1][0], i + 1)
    return spans


def boundaries(views: Sequence[View]) -> list[int]:
    """The lengths of all prefixes that once were a request: those that end before an assistant message, and the
    whole history."""
    return [i for i, view in enumerate(views) if view.role == "assistant" and i] + [len(views)]
