"""From a plan to figures: how many tokens of each kind a request was sent with, and what became of each message.

This is what the picture of a conversation is made of. It is worked out when somebody looks, from what the planner knew
of the messages: their views, never their text. The kinds of one request add up to the tokens that were sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import msgspec

from trimtab.context.edits import Edit, Plan
from trimtab.context.read.structure import SYSTEM_ROLES
from trimtab.context.read.views import View
from trimtab.exchange.decide import Shaping

Kind = Literal["system", "tools", "task", "talk", "results", "extract", "summary"]
"""What tokens of a request are: system messages, the tools' schemas and what else lies beside messages, the first
question, what user and assistant said since, tool results; and in the gap the extract of what went, and the note or
summary."""

KINDS: tuple[Kind, ...] = get_args(Kind)
_REMOVED = ("dropped", "summarized")


class Sketch(msgspec.Struct, frozen=True, gc=False):
    """What is kept of one decision: the plan, and the views it was made of. No text. Sizes are estimated tokens."""

    views: Sequence[View]
    extras: int  # of tools and the like, the system prompt among them where it stands there
    plan: Plan
    factor: float
    instructions: int = 0  # of that system prompt

    def counted(self, estimate: int) -> int:
        """Estimated tokens as the upstream is expected to count them."""
        return round(estimate * self.factor)


class MessageFigures(msgspec.Struct, frozen=True, array_like=True):
    """One message: its kind, and its tokens before and after. `stage` and `reason` are empty for one that was sent
    unchanged; `after` is 0 for one that was removed."""

    kind: Kind
    before: int
    after: int
    stage: str = ""
    reason: str = ""


class Cut(msgspec.Struct, frozen=True):
    """The place before message `index` where messages were removed, how many, and what stands there: `summary`,
    `extract` or `note`, of so many tokens."""

    index: int
    messages: int
    kept_as: Literal["summary", "extract", "note", "nothing"]
    tokens: int


def sketch(shaping: Shaping) -> Sketch:
    """What is kept of a decision. Takes no time: nothing is computed or copied."""
    plan = shaping.plan
    return Sketch(shaping.history.views, shaping.history.extras, plan, shaping.factor, shaping.history.instructions)


def messages(of: Sketch) -> Iterator[MessageFigures]:
    """Every message of the history with what became of it. Linear in their number."""
    edits = {edit.index: edit for edit in of.plan.edits}
    for kind, i, view in _kinds(of.views):
        edit = edits.get(i)
        before = of.counted(view.tokens)
        if edit is None:
            yield MessageFigures(kind, before, before)
        else:
            yield MessageFigures(kind, before, of.counted(_after(edit)), edit.stage, edit.reason)


def by_kind(of: Sketch) -> dict[Kind, int]:
    """The tokens that were sent, by kind; together they are the tokens sent."""
    edits = {edit.index: edit for edit in of.plan.edits}
    found: dict[Kind, int] = dict.fromkeys(KINDS, 0)
    found["system"], found["tools"] = of.instructions, of.extras - of.instructions
    for kind, i, view in _kinds(of.views):
        edit = edits.get(i)
        found[kind] += view.tokens if edit is None else _after(edit)
    gap, announced = of.plan.gap, of.plan.announce
    found["system"] += announced.tokens if announced is not None else 0
    if gap is not None:
        found["extract"] = gap.extract_tokens
    rest = max(0, of.plan.sent - sum(found.values()))
    found["system" if gap is None else "summary"] += rest  # the word "json"; what stands in the gap
    return _counted(found, of)


def cut(of: Sketch) -> Cut | None:
    """Where messages were removed, and what is kept of them; None where all were sent."""
    gone = [edit for edit in of.plan.edits if edit.stage in _REMOVED]
    if not gone:
        return None
    gap, kinds = of.plan.gap, by_kind(of)
    if gap is None:
        return Cut(gone[0].index, len(gone), "nothing", 0)
    summarized = any(edit.stage == "summarized" for edit in gone)
    kept_as: Literal["summary", "extract", "note"] = (
        "summary" if summarized else "extract" if kinds["extract"] else "note"
    )
    return Cut(gap.index, len(gone), kept_as, kinds["extract"] + kinds["summary"])


def _after(edit: Edit) -> int:
    """The size of an edited message, in estimated tokens."""
    return 0 if edit.stage in _REMOVED else edit.tokens_after


def _kinds(views: Sequence[View]) -> Iterator[tuple[Kind, int, View]]:
    """Each message with its kind. The task are the user messages up to the first answer of the model."""
    asked = answered = False
    for i, view in enumerate(views):
        if view.role in SYSTEM_ROLES:
            yield "system", i, view
        elif view.role == "user" and not answered:
            asked = True
            yield "task", i, view
        else:
            answered = asked
            yield "results" if view.is_result else "talk", i, view


def _counted(found: dict[Kind, int], of: Sketch) -> dict[Kind, int]:
    """Estimates as the upstream is expected to count them, rounded so that they still add up."""
    total = shown = 0
    out: dict[Kind, int] = {}
    for kind, tokens in found.items():
        total += tokens
        out[kind] = of.counted(total) - shown
        shown += out[kind]
    return out
