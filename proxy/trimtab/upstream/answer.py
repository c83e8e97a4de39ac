"""An upstream's answer: its status and headers at once, its body as the bytes come.

Bytes are given out as they arrived: not decoded, not decompressed, not regrouped beyond what had already arrived
together. Closing an answer early closes its connection, so that the upstream stops generating; an answer that was read
to its end gives its connection back to the pool.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType

import aiohttp

from trimtab.upstream.aiohttp_hooks import Response, arrived
from trimtab.upstream.failures import AIOHTTP_ERRORS, interruption
from trimtab.upstream.settings import UpstreamSettings


class Answer:
    """Use it with `async with`, or call `aclose()`: at the end, on an error, on cancellation. Names of `headers` are in
    lower case; `fields` has the first value of each."""

    __slots__ = ("_head", "_response", "_upstream", "fields", "headers", "retries", "status")

    def __init__(self, response: Response | aiohttp.ClientResponse, upstream: UpstreamSettings) -> None:
        self.status: int = response.status
        self.retries = 0  # failed tries before this answer
        self.headers: list[tuple[bytes, bytes]] = [(name.lower(), value) for name, value in response.raw_headers]
        self.fields: dict[bytes, bytes] = dict(reversed(self.headers))
        self._response = response
        self._upstream = upstream
        self._head: list[bytes] = []

    @property
    def complete(self) -> bool:
        """True once the whole body has arrived, whether or not `chunks` gave it out."""
        return self._response.content.at_eof()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body from its start, including what `read` has read before.

        Raises UpstreamUnreachable when the answer breaks off, UpstreamTimeout after `read_timeout_s` seconds of
        silence; what had arrived before is given first.
        """
        content = self._response.content
        broken: BaseException | None = None
        try:
            for chunk in self._head:
                yield chunk
            while chunk := await content.readany():
                yield chunk
        except AIOHTTP_ERRORS as error:
            broken = error
        finally:
            if not content.is_eof():
                self._response.close()
        if broken is None:
            return
        if rest := arrived(content):
            yield rest
        raise interruption(broken, self._upstream) from broken

    async def read(self, limit: int) -> bytes:
        """The body up to its end, or up to the chunk that reaches `limit` bytes: `complete` tells which.

        Nothing is consumed: `chunks` gives the same bytes and then the rest. Raises as `chunks` does.
        """
        size = sum(map(len, self._head)) if self._head else 0
        content = self._response.content
        try:
            while size < limit and not content.at_eof() and (chunk := await content.readany()):
                self._head.append(chunk)
                size += len(chunk)
        except AIOHTTP_ERRORS as error:
            self._response.close()
            raise interruption(error, self._upstream) from error
        return self._head[0] if len(self._head) == 1 else b"".join(self._head)

    async def aclose(self) -> None:
        """Release the connection; close it when the body was not read to its end. May be called again. Never raises."""
        if not self._response.content.is_eof():
            self._response.close()

    async def __aenter__(self) -> Answer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
