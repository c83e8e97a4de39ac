"""Every call of an upstream that an exchange makes: the client's own, discovery's, the summarizer's.

One place, so that one rule holds for all: addresses come from the configuration, the client's credential goes only
where its request goes, and a key the operator configured stands in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from trimtab.context.read.views import text_of
from trimtab.errors import TrimtabError, UnknownModel, UpstreamError
from trimtab.exchange import models
from trimtab.exchange.access import Access, credential
from trimtab.exchange.incoming import Body, Incoming
from trimtab.exchange.notes import Notes
from trimtab.exchange.verdict import Verdict, inspect
from trimtab.limits.discovery import Fetch
from trimtab.summaries.completion import Completion, CompletionRequest
from trimtab.upstream.answer import Answer
from trimtab.upstream.client import Client
from trimtab.upstream.families import output_field
from trimtab.upstream.headers import to_upstream
from trimtab.upstream.own_calls import OwnCalls
from trimtab.upstream.routing import origin, route
from trimtab.upstream.settings import UpstreamSettings
from trimtab.wire.media import JSON_HEADER
from trimtab.wire.usage import usage_of

CHAT = "/v1/chat/completions"
_ANSWER_LIMIT = 4 << 20  # bytes of an answer to a call of our own
_LISTING_S = 5.0  # seconds an upstream has to list its models, where there are several
_BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})


class Calls:
    """The upstreams, as the exchange uses them."""

    def __init__(
        self, upstreams: Sequence[UpstreamSettings], client: Client, access: Access, keepalive_s: float = 0.0
    ) -> None:
        self._upstreams, self._client, self._access = upstreams, client, access
        self._own_calls = OwnCalls(client)
        self.keepalive_s = keepalive_s  # seconds of silence a client is left with
        self._named = {upstream.name: upstream for upstream in upstreams}

    def route(self, model: str | None) -> UpstreamSettings:
        """The upstream for a model; the first for a request that names none. Raises UnknownModel."""
        return route(model, self._upstreams)

    async def chat(self, upstream: UpstreamSettings, incoming: Incoming, body: bytes, notes: Notes) -> Verdict:
        """Send a chat body and read as much of the answer as its verdict takes."""
        answer = await self._send(upstream, incoming, body, notes, body_changed=True, identity=True)
        try:
            return await inspect(answer, self.keepalive_s)
        except BaseException:  # the client has left, most of all: the upstream is to stop now, not when it is noticed
            await answer.aclose()
            raise

    async def passthrough(self, incoming: Incoming, body: Body, notes: Notes) -> Verdict:
        """Send any other request on, its body as it comes. Only where there are several upstreams a JSON body is
        read first: the model it names says which. Raises UnknownModel, and what reading a body raises."""
        content = await self._content(incoming, body, notes)
        read = content if isinstance(content, bytes) else b""
        upstream = self.upstream_of(incoming, read)
        notes.upstream = upstream.name
        decoded = bool(read) and bool(incoming.header(b"content-encoding"))
        return Verdict(await self._send(upstream, incoming, content, notes, body_changed=decoded))

    async def _send(
        self,
        upstream: UpstreamSettings,
        incoming: Incoming,
        content: bytes | AsyncIterator[bytes],
        notes: Notes,
        *,
        body_changed: bool,
        identity: bool = False,
    ) -> Answer:
        """Send the client's request on, with its headers. Raises what the client raises."""
        with notes.span.child("upstream"):
            headers = to_upstream(
                _traced(incoming, notes),
                upstream=upstream,
                content_length=len(content) if isinstance(content, bytes) else None,
                body_changed=body_changed,
                identity=identity,
                keep_credentials=not self._access.guarded,
            )
            notes.calling()
            answer = await self._client.send(upstream, incoming.method, incoming.path, incoming.query, headers, content)
        notes.answered(answer.status, answer.retries)
        return answer

    async def _content(self, incoming: Incoming, body: Body, notes: Notes) -> bytes | AsyncIterator[bytes]:
        if incoming.method in _BODILESS:
            return b""
        if len(self._upstreams) == 1 or not models.may_name(incoming):
            return body.chunks()
        with notes.waiting():
            return await body.read()

    def upstream_of(self, incoming: Incoming, body: bytes) -> UpstreamSettings:
        """Where a request goes that is no chat which can be read; what names no model goes to the first. Raises
        UnknownModel."""
        return self.route(models.named(incoming, body) if len(self._upstreams) > 1 else None)

    async def listing(self, incoming: Incoming) -> bytes | None:
        """The models of all upstreams as one list; None where there is but one upstream, or none of them lists any:
        then the request is passed on like any other. A client's key goes to the first upstream's server alone, as it
        would have without the others."""
        several = len(self._upstreams) > 1 and incoming.method == "GET" and incoming.path == models.LIST
        if not several:
            return None
        first, key = origin(self._upstreams[0].base_url), credential(incoming)
        keys = [key if origin(upstream.base_url) == first else b"" for upstream in self._upstreams]
        got = await asyncio.gather(*map(self._listed, self._upstreams, keys))
        if not any(got):
            return None
        return models.merged(zip(self._upstreams, got, strict=True), self._upstreams)

    async def _listed(self, upstream: UpstreamSettings, key: bytes) -> bytes | None:
        try:
            async with asyncio.timeout(_LISTING_S):
                return await self._ask(upstream, "GET", models.LIST, b"", key)
        except (TrimtabError, TimeoutError):
            return None

    def same_server(self, model: str, other: str) -> bool:
        """Whether two models are served by one server, so that a client's key for one may be shown for the other."""
        try:
            return origin(self.route(model).base_url) == origin(self.route(other).base_url)
        except UnknownModel:
            return False

    def fetching(self, credential: bytes) -> Fetch:
        """What discovery asks an upstream with: in the name of the client whose request made it necessary."""

        async def fetch(upstream: str, path: str, body: bytes | None = None) -> bytes | None:
            where = path if path.startswith("/") else f"/v1/{path}"
            method = "GET" if body is None else "POST"
            try:
                return await self._ask(self._named[upstream], method, where, body or b"", credential)
            except TrimtabError:
                return None

        return fetch

    async def complete(self, request: CompletionRequest) -> Completion:
        """One call of a summary model. Raises a TrimtabError for whatever is not a completion."""
        upstream = self.route(request.model)
        bound = {output_field(request.model): request.max_tokens}
        fields: dict[str, Any] = {**request.fields, "model": request.model, **bound}
        if "tools" in request.fields:
            fields["tool_choice"] = "none"
        fields |= {"messages": [msgspec.Raw(m) for m in request.messages], "stream": False}
        raw = await self._ask(upstream, "POST", CHAT, msgspec.json.encode(fields), request.credential)
        if raw is None:
            raise UpstreamError("the summary model answered with an error")
        return _completion(raw)

    async def _ask(
        self, upstream: UpstreamSettings, method: str, path: str, body: bytes, credential: bytes
    ) -> bytes | None:
        """The body of a 200, or None. Raises what `OwnCalls.ask` raises."""
        named = [JSON_HEADER] if body else []
        if credential and not self._access.guarded:
            # One with a scheme came as `authorization`, one without as either of the others.
            names = (b"authorization",) if b" " in credential else (b"api-key", b"x-api-key")
            named += [(name, credential) for name in names]
        headers = to_upstream(named, upstream=upstream, content_length=len(body), identity=True)
        reply = await self._own_calls.ask(upstream, method, path, headers, body, limit=_ANSWER_LIMIT)
        return reply.body if reply.status == 200 else None


def _traced(incoming: Incoming, notes: Notes) -> list[tuple[bytes, bytes]]:
    """The client's headers, with our own trace context in the place of theirs where traces are on."""
    carried = notes.span.headers()
    if not carried:
        return incoming.headers
    ours = {name.lower().encode(): value.encode() for name, value in carried.items()}
    return [*(pair for pair in incoming.headers if pair[0] not in ours), *ours.items()]


class _Message(msgspec.Struct):
    content: str | list[Any] | None = None
    tool_calls: list[Any] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None
    error: Any = None


class _Answer(msgspec.Struct):
    choices: list[_Choice]
    error: Any = None


def _said(content: str | list[Any] | None) -> str:
    """The text of an answer; some models that think answer in parts, of which the thoughts are no text."""
    if isinstance(content, list):
        return "".join(filter(None, map(text_of, content)))
    return _answered(content or "")


def _answered(text: str) -> str:
    """What follows the thoughts that some servers leave in the text of an answer: between marks, or before the closing
    one alone where the chat template wrote the opening one. Nothing, where they never end."""
    thought, closed, answer = text.partition("</think>")
    opened = thought.lstrip().startswith("<think>")
    return answer if opened or (closed and "<think>" not in thought) else text


def _completion(raw: bytes) -> Completion:
    try:
        told = msgspec.json.decode(raw, type=_Answer)
        choice = told.choices[0]
    except (msgspec.DecodeError, IndexError) as error:
        raise UpstreamError("the summary model's answer is no completion") from error
    if told.error or choice.error:
        raise UpstreamError("the summary model's answer holds an error")
    usage = usage_of(raw)
    return Completion(
        text=_said(choice.message.content),
        finish_reason=choice.finish_reason,
        has_tool_call=bool(choice.message.tool_calls),
        prompt_tokens=(usage.prompt_tokens if usage else None) or 0,
        completion_tokens=(usage.completion_tokens if usage else None) or 0,
    )
