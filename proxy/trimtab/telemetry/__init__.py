"""What the proxy reports about itself: one frozen record for each exchange, which feeds metrics, log and trace.

The layers above hold one `Telemetry`. This package knows neither HTTP nor any other part of the proxy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from time import time
from typing import TextIO

from prometheus_client import CollectorRegistry, ProcessCollector, exposition

from trimtab.telemetry import log
from trimtab.telemetry.catalogue import Metric
from trimtab.telemetry.labels import Labels
from trimtab.telemetry.log import Ended, ExchangeLog
from trimtab.telemetry.metrics import Metrics
from trimtab.telemetry.record import (
    CallEnd,
    Compaction,
    Edited,
    Exchange,
    Outcome,
    PathKind,
    Prices,
    Stage,
    SummaryResult,
    SummaryRun,
    Timing,
    Tokens,
    UpstreamCall,
    Usage,
)
from trimtab.telemetry.settings import TelemetrySettings
from trimtab.telemetry.trace import NO_TRACING, ExchangeSpan, Tracing, tracing

__all__ = [
    "NO_TRACING",
    "CallEnd",
    "Compaction",
    "Edited",
    "Exchange",
    "ExchangeSpan",
    "Outcome",
    "PathKind",
    "Prices",
    "Stage",
    "SummaryResult",
    "SummaryRun",
    "Telemetry",
    "TelemetrySettings",
    "Timing",
    "Tokens",
    "Tracing",
    "UpstreamCall",
    "Usage",
    "open_telemetry",
]


SETTLE_S = 0.05  # an exchange is counted and logged at most so many seconds after its end
_MOST_WAITING = 64  # exchanges: a millisecond's work


class Telemetry:
    """Metrics, log and trace of one process. `metrics`, `log` and `trace` are for what is not part of a record."""

    def __init__(self, registry: CollectorRegistry, metrics: Metrics, lines: ExchangeLog, trace: Tracing) -> None:
        self._registry = registry
        self.metrics = metrics
        self.log = lines
        self.trace = trace
        self._redis: tuple[str, Callable[[], bool]] | None = None
        self._load: Callable[[], tuple[int, int, int]] = lambda: (0, 0, 0)
        self._ended: list[Ended] = []
        self._scheduled = False  # `settle` will be called soon

    def observe(self, exchange: Exchange, span: ExchangeSpan | None = None) -> None:
        """Every exchange ends here, once. Its span is closed now; it is counted and logged within SETTLE_S, together
        with all that end meanwhile, which takes a busy process a third of the time."""
        if span is not None:
            span.end(exchange)
        self._ended.append((exchange, time()))
        if len(self._ended) >= _MOST_WAITING:
            self.settle()
        elif not self._scheduled:
            self._settle_soon()

    def _settle_soon(self) -> None:
        try:
            asyncio.get_running_loop().call_later(SETTLE_S, self.settle)
            self._scheduled = True
        except RuntimeError:  # there is no event loop that could do it later
            self.settle()

    def settle(self) -> None:
        """Count and log the exchanges that are waiting."""
        ended, self._ended, self._scheduled = self._ended, [], False
        self.metrics.observe(*[exchange for exchange, _ in ended])
        self.log.exchanges(ended)

    def summary_run(self, run: SummaryRun) -> None:
        """Count and log one call of the summary model."""
        self.metrics.summary_run(run)
        self.log.summary_run(run)

    def admit(self, models: Iterable[str]) -> None:
        """Let these names be label values: they are configured, or an upstream listed or counted for them."""
        for model in models:
            self.metrics.labels.admit(model)

    def watch_redis(self, mode: str, answers: Callable[[], bool]) -> None:
        """Report at each scrape whether Redis answers. `mode`: `standalone`, `sentinel` or `cluster`. Without this call
        the metric is absent."""
        self._redis = (mode, answers)

    def watch_load(self, load: Callable[[], tuple[int, int, int]]) -> None:
        """Report at each scrape the requests in flight, the bytes of bodies that are held, and how many may be."""
        self._load = load

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Body and content type of `/metrics`: OpenMetrics when the `Accept` header asks for it, else Prometheus'
        text."""
        self.settle()
        self.metrics.in_flight(*self._load())
        if self._redis is not None:
            mode, answers = self._redis
            self.metrics.redis_up(mode, answers())
        encode, content_type = exposition.choose_encoder(accept)
        return encode(self._registry), content_type

    def sums(self, metric: Metric, label: str) -> dict[str, float]:
        """The values of a counter so far, summed by one of its labels; what is 0 is left out."""
        self.settle()
        found: dict[str, float] = {}
        for family in self._registry.restricted_registry([metric.name]).collect():
            for sample in family.samples:
                if sample.value:
                    found[sample.labels[label]] = found.get(sample.labels[label], 0.0) + sample.value
        return found

    def close(self) -> None:
        """Count and log what is waiting, and send the spans that are. Blocks, for some seconds at most."""
        self.settle()
        self.trace.close()


def open_telemetry(
    settings: TelemetrySettings,
    *,
    version: str = "",
    models: Iterable[str] = (),
    upstreams: Iterable[str] = (),
    stream: TextIO | None = None,
) -> Telemetry:
    """Set up this process's log and return its telemetry, with its own registry. `models` are the names that are
    configured without a glob, `upstreams` those of the tables. Raises ConfigError when traces are on and the extra is
    missing."""
    trace = tracing(settings, version)
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    metrics = Metrics(registry, Labels(models), version)
    for name in upstreams:
        metrics.start_upstream(name)
    return Telemetry(registry, metrics, log.configure(settings, stream), trace)
