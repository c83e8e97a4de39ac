"""The messages of a body: the list as it is read, and its place in the bytes.

A conversation is sent again and again, each time with a little more at its end. Messages whose places are known from
the request before are skipped when the next one is read (`chat.decode`): finding where each message ends costs as much
as everything else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, overload

from msgspec import Raw

from trimtab.wire.cuts import Chunk, Cuts, Cutting, Row, Spans
from trimtab.wire.joined import Joined

_BETWEEN = re.compile(rb"[ \t\r\n,]*").match
_NAMES = ("messages", "input", "content")
_FIND_LIST = {name: re.compile(rb'"%b"[ \t\r\n]*:[ \t\r\n]*\[[ \t\r\n]*' % name.encode()).search for name in _NAMES}
_END = re.compile(rb"[ \t\r\n]*\]").match


def spans_of(body: bytes, values: Sequence[Raw], name: str) -> Spans | None:
    """The places of the values of the list `name`, as `Messages.spans`."""
    if not values or not (found := _FIND_LIST[name](body)) or not body.startswith(bytes(values[0]), found.end()):
        return None
    return _following(body, values, found.end())


def _following(body: bytes, values: Sequence[Raw], at: int) -> Spans | None:
    """The places of the values that follow `at`; None where the list goes on behind them."""
    spans = list[slice]()
    for raw in values:
        if body[at : at + 2] == b",{":  # as most clients write it
            at += 1
        elif between := _BETWEEN(body, at):
            at = between.end()
        spans.append(slice(at, at := at + len(raw)))
    return spans if _END(body, at) else None


USER_START, USER_END = b'{"role":"user","content":[', b"]}"
"""Around the parts of a user message that is put together here."""


class Group(NamedTuple):
    """Of the messages and parts to send those from `start` to `stop`, which are one message. `message`: the number of
    the one received that they are, as it came; `is_new`: parts that come together in a user message."""

    start: int
    stop: int
    message: int | None = None
    is_new: bool = False


RawAt = Callable[[int], bytes | Raw]


class Pieces(list[bytes | memoryview]):
    """Messages to send in pieces of their bytes, with the commas between them: joined once, into the body."""


ToSend = Iterable[bytes | Raw] | Pieces
"""Messages to send: each by itself, or all in pieces."""


class Messages(Sequence[Raw]):
    """All messages of a `body`, its list `name`. `known` are the places of the first ones, which are read from there
    when they are needed; `fresh` are the others."""

    def __init__(self, body: bytes, fresh: list[Raw], known: Spans | None = None, name: str = "messages") -> None:
        self.body, self.fresh, self._name = body, fresh, name
        self.known: Spans = known or []
        self.cuts: Cuts = {}  # of fresh ones
        if not known:
            self.all = fresh  # without the lock of a cached property

    @cached_property
    def all(self) -> list[Raw]:
        """Every message, in order."""
        body = memoryview(self.body)
        return [Raw(body[span]) for span in self.known] + self.fresh

    @cached_property
    def spans(self) -> Spans | None:
        """The places of all messages; None when they cannot be found, because the name of the list is written with
        escapes, or another field of that name stands before it."""
        if self.known:
            rest = _following(self.body, self.fresh, self.known[-1].stop)
            known = self.known if isinstance(self.known, Joined) else Joined([self.known])
            return rest if rest is None else known.followed_by(rest)
        return spans_of(self.body, self.fresh, self._name)

    def place(self, at: int) -> slice:
        """The place of a message, where those of all can be found."""
        return (self.spans or [])[at]

    def message_at(self, at: int) -> int:
        """The message that begins there: itself."""
        return at

    def may_move(self, _: int) -> bool:
        """False: each message stays where it is."""
        return False

    def grouped(self, sent: list[int], raw_at: RawAt) -> list[Group]:
        """Each message by itself. `sent`: which of these each one is, unchanged; -1 for any other."""
        return [Group(at, at + 1, message if message >= 0 else None) for at, message in enumerate(sent)]

    def rest(self, message: int) -> list[bytes]:
        """The messages from this one on, where none of them changes, as they are sent."""
        return [self.body[place] for place in (self.spans or [])[message:]]

    def __len__(self) -> int:
        return len(self.known) + len(self.fresh)

    @overload
    def __getitem__(self, at: int) -> Raw: ...
    @overload
    def __getitem__(self, at: slice) -> list[Raw]: ...
    def __getitem__(self, at: int | slice) -> Raw | list[Raw]:
        if isinstance(at, int) and 0 <= at < len(self.known) and "all" not in self.__dict__:
            return Raw(memoryview(self.body)[self.known[at]])
        return self.all[at]

    def __iter__(self) -> Iterator[Raw]:
        return iter(self.all)


Cut = tuple[tuple[slice, ...], Sequence[bytes | Raw]]
"""What `Cuts` has of a message, and its parts: itself where it is planned whole."""


class Parts(Sequence[bytes | Raw]):
    """Messages of which some are planned in parts: a sequence of whole messages and of parts. `listed` are the messages
    as they are in the body; `fresh` is what was not known before."""

    def __init__(self, listed: Messages) -> None:
        self.listed, self.fresh = listed, list[bytes | Raw]()
        if not listed.known:
            self.divide((), 0)

    def divide(self, known: Sequence[Chunk], count: int, *, marked: bool = False, moves: bool = False) -> None:
        """Cut the messages. `known`: what is known of the first ones, which have `count` parts or are whole; `marked`:
        some of them have a field `pinned`; `moves`: some may have to move."""
        self._known, self._known_count, self._known_marked = known, count, marked
        cuts = dict[int, tuple[slice, ...]]()
        for i, raw in enumerate(self.listed.fresh, len(self.listed.known)):
            if (found := self.cut(raw)) is None:
                self.fresh.append(raw)
            else:
                cuts[i] = found[0]
                self.fresh += found[1]
        self.listed.cuts = cuts
        self.moves = moves or not all(cuts.values())
        """True when a message may have to move."""

    def cut(self, raw: Raw) -> Cut | None:
        """A message cut into parts; None for one that is planned whole and has its place."""
        raise NotImplementedError

    def grouped(self, sent: list[int], raw_at: RawAt) -> list[Group]:
        """How messages and parts come together as the messages that are sent, in their order. `sent`: which of these
        each one is, unchanged; -1 for any other, which is `raw_at` its place."""
        raise NotImplementedError

    def rest(self, message: int) -> list[bytes]:
        """As `Messages.rest`."""
        return self.listed.rest(message)

    def place(self, at: int) -> slice:
        """The place of a message or part in the body, where those of all can be found."""
        return self.row(at).place

    def message_at(self, at: int) -> int:
        """The message that begins with a message or part, or that comes next."""
        if at == len(self):
            return len(self.listed)
        row = self.row(at)
        return row.message if row.is_first else row.message + 1

    def may_move(self, message: int) -> bool:
        """True for a message that may have to move."""
        return self.moves and self._cutting.of_message(message) == ()

    def row(self, at: int) -> Row:
        """What is at a place among all messages and parts."""
        return self._cutting.row(at)

    @cached_property
    def _cutting(self) -> Cutting:
        known, fresh, spans = len(self.listed.known), len(self.listed.fresh), self.listed.spans
        new = [slice(0, 0)] * fresh if spans is None else spans[known:]
        return Cutting([*self._known, Chunk(known, self._known_count, new, self.listed.cuts)])

    @cached_property
    def all(self) -> list[bytes | Raw]:
        """Every message or part, in order."""
        found: list[bytes | Raw] = []
        body = memoryview(self.listed.body)
        for chunk in self._known:
            for i, span in enumerate(chunk.spans, chunk.message):
                if not (places := chunk.cuts.get(i)):
                    found.append(Raw(body[span]))
                elif self._known_marked and (cut := self.cut(Raw(body[span]))):
                    found += cut[1]
                else:
                    found += [Raw(body[span.start + place.start : span.start + place.stop]) for place in places]
        return found + self.fresh

    def __len__(self) -> int:
        return self._known_count + len(self.fresh)

    @overload
    def __getitem__(self, at: int) -> bytes | Raw: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes | Raw]: ...
    def __getitem__(self, at: int | slice) -> bytes | Raw | list[bytes | Raw]:
        if isinstance(at, int) and "all" not in self.__dict__ and not self._known_marked:
            if 0 <= at < self._known_count:
                return Raw(memoryview(self.listed.body)[self.place(at)])
            if at >= self._known_count:
                return self.fresh[at - self._known_count]
        return self.all[at]

    def __iter__(self) -> Iterator[bytes | Raw]:
        return iter(self.all)


def listed(messages: Sequence[bytes | Raw]) -> Messages | None:
    """The messages of a request as they are in its body; None where they are not slices of one list."""
    found = messages.listed if isinstance(messages, Parts) else messages
    return found if isinstance(found, Messages) else None


def new_bytes(body: bytes, messages: Sequence[bytes | Raw]) -> int:
    """Bytes of a body that were not read before: those behind its known messages."""
    found = listed(messages)
    return len(body) - (found.known[-1].stop if found is not None and found.known else 0)
