"""The messages of a shaped conversation spliced from the request received.

What is sent of the beginning of a conversation is the same bytes at every request, until an edit changes. Where they
stand in the body is remembered, with its known prefix, by which the body of the next request is recognised: so it
belongs to one tenant, lives as long as that prefix, and holds places and words of ours, never text. When an edit
changes, what is before the messages that it concerns stays, and only the rest is looked at again.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import zip_longest
from sys import maxsize
from weakref import WeakKeyDictionary

import msgspec

from trimtab.context.apply.format import CHAT, Format
from trimtab.context.apply.lines import Known, LineWriter, known_lines
from trimtab.context.apply.origins import slices
from trimtab.context.apply.splicing import Splice, Splicing, Stretch, Written
from trimtab.context.apply.writing import Writing
from trimtab.context.edits import Edit, Excerpt
from trimtab.context.read.history import History
from trimtab.context.read.memo import Memo
from trimtab.context.read.prefix import Prefix
from trimtab.context.read.views import digest
from trimtab.wire.messages import Messages, Parts, Pieces, listed

_STEPS = 32  # prefixes before the known one that are looked at: a megabyte of a body
_MOST_REST = 128  # messages and parts behind the stretches that are sent as they came
_COMPARED = 256  # edits at once


class Sent(msgspec.Struct, frozen=True):
    """How the first `until` messages and parts of a request were sent, the first `messages` of its list."""

    edits: Sequence[Edit] = ()
    unpin: tuple[int, ...] = ()
    unbind: tuple[int, ...] = ()
    beside: frozenset[tuple[int, str]] = frozenset()  # as in `Writing`
    stretches: tuple[Stretch, ...] = ()
    until: int = 0
    messages: int = 0
    excerpts: tuple[Excerpt, ...] = ()
    summary: bytes = b""  # its digest
    extract: tuple[Splice, ...] = ()  # of these excerpts beside that summary, once all lines are known


_NOTHING = Sent()


class Splices:
    """What was sent of each conversation of one format. One for the process; `memo` is that of the format."""

    def __init__(self, memo: Memo, format: Format = CHAT) -> None:
        self.memo, self._format = memo, format
        self.sent: WeakKeyDictionary[Prefix, Sent] = WeakKeyDictionary()

    def pieces(self, writing: Writing, history: History) -> Pieces | None:
        """The messages to send, in pieces of the request; None where it has no known prefix, or cannot be spliced."""
        known, messages = history.prefix, history.raws
        if known is None or not isinstance(messages, Messages | Parts) or not _can_be_spliced(writing, history):
            return None
        place, before = self._before(known)
        splicing = Splicing(writing, messages)
        sent, rest = _spliced(before, writing, splicing, history)
        sent = _with_extract(sent, writing, splicing, known.count, self.memo)
        if place is not None and place is not known:
            self.sent.pop(place, None)
        self.sent[known] = sent
        if sent.extract:
            writing.extracted = b"".join(_written(sent.extract, writing, splicing.body))
        parts = [_written(stretch.splices, writing, splicing.body) for stretch in (*sent.stretches, *rest)]
        parts += [[raw] for raw in messages.rest(sent.messages)] if not rest else []
        found = Pieces()
        for part in parts:
            if part and found:
                found.append(b",")
            found += part
        return found

    def _before(self, known: Prefix) -> tuple[Prefix | None, Sent]:
        """What was sent of a prefix, or of one that it goes on from; the newest."""
        prefix: Prefix | None = known
        for _ in range(_STEPS):
            if prefix is None:
                break
            if (found := self.sent.get(prefix)) is not None:
                return prefix, found
            prefix = prefix.before
        return None, _NOTHING


def _can_be_spliced(writing: Writing, history: History) -> bool:
    of = listed(history.raws)
    if writing.plan.json_word or of is None or of.spans is None:
        return False
    gap = writing.plan.gap
    # A mark of a message is in all its parts, and what moves may come between two messages in the gap.
    return of is history.raws or not (history.marked or (gap is not None and gap.answered))


def _spliced(before: Sent, writing: Writing, splicing: Splicing, history: History) -> tuple[Sent, Sequence[Stretch]]:
    """How a request is sent: the stretches that are kept of it, and those of the rest; none where that is sent as it
    came."""
    plan, count, length = writing.plan, history.prefix.count if history.prefix else 0, len(history.views)
    stretches, until, first = [*before.stretches], before.until, _first_other(before, writing)
    while stretches and until > first:
        until = stretches.pop().start
    ends = [*[stretch.start for stretch in stretches[1:]], until]
    stretches = [
        splicing.stretches(stretch.start, end)[0] if stretch.waits else stretch
        for stretch, end in zip(stretches, ends, strict=False)
    ]
    rest = list[Stretch]()
    if until < before.until or until <= writing.last or length - until > _MOST_REST:
        *new, tail = splicing.stretches(until, length, count)
        stretches += new
        until, rest = tail.start, [tail]
    return Sent(
        edits=plan.edits,
        unpin=plan.unpin,
        unbind=plan.unbind,
        beside=writing.beside,
        stretches=tuple(stretches),
        until=until,
        messages=before.messages if until == before.until else splicing.message_at(until),
        excerpts=before.excerpts,
        summary=before.summary,
        extract=before.extract,
    ), rest


def _first_other(before: Sent, writing: Writing) -> int:
    """The first message or part that is not sent as it was before."""
    plan, edits = writing.plan, before.edits
    found = [i for i, _ in before.beside ^ writing.beside]
    for one, other in ((before.unpin, plan.unpin), (before.unbind, plan.unbind)):
        found += {*one} ^ {*other} if one != other else ()
    if edits is not plan.edits:
        same = 0
        while same < len(edits) and edits[same : same + _COMPARED] == plan.edits[same : same + _COMPARED]:
            same += _COMPARED
        pairs = zip_longest(edits[same:], plan.edits[same:])
        found += [edit.index for edit in next((pair for pair in pairs if pair[0] != pair[1]), ()) if edit]
    return min(found, default=maxsize)


def _with_extract(sent: Sent, writing: Writing, splicing: Splicing, count: int, memo: Memo) -> Sent:
    """The same with the splices of the extract, if all its lines are known; `count`: messages of the known prefix."""
    excerpts = writing.plan.gap.extract if writing.plan.gap is not None else ()
    key = digest(writing.summary.encode("utf-8", "surrogatepass")) if writing.summary else b""
    if sent.extract and sent.summary == key and sent.excerpts == excerpts:
        return sent
    made: tuple[Splice, ...] = ()
    if excerpts and excerpts[-1].index < count:
        lines = known_lines(writing.views, excerpts, writing.summary, memo)
        made = splicing.of_lines(lines) if lines else ()
    return msgspec.structs.replace(sent, excerpts=excerpts, summary=key, extract=made)


def _written(splices: Sequence[Splice], writing: Writing, body: bytes) -> list[bytes | memoryview]:
    """The bytes of splices, in pieces. `body`: the one that they are of."""
    found: list[bytes | memoryview] = []
    for splice in splices:
        if isinstance(splice, array):
            found += slices(splice, body)
        elif isinstance(splice, Written):
            found.append(bytes(writing.message(splice.index, splice.change)))
        elif isinstance(splice, Known):
            found.append(LineWriter(writing.messages, writing.format, writing.summary).again(splice))
        else:
            found.append(b",".join(writing.of_own(splice)))
    return found
