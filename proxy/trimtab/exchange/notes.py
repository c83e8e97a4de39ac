"""What is learned about an exchange while it goes on, and the one record made of it at the end.

The only mutable thing that lives as long as a request. It never holds text.
"""

from __future__ import annotations

from time import perf_counter

from trimtab.exchange import report
from trimtab.exchange.compaction import NOTHING
from trimtab.exchange.shape import Shaping
from trimtab.limits import Prices as LimitPrices
from trimtab.telemetry import (
    NO_TRACING,
    Edited,
    Exchange,
    ExchangeSpan,
    Outcome,
    PathKind,
    Prices,
    Timing,
    Tokens,
    Usage,
)

NO_SPAN: ExchangeSpan = NO_TRACING.start({})


class _Waiting:
    __slots__ = ("_began", "_notes")

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def __enter__(self) -> None:
        self._began = perf_counter()

    def __exit__(self, *_: object) -> None:
        self._notes.waited += perf_counter() - self._began


class Notes:
    """Fill in as things become known; `record()` once, at the end."""

    def __init__(self, request_id: str, path: PathKind) -> None:
        self.request_id, self.path = request_id, path
        self.began = perf_counter()
        self.outcome: Outcome = "failed"
        self.status = 0
        self.model = self.upstream = self.profile = self.hint = ""
        self.stream = False
        self.shaping: Shaping | None = None
        self.edits: tuple[Edited, ...] = ()
        self.gathered = NOTHING
        self.asked_usage = False
        self.usage: Usage | None = None
        self.upstream_status: int | None = None
        self.shaping_s: float | None = None
        self.waited = 0.0  # seconds that were not ours: for the client's body, a summary, the upstream's limits
        self.span = NO_SPAN
        self.sent_at: float | None = None
        self.first_byte_at: float | None = None
        self.retries = 0
        self.overflow = False
        self.relayed = False  # the client has some of an answer's body
        self.fail_open = self.error_code = ""

    def waiting(self) -> _Waiting:
        """Time spent waiting for someone else, as a context."""
        return _Waiting(self)

    def planned(self, shaping: Shaping, seconds: float) -> None:
        self.shaping = shaping
        self.edits = report.edited(shaping) if shaping.plan.edits else ()
        self.shaping_s = (self.shaping_s or 0.0) + seconds

    def calling(self) -> None:
        """The upstream is called now; what came before is the overhead, of a second call too."""
        if self.sent_at is None:
            self.sent_at = perf_counter()

    def answered(self, status: int, retries: int) -> None:
        self.upstream_status = status
        self.retries += retries
        self.first_byte_at = perf_counter()

    def record(self) -> Exchange:
        now = perf_counter()
        shaping = self.shaping
        ttfb = self.first_byte_at - self.sent_at if self.first_byte_at and self.sent_at else None
        return Exchange(
            request_id=self.request_id,
            path=self.path,
            outcome=self.outcome,
            status=self.status,
            model=self.model,
            upstream=self.upstream,
            upstream_status=self.upstream_status,
            stream=self.stream,
            profile=self.profile,
            hint=self.hint,
            tokens=_tokens(shaping) if shaping else Tokens(),
            edits=self.edits,
            summary=self.gathered.result,
            usage=self.usage,
            estimate_ratio=_ratio(shaping, self.usage),
            prefix_break=_moved(shaping) if shaping else "",
            timing=Timing(now - self.began, self.shaping_s, (self.sent_at or now) - self.began - self.waited, ttfb),
            retries=self.retries,
            overflow=self.overflow,
            fail_open=self.fail_open,
            error_code=self.error_code,
            prices=prices(shaping.limit.prices) if shaping else None,
        )


def _tokens(shaping: Shaping) -> Tokens:
    plan = shaping.plan
    return Tokens(
        shaping.counted(plan.original),
        shaping.counted(plan.sent),
        shaping.budget.usable,
        shaping.budget.context_size,
        shaping.limit.source,
    )


def _moved(shaping: Shaping) -> str:
    """The stage that made this request's prefix a new one, in the words of the metrics."""
    return {"inputs_cleared": "cleared", None: ""}.get(shaping.plan.prefix_break, shaping.plan.prefix_break or "")


def _ratio(shaping: Shaping | None, usage: Usage | None) -> float | None:
    """Reported over estimated prompt tokens, after calibration."""
    if shaping is None or usage is None or usage.prompt <= 0 or shaping.plan.sent <= 0:
        return None
    return usage.prompt / shaping.counted(shaping.plan.sent)


def prices(of: LimitPrices | None) -> Prices | None:
    """A model's prices as telemetry has them; a cached token costs the full price where nothing else is known."""
    if of is None or of.input is None:
        return None
    return Prices(of.input, of.output or 0.0, of.input if of.cache_read is None else of.cache_read)
