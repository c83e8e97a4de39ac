"""The vocabulary of a plan: what is decided, as values. `plan` makes them, `apply` carries them out, headers, metrics
and `/v1/context/plan` report them. No other fact travels between deciding and doing.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

Stage = Literal["truncated", "trimmed", "cleared", "inputs_cleared", "summarized", "dropped", "squeezed", "lightened"]
"""What was done to a message. `trimmed`: the context inside a user message was cut. `lightened` does not come from the
planner: it is the answer to an upstream that refused so many bytes."""

REMOVED_STAGES: Final[tuple[Stage, ...]] = ("dropped", "summarized")
"""What leaves nothing of a message."""


SAME_LATER, NEWER_LATER = -1, -2
"""The `amount` of a cleared result that a later one stands for: one of the same content, or of the same call."""


class Edit(msgspec.Struct, frozen=True, gc=False):
    """One message changed or removed. Sizes are estimated tokens of the whole message."""

    stage: Stage
    index: int
    tokens_before: int
    tokens_after: int
    reason: str
    amount: int = 0  # characters kept of text (truncated, squeezed) or context (trimmed); tokens, or as above (cleared)


class Edits(tuple[Edit, ...]):
    """All edits of a conversation, in the order of its messages. As long as none changes they stay the same object, so
    `sums`, what a report makes of them, is made once."""

    sums: Any = None


class Excerpt(msgspec.Struct, frozen=True, gc=False):
    """A piece of a removed message that is kept: characters [start, stop) of one of its parts (see `extract.parts`).
    It names a place and holds no text."""

    index: int
    part: int
    start: int
    stop: int
    call: tuple[int, int] | None = None  # message and part of the call it belongs to


class Gap(msgspec.Struct, frozen=True, gc=False):
    """The place where messages were removed: a note or a summary stands before message `index` of the history.

    `into`, `note`, `role` and `answered` are for upstreams with strict roles.
    """

    index: int
    tokens: int  # of the note or summary, and of the extract
    into: int | None = None  # the user message that the text joins, if it is not a message of its own
    note: bool = True  # False: without a summary nothing stands here
    role: str | None = None  # of the message with the summary; None: the role that the upstream usually gets
    answered: bool = False  # True: the summary stands before a question, so an answer stands between the two
    extract: tuple[Excerpt, ...] = ()  # what is kept of the removed messages, after the note or summary
    extract_tokens: int = 0  # of `tokens`; beside a summary the most: what it names already is left out


class Announcement(msgspec.Struct, frozen=True, gc=False):
    """Where the sentence stands that tells the model about clearing: at the end of message `index`, a system message,
    or as a system message of its `own` before it; or in the system prompt, where that is not one of the messages."""

    index: int
    tokens: int  # that it adds
    own: bool = False


class Breakdown(msgspec.Struct, frozen=True, gc=False):
    """What cannot be removed, in tokens. It explains a refusal to the client."""

    system: int
    tools: int
    question: int  # and of a prefill, the beginning of an answer that the model is to continue

    @property
    def total(self) -> int:
        """Tokens of all three."""
        return self.system + self.tools + self.question


class Segment(msgspec.Struct, frozen=True, gc=False):
    """Messages [start, stop) that one step of a summary reads."""

    start: int
    stop: int


class Plan(msgspec.Struct, frozen=True, gc=False):
    """What to do with one request. Sizes are estimated tokens, before calibration; messages are named by index."""

    original: int  # size as received
    sent: int  # size as it will be sent
    budget: int
    fits: bool
    edits: tuple[Edit, ...] = ()
    gap: Gap | None = None
    summary: tuple[Segment, ...] = ()  # segments whose summary stands in the gap; empty: the note stands there
    spare: int = 0  # what the replay counted beyond `sent`: an extract counts as the most it may take until it is made
    ahead: tuple[Segment, ...] = ()  # segments of the next summary, to be made in the background
    breakdown: Breakdown | None = None
    prefix_break: Stage | None = None  # the stage that changed earlier messages at this request: its prefix is new
    unpin: tuple[int, ...] = ()  # messages with a field of the client's for this proxy, which is removed
    unbind: tuple[int, ...] = ()  # messages whose thinking an earlier edit made invalid: it is taken out
    announce: Announcement | None = None
    json_word: bool = False  # what is removed was the last to say "json", so the system message says it

    @property
    def rewrites(self) -> bool:
        """True when the messages to be sent differ from those received in more than the client's marks."""
        return bool(self.edits or self.gap or self.unbind) or self.announce is not None

    @property
    def changes(self) -> bool:
        """True when the messages to be sent differ from those received."""
        return self.rewrites or bool(self.unpin)

    @property
    def shaped(self) -> bool:
        """True when a message is edited."""
        return bool(self.edits)
