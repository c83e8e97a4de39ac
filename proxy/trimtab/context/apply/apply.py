"""From the messages and a plan to the messages that are sent. Pure; untouched messages keep their bytes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from trimtab.context.apply.format import CHAT, Format
from trimtab.context.apply.splices import Splices
from trimtab.context.apply.writing import Writing
from trimtab.context.edits import REMOVED_STAGES, Plan
from trimtab.context.read.history import History
from trimtab.context.read.memo import Memo
from trimtab.context.read.structure import SYSTEM_ROLES
from trimtab.context.read.views import View
from trimtab.context.texts import JSON_WORD
from trimtab.wire.messages import Pieces


def apply(
    messages: Sequence[bytes | Raw],
    plan: Plan,
    summary: str | None = None,
    summary_role: str = "system",
    format: Format = CHAT,
    views: Sequence[View] = (),
    memo: Memo | None = None,
) -> list[bytes | Raw]:
    """The messages to send. `summary` is the text for the gap; without one the note stands there. Neither holds a
    date, a count or an id, so the same history gives the same bytes. With their `views` and a `memo`, what was written
    before is not read again."""
    return _written(Writing(messages, plan, summary, summary_role, format, views, memo))


def apply_again(
    history: History, plan: Plan, summary: str | None, summary_role: str, format: Format, splices: Splices
) -> list[bytes | Raw] | Pieces:
    """The messages to send, as `apply` makes them; in pieces where they are spliced from the request, because it goes
    on from one that was read before."""
    writing = Writing(history.raws, plan, summary, summary_role, format, history.views, splices.memo)
    return splices.pieces(writing, history) or _written(writing)


def _written(writing: Writing) -> list[bytes | Raw]:
    """All messages, from the first to the last."""
    plan, format = writing.plan, writing.format
    edits = {edit.index: edit for edit in plan.edits}
    changed, own = {*edits, *writing.changed}, [*writing.own.items()]
    sent: list[bytes | Raw] = []
    for i, raw in enumerate(writing.messages):
        while own and own[-1][1] == i:
            sent += writing.of_own(own.pop()[0])
        if i not in changed:
            sent.append(raw)
        elif (edit := edits.get(i)) is None or edit.stage not in REMOVED_STAGES:
            sent.append(writing.message(i, writing.change(i, edit)))
    for each, _ in own[::-1]:
        sent += writing.of_own(each)
    return with_json_word(sent, format) if plan.json_word else sent


def with_json_word(messages: Sequence[bytes | Raw], format: Format) -> list[bytes | Raw]:
    """The messages with the word "json" in the first: at the end of a system message, else in one of our own."""
    first = format.view(messages[0]) if messages else None
    if first is not None and first.role in SYSTEM_ROLES and first.shape in ("text", "parts"):
        return [format.join_text(messages[0], JSON_WORD, before=False), *messages[1:]]
    return [format.message("system", JSON_WORD), *messages]
