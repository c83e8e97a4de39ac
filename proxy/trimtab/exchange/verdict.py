"""What the beginning of an answer says: an overflow, another error, a stream, or a whole body.

An answer is inspected before the client sees any of it: an error's body is read, and of a stream its first event,
because an overflow found there can still be mended by a smaller request. Nothing that is read here is lost to the
relay. A stream whose first event is long in coming is relayed before it is known what it says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

import msgspec

from trimtab.errors import RequestError
from trimtab.exchange.offload import LIGHT_NEW, LIGHT_PIECE, read_beside
from trimtab.overflow.classify import Overflow, classify, classify_event
from trimtab.overflow.empty import empty_answer, empty_stream
from trimtab.overflow.normalize import normalize
from trimtab.overflow.sent import Sent
from trimtab.overflow.vetoes import is_about_rate_or_quota
from trimtab.upstream.answer import Answer
from trimtab.wire import sse
from trimtab.wire.encoding import Decoder, decode_or_empty, decoder
from trimtab.wire.media import EVENT_STREAM, EVENTS_HEAD, JSON, begins_like_events
from trimtab.wire.values import has_more_values

STREAM_LIMIT = 1 << 30  # decoded bytes of a stream that are looked at,
STREAM_RATIO = 200  # and how many times its encoded bytes: real streams compress 10 to 100 times, bombs 1,000 times
ERROR_LIMIT = 1 << 20  # bytes of an error body that are read to understand it
WHOLE_LIMIT = 16 << 20  # bytes of a JSON answer that are held to read its usage; larger ones are relayed unread
_MAY_FILL = 0.5  # share of the window: of a smaller prompt an empty answer is not an overflow, whatever the estimate
_EMPTY_WAIT_S = 0.05  # seconds that the first event of a stream, without output, is held back for the second
_MOST_VALUES = 500_000  # of one: those of 5,000 tokens with the logprobs of 20 others each
_LIGHT_WHOLE = 64 << 10  # bytes of one that are read in a few milliseconds
_HEAD, _HEAD_LIMIT = 64, 16 << 10  # bytes that show whether an event may be an error, and that may be waited for then


class Verdict(msgspec.Struct, frozen=True):
    """An answer and what its beginning says. `body` is the whole of it, where it was read to its end; `silent`: a
    stream of which nothing has arrived yet; `too_many_bytes`: the request's body was too large in bytes; `sent`: what
    it answers, where its size in tokens is known; `empty`: it ended without a single event, or byte."""

    answer: Answer
    overflow: Overflow | None = None
    body: bytes | None = None
    stream: bool = False
    silent: bool = False
    too_many_bytes: bool = False
    encoding: str = ""
    sent: Sent | None = None
    empty: bool = False

    def blames(self, fields: Iterable[bytes]) -> bool:
        """Whether the request was refused with a 4xx whose body names one of these fields."""
        if not 400 <= self.answer.status < 500 or self.overflow is not None:
            return False
        text = decode_or_empty(self.body or b"", self.encoding, ERROR_LIMIT)
        return any(field in text for field in fields)


async def inspect(
    answer: Answer,
    patience_s: float = 0.0,
    sent: Sent | None = None,
    says_nothing: Callable[[bytes], bool] = lambda _: False,
) -> Verdict:
    """Read as much of an answer to what was `sent` as it takes to know whether it is an overflow; of a stream for at
    most `patience_s` seconds (0: until its first bytes). Raises what `Answer.read` raises."""
    fields = {name.lower(): value for name, value in answer.headers}
    kind, encoding = _value(fields, b"content-type"), encoding_of(answer)
    if answer.status >= 400:
        return await _inspect_error(answer, encoding, sent)
    if kind.startswith(EVENT_STREAM) or (
        not _cannot_be_events(fields, kind, encoding) and begins_like_events(await answer.read(EVENTS_HEAD))
    ):
        beginning = _Beginning(answer, encoding, patience_s, sent, says_nothing)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s or None):
                await beginning.read()
        overflow = beginning.overflow
        if overflow is None and beginning.size and sent is not None and not encoding:
            overflow = await _empty_stream(answer, beginning.size, sent)
        silent = not beginning.size and not answer.complete
        empty = answer.complete and not beginning.has_events
        return Verdict(answer, overflow, stream=True, silent=silent, encoding=encoding, sent=sent, empty=empty)
    raw = await answer.read(WHOLE_LIMIT)
    if not answer.complete:
        return Verdict(answer, encoding=encoding)
    overflow = await read_beside(is_heavy(raw, encoding), _overflow_in, answer.status, raw, encoding, sent)
    return Verdict(answer, overflow, raw, encoding=encoding, sent=sent, empty=not raw.strip())


async def _empty_stream(answer: Answer, size: int, sent: Sent) -> Overflow | None:
    """The overflow that a stream amounts to which ends right after its first `size` bytes, without any output. Only a
    prompt that may fill its window is waited for, and only for as long as nobody feels."""
    if sent.input_tokens < sent.window * _MAY_FILL or not sent.window:
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


def is_heavy(raw: bytes, encoding: str) -> bool:
    """True when a whole answer takes more than a few milliseconds to read."""
    return len(raw) > _LIGHT_WHOLE or bool(encoding)


def readable(raw: bytes, encoding: str) -> bytes:
    """A whole answer, decoded; empty where it cannot be decoded, or has more values than any real one."""
    body = decode_or_empty(raw, encoding, WHOLE_LIMIT)
    return b"" if has_more_values(body, _MOST_VALUES) else body


def _overflow_in(status: int, raw: bytes, encoding: str, sent: Sent | None) -> Overflow | None:
    """The overflow in a whole answer that is not an error by its status."""
    body = readable(raw, encoding)
    return classify(status, body, sent) or (empty_answer(body, sent) if sent else None)


def encoding_of(answer: Answer) -> str:
    """The content-encoding of an answer; "" for none."""
    encoding = next((value for name, value in answer.headers if name.lower() == b"content-encoding"), b"")
    found = encoding.decode("latin-1").strip().lower()
    return "" if found == "identity" else found


async def _inspect_error(answer: Answer, encoding: str, sent: Sent | None) -> Verdict:
    raw = await answer.read(ERROR_LIMIT)
    # Short as it may be, to compare it with a long request takes its time.
    heavy = len(raw) > LIGHT_PIECE or bool(encoding) or (sent is not None and sent.size > LIGHT_NEW)
    overflow, too_many_bytes = await read_beside(heavy, _error_in, answer.status, raw, encoding, sent)
    body = raw if answer.complete else None
    return Verdict(answer, overflow, body, too_many_bytes=too_many_bytes, encoding=encoding)


def _error_in(status: int, raw: bytes, encoding: str, sent: Sent | None) -> tuple[Overflow | None, bool]:
    """The overflow in an error, and whether the request had too many bytes."""
    text = decode_or_empty(raw, encoding, ERROR_LIMIT)
    overflow = classify(status, text, sent) if text or not raw else None  # a body that cannot be read is not empty
    return overflow, status == 413 and overflow is None and not _asks_to_wait(text)


class _Beginning:
    """The beginning of a stream: `size` bytes of it, up to the first event that says something, and what
    that says."""

    def __init__(
        self, answer: Answer, encoding: str, patience_s: float, sent: Sent | None, says_nothing: Callable[[bytes], bool]
    ) -> None:
        self._says_nothing, self._quiet = says_nothing, False
        self._answer, self._patient, self._sent = answer, patience_s > 0, sent
        self._unpacked = unpacking(encoding)
        self._tap, self._text = sse.Tap(), b""
        self.size = 0
        self.has_events = False
        self.overflow: Overflow | None = None

    async def read(self) -> None:
        while True:
            raw = await self._answer.read(self.size + 1)
            new, self.size = raw[self.size :], len(raw)
            heavy = len(new) > LIGHT_PIECE or self._unpacked is not None
            if await read_beside(heavy, self._has_event, new):
                return
            if not new or not self._patient or self.size > ERROR_LIMIT:
                return
            if not self._quiet and not self._may_be_an_error():
                return

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
        return self.overflow is not None or not all(map(self._says_nothing, events))

    def _may_be_an_error(self) -> bool:
        """So far there are only comments, or too few bytes to know, or the word "error" is there."""
        text = self._text
        return max(len(text), self.size) < _HEAD_LIMIT and (
            len(text) < _HEAD or text.startswith(b":") or b"error" in text
        )


def _cannot_be_events(fields: Mapping[bytes, bytes], kind: str, encoding: str) -> bool:
    """True when the headers rule out an event stream: JSON with a length, as most answers have. The label of a
    compressed body is believed."""
    return bool(encoding) or (b"content-length" in fields and kind.startswith(JSON))


def _asks_to_wait(text: bytes) -> bool:
    """Whether an error is about a rate: some of those come as a 413, and fewer bytes at once do not help then."""
    return is_about_rate_or_quota(normalize(text[:_HEAD_LIMIT].decode("utf-8", "replace")))


def unpacking(encoding: str) -> Decoder | None:
    """A decoder for a stream that is read beside its relay; None for a plain one."""
    return decoder(encoding, STREAM_LIMIT, STREAM_RATIO) if encoding else None


def parts(chunk: bytes, unpacked: Decoder | None) -> Iterator[bytes]:
    """One chunk of a stream, decoded. It ends early where the chunk cannot be decoded, or is a bomb."""
    with suppress(RequestError):
        yield from unpacked.pieces(chunk) if unpacked else (chunk,)


def _value(fields: Mapping[bytes, bytes], name: bytes) -> str:
    return fields.get(name, b"").decode("latin-1").strip().lower()
