"""The proxy's own calls of an upstream: discovery, model listings, summaries. httpx makes them.

They go over the aiohttp sessions of the relay, so both have the same connections, TLS settings and timeouts, and the
same rules for retries and errors. httpx costs more than aiohttp called directly, which matters for the relay of a
client's bytes (`client`) and not here: these calls are few, and their answers are small and read whole.

Everything httpx would add to a request is switched off: default headers, cookies, redirects, proxies and credentials
from the environment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import NamedTuple

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from trimtab.upstream.call import Call, TryAgain, asked_wait, is_about_the_request, tries
from trimtab.upstream.client import Client
from trimtab.upstream.failures import AIOHTTP_ERRORS, Failure, Retry, failure, interruption
from trimtab.upstream.headers import Pairs
from trimtab.upstream.routing import url_of
from trimtab.upstream.settings import UpstreamSettings
from trimtab.wire.encoding import decode_or_empty

# The transport turns most of aiohttp's errors into httpx's and lets the others through.
_ERRORS = (httpx.TransportError, httpx.InvalidURL, *AIOHTTP_ERRORS)


_SHORT_ERROR = 64 * 1024  # bytes of an error that is read before another try


class Reply(NamedTuple):
    """The answer to a call of our own. `fields` has the first value of each header, by its name. `body` is decoded; it
    is empty when its content-encoding cannot be decoded.
    `retries`: tries that failed before."""

    status: int
    fields: Mapping[bytes, bytes]
    body: bytes
    retries: int = 0


class OwnCalls:
    """Calls over the sessions of `client`, which closes them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._over: dict[tuple[aiohttp.ClientSession, str | None], httpx.AsyncClient] = {}

    async def ask(
        self,
        upstream: UpstreamSettings,
        method: str,
        path: str,
        headers: Pairs,
        body: bytes,
        *,
        limit: int,
        query: bytes = b"",
    ) -> Reply:
        """Send a request (headers as `to_upstream` gives them) and read the answer, cut off after about `limit` bytes.

        Raises UpstreamUnreachable or UpstreamTimeout, and InvalidRequest for an unusable path.
        """
        call = Call(upstream, method, url_of(upstream.base_url, path, query), headers, body)
        async for attempt in tries(upstream):
            with attempt:
                outcome = await self._attempt(call, body, limit)
                if attempt.num <= upstream.retries and call.may_retry(outcome) and not _would_be_the_same(outcome):
                    await asyncio.sleep(asked_wait(outcome))
                    raise TryAgain(upstream.name)
        if isinstance(outcome, Failure):
            outcome.error.retries = attempt.num - 1
            raise outcome.error
        return outcome._replace(retries=attempt.num - 1)

    async def _attempt(self, call: Call, body: bytes, limit: int) -> Reply | Failure:
        upstream = call.upstream
        headers = httpx.Headers(list(call.texts.items()), encoding="utf-8")
        try:
            client = self._httpx(upstream)
            request = client.build_request(
                call.method, call.url, headers=headers, content=body, timeout=_timeout(upstream)
            )
            response = await client.send(request, stream=True)
        except _ERRORS as error:
            return failure(_cause(error), upstream)
        try:
            fields = {name.lower(): value for name, value in reversed(response.headers.raw)}
            return Reply(response.status_code, fields, await _read(response, limit))
        except _ERRORS as error:
            return Failure(interruption(_cause(error), upstream), Retry.NEVER)
        finally:
            await response.aclose()

    def _httpx(self, upstream: UpstreamSettings) -> httpx.AsyncClient:
        """httpx over the session of an upstream. It is not closed: the session is the client's."""
        key = self._client.session(upstream), upstream.proxy
        if key not in self._over:
            self._over[key] = _over(*key)
        return self._over[key]


def _would_be_the_same(outcome: Reply | Failure) -> bool:
    return isinstance(outcome, Reply) and is_about_the_request(outcome.status, outcome.body[:_SHORT_ERROR])


def _over(session: aiohttp.ClientSession, proxy: str | None) -> httpx.AsyncClient:
    # verify=False spares an SSL context that is never used: the session has its own TLS settings.
    through = httpx.Proxy(proxy) if proxy else None
    transport = AiohttpTransport(client=session, verify=False, proxy=through)
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    client = httpx.AsyncClient(transport=transport, cookies=no_cookies, follow_redirects=False, trust_env=False)
    client.headers.clear()
    return client


def _timeout(upstream: UpstreamSettings) -> httpx.Timeout:
    connect, read = upstream.connect_timeout_s, upstream.read_timeout_s
    return httpx.Timeout(connect=connect, pool=connect, read=read, write=None)


async def _read(response: httpx.Response, limit: int) -> bytes:
    """The body, decoded, of at most `limit` bytes; a longer one is cut off after the chunk that reaches them."""
    raw = bytearray()
    async for chunk in response.aiter_raw():
        raw += chunk
        if len(raw) >= limit:
            break
    return decode_or_empty(bytes(raw), response.headers.get("content-encoding", ""), limit)


def _cause(error: BaseException) -> BaseException:
    """The error of aiohttp behind one of httpx, which `failures` knows."""
    cause = error if isinstance(error, AIOHTTP_ERRORS) else error.__cause__
    return cause if isinstance(cause, AIOHTTP_ERRORS) else aiohttp.ClientError()
