"""One request to an upstream, and when it may be sent again.

Nothing is sent again after the first byte of an answer. Before it, a failed connection is retried for every request;
a connection that closed silently, and a 502, 503 or 504, only for requests that change nothing upstream. Other
statuses, 429 among them, are for the client to act on. What the upstream asks for goes first: `x-should-retry: false`
(OpenAI's SDKs obey it), and a wait, in `retry-after-ms` or `retry-after`. An error that is about the request would be
the same again, whatever its status. When the retries run out, the last answer is relayed as it is.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import Protocol

import stamina
from multidict import CIMultiDict

from trimtab.overflow.classify import classify
from trimtab.upstream.failures import Failure, Retry
from trimtab.upstream.headers import Pairs
from trimtab.upstream.settings import UpstreamSettings

_RETRIED_STATUS = frozenset({502, 503, 504})
_READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# POSTs that compute an answer and leave nothing behind; an upload or a batch sent twice would exist twice.
_COMPUTING_PATHS = ("/chat/completions", "/completions", "/embeddings", "/moderations", "/rerank")
_WHOLE = 8 << 20  # bytes of a body that is written at once: a few milliseconds of the event loop, half of the work
_PIECE = 1 << 20  # bytes of a larger one that are written at once
_MAX_RETRY_AFTER_S = 1.0  # seconds: an upstream whose retry-after asks for a longer wait is not retried here

# Seconds between tries: .1 to .2, then .2 to .3, and so on up to .4. With the default of two retries at most half a
# second is added to a failure that people are waiting for.
_WAIT_INITIAL_S, _WAIT_MAX_S, _JITTER_S = 0.1, 0.4, 0.1


class Head(Protocol):
    """The beginning of an answer, as far as a retry depends on it."""

    @property
    def status(self) -> int:
        """The status code."""
        ...

    @property
    def fields(self) -> Mapping[bytes, bytes]:
        """The first value of every header, by its name in lower case."""
        ...


class Call:
    """One request, and whether it may be sent again. `body` is sent whole, or as it comes from an iterable."""

    __slots__ = ("body", "headers", "method", "upstream", "url")

    def __init__(
        self,
        upstream: UpstreamSettings,
        method: str,
        url: str,
        headers: Pairs,
        body: bytes | AsyncIterable[bytes],
    ) -> None:
        self.upstream = upstream
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body if isinstance(body, bytes) else Upload(body)

    @property
    def texts(self) -> CIMultiDict[str]:
        """The headers as text. What is no UTF-8 is read as Latin-1 (RFC 9110 §5.5), and would be written as UTF-8."""
        return CIMultiDict([(_text(name), _text(value)) for name, value in self.headers])

    @property
    def data(self) -> bytes | Upload | Pieces | None:
        """The body as it is written."""
        if isinstance(self.body, bytes) and len(self.body) > _WHOLE:
            return Pieces(self.body)
        return self.body or None

    @property
    def repeatable(self) -> bool:
        """True when sending it twice leaves nothing behind upstream."""
        return self.method in _READING_METHODS or self.url.partition("?")[0].endswith(_COMPUTING_PATHS)

    def may_retry(self, outcome: Head | Failure) -> bool:
        """True when another try would be safe and useful after `outcome`. Does not count the tries."""
        if self.upstream.retries == 0 or (isinstance(self.body, Upload) and self.body.started):
            return False
        if isinstance(outcome, Failure):
            return outcome.retry is Retry.SAFE or (outcome.retry is Retry.IF_REPEATABLE and self.repeatable)
        if outcome.status not in _RETRIED_STATUS or not self.repeatable:
            return False
        return _value(outcome, b"x-should-retry").lower() != b"false" and asked_wait(outcome) <= _MAX_RETRY_AFTER_S


class Upload:
    """A streamed body that records whether it was started, and what its source raised."""

    def __init__(self, source: AsyncIterable[bytes]) -> None:
        self._source = source
        self.started = False
        self.error: Exception | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.started = True
        try:
            async for chunk in self._source:
                yield chunk
        except Exception as error:
            self.error = error
            raise


class Pieces:
    """A large body, sent piece by piece. In one, asyncio would copy what is left of it each time that a little has gone
    out: 30 MB took a tenth of a second of the event loop."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._body), _PIECE):
            yield self._body[at : at + _PIECE]


class TryAgain(Exception):
    """Raised in one of `tries` to ask for the next; its text, the upstream's name, is in the log of retries."""


def tries(upstream: UpstreamSettings) -> AsyncIterator[stamina.Attempt]:
    """The tries of one call, the first and `retries` more, with a wait before each but the first."""
    return stamina.retry_context(
        on=TryAgain,
        attempts=upstream.retries + 1,
        timeout=None,
        wait_initial=_WAIT_INITIAL_S,
        wait_max=_WAIT_MAX_S,
        wait_jitter=_JITTER_S,
    ).__aiter__()


def asked_wait(outcome: Head | Failure) -> float:
    """Seconds that an upstream asks to wait before the next try; 0 where it does not, infinite for a date."""
    if isinstance(outcome, Failure):
        return 0.0
    for name, unit in ((b"retry-after-ms", 0.001), (b"retry-after", 1.0)):
        if value := _value(outcome, name):
            try:
                return max(0.0, float(value)) * unit
            except ValueError:  # a date, which is in whole seconds
                return math.inf
    return 0.0


def is_about_the_request(status: int, body: bytes) -> bool:
    """True when an error would be the same for the same request: its prompt is too long, or it is invalid. Gateways
    report their upstream's 400 as a 502 or 503."""
    return b"invalid_request_error" in body or classify(status, body) is not None


def _value(answer: Head, name: bytes) -> bytes:
    return answer.fields.get(name, b"").strip()


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
