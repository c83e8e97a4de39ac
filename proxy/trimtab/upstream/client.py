"""The client of the upstreams: sends one request, gives an Answer, tries again where that is safe.

aiohttp's session is used directly, with everything switched off that would change a byte: no redirects, no
cookies, no decompression, no default headers, no proxies from the environment, no total timeout. Against
httpx with its own transport, and against httpx over aiohttp's, `tests/bench/bench_client.py` measures what
that saves; it also keeps repeated request headers apart, which httpx's header mapping joins.

When to try again is said in `call`.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterable, Callable
from functools import lru_cache
from typing import Any

import aiohttp
import stamina
from multidict import CIMultiDict
from yarl import URL

from trimtab.upstream.answer import Answer
from trimtab.upstream.call import Call, Upload
from trimtab.upstream.connections import Connections
from trimtab.upstream.failures import RAISED, Failure, failure
from trimtab.upstream.settings import UpstreamSettings
from trimtab.upstream.target import target

# Seconds between tries: .1–.2, then .2–.3, and so on up to .4. With the default of two retries at most half a
# second is added to a failure that people are waiting for.
_WAIT_INITIAL, _WAIT_MAX, _JITTER = 0.1, 0.4, 0.1

# Response heads beyond aiohttp's own 8 KB exist (long cookies, tracing baggage).
_HEAD_BYTES = 64 * 1024


class _Request(aiohttp.ClientRequest):
    """Takes its headers as they are: to add none of its own aiohttp would copy them four times."""

    _skip_auto_headers = CIMultiDict({"Content-Type": None})

    def update_headers(self, headers: Any) -> None:
        self.headers = headers
        if "Host" not in headers:
            headers["Host"] = self.url.host_port_subcomponent

    def update_auto_headers(self, skip_auto_headers: Any) -> None:
        pass


def open_session() -> aiohttp.ClientSession:
    """A session that adds nothing and keeps nothing."""
    return aiohttp.ClientSession(
        request_class=_Request,
        connector=Connections(),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        timeout=aiohttp.ClientTimeout(total=None),
        max_line_size=_HEAD_BYTES,
        max_field_size=_HEAD_BYTES,
    )


class Client:
    """One for the process. The session is opened on first use, in the running event loop."""

    def __init__(self, session: Callable[[], aiohttp.ClientSession] = open_session) -> None:
        self._open = session
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self,
        upstream: UpstreamSettings,
        method: str,
        path: str,
        query: bytes,
        headers: list[tuple[bytes, bytes]],
        body: bytes | AsyncIterable[bytes],
    ) -> Answer:
        """Send a request (headers as `to_upstream` gives them) and wait for the head of the answer.

        Raises UpstreamUnreachable or UpstreamTimeout, InvalidRequest for an unusable path, and whatever the
        iterable of a streamed body raises.
        """
        call = Call(upstream, method, target(upstream.base_url, path, query), headers, body)
        outcome = await self._attempt(call)
        if call.again(outcome):
            outcome = await self._retry(call, outcome)
        if isinstance(outcome, Failure):
            raise outcome.error
        return outcome

    async def aclose(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _retry(self, call: Call, first: Answer | Failure) -> Answer | Failure:
        """The tries after the first, which was made outside: the loop costs as much as a third of a call."""
        outcome = first
        async for attempt in stamina.retry_context(
            on=_Again,
            attempts=call.upstream.retries + 1,
            timeout=None,
            wait_initial=_WAIT_INITIAL,
            wait_max=_WAIT_MAX,
            wait_jitter=_JITTER,
        ):
            with attempt:
                if attempt.num > 1:
                    outcome = await self._attempt(call)
                if isinstance(outcome, Answer):
                    outcome.retries = attempt.num - 1
                if attempt.num > call.upstream.retries or not call.again(outcome):
                    break
                if isinstance(outcome, Answer):
                    await outcome.aclose()
                raise _Again(call.upstream.name)
        return outcome

    async def _attempt(self, call: Call) -> Answer | Failure:
        if self._session is None:
            self._session = self._open()
        upstream = call.upstream
        try:
            response = await self._session.request(
                call.method,
                URL(call.url, encoded=True),
                headers=call.headers,
                data=call.body or None,
                allow_redirects=False,
                timeout=_timeouts(upstream.connect_timeout_s, upstream.read_timeout_s),
                ssl=_tls(upstream.verify_tls, upstream.ca_file),
            )
        except RAISED as error:
            if isinstance(call.body, Upload) and call.body.error is not None:
                raise call.body.error from None
            return failure(error, upstream)
        if not 200 <= response.status <= 999:  # no such answer exists, or an upgrade that nobody asked for
            response.close()
            return failure(aiohttp.ClientResponseError(response.request_info, ()), upstream)
        return Answer(response, upstream)


class _Again(Exception):
    """Asks for the next try; its text, the upstream's name, is what the log of retries shows."""


@lru_cache(maxsize=64)
def _timeouts(connect_s: float, read_s: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=connect_s, sock_read=read_s)


@lru_cache(maxsize=64)
def _tls(verify: bool, ca_file: str | None) -> ssl.SSLContext | bool:
    """The system's authorities (OpenSSL honours SSL_CERT_FILE), or those of `ca_file`."""
    if not verify:
        return False
    return ssl.create_default_context(cafile=ca_file) if ca_file else True
