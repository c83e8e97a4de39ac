"""The two frontiers of a replay: how far tool results have been cleared, and how far the history has been compacted.
Both only move forward. And the answers between user messages, by which the second goes where roles must alternate.
"""

from __future__ import annotations

import msgspec

from trimtab.context.edits import Excerpt, Segment


class Repeats(msgspec.Struct):
    """The results that a later one stands for (see `repeats`), as far as they have been compared. Results are named by
    their message."""

    compared: int = 0  # results compared with those before them
    by_call: dict[int, int] = {}  # what a call asks -> the newest result that it brought
    by_size: dict[tuple[int, int], int] = {}  # characters and tokens of a text -> the newest result of that size
    found: dict[int, tuple[int, int]] = {}  # those not cleared yet -> the later one, and the amount of the edit


class Clearing(msgspec.Struct):
    """The frontier of clearing: a position among the tool results."""

    trigger: int  # tokens of the request above which results are cleared
    results: list[int] = []  # messages that are tool results, as far as walked
    considered: int = 0  # results that have been cleared or passed over; they are not looked at again
    answered: int = 0  # results that an assistant message came after: the model has seen them
    repeats: Repeats = msgspec.field(default_factory=Repeats)
    newest_protected: bool = True  # False in a lookahead: at the next overflow these results are no longer the newest

    @property
    def waiting(self) -> int:
        """Number of results not considered yet."""
        return len(self.results) - self.considered

    @property
    def first_fresh(self) -> int:
        """Position in `results` of the first that is never cleared: the newest, and what the model has not seen."""
        return min(self.answered, len(self.results) - 1) if self.newest_protected else len(self.results)


class Chosen(msgspec.Struct, frozen=True):
    """The extract of what had been removed when `moved_at` messages were walked, of at most `most` tokens."""

    moved_at: int
    most: int
    excerpts: tuple[Excerpt, ...]
    tokens: int


class Compaction(msgspec.Struct):
    """The frontier of compaction: units before it have been removed, but for `held_question` and those in
    `kept_pins`, `kept_reminders` and `kept_answers`."""

    frontier: int
    held_question: int | None = None  # unit: the question of the turn in which the frontier stands
    kept_pins: dict[int, None] = {}  # units that were pinned when the frontier passed them, in order
    kept_reminders: dict[int, None] = {}  # the same, for system messages within the conversation
    kept_answers: dict[int, int] = {}  # where roles must alternate: unit of a question -> the answer kept before it
    segments: list[Segment] = []  # as far as the history has been cut into them
    passed: int = 0  # segments that the frontier has passed by summarizing
    covered: int = 0  # segments whose summary stands in the gap; 0: the note stands there, if anything
    gap_tokens: int = 0  # of the note or summary
    extract_tokens: int = 0  # the most the extract may take, counted as its size until it is chosen
    moved_at: int = 0  # messages walked when the frontier moved last: the extract knows nothing later
    gap_changed: bool = False  # another text stands in the gap since this boundary
    chosen: Chosen | None = None  # the extract as it was chosen last, and for what


class Answers(msgspec.Struct):
    """The plain answers between user messages, by unit; empty unless roles must alternate (see `alternation`)."""

    before: dict[int, int] = {}  # unit of a user message -> the answer before it
    user_after: dict[int, int] = {}  # the same, from the answer to the user message
    skipped: dict[int, int] = {}  # see `alternation.user_from`
