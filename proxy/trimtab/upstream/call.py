"""One request to an upstream, and when it may be sent again.

Nothing is sent twice after the first byte of an answer. Before it, failed connections are tried again
for every request, and a connection that closed silently or a 502, 503 or 504 for requests that change nothing
upstream. Other statuses, 429 among them, are the client's to act upon. When the tries run out the last answer
passes through as it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator

from multidict import CIMultiDict

from trimtab.upstream.answer import Answer
from trimtab.upstream.failures import Again, Failure
from trimtab.upstream.settings import UpstreamSettings

RETRIED = frozenset({502, 503, 504})
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
# POSTs that compute an answer and leave nothing behind; an upload or a batch sent twice would exist twice.
_COMPUTES = ("/chat/completions", "/completions", "/embeddings", "/moderations", "/rerank")
_PATIENCE = 1.0  # an upstream that asks in retry-after for a longer wait, in seconds, is taken at its word


class Call:
    """One request, and whether it may be sent again."""

    __slots__ = ("body", "headers", "method", "upstream", "url")

    def __init__(
        self,
        upstream: UpstreamSettings,
        method: str,
        url: str,
        headers: list[tuple[bytes, bytes]],
        body: bytes | AsyncIterable[bytes],
    ) -> None:
        self.upstream = upstream
        self.method = method
        self.url = url
        self.headers = CIMultiDict(_texts(headers))
        self.body = body if isinstance(body, bytes) else Upload(body)

    @property
    def replayable(self) -> bool:
        """Sending it twice leaves nothing behind upstream."""
        return self.method in _READS or self.url.partition("?")[0].endswith(_COMPUTES)

    def again(self, outcome: Answer | Failure) -> bool:
        """Would another try be safe and sensible after `outcome`?"""
        if self.upstream.retries == 0 or (isinstance(self.body, Upload) and self.body.begun):
            return False
        if isinstance(outcome, Failure):
            return outcome.again is Again.SAFE or (outcome.again is Again.REPLAY and self.replayable)
        return outcome.status in RETRIED and self.replayable and not _asks_for_patience(outcome)


class Upload:
    """A streamed body that remembers whether it was begun, and what its source raised."""

    def __init__(self, source: AsyncIterable[bytes]) -> None:
        self._source = source
        self.begun = False
        self.error: Exception | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.begun = True
        try:
            async for chunk in self._source:
                yield chunk
        except Exception as error:
            self.error = error
            raise


def _asks_for_patience(answer: Answer) -> bool:
    value = next((value for name, value in answer.headers if name.lower() == b"retry-after"), b"0")
    try:
        return float(value) > _PATIENCE
    except ValueError:  # a date: nothing that a fraction of a second would satisfy
        return True


def _texts(headers: list[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """aiohttp writes headers as UTF-8; bytes that are none are taken as Latin-1 (RFC 9110 §5.5)."""
    try:
        return [(name.decode(), value.decode()) for name, value in headers]
    except UnicodeDecodeError:
        return [(_text(name), _text(value)) for name, value in headers]


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
