"""Server-sent events as bytes: reading a stream, and editing it event by event.

`Tap` reads a stream that is relayed elsewhere: feed it the chunks, it returns the `data` of completed events. `Editor`
cuts a stream into frames of one event each, whose bytes joined are the bytes that went in: one event can be removed or
added while all others keep their bytes. Both follow the WHATWG rules (LF, CRLF and bare CR; one optional space; several
`data` lines joined; comments; a byte order mark) and give the same events however the input is cut into chunks.
Nothing is decoded, so a character may be split anywhere.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from trimtab.wire.media import BYTE_ORDER_MARK

# Bytes held of an incomplete event. The largest seen in practice are images in base64, of a few megabytes; a larger
# event passes without being read.
EVENT_LIMIT = 8 * 1024 * 1024

# Lines of one event. Those of a larger event are not put together: a million of them would take a second.
_MOST_LINES = 10_000

DONE = b"[DONE]"

_LINE_END = re.compile(rb"\r\n|\n|\r")
# Atomic groups: CRLF is one line end, never CR and then LF.
_EVENT_END = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")


class Frame(NamedTuple):
    """One event as it came, or a piece of one too large to hold. `data` is None for an event without data."""

    raw: bytes
    data: bytes | None


class Editor:
    """Cuts a stream into frames. An event is held until it is complete, up to `limit` bytes."""

    __slots__ = ("_held", "_limit", "_lines", "_oversized", "_started")

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._held = bytearray()
        self._limit = limit
        self._lines = 0  # held
        self._oversized = False
        self._started = False

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that this chunk completes, in order."""
        if not self._held and len(chunk) <= self._limit and (whole := _whole_events(chunk)) is not None:
            self._started = True
            return [Frame(event(data), data) for data in whole] if len(whole) > 1 else [Frame(chunk, whole[0])]
        searched = max(0, len(self._held) - 3)
        self._held += chunk
        self._lines += chunk.count(b"\n") + chunk.count(b"\r")
        return self._cut(searched)

    def flush(self) -> list[Frame]:
        """The rest at the end of the stream: an event without its blank line counts as one."""
        rest, self._held = bytes(self._held), bytearray()
        return [self._frame(rest)] if rest else []

    def _cut(self, searched: int) -> list[Frame]:
        frames: list[Frame] = []
        start = 0
        while end := _EVENT_END.search(self._held, max(start, searched)):
            frames.append(self._frame(bytes(self._held[start : end.end()])))
            self._oversized = False
            start = end.end()
        if start:
            del self._held[:start]
            self._lines = self._held.count(b"\n") + self._held.count(b"\r")
        if len(self._held) > self._limit or self._lines > _MOST_LINES:
            frames.append(self._pass_oversized())
        return frames

    def _pass_oversized(self) -> Frame:
        """Give out most of an event that is too large, without the last bytes, in which its end may begin."""
        piece = Frame(bytes(self._held[:-3]), None)
        del self._held[:-3]
        self._oversized, self._lines = True, 0
        return piece

    def _frame(self, raw: bytes) -> Frame:
        started, self._started = self._started, True
        if self._oversized or len(raw) > self._limit or _has_too_many_lines(raw):
            return Frame(raw, None)
        return Frame(raw, data_of(raw if started else raw.removeprefix(BYTE_ORDER_MARK)))


class Tap:
    """Reads the `data` of a stream's events; holds only an event that is still incomplete, up to `limit` bytes."""

    __slots__ = ("_editor",)

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._editor = Editor(limit)

    @property
    def idle(self) -> bool:
        """True while no incomplete event is held: a chunk of whole events may then be left out of `feed`."""
        return not self._editor._held

    def feed(self, chunk: bytes) -> list[bytes]:
        """The `data` of the events that this chunk completes."""
        editor = self._editor
        if not editor._held and len(chunk) <= editor._limit and (whole := _whole_events(chunk)) is not None:
            editor._started = True
            return whole
        return [frame.data for frame in editor.feed(chunk) if frame.data is not None]

    def flush(self) -> list[bytes]:
        """The `data` of a last event that lacks its blank line."""
        return [frame.data for frame in self._editor.flush() if frame.data is not None]


def data_of(event: bytes) -> bytes | None:
    """The `data` of one whole event, its data lines joined by LF; None for an event without data (a comment)."""
    if (whole := _whole_events(event)) is not None and len(whole) == 1:
        return whole[0]
    lines = _LINE_END.split(event)
    values = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:") or line == b"data"]
    return b"\n".join(values) if values else None


def _has_too_many_lines(raw: bytes) -> bool:
    return len(raw) > _MOST_LINES and raw.count(b"\n") + raw.count(b"\r") > _MOST_LINES


def event(data: bytes) -> bytes:
    """An event with one line of data. `data` must not contain a line end; JSON as it is encoded here has none."""
    return b"data: %b\n\n" % data


def _whole_events(chunk: bytes) -> list[bytes] | None:
    """The data of a chunk of whole events with one `data: ` line each, as nearly all are; None for other chunks.

    Several events are read at once only with LF line ends, because `event` writes those back.
    """
    if not chunk.startswith(b"data: "):
        return None
    body = chunk[6:-4] if chunk.endswith(b"\r\n\r\n") else chunk[6:-2] if chunk.endswith(b"\n\n") else b"\r"
    if b"\r" in body:
        return None
    if b"\n" not in body:
        return [body]
    datas = body.split(b"\n\ndata: ")
    return None if chunk.endswith(b"\r\n") or any(b"\n" in data for data in datas) else datas
