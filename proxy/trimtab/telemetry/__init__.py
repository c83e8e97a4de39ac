"""What the proxy says about itself: one frozen record an exchange, read by metrics, log and trace.

`Telemetry` is the only thing the layers above hold. It knows nothing of HTTP and of no other part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from time import time
from typing import TextIO

from prometheus_client import CollectorRegistry

from trimtab.telemetry import log
from trimtab.telemetry.exposition import render
from trimtab.telemetry.labels import Labels
from trimtab.telemetry.log import Ended, ExchangeLog
from trimtab.telemetry.metrics import Metrics
from trimtab.telemetry.record import (
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
    Usage,
)
from trimtab.telemetry.settings import TelemetrySettings
from trimtab.telemetry.trace import NO_TRACING, ExchangeSpan, Tracing, tracing

__all__ = [
    "NO_TRACING",
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
    "Usage",
    "open_telemetry",
]


SETTLE_S = 0.05  # seconds after which an exchange is counted and logged at the latest
_MOST_PUT_OFF = 64  # exchanges; a millisecond's work


class Telemetry:
    """Metrics, log and trace of one process. `metrics` and `trace` are used directly where no record is."""

    def __init__(self, registry: CollectorRegistry, metrics: Metrics, lines: ExchangeLog, trace: Tracing) -> None:
        self._registry = registry
        self.metrics = metrics
        self.log = lines
        self.trace = trace
        self._redis: tuple[str, Callable[[], bool]] | None = None
        self._ended: list[Ended] = []
        self._settles = False  # `settle` is to be called soon

    def observe(self, exchange: Exchange, span: ExchangeSpan | None = None) -> None:
        """Every exchange ends here, once: its span is closed, and it is counted and logged soon, together with all
        that end meanwhile: a busy process spends a third of the time on it then."""
        if span is not None:
            span.end(exchange)
        self._ended.append((exchange, time()))
        if len(self._ended) >= _MOST_PUT_OFF:
            self.settle()
        else:
            self._put_off()

    def _put_off(self) -> None:
        if self._settles:
            return
        try:
            asyncio.get_running_loop().call_later(SETTLE_S, self.settle)
            self._settles = True
        except RuntimeError:  # nothing runs that could do it later
            self.settle()

    def settle(self) -> None:
        """Count and log what was put off."""
        ended, self._ended, self._settles = self._ended, [], False
        for exchange, _ in ended:
            self.metrics.observe(exchange)
        self.metrics.settle()
        self.log.exchanges(ended)

    def background_run(self, run: SummaryRun) -> None:
        """A summary no request waited for was made, or was not."""
        self.metrics.summary_run(run)
        self.log.summary_run(run)

    def admit(self, models: Iterable[str]) -> None:
        """These names are configured, or an upstream lists them: they may be label values."""
        for model in models:
            self.metrics.labels.admit(model)

    def watch_redis(self, mode: str, answers: Callable[[], bool]) -> None:
        """Ask `answers` at each scrape whether Redis (`standalone`, `sentinel`, `cluster`) is there. Without
        this call nothing is said of Redis.
        """
        self._redis = (mode, answers)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Body and content type of `/metrics` for a scraper that accepts `accept`."""
        self.settle()
        if self._redis is not None:
            mode, answers = self._redis
            self.metrics.redis_up(mode, answers())
        return render(self._registry, accept)

    def close(self) -> None:
        """Log what was put off, and send the spans still waiting; blocks for seconds at most."""
        self.settle()
        self.trace.close()


def open_telemetry(
    settings: TelemetrySettings,
    *,
    version: str = "",
    models: Iterable[str] = (),
    stream: TextIO | None = None,
) -> Telemetry:
    """Set up this process's log and return its telemetry, with a registry of its own. `models` are the names
    that are configured without a glob. Raises ConfigError when traces are on and the extra is missing.
    """
    trace = tracing(settings, version)
    registry = CollectorRegistry()
    metrics = Metrics(registry, Labels(models), version)
    return Telemetry(registry, metrics, log.configure(settings, stream), trace)
