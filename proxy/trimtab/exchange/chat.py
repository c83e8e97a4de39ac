"""One chat completion, from its body to what is learned of its answer. `ChatExchange.run` reads as its way:

    decode → decide → summary → apply → forward → learn

A bug of ours in deciding or applying never stops a conversation: it is logged, and the client's own bytes go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from trimtab.context.read.history import Reading
from trimtab.dialects.dialect import Dialect
from trimtab.dialects.paths import recognized
from trimtab.errors import InvalidRequest, TrimtabError, UpstreamError
from trimtab.exchange.access import credential, tenant
from trimtab.exchange.begun import not_the_stream, waiting
from trimtab.exchange.calls import Calls
from trimtab.exchange.decide import Decider, Shaping, caller_of, untouched
from trimtab.exchange.explain import ContextPlan, explain
from trimtab.exchange.incoming import Body, Bounds, Downstream, Incoming
from trimtab.exchange.notes import Notes, Relayed
from trimtab.exchange.offload import LIGHT_KNOWN, LIGHT_MESSAGES, LIGHT_NEW, planned_beside
from trimtab.exchange.outgoing import outgoing, unread_without_marks, without_marks
from trimtab.exchange.passthrough import upstream_of
from trimtab.exchange.policies import is_ours
from trimtab.exchange.refusals import interrupted, refusal, still_too_long
from trimtab.exchange.relay import RelayOptions, relay
from trimtab.exchange.report import NO_SUMMARY, Gathered, Report
from trimtab.exchange.second_try import lighter, smaller, unbound
from trimtab.exchange.summary_call import Compaction, settled
from trimtab.exchange.verdict import Verdict
from trimtab.limits import Caller
from trimtab.overflow.classify import Overflow
from trimtab.summaries.chain import Spent
from trimtab.telemetry import Outcome, Telemetry
from trimtab.upstream.families import summary_role
from trimtab.upstream.settings import UpstreamSettings
from trimtab.wire.request import Unmanaged, Unreadable


class Services(msgspec.Struct, frozen=True):
    """What all exchanges of a process share. No `compaction`: dropped messages are not summarized."""

    calls: Calls
    decider: Decider
    telemetry: Telemetry
    compaction: Compaction | None = None
    bounds: Bounds = Bounds()


class ChatExchange:
    """One request of a client, and everything that is known of it so far."""

    _reading: Reading
    _upstream: UpstreamSettings
    _decided: Shaping  # as planned
    _shaping: Shaping  # as carried out: where a summary failed, messages were dropped
    _down: Downstream
    _caller: Caller

    def __init__(self, services: Services, incoming: Incoming, notes: Notes) -> None:
        self._dialect = notes.speaks
        self._calls, self._decider = services.calls, services.decider
        self._telemetry, self._compaction = services.telemetry, services.compaction
        self._bounds = services.bounds
        self._incoming, self._notes = incoming, notes
        self._credential, self._tenant = credential(incoming), tenant(incoming)
        self._gathered = NO_SUMMARY
        self._explain = incoming.flag(b"x-trimtab-explain")
        self._include_usage = False  # set on the stream by us, not by the client
        self._begun = False  # the client has bytes of a stream

    async def run(self, body: Body, downstream: Downstream) -> None:
        """Answer the request. Raises the TrimtabError that the client gets."""
        self._down = downstream
        with self._notes.waiting():
            raw = await body.read()
        try:
            await self._decode(raw)
        except Unreadable as why:
            self._upstream = upstream_of(self._calls, self._incoming, raw)
            raw = await planned_beside(len(raw) > LIGHT_KNOWN, unread_without_marks, raw, self._dialect)
            if isinstance(why, Unmanaged):
                return await self._forward_untouched("unmanaged", raw, unmanaged=why.reason)
            return await self._forward_untouched("unparsed", raw)
        self._notes.stream = self._reading.request.stream
        if self._incoming.flag(b"x-trimtab-bypass"):
            return await self._forward_untouched("bypassed", self._without_marks())
        if not await self._decide():
            return await self._forward_untouched("passed", self._without_marks())
        if self._incoming.flag(b"x-trimtab-observe") or self._shaping.policy.shaping.mode == "observe":
            report = Report(self._shaping, self._notes.edits)
            return await self._forward_untouched("observed", self._without_marks(), report)
        if error := refusal(self._shaping):
            raise error
        return await self._forward()

    async def plan(self, body: Body) -> ContextPlan:
        """What would be done with the request; no model is called. Raises TrimtabError."""
        raw = await body.read()
        self._dialect = await planned_beside(len(raw) > LIGHT_KNOWN, self._recognized, raw)
        try:
            await self._decode(raw)
        except Unreadable as error:
            raise InvalidRequest(f"This request cannot be planned: it is {error}.") from error
        if not await self._decide():
            raise UpstreamError("This request could not be planned: a bug in this proxy, which its log describes.")
        self._notes.outcome, self._notes.status = "planned", 200
        cached = False
        if self._compaction is not None:
            cached = await self._compaction.stored(self._shaping, self._credential, self._tenant)
        return await planned_beside(self._heavy, explain, self._shaping, cached=cached)

    # -- decode and decide ---------------------------------------------------------------------------------------

    async def _decode(self, raw: bytes) -> None:
        """Read the request and find its upstream. Raises InvalidRequest for a body that is not JSON, BodyTooLarge,
        Unreadable for one that only this reader cannot follow, UnknownModel."""
        self._reading = await planned_beside(len(raw) > LIGHT_KNOWN, self._read, raw)
        model = self._reading.request.model
        self._caller = caller_of(self._tenant, self._reading.request)
        self._upstream = self._calls.route(model or None)
        self._notes.model, self._notes.upstream = model, self._upstream.name

    def _recognized(self, raw: bytes) -> Dialect:
        self._bounds.check_values(raw)
        return recognized(raw)

    def _read(self, raw: bytes) -> Reading:
        reading = self._decider.read(raw, self._tenant, self._dialect, self._bounds.check_values)
        self._bounds.check_messages(len(reading.request.messages))
        return reading

    @property
    def _heavy(self) -> bool:
        """True when planning the request, or writing its body, takes more than a few milliseconds."""
        request = self._reading.request
        return len(request.body) > LIGHT_KNOWN or len(request.messages) > LIGHT_MESSAGES

    async def _decide(self) -> bool:
        """Plan the request; False after a bug of ours. Raises InvalidRequest for an unknown profile or hint, or a
        `context_management` that cannot be read."""
        try:
            self._shaping = await self._planned()
        except TrimtabError:
            raise
        except Exception as bug:  # noqa: BLE001  see the module's rule
            self._fail_open("plan", bug)
            return False
        return True

    async def _planned(self) -> Shaping:
        """Waits at most once for an upstream's limits, shortly."""
        request, upstream, notes = self._reading.request, self._upstream, self._notes
        chosen = self._decider.choose(request, upstream, self._incoming)
        notes.profile, notes.hint = chosen.profile, chosen.hint
        with notes.waiting():
            fetch = self._calls.fetching(self._credential)
            limit = await self._decider.limits.limit_of(upstream.name, request.model, fetch, self._caller)
        began = notes.clock()
        with notes.span.child("plan"):
            heavy = self._heavy or self._reading.new > LIGHT_NEW
            known = (self._reading, upstream, chosen, limit, self._dialect, self._caller)
            shaping = await planned_beside(heavy, self._decider.decide, *known)
        await planned_beside(heavy, notes.planned, shaping, notes.clock() - began)
        return shaping

    def _fail_open(self, part: Literal["plan", "apply"], bug: Exception) -> None:
        self._telemetry.log.bug(self._incoming.request_id, bug)
        self._notes.fail_open = part

    # -- forward -------------------------------------------------------------------------------------------------

    def _without_marks(self) -> bytes:
        """The body of a request that is not shaped."""
        return without_marks(self._reading.request, self._dialect)

    async def _forward_untouched(
        self, outcome: Outcome, raw: bytes, report: Report | None = None, unmanaged: str = ""
    ) -> None:
        """Send the request as it came: nothing of it is shaped."""
        self._notes.outcome, self._notes.upstream = outcome, self._upstream.name
        verdict = await self._calls.chat(self._upstream, self._incoming, raw, self._notes)
        options = RelayOptions(report, keepalive_s=self._calls.keepalive_s, unmanaged=unmanaged)
        await relay(verdict, self._down, self._notes, options)

    async def _forward(self) -> None:
        """Send what was decided. One second try follows where the upstream found it too long, or its body too large;
        not where the client has part of an answer already."""
        self._decided = self._shaping
        self._notes.outcome = "shaped" if self._shaping.plan.shaped else "passed"
        verdict = await self._send()
        if verdict.blames(self._dialect.binding) and (loose := unbound(self._shaping)) is not None:
            await verdict.answer.aclose()
            self._decider.learn_binding(self._upstream, self._shaping)
            return await self._forward_again(loose)
        if verdict.too_many_bytes and (light := await self._again(lighter, self._decided)) is not None:
            await verdict.answer.aclose()
            return await self._forward_again(light)
        overflow = await self._answer(verdict)
        if overflow is None:
            return None
        believed = overflow.as_believed
        learned = self._decider.observe_overflow(self._shaping, self._upstream, believed, self._caller)
        small = await self._again(smaller, self._decided, believed, learned)
        if small is None:
            raise still_too_long(self._shaping, overflow)
        if self._begun:
            raise interrupted(self._shaping, overflow)
        refused, speaks = self._shaping, bool(overflow.message)
        if speaks:
            self._decider.observe_smaller(refused, small, self._upstream, believed, self._caller)
        await self._forward_again(small)
        if not speaks and self._notes.status < 400:
            self._decider.observe_smaller(refused, small, self._upstream, believed, self._caller)
        return None

    async def _again(self, decide: Callable[..., Shaping | None], *known: object) -> Shaping | None:
        """Another decision about the same request, with what is `known` now."""
        return await planned_beside(self._heavy, decide, *known, self._decider.memo(self._dialect))

    async def _forward_again(self, shaping: Shaping) -> None:
        """The second try: its answer stands."""
        self._decided = self._shaping = shaping
        self._notes.planned(shaping, 0.0)
        self._notes.outcome = "shaped"
        overflow = await self._answer(await self._send())
        self._telemetry.metrics.smaller_try(saved=self._notes.status < 400 and overflow is None)
        if overflow is not None:
            believed = overflow.as_believed
            learned = self._decider.observe_overflow(shaping, self._upstream, believed, self._caller)
            next_try = smaller(shaping, believed, learned, self._decider.memo(self._dialect))
            if next_try is not None and overflow.message:
                self._decider.observe_smaller(shaping, next_try, self._upstream, believed, self._caller)
            raise still_too_long(shaping, overflow)

    async def _send(self) -> Verdict:
        """Fetch the summary the plan asks for, apply the plan, call the upstream. The client of a stream that waits for
        the summary gets comments, from then on until the upstream answers."""
        awaited = self._compaction is not None and bool(self._decided.plan.summary)
        every_s = self._calls.keepalive_s if self._notes.stream and (awaited or self._down.started) else 0.0
        pulse = waiting(self._down, every_s, self._incoming.request_id)
        try:
            if self._compaction is not None:
                self._gathered = await self._summary(self._compaction)
            if not self._down.started:
                await pulse.stop()  # a stream that has not begun waits for the upstream's own status
            return await self._call_with_usage()
        finally:
            await pulse.stop()

    async def _call_with_usage(self) -> Verdict:
        """Call the upstream. One that refuses `include_usage` is called as the client would have called it, and never
        gets it again."""
        self._include_usage = self._decider.include_usage(self._upstream, self._shaping, self._caller)
        verdict = await self._call()
        asked = self._decider.usage_asked
        if not self._include_usage or not asked.is_to_blame(self._upstream.name, verdict):
            return verdict
        await verdict.answer.aclose()
        self._include_usage = False
        verdict = await self._call()
        if verdict.answer.status < 400 and not verdict.empty:
            asked.learn(self._upstream.name, was_set=False, again=True)
        return verdict

    async def _summary(self, compaction: Compaction) -> Gathered:
        """The text for the gap."""
        notes = self._notes
        with notes.waiting(), notes.span.child("summary"):
            gathered = await compaction.gather(self._decided, self._credential, self._tenant)
        if gathered.result == "none" and self._decided.plan.ahead:
            spent = await compaction.spent(self._decided, self._credential, self._tenant) if self._explain else Spent()
            gathered = msgspec.structs.replace(gathered, result="background", spent=spent)
        notes.gathered = gathered
        if self._decided.plan.summary:
            self._shaping = settled(self._decided, gathered)
            notes.planned(self._shaping, 0.0)
        return gathered

    async def _call(self) -> Verdict:
        """Apply the plan and call the upstream."""
        shaping = self._shaping
        role = summary_role(self._upstream, shaping.request.model)
        try:
            usage = self._include_usage
            body = await planned_beside(self._heavy, outgoing, shaping, self._gathered.text, role, include_usage=usage)
        except Exception as bug:  # noqa: BLE001  see the module's rule
            self._fail_open("apply", bug)
            body = self._without_marks()
            shaping = self._shaping = msgspec.structs.replace(shaping, plan=untouched(shaping.plan), max_tokens=None)
            self._notes.planned(shaping, 0.0)
            self._notes.outcome = "passed"
        return await self._calls.chat(self._upstream, self._incoming, body, self._notes, shaping.as_sent(body))

    # -- answer and learn ----------------------------------------------------------------------------------------

    async def _answer(self, verdict: Verdict) -> Overflow | None:
        """Relay an answer and learn from it; or return the overflow it was, of which the client has nothing yet.
        Raises UpstreamError where the client has the headers of a stream already and this is not one."""
        if verdict.overflow is not None:
            self._notes.overflow = True
            await verdict.answer.aclose()
            return verdict.overflow
        if self._down.started and (not verdict.stream or verdict.encoding):
            await verdict.answer.aclose()
            raise not_the_stream(verdict)
        relayed = await relay(verdict, self._down, self._notes, self._options())
        self._begun = relayed.begun
        if relayed.withheld is None and relayed.status < 400:
            self._learn(relayed)
        return relayed.withheld

    def _options(self) -> RelayOptions:
        report = Report(self._shaping, self._notes.edits, self._gathered)
        ours = is_ours(self._shaping.request.context_management)
        return RelayOptions(
            report,
            adds=report.fields(managed=ours, explain=self._explain),
            include_usage=self._include_usage,
            withhold_overflow=True,
            keepalive_s=self._calls.keepalive_s,
        )

    def _learn(self, relayed: Relayed) -> None:
        """Learn from the usage of an answer, or from its absence where it was due; begin the next summary."""
        usage, request = relayed.usage, self._shaping.request
        if request.stream and relayed.stream and not request.include_usage and relayed.failure is None:
            reported, was_set = usage is not None, self._include_usage
            self._decider.usage_asked.learn(self._upstream.name, was_set=was_set, reported=reported)
        if usage is not None or not request.stream or request.include_usage or self._include_usage:
            self._decider.observe(self._shaping, self._upstream, usage.prompt if usage else None, self._caller)
        if self._compaction is not None:
            role = summary_role(self._upstream, request.model)
            self._compaction.look_ahead(self._shaping, self._credential, self._tenant, self._gathered.text, role)
