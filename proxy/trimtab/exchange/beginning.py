"""The beginning of a stream, as far as it is read before the client gets any of it.

An overflow in the first event can be mended by a smaller request, so that event is waited for; events that say nothing
yet are waited with. Comments are not: they show that the upstream is still waiting itself, and so does a head alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress

from trimtab.errors import RequestError
from trimtab.exchange.offload import LIGHT_PIECE, read_beside
from trimtab.overflow.classify import Overflow, classify_event
from trimtab.overflow.empty import empty_stream
from trimtab.overflow.sent import Sent
from trimtab.overflow.unwrap import unwrap_event
from trimtab.upstream.answer import Answer
from trimtab.wire import sse
from trimtab.wire.encoding import Decoder, decoder
from trimtab.wire.media import are_comments, begins_like_json

STREAM_LIMIT = 1 << 30  # decoded bytes of a stream that are looked at,
STREAM_RATIO = 200  # and how many times its encoded bytes: real streams compress 10 to 100 times, bombs 1,000 times
HEAD_WAIT_S = 0.5  # seconds that the head of a stream waits for its first event: an error comes at once
_FULL_WAIT_S = 2.0  # the same for a prompt that may fill its window, of which an overflow may follow
_LIMIT = 1 << 20  # bytes of it that are read
_MAY_FILL = 0.5  # share of the window: of a smaller prompt an empty answer is not an overflow, whatever the estimate
_EMPTY_WAIT_S = 0.05  # seconds that the first event of a stream, without output, is held back for the second
_HEAD, _HEAD_LIMIT = 64, 16 << 10  # bytes that show whether an event may be an error, and that may be waited for then


class Beginning:
    """The beginning of a stream: `size` bytes of it, up to the first event that says something, and what that says.
    `failed`: it is an error; `is_json`: the whole is JSON, in spite of its label."""

    def __init__(
        self, answer: Answer, encoding: str, patience_s: float, sent: Sent | None, says_nothing: Callable[[bytes], bool]
    ) -> None:
        self._says_nothing, self._quiet = says_nothing, False
        self._answer, self._patience_s, self._sent = answer, patience_s, sent
        self._unpacked = unpacking(encoding)
        self._tap, self._text = sse.Tap(), b""
        self.size = 0
        self.has_events = self.failed = self.is_json = False
        self.overflow: Overflow | None = None

    async def read(self) -> None:
        """Read up to the first event that says something, or until nothing is worth waiting for. Raises what
        `Answer.read` raises."""
        began = asyncio.get_running_loop().time()
        wait_s = _FULL_WAIT_S if self._sent is not None and _may_fill(self._sent) else HEAD_WAIT_S
        with suppress(TimeoutError):
            async with asyncio.timeout(min(wait_s, self._patience_s or wait_s)) as waiting:
                while await self._read_on():
                    if self._patience_s:
                        waiting.reschedule(began + self._patience_s)

    async def _read_on(self) -> bool:
        """Read what comes next. True when more is worth waiting for."""
        raw = await self._answer.read(self.size + 1)
        new, self.size = raw[self.size :], len(raw)
        heavy = len(new) > LIGHT_PIECE or self._unpacked is not None
        if await read_beside(heavy, self._has_event, new):
            return False
        self.is_json = self._unpacked is None and begins_like_json(self._text)
        if not new or not self._patience_s or self.size > _LIMIT or self.is_json:
            return False
        if self._unpacked is None and are_comments(self._text):
            return False
        return self._quiet or self._may_be_an_error()

    def _has_event(self, new: bytes) -> bool:
        """Read on, or to the end when nothing is new. True when an event that says something has come."""
        if not new:
            return self._found(self._tap.flush())
        for text in parts(new, self._unpacked):
            if len(self._text) < _HEAD_LIMIT:
                self._text += text
            elif self._unpacked is not None:
                break
            if self._found(self._tap.feed(text)):
                return True
        return False

    def _found(self, events: list[bytes]) -> bool:
        self.overflow = next(filter(None, (classify_event(event, self._sent) for event in events)), None)
        self.has_events = self.has_events or any(event != sse.DONE for event in events)
        self._quiet = self._quiet or bool(events)  # and goes on being so while they say nothing
        self.failed = self.failed or any(unwrap_event(event, self._sent) is not None for event in events)
        # A stream that has nothing but its end has ended: that is waited for.
        return self.overflow is not None or not all(event == sse.DONE or self._says_nothing(event) for event in events)

    def _may_be_an_error(self) -> bool:
        """So far there are only comments, or too few bytes to know, or the word "error" is there."""
        text = self._text
        return max(len(text), self.size) < _HEAD_LIMIT and (
            len(text) < _HEAD or text.startswith(b":") or b"error" in text
        )


async def empty(answer: Answer, size: int, sent: Sent) -> Overflow | None:
    """The overflow that a stream amounts to which ends right after its first `size` bytes, without any output. Only a
    prompt that may fill its window is waited for, and only for as long as nobody feels."""
    if not _may_fill(sent):
        return None
    with suppress(TimeoutError):
        async with asyncio.timeout(_EMPTY_WAIT_S):
            while size <= _HEAD_LIMIT:
                raw = await answer.read(size)
                events = [event for event in sse.Tap().feed(raw) if event != sse.DONE]
                known, overflow = empty_stream(events, sent)
                if known or answer.complete:
                    return overflow
                size = len(raw) + 1
    return None


def _may_fill(sent: Sent) -> bool:
    """True for a prompt that takes a good part of a window that is known."""
    return 0 < sent.window * _MAY_FILL <= sent.input_tokens


def unpacking(encoding: str) -> Decoder | None:
    """A decoder for a stream that is read beside its relay; None for a plain one."""
    return decoder(encoding, STREAM_LIMIT, STREAM_RATIO) if encoding else None


def parts(chunk: bytes, unpacked: Decoder | None) -> Iterator[bytes]:
    """One chunk of a stream, decoded. It ends early where the chunk cannot be decoded, or is a bomb."""
    with suppress(RequestError):
        yield from unpacked.pieces(chunk) if unpacked else (chunk,)
