"""From records to metrics: what each field of an exchange adds to which metric of the catalogue.

This runs for every request, so the series are made once and found in dictionaries. What does not belong to one
exchange (Redis, calibration, summaries made in the background, requests in flight) has a method of its own.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple, get_args

from prometheus_client import CollectorRegistry, disable_created_metrics

from trimtab.telemetry import catalogue as names
from trimtab.telemetry.catalogue import Metric
from trimtab.telemetry.labels import OTHER, Labels
from trimtab.telemetry.record import (
    GENERATING,
    PARTS,
    STAGES,
    Exchange,
    Outcome,
    PathKind,
    RunOutcome,
    SummaryResult,
    SummaryRun,
    UpstreamCall,
    Usage,
)
from trimtab.telemetry.savings import Ledger, gross_usd, run_usd

# Outcomes in which the upstream accepted the model's name, so it is a real one.
_SERVED = frozenset(("passed", "shaped", "observed", "bypassed"))
_ERRORS = frozenset(("upstream_rejected", "upstream_error", "overloaded", "abandoned", "failed"))
# Statuses that an operator acts on are counted by themselves: a key that is denied, a rate limit.
_OWN_CODES = {401: "401", 403: "403", 429: "429"}
_CODES = ("2xx", "3xx", "4xx", *_OWN_CODES.values(), "5xx", "none", "cancelled", "broken_off")
_TOKEN_KINDS = ("original", "sent", *STAGES, "compaction_in", "compaction_out")


class Series(dict[tuple[str, ...], Any]):
    """The series of one metric by label values; a new one is made on first use and starts at 0."""

    def __init__(self, metric: Metric, registry: CollectorRegistry) -> None:
        super().__init__()
        self._family = metric.register(registry)

    def __missing__(self, values: tuple[str, ...]) -> Any:
        child = self[values] = self._family.labels(*values) if values else self._family
        return child


class _Added(NamedTuple):
    """What some exchanges add to counters and to histograms. It is added up first: one call of the library takes as
    long as ten additions."""

    to: dict[Any, float]
    amounts: dict[Any, list[float]]


class Metrics:
    """All metrics of the catalogue in one registry. Not for use from several threads at once."""

    def __init__(self, registry: CollectorRegistry, labels: Labels, version: str = "") -> None:
        # Half as many series, and no dashboard reads the others. The library has no types here.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.labels = labels
        self._series = {metric.name: Series(metric, registry) for metric in names.CATALOGUE}
        self._ledgers: dict[str, Ledger] = defaultdict(Ledger)
        self._serve_cache: set[str] = set()
        self._known_models: set[str] = set()
        self._context_sizes: dict[tuple[str, str], int] = {}
        self._bind()
        self._start_at_zero()
        self._series[names.BUILD.name][(version,)].set(1)

    def _bind(self) -> None:
        of = self._series
        self._requests = of[names.REQUESTS.name]
        self._paths = of[names.PATHS.name]
        self._tokens = of[names.TOKENS.name]
        self._edits = of[names.EDITS.name]
        self._fill = of[names.WINDOW_FILL.name]
        self._usage = of[names.TOKEN_USAGE.name]
        self._cached = of[names.CACHED.name]
        self._cacheable = of[names.CACHEABLE.name]
        self._ratio = of[names.ESTIMATE_RATIO.name]
        self._responses = of[names.UPSTREAM_RESPONSES.name]
        self._duration = of[names.OPERATION_DURATION.name]
        self._ttft = of[names.TIME_TO_FIRST_TOKEN.name]
        self._shaping = of[names.SHAPING.name][()]
        self._overhead = of[names.OVERHEAD.name][()]

    def _start_at_zero(self) -> None:
        """Make series at 0: a rate over a counter misses the first step of a series that did not exist before."""
        for result in get_args(SummaryResult):
            if result != "none":
                _ = self._series[names.SUMMARIES.name][(result,)]
        for outcome in get_args(RunOutcome):
            _ = self._series[names.SUMMARIZER_CALLS.name][(outcome,)]
        for result in ("saved", "refused"):
            _ = self._series[names.SMALLER_TRIES.name][(result,)]
        for path in get_args(PathKind):
            _ = self._paths[(path,)]
        for part in PARTS:
            _ = self._series[names.FAIL_OPEN.name][(part,)]
        for stage in STAGES:
            _ = self._series[names.PREFIX_BREAK.name][(stage,)]
        self._start_model(OTHER)

    def _start_model(self, model: str) -> None:
        self._known_models.add(model)
        for outcome in get_args(Outcome):
            _ = self._requests[model, outcome]
        for kind in _TOKEN_KINDS:
            _ = self._tokens[model, kind]
        for stage in STAGES:
            _ = self._edits[model, stage]
        for name in (names.SAVED_USD.name, names.COMPACTION_USD.name):
            _ = self._series[name][(model,)]

    def start_upstream(self, upstream: str) -> None:
        """Make an upstream's series at 0, so that its first fault is seen as one."""
        for code in _CODES:
            _ = self._responses[upstream, code]
        for name in (names.RETRIES.name, names.OVERFLOW.name):
            _ = self._series[name][(upstream,)]

    def observe(self, *exchanges: Exchange) -> None:
        """Count exchanges. Takes microseconds for each and never raises."""
        added = _Added(defaultdict(float), defaultdict(list))
        for exchange in exchanges:
            self._observe(exchange, added)
        for counter, amount in added.to.items():
            counter.inc(amount)
        for histogram, amounts in added.amounts.items():
            histogram.observe_all(amounts)

    def _observe(self, exchange: Exchange, added: _Added) -> None:
        if exchange.outcome in _SERVED and 200 <= (exchange.upstream_status or 0) < 300:
            self.labels.admit(exchange.model)
        model = self.labels.label(exchange.model)
        if model not in self._known_models:
            self._start_model(model)
        added.to[self._requests[model, exchange.outcome]] += 1
        added.to[self._paths[(exchange.path,)]] += 1
        if exchange.tokens.original:
            self._observe_plan(exchange, model, added)
        if exchange.timing.shaping is not None:
            added.amounts[self._shaping].append(exchange.timing.shaping)
        if exchange.timing.overhead is not None:
            added.amounts[self._overhead].append(exchange.timing.overhead)
        if exchange.calls:
            self._observe_upstream(exchange, model, added)
        if exchange.usage is not None:
            self._observe_usage(exchange, exchange.usage, model, added)
        self._observe_rare(exchange, model)

    def _observe_plan(self, exchange: Exchange, model: str, added: _Added) -> None:
        tokens = exchange.tokens
        if tokens.sent:
            added.to[self._tokens[model, "original"]] += tokens.original
            added.to[self._tokens[model, "sent"]] += tokens.sent
        for edited in exchange.edits:
            added.to[self._edits[model, edited.stage]] += edited.count
            added.to[self._tokens[model, edited.stage]] += max(0, edited.tokens)
        if tokens.budget > 0:
            added.amounts[self._fill[model, "original"]].append(tokens.original / tokens.budget)
            if tokens.sent:
                added.amounts[self._fill[model, "sent"]].append(tokens.sent / tokens.budget)
        key = (exchange.upstream, model)
        if tokens.context_size and self._context_sizes.get(key) != tokens.context_size:
            self._context_sizes[key] = tokens.context_size
            self._series[names.CONTEXT_SIZE.name][key].set(tokens.context_size)

    def _observe_upstream(self, exchange: Exchange, model: str, added: _Added) -> None:
        upstream = exchange.upstream
        for call in exchange.calls:
            added.to[self._responses[call.upstream, _code(call)]] += 1
            if call.retries:
                added.to[self._series[names.RETRIES.name][(call.upstream,)]] += call.retries
        if exchange.overflow:
            added.to[self._series[names.OVERFLOW.name][(upstream,)]] += 1
        if exchange.path not in GENERATING:
            return
        error = exchange.outcome if exchange.outcome in _ERRORS else ""
        added.amounts[self._duration["chat", upstream, model, error]].append(exchange.timing.duration)
        if exchange.timing.upstream_ttfb is not None:
            added.amounts[self._ttft["chat", upstream, model]].append(exchange.timing.upstream_ttfb)

    def _observe_usage(self, exchange: Exchange, usage: Usage, model: str, added: _Added) -> None:
        if exchange.path in GENERATING:
            added.amounts[self._usage["chat", exchange.upstream, model, "input"]].append(usage.prompt)
            added.amounts[self._usage["chat", exchange.upstream, model, "output"]].append(usage.completion)
        if usage.cached is not None:
            added.to[self._cached[(model,)]] += max(0, usage.cached)
            added.to[self._cacheable[(model,)]] += max(0, usage.prompt)
            if usage.cached > 0:
                self._serve_cache.add(model)
        if exchange.estimate_ratio is not None:
            added.amounts[self._ratio[(model,)]].append(exchange.estimate_ratio)

    def _observe_rare(self, exchange: Exchange, model: str) -> None:
        if exchange.summary != "none":
            self._series[names.SUMMARIES.name][(exchange.summary,)].inc()
        if exchange.prefix_break:
            self._series[names.PREFIX_BREAK.name][(exchange.prefix_break,)].inc()
        if exchange.fail_open:
            self._series[names.FAIL_OPEN.name][(exchange.fail_open,)].inc()
        if exchange.outcome == "shaped":
            self._book(model, gross_usd(exchange, model in self._serve_cache))

    def upstream_call(self, call: UpstreamCall) -> None:
        """Count one call of our own of an upstream."""
        self._responses[call.upstream, _code(call)].inc()
        if call.retries:
            self._series[names.RETRIES.name][(call.upstream,)].inc(call.retries)

    def summary_run(self, run: SummaryRun) -> None:
        """Count one call of the summary model."""
        model = self.labels.label(run.model)
        self._series[names.SUMMARIZER_CALLS.name][(run.outcome,)].inc()
        self._series[names.SUMMARIZER_SECONDS.name][()].observe(run.seconds)
        self._tokens[model, "compaction_in"].inc(run.tokens_in)
        self._tokens[model, "compaction_out"].inc(run.tokens_out)
        cost = run_usd(run)
        self._series[names.COMPACTION_USD.name][(model,)].inc(cost)
        self._book(model, -cost)

    def _book(self, model: str, usd: float) -> None:
        if usd:
            self._series[names.SAVED_USD.name][(model,)].inc(self._ledgers[model].add(usd))

    def in_flight(self, requests: int, held: int, most: int) -> None:
        """The requests that are in flight now, the bytes of bodies that are held, and how many may be."""
        self._series[names.INFLIGHT.name][()].set(requests)
        self._series[names.INFLIGHT_BYTES.name][()].set(held)
        self._series[names.INFLIGHT_BYTES_LIMIT.name][()].set(most)

    def smaller_try(self, saved: bool) -> None:
        """A request was sent once more, smaller, after an overflow; `saved` when the upstream accepted it."""
        self._series[names.SMALLER_TRIES.name]["saved" if saved else "refused",].inc()

    def limit_event(self, kind: str) -> None:
        """Something was learned about a model's limit or counts, or was ignored: `limits.events.Kind`."""
        self._series[names.LIMIT_EVENTS.name][(kind,)].inc()

    def conversation(self, done: str, size: int, seconds: float) -> None:
        """Count a load, an append (both with the bytes of text and the seconds), a conflict of a stored
        conversation, or an answer of which nothing is stored."""
        self._series[names.CONVERSATIONS.name][(done,)].inc()
        if done in ("load", "append"):
            self._series[names.CONVERSATION_BYTES.name][(done,)].inc(size)
            self._series[names.CONVERSATION_SECONDS.name][(done,)].observe(seconds)

    def redis_error(self) -> None:
        """A call of Redis failed or took too long."""
        self._series[names.REDIS_ERRORS.name][()].inc()

    def redis_up(self, mode: str, up: bool) -> None:
        """Whether Redis (`mode`: `standalone`, `sentinel` or `cluster`) answers."""
        self._series[names.REDIS_UP.name][(mode,)].set(int(up))

    def calibrated(self, upstream: str, model: str, factor: float) -> None:
        """The factor of a model moved."""
        self._series[names.CALIBRATION.name][upstream, self.labels.label(model)].set(factor)


def _code(call: UpstreamCall) -> str:
    """How a call ended, as a bounded label: its status or the class of it, `none` without an answer, `cancelled`,
    `broken_off`."""
    if call.end != "answered":
        return call.end
    if call.status in _OWN_CODES:
        return _OWN_CODES[call.status]
    return f"{call.status // 100}xx" if 200 <= call.status < 600 else "none"
