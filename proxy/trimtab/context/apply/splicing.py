"""The splices of a request in the making: what is copied of it, after a plan, and what is written between.

Pieces that touch become one, so what is sent as it came is few pieces, however many messages it has. The splices are
made in stretches. What comes after a stretch changes nothing in it, so a stretch is kept as long as no message in it or
before it is changed in another way.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import TypeAlias

import msgspec
from msgspec import Raw

from trimtab.context.apply.again import Change, is_exact
from trimtab.context.apply.lines import Known
from trimtab.context.apply.origins import OURS, Origins, Piece, in_json, moved, ours
from trimtab.context.apply.writing import Writing
from trimtab.context.edits import REMOVED_STAGES, Edit
from trimtab.context.texts import EXTRACT
from trimtab.wire.messages import USER_END, USER_START, Group, Messages, Parts

LEAST = 64
"""Messages and parts of one stretch; the last may have fewer."""

_COMMA, _BREAK, _FIRST = ours(b","), ours(in_json("\n")), ours(in_json(EXTRACT))
_USER_START, _USER_END = ours(USER_START), ours(USER_END)
_INDEX = attrgetter("index")


class Written(msgspec.Struct, frozen=True):
    """A message that is written each time."""

    index: int
    change: Change | None


Splice: TypeAlias = "Origins | Written | Known | int"
"""Pieces of the body, which are copied; or a message, a line of the extract, or messages of our own (see
`Writing.own`), which are written each time."""


class Stretch(msgspec.Struct, frozen=True):
    """The splices of the messages and parts from `start` up to the next stretch. `waits`: one is written until its
    origins are known."""

    start: int
    splices: tuple[Splice, ...]
    waits: bool = False


class Splicing:
    """A request whose splices are made."""

    def __init__(self, writing: Writing, messages: Messages | Parts) -> None:
        of = messages.listed if isinstance(messages, Parts) else messages
        self.body, self._spans = of.body, of.spans or []
        self._writing, self._messages = writing, messages

    def stretches(self, start: int, stop: int, settled: int = 0) -> list[Stretch]:
        """The stretches of the messages and parts from `start` to `stop`. All but the last end within the first
        `settled` of them; the last has what is after these, and what may still come together with it."""
        edits = self._edits(start, stop)
        kept = [i for i in range(start, stop) if i not in edits or edits[i].stage not in REMOVED_STAGES]
        end = stop + (stop == len(self._messages))
        own = [(each, bisect_left(kept, at)) for each, at in self._writing.own.items() if start <= at < end]
        for each, at in own:
            kept.insert(at, each)
        changes = {i: self._writing.change(i, edits.get(i)) for i in kept if i in edits or i in self._writing.changed}
        groups = self._messages.grouped([-1 if i in changes else i for i in kept], lambda at: self._raw(kept[at]))
        cuts = self._begins(kept, groups, settled)
        found, making = list[Stretch](), _Making(self.body)
        for n, group in enumerate(groups):
            if n in cuts:
                found.append(Stretch(start, making.splices, making.waits))
                start, making = cuts[n], _Making(self.body)
            self._add(making, group, kept[group.start : group.stop], changes)
        return [*found, Stretch(start, making.splices, making.waits)]

    def message_at(self, at: int) -> int:
        """The message of the body that begins with a message or part."""
        return self._messages.message_at(at)

    def of_lines(self, lines: Sequence[Known]) -> tuple[Splice, ...]:
        """An extract, whose lines are known."""
        making = _Making(self.body)
        for line in lines:
            for word in (_BREAK,) if making.splices else (_FIRST, _BREAK):
                making.add(word)
            if line.parts and all([self._is_exact(index) for index, _ in line.parts]):
                for index, of in line.parts:
                    making.moved(of, self._place(index))
            else:
                making.whole(line)
        return making.splices

    def _edits(self, start: int, stop: int) -> dict[int, Edit]:
        edits = self._writing.plan.edits
        first = bisect_left(edits, start, key=_INDEX)
        return {edit.index: edit for edit in edits[first : bisect_left(edits, stop, first, key=_INDEX)]}

    def _raw(self, i: int) -> bytes | Raw:
        return self._messages[i] if i >= 0 else self._writing.in_its_role(i)

    def _begins(self, kept: Sequence[int], groups: Sequence[Group], settled: int) -> dict[int, int]:
        """The groups that begin a stretch, each with the message or part that it begins with. What comes before is
        whole messages that have their place: nothing that follows joins them or moves before them."""
        at = [self._writing.own.get(i, i) for i in kept]
        ends = [*accumulate([max(at[group.start : group.stop]) for group in groups], max)]
        begins = [*accumulate([min(at[group.start : group.stop]) for group in reversed(groups)], min)][::-1]
        closed = {
            n: begins[n]
            for n in range(1, len(groups))
            if ends[n - 1] < begins[n] <= settled and self._is_settled(groups[n - 1])
        }
        last = max([n for n in closed if not groups[n].is_new], default=0)
        cuts, begun = dict[int, int](), at[0] if at else 0
        for n, begin in closed.items():
            if n == last or (n < last and begin - begun >= LEAST):
                cuts[n] = begun = begin
        return cuts

    def _is_settled(self, group: Group) -> bool:
        """False for what may be joined by parts that follow, and for a message that may move."""
        return not group.is_new and (group.message is None or not self._messages.may_move(group.message))

    def _add(self, making: _Making, group: Group, kept: Sequence[int], changes: Mapping[int, Change | None]) -> None:
        making.comma()
        if group.message is not None:
            making.place(self._spans[group.message])
            return
        if group.is_new:
            making.add(_USER_START)
        for n, i in enumerate(kept):
            if n:
                making.comma()
            if i in changes:
                self._add_changed(making, i, changes[i])
            elif i < 0:
                making.whole(i)
            else:
                making.place(self._place(i))
        if group.is_new:
            making.add(_USER_END)

    def _add_changed(self, making: _Making, i: int, change: Change | None) -> None:
        known = self._writing.origins(i, change)
        if known and self._is_exact(i):
            making.moved(known, self._place(i))
        else:
            making.whole(Written(i, change))
            making.waits = making.waits or known is None

    def _place(self, i: int) -> slice:
        return self._messages.place(i)

    def _is_exact(self, i: int) -> bool:
        return is_exact(self.body[self._place(i)], self._writing.format)


class _Making:
    """Splices of a body, one after the other. `waits`: one is written until its origins are known."""

    def __init__(self, body: bytes) -> None:
        self.waits = False
        self._body = body
        self._splices: list[Splice] = []
        self._pieces: Origins = array("i")

    @property
    def splices(self) -> tuple[Splice, ...]:
        """All splices, in order."""
        return (*self._splices, self._pieces) if self._pieces else tuple(self._splices)

    def add(self, piece: Piece) -> None:
        """Add a place in the body, or a word of ours: the one in the body, if it stands right there."""
        start, stop = piece
        if self._ends_in_body:
            at = self._pieces[-1]
            if start == at <= stop:
                self._pieces[-1] = stop
                return
            if stop < 0 and self._body.startswith(OURS[start], at):
                self._pieces[-1] += len(OURS[start])
                return
        self._pieces.extend(piece)

    def place(self, place: slice) -> None:
        """Add what stands in a place of the body."""
        self.add((place.start, place.stop))

    def comma(self) -> None:
        """Add the comma before a message or part, where another is before it."""
        if self._pieces or self._splices:
            self.add(_COMMA)

    def moved(self, origins: Origins, place: slice) -> None:
        """Add what was written from a message, which stands in this place of the body."""
        for piece in moved(origins, self._body[place], place.start):
            self.add(piece)

    def whole(self, splice: Splice) -> None:
        """Add what is written each time."""
        self._splices += [self._pieces, splice] if self._pieces else [splice]
        self._pieces = array("i")

    @property
    def _ends_in_body(self) -> bool:
        return len(self._pieces) > 0 and self._pieces[-1] >= 0 <= self._pieces[-2]
