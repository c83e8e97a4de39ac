"""What the beginning of an answer says: an overflow, another error, a stream, or a whole body.

An answer is inspected before the client sees any of it: an error's body is read, and of a stream its first event,
because an overflow found there can still be mended by a smaller request. Nothing that is read here is lost to the
relay. A stream whose first event is long in coming is relayed before it is known what it says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache

import msgspec

from trimtab.exchange.beginning import Beginning, empty
from trimtab.exchange.offload import ANSWERS, LIGHT_NEW, LIGHT_PIECE, beside, read_beside
from trimtab.overflow.classify import Overflow, classify
from trimtab.overflow.empty import empty_answer
from trimtab.overflow.normalize import normalize
from trimtab.overflow.sent import Sent
from trimtab.overflow.unwrap import unwrap
from trimtab.overflow.vetoes import is_about_rate_or_quota
from trimtab.upstream.answer import Answer
from trimtab.wire.encoding import decode_or_empty
from trimtab.wire.media import EVENT_STREAM, EVENTS_HEAD, JSON, begins_like_events, comes_in_lines
from trimtab.wire.values import has_more_values

ERROR_LIMIT = 1 << 20  # bytes of an error body that are read to understand it
WHOLE_LIMIT = 16 << 20  # bytes of a JSON answer that are held to read its usage; larger ones are relayed unread
_MOST_VALUES = 500_000  # of one: those of 5,000 tokens with the logprobs of 20 others each
_LIGHT_WHOLE = 64 << 10  # bytes of one that are read in a few milliseconds
_LINE_LIMIT = 64 << 10  # bytes: the first of several JSON values is a short one
_NEXT_LINE_S = 0.05  # seconds after which an answer that ends with a newline has ended
_HEAD_LIMIT = 16 << 10  # bytes of an error that show whether it asks to wait


class Verdict(msgspec.Struct, frozen=True):
    """An answer and what its beginning says. `body` is the whole of it, where it was read to its end; `events`: a
    stream of which something has arrived; `blank`: only blank bytes have, which keep the client waiting;
    `too_many_bytes`: the request's body was too large in bytes; `sent`: what it answers, where its size in tokens is
    known; `empty`: it ended without a single event, or byte; `failed`: a stream that begins with an error."""

    answer: Answer
    overflow: Overflow | None = None
    body: bytes | None = None
    stream: bool = False
    events: bool = False
    blank: bool = False
    too_many_bytes: bool = False
    encoding: str = ""
    sent: Sent | None = None
    empty: bool = False
    failed: bool = False

    @property
    def reports_error(self) -> bool:
        """Whether it is an error, by its status or in spite of it."""
        if self.answer.status >= 400 or self.failed:
            return True
        if self.body is None or self.stream:
            return False
        return any(unwrap(self.answer.status, decode_or_empty(self.body, self.encoding, ERROR_LIMIT)))

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
    kind, encoding = _kind_of(answer.fields.get(b"content-type", b"")), encoding_of(answer)
    if answer.status >= 400:
        return await _inspect_error(answer, encoding, sent)
    labelled, alone = kind.startswith(EVENT_STREAM), _cannot_be_events(answer, kind, encoding)
    head = b"" if labelled or alone else await read_past_blanks(answer, EVENTS_HEAD)
    if labelled or (head and begins_like_events(head)):
        beginning = Beginning(answer, encoding, patience_s, sent, says_nothing)
        await beginning.read()
        if not beginning.is_json:
            return await _of_stream(beginning, answer, encoding, sent)
    elif not alone and not head.strip() and not answer.complete:
        return Verdict(answer, blank=True, sent=sent)
    if not encoding and not alone and (line := await first_line(answer, kind)) is not None:
        return Verdict(answer, overflow_in(answer.status, line, "", sent), sent=sent)
    raw = await answer.read(WHOLE_LIMIT)
    if not answer.complete:
        return Verdict(answer, encoding=encoding)
    if is_heavy(raw, encoding):
        overflow = await beside(ANSWERS, overflow_in, answer.status, raw, encoding, sent)
    else:
        overflow = overflow_in(answer.status, raw, encoding, sent)
    return Verdict(answer, overflow, raw, encoding=encoding, sent=sent, empty=not raw.strip())


async def _of_stream(beginning: Beginning, answer: Answer, encoding: str, sent: Sent | None) -> Verdict:
    overflow = beginning.overflow
    if overflow is None and beginning.size and sent is not None and not encoding:
        overflow = await empty(answer, beginning.size, sent)
    return Verdict(
        answer,
        overflow,
        stream=True,
        events=beginning.size > 0,
        encoding=encoding,
        sent=sent,
        empty=answer.complete and not beginning.has_events,
        failed=beginning.failed,
    )


async def read_past_blanks(answer: Answer, size: int) -> bytes:
    """At least `size` bytes of an answer, if it has so many; or fewer that are all blank. Raises as `Answer.read`."""
    head = b""
    while len(head) < size:
        before, head = head, await answer.read(len(head) + 1)
        if len(head) == len(before) or not head.strip():
            break
    return head


async def first_line(answer: Answer, kind: str) -> bytes | None:
    """The first line of an answer whose lines are JSON values of their own; None for any other. Where the label does
    not say so, the first line is a whole object and more follows it. Raises as `Answer.read`."""
    head = b""
    while b"\n" not in head.lstrip() and len(head) < _LINE_LIMIT and not answer.complete:
        before, head = head, await answer.read(len(head) + 1)
        if len(head) == len(before):
            break
    line, newline, rest = head.lstrip().partition(b"\n")
    if comes_in_lines(kind):
        return line
    if not newline or not (line.startswith(b"{") and line.rstrip().endswith(b"}")) or answer.complete:
        return None
    with suppress(TimeoutError):
        async with asyncio.timeout(_NEXT_LINE_S):
            rest = (await answer.read(len(head) + 1))[len(head) - len(rest) :]
    return line if rest.strip() or not answer.complete else None


def is_heavy(raw: bytes, encoding: str) -> bool:
    """True when a whole answer takes more than a few milliseconds to read."""
    return len(raw) > _LIGHT_WHOLE or bool(encoding)


def readable(raw: bytes, encoding: str) -> bytes:
    """A whole answer, decoded; empty where it cannot be decoded, or has more values than any real one."""
    body = decode_or_empty(raw, encoding, WHOLE_LIMIT) if encoding else raw
    return b"" if len(body) > _MOST_VALUES and has_more_values(body, _MOST_VALUES) else body


def overflow_in(status: int, raw: bytes, encoding: str, sent: Sent | None) -> Overflow | None:
    """The overflow in a whole answer that is not an error by its status."""
    body = readable(raw, encoding)
    return classify(status, body, sent) or (empty_answer(body, sent) if sent else None)


def encoding_of(answer: Answer) -> str:
    """The content-encoding of an answer; "" for none."""
    if b"content-encoding" not in answer.fields:
        return ""
    found = answer.fields[b"content-encoding"].decode("latin-1").strip().lower()
    return "" if found == "identity" else found


@lru_cache(64)
def _kind_of(content_type: bytes) -> str:
    return content_type.decode("latin-1").strip().lower()


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


def _cannot_be_events(answer: Answer, kind: str, encoding: str) -> bool:
    """True when the headers rule out an event stream: JSON with a length, as most answers have. The label of a
    compressed body is believed."""
    return bool(encoding) or (b"content-length" in answer.fields and kind.startswith(JSON))


def _asks_to_wait(text: bytes) -> bool:
    """Whether an error is about a rate: some of those come as a 413, and fewer bytes at once do not help then."""
    return is_about_rate_or_quota(normalize(text[:_HEAD_LIMIT].decode("utf-8", "replace")))
