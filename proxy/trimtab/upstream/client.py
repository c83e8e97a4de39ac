"""The client of the upstreams: sends a client's request, gives an Answer, retries where that is safe (see `call`).

aiohttp is called directly, with everything switched off that would change a byte: no redirects, no cookies, no
decompression, no default headers, no proxies from the environment, no total timeout. A POST whose body is there, as
nearly all requests are, is written to its connection directly (`aiohttp_hooks.post`). `tests/bench/bench_client.py`
measures it beside httpx, and beside httpx over aiohttp's transport. It also keeps repeated request headers apart, which
httpx joins. The proxy's own calls go through the same sessions (`own_calls`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterable
from functools import lru_cache

import aiohttp
from yarl import URL

from trimtab.errors import UpstreamUnreachable
from trimtab.upstream.aiohttp_hooks import Connector, Request, Response, post
from trimtab.upstream.answer import Answer
from trimtab.upstream.call import Call, TryAgain, Upload, asked_wait, is_about_the_request, tries
from trimtab.upstream.failures import AIOHTTP_ERRORS, Failure, failure
from trimtab.upstream.headers import Pairs
from trimtab.upstream.routing import url_of
from trimtab.upstream.settings import UpstreamSettings
from trimtab.wire.encoding import decode_or_empty
from trimtab.wire.media import parse_content_length

# Bytes of a response header. aiohttp allows 8 KB; longer ones exist (long cookies, tracing baggage).
_MAX_HEADER = 64 * 1024
_SHORT_ERROR = 64 * 1024  # bytes of an error that is read before another try


def open_session(tls: ssl.SSLContext | bool = True) -> aiohttp.ClientSession:
    """A session that adds nothing to a request and keeps nothing of an answer. `tls` as for `Connector`."""
    return aiohttp.ClientSession(
        request_class=Request,
        connector=Connector(tls),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        timeout=aiohttp.ClientTimeout(total=None),
        max_line_size=_MAX_HEADER,
        max_field_size=_MAX_HEADER,
    )


class Client:
    """One for the process. Sessions are opened on first use, in the running event loop: one for all upstreams with the
    same TLS settings."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[bool, str | None], aiohttp.ClientSession] = {}

    def session(self, upstream: UpstreamSettings) -> aiohttp.ClientSession:
        """The open session that calls of `upstream` go through. It belongs to this client: do not close it.

        Raises UpstreamUnreachable when its `ca_file` cannot be read.
        """
        key = (upstream.verify_tls, upstream.ca_file)
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = open_session(tls_of(upstream))
        return session

    async def send(
        self,
        upstream: UpstreamSettings,
        method: str,
        path: str,
        query: bytes,
        headers: Pairs,
        body: bytes | AsyncIterable[bytes],
    ) -> Answer:
        """Send a request (headers as `to_upstream` gives them) and wait for the head of the answer.

        Raises UpstreamUnreachable or UpstreamTimeout, InvalidRequest for an unusable path, and what the iterable of a
        streamed body raises.
        """
        call = Call(upstream, method, url_of(upstream.base_url, path, query), headers, body)
        outcome = await self._attempt(call)
        if call.may_retry(outcome):
            outcome = await self._retry(call, outcome)
        if isinstance(outcome, Failure):
            raise outcome.error
        return outcome

    async def aclose(self) -> None:
        """Close every connection."""
        while self._sessions:
            _, session = self._sessions.popitem()
            await session.close()

    async def _retry(self, call: Call, first: Answer | Failure) -> Answer | Failure:
        """The tries after the first, which is made outside: this loop costs as much as a third of a call."""
        outcome = first
        async for attempt in tries(call.upstream):
            with attempt:
                if attempt.num > 1:
                    outcome = await self._attempt(call)
                (outcome if isinstance(outcome, Answer) else outcome.error).retries = attempt.num - 1
                if attempt.num > call.upstream.retries or not call.may_retry(outcome):
                    break
                if isinstance(outcome, Answer):
                    if await _would_be_the_same(outcome):
                        break
                    await outcome.aclose()
                await asyncio.sleep(asked_wait(outcome))
                raise TryAgain(call.upstream.name)
        return outcome

    async def _attempt(self, call: Call) -> Answer | Failure:
        upstream = call.upstream
        try:
            session = self._sessions.get((upstream.verify_tls, upstream.ca_file)) or self.session(upstream)
            timeout, data = _timeouts(upstream.connect_timeout_s, upstream.read_timeout_s), call.data
            response: Response | aiohttp.ClientResponse
            if isinstance(data, bytes) and call.method == "POST" and upstream.proxy is None:
                response = await post(session, call.url, call.headers, data, timeout)
            else:
                response = await session.request(
                    call.method,
                    URL(call.url, encoded=True),
                    headers=call.texts,
                    data=data,
                    allow_redirects=False,
                    timeout=timeout,
                    proxy=upstream.proxy,
                )
        except AIOHTTP_ERRORS as error:
            if isinstance(call.body, Upload) and call.body.error is not None:
                raise call.body.error from None
            return failure(error, upstream)
        if not 200 <= response.status <= 999:  # an upgrade that was not requested, or not a status at all
            response.close()
            return failure(aiohttp.ClientResponseError(response.request_info, ()), upstream)
        return Answer(response, upstream)


async def _would_be_the_same(answer: Answer) -> bool:
    """Whether an error that is short, and states its length, is about the request."""
    fields = answer.fields
    size = parse_content_length(fields.get(b"content-length", b""))
    if not size or size > _SHORT_ERROR:
        return False
    body = await answer.read(size)
    return is_about_the_request(
        answer.status, decode_or_empty(body, fields.get(b"content-encoding", b"").decode("latin-1"), _SHORT_ERROR)
    )


@lru_cache(maxsize=64)
def _timeouts(connect_s: float, read_s: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=connect_s, sock_read=read_s)


def tls_of(upstream: UpstreamSettings) -> ssl.SSLContext | bool:
    """The authorities of `ca_file`, True for the system's (OpenSSL honours SSL_CERT_FILE), False to verify nothing.

    Raises UpstreamUnreachable when `ca_file` cannot be read.
    """
    if not upstream.verify_tls:
        return False
    if not upstream.ca_file:
        return True
    try:
        return ssl.create_default_context(cafile=upstream.ca_file)
    except OSError as error:
        reason = error.strerror or "not a certificate in PEM"
        message = f"The upstream {upstream.name!r} has a ca_file that cannot be read ({upstream.ca_file}: {reason})."
        raise UpstreamUnreachable(f"{message} Check ca_file.") from error
