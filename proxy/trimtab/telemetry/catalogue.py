"""Every metric: name, kind, labels, buckets, and the help text that a scraper shows. Only this module spells the name
of a metric; the dashboard, the alerts and docs/metrics.md are tested against it.

Names and units follow Prometheus (base units, `_total`). Where OpenTelemetry's conventions for generative AI name the
same thing, their name is used, with their buckets and with their attributes as labels. (`promtool check metrics`
forbids `_summary_` in a name: hence `summaries` and `summarizer`.)
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# Seconds: at 50 µs a request was passed on almost unread, 250 ms is what a person notices.
OVERHEAD_BUCKETS = (50e-6, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25)
# Fine around 1, where the estimate is right; Claude models are at 1.3 to 1.7 before calibration.
RATIO_BUCKETS = (0.5, 0.65, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0)
FILL_BUCKETS = (0.1, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.5, 2.0, 4.0, 8.0, 16.0)
# Seconds: the default wait for a summary is 20.
SUMMARY_BUCKETS = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0)
# OpenTelemetry semantic conventions, "Generative AI metrics": the advised bucket boundaries.
TOKEN_USAGE_BUCKETS = tuple(float(4**i) for i in range(14))
DURATION_BUCKETS = tuple(0.01 * 2**i for i in range(14))
TTFT_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

_GEN_AI = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")


class FastHistogram(Histogram):
    """A histogram that finds its bucket by bisection, and counts several amounts in one go: the library's loop takes
    three times as long, and every exchange is observed by nine histograms."""

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        """Count `amount`, which must not be NaN. Exemplars are not kept."""
        self.observe_all((amount,))

    def observe_all(self, amounts: Sequence[float]) -> None:
        """Count several amounts at once."""
        self._sum.inc(sum(amounts))
        for bucket, count in Tally(map(partial(bisect_left, self._upper_bounds), amounts)).items():
            self._buckets[bucket].inc(count)


class Metric(Struct, frozen=True):
    """One metric: a histogram when it has `buckets`, a gauge when `gauge`, else a counter."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    gauge: bool = False

    def register(self, registry: CollectorRegistry) -> Counter | Gauge | FastHistogram:
        """Make the metric in `registry`. Raises ValueError when the registry has one of that name."""
        if self.buckets:
            return FastHistogram(self.name, self.help, self.labels, buckets=self.buckets, registry=registry)
        kind = Gauge if self.gauge else Counter
        return kind(self.name, self.help, self.labels, registry=registry)


PATHS = Metric("trimtab_paths_total", "Requests by path: a dialect, the plan endpoint, any other.", ("path",))
REQUESTS = Metric("trimtab_requests_total", "Requests by outcome.", ("model", "outcome"))
TOKENS = Metric(
    "trimtab_tokens_total",
    "Tokens by kind: original and sent of the requests that were sent, and what each stage removed, as estimated;"
    " compaction_in and compaction_out as the summary model reported them.",
    ("model", "kind"),
)
EDITS = Metric("trimtab_edits_total", "Messages edited, by stage.", ("model", "stage"))
SHAPING = Metric("trimtab_shaping_seconds", "Time to plan, a part of the overhead.", buckets=OVERHEAD_BUCKETS)
OVERHEAD = Metric(
    "trimtab_overhead_seconds",
    "Time the proxy adds before it calls the upstream, without the waits for the client's body, limits and a summary.",
    buckets=OVERHEAD_BUCKETS,
)
SUMMARIES = Metric(
    "trimtab_summaries_total",
    "Requests that needed a summary, by result: hit (found in the store), miss (made while the request waited),"
    " fallback (messages dropped instead), background (being made for a later request).",
    ("result",),
)
SUMMARIZER_CALLS = Metric(
    "trimtab_summarizer_calls_total",
    "Calls of the summary model, by outcome: made, rejected (the answer was not usable), failed (no answer).",
    ("outcome",),
)
SUMMARIZER_SECONDS = Metric(
    "trimtab_summarizer_seconds", "Duration of calls of the summary model.", buckets=SUMMARY_BUCKETS
)
CACHED = Metric(
    "trimtab_cached_tokens_total",
    "Prompt tokens that the upstream read from its prefix cache, as it reports.",
    ("model",),
)
CACHEABLE = Metric(
    "trimtab_cacheable_tokens_total",
    "Prompt tokens of the answers that report cached tokens: divide the cached tokens by these.",
    ("model",),
)
ESTIMATE_RATIO = Metric(
    "trimtab_estimate_ratio",
    "Prompt tokens counted by the upstream, divided by those estimated.",
    ("model",),
    RATIO_BUCKETS,
)
PREFIX_BREAK = Metric(
    "trimtab_prefix_break_total",
    "Requests for which shaping changed messages that earlier requests had sent, by the stage that did it first: the"
    " prefix cache serves only what is before them.",
    ("reason",),
)
OVERFLOW = Metric("trimtab_overflow_total", "Answers of an upstream that say the prompt is too long.", ("upstream",))
SMALLER_TRIES = Metric(
    "trimtab_smaller_tries_total",
    "Requests sent once more, smaller, after an overflow or a 413, by result: saved, or refused again.",
    ("result",),
)
LIMIT_EVENTS = Metric(
    "trimtab_limit_events_total",
    "What was learned about limits and token counts, and what was ignored, by kind.",
    ("kind",),
)
REDIS_ERRORS = Metric("trimtab_redis_errors_total", "Calls of Redis that failed or took too long.")
REDIS_UP = Metric(
    "trimtab_redis_up",
    "1 while Redis answers, 0 while the circuit breaker is open; absent without Redis.",
    ("mode",),
    gauge=True,
)
CONVERSATIONS = Metric(
    "trimtab_conversations_total",
    "Stored conversations: load and append of a history, conflict (a second request at once, or a change meanwhile), "
    "unstored (an answer of which nothing is stored).",
    ("done",),
)
CONVERSATION_BYTES = Metric(
    "trimtab_conversation_bytes_total", "Bytes of the text that was loaded and appended, before sealing.", ("done",)
)
CONVERSATION_SECONDS = Metric(
    "trimtab_conversation_seconds", "Time to load and to append, with the store's answer.", ("done",), OVERHEAD_BUCKETS
)
SAVED_USD = Metric(
    "trimtab_saved_usd_total",
    "US dollars not spent on tokens that were not sent, minus the cost of summaries. Tokens count at the cached price"
    " where the upstream has a prefix cache.",
    ("model",),
)
COMPACTION_USD = Metric("trimtab_compaction_usd_total", "US dollars spent on summaries.", ("model",))
WINDOW_FILL = Metric(
    "trimtab_window_fill_ratio",
    "Tokens divided by the budget, by kind: original (above 1 it would not fit) and sent.",
    ("model", "kind"),
    FILL_BUCKETS,
)
UPSTREAM_RESPONSES = Metric(
    "trimtab_upstream_responses_total",
    "Calls of an upstream, those of the summary model included, by status: 2xx, 3xx, 4xx, 401, 403, 429, 5xx, none (no"
    " answer), broken_off (the answer began and did not end), cancelled (the client disconnected first).",
    ("upstream", "code"),
)
RETRIES = Metric("trimtab_retries_total", "Calls of an upstream that were retried.", ("upstream",))
FAIL_OPEN = Metric("trimtab_fail_open_total", "Requests served without a part of the proxy that failed.", ("part",))
INFLIGHT = Metric("trimtab_inflight_requests", "Requests in progress.", gauge=True)
INFLIGHT_BYTES = Metric("trimtab_inflight_bytes", "Bytes of request bodies held now.", gauge=True)
INFLIGHT_BYTES_LIMIT = Metric(
    "trimtab_inflight_bytes_limit", "Bytes of request bodies that may be held at once; beyond it: 503.", gauge=True
)
CONTEXT_SIZE = Metric(
    "trimtab_context_size_tokens", "The context size in use for a model.", ("upstream", "model"), gauge=True
)
CALIBRATION = Metric(
    "trimtab_calibration_factor",
    "Tokens the upstream counts, divided by tokens we estimate, as learned from its counts.",
    ("upstream", "model"),
    gauge=True,
)
BUILD = Metric("trimtab_build_info", "Always 1; the label is the version.", ("version",), gauge=True)
TOKEN_USAGE = Metric(
    "gen_ai_client_token_usage",
    "Tokens used by a call, as the upstream reports (OpenTelemetry gen_ai.client.token.usage).",
    (*_GEN_AI, "gen_ai_token_type"),
    TOKEN_USAGE_BUCKETS,
)
OPERATION_DURATION = Metric(
    "gen_ai_client_operation_duration_seconds",
    "Time from a request's arrival to the last byte of its answer (OpenTelemetry gen_ai.client.operation.duration).",
    (*_GEN_AI, "error_type"),
    DURATION_BUCKETS,
)
TIME_TO_FIRST_TOKEN = Metric(
    "gen_ai_server_time_to_first_token_seconds",
    "Time from the call of the upstream to its first byte (OpenTelemetry gen_ai.server.time_to_first_token).",
    _GEN_AI,
    TTFT_BUCKETS,
)

CATALOGUE: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
