"""The vocabulary of a plan: what is decided, as values. Deciding makes them, `apply` carries them out, headers,
metrics and `/v1/context/plan` report them; no other fact travels between deciding and doing.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Stage = Literal["truncated", "cleared", "inputs_cleared", "summarized", "dropped", "squeezed", "lightened"]

# `lightened` is no stage of the planner's: it answers an upstream that would not take so many bytes.
STAGES: tuple[Stage, ...] = (
    "truncated",
    "cleared",
    "inputs_cleared",
    "summarized",
    "dropped",
    "squeezed",
    "lightened",
)


class Edit(msgspec.Struct, frozen=True, gc=False):
    """One message changed or taken out. `amount` is the characters of text kept (truncated, squeezed)."""

    stage: Stage
    index: int
    tokens_before: int
    tokens_after: int
    reason: str
    amount: int = 0


class Gap(msgspec.Struct, frozen=True):
    """Where messages were taken out: one note or summary stands before message `index` of the history.

    The rest is for upstreams with strict roles: `into` is the user message whose text it joins, `note` whether the
    note stands here at all when there is no summary, `role` who says the summary if not who usually does.
    """

    index: int
    tokens: int
    into: int | None = None
    note: bool = True
    role: str | None = None


class Breakdown(msgspec.Struct, frozen=True):
    """What cannot be given up, in tokens: the reason of a refusal, and what a client is told."""

    system: int
    tools: int
    question: int

    @property
    def total(self) -> int:
        return self.system + self.tools + self.question


class Segment(msgspec.Struct, frozen=True, gc=False):
    """Messages [start, stop) that one summary step reads."""

    start: int
    stop: int


class Plan(msgspec.Struct, frozen=True):
    """What to do with one request. Sizes are estimated tokens, before calibration.

    `summary` lists the segments whose chained summary stands in the gap (empty: the note stands there);
    `ahead` lists the segments of the next summary, to be made in the background.
    """

    original: int
    sent: int
    budget: int
    fits: bool
    edits: tuple[Edit, ...] = ()
    gap: Gap | None = None
    summary: tuple[Segment, ...] = ()
    ahead: tuple[Segment, ...] = ()
    breakdown: Breakdown | None = None
    moved: Stage | None = None  # the stage that changed earlier messages at this very request: its prefix is new
    unpin: tuple[int, ...] = ()  # messages whose `pinned` mark is taken off before they are sent
    announce: int | None = None  # the system message that gets the announcement

    @property
    def changes(self) -> bool:
        """Whether the messages to be sent differ from those received."""
        return bool(self.edits or self.gap or self.unpin) or self.announce is not None

    @property
    def shaped(self) -> bool:
        return bool(self.edits)
