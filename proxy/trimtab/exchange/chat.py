"""One chat completion, from its body to what is learned of its answer. `ChatExchange.run` reads as its way:

    decode → decide → summary → apply → forward → learn

A bug of ours in applying never stops a conversation: it is logged, and the client's own bytes go on.
"""

from __future__ import annotations

from collections.abc import Awaitable

import msgspec

from trimtab.conversations.elsewhere import Elsewhere
from trimtab.conversations.turns import Turn
from trimtab.errors import UpstreamUnreachable
from trimtab.exchange.access import carried, credential
from trimtab.exchange.begun import not_the_stream, waiting
from trimtab.exchange.decide import Shaping, untouched
from trimtab.exchange.incoming import Body, Downstream, Incoming
from trimtab.exchange.notes import Notes, Relayed
from trimtab.exchange.offload import LIGHT_KNOWN, REQUESTS, beside, planned_beside
from trimtab.exchange.outgoing import outgoing, unread_without_marks
from trimtab.exchange.passthrough import asks_for_stream, upstream_of
from trimtab.exchange.planning import Planning, Services
from trimtab.exchange.refusals import interrupted, refusal, still_too_long
from trimtab.exchange.relay import RelayOptions, relay
from trimtab.exchange.report import NO_SUMMARY, Gathered, Report
from trimtab.exchange.second_try import lighter, smaller, unbound
from trimtab.exchange.stored import shown
from trimtab.exchange.summary_call import Compaction, settled
from trimtab.exchange.verdict import Verdict
from trimtab.limits import Caller
from trimtab.overflow.classify import Overflow
from trimtab.summaries.chain import Spent
from trimtab.telemetry import Outcome
from trimtab.upstream.families import summary_role
from trimtab.upstream.settings import UpstreamSettings
from trimtab.wire.request import Unmanaged, Unreadable


class ChatExchange:
    """One request of a client, and everything that is known of it so far."""

    _upstream: UpstreamSettings
    _decided: Shaping  # as planned
    _shaping: Shaping  # as carried out: where a summary failed, messages were dropped
    _down: Downstream
    _caller: Caller

    def __init__(self, services: Services, incoming: Incoming, notes: Notes) -> None:
        self._planning = planning = Planning(services, incoming, notes)
        self._dialect, self._tenant = planning.dialect, planning.tenant
        self._calls, self._decider = services.calls, services.decider
        self._telemetry, self._compaction = services.telemetry, services.compaction
        self._stores = services.conversations is not None
        self._incoming, self._notes = incoming, notes
        self._gathered = NO_SUMMARY
        self._explain = incoming.asks.explain
        self._include_usage = False  # set on the stream by us, not by the client
        self._begun = False  # the client has bytes of a stream

    async def run(self, body: Body, downstream: Downstream) -> None:
        """Answer the request. Raises the TrimtabError that the client gets."""
        self._down = downstream
        began = self._notes.clock()
        try:
            raw = await body.read()
        finally:
            self._notes.waited += self._notes.clock() - began
        try:
            way = await self._way(await self._planning.whole_history(raw, body) if self._stores else raw)
            await way
        finally:
            if self._planning.turn is not None:
                await self._planning.turn.release()

    async def _way(self, raw: bytes) -> Awaitable[None]:
        """Decide what is to be done with the request; returns what does it."""
        try:
            await self._planning.decode(raw)
        except Unreadable as why:
            self._upstream = upstream_of(self._calls, self._incoming, raw)
            heavy = len(raw) > LIGHT_KNOWN
            self._notes.stream = await planned_beside(heavy, asks_for_stream, raw)
            raw = await planned_beside(heavy, unread_without_marks, raw, self._dialect)
            if isinstance(why, Unmanaged):
                self._notes.model = why.model
                return self._forward_untouched("unmanaged", raw, unmanaged=why.reason)
            return self._forward_untouched("unparsed", raw)
        self._upstream, self._caller = self._planning.upstream, self._planning.caller
        self._notes.stream = self._planning.reading.request.stream
        if self._incoming.asks.bypass:
            return self._forward_untouched("bypassed", self._planning.without_marks())
        if not await self._planning.decide():
            return self._forward_untouched("passed", self._planning.without_marks())
        self._shaping = self._planning.shaping
        if self._planning.observes:
            report = Report(self._shaping, self._notes.edits)
            return self._forward_untouched("observed", self._planning.without_marks(), report)
        if not self._shaping.plan.fits and (error := refusal(self._shaping)):
            raise error
        return self._forward()

    # -- forward -------------------------------------------------------------------------------------------------

    async def _forward_untouched(
        self, outcome: Outcome, raw: bytes, report: Report | None = None, unmanaged: str = ""
    ) -> None:
        """Send the request as it came: nothing of it is shaped."""
        self._notes.outcome, self._notes.upstream, self._notes.as_received = outcome, self._upstream.name, True
        verdict = await self._calls.chat(self._upstream, self._incoming, raw, self._notes)
        adds = report.fields(obeyed=False, explain=self._explain) if report is not None else {}
        every_s, kept = self._calls.keepalive_s, self._kept()
        options = RelayOptions(report, adds, keepalive_s=every_s, unmanaged=unmanaged, turn=kept)
        await relay(verdict, self._down, self._notes, options)

    async def _forward(self) -> None:
        """Send what was decided. One second try follows where the upstream found it too long, or its body too large;
        not where the client has part of an answer already."""
        self._decided = self._shaping
        self._notes.outcome = "shaped" if self._shaping.plan.shaped else "passed"
        verdict, binding = await self._send(), self._dialect.binding
        if binding and verdict.blames(binding) and (loose := unbound(self._shaping)) is not None:
            await verdict.answer.aclose()
            self._decider.learn_binding(self._upstream, self._shaping)
            return await self._forward_again(loose)
        if verdict.too_many_bytes and (light := await self._planning.again(lighter, self._decided)) is not None:
            await verdict.answer.aclose()
            return await self._forward_again(light)
        overflow = await self._answer(verdict)
        if overflow is None:
            return None
        believed = overflow.as_believed
        learned = self._decider.observe_overflow(self._shaping, self._upstream, believed, self._caller)
        small = await self._planning.again(smaller, self._decided, believed, learned)
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

    def _send(self) -> Awaitable[Verdict]:
        """Fetch the summary the plan asks for, apply the plan, call the upstream."""
        alone = self._compaction is None and not self._down.started
        return self._call_with_usage() if alone else self._send_with_comments(self._compaction)

    async def _send_with_comments(self, compaction: Compaction | None) -> Verdict:
        """The client of a stream that waits for the summary gets comments, from then on until the upstream answers."""
        awaited = compaction is not None and bool(self._decided.plan.summary)
        every_s = self._calls.keepalive_s if self._notes.stream and (awaited or self._down.started) else 0.0
        pulse = waiting(self._down, every_s, self._incoming.request_id)
        try:
            if compaction is not None:
                self._gathered = await self._summary(compaction)
            if not self._down.started:
                await pulse.stop()  # a stream that has not begun waits for the upstream's own status
            return await self._call_with_usage()
        finally:
            await pulse.stop()

    def _call_with_usage(self) -> Awaitable[Verdict]:
        """Call the upstream, with `include_usage` where that is due."""
        self._include_usage = self._decider.include_usage(self._upstream, self._shaping, self._caller)
        return self._call_asking() if self._include_usage else self._call()

    async def _call_asking(self) -> Verdict:
        """Call the upstream with `include_usage`. One that refuses it is called as the client would have called it, and
        never gets it again."""
        asked, upstream, model = self._decider.usage_asked, self._upstream.name, self._shaping.request.model
        try:
            verdict = await self._call()
        except UpstreamUnreachable as error:
            if not error.reached or asked.takes(upstream):
                raise
        else:
            if not asked.is_to_blame(upstream, model, verdict):
                return verdict
            await verdict.answer.aclose()
        self._include_usage = False
        verdict = await self._call()
        if not verdict.empty and not verdict.reports_error:
            asked.learn(upstream, model, was_set=False, again=True)
        return verdict

    async def _summary(self, compaction: Compaction) -> Gathered:
        """The text for the gap."""
        notes = self._notes
        with notes.waiting(), notes.span.child("summary"):
            key, way = credential(self._incoming), carried(self._incoming)
            gathered = await compaction.gather(self._decided, key, self._tenant, way)
        if gathered.result == "none" and self._decided.plan.ahead:
            spent = await compaction.spent(self._decided, key, self._tenant) if self._explain else Spent()
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
            summary, usage, splices = self._gathered.text, self._include_usage, self._decider.splices(self._dialect)
            if self._planning.heavy:
                body = await beside(REQUESTS, outgoing, shaping, summary, role, include_usage=usage, splices=splices)
            else:
                body = outgoing(shaping, summary, role, include_usage=usage, splices=splices)
        except Exception as bug:  # noqa: BLE001  see the module's rule
            self._planning.fail_open("apply", bug)
            body = self._planning.without_marks()
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
        if self._down.started and not self._fits_in(verdict):
            await verdict.answer.aclose()
            raise not_the_stream(verdict)
        relayed = await relay(verdict, self._down, self._notes, self._options())
        self._begun = relayed.begun
        if relayed.withheld is None and relayed.status < 400:
            self._learn(relayed)
        return relayed.withheld

    def _fits_in(self, verdict: Verdict) -> bool:
        """True for an answer that can go on in the one that has begun: a stream in a stream; after blank bytes, one in
        one piece."""
        if self._notes.only_blank:
            return not verdict.stream and not verdict.encoding and verdict.answer.status < 400
        return verdict.stream and not verdict.encoding

    def _options(self) -> RelayOptions:
        shaping, turn = self._shaping, self._planning.turn
        part = None if turn is None else shown(turn, shaping, summary=bool(self._gathered.text))
        report = Report(shaping, self._notes.edits, self._gathered, conversation=part)
        explained = self._explain or (part is not None and not shaping.request.stream)
        asks = explained or shaping.request.context_management is not None
        return RelayOptions(
            report,
            adds=report.fields(obeyed=True, explain=explained) if asks else {},
            include_usage=self._include_usage,
            withhold_overflow=True,
            keepalive_s=self._calls.keepalive_s,
            turn=self._kept(),
        )

    def _kept(self) -> Turn | Elsewhere | None:
        """What is to be stored of the answer."""
        elsewhere = self._planning.elsewhere
        if elsewhere is not None:
            elsewhere.upstream = self._upstream.name
        return self._planning.turn or elsewhere

    def _learn(self, relayed: Relayed) -> None:
        """Learn from the usage of an answer, or from its absence where it was due; begin the next summary."""
        usage, request = relayed.usage, self._shaping.request
        if request.stream and relayed.stream and not request.include_usage and relayed.failure is None:
            reported, was_set = usage is not None, self._include_usage
            asked = self._decider.usage_asked
            asked.learn(self._upstream.name, request.model, was_set=was_set, reported=reported)
        due = not request.stream or request.include_usage or self._include_usage
        if usage is not None or (due and relayed.failure is None):
            self._decider.observe(self._shaping, self._upstream, usage.prompt if usage else None, self._caller)
        if self._compaction is not None:
            role, key = summary_role(self._upstream, request.model), credential(self._incoming)
            way, text = carried(self._incoming), self._gathered.text
            self._compaction.look_ahead(self._shaping, key, self._tenant, way, text, role)
