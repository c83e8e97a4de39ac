"""The way of a request, in one place:

    decode → plan → fetch the summary the plan asks for → apply → forward → observe

Every request ends in observe, also one that failed, was refused or was abandoned. This module has the only broad
`except` of the house: a bug of ours sends the client's own bytes on, if they fit, and never stops a conversation.
"""

from __future__ import annotations

import asyncio
import re
from urllib.parse import unquote

import msgspec

from trimtab.context.read.history import Reading
from trimtab.errors import (
    ConversationTooLong,
    InvalidRequest,
    Overloaded,
    RequestError,
    TrimtabError,
    UpstreamError,
)
from trimtab.exchange import report
from trimtab.exchange.access import Access, credential
from trimtab.exchange.calls import CHAT, Calls
from trimtab.exchange.compaction import Compaction
from trimtab.exchange.decider import Decider
from trimtab.exchange.incoming import STOPPING, Body, ClientGone, Downstream, Headers, Incoming
from trimtab.exchange.notes import Notes
from trimtab.exchange.relay import Relay, RelaySettings
from trimtab.exchange.shape import Shaping, outgoing, refusal, too_long
from trimtab.exchange.verdict import Verdict
from trimtab.overflow.classify import Overflow
from trimtab.telemetry import NO_TRACING, Outcome, Telemetry
from trimtab.upstream.families import summary_role
from trimtab.upstream.settings import UpstreamSettings
from trimtab.wire import problem
from trimtab.wire.chat import Unreadable
from trimtab.wire.media import JSON_HEADER

PLAN = "/v1/context/plan"
USAGE_FIELDS = (b"stream_options", b"include_usage")  # how a stream is asked for its usage
_SHUTS_DOWN = "is shutting down"


class Gateway:
    """All parts of a running proxy. One per process; `handle` is called for every request under `/v1/`."""

    def __init__(
        self,
        calls: Calls,
        decider: Decider,
        telemetry: Telemetry,
        access: Access,
        compaction: Compaction | None = None,
    ) -> None:
        self._calls, self._decider, self._telemetry = calls, decider, telemetry
        self._access, self._compaction = access, compaction
        self._relaying = RelaySettings(calls.keepalive_s)
        self._explaining = RelaySettings(calls.keepalive_s, explains=True)
        self._after: set[asyncio.Task[bool]] = set()

    async def handle(self, incoming: Incoming, body: Body, downstream: Downstream) -> None:
        """Answer one request. Raises nothing but CancelledError, when the client has gone."""
        post = incoming.method == "POST"
        endpoint = _endpoint(incoming.path)
        kind = "chat" if post and endpoint == CHAT else "plan" if endpoint == PLAN else "passthrough"
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
        except asyncio.CancelledError as cancelled:
            notes.outcome = "abandoned"
            if STOPPING in cancelled.args:
                await self._fail(Overloaded(f"This proxy {_SHUTS_DOWN}."), downstream, notes)
            raise
        except ClientGone:
            # Or its body is framed wrongly, which looks the same from here: then it is there to read this.
            error = InvalidRequest("The request body broke off, or its chunks are not framed as HTTP/1.1 has it.")
            await self._fail(error, downstream, notes)
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
        why = _SHUTS_DOWN if draining else "has as many requests in flight as it takes (max_in_flight)"
        notes = Notes(incoming.request_id, "passthrough")
        await self._fail(Overloaded(f"This proxy {why}. Try again in a second."), downstream, notes)
        self._telemetry.observe(notes.record())

    async def tell_gone(self, incoming: Incoming, downstream: Downstream) -> None:
        """A last word to a client that has left: one that closed its sending half alone is there to read it, and would
        get the server's own 500 otherwise."""
        error = InvalidRequest("The connection was closed on the client's side before the answer was there.")
        await self._fail(error, downstream, Notes(incoming.request_id, "passthrough"))

    # -- chat completions ----------------------------------------------------------------------------------------

    async def _chat(self, incoming: Incoming, body: Body, downstream: Downstream, notes: Notes) -> None:
        with notes.waiting():
            raw = await body.read()
        try:
            reading = self._decider.read(raw, incoming)
        except Unreadable:
            upstream = self._calls.upstream_of(incoming, raw)
            await self._forward_unshaped("unparsed", upstream, incoming, raw, downstream, notes)
            return
        request = reading.request
        upstream = self._calls.route(request.model or None)
        notes.model, notes.stream = request.model, request.stream
        if incoming.flag(b"x-trimtab-bypass"):
            await self._forward_unshaped("bypassed", upstream, incoming, raw, downstream, notes)
            return
        notes.upstream = upstream.name
        shaping = await self._decide(reading, upstream, incoming, notes)
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

    async def _decide(
        self, reading: Reading, upstream: UpstreamSettings, incoming: Incoming, notes: Notes
    ) -> Shaping | None:
        """Plan the request. A bug in planning is logged and gives None: the client's own bytes go on."""
        try:
            return await self._decider.decide(reading, upstream, incoming, notes)
        except TrimtabError:
            raise
        except Exception as bug:  # noqa: BLE001  see the module's rule
            self._telemetry.log.bug(incoming.request_id, bug)
            notes.fail_open = "plan"
            return None

    async def _forward(
        self, upstream: UpstreamSettings, incoming: Incoming, shaping: Shaping, downstream: Downstream, notes: Notes
    ) -> None:
        """Send what was decided. One other try follows where the upstream found it too long, or its body too large;
        not where the client has part of an answer already."""
        notes.outcome = "shaped" if shaping.plan.shaped else "passed"
        verdict = await self._send(upstream, incoming, shaping, notes)
        if verdict.too_many_bytes and (light := self._decider.lighter(shaping)) is not None:
            await verdict.answer.aclose()
            return await self._forward_last(upstream, incoming, light, downstream, notes)
        overflow = await self._answered(verdict, upstream, incoming, shaping, downstream, notes)
        if overflow is None:
            return None
        again = self._decider.again(shaping, upstream, overflow)
        if again is None:
            raise _overflowed(shaping, overflow)
        if notes.relayed:
            raise _interrupted(overflow)
        return await self._forward_last(upstream, incoming, again, downstream, notes)

    async def _forward_last(
        self, upstream: UpstreamSettings, incoming: Incoming, shaping: Shaping, downstream: Downstream, notes: Notes
    ) -> None:
        """The other try: whatever comes of it is the answer."""
        notes.planned(shaping, 0.0)
        notes.outcome = "shaped"
        verdict = await self._send(upstream, incoming, shaping, notes)
        overflow = await self._answered(verdict, upstream, incoming, shaping, downstream, notes)
        self._telemetry.metrics.smaller_try(saved=notes.status < 400 and overflow is None)
        if overflow is not None:
            raise _overflowed(shaping, overflow)

    async def _answered(
        self,
        verdict: Verdict,
        upstream: UpstreamSettings,
        incoming: Incoming,
        shaping: Shaping,
        downstream: Downstream,
        notes: Notes,
    ) -> Overflow | None:
        """Relay an answer and learn from it; or give the overflow it was, which the client has not been told of."""
        if verdict.overflow is not None:
            notes.overflow = True
            await verdict.answer.aclose()
            return verdict.overflow
        overflow = await self._relay(verdict, downstream, notes, shaping, explains=True)
        if overflow is None and notes.status < 400:
            if notes.usage is not None or _tells_usage(shaping, notes):
                self._decider.observe(shaping, upstream, notes.usage.prompt if notes.usage else None)
            self._look_ahead(upstream, incoming, shaping, notes)
        return overflow

    async def _send(self, upstream: UpstreamSettings, incoming: Incoming, shaping: Shaping, notes: Notes) -> Verdict:
        """Fetch the summary the plan asks for, apply the plan, call the upstream. One that refuses to be asked for a
        stream's usage is called as the client would have, and not asked again."""
        summary = await self._summary(shaping, incoming, notes)
        notes.asked_usage = self._decider.asks_usage(upstream, shaping)
        verdict = await self._call(upstream, incoming, shaping, summary, notes)
        if not notes.asked_usage or not verdict.blames(USAGE_FIELDS):
            return verdict
        await verdict.answer.aclose()
        notes.asked_usage = False
        verdict = await self._call(upstream, incoming, shaping, summary, notes)
        if verdict.answer.status < 400:
            self._decider.ask_no_usage(upstream)
        return verdict

    async def _call(
        self, upstream: UpstreamSettings, incoming: Incoming, shaping: Shaping, summary: str | None, notes: Notes
    ) -> Verdict:
        """Apply the plan and call the upstream. A bug in applying is logged, and the client's own bytes go on."""
        role = summary_role(upstream, shaping.request.model)
        try:
            body = outgoing(shaping, summary, role, ask_usage=notes.asked_usage)
        except Exception as bug:  # noqa: BLE001  see the module's rule
            self._telemetry.log.bug(incoming.request_id, bug)
            notes.fail_open, body = "apply", shaping.request.body
        return await self._calls.chat(upstream, incoming, body, notes)

    async def _summary(self, shaping: Shaping, incoming: Incoming, notes: Notes) -> str | None:
        """The text for the gap."""
        if self._compaction is None:
            return None
        with notes.waiting(), notes.span.child("summary"):
            gathered = await self._compaction.gather(shaping, credential(incoming))
        notes.gathered = gathered
        if gathered.result == "none" and shaping.plan.ahead:
            notes.gathered = msgspec.structs.replace(gathered, result="background")
        return gathered.text

    def _look_ahead(self, upstream: UpstreamSettings, incoming: Incoming, shaping: Shaping, notes: Notes) -> None:
        """Have the next summary made where the conversation nears its budget: it is needed some requests from now, and
        nobody waits for it. Begun after the answer, so that it does not compete with it, and finds what was sent in
        the provider's prefix cache."""
        if self._compaction is None or not shaping.plan.ahead:
            return
        role = summary_role(upstream, shaping.request.model)
        preparing = self._compaction.prepare(shaping, credential(incoming), notes.gathered.text, role)
        task = asyncio.create_task(preparing)
        self._after.add(task)
        task.add_done_callback(self._after.discard)

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

    async def _relay(
        self,
        verdict: Verdict,
        downstream: Downstream,
        notes: Notes,
        shaping: Shaping | None,
        *,
        explains: bool = False,
    ) -> Overflow | None:
        settings = self._explaining if explains else self._relaying
        try:
            return await Relay(verdict, downstream, notes, shaping, settings).run()
        finally:
            await verdict.answer.aclose()

    # -- everything else -----------------------------------------------------------------------------------------

    async def _plan(self, incoming: Incoming, body: Body, downstream: Downstream, notes: Notes) -> None:
        """`POST /v1/context/plan`: say what would be done and call no one."""
        raw = await body.read()
        try:
            reading = self._decider.read(raw, incoming)
        except Unreadable as error:
            raise InvalidRequest(f"This request cannot be planned: it is {error}.") from error
        request = reading.request
        upstream = self._calls.route(request.model or None)
        notes.model, notes.upstream = request.model, upstream.name
        shaping = await self._decide(reading, upstream, incoming, notes)
        if shaping is None:
            raise UpstreamError("This request could not be planned; the log has the place.")
        notes.outcome = "planned"
        cached = await self._compaction.stored(shaping, credential(incoming)) if self._compaction else False
        await self._reply(200, msgspec.json.encode(report.explained(shaping, cached)), downstream, notes)

    async def _passthrough(self, incoming: Incoming, body: Body, downstream: Downstream, notes: Notes) -> None:
        notes.outcome = "passed"
        if (listing := await self._calls.listing(incoming)) is not None:
            await self._reply(200, listing, downstream, notes)
            return
        await self._relay(await self._calls.passthrough(incoming, body, notes), downstream, notes, None)

    async def _reply(self, status: int, body: bytes, downstream: Downstream, notes: Notes) -> None:
        notes.status = status
        await downstream.start(status, _json_headers(body, notes.request_id))
        await downstream.end(body)

    async def _fail(self, error: TrimtabError, downstream: Downstream, notes: Notes) -> None:
        """An error of the tree, as an envelope; as an event of the stream once that has begun. Any other answer that
        has begun is left without its end: the server then breaks the connection, and no one takes half for whole."""
        notes.outcome = _outcome_of(error)
        notes.error_code = error.code or error.type
        if downstream.started:
            if notes.stream:
                await downstream.end(problem.sse_event(error))
            return
        notes.status = error.status
        body = problem.envelope(error, notes.request_id)
        await downstream.start(error.status, [*problem.headers(error), *_json_headers(body, notes.request_id)[1:]])
        await downstream.end(body)


def _endpoint(path: str) -> str:
    """A path in its plain spelling. Most servers take the others for the same, so they are managed like it."""
    return path if path == CHAT else re.sub("/+", "/", unquote(path)).rstrip("/")


def _tells_usage(shaping: Shaping, notes: Notes) -> bool:
    """Whether the answer should have stated its usage: a stream does so only when it is asked."""
    return not shaping.request.stream or shaping.request.include_usage or notes.asked_usage


def _overflowed(shaping: Shaping, overflow: Overflow) -> ConversationTooLong:
    return too_long(shaping, reported=overflow.actual, upstream_limit=overflow.limit, upstream=overflow.message)


def _interrupted(overflow: Overflow) -> ConversationTooLong:
    return ConversationTooLong(
        "The upstream found this conversation too long for the model when its answer had already begun. "
        "Send it again: it will be shortened to what was learned from that.",
        param="messages",
        detail={"upstream": overflow.message},
    )


def _outcome_of(error: TrimtabError) -> Outcome:
    if isinstance(error, ConversationTooLong):
        return "refused"
    if isinstance(error, Overloaded):
        return "overloaded"
    return "client_error" if isinstance(error, RequestError) else "upstream_error"


def _json_headers(body: bytes, request_id: str) -> Headers:
    return [
        JSON_HEADER,
        (b"content-length", str(len(body)).encode()),
        (b"x-request-id", request_id.encode("latin-1", "replace")),
    ]
