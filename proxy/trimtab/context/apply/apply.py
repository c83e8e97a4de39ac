"""From the messages and a plan to the messages that are sent. Pure; untouched messages keep their bytes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from trimtab.context.apply.format import CHAT, AsChat, Format
from trimtab.context.edits import Announcement, Gap, Plan
from trimtab.context.extract.parts import Opened
from trimtab.context.extract.render import render
from trimtab.context.read.structure import SYSTEM_ROLES
from trimtab.context.texts import ANNOUNCEMENT, JSON_WORD, NOTE, SUMMARY_PREFIX, SUMMARY_READ

_REMOVED = ("dropped", "summarized")


def apply(
    messages: Sequence[bytes | Raw],
    plan: Plan,
    summary: str | None = None,
    summary_role: str = "system",
    format: Format = CHAT,
) -> list[bytes | Raw]:
    """The messages to send. `summary` is the text for the gap; without one the note stands there. Neither holds a
    date, a count or an id, so the same history gives the same bytes."""
    edits = {edit.index: edit for edit in plan.edits}
    unpinned, unbound = frozenset(plan.unpin), frozenset(plan.unbind)
    sent: list[bytes | Raw] = []
    gap = plan.gap
    text = (
        "" if gap is None else _gap_text(summary, render(Opened(AsChat(messages, format)), gap.extract, summary or ""))
    )
    for i, raw in enumerate(messages):
        if gap is not None and gap.index == i:
            sent += _gap_messages(gap, text, bool(summary), summary_role, format)
        edit = edits.get(i)
        if edit is not None and edit.stage in _REMOVED:
            continue
        data = raw if edit is None else format.rewrite(raw, edit.stage, edit.amount)
        data = format.unpin(data) if i in unpinned else data
        data = format.unbind(data) if i in unbound else data
        if gap is not None and gap.into == i:
            data = format.join_text(data, text, before=i >= gap.index)
        sent.append(data)
    if gap is not None and gap.index >= len(messages):
        sent += _gap_messages(gap, text, bool(summary), summary_role, format)
    if plan.announce is not None:
        _announce(sent, plan.announce, format)
    return with_json_word(sent, format) if plan.json_word else sent


def _announce(sent: list[bytes | Raw], where: Announcement, format: Format) -> None:
    """Put in the announcement. What is before it is system messages, which all are sent."""
    if where.own:
        sent.insert(where.index, own_announcement(format))
    elif format.announce is not None:
        sent[where.index] = format.announce(sent[where.index])


def own_announcement(format: Format) -> bytes:
    """The announcement as a system message of its own."""
    return format.message("system", ANNOUNCEMENT.strip())


def with_json_word(messages: Sequence[bytes | Raw], format: Format) -> list[bytes | Raw]:
    """The messages with the word "json" in the first: at the end of a system message, else in one of our own."""
    first = format.view(messages[0]) if messages else None
    if first is not None and first.role in SYSTEM_ROLES and first.shape in ("text", "parts"):
        return [format.join_text(messages[0], JSON_WORD, before=False), *messages[1:]]
    return [format.message("system", JSON_WORD), *messages]


def _gap_messages(gap: Gap, text: str, summarized: bool, role: str, format: Format) -> list[bytes]:
    """The message in the gap, and its answer where one is needed; none when its text joins another message, or without
    a summary where the note is left out."""
    if gap.into is not None or not (summarized or gap.note):
        return []
    found = [format.message(gap.role or role, text)]
    return [*found, format.message("assistant", SUMMARY_READ)] if gap.answered else found


def _gap_text(summary: str | None, extract: str) -> str:
    """The summary or the note, and below it the extract."""
    first = f"{SUMMARY_PREFIX}\n{summary}" if summary else NOTE
    return f"{first}\n\n{extract}" if extract else first
