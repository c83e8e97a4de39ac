"""The messages of a shaped conversation spliced from the request received.

As long as no edit changes, what is sent of the beginning of a conversation is the same bytes at every request. Where
they stand in the body is remembered, with its known prefix, by which the body of the next request is recognised: so it
belongs to one tenant, lives as long as that prefix, and holds places and words of ours, never text. What comes after
that beginning is sent as it came.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import msgspec

from trimtab.context.apply.again import Known, Sources, extract, known_lines, line_again, rewritten
from trimtab.context.apply.format import CHAT, Format
from trimtab.context.apply.origins import slices
from trimtab.context.apply.splicing import Splice, Splicing
from trimtab.context.edits import Edit, Gap, Plan
from trimtab.context.read.history import History
from trimtab.context.read.memo import Memo
from trimtab.context.read.prefix import Prefix
from trimtab.context.read.views import digest
from trimtab.wire.messages import Messages, Parts, listed

_STEPS = 32  # prefixes before the known one that are looked at: a megabyte of a body


class Sent(msgspec.Struct):
    """How the first `until` messages of a request are sent. Without `until`: they were sent like that once."""

    edits: Sequence[Edit]
    gap: Gap | None  # where a message stands in it
    summary: bytes  # its digest
    before: tuple[Splice, ...] = ()  # what stands before the gap
    extract: tuple[Splice, ...] = ()  # that of the gap, once all its lines are known
    after: tuple[Splice, ...] = ()
    until: int = 0

    def is_like(self, other: Sent) -> bool:
        """True when both change the same messages in the same way."""
        return self.edits is other.edits and self.summary == other.summary and self.gap == other.gap


class Splices:
    """What was sent of each conversation of one format. One for the process; `memo` is that of the format."""

    def __init__(self, memo: Memo, format: Format = CHAT) -> None:
        self.memo, self._format = memo, format
        self._sent: WeakKeyDictionary[Prefix, Sent] = WeakKeyDictionary()

    def find(self, history: History, plan: Plan, summary: str) -> Sent | None:
        """How the beginning of a request was sent before. None where that is not known, or cannot be: it is looked for
        the second time, because what is sent once may be sent never again."""
        known, messages = history.prefix, history.raws
        gap = plan.gap if plan.gap is not None and (plan.gap.note or summary) else None
        if known is None or not isinstance(messages, Messages | Parts) or not self._can_be_found(history, plan, gap):
            return None
        key = digest(summary.encode("utf-8", "surrogatepass")) if summary else b""
        found, (place, before) = Sent(plan.edits, gap, key), self._before(known)
        if before is not None and before.is_like(found):
            if before.until:
                return before
            made = self._made(found, history, messages)
            if made is None:
                return None
            found = made
        if place is not None:
            self._sent.pop(place, None)
        self._sent[known] = found
        return found if found.until else None

    def _can_be_found(self, history: History, plan: Plan, gap: Gap | None) -> bool:
        """False where more is sent than messages that are left out or changed each by itself, and one in the gap."""
        of, announces = listed(history.raws), plan.announce is not None and self._format.announce is not None
        if not plan.edits or of is None or of.spans is None:
            return False
        if of is not history.raws and (history.marked or (gap is not None and gap.answered)):
            return False  # a mark of a message is in all its parts, and what moves may come between two in the gap
        return not (plan.unpin or plan.unbind or announces or plan.json_word or (gap and gap.into is not None))

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

    def _made(self, sent: Sent, history: History, messages: Messages | Parts) -> Sent | None:
        """The same with its splices. None where the newest edit is in what is new."""
        gap, until = sent.gap, _settled(history)
        if until <= max(sent.edits[-1].index, gap.index if gap else 0):
            return None
        before, *after = Splicing(history, messages, self._format, self.memo).around(gap, sent.edits, until)
        of = messages.message_at(until)
        return msgspec.structs.replace(sent, before=before, after=after[0] if after else (), until=of)

    def extract(self, sent: Sent, history: History, body: bytes, summary: str) -> bytes:
        """The extract in the gap. As long as a line of it is not known it is written as it was the first time."""
        messages, excerpts = history.raws, sent.gap.extract if sent.gap else ()
        if not sent.extract and isinstance(messages, Messages | Parts):
            lines = known_lines(excerpts, summary, self.memo)
            if lines is None:
                return extract(messages, excerpts, summary, self._format, self.memo) if excerpts else b""
            sent.extract = Splicing(history, messages, self._format, self.memo).of_lines(lines)
        return b"".join(self.written(sent.extract, history, body, summary))

    def written(
        self, splices: Sequence[Splice], history: History, body: bytes, summary: str
    ) -> list[bytes | memoryview]:
        """The bytes of splices, in pieces. `body`: the one that they are of."""
        messages, views = history.raws, history.views
        found: list[bytes | memoryview] = []
        sources = Sources(messages, self._format)
        for splice in splices:
            if isinstance(splice, Edit):
                i = splice.index
                key = views[i].digest
                found.append(rewritten(messages[i], key, splice.stage, splice.amount, self._format, self.memo))
            elif isinstance(splice, Known):
                found.append(line_again(splice, sources, summary))
            else:
                found += slices(splice, body)
        return found


def _settled(history: History) -> int:
    """How many messages and parts of the known prefix have their place among those that are sent: all, but where system
    messages may move behind user messages that follow, only those before an answer."""
    of, views, until = listed(history.raws), history.views, history.prefix.count if history.prefix else 0
    if of is not None and not all(of.cuts.values()):
        while until and (until == len(views) or views[until].role != "assistant"):
            until -= 1
    return until
