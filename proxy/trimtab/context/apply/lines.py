"""The extract written again, without reading the messages it is from.

An extract changes when more messages are removed, and most of its lines stay. Each is remembered by itself: where its
bytes come from (see `origins`), by the digests of the messages that it is from, and never its text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec
from msgspec import Raw

from trimtab.context.apply.again import is_exact
from trimtab.context.apply.format import AsChat, Format
from trimtab.context.apply.origins import Origins, in_json, origins_of, slices, weight
from trimtab.context.edits import Excerpt
from trimtab.context.extract.parts import Opened
from trimtab.context.extract.render import PLACE, Line, line_of
from trimtab.context.read.memo import Memo
from trimtab.context.read.views import View, digest
from trimtab.context.texts import EXTRACT

_AT_ONCE = 24  # lines whose origins are looked for during one request: all would take longer than the request itself
_FIRST = in_json(EXTRACT)
_BREAK = in_json("\n")

Part = tuple[int, Origins]
"""A part of a line: the message it is from, and its pieces there."""


class Known(msgspec.Struct, frozen=True):
    """A line that was written before. Without parts it is written as the first time."""

    excerpts: tuple[Excerpt, ...]
    parts: tuple[Part, ...] = ()


class _Kept(msgspec.Struct, frozen=True):
    """What is remembered of a line: the origins of its parts; none where a part stands nowhere as it is written."""

    parts: tuple[Origins, ...] = ()
    is_left_out: bool = False  # the summary has all that it says


_ONCE = _Kept()  # written once; origins are looked for the second time


def extract(
    messages: Sequence[bytes | Raw],
    views: Sequence[View],
    excerpts: Sequence[Excerpt],
    summary: str,
    format: Format,
    memo: Memo | None,
) -> bytes:
    """The extract as it stands in a JSON string; b"" where nothing is left of it beside the `summary`. With the `views`
    and a `memo`, lines that were written before are not read again."""
    if not excerpts:
        return b""
    writer = LineWriter(messages, format, summary)
    if memo is None or not views:
        found = [writer.anew(of) for _, of in groupby(excerpts, PLACE)]
    else:
        found = [*_again(writer, views, excerpts, memo)]
    kept = [line for line in found if line]
    return _BREAK.join([_FIRST, *kept]) if kept else b""


def _again(writer: LineWriter, views: Sequence[View], excerpts: Sequence[Excerpt], memo: Memo) -> Iterator[bytes]:
    room = _AT_ONCE
    for place, of in _lines(views, excerpts, writer.summary):
        kept: _Kept | None = memo.get(place)
        if kept is not None and kept.is_left_out:
            continue
        if kept is not None and kept.parts:
            yield writer.again(_known(of, kept))
            continue
        line = writer.line(of)
        yield b"" if line is None else in_json(str(line))
        if line is None:
            memo.put(place, _Kept(is_left_out=True))
        elif kept is None:
            memo.put(place, _ONCE)
        elif kept is _ONCE and room:
            room -= 1
            found = writer.origins(line)
            memo.put(place, found, 1 + sum(map(weight, found.parts)))


def known_lines(
    views: Sequence[View], excerpts: Sequence[Excerpt], summary: str, memo: Memo
) -> tuple[Known, ...] | None:
    """The lines of an extract, where all of them are known."""
    found = list[Known]()
    for place, of in _lines(views, excerpts, summary):
        kept: _Kept | None = memo.get(place)
        if kept is None or kept is _ONCE:
            return None
        if not kept.is_left_out:
            found.append(_known(of, kept))
    return tuple(found)


def _lines(
    views: Sequence[View], excerpts: Sequence[Excerpt], summary: str
) -> Iterator[tuple[tuple[object, ...], tuple[Excerpt, ...]]]:
    """The excerpts of each line, and what it is remembered by."""
    beside = digest(summary.encode("utf-8", "surrogatepass")) if summary else b""
    for (index, part), group in groupby(excerpts, PLACE):
        of = tuple(group)
        call = of[0].call
        caller = None if call is None else (views[call[0]].digest, call[1])
        yield (views[index].digest, part, tuple([(e.start, e.stop) for e in of]), caller, beside, "line"), of


def _known(of: tuple[Excerpt, ...], kept: _Kept) -> Known:
    places = [of[0].call[0], of[0].index] if of[0].call is not None and len(kept.parts) > 1 else [of[0].index]
    return Known(of, tuple(zip(places, kept.parts, strict=True)) if kept.parts else ())


class LineWriter:
    """Writes lines of one request's extract."""

    def __init__(self, messages: Sequence[bytes | Raw], format: Format, summary: str) -> None:
        self.summary, self._messages, self._format = summary, messages, format
        self._opened = Opened(AsChat(messages, format))
        self._sources: dict[int, bytes] = {}

    def line(self, of: tuple[Excerpt, ...]) -> Line | None:
        """The line of the excerpts of one text; None where the summary has all that it says."""
        return line_of(self._opened, of, self.summary)

    def anew(self, of: Iterator[Excerpt]) -> bytes:
        """The same as it stands in a JSON string; b"" for none."""
        line = self.line(tuple(of))
        return b"" if line is None else in_json(str(line))

    def again(self, known: Known) -> bytes:
        """A line that was written before."""
        if known.parts and all([self._source(i) for i, _ in known.parts]):
            return b"".join([piece for i, of in known.parts for piece in slices(of, self._source(i))])
        return self.anew(iter(known.excerpts))

    def origins(self, line: Line) -> _Kept:
        """Where a line comes from: all of it from one message, or its title from the one that made the call."""
        index, call = line.excerpts[0].index, line.excerpts[0].call
        caller = call[0] if call is not None else index
        if not (self._source(index) and self._source(caller)):
            return _ONCE
        if caller == index:
            whole = origins_of(in_json(str(line)), self._source(index))
            return _Kept((whole,) if whole else ())
        title = origins_of(in_json(f"{line.title} "), self._source(caller))
        text = origins_of(in_json(line.text), self._source(index))
        return _Kept((title, text) if title and text else ())

    def _source(self, i: int) -> bytes:
        """The bytes of a message that is cut from; none of one that is not exact."""
        found = self._sources.get(i)
        if found is None:
            found = bytes(self._messages[i])
            found = self._sources[i] = found if is_exact(found, self._format) else b""
        return found
