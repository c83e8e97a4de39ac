"""One request as it is written after its plan: what becomes of each message, and what stands in the gap.

Whoever puts a body together, from the start (`apply`) or from splices of the request (`splices`), takes from here what
is written, so both have the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from trimtab.context.apply.again import Change, origins, rewritten
from trimtab.context.apply.format import Format
from trimtab.context.apply.lines import extract
from trimtab.context.apply.origins import NOWHERE, Origins
from trimtab.context.edits import Edit, Gap, Plan
from trimtab.context.read.memo import Memo
from trimtab.context.read.views import View
from trimtab.context.texts import ANNOUNCEMENT, NOTE, SUMMARY_PREFIX, SUMMARY_READ

GAP, ANNOUNCEMENT_ALONE = -1, -2
"""Among messages: the gap, and the announcement as a message of its own."""

# Stands for the extract while the message around it is made. Random for each process, so that no text contains it.
_MARKER = f"{hash(__name__):d}"


class Writing:
    """A request that is written. With the `views` of its messages and a `memo`, what was written before is not read
    again."""

    def __init__(
        self,
        messages: Sequence[bytes | Raw],
        plan: Plan,
        summary: str | None,
        summary_role: str,
        format: Format,
        views: Sequence[View] = (),
        memo: Memo | None = None,
    ) -> None:
        self.messages, self.plan, self.format, self.views, self.memo = messages, plan, format, views, memo
        self.summary, self._role = summary or "", summary_role
        self._unpinned, self._unbound = frozenset(plan.unpin), frozenset(plan.unbind)
        self._extracted: bytes | None = None
        gap, announce = plan.gap, plan.announce
        self.own = {} if gap is None or gap.into is not None or not (gap.note or self.summary) else {GAP: gap.index}
        """Messages of our own, and the index of the message that each stands before, the last one first."""
        self._announced: int | None = None
        if announce is not None and announce.own:
            self.own[ANNOUNCEMENT_ALONE] = announce.index
        elif announce is not None and format.announce is not None:
            self._announced = announce.index
        joined = {"gap": None if gap is None else gap.into, "announcement": self._announced}
        self.beside = frozenset(
            [
                *[(at, f"own {own} {gap.role if gap else None}") for own, at in self.own.items()],
                *[(i, what) for what, i in joined.items() if i is not None],
            ]
        )
        """Where messages of our own stand, and which messages a text of ours joins."""
        self.changed = self._unpinned | self._unbound | {i for i in joined.values() if i is not None}
        """Messages that are changed without an edit."""

    @property
    def last(self) -> int:
        """The last message or part that is not sent as it came, or before which a message of our own stands."""
        edits = self.plan.edits
        return max([edits[-1].index if edits else -1, *self.changed, *self.own.values()])

    def change(self, i: int, edit: Edit | None) -> Change | None:
        """How a message that stays is changed; None where it is not. `edit`: its own."""
        unpin, unbind, announce = i in self._unpinned, i in self._unbound, i == self._announced
        if edit is not None:
            return Change(edit.stage, edit.amount, unpin, unbind, announce)
        return Change(None, 0, unpin, unbind, announce) if unpin or unbind or announce else None

    def message(self, i: int, change: Change | None) -> bytes | Raw:
        """A message that stays, as it is sent."""
        data = self.messages[i]
        if change is not None:
            data = rewritten(data, self.views[i].digest if self.views else b"", change, self.format, self.memo)
        gap = self.plan.gap
        if gap is None or gap.into != i:
            return data
        return self._filled(self.format.join_text(data, self._text, before=i >= gap.index))

    def origins(self, i: int, change: Change | None) -> Origins | None:
        """Where the bytes of a changed message come from. Empty where that is never known, None where it may be
        later."""
        gap = self.plan.gap
        if change is None or self.memo is None or (gap is not None and gap.into == i):
            return NOWHERE
        return origins(self.views[i].digest, change, self.memo)

    def of_own(self, own: int) -> list[bytes]:
        """Messages of our own, as they are sent."""
        return self.in_gap() if own == GAP else [own_announcement(self.format)]

    def in_its_role(self, own: int) -> bytes:
        """A message of our own without its text."""
        role = self.plan.gap.role if own == GAP and self.plan.gap is not None else "system"
        return self.format.message(role or "user", "")

    def in_gap(self) -> list[bytes]:
        """The messages in the gap."""
        gap = self.plan.gap
        if gap is None:
            return []
        made = gap_messages(gap, self._text, bool(self.summary), self._role, self.format)
        return [self._filled(message) for message in made]

    @property
    def extracted(self) -> bytes:
        """The extract as it stands in a JSON string; b"" where there is none."""
        if self._extracted is None:
            excerpts = () if self.plan.gap is None else self.plan.gap.extract
            self._extracted = extract(self.messages, self.views, excerpts, self.summary, self.format, self.memo)
        return self._extracted

    @extracted.setter
    def extracted(self, written: bytes) -> None:
        """The extract, where it was written before."""
        self._extracted = written

    @property
    def _text(self) -> str:
        """The summary or the note, and below it the mark for the extract."""
        first = f"{SUMMARY_PREFIX}\n{self.summary}" if self.summary else NOTE
        return f"{first}\n\n{_MARKER}" if self.extracted else first

    def _filled(self, written: bytes) -> bytes:
        """What was written around the mark, with the extract in its place."""
        return written.replace(_MARKER.encode(), self.extracted, 1) if self.extracted else written


def own_announcement(format: Format) -> bytes:
    """The announcement as a system message of its own."""
    return format.message("system", ANNOUNCEMENT.strip())


def gap_messages(gap: Gap, text: str, summarized: bool, role: str, format: Format) -> list[bytes]:
    """The message in the gap, and its answer where one is needed; none when its text joins another message, or without
    a summary where the note is left out."""
    if gap.into is not None or not (summarized or gap.note):
        return []
    found = [format.message(gap.role or role, text)]
    return [*found, format.message("assistant", SUMMARY_READ)] if gap.answered else found
