"""What is learned about an exchange while it goes on, and the one record made of it at the end.

Notes live as long as the request. They hold names, counts and times; text only where the operator asks for it, by
`[ui] text`. The record has none.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Literal, Protocol

import msgspec

from trimtab.dialects.chat import CHAT
from trimtab.dialects.dialect import Dialect
from trimtab.exchange import report
from trimtab.exchange.decide import Shaping
from trimtab.exchange.report import NO_SUMMARY, Report
from trimtab.limits import Prices as LimitPrices
from trimtab.overflow.classify import Overflow
from trimtab.telemetry import (
    NO_TRACING,
    CallEnd,
    Compaction,
    Edited,
    Exchange,
    ExchangeSpan,
    Outcome,
    PathKind,
    Prices,
    Timing,
    Tokens,
    UpstreamCall,
    Usage,
)

NO_SPAN: ExchangeSpan = NO_TRACING.start({})


Failure = Literal["upstream_error", "upstream_rejected"]


class Relayed(msgspec.Struct, frozen=True):
    """How far an answer got, and what was read of it.

    `failure`: the answer was an error, or an error ended it; `error_code` belongs to one of ours. `overflow`: a stream
    reported that the prompt is too long; `withheld` has it where the client did not get it, and then the client's
    answer has no end yet. `begun`: the client has bytes of the stream. `broken_off`: the upstream did not send its
    end."""

    status: int
    stream: bool = False
    failure: Failure | None = None
    error_code: str = ""
    usage: Usage | None = None
    overflow: bool = False
    withheld: Overflow | None = None
    begun: bool = False
    broken_off: bool = False


class _Waiting:
    __slots__ = ("_began", "_notes")

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def __enter__(self) -> None:
        self._began = self._notes.clock()

    def __exit__(self, *_: object) -> None:
        self._notes.waited += self._notes.clock() - self._began


class Notes:
    """Fill in as things become known; `record` at the end. `clock` gives seconds."""

    outcome: Outcome = "failed"
    status = 0
    model = upstream = profile = hint = ""
    stream = False
    as_received = False  # the request is sent as it came, also where something else was planned
    only_blank = False  # the client has the head of an answer in one piece, and blank bytes
    shaping: Shaping | None = None
    edits: tuple[Edited, ...] = ()
    gathered = NO_SUMMARY
    usage: Usage | None = None
    shaping_s: float | None = None
    waited = 0.0  # seconds that were not ours: for the client's body, a summary, the upstream's limits
    span = NO_SPAN
    sent_at: float | None = None
    overhead_s: float | None = None
    first_byte_at: float | None = None
    overflow = False
    fail_open = error_code = upstream_request_id = ""
    trace_id = method = endpoint = ""
    tenant = b""  # a digest of the tenant, once the request is read
    keeps_body = False  # an operator wants to see what is sent (`[ui] text`)
    body: bytes | None = None  # as sent, where it is kept

    def __init__(
        self, request_id: str, path: PathKind, clock: Callable[[], float] = perf_counter, speaks: Dialect = CHAT
    ) -> None:
        self.request_id, self.path, self.clock = request_id, path, clock
        self.speaks = speaks  # the dialect that errors are written in
        self.began = clock()
        self.calls: list[UpstreamCall] = []

    def waiting(self) -> _Waiting:
        """A context for time spent waiting for someone else."""
        return _Waiting(self)

    def planned(self, shaping: Shaping, seconds: float) -> None:
        """What was decided, in `seconds`; a second plan replaces the first, and its time is added."""
        self.shaping = shaping
        self.edits = report.edited(shaping) if shaping.plan.edits else ()
        self.shaping_s = (self.shaping_s or 0.0) + seconds

    def calling(self, upstream: str) -> None:
        """The upstream is called now. Time before the first call is overhead; a second call does not add to it."""
        self.calls.append(UpstreamCall(upstream))
        if self.sent_at is None:
            self.sent_at = self.clock()
            self.overhead_s = self.sent_at - self.began - self.waited

    def answered(self, status: int, retries: int, request_id: str = "") -> None:
        """The upstream's status and headers are here, after `retries` tries that failed. `request_id` is its own."""
        self.upstream_request_id = request_id
        self.calls[-1] = UpstreamCall(self.calls[-1].upstream, status, retries)
        self.first_byte_at = self.clock()

    def unanswered(self, retries: int) -> None:
        """The call failed, and so did `retries` tries before it."""
        self.calls[-1] = UpstreamCall(self.calls[-1].upstream, 0, retries)

    def call_ended(self, end: CallEnd) -> None:
        """How the call under way has ended, if not with a whole answer."""
        self.calls[-1] = msgspec.structs.replace(self.calls[-1], end=end)

    def relayed(self, relayed: Relayed) -> None:
        """An answer was relayed, as far as it got."""
        self.status = relayed.status
        self.stream = self.stream or relayed.stream  # also where the client's own way of asking was not understood
        self.overflow = self.overflow or relayed.overflow
        self.usage = relayed.usage or self.usage
        self.outcome = relayed.failure or self.outcome
        self.error_code = relayed.error_code or self.error_code
        if relayed.broken_off:
            self.call_ended("broken_off")

    @property
    def sent(self) -> bool:
        """Whether the upstream got the request and did not find it too long."""
        if self.outcome == "refused":
            return False
        for call in self.calls:  # noqa: SIM110  every exchange passes here: a generator costs as much as the rest
            if call.status or call.end == "cancelled":
                return True
        return False

    def report(self) -> Report | None:
        """What was done with the request, as far as it was planned."""
        if self.shaping is None:
            return None
        return Report(self.shaping, self.edits if self.sent else (), self.gathered, self.sent)

    def record(self, ended: float) -> Exchange:
        """The record of the exchange, which ended at `ended`, in seconds of the same clock."""
        shaping, sent = self.shaping, self.sent
        tokens = _tokens(shaping, sent) if shaping else Tokens()
        ttfb = self.first_byte_at - self.sent_at if self.first_byte_at and self.sent_at else None
        overhead = ended - self.began - self.waited if self.overhead_s is None else self.overhead_s
        return Exchange(
            request_id=self.request_id,
            upstream_request_id=self.upstream_request_id,
            trace_id=self.span.trace_id or self.trace_id,
            method=self.method,
            endpoint=self.endpoint,
            path=self.path,
            outcome=self.outcome,
            status=self.status,
            model=self.model,
            upstream=self.upstream,
            calls=tuple(self.calls),
            stream=self.stream,
            profile=self.profile,
            hint=self.hint,
            tokens=tokens,
            edits=self.edits if sent else (),
            summary=self.gathered.result,
            summary_cause=self.gathered.cause,
            compaction=Compaction(self.gathered.tokens_in, self.gathered.tokens_out),
            usage=self.usage,
            estimate_ratio=_ratio(shaping, self.usage, as_received=self.as_received),
            prefix_break=_moved(shaping.plan.prefix_break) if shaping and sent and shaping.plan.prefix_break else "",
            timing=Timing(ended - self.began, self.shaping_s, overhead, ttfb),
            overflow=self.overflow,
            fail_open=self.fail_open,
            error_code=self.error_code,
            prices=prices(shaping.limit.prices) if shaping and shaping.limit.prices else None,
        )


class Keeper(Protocol):
    """Who keeps the exchanges that have ended, for the pages. `keeps_text`: the bodies too."""

    @property
    def keeps_text(self) -> bool:
        """Whether bodies are kept."""
        ...

    def add(self, exchange: Exchange, notes: Notes) -> None:
        """Keep what is wanted of one exchange that has ended; not the notes themselves."""
        ...


def _tokens(shaping: Shaping, sent: bool) -> Tokens:
    plan = shaping.plan
    original = shaping.counted(plan.original)
    return Tokens(
        original,
        0 if not sent else original if plan.sent == plan.original else shaping.counted(plan.sent),
        shaping.budget.usable,
        shaping.budget.context_size,
        shaping.limit.source,
    )


def _ratio(shaping: Shaping | None, usage: Usage | None, *, as_received: bool) -> float | None:
    """Reported over estimated prompt tokens, after calibration."""
    if shaping is None or usage is None or usage.prompt <= 0 or shaping.plan.sent <= 0:
        return None
    return usage.prompt / shaping.counted(shaping.plan.original if as_received else shaping.plan.sent)


_MOVED_BY = {"inputs_cleared": "cleared", "trimmed": "truncated"}


def _moved(stage: str | None) -> str:
    """The stage that made this request's prefix a new one, as the metrics name it."""
    return _MOVED_BY.get(stage, stage) if stage else ""


def prices(of: LimitPrices | None) -> Prices | None:
    """A model's prices as telemetry takes them; a cached token costs the full price where its own is unknown."""
    if of is None or of.input is None:
        return None
    return Prices(of.input, of.output or 0.0, of.input if of.cache_read is None else of.cache_read)
