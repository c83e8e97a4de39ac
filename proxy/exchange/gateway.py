"""The way of a request, in one place:

    decode → plan → fetch the summary the plan asks for → apply → forward → observe

Every request ends in observe, also one that failed, was refused or was abandoned. This module has the only broad
`except` of the house: a bug of ours sends the client's own bytes on, if they fit, and never stops a conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter

import msgspec

from proxy.context.plan import history
from proxy.context.views import Memo
from proxy.errors import BodyTooLarge, ConversationTooLong, Overloaded, RequestError, TrimtabError, UpstreamError
from proxy.exchange import report
from proxy.exchange.access import Access
from proxy.exchange.incoming import Body, ClientGone, Downstream, Headers, Incoming
from proxy.exchange.notes import Notes
from proxy.exchange.policies import Chosen, Policies, is_ours, managed
from proxy.exchange.relay import Relay, Verdict, inspect
from proxy.exchange.shape import Shaping, decide, outgoing, refusal, too_long
from proxy.exchange.smaller import smaller
from proxy.limits import Limits
from proxy.telemetry import Outcome, Telemetry
from proxy.upstream.client import Client
from proxy.upstream.headers import to_upstream
from proxy.upstream.roles import summary_role
from proxy.upstream.routing import route
from proxy.upstream.settings import UpstreamSettings
from proxy.wire import problem
from proxy.wire.chat import ChatRequest, Unreadable, decode

CHAT = "/v1/chat/completions"
PLAN = "/v1/context/plan"


class Gateway:
    """All parts of a running proxy. One per process; `handle` is called for every request under `/v1/`."""

    def __init__(
        self,
        upstreams: Sequence[UpstreamSettings],
        client: Client,
        limits: Limits,
        policies: Policies,
        telemetry: Telemetry,
        access: Access,
    ) -> None:
        self._upstreams, self._client, self._limits = upstreams, client, limits
        self._policies, self._telemetry, self._access = policies, telemetry, access
        self._memo = Memo()

    async def handle(self, incoming: Incoming, body: Body, downstream: Downstream) -> None:
        """Answer one request. Raises nothing but CancelledError, when the client has gone."""
        post = incoming.method == "POST"
        kind = "chat" if post and incoming.path == CHAT else "plan" if incoming.path == PLAN else "passthrough"
        notes = Notes(incoming.request_id, kind)  # type: ignore[arg-type]
        way = {"chat": self._chat, "plan": self._plan, "passthrough": self._passthrough}[kind]
        self._telemetry.metrics.began()
        try:
            self._access.check(incoming)
            await way(incoming, body, downstream, notes)
        except asyncio.CancelledError:
            notes.outcome = "abandoned"
            raise
        except ClientGone:
            notes.outcome = "abandoned"
        except TrimtabError as error:
            await self._fail(error, downstream, notes)
        except Exception as bug:  # noqa: BLE001  the border: whatever is wrong with us, the client gets an answer
            self._telemetry.log.bug(incoming.request_id, bug)
            await self._fail(
                UpstreamError("Trimtab failed to handle this request; the log has the place."), downstream, notes
            )
            notes.outcome = "failed"
        finally:
            self._telemetry.metrics.ended()
            self._telemetry.observe(notes.record())

    async def turn_away(self, incoming: Incoming, downstream: Downstream, draining: bool) -> None:
        """Answer a request there is no room for."""
        why = "is shutting down" if draining else "has as many requests in flight as it takes (max_in_flight)"
        notes = Notes(incoming.request_id, "passthrough")
        await self._fail(Overloaded(f"This proxy {why}. Try again in a second."), downstream, notes)
        self._telemetry.observe(notes.record())

    # -- chat completions ----------------------------------------------------------------------------------------

    async def _chat(self, incoming: Incoming, body: Body, downstream: Downstream, notes: Notes) -> None:
        raw = await body.read()
        try:
            request = decode(raw)
        except Unreadable:
            notes.outcome = "unparsed"
            await self._forward_unshaped(self._upstreams[0], incoming, raw, downstream, notes)
            return
        upstream = route(request.model, self._upstreams)
        notes.model, notes.upstream, notes.stream = request.model, upstream.name, request.stream
        if incoming.flag(b"x-trimtab-bypass"):
            notes.outcome = "bypassed"
            await self._forward_unshaped(upstream, incoming, raw, downstream, notes)
            return
        chosen = self._choose(incoming, request, upstream, notes)
        shaping = await self._shape(request, chosen, upstream, incoming, notes)
        if shaping is None:
            await self._forward_unshaped(upstream, incoming, raw, downstream, notes)
            return
        observing = incoming.flag(b"x-trimtab-observe") or shaping.policy.shaping.mode == "observe"
        if observing:
            await self._forward_observed(upstream, incoming, shaping, downstream, notes)
            return
        if error := refusal(shaping):
            raise error
        await self._forward(upstream, incoming, shaping, downstream, notes)

    def _choose(self, incoming: Incoming, request: ChatRequest, upstream: UpstreamSettings, notes: Notes) -> Chosen:
        strict = summary_role(upstream, request.model) == "user"
        profile, hint = incoming.header(b"x-trimtab-profile"), incoming.header(b"x-trimtab-hint")
        chosen = self._policies.choose(profile, hint, request.has_tools, strict)
        notes.profile, notes.hint = chosen.profile, chosen.hint
        return chosen

    async def _shape(
        self, request: ChatRequest, chosen: Chosen, upstream: UpstreamSettings, incoming: Incoming, notes: Notes
    ) -> Shaping | None:
        """Plan the request. A bug in planning is logged and gives None: the client's own bytes go on."""
        limit = self._limits.known(upstream.name, request.model)
        policy = chosen.policy
        if is_ours(request.context_management):
            assert request.context_management is not None
            policy = managed(policy, request.context_management)
        began = perf_counter()
        try:
            conversation = history(request.messages, request.extras, self._memo)
            shaping = decide(request, conversation, policy, limit, 1.0, self._memo, cap=chosen.budget)
        except Exception as bug:  # noqa: BLE001  see the module's rule
            self._telemetry.log.bug(incoming.request_id, bug)
            notes.outcome, notes.fail_open = "passed", "plan"
            return None
        notes.planned(shaping, perf_counter() - began)
        return shaping

    async def _forward(
        self, upstream: UpstreamSettings, incoming: Incoming, shaping: Shaping, downstream: Downstream, notes: Notes
    ) -> None:
        """Send what was decided; on an overflow once more, smaller; then relay the answer."""
        notes.outcome = "shaped" if shaping.plan.shaped else "passed"
        verdict = await self._call(upstream, incoming, self._body(upstream, shaping), notes)
        if verdict.overflow is not None:
            notes.overflow = True
            await verdict.answer.aclose()
            again = smaller(shaping, verdict.overflow, shaping.limit, self._memo)
            if again is None:
                raise _overflowed(shaping, verdict)
            notes.planned(again, 0.0)
            notes.outcome, shaping = "shaped", again
            verdict = await self._call(upstream, incoming, self._body(upstream, again), notes)
            if verdict.overflow is not None:
                await verdict.answer.aclose()
                raise _overflowed(shaping, verdict)
        await self._relay(verdict, downstream, notes, shaping)

    def _body(self, upstream: UpstreamSettings, shaping: Shaping) -> bytes:
        role = summary_role(upstream, shaping.request.model)
        ours = is_ours(shaping.request.context_management)
        return outgoing(shaping, None, role, ask_usage=False, ours=ours)

    async def _forward_observed(
        self, upstream: UpstreamSettings, incoming: Incoming, shaping: Shaping, downstream: Downstream, notes: Notes
    ) -> None:
        """Plan and report, forward the client's own bytes."""
        notes.outcome = "observed"
        verdict = await self._call(upstream, incoming, shaping.request.body, notes)
        await self._relay(verdict, downstream, notes, shaping)

    async def _forward_unshaped(
        self, upstream: UpstreamSettings, incoming: Incoming, raw: bytes, downstream: Downstream, notes: Notes
    ) -> None:
        notes.upstream = notes.upstream or upstream.name
        verdict = await self._call(upstream, incoming, raw, notes)
        await self._relay(verdict, downstream, notes, None)

    async def _call(self, upstream: UpstreamSettings, incoming: Incoming, body: bytes, notes: Notes) -> Verdict:
        headers = to_upstream(
            incoming.headers,
            upstream=upstream,
            content_length=len(body),
            body_changed=True,
            identity=True,
            keep_credentials=not self._access.guarded,
        )
        notes.calling()
        answer = await self._client.send(upstream, "POST", incoming.path, incoming.query, headers, body)
        notes.answered(answer.status)
        return await inspect(answer)

    async def _relay(self, verdict: Verdict, downstream: Downstream, notes: Notes, shaping: Shaping | None) -> None:
        answer = verdict.answer
        try:
            relay = Relay(verdict, downstream, notes, shaping)
            await relay.run()
        finally:
            await answer.aclose()

    # -- everything else -----------------------------------------------------------------------------------------

    async def _plan(self, incoming: Incoming, body: Body, downstream: Downstream, notes: Notes) -> None:
        """`POST /v1/context/plan`: say what would be done and call no one."""
        raw = await body.read()
        try:
            request = decode(raw)
        except Unreadable as error:
            raise RequestError(f"This request cannot be planned: it is {error}.") from error
        upstream = route(request.model, self._upstreams)
        notes.model, notes.upstream = request.model, upstream.name
        chosen = self._choose(incoming, request, upstream, notes)
        shaping = await self._shape(request, chosen, upstream, incoming, notes)
        if shaping is None:
            raise UpstreamError("This request could not be planned; the log has the place.")
        notes.outcome = "planned"
        await self._reply(200, msgspec.json.encode(report.explained(shaping, None)), downstream, notes)

    async def _passthrough(self, incoming: Incoming, body: Body, downstream: Downstream, notes: Notes) -> None:
        upstream = self._upstreams[0]
        notes.upstream, notes.outcome = upstream.name, "passed"
        has_body = incoming.method not in ("GET", "HEAD", "OPTIONS", "DELETE")
        headers = to_upstream(
            incoming.headers,
            upstream=upstream,
            content_length=None if has_body else 0,
            keep_credentials=not self._access.guarded,
        )
        notes.calling()
        answer = await self._client.send(
            upstream, incoming.method, incoming.path, incoming.query, headers, body.chunks() if has_body else b""
        )
        notes.answered(answer.status)
        await self._relay(Verdict(answer), downstream, notes, None)

    async def _reply(self, status: int, body: bytes, downstream: Downstream, notes: Notes) -> None:
        notes.status = status
        await downstream.start(status, _json_headers(body, notes.request_id))
        await downstream.end(body)

    async def _fail(self, error: TrimtabError, downstream: Downstream, notes: Notes) -> None:
        """An error of the tree, as an envelope; as an event of the stream once that has begun."""
        notes.outcome = _outcome_of(error)
        notes.error_code = error.code or error.type
        if downstream.started:
            await downstream.end(problem.sse_event(error) if notes.stream else b"")
            return
        notes.status = error.status
        body = problem.envelope(error, notes.request_id)
        await downstream.start(error.status, [*problem.headers(error), *_json_headers(body, notes.request_id)[1:]])
        await downstream.end(body)


def _overflowed(shaping: Shaping, verdict: Verdict) -> ConversationTooLong:
    overflow = verdict.overflow
    assert overflow is not None
    return too_long(shaping, reported=overflow.actual, upstream_limit=overflow.limit, upstream=overflow.message)


def _outcome_of(error: TrimtabError) -> Outcome:
    if isinstance(error, ConversationTooLong):
        return "refused"
    if isinstance(error, Overloaded):
        return "overloaded"
    return "client_error" if isinstance(error, RequestError | BodyTooLarge) else "upstream_error"


def _json_headers(body: bytes, request_id: str) -> Headers:
    return [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"x-request-id", request_id.encode("latin-1", "replace")),
    ]
