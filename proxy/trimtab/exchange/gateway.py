"""The one door to every exchange: access, the kind of request, the border of errors, and the record at the end.

Everything that goes wrong becomes one error of the tree for the client here, and every request ends in `observe`, also
one that failed, was refused or was abandoned. What is done for a chat completion is in `chat`, for any other path in
`passthrough`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

from trimtab.conversations.conversations import Conversations
from trimtab.dialects.paths import managed, spoken
from trimtab.errors import (
    ConversationTooLong,
    InvalidRequest,
    NotStored,
    Overloaded,
    RejectedLate,
    RequestError,
    StoreUnavailable,
    TrimtabError,
    Unauthorized,
    UpgradeRefused,
    UpstreamError,
)
from trimtab.exchange.access import Access, tenant
from trimtab.exchange.chat import ChatExchange
from trimtab.exchange.explain import ContextPlan
from trimtab.exchange.incoming import STOPPING, Body, ClientGone, Downstream, Incoming, reply
from trimtab.exchange.notes import Notes
from trimtab.exchange.passthrough import pass_through
from trimtab.exchange.planning import Planning, Services
from trimtab.exchange.stored import held_by
from trimtab.exchange.uploading import is_upload, kept_or_begun
from trimtab.telemetry import NO_TRACING, Outcome, PathKind
from trimtab.wire import problem

T = TypeVar("T")

_NO_UPGRADE = "WebSockets are not served here. Send the request over HTTPS."
_STOPPING = "This proxy is shutting down."


_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")  # W3C Trace Context §3.2


class Gateway:
    """The exchanges of a running proxy. One per process."""

    def __init__(self, services: Services, access: Access) -> None:
        self._services, self._access, self._telemetry = services, access, services.telemetry

    def adopt(self, services: Services, access: Access) -> None:
        """Let these hold for requests that arrive from now on; those under way keep what they began with."""
        self._services, self._access = services, access

    async def handle(self, incoming: Incoming, body: Body, downstream: Downstream, holder: str = "") -> None:
        """Answer one request; what it is about is held by the upstream `holder`, where that is given. Raises only
        CancelledError, when the client has gone or the server stops."""
        dialect = managed(incoming.method, incoming.endpoint)
        path: PathKind = dialect.name if dialect else "passthrough"
        notes = Notes(incoming.request_id, path, speaks=dialect or spoken(incoming.endpoint))
        notes.keeps_body = self._services.keeper is not None and self._services.keeper.keeps_text
        self._trace(incoming, notes)
        if dialect is None:
            notes.method, notes.endpoint = incoming.method, incoming.path
        try:
            self._access.check(incoming)
            if incoming.wants_upgrade:
                raise UpgradeRefused(_NO_UPGRADE)
            if dialect is not None:
                await ChatExchange(self._services, incoming, notes).run(body, downstream)
            else:
                await self._pass(incoming, body, downstream, notes, holder)
        except asyncio.CancelledError as cancelled:
            notes.outcome = "abandoned"
            if STOPPING in cancelled.args:
                await self._fail(self._error_for(Overloaded(_STOPPING), notes), downstream, notes)
            raise
        except Exception as failure:  # noqa: BLE001  the border: after any bug of ours the client gets an answer
            await self._fail(self._error_for(failure, notes), downstream, notes)
            _drop_frames(failure)
        finally:
            self._end(notes)

    async def _pass(self, incoming: Incoming, body: Body, downstream: Downstream, notes: Notes, holder: str) -> None:
        """Pass a request on, unless it uploads a file that is kept here."""
        conversations, rest = self._services.conversations, body
        if conversations is not None and is_upload(incoming):
            begun = await kept_or_begun(conversations, incoming, body, downstream, notes)
            if begun is None:
                return
            rest = begun
        await pass_through(self._services.calls, incoming, rest, downstream, notes, holder)

    async def plan(self, incoming: Incoming, body: Body) -> ContextPlan:
        """`POST /v1/context/plan`: what would be done with a chat completion. Raises the TrimtabError that the client
        gets, and CancelledError when it has gone."""

        async def planned(notes: Notes) -> ContextPlan:
            return await Planning(self._services, incoming, notes).explained(body)

        return await self._of_our_own("plan", incoming, planned)

    async def planned_body(self, incoming: Incoming, body: Body) -> bytes:
        """The same, as the body that would be sent. Raises as `plan`; the refusal, where nothing would be sent."""

        async def planned(notes: Notes) -> bytes:
            return await Planning(self._services, incoming, notes).as_sent(body)

        return await self._of_our_own("plan", incoming, planned)

    async def held_by(self, incoming: Incoming) -> str | None:
        """The upstream that a request for something stored goes to, by name; None where `stored` answers it. Never
        raises: what is wrong, `stored` finds too."""
        conversations = self._services.conversations
        try:
            self._access.check(incoming)
            return await held_by(conversations, self._services.calls, incoming) if conversations else None
        except (Unauthorized, StoreUnavailable):
            return None

    async def stored(self, incoming: Incoming, work: Callable[[Conversations, bytes], Awaitable[T]]) -> T:
        """An endpoint of what is stored here; `work` gets the identity of the client's tenant. Raises as `plan`."""

        async def done(notes: Notes) -> T:
            conversations = self._services.conversations
            if conversations is None:
                raise NotStored("No conversation is stored here: [conversations] is not configured.")
            found = await work(conversations, tenant(incoming))
            notes.outcome, notes.status = "stored", 200
            return found

        return await self._of_our_own("conversations", incoming, done)

    async def _of_our_own(self, path: PathKind, incoming: Incoming, work: Callable[[Notes], Awaitable[T]]) -> T:
        """Answer a request without an upstream."""
        notes = Notes(incoming.request_id, path)
        self._trace(incoming, notes)
        try:
            self._access.check(incoming)
            return await work(notes)
        except asyncio.CancelledError as cancelled:
            notes.outcome = "abandoned"
            if STOPPING not in cancelled.args:
                raise
            error = self._error_for(Overloaded(_STOPPING), notes)
            notes.status = error.status
            raise error from cancelled
        except Exception as failure:
            error = self._error_for(failure, notes)
            notes.status = error.status
            if error is failure:
                raise
            raise error from failure
        finally:
            self._end(notes)

    async def turn_away(self, incoming: Incoming, downstream: Downstream, *, draining: bool) -> None:
        """Answer a request that cannot be taken now: too many are in flight, or the server is `draining`."""
        why = _STOPPING if draining else "Too many requests are in flight at this proxy (max_in_flight)."
        notes = Notes(incoming.request_id, "passthrough", speaks=spoken(incoming.endpoint))
        await self._fail(self._error_for(Overloaded(f"{why} Try again in a second."), notes), downstream, notes)
        self._telemetry.observe(notes.record(notes.clock()))

    async def answer_half_closed(self, incoming: Incoming, downstream: Downstream) -> None:
        """Answer a client that seems to have left: one that closed only its sending half still reads, and would get
        the server's own 500 otherwise."""
        notes = Notes(incoming.request_id, "passthrough", speaks=spoken(incoming.endpoint))
        error = InvalidRequest("The client closed the connection before its answer was ready.")
        await self._fail(error, downstream, notes)

    def _end(self, notes: Notes) -> None:
        """Every exchange ends here, once."""
        record = notes.record(notes.clock())
        self._telemetry.observe(record, notes.span)
        if self._services.keeper is not None:
            self._services.keeper.add(record, notes)

    def _trace(self, incoming: Incoming, notes: Notes) -> None:
        """Begin the exchange's span where traces are on; else only note the client's trace, which the upstream gets."""
        if b"traceparent" in incoming.fields:
            notes.trace_id = _trace_id(incoming.fields[b"traceparent"])
        if self._telemetry.trace is not NO_TRACING:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in incoming.headers}
            notes.span = self._telemetry.trace.start(headers)

    def _error_for(self, failure: Exception, notes: Notes) -> TrimtabError:
        """The error a client gets for what was raised; notes what it was. A bug is logged."""
        if isinstance(failure, TrimtabError):
            error, notes.outcome = failure, _outcome_of(failure)
        elif isinstance(failure, ClientGone):
            # Or its body is framed wrongly, which looks the same from here: then it is there to read this.
            error = InvalidRequest("The request body ended early, or its chunked framing is invalid (RFC 9112 §7.1).")
            notes.outcome = "abandoned"
        else:
            self._telemetry.log.bug(notes.request_id, failure)
            error = UpstreamError("This proxy failed to handle the request: a bug, which its log describes.")
            notes.outcome = "failed"
        notes.error_code = error.code or error.type
        return error

    async def _fail(self, error: TrimtabError, downstream: Downstream, notes: Notes) -> None:
        """Answer with an error: as an envelope, or as an event of a stream that has begun. Any other answer that has
        begun is left without its end: the server then breaks the connection, and no client takes half for whole."""
        if downstream.started:
            notes.status = notes.status or 200  # of a stream that began while the client waited
            if notes.only_blank:  # the status is out, but the body can still be the error's
                await downstream.end(notes.speaks.envelope(error, notes.request_id))
            elif notes.stream:
                await downstream.end(notes.speaks.event(error))
            return
        notes.status = notes.speaks.status(error)
        body, report = notes.speaks.envelope(error, notes.request_id), notes.report()
        headers = problem.headers(error) + (report.headers() if report is not None else [])
        await reply(downstream, notes.status, headers, body, notes.request_id)


def _drop_frames(failure: BaseException | None) -> None:
    """Take the frames from an error and its causes. A frame that keeps an error keeps itself, and with it the body of
    the request, until the next garbage collection: ten refused bodies of 10 MB would hold 100 MB. Causes may form a
    circle: an error of the client's body passes through the upstream's client and is raised again."""
    seen: set[int] = set()
    while failure is not None and id(failure) not in seen:
        seen.add(id(failure))
        failure.__traceback__ = None
        failure = failure.__cause__ or failure.__context__


def _trace_id(traceparent: bytes) -> str:
    """The id in a `traceparent`; "" where it is missing or malformed."""
    found = _TRACEPARENT.match(traceparent)
    return found.group(1).decode() if found else ""


def _outcome_of(error: TrimtabError) -> Outcome:
    if isinstance(error, ConversationTooLong):
        return "refused"
    if isinstance(error, Overloaded):
        return "overloaded"
    if isinstance(error, RejectedLate) and error.answered < 500:
        return "upstream_rejected"
    return "client_error" if isinstance(error, RequestError) else "upstream_error"
