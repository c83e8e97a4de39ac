"""The panels of the dashboard. Each row answers a question of an operator, in the order they are asked; a panel has a
title, what it shows in plain English, its queries and its unit. Metric names come from the proxy's catalogue, so a
panel cannot outlive a metric.
"""

from __future__ import annotations

from msgspec import Struct

from trimtab.telemetry import catalogue as names

RATE = "[$__rate_interval]"
SCOPE = 'namespace=~"$namespace", job=~"$job"'
MODEL = f'{SCOPE}, model=~"$model"'
GEN_AI = f'{SCOPE}, gen_ai_request_model=~"$model"'


class Panel(Struct, frozen=True):
    """`queries` are (PromQL, legend). `kind` is Grafana's panel type; `width` is in its 24 columns."""

    title: str
    about: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    stack: bool = False
    most: float | None = None
    thresholds: tuple[tuple[float, str], ...] = ()


def rate(metric: names.Metric, where: str = MODEL, by: str = "", part: str = "") -> str:
    """The summed rate of a counter, or of one part of a histogram, by labels."""
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} (rate({metric.name}{part}{{{where}}}{RATE}))"


def increase(metric: names.Metric, where: str = MODEL) -> str:
    """How much a counter rose over the time shown."""
    return f"sum(increase({metric.name}{{{where}}}[$__range]))"


def quantile(share: float, metric: names.Metric, where: str = SCOPE, by: str = "") -> str:
    """A quantile of a histogram."""
    buckets = rate(metric, where, ", ".join(filter(None, ("le", by))), "_bucket")
    return f"histogram_quantile({share}, {buckets})"


def ratio(above: str, below: str) -> str:
    """A share that is empty, not NaN, where nothing happened."""
    return f"{above} / ({below} > 0)"


def quantiles(metric: names.Metric) -> tuple[tuple[str, str], ...]:
    """Median, 95th and 99th percentile of a histogram, as queries of a panel."""
    return tuple((quantile(share, metric), f"p{share * 100:g}") for share in (0.5, 0.95, 0.99))


_ANSWERS = rate(names.UPSTREAM_RESPONSES, f'{SCOPE}, code!="cancelled"')
_FAULTS = rate(names.UPSTREAM_RESPONSES, f'{SCOPE}, code=~"5xx|none"')
_ORIGINAL = increase(names.TOKENS, f'{MODEL}, kind="original"')
_SENT = increase(names.TOKENS, f'{MODEL}, kind="sent"')
_NOT_SENT = f"({_ORIGINAL} - {_SENT})"
_STAGE_KINDS = "truncated|cleared|summarized|dropped|squeezed"
_CACHED_SHARE = ratio(rate(names.CACHED, by="model"), rate(names.CACHEABLE, by="model"))
_RATIO_MEAN = ratio(
    rate(names.ESTIMATE_RATIO, by="model", part="_sum"), rate(names.ESTIMATE_RATIO, by="model", part="_count")
)
_FILL = f'sum by (le) (increase({names.WINDOW_FILL.name}_bucket{{{MODEL}, kind="original"}}{RATE}))'

_SHARE_FAILED = ((0.0, "green"), (0.01, "orange"), (0.05, "red"))
_OVERHEAD_S = ((0.0, "green"), (0.025, "orange"), (0.1, "red"))
_ANY_IS_BAD = ((0.0, "green"), (1.0, "red"))

ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    ("Is it healthy?", (
        Panel("Requests a second", "All requests of clients, with any outcome.",
              ((rate(names.REQUESTS), ""),), "reqps", "stat", 4),
        Panel("In flight", "Requests being served at this moment, in all replicas. Streams count until they end.",
              ((f"sum({names.INFLIGHT.name}{{{SCOPE}}})", ""),), "short", "stat", 4),
        Panel("Upstream failing", "Share of upstream calls that got a 5xx or no response. An alert fires above 5 %.",
              ((ratio(_FAULTS, _ANSWERS), ""),), "percentunit", "stat", 4, thresholds=_SHARE_FAILED),
        Panel("Overhead, p99", "Time the proxy itself adds before it calls the upstream; 99 of 100 requests get less.",
              ((quantile(0.99, names.OVERHEAD), ""),), "s", "stat", 4, thresholds=_OVERHEAD_S),
        Panel("Internal errors", "Requests that failed in the proxy itself. The log line `bug` has the place.",
              ((increase(names.REQUESTS, f'{MODEL}, outcome="failed"'), ""),), "short", "stat", 4,
              thresholds=_ANY_IS_BAD),
        Panel("Replicas by version", "Running replicas. Two versions at a time are normal during an upgrade.",
              ((f"count by (version) ({names.BUILD.name}{{{SCOPE}}})", "{{version}}"),), "short", "stat", 4),
        Panel("Requests by path", "chat, responses and messages are managed; plan is the plan endpoint; passthrough is"
              " any other path.",
              ((rate(names.PATHS, SCOPE, "path") + " > 0", "{{path}}"),), "reqps", width=24, stack=True),
        Panel("Requests by outcome", "passed: sent as received. shaped: sent with edits."
              " unmanaged: another path, or a conversation that the server holds. refused: cannot be made to fit."
              " upstream_rejected: 4xx. upstream_error: 5xx, no response, or broken off.",
              ((rate(names.REQUESTS, by="outcome") + " > 0", "{{outcome}}"),), "reqps", width=12, stack=True),
        Panel("Upstream responses", "Each call of an upstream by its status. none: no response at all. broken_off: the"
              " response began and did not end. cancelled: the client left first.",
              ((rate(names.UPSTREAM_RESPONSES, SCOPE, "upstream, code"), "{{upstream}} {{code}}"),), "reqps", width=12,
              stack=True),
        Panel("Request bodies held", "Bytes of request bodies in the fullest replica, and how many a replica may hold."
              " Beyond that clients get a 503.", (
            (f"max({names.INFLIGHT_BYTES.name}{{{SCOPE}}})", "held"),
            (f"min({names.INFLIGHT_BYTES_LIMIT.name}{{{SCOPE}}})", "may be held")), "bytes", width=12),
        Panel("Resident memory", "Memory of each replica. Near the container's limit the system kills the process.",
              ((f"process_resident_memory_bytes{{{SCOPE}}}", "{{instance}}"),), "bytes", width=12),
    )),
    ("What did it save?", (
        Panel("Tokens not sent", "Tokens the clients sent and the upstream did not get, over the time shown.",
              ((_NOT_SENT, ""),), "short", "stat", 6),
        Panel("Share of tokens not sent", "The same as a share of all tokens the clients sent.",
              ((ratio(_NOT_SENT, _ORIGINAL), ""),), "percentunit", "stat", 6),
        Panel("Saved, net of summaries", "US dollars not spent, less what summaries cost. A cautious figure: tokens"
              " count at the cached price where the upstream has a prefix cache.",
              ((increase(names.SAVED_USD), ""),), "currencyUSD", "stat", 6),
        Panel("Spent on summaries", "US dollars paid for calls of the summary model, over the time shown.",
              ((increase(names.COMPACTION_USD), ""),), "currencyUSD", "stat", 6),
        Panel("Tokens a second", "The gap between the two lines is what was saved.", (
            (rate(names.TOKENS, f'{MODEL}, kind="original"'), "received from clients"),
            (rate(names.TOKENS, f'{MODEL}, kind="sent"'), "sent upstream")), width=12),
        Panel("Saved an hour, net", "US dollars an hour at the rate of this moment, by model.",
              ((f"3600 * {rate(names.SAVED_USD, by='model')}", "{{model}}"),), "currencyUSD", width=12, stack=True),
    )),
    ("How near are conversations to their window?", (
        Panel("Conversations by share of the budget", "How many conversations have which size, as received. Those above"
              " 100 % fit only because they are shaped.", ((_FILL, "{{le}}"),), "percentunit", "heatmap", 12),
        Panel("Original and sent, p95", "Size of the largest conversations (19 of 20 are smaller) as a share of the"
              " budget, before and after shaping.", (
            (quantile(0.95, names.WINDOW_FILL, f'{MODEL}, kind="original"', "model"), "{{model}} original"),
            (quantile(0.95, names.WINDOW_FILL, f'{MODEL}, kind="sent"', "model"), "{{model}} sent")),
            "percentunit", width=8),
        Panel("Context size in use", "The window of each model, in tokens, as configured, discovered or learned.",
              ((f"max by (upstream, model) ({names.CONTEXT_SIZE.name}{{{MODEL}}})", "{{upstream}} {{model}}"),),
              "short", "bargauge", 4),
    )),
    ("Which edits, by model?", (
        Panel("Messages edited a second", "Messages truncated, cleared, summarized, dropped or squeezed, by model.",
              ((rate(names.EDITS, by="model, stage") + " > 0", "{{model}} {{stage}}"),), "short", width=12, stack=True),
        Panel("Tokens taken out a second", "How many tokens each stage took out of the requests.",
              ((rate(names.TOKENS, f'{MODEL}, kind=~"{_STAGE_KINDS}"', "kind") + " > 0", "{{kind}}"),), "short",
              width=12, stack=True),
    )),
    ("Is the prefix cache still hit?", (
        Panel("Cached share of prompt tokens", "Share of the prompt that the provider read from its cache, where it"
              " reports that. When it falls, costs rise: compare with the edits on the right.",
              ((_CACHED_SHARE, "{{model}}"),), "percentunit", width=12, most=1.0),
        Panel("Edits and prefix breaks a second", "A prefix break is a request that does not begin like the one before"
              " it in the same conversation: the cache is lost from there on.", (
            (rate(names.EDITS), "edits"),
            (rate(names.PREFIX_BREAK, SCOPE, "reason"), "break: {{reason}}")), width=12),
    )),
    ("What latency do we add?", (
        Panel("Overhead", "Time the proxy itself adds before it calls the upstream. Waiting for summaries is left out.",
              quantiles(names.OVERHEAD), "s"),
        Panel("Shaping", "The part of the overhead that plans and edits a conversation.",
              quantiles(names.SHAPING), "s"),
        Panel("Upstream: first byte and whole answer", "What the upstream takes, for comparison.", (
            (quantile(0.5, names.TIME_TO_FIRST_TOKEN, GEN_AI), "first byte p50"),
            (quantile(0.95, names.TIME_TO_FIRST_TOKEN, GEN_AI), "first byte p95"),
            (quantile(0.95, names.OPERATION_DURATION, GEN_AI), "whole p95")), "s"),
    )),
    ("Do summaries work?", (
        Panel("Summaries by result", "Requests that need a summary. hit: it was stored. miss: made while the request"
              " waited. fallback: none in time, the oldest turns were dropped. background: being made for later.",
              ((rate(names.SUMMARIES, SCOPE, "result"), "{{result}}"),), "reqps", stack=True),
        Panel("Calls of the summary model", "made: usable. rejected: empty, cut off or too long. failed: no answer.",
              ((rate(names.SUMMARIZER_CALLS, SCOPE, "outcome"), "{{outcome}}"),), "reqps", stack=True),
        Panel("Duration and tokens", "How long a call of the summary model takes, and what it reads and writes.", (
            (quantile(0.95, names.SUMMARIZER_SECONDS), "seconds p95"),
            (rate(names.TOKENS, f'{MODEL}, kind="compaction_in"'), "tokens read a second"),
            (rate(names.TOKENS, f'{MODEL}, kind="compaction_out"'), "tokens written a second"))),
    )),
    ("Does Redis answer?", (
        Panel("Redis answers", "1: it does. 0: at least one replica works without it. Empty: no Redis is configured.",
              ((f"min by (mode) ({names.REDIS_UP.name}{{{SCOPE}}})", "{{mode}}"),), "short", "stat",
              thresholds=((0.0, "red"), (1.0, "green"))),
        Panel("Failed or late calls a second", "Calls of Redis that failed or took longer than its time limit.",
              ((rate(names.REDIS_ERRORS, SCOPE), "errors"),), "reqps", width=16),
    )),
    ("Are stored conversations loaded and kept?", (
        Panel("Loads, appends and conflicts", "Histories loaded for requests and turns appended to them. conflict: a"
              " second request of a conversation at once, or a change meanwhile; its client gets a 409.",
              ((rate(names.CONVERSATIONS, SCOPE, "done"), "{{done}}"),), "reqps"),
        Panel("Bytes", "Text that was loaded and appended, before it is sealed.",
              ((rate(names.CONVERSATION_BYTES, SCOPE, "done"), "{{done}}"),), "Bps"),
        Panel("Time to load and to append", "With the store's answer. Requests wait for both.",
              ((quantile(0.95, names.CONVERSATION_SECONDS, SCOPE, "done"), "{{done}} p95"),), "s"),
    )),
    ("Overflow and refusals: decisions for people, not outages", (
        Panel("Refused: cannot be made to fit", "System prompt, tools and the current question alone exceed the budget."
              " The client gets an error that says what to do.",
              ((rate(names.REQUESTS, f'{MODEL}, outcome="refused"', "model"), "{{model}}"),), "reqps", width=6),
        Panel("Overflows reported by upstreams", "The upstream found a request too long. Each lowers the limit used"
              " from then on; many mean that a configured limit is wrong.",
              ((rate(names.OVERFLOW, SCOPE, "upstream"), "{{upstream}}"),), "reqps", width=6),
        Panel("Reported over estimated tokens", "Near 1 when calibration works. The factor is what estimates are"
              " multiplied by.", (
            (_RATIO_MEAN, "{{model}}"),
            (f"max by (model) ({names.CALIBRATION.name}{{{MODEL}}})", "{{model}} factor")), "short", width=6),
        Panel("Retries and fail-open", "Calls sent again before the first byte, and requests served without a part of"
              " the proxy that failed.", (
            (rate(names.RETRIES, SCOPE, "upstream"), "retried {{upstream}}"),
            (rate(names.FAIL_OPEN, SCOPE, "part"), "without {{part}}")), "reqps", width=6),
        Panel("Smaller retries after an overflow", "Requests sent once more, smaller: saved, or refused again.",
              ((rate(names.SMALLER_TRIES, SCOPE, "result"), "{{result}}"),), "reqps", width=12),
        Panel("Limit and calibration events", "Limits discovered and learned, calibration steps, reports not believed.",
              ((rate(names.LIMIT_EVENTS, SCOPE, "kind"), "{{kind}}"),), "reqps", width=12),
    )),
)  # fmt: skip
