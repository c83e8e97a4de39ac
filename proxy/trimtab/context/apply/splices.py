"""The messages of a shaped conversation spliced from the request received.

As long as no edit changes, what is sent of the beginning of a conversation is the same bytes at every request. Where
they stand in the body is remembered, with its known prefix, by which the body of the next request is recognised: so it
belongs to one tenant, lives as long as that prefix, and holds places and words of ours, never text. What comes after
that beginning is sent as it came.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from trimtab.context.apply.again import Known, Sources, known_lines, line_again, rewritten
from trimtab.context.apply.format import CHAT, Format
from trimtab.context.apply.origins import Origins, Piece, in_json, moved, ours, slices
from trimtab.context.edits import REMOVED_STAGES, Edit, Excerpt, Plan
from trimtab.context.read.history import History
from trimtab.context.read.memo import Memo
from trimtab.context.read.prefix import Prefix
from trimtab.context.read.views import digest
from trimtab.context.texts import EXTRACT
from trimtab.wire.messages import Messages

_STEPS = 32  # prefixes before the known one that are looked at: a megabyte of a body
_COMMA, _BREAK, _FIRST = ours(b","), ours(in_json("\n")), ours(in_json(EXTRACT))

Splice: TypeAlias = "Origins | Edit | Known"
"""Pieces of the body, which are copied; or a message, or a line of the extract, that is written each time."""


class Sent(msgspec.Struct, frozen=True):
    """How the first `until` messages of a conversation are sent. Without `until`: it was sent like that once."""

    edits: Sequence[Edit]
    excerpts: Sequence[Excerpt]
    summary: bytes  # its digest
    gap: int | None  # where it is
    before: tuple[Splice, ...] = ()  # what stands before the gap
    extract: tuple[Splice, ...] = ()
    after: tuple[Splice, ...] = ()
    until: int = 0

    def is_of(self, plan: Plan, summary: bytes) -> bool:
        """True when a plan changes the same messages in the same way."""
        gap = plan.gap
        if self.edits is not plan.edits or self.summary != summary or self.gap != (gap.index if gap else None):
            return False
        return gap is None or self.excerpts is gap.extract


class Splices:
    """What was sent of each conversation of one format. One for the process; `memo` is that of the format."""

    def __init__(self, memo: Memo, format: Format = CHAT) -> None:
        self.memo, self._format = memo, format
        self._sent: WeakKeyDictionary[Prefix, Sent] = WeakKeyDictionary()

    def find(self, history: History, plan: Plan, summary: str) -> Sent | None:
        """How the beginning of a request was sent before. None where that is not known, or cannot be: it is looked for
        the second time, because what is sent once may be sent never again."""
        known, gap, messages = history.prefix, plan.gap, history.raws
        if known is None or not plan.edits or not isinstance(messages, Messages) or messages.spans is None:
            return None
        if plan.unpin or plan.unbind or plan.announce is not None or plan.json_word or (gap and gap.into is not None):
            return None
        place, found = self._before(known)
        key = digest(summary.encode("utf-8", "surrogatepass")) if summary else b""
        if found is not None and found.until and found.is_of(plan, key):
            return found
        was_sent = found is not None and found.is_of(plan, key)
        if was_sent and known.count <= max(plan.edits[-1].index, gap.index if gap else 0):
            return None  # the newest edit is in what is new
        found = Sent(plan.edits, gap.extract if gap else (), key, gap.index if gap else None)
        if was_sent:
            lines = known_lines(found.excerpts, summary, self.memo) if found.excerpts else ()
            if lines is None:
                return None
            found = _made(found, history, plan, lines, messages, self.memo, known.count)
        if place is not None:
            self._sent.pop(place, None)
        self._sent[known] = found
        return found if found.until else None

    def _before(self, known: Prefix) -> tuple[Prefix | None, Sent | None]:
        """What was sent of a prefix, or of one that it goes on from; the newest."""
        prefix: Prefix | None = known
        for _ in range(_STEPS):
            if prefix is None:
                break
            if (found := self._sent.get(prefix)) is not None:
                return prefix, found
            prefix = prefix.before
        return None, None

    def written(self, splices: Sequence[Splice], history: History, summary: str) -> list[bytes]:
        """The bytes of splices, in pieces."""
        messages, views = history.raws, history.views
        assert isinstance(messages, Messages)
        found: list[bytes] = []
        sources = Sources(messages, self._format)
        for splice in splices:
            if isinstance(splice, Edit):
                i = splice.index
                key = views[i].digest
                found.append(rewritten(messages[i], key, splice.stage, splice.amount, self._format, self.memo))
            elif isinstance(splice, Known):
                found.append(line_again(splice, sources, summary))
            else:
                found += slices(splice, messages.body)
        return found


def _made(
    sent: Sent, history: History, plan: Plan, lines: Sequence[Known], messages: Messages, memo: Memo, until: int
) -> Sent:
    """The same with its splices. `lines`: those of the extract."""
    spans, body, views = messages.spans or [], messages.body, history.views
    edits = {edit.index: edit for edit in plan.edits}
    before = making = _Making(body)
    for i in range(until):
        if plan.gap is not None and plan.gap.index == i:
            making = _Making(body)
        edit = edits.get(i)
        if edit is None:
            making.comma()
            making.add((spans[i].start, spans[i].stop))
        elif edit.stage not in REMOVED_STAGES:
            making.comma()
            making.edit(edit, memo.get((views[i].digest, edit.stage, edit.amount, "origins")), spans[i])
    after = making.splices if making is not before else ()
    extract = _Making(body)
    for known in lines:
        for word in (_BREAK,) if extract.splices else (_FIRST, _BREAK):
            extract.add(word)
        extract.line(known, spans)
    return msgspec.structs.replace(sent, before=before.splices, extract=extract.splices, after=after, until=until)


class _Making:
    """Splices of one body in the making: pieces that touch become one."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._splices: list[Splice] = []
        self._pieces: Origins = array("i")

    @property
    def splices(self) -> tuple[Splice, ...]:
        """All splices, in order."""
        return (*self._splices, self._pieces) if self._pieces else tuple(self._splices)

    def add(self, piece: Piece) -> None:
        """Add a place in the body, or a word of ours."""
        if self._ends_in_body and piece[0] == self._pieces[-1] <= piece[1]:
            self._pieces[-1] = piece[1]
        else:
            self._pieces.extend(piece)

    def comma(self) -> None:
        """Add the comma before a message, where another is before it: the one in the body, if it stands right there."""
        if self._ends_in_body and self._body[self._pieces[-1] : self._pieces[-1] + 1] == b",":
            self._pieces[-1] += 1
        elif self._pieces or self._splices:
            self.add(_COMMA)

    def edit(self, edit: Edit, origins: Origins | None, place: slice) -> None:
        """Add a message after an edit, which stands in this place of the body."""
        if origins:
            self._moved(origins, place)
        else:
            self._whole(edit)

    def line(self, known: Known, spans: Sequence[slice]) -> None:
        """Add a line of an extract."""
        for index, origins in known.parts:
            self._moved(origins, spans[index])
        if not known.parts:
            self._whole(known)

    def _moved(self, origins: Origins, place: slice) -> None:
        for piece in moved(origins, self._body[place], place.start):
            self.add(piece)

    def _whole(self, splice: Edit | Known) -> None:
        self._splices += [self._pieces, splice] if self._pieces else [splice]
        self._pieces = array("i")

    @property
    def _ends_in_body(self) -> bool:
        return len(self._pieces) > 0 and self._pieces[-1] >= 0 <= self._pieces[-2]
