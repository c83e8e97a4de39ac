"""Every metric there is: name, kind, labels, buckets, and the help text a scraper shows. No other file of the
package spells a metric's name; dashboards, alerts and `docs/metrics.md` are tested against this table.

Names and units follow Prometheus (base units, `_total`); where OpenTelemetry's GenAI conventions have a name
for the same thing, theirs is used, with their buckets and their attributes as labels.
(`promtool check metrics` allows no `_summary_` in a name: hence `summaries` and `summarizer`.)
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Literal

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# 50 µs is a request that was hardly looked at, 250 ms one that a person notices.
OVERHEAD_BUCKETS = (50e-6, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25)
# Around 1, where the estimate is right; 1.3 to 1.7 is what Claude models are before calibration.
RATIO_BUCKETS = (0.5, 0.65, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0)
FILL_BUCKETS = (0.1, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.5, 2.0, 4.0, 8.0, 16.0)
# The default wait for a summary is 20 s.
SUMMARY_BUCKETS = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0)
# OpenTelemetry semantic conventions, "Generative AI metrics": the advised bucket boundaries.
TOKEN_USAGE_BUCKETS = tuple(float(4**i) for i in range(14))
DURATION_BUCKETS = tuple(0.01 * 2**i for i in range(14))
TTFT_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

_GEN_AI = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")


class FastHistogram(Histogram):
    """A histogram that finds its bucket by bisection: the library's loop takes three times as long, and
    every exchange observes eight of them. NaN is not to be observed.
    """

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        self._sum.inc(amount)
        self._buckets[bisect_left(self._upper_bounds, amount)].inc(1)


GaugeMode = Literal["livesum", "livemin", "livemax", "livemostrecent"]


class Metric(Struct, frozen=True):
    """One line of the catalogue. `workers` says how a gauge is joined over several worker processes."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    workers: GaugeMode | None = None

    def register(self, registry: CollectorRegistry) -> Counter | Gauge | FastHistogram:
        """Make the family in `registry`. Raises ValueError when the name is taken there."""
        if self.buckets:
            return FastHistogram(self.name, self.help, self.labels, buckets=self.buckets, registry=registry)
        if self.workers:
            return Gauge(self.name, self.help, self.labels, multiprocess_mode=self.workers, registry=registry)
        return Counter(self.name, self.help, self.labels, registry=registry)


REQUESTS = Metric("trimtab_requests_total", "Requests by what became of them.", ("model", "outcome"))
TOKENS = Metric(
    "trimtab_tokens_total",
    "Tokens by kind: original and sent as estimated, those each stage took out, compaction_in and"
    " compaction_out as the summary model reported them.",
    ("model", "kind"),
)
EDITS = Metric("trimtab_edits_total", "Messages edited, by stage.", ("model", "stage"))
SHAPING = Metric("trimtab_shaping_seconds", "Time to plan and apply.", buckets=OVERHEAD_BUCKETS)
OVERHEAD = Metric(
    "trimtab_overhead_seconds",
    "Time added before the upstream is called, waiting for summaries not counted.",
    buckets=OVERHEAD_BUCKETS,
)
SUMMARIES = Metric(
    "trimtab_summaries_total",
    "Requests that wanted a summary, by what they got: hit, miss (made while waiting), fallback (dropped"
    " instead), background (being made for later).",
    ("result",),
)
SUMMARIZER_CALLS = Metric("trimtab_summarizer_calls_total", "Calls of the summary model.", ("outcome",))
SUMMARIZER_SECONDS = Metric(
    "trimtab_summarizer_seconds", "Duration of calls of the summary model.", buckets=SUMMARY_BUCKETS
)
CACHED = Metric(
    "trimtab_cached_tokens_total",
    "Prompt tokens the upstream says it served from its prefix cache.",
    ("model",),
)
CACHEABLE = Metric(
    "trimtab_cacheable_tokens_total",
    "Prompt tokens of the answers that say how many were cached: what to divide the cached ones by.",
    ("model",),
)
ESTIMATE_RATIO = Metric(
    "trimtab_estimate_ratio",
    "Prompt tokens as reported by the upstream over those estimated.",
    ("model",),
    RATIO_BUCKETS,
)
PREFIX_BREAK = Metric(
    "trimtab_prefix_break_total",
    "Requests that do not begin like the one before, so that the prefix cache is lost from there on.",
    ("reason",),
)
OVERFLOW = Metric("trimtab_overflow_total", "Answers of the upstream that say the request was too long.", ("upstream",))
SMALLER_TRIES = Metric(
    "trimtab_smaller_tries_total",
    "Requests sent once more, smaller, after the upstream said they were too long: saved, or refused again.",
    ("result",),
)
LIMIT_EVENTS = Metric(
    "trimtab_limit_events_total",
    "What was learned of models' limits and token counts, and what was not believed, by kind.",
    ("kind",),
)
REDIS_ERRORS = Metric("trimtab_redis_errors_total", "Calls of Redis that failed or took too long.")
REDIS_UP = Metric(
    "trimtab_redis_up",
    "1 while Redis answers, 0 while it is left alone after failures; absent without Redis.",
    ("mode",),
    workers="livemin",
)
SAVED_USD = Metric(
    "trimtab_saved_usd_total",
    "US dollars not spent on tokens not sent, net of what compaction cost (cautious: at the cached price"
    " where the upstream has a prefix cache).",
    ("model",),
)
COMPACTION_USD = Metric("trimtab_compaction_usd_total", "US dollars spent on summaries.", ("model",))
WINDOW_FILL = Metric(
    "trimtab_window_fill_ratio",
    "Tokens over the usable budget: original above 1 would not have fitted, sent is what went out.",
    ("model", "kind"),
    FILL_BUCKETS,
)
UPSTREAM_RESPONSES = Metric(
    "trimtab_upstream_responses_total",
    "Calls of an upstream by how it answered: 2xx, 3xx, 4xx, 429, 5xx, none (no answer),"
    " cancelled (the client went away first).",
    ("upstream", "code"),
)
RETRIES = Metric("trimtab_retries_total", "Calls of an upstream that were tried again.", ("upstream",))
FAIL_OPEN = Metric("trimtab_fail_open_total", "Requests served without a part of ours that had failed.", ("part",))
INFLIGHT = Metric("trimtab_inflight_requests", "Requests being served now.", workers="livesum")
CONTEXT_SIZE = Metric(
    "trimtab_context_size_tokens",
    "The context size in force for a model.",
    ("upstream", "model"),
    workers="livemostrecent",
)
CALIBRATION = Metric(
    "trimtab_calibration_factor",
    "What estimates are multiplied by, learned from reported usage.",
    ("upstream", "model"),
    workers="livemostrecent",
)
BUILD = Metric("trimtab_build_info", "Always 1; the label says the version.", ("version",), workers="livemax")
TOKEN_USAGE = Metric(
    "gen_ai_client_token_usage",
    "Tokens a call used as reported by the upstream (OpenTelemetry gen_ai.client.token.usage).",
    (*_GEN_AI, "gen_ai_token_type"),
    TOKEN_USAGE_BUCKETS,
)
OPERATION_DURATION = Metric(
    "gen_ai_client_operation_duration_seconds",
    "From the request's arrival to its last byte (OpenTelemetry gen_ai.client.operation.duration).",
    (*_GEN_AI, "error_type"),
    DURATION_BUCKETS,
)
TIME_TO_FIRST_TOKEN = Metric(
    "gen_ai_server_time_to_first_token_seconds",
    "From the call of the upstream to its first byte (OpenTelemetry gen_ai.server.time_to_first_token).",
    _GEN_AI,
    TTFT_BUCKETS,
)

CATALOGUE: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
