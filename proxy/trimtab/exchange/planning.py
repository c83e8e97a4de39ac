"""What a request is, and what is to be done with it: `Planning` reads a body and decides.

A bug of ours in deciding never stops a conversation: it is logged, and the client's own bytes go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from trimtab.context.read.history import Reading
from trimtab.conversations.conversations import Conversations
from trimtab.conversations.elsewhere import Elsewhere
from trimtab.conversations.turns import Turn
from trimtab.dialects.dialect import Dialect
from trimtab.dialects.paths import recognized
from trimtab.errors import InvalidRequest, TrimtabError, UpstreamError
from trimtab.exchange.access import carried, credential, tenant
from trimtab.exchange.calls import Calls
from trimtab.exchange.decide import Shaping, caller_of
from trimtab.exchange.decider import Decider
from trimtab.exchange.explain import ContextPlan, explain
from trimtab.exchange.incoming import Body, Bounds, Incoming
from trimtab.exchange.notes import Keeper, Notes
from trimtab.exchange.offload import LIGHT_KNOWN, LIGHT_MESSAGES, LIGHT_NEW, REQUESTS, beside, planned_beside
from trimtab.exchange.outgoing import outgoing, without_marks
from trimtab.exchange.policies import Chosen
from trimtab.exchange.refusals import refusal
from trimtab.exchange.spellings import deployment_of
from trimtab.exchange.stored import stateless, turn_of
from trimtab.exchange.summary_call import Compaction
from trimtab.exchange.uploading import with_files
from trimtab.limits import Caller, Limit
from trimtab.telemetry import Telemetry
from trimtab.upstream.families import summary_role
from trimtab.upstream.settings import UpstreamSettings
from trimtab.wire.request import Unreadable


class Services(msgspec.Struct, frozen=True):
    """What all exchanges of a process share. No `compaction`: dropped messages are not summarized. No `keeper`: nothing
    is kept of exchanges that have ended. No `conversations`: none is stored."""

    calls: Calls
    decider: Decider
    telemetry: Telemetry
    compaction: Compaction | None = None
    bounds: Bounds = Bounds()
    keeper: Keeper | None = None
    conversations: Conversations | None = None


class Planning:
    """One request as read and planned. `reading`, `upstream` and `caller` are there once it is decoded, `shaping` once
    it is decided; `turn` where it is a part of a stored conversation, `elsewhere` where it asks for a response that the
    upstream will hold. `heavy`: planning it, or writing its body, takes more than a few milliseconds."""

    reading: Reading
    upstream: UpstreamSettings
    caller: Caller
    heavy: bool
    shaping: Shaping
    turn: Turn | None = None
    elsewhere: Elsewhere | None = None

    def __init__(self, services: Services, incoming: Incoming, notes: Notes) -> None:
        self.dialect = notes.speaks
        self.tenant = tenant(incoming)
        self._calls, self._decider, self._bounds = services.calls, services.decider, services.bounds
        self._telemetry, self._compaction = services.telemetry, services.compaction
        self._incoming, self._notes = incoming, notes
        self._conversations = services.conversations

    async def whole_history(self, raw: bytes, body: Body, *, reads: bool = False) -> bytes:
        """The request with the stored history that it continues, and with the files that are kept here; as it came
        where there is none of it. `reads`: nothing is to be stored. Raises NotStored, Conflict, StoreUnavailable,
        BodyTooLarge."""
        if self._conversations is None:
            return raw
        with self._notes.waiting():
            found = await turn_of(self._conversations, self._incoming, self.dialect.name, raw, reads=reads)
        if isinstance(found, Elsewhere):
            self.elsewhere = found
        else:
            self.turn = found
        whole = raw
        if self.turn is not None:
            whole = await stateless(self.turn)
            body.hold(max(0, len(whole) - len(raw)))
        if self._conversations is None or self.dialect.name == "messages":
            return whole
        return await with_files(self._conversations, self._incoming, self.dialect.name, whole, body)

    async def decode(self, raw: bytes) -> None:
        """Read the request and find its upstream. Raises InvalidRequest for a body that is not JSON, BodyTooLarge,
        Unreadable for one that only this reader cannot follow, UnknownModel."""
        large = len(raw) > LIGHT_KNOWN
        self.reading = await beside(REQUESTS, self._read, raw) if large else self._read(raw)
        request = self.reading.request
        self.heavy = large or len(request.body) > LIGHT_KNOWN or len(request.messages) > LIGHT_MESSAGES
        model = request.model
        self.caller = caller_of(self.tenant, request)
        self.upstream = self._calls.route(model or None)
        notes = self._notes
        notes.model, notes.upstream, notes.tenant = model, self.upstream.name, self.caller.tenant

    def _recognized(self, raw: bytes) -> Dialect:
        self._bounds.check_values(raw)
        return recognized(raw, versioned=b"anthropic-version" in self._incoming.fields)

    def _read(self, raw: bytes) -> Reading:
        reading = self._decider.read(raw, self.tenant, self.dialect, self._bounds.check_values)
        if not reading.request.model and (named := deployment_of(self._incoming.path)):
            request = msgspec.structs.replace(reading.request, model=named)
            reading = msgspec.structs.replace(reading, request=request)
        self._bounds.check_messages(reading.request)
        return reading

    @property
    def observes(self) -> bool:
        """True when the request is planned and sent as it came."""
        return self._incoming.asks.observe or self.shaping.policy.shaping.mode == "observe"

    async def decide(self) -> bool:
        """Plan the request; False after a bug of ours. Waits at most once for an upstream's limits, shortly. Raises
        InvalidRequest for an unknown profile or hint, or a `context_management` that cannot be read."""
        try:
            request, upstream, notes = self.reading.request, self.upstream, self._notes
            asks = self._incoming.asks
            chosen = self._decider.choose(request, upstream, asks.profile, asks.hint)
            notes.profile, notes.hint = chosen.profile, chosen.hint
            limits = self._decider.limits
            limit = limits.settled(upstream.name, request.model, self.caller) or await self._asked_limit()
            heavy = self.heavy or (len(request.body) > LIGHT_NEW and self.reading.new > LIGHT_NEW)
            with notes.span.child("plan"):
                planned = self._planned
                self.shaping = await beside(REQUESTS, planned, chosen, limit) if heavy else planned(chosen, limit)
        except TrimtabError:
            raise
        except Exception as bug:  # noqa: BLE001  see the module's rule
            self.fail_open("plan", bug)
            return False
        return True

    async def _asked_limit(self) -> Limit:
        """The limit, after asking the upstream."""
        fetch = self._calls.fetching(credential(self._incoming), carried(self._incoming))
        with self._notes.waiting():
            limits, model = self._decider.limits, self.reading.request.model
            return await limits.limit_of(self.upstream.name, model, fetch, self.caller)

    def _planned(self, chosen: Chosen, limit: Limit) -> Shaping:
        began = self._notes.clock()
        shaping = self._decider.decide(self.reading, self.upstream, chosen, limit, self.dialect, self.caller)
        self._notes.planned(shaping, self._notes.clock() - began)
        return shaping

    def fail_open(self, part: Literal["plan", "apply"], bug: Exception) -> None:
        """Log a bug of ours, and note which part of the shaping it ended."""
        self._telemetry.log.bug(self._incoming.request_id, bug)
        self._notes.fail_open = part

    async def again(self, decide: Callable[..., Shaping | None], *known: object) -> Shaping | None:
        """Another decision about the same request, with what is `known` now."""
        return await planned_beside(self.heavy, decide, *known, self._decider.memo(self.dialect))

    def without_marks(self) -> bytes:
        """The body of a request that is not shaped."""
        return without_marks(self.reading.request, self.dialect)

    async def explained(self, body: Body) -> ContextPlan:
        """What would be done with the request; no model is called. Raises TrimtabError."""
        cached = bool(await self._asked(body))
        return await planned_beside(self.heavy, explain, self.shaping, cached=cached)

    async def as_sent(self, body: Body) -> bytes:
        """The body that would be sent, byte for byte. Where a summary would be asked for that has not been made, the
        note stands: no model is called. Raises TrimtabError; the refusal, where nothing would be sent."""
        summary, shaping = await self._asked(body), self.shaping
        if self._incoming.asks.bypass or self.observes:
            return self.without_marks()
        if error := refusal(shaping):
            raise error
        role = summary_role(self.upstream, shaping.request.model)
        usage = self._decider.include_usage(self.upstream, shaping, self.caller)
        return await planned_beside(self.heavy, outgoing, shaping, summary, role, include_usage=usage)

    async def _asked(self, body: Body) -> str | None:
        """Decide about a request that is only asked about; returns the summary for its gap, if it has been made."""
        raw = await body.read()
        self.dialect = await planned_beside(len(raw) > LIGHT_KNOWN, self._recognized, raw)
        raw = await self.whole_history(raw, body, reads=True)
        try:
            await self.decode(raw)
        except Unreadable as error:
            raise InvalidRequest(f"This request cannot be planned: it is {error}.") from error
        if not await self.decide():
            raise UpstreamError("This request could not be planned: a bug in this proxy, which its log describes.")
        self._notes.outcome, self._notes.status = "planned", 200
        if self._compaction is None:
            return None
        return await self._compaction.stored(self.shaping, credential(self._incoming), self.tenant)
