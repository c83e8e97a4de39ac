"""An upstream's answer: its status and headers at once, its body as the bytes come.

Bytes are handed on as they arrived: not decoded, not decompressed, not regrouped beyond what had already
arrived together. Leaving the answer early closes the connection, so that the upstream stops generating;
an answer read to its end gives the connection back to the pool.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType

import aiohttp

from trimtab.upstream.failures import RAISED, broken_off
from trimtab.upstream.settings import UpstreamSettings
from trimtab.upstream.silence import Silence


class Answer:
    """Use it as `async with`, or call `aclose()`: at the end, on an error, on cancellation."""

    __slots__ = ("_head", "_response", "_upstream", "headers", "retries", "status")

    def __init__(self, response: aiohttp.ClientResponse, upstream: UpstreamSettings) -> None:
        self.status: int = response.status
        self.retries = 0  # tries that failed before this one
        self.headers: list[tuple[bytes, bytes]] = list(response.raw_headers)
        self._response = response
        self._upstream = upstream
        self._head: list[bytes] = []

    @property
    def complete(self) -> bool:
        """True once the whole body has arrived, whether or not `chunks` gave it out."""
        return self._response.content.at_eof()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, from its start, also when `read` took some of it before.

        Raises UpstreamUnreachable when the answer breaks off, UpstreamTimeout after `read_timeout_s` of
        silence; what had arrived before is given first.
        """
        content = self._response.content
        silence = Silence(self._response, self._upstream.read_timeout_s)
        broken: BaseException | None = None
        try:
            for chunk in self._head:
                yield chunk
            silence.begins()
            while chunk := await content.readany():
                silence.ends()
                yield chunk
                silence.begins()
        except RAISED as error:
            broken = error
        finally:
            silence.close()
            if not content.is_eof():
                self._response.close()
        if broken is None:
            return
        if rest := _arrived(content):
            yield rest
        raise broken_off(broken, self._upstream) from broken

    async def read(self, limit: int) -> bytes:
        """The body up to its end, or as soon as `limit` bytes are reached: `complete` tells which.

        Nothing is taken away: `chunks` gives the same bytes and then the rest. Raises as `chunks` does.
        """
        size = sum(map(len, self._head))
        content = self._response.content
        try:
            while size < limit and (chunk := await content.readany()):
                self._head.append(chunk)
                size += len(chunk)
        except RAISED as error:
            self._response.close()
            raise broken_off(error, self._upstream) from error
        return b"".join(self._head)

    async def aclose(self) -> None:
        """Let go of the connection: closed when the body was not read to its end. Never raises."""
        if not self._response.content.is_eof():
            self._response.close()

    async def __aenter__(self) -> Answer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _arrived(content: aiohttp.StreamReader) -> bytes:
    """What arrived before the connection broke. aiohttp's public readers raise before giving it out, and the
    last events of an upstream that forgets its final chunk would be lost with it."""
    return content._read_nowait(-1)
