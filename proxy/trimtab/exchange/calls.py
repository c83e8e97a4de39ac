"""Every call of an upstream that an exchange makes: the client's own, discovery's, the summarizer's.

One place, so that one rule holds for all: addresses come from the configuration, the client's credential goes only
where its request goes, and a key the operator configured replaces it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from functools import lru_cache, partial

import msgspec

from trimtab.dialects.chat import CHAT
from trimtab.dialects.dialect import Dialect
from trimtab.errors import TrimtabError, UnknownModel, UpstreamError
from trimtab.exchange.incoming import Incoming
from trimtab.exchange.notes import NO_SPAN, Notes
from trimtab.exchange.verdict import Verdict, inspect
from trimtab.limits.discovery import Fetch
from trimtab.overflow.sent import Sent
from trimtab.upstream.answer import Answer
from trimtab.upstream.client import Client
from trimtab.upstream.headers import has_credential, to_upstream
from trimtab.upstream.own_calls import OwnCalls, Reply
from trimtab.upstream.routing import origin, route
from trimtab.upstream.settings import UpstreamSettings
from trimtab.wire.media import JSON_HEADER
from trimtab.wire.request import NOTHING_CARRIED, Carried

_MOST_ROUTES = 256  # models whose upstream is remembered: the names come from clients
_ANSWER_LIMIT = 4 << 20  # bytes of an answer to a call of our own


class Calls:
    """The upstreams, as the exchange uses them. `keepalive_s`: seconds of silence after which a waiting client gets a
    comment, 0 for none. `keep_credentials`: the client's key is the upstream's, not this proxy's own."""

    def __init__(
        self,
        upstreams: Sequence[UpstreamSettings],
        client: Client,
        *,
        keep_credentials: bool = True,
        keepalive_s: float = 0.0,
    ) -> None:
        self.upstreams, self.keepalive_s = upstreams, keepalive_s
        self._client, self._keep_credentials = client, keep_credentials
        self._own_calls = OwnCalls(client)
        self._route = lru_cache(_MOST_ROUTES)(partial(route, upstreams=upstreams))
        self._named = {upstream.name: upstream for upstream in upstreams}
        self._elsewhere = {
            (upstream.name, dialect): msgspec.structs.replace(upstream, base_url=url)
            for upstream in upstreams
            for dialect, url in upstream.base_urls.items()
        }

    def route(self, model: str | None) -> UpstreamSettings:
        """The upstream for a model; the first for a request that names none. Raises UnknownModel."""
        return self._route(model)

    async def chat(
        self,
        upstream: UpstreamSettings,
        incoming: Incoming,
        body: bytes,
        notes: Notes,
        sent: Sent | None = None,
    ) -> Verdict:
        """Send a chat body and read as much of the answer as its verdict takes. `sent` is the body with its size in
        tokens, where that is known."""
        if notes.keeps_body:
            notes.body = body
        answer = await self.send(upstream, incoming, body, notes, body_changed=True, identity=True)
        try:
            return await inspect(answer, self.keepalive_s, sent, notes.speaks.says_nothing)
        except BaseException as error:  # above all when the client has left: the upstream is to stop generating now
            if isinstance(error, UpstreamError):
                notes.call_ended("broken_off")
            await answer.aclose()
            raise

    async def send(
        self,
        upstream: UpstreamSettings,
        incoming: Incoming,
        content: bytes | AsyncIterator[bytes],
        notes: Notes,
        *,
        body_changed: bool,
        identity: bool = False,
    ) -> Answer:
        """Send the client's request on, with its headers. `body_changed`: the content is not the bytes it described;
        `identity`: ask for an answer without content-encoding. Raises what `Client.send` raises."""
        upstream = self._elsewhere.get((upstream.name, notes.speaks.name), upstream)
        with notes.span.child("upstream"):
            headers = to_upstream(
                _own_key(_traced(incoming, notes), notes) if notes.calls else _traced(incoming, notes),
                upstream=upstream,
                content_length=len(content) if isinstance(content, bytes) else None,
                body_changed=body_changed,
                identity=identity,
                keep_credentials=self._keep_credentials,
            )
            notes.calling(upstream.name)
            try:
                answer = await self._client.send(
                    upstream, incoming.method, incoming.path, incoming.query, headers, content
                )
            except UpstreamError as error:
                notes.unanswered(error.retries)
                raise
            except BaseException:  # the client has left, or the body it sent cannot be sent on
                notes.call_ended("cancelled")
                raise
        their_id = answer.fields.get(b"x-request-id", b"").decode("latin-1")
        notes.answered(answer.status, answer.retries, their_id)
        return answer

    def same_server(self, model: str, other: str) -> bool:
        """Whether two models are served by one server, so that a client's key for one may be shown for the other."""
        try:
            return origin(self.route(model).base_url) == origin(self.route(other).base_url)
        except UnknownModel:
            return False

    def tells_apart(self, upstream: UpstreamSettings) -> bool:
        """Whether an upstream recognizes each client by the client's own credential."""
        return self._keep_credentials and not has_credential(upstream)

    def fetching(self, credential: bytes, carried: Carried = NOTHING_CARRIED) -> Fetch:
        """What discovery asks an upstream with: in the name of the client whose request made it necessary, and with
        what is `carried` over from that."""

        async def fetch(upstream: str, path: str, body: bytes | None = None) -> bytes | None:
            where = path if path.startswith("/") else f"/v1/{path}"
            method = "GET" if body is None else "POST"
            try:
                return await self.ask(self._named[upstream], method, where, body or b"", credential, carried)
            except TrimtabError:
                return None

        return fetch

    async def ask(
        self,
        upstream: UpstreamSettings,
        method: str,
        path: str,
        body: bytes,
        credential: bytes,
        carried: Carried = NOTHING_CARRIED,
    ) -> bytes | None:
        """A call of our own: the body of a 200, None for any other status. Raises what `OwnCalls.ask` raises."""
        reply = await self.reply(upstream, method, path, body, credential, carried=carried)
        return reply.body if reply.status == 200 else None

    async def reply(
        self,
        upstream: UpstreamSettings,
        method: str,
        path: str,
        body: bytes,
        credential: bytes,
        dialect: Dialect = CHAT,
        carried: Carried = NOTHING_CARRIED,
    ) -> Reply:
        """A call of our own, with any status; with the headers and the query that are `carried`, else with the
        `credential` alone. Raises what `OwnCalls.ask` raises."""
        upstream = self._elsewhere.get((upstream.name, dialect.name), upstream)
        named = list(carried.headers)
        there = {name for name, _ in named}
        if body:
            named += [pair for pair in (JSON_HEADER, *dialect.own_headers) if pair[0] not in there]
        if credential and not there and self._keep_credentials:
            # A credential with a scheme came as `authorization`, one without as either of the others.
            names = (b"authorization",) if b" " in credential else (b"api-key", b"x-api-key")
            named += [(name, credential) for name in names]
        keep = self._keep_credentials
        headers = to_upstream(named, upstream=upstream, content_length=len(body), identity=True, keep_credentials=keep)
        limit, query = _ANSWER_LIMIT, carried.query
        return await self._own_calls.ask(upstream, method, path, headers, body, limit=limit, query=query)


def _traced(incoming: Incoming, notes: Notes) -> list[tuple[bytes, bytes]]:
    """The client's headers; where traces are on, our own trace context replaces the client's."""
    if notes.span is NO_SPAN:
        return incoming.headers
    carried = notes.span.headers()
    ours = {name.lower().encode(): value.encode() for name, value in carried.items()}
    return [*(pair for pair in incoming.headers if pair[0] not in ours), *ours.items()]


_IDEMPOTENCY = b"idempotency-key"


def _own_key(headers: list[tuple[bytes, bytes]], notes: Notes) -> list[tuple[bytes, bytes]]:
    """The headers of a further call of one exchange. It is another request, so it has an idempotency key of its own: to
    the client's, an upstream would repeat its answer to the first call. A client that sends its request again gets the
    same keys again.

        Idempotency-Key: "8e03978e"    ->    Idempotency-Key: "8e03978e-2"
    """
    number = len(notes.calls) + 1
    return [(n, re.sub(rb'("?)$', rb"-%d\1" % number, v, count=1) if n == _IDEMPOTENCY else v) for n, v in headers]
