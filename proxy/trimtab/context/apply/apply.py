"""From the messages and a plan to the messages that are sent. Pure; untouched messages keep their bytes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from trimtab.context.apply.again import extract, rewritten
from trimtab.context.apply.format import CHAT, Format
from trimtab.context.apply.splices import Splices
from trimtab.context.edits import REMOVED_STAGES, Announcement, Gap, Plan
from trimtab.context.read.history import History
from trimtab.context.read.memo import Memo
from trimtab.context.read.structure import SYSTEM_ROLES
from trimtab.context.read.views import View
from trimtab.context.texts import ANNOUNCEMENT, JSON_WORD, NOTE, SUMMARY_PREFIX, SUMMARY_READ
from trimtab.wire.messages import Messages, Parts, Pieces

# Stands for the extract while the message around it is made. Random for each process, so that no text contains it.
_MARKER = f"{hash(__name__):d}"


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
    edits = {edit.index: edit for edit in plan.edits}
    unpinned, unbound = frozenset(plan.unpin), frozenset(plan.unbind)
    sent: list[bytes | Raw] = []
    gap = plan.gap
    kept = b"" if gap is None else extract(messages, gap.extract, summary or "", format, memo)
    text = _gap_text(summary, with_extract=bool(kept))
    for i, raw in enumerate(messages):
        if gap is not None and gap.index == i:
            sent += [_filled(made, kept) for made in gap_messages(gap, text, bool(summary), summary_role, format)]
        edit = edits.get(i)
        data = raw
        if edit is not None:
            if edit.stage in REMOVED_STAGES:
                continue
            data = rewritten(raw, views[i].digest if views else b"", edit.stage, edit.amount, format, memo)
        data = format.unpin(data) if i in unpinned else data
        data = format.unbind(data) if i in unbound else data
        if gap is not None and gap.into == i:
            data = _filled(format.join_text(data, text, before=i >= gap.index), kept)
        sent.append(data)
    if gap is not None and gap.index >= len(messages):
        sent += [_filled(made, kept) for made in gap_messages(gap, text, bool(summary), summary_role, format)]
    if plan.announce is not None:
        _announce(sent, plan.announce, format)
    return with_json_word(sent, format) if plan.json_word else sent


def apply_again(
    history: History, plan: Plan, summary: str | None, summary_role: str, format: Format, splices: Splices
) -> list[bytes | Raw] | Pieces:
    """The messages to send, as `apply` makes them; in pieces where they are spliced from the request,
    because they were sent before."""
    messages = history.raws
    sent = splices.find(history, plan, summary or "")
    if sent is None or not isinstance(messages, Messages | Parts):
        return apply(messages, plan, summary, summary_role, format, history.views, splices.memo)
    body = messages.listed.body if isinstance(messages, Parts) else messages.body
    parts: list[list[bytes | memoryview]] = [splices.written(sent.before, history, body, summary or "")]
    if plan.gap is not None and sent.gap is not None:
        kept = splices.extract(sent, history, body, summary or "")
        text = _gap_text(summary, with_extract=bool(kept))
        made = gap_messages(plan.gap, text, bool(summary), summary_role, format)
        parts += [[_filled(each, kept)] for each in made]
        parts.append(splices.written(sent.after, history, body, summary or ""))
    found = Pieces()
    parts += [[raw] for raw in messages.rest(sent.until)]
    for part in parts:
        if part and found:
            found.append(b",")
        found += part
    return found


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


def gap_messages(gap: Gap, text: str, summarized: bool, role: str, format: Format) -> list[bytes]:
    """The message in the gap, and its answer where one is needed; none when its text joins another message, or without
    a summary where the note is left out."""
    if gap.into is not None or not (summarized or gap.note):
        return []
    found = [format.message(gap.role or role, text)]
    return [*found, format.message("assistant", SUMMARY_READ)] if gap.answered else found


def _gap_text(summary: str | None, *, with_extract: bool) -> str:
    """The summary or the note, and below it the mark for the extract."""
    first = f"{SUMMARY_PREFIX}\n{summary}" if summary else NOTE
    return f"{first}\n\n{_MARKER}" if with_extract else first


def _filled(written: bytes, extract: bytes) -> bytes:
    """What was written around the mark, with the extract in its place."""
    return written.replace(_MARKER.encode(), extract, 1) if extract else written
