"""The splices of a request in the making: what is copied of it, after a plan, and what is written between.

Pieces that touch become one, so what is sent as it came is one piece, however many messages it has.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Raw

from trimtab.context.apply.again import Known, is_exact
from trimtab.context.apply.format import Format
from trimtab.context.apply.origins import OURS, Origins, Piece, in_json, moved, ours
from trimtab.context.edits import REMOVED_STAGES, Edit, Gap
from trimtab.context.read.history import History
from trimtab.context.read.memo import Memo
from trimtab.context.texts import EXTRACT
from trimtab.wire.messages import USER_END, USER_START, Group, Messages, Parts

_COMMA, _BREAK, _FIRST = ours(b","), ours(in_json("\n")), ours(in_json(EXTRACT))
_USER_START, _USER_END = ours(USER_START), ours(USER_END)
_GAP = -1  # among messages: where the gap is

Splice: TypeAlias = "Origins | Edit | Known"
"""Pieces of the body, which are copied; or a message, or a line of the extract, that is written each time."""


class Splicing:
    """A request whose splices are made."""

    def __init__(self, history: History, messages: Messages | Parts, format: Format, memo: Memo) -> None:
        of = messages.listed if isinstance(messages, Parts) else messages
        self.body, self.spans, self.places = of.body, of.spans or [], messages.places or []
        self._history, self._messages, self._format, self._memo = history, messages, format, memo

    def around(self, gap: Gap | None, edits: Sequence[Edit], until: int) -> tuple[tuple[Splice, ...], ...]:
        """What is sent of the first `until` messages and parts before the gap, and after it."""
        messages, of = self._messages, {edit.index: edit for edit in edits}
        kept = [i for i in range(until) if i not in of or of[i].stage not in REMOVED_STAGES]
        in_gap = b""
        if gap is not None:
            kept.insert(bisect_left(kept, gap.index), _GAP)
            in_gap = self._format.message(gap.role or "user", "")

        def raw_at(at: int) -> bytes | Raw:
            return in_gap if kept[at] == _GAP else messages[kept[at]]

        making, found = _Making(self.body), []
        for group in messages.grouped([-1 if i in of else i for i in kept], raw_at):
            if kept[group.start] == _GAP:
                found.append(making.splices)
                making = _Making(self.body)
            else:
                self._add(making, group, kept[group.start : group.stop], of)
        return (*found, making.splices)

    def of_lines(self, lines: Sequence[Known]) -> tuple[Splice, ...]:
        """An extract, whose lines are known."""
        making = _Making(self.body)
        for line in lines:
            for word in (_BREAK,) if making.splices else (_FIRST, _BREAK):
                making.add(word)
            if line.parts and all([self._is_exact(index) for index, _ in line.parts]):
                for index, origins in line.parts:
                    making.moved(origins, self.places[index])
            else:
                making.whole(line)
        return making.splices

    def _add(self, making: _Making, group: Group, kept: Sequence[int], edits: Mapping[int, Edit]) -> None:
        making.comma()
        if group.message is not None:
            making.place(self.spans[group.message])
            return
        if group.is_new:
            making.add(_USER_START)
        for n, i in enumerate(kept):
            if n:
                making.comma()
            self._add_one(making, i, edits.get(i))
        if group.is_new:
            making.add(_USER_END)

    def _add_one(self, making: _Making, i: int, edit: Edit | None) -> None:
        if edit is None:
            making.place(self.places[i])
            return
        origins = self._memo.get((self._history.views[i].digest, edit.stage, edit.amount, "origins"))
        if origins and self._is_exact(i):
            making.moved(origins, self.places[i])
        else:
            making.whole(edit)

    def _is_exact(self, i: int) -> bool:
        return is_exact(self.body[self.places[i]], self._format)


class _Making:
    """Splices of a body, one after the other."""

    def __init__(self, body: bytes) -> None:
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

    def whole(self, splice: Edit | Known) -> None:
        """Add what is written each time."""
        self._splices += [self._pieces, splice] if self._pieces else [splice]
        self._pieces = array("i")

    @property
    def _ends_in_body(self) -> bool:
        return len(self._pieces) > 0 and self._pieces[-1] >= 0 <= self._pieces[-2]
