"""The way of a request, in one place:

    decode → plan → fetch the summary the plan asks for → apply → forward → observe

Every request ends in observe, also one that failed, was refused or was abandoned. This module has the only broad
`except` of the house: a bug of ours sends the client's own bytes on, if they fit, and never stops a conversation.
"""

from __future__ import annotations

import asyncio
from time import perf_counter

import msgspec

from proxy.context.plan import history
from proxy.context.views import Memo
from proxy.errors import (
    ConversationTooLong,
    InvalidRequest,
    Overloaded,
    RequestError,
    TrimtabError,
    UpstreamError,
)
from proxy.exchange import report
from proxy.exchange.access import Access, credential
from proxy.exchange.anchors import UNKNOWN, Anchors, as_it_is, factor_of, near
from proxy.exchange.calls import CHAT, Calls
from proxy.exchange.compaction import Compaction
from proxy.exchange.incoming import Body, ClientGone, Downstream, Headers, Incoming
from proxy.exchange.notes import Notes
from proxy.exchange.policies import Policies, is_ours, managed
from proxy.exchange.relay import Relay, Verdict
from proxy.exchange.shape import Shaping, decide, outgoing, refusal, too_long
from proxy.exchange.smaller import Learned, smaller
from proxy.limits import Limits
from proxy.telemetry import NO_TRACING, Outcome, Telemetry
from proxy.upstream.overflow import Overflow
from proxy.upstream.roles import summary_role
from proxy.upstream.settings import UpstreamSettings
from proxy.wire import problem
from proxy.wire.chat import ChatRequest, Unreadable, decode

PLAN = "/v1/context/plan"


class Gateway:
    """All parts of a running proxy. One per process; `handle` is called for every request under `/v1/`."""

    def __init__(
        self,
        calls: Calls,
        limits: Limits,
        policies: Policies,
        telemetry: Telemetry,
        access: Access,
        compaction: Compaction | None = None,
    ) -> None:
        self._calls, self._limits, self._policies = calls, limits, policies
        self._telemetry, self._access, self._compaction = telemetry, access, compaction
        self._memo = Memo()
        self._anchors = Anchors()
        self._after: set[asyncio.Task[bool]] = set()

    async def handle(self, incoming: Incoming, body: Body, downstream: Downstream) -> None:
        """Answer one request. Raises nothing but CancelledError, when the client has gone."""
        post = incoming.method == "POST"
        kind = "chat" if post and incoming.path == CHAT else "plan" if incoming.path == PLAN else "passthrough"
        notes = Notes(incoming.request_id, kind)  # type: ignore[arg-type]
        way = {"chat": self._chat, "plan": self._plan, "passthrough": self._passthrough}[kind]
        if self._telemetry.trace is not NO_TRACING:
            notes.span = self._telemetry.trace.start(
                {k.decode("latin-1"): v.decode("latin-1") for k, v in incoming.headers}
            )
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
            self._telemetry.observe(notes.record(), notes.span)

    async def turn_away(self, incoming: Incoming, downstream: Downstream, draining: bool) -> None:
        """Answer a request there is no room for."""
        why = "is shutting down" if draining else "has as many requests in flight as it takes (max_in_flight)"
        notes = Notes(incoming.request_id, "passthrough")
        await self._fail(Overloaded(f"This proxy {why}. Try again in a second."), downstream, notes)
        self._telemetry.observe(notes.record())

    # -- chat completions ----------------------------------------------------------------------------------------

    async def _chat(self, incoming: Incoming, body: Body, downstream: Downstream, notes: Notes) -> None:
        with notes.waiting():
            raw = await body.read()
        try:
            request = decode(raw)
        except Unreadable:
            await self._forward_unshaped("unparsed", self._calls.route(None), incoming, raw, downstream, notes)
            return
        upstream = self._calls.route(request.model)
        notes.model, notes.stream = request.model, request.stream
        if incoming.flag(b"x-trimtab-bypass"):
            await self._forward_unshaped("bypassed", upstream, incoming, raw, downstream, notes)
            return
        shaping = await self._shape(request, upstream, incoming, notes)
        if shaping is None:
            await self._forward_unshaped("passed", upstream, incoming, raw, downstream, notes)
        elif incoming.flag(b"x-trimtab-observe") or shaping.policy.shaping.mode == "observe":
            notes.outcome = "observed"
            verdict = await self._calls.chat(upstream, incoming, raw, notes)
            await self._relay(verdict, downstream, notes, shaping)
        elif error := refusal(shaping):
            raise error
        else:
            await self._forward(upstream, incoming, shaping, downstream, notes)

    async def _shape(
        self, request: ChatRequest, upstream: UpstreamSettings, incoming: Incoming, notes: Notes
    ) -> Shaping | None:
        """Plan the request. A bug in planning is logged and gives None: the client's own bytes go on."""
        notes.upstream = upstream.name
        strict = summary_role(upstream, request.model) == "user"
        profile, hint = incoming.header(b"x-trimtab-profile"), incoming.header(b"x-trimtab-hint")
        chosen = self._policies.choose(profile, hint, request.has_tools, strict)
        notes.profile, notes.hint = chosen.profile, chosen.hint
        policy = chosen.policy
        if is_ours(request.context_management):
            assert request.context_management is not None
            policy = managed(policy, request.context_management)
        with notes.waiting():
            ask = self._calls.fetching(credential(incoming))
            limit = await self._limits.limit_of(upstream.name, request.model, ask)
        factor = self._limits.factor(upstream.name, request.model)
        began = perf_counter()
        try:
            with notes.span.child("plan"):
                conversation = history(request.messages, request.extras, self._memo)
                found = UNKNOWN
                if near(conversation, factor, limit.context_size // 2):
                    found = self._anchors.find(upstream.name, request.model, conversation)
                    factor = factor_of(found, factor)
                shaping = decide(request, conversation, policy, limit, factor, self._memo, cap=chosen.budget)
                shaping = as_it_is(shaping, found)
        except Exception as bug:  # noqa: BLE001  see the module's rule
            self._telemetry.log.bug(incoming.request_id, bug)
            notes.fail_open = "plan"
            return None
        notes.planned(shaping, perf_counter() - began)
        return shaping

    async def _forward(
        self, upstream: UpstreamSettings, incoming: Incoming, shaping: Shaping, downstream: Downstream, notes: Notes
    ) -> None:
        """Send what was decided; on an overflow once more, smaller; relay the answer; then look ahead."""
        notes.outcome = "shaped" if shaping.plan.shaped else "passed"
        verdict = await self._send(upstream, incoming, shaping, notes)
        if verdict.overflow is not None:
            notes.overflow = True
            await verdict.answer.aclose()
            again = smaller(shaping, verdict.overflow, self._learned(upstream, shaping, verdict.overflow), self._memo)
            if again is None:
                raise _overflowed(shaping, verdict.overflow)
            notes.planned(again, 0.0)
            notes.outcome, shaping = "shaped", again
            verdict = await self._send(upstream, incoming, shaping, notes)
            if verdict.overflow is not None:
                await verdict.answer.aclose()
                raise _overflowed(shaping, verdict.overflow)
        await self._relay(verdict, downstream, notes, shaping)
        self._observe(upstream, shaping, notes)

    async def _send(self, upstream: UpstreamSettings, incoming: Incoming, shaping: Shaping, notes: Notes) -> Verdict:
        """Fetch the summary the plan asks for, apply the plan, call the upstream."""
        summary = await self._summary(shaping, incoming, notes)
        request = shaping.request
        notes.asked_usage = (
            request.stream
            and not request.usage_asked
            and self._limits.asks_usage(upstream.name, request.model, shaping.plan.sent)
        )
        body = outgoing(
            shaping,
            summary,
            summary_role(upstream, request.model),
            ask_usage=notes.asked_usage,
            ours=is_ours(request.context_management),
        )
        return await self._calls.chat(upstream, incoming, body, notes)

    async def _summary(self, shaping: Shaping, incoming: Incoming, notes: Notes) -> str | None:
        """The text for the gap, and the start of the next summary's making where the conversation nears its
        budget: that one is needed some requests from now, and nobody waits for it."""
        if self._compaction is None:
            return None
        tenant = credential(incoming)
        with notes.waiting(), notes.span.child("summary"):
            gathered = await self._compaction.gather(shaping, tenant)
        if shaping.plan.ahead:
            task = asyncio.create_task(self._compaction.prepare(shaping, tenant))
            self._after.add(task)
            task.add_done_callback(self._after.discard)
        notes.gathered = gathered
        if gathered.result == "none" and shaping.plan.ahead:
            notes.gathered = msgspec.structs.replace(gathered, result="background")
        return gathered.text

    def _learned(self, upstream: UpstreamSettings, shaping: Shaping, overflow: Overflow) -> Learned:
        """What is known of the model after what an overflow said of it."""
        name, model = upstream.name, shaping.request.model
        if overflow.calibrates is not None:
            self._limits.observe(name, model, shaping.plan.sent, overflow.calibrates, accepted=False)
            self._anchors.remember(name, shaping, overflow.calibrates)
        if overflow.limit is not None:
            self._limits.learn(name, model, overflow.limit)
        return Learned(self._limits.known(name, model), self._limits.factor(name, model))

    def _observe(self, upstream: UpstreamSettings, shaping: Shaping, notes: Notes) -> None:
        """Learn from the usage of the answer."""
        if notes.usage is None:
            return
        self._limits.observe(upstream.name, shaping.request.model, shaping.plan.sent, notes.usage.prompt)
        self._anchors.remember(upstream.name, shaping, notes.usage.prompt)

    async def _forward_unshaped(
        self,
        outcome: Outcome,
        upstream: UpstreamSettings,
        incoming: Incoming,
        raw: bytes,
        downstream: Downstream,
        notes: Notes,
    ) -> None:
        notes.outcome, notes.upstream = outcome, upstream.name
        await self._relay(await self._calls.chat(upstream, incoming, raw, notes), downstream, notes, None)

    async def _relay(self, verdict: Verdict, downstream: Downstream, notes: Notes, shaping: Shaping | None) -> None:
        try:
            await Relay(verdict, downstream, notes, shaping).run()
        finally:
            await verdict.answer.aclose()

    # -- everything else -----------------------------------------------------------------------------------------

    async def _plan(self, incoming: Incoming, body: Body, downstream: Downstream, notes: Notes) -> None:
        """`POST /v1/context/plan`: say what would be done and call no one."""
        raw = await body.read()
        try:
            request = decode(raw)
        except Unreadable as error:
            raise InvalidRequest(f"This request cannot be planned: it is {error}.") from error
        upstream = self._calls.route(request.model)
        notes.model = request.model
        shaping = await self._shape(request, upstream, incoming, notes)
        if shaping is None:
            raise UpstreamError("This request could not be planned; the log has the place.")
        notes.outcome = "planned"
        cached = await self._compaction.stored(shaping, credential(incoming)) if self._compaction else False
        await self._reply(200, msgspec.json.encode(report.explained(shaping, cached)), downstream, notes)

    async def _passthrough(self, incoming: Incoming, body: Body, downstream: Downstream, notes: Notes) -> None:
        notes.outcome = "passed"
        await self._relay(await self._calls.passthrough(incoming, body, notes), downstream, notes, None)

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


def _overflowed(shaping: Shaping, overflow: Overflow) -> ConversationTooLong:
    return too_long(shaping, reported=overflow.actual, upstream_limit=overflow.limit, upstream=overflow.message)


def _outcome_of(error: TrimtabError) -> Outcome:
    if isinstance(error, ConversationTooLong):
        return "refused"
    if isinstance(error, Overloaded):
        return "overloaded"
    return "client_error" if isinstance(error, RequestError) else "upstream_error"


def _json_headers(body: bytes, request_id: str) -> Headers:
    return [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"x-request-id", request_id.encode("latin-1", "replace")),
    ]
