"""Writes `dashboards/trimtab.json`: `python -m helm.dashboard`. Each row answers a question of an operator, in the
order they are asked; it is a table of panels, each with its title, its queries and its unit. Metric names come from
the proxy's catalogue, so a panel cannot outlive a metric.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import Struct

from trimtab.telemetry import catalogue as names

HERE = Path(__file__).parent
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
RATE = "[$__rate_interval]"
SCOPE = 'job=~"$job"'
MODEL = f'{SCOPE}, model=~"$model"'
GEN_AI = f'{SCOPE}, gen_ai_request_model=~"$model"'

Json = dict[str, Any]


class Panel(Struct, frozen=True):
    """`queries` are (PromQL, legend). `kind` is Grafana's panel type; `width` of 24 columns."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    about: str = ""
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
    return tuple((quantile(share, metric), f"p{share * 100:g}") for share in (0.5, 0.95, 0.99))


_ANSWERS = rate(names.UPSTREAM_RESPONSES, SCOPE)
_FAULTS = rate(names.UPSTREAM_RESPONSES, f'{SCOPE}, code=~"5xx|none"')
_ORIGINAL = increase(names.TOKENS, f'{MODEL}, kind="original"')
_SENT = increase(names.TOKENS, f'{MODEL}, kind="sent"')
_NOT_SENT = f"({_ORIGINAL} - {_SENT})"
_STAGE_KINDS = "truncated|cleared|summarized|dropped|squeezed"
_CACHED_SHARE = ratio(rate(names.CACHED, by="model"), rate(names.CACHEABLE, by="model"))
_RATIO_MEAN = ratio(
    rate(names.ESTIMATE_RATIO, by="model", part="_sum"), rate(names.ESTIMATE_RATIO, by="model", part="_count")
)

GOOD_BELOW = ((0.0, "green"), (0.01, "orange"), (0.05, "red"))

ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    ("Is it healthy?", (
        Panel("Requests a second", ((rate(names.REQUESTS), ""),), "reqps", "stat", 4),
        Panel("In flight", ((f"sum({names.INFLIGHT.name}{{{SCOPE}}})", ""),), "short", "stat", 4),
        Panel("Upstream failing", ((ratio(_FAULTS, _ANSWERS), ""),), "percentunit", "stat", 4,
              "Share of upstream calls with a 5xx response or none.", thresholds=GOOD_BELOW),
        Panel("Overhead, p99", ((quantile(0.99, names.OVERHEAD), ""),), "s", "stat", 4,
              "Time the proxy spends before it calls the upstream.",
              thresholds=((0.0, "green"), (0.025, "orange"), (0.1, "red"))),
        Panel("Internal errors", ((increase(names.REQUESTS, f'{MODEL}, outcome="failed"'), ""),), "short", "stat", 4,
              "Requests that failed in the proxy itself; see the log line `bug`.",
              thresholds=((0.0, "green"), (1.0, "red"))),
        Panel("Replicas by version", ((f"count by (version) ({names.BUILD.name}{{{SCOPE}}})", "{{version}}"),),
              "short", "stat", 4),
        Panel("Requests by outcome", ((rate(names.REQUESTS, by="outcome") + " > 0", "{{outcome}}"),), "reqps",
              width=12, stack=True),
        Panel("Upstream responses", ((rate(names.UPSTREAM_RESPONSES, SCOPE, "upstream, code"),
                                            "{{upstream}} {{code}}"),), "reqps", width=12, stack=True),
    )),
    ("What did it save?", (
        Panel("Tokens not sent", ((_NOT_SENT, ""),), "short", "stat", 6),
        Panel("Share of tokens not sent", ((ratio(_NOT_SENT, _ORIGINAL), ""),), "percentunit", "stat", 6),
        Panel("Saved, net of summaries", ((increase(names.SAVED_USD), ""),), "currencyUSD", "stat", 6,
              "Cautious: at the cached price where the upstream has a prefix cache."),
        Panel("Spent on summaries", ((increase(names.COMPACTION_USD), ""),), "currencyUSD", "stat", 6),
        Panel("Tokens a second", (
            (rate(names.TOKENS, f'{MODEL}, kind="original"'), "sent by clients"),
            (rate(names.TOKENS, f'{MODEL}, kind="sent"'), "sent upstream")), width=12),
        Panel("Saved an hour, net", ((f"3600 * {rate(names.SAVED_USD, by='model')}", "{{model}}"),), "currencyUSD",
              width=12, stack=True),
    )),
    ("How near are conversations to their window?", (
        Panel("Conversations by share of the budget", (
            (f"sum by (le) (increase({names.WINDOW_FILL.name}_bucket{{{MODEL}, kind=\"original\"}}{RATE}))", "{{le}}"),
        ), "percentunit", "heatmap", 12, "Above 100 % a conversation fits only because it is shaped."),
        Panel("Original and sent, p95", (
            (quantile(0.95, names.WINDOW_FILL, f'{MODEL}, kind="original"', "model"), "{{model}} original"),
            (quantile(0.95, names.WINDOW_FILL, f'{MODEL}, kind="sent"', "model"), "{{model}} sent")),
            "percentunit", width=8),
        Panel("Context size in force", ((f"max by (upstream, model) ({names.CONTEXT_SIZE.name}{{{MODEL}}})",
                                         "{{upstream}} {{model}}"),), "short", "bargauge", 4),
    )),
    ("Which edits, by model?", (
        Panel("Messages edited a second", ((rate(names.EDITS, by="model, stage") + " > 0", "{{model}} {{stage}}"),),
              "short", width=12, stack=True),
        Panel("Tokens taken out a second", (
            (rate(names.TOKENS, f'{MODEL}, kind=~"{_STAGE_KINDS}"', "kind") + " > 0", "{{kind}}"),),
            "short", width=12, stack=True),
    )),
    ("Is the prefix cache still hit?", (
        Panel("Cached share of prompt tokens", ((_CACHED_SHARE, "{{model}}"),), "percentunit", width=12,
              about="Only answers that report cached tokens. Compare with the edits on the right.",
              most=1.0),
        Panel("Edits and prefix breaks a second", (
            (rate(names.EDITS), "edits"),
            (rate(names.PREFIX_BREAK, SCOPE, "reason"), "break: {{reason}}")), width=12),
    )),
    ("What latency do we add?", (
        Panel("Overhead", quantiles(names.OVERHEAD), "s", about="Time the proxy spends before it calls the upstream."),
        Panel("Shaping", quantiles(names.SHAPING), "s", about="Time to plan; part of the overhead."),
        Panel("Upstream: first byte and whole answer", (
            (quantile(0.5, names.TIME_TO_FIRST_TOKEN, GEN_AI), "first byte p50"),
            (quantile(0.95, names.TIME_TO_FIRST_TOKEN, GEN_AI), "first byte p95"),
            (quantile(0.95, names.OPERATION_DURATION, GEN_AI), "whole p95")), "s"),
    )),
    ("Do summaries work?", (
        Panel("Summaries by result", ((rate(names.SUMMARIES, SCOPE, "result"), "{{result}}"),), "reqps", stack=True,
              about="hit: stored. miss: made while the request waited. fallback: dropped. background: made for later."),
        Panel("Calls of the summary model", ((rate(names.SUMMARIZER_CALLS, SCOPE, "outcome"), "{{outcome}}"),),
              "reqps", stack=True),
        Panel("Duration and tokens", (
            (quantile(0.95, names.SUMMARIZER_SECONDS), "seconds p95"),
            (rate(names.TOKENS, f'{MODEL}, kind="compaction_in"'), "tokens read a second"),
            (rate(names.TOKENS, f'{MODEL}, kind="compaction_out"'), "tokens written a second"))),
    )),
    ("Does Redis answer?", (
        Panel("Redis answers", ((f"min by (mode) ({names.REDIS_UP.name}{{{SCOPE}}})", "{{mode}}"),), "short", "stat",
              about="1 or 0; empty when none is configured.", thresholds=((0.0, "red"), (1.0, "green"))),
        Panel("Failed or late calls a second", ((rate(names.REDIS_ERRORS, SCOPE), "errors"),), "reqps", width=16),
    )),
    ("Overflow and refusals: decisions for people, not outages", (
        Panel("Refused: cannot be made to fit", (
            (rate(names.REQUESTS, f'{MODEL}, outcome="refused"', "model"), "{{model}}"),), "reqps", width=6),
        Panel("Overflows reported by upstreams", ((rate(names.OVERFLOW, SCOPE, "upstream"), "{{upstream}}"),), "reqps",
              width=6, about="Each lowers the limit used from then on; many mean that a configured limit is wrong."),
        Panel("Reported over estimated tokens", (
            (_RATIO_MEAN, "{{model}}"),
            (f"max by (model) ({names.CALIBRATION.name}{{{MODEL}}})", "{{model}} factor")), "short", width=6,
            about="Near 1 when calibrated; the factor is what estimates are multiplied by."),
        Panel("Retries and fail-open", (
            (rate(names.RETRIES, SCOPE, "upstream"), "retried {{upstream}}"),
            (rate(names.FAIL_OPEN, SCOPE, "part"), "without {{part}}")), "reqps", width=6),
        Panel("Smaller retries after an overflow", ((rate(names.SMALLER_TRIES, SCOPE, "result"), "{{result}}"),),
              "reqps", width=12, about="Requests that were sent once more, smaller: saved, or refused again."),
        Panel("Limit and calibration events", ((rate(names.LIMIT_EVENTS, SCOPE, "kind"), "{{kind}}"),), "reqps",
              width=12, about="Limits discovered and learned, calibration steps, reports ignored."),
    )),
)  # fmt: skip


def _panel(panel: Panel, number: int, x: int, y: int, height: int) -> Json:
    defaults: Json = {"unit": panel.unit, "min": 0, "color": {"mode": "palette-classic"}}
    if panel.most is not None:
        defaults["max"] = panel.most
    if panel.thresholds:
        steps = [{"color": color, "value": value or None} for value, color in panel.thresholds]
        defaults |= {"thresholds": {"mode": "absolute", "steps": steps}, "color": {"mode": "thresholds"}}
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "fillOpacity": 30 if panel.stack else 0,
            "lineWidth": 1,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stack else "none", "group": "A"},
        }
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": height},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": OPTIONS[panel.kind],
        "targets": [_target(panel, index, *query) for index, query in enumerate(panel.queries)],
    }


def _target(panel: Panel, index: int, query: str, legend: str) -> Json:
    return {
        "refId": chr(ord("A") + index),
        "datasource": SOURCE,
        "expr": query,
        "legendFormat": legend or "__auto",
        "format": "heatmap" if panel.kind == "heatmap" else "time_series",
        "instant": "$__range" in query,
        "range": "$__range" not in query,
    }


_LAST = {"calcs": ["lastNotNull"], "fields": "", "values": False}
OPTIONS: dict[str, Json] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {"reduceOptions": _LAST, "colorMode": "value", "graphMode": "area", "textMode": "auto"},
    "bargauge": {"reduceOptions": _LAST, "orientation": "horizontal", "displayMode": "basic"},
    "heatmap": {
        "calculate": False,
        "yAxis": {"unit": "percentunit"},
        "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
        "cellGap": 1,
    },
}


def _row(title: str, number: int, y: int) -> Json:
    return {
        "id": number,
        "type": "row",
        "title": title,
        "collapsed": False,
        "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
        "panels": [],
    }


def panels() -> list[Json]:
    """Rows and panels, laid out left to right; a line is as high as its highest panel."""
    placed: list[Json] = []
    y = 0
    for title, row in ROWS:
        placed.append(_row(title, len(placed) + 1, y))
        x, y, height = 0, y + 1, 0
        for panel in row:
            if x + panel.width > 24:
                x, y, height = 0, y + height, 0
            own = 4 if panel.kind == "stat" and panel.width < 8 else 8
            placed.append(_panel(panel, len(placed) + 1, x, y, own))
            x, height = x + panel.width, max(height, own)
        y += height
    return placed


def _variable(name: str, label: str, query: str) -> Json:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "options": [],
    }


def built() -> Json:
    """The dashboard."""
    source = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "current": {},
        "options": [],
    }
    build, requests = names.BUILD.name, names.REQUESTS.name
    variables = [
        source,
        _variable("job", "Job", f"label_values({build}, job)"),
        _variable("model", "Model", f'label_values({requests}{{job=~"$job"}}, model)'),
    ]
    return {
        "uid": "trimtab",
        "title": "Trimtab",
        "description": "Conversations kept in their window: is it healthy, what did it save, what did it cost.",
        "tags": ["llm", "trimtab"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timepicker": {},
        "timezone": "browser",
        "templating": {"list": variables},
        "annotations": {"list": []},
        "links": [],
        "panels": panels(),
    }


def text() -> str:
    """The file's content."""
    return json.dumps(built(), indent=1) + "\n"


if __name__ == "__main__":
    (HERE / "dashboards" / "trimtab.json").write_text(text())
