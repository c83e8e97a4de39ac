"""Every fault an operator may meet, and what each has to leave behind: the series, the alerts and the log line.

A row is complete without the others: how the fault is caused, the request that meets it, and what is expected. The
metric names and their label values are the ones the alerts and `docs/metrics.md` use.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tests.support.scripted import CLOSE, STALL, Pause, Script, json_reply, sse_reply

Body = dict[str, Any]

_EVENT = b'{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Half of an "}}]}'
_ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
}
_RUNS = itertools.count()


def _error(status: int, message: str, kind: str) -> Script:
    return json_reply({"error": {"message": message, "type": kind, "code": kind}}, status)


def question(model: str) -> Body:
    """A short request to a model."""
    return {"model": model, "messages": [{"role": "user", "content": "Is anybody there?"}]}


def streamed(model: str) -> Body:
    """The same, as a stream."""
    return {**question(model), "stream": True}


def long_chat(model: str) -> Body:
    """A conversation above a window of 8,000 tokens; no two are alike, so no summary serves twice."""
    run = next(_RUNS)
    messages: list[Body] = [{"role": "system", "content": "You help."}]
    for turn in range(40):
        messages.append({"role": "user", "content": f"{run}, question {turn}: " + "why is that so? " * 40})
        messages.append({"role": "assistant", "content": f"Answer {turn}. " + "Because of this and that. " * 30})
    return {"model": model, "messages": [*messages, {"role": "user", "content": "And now?"}]}


class Fault(Struct, frozen=True, kw_only=True):
    """One fault. `script` is how the upstream of that name behaves; without one, nothing listens there. `request`
    makes a body that meets the fault. Each of `series` is PromQL that must be above 0, each of `alerts` one that must
    fire, and `log` the fields one line of the log must have: a value, or True for any value.
    """

    name: str
    cause: str
    series: tuple[str, ...]
    alerts: tuple[str, ...] = ()
    log: Body = {}
    upstream: str = ""
    base_url: str = "http://127.0.0.1:{port}/v1"
    script: Script | None = None
    request: Callable[[str], Body] = question
    leaves_after_s: float | None = None  # seconds after which the client goes away
    clients: int = 1  # that ask at the same time
    overload: bool = False  # asks the proxy that takes one request at a time


def _responses(upstream: str, code: str) -> str:
    return f'trimtab_upstream_responses_total{{upstream="{upstream}", code="{code}"}}'


def _retries(upstream: str) -> str:
    return f'trimtab_retries_total{{upstream="{upstream}"}}'


def _alert(name: str, upstream: str) -> str:
    return f'{name}{{upstream="{upstream}"}}'


_FAILED: Body = {"level": "warning", "outcome": "upstream_error", "error_code": True}

FAULTS = (
    Fault(
        name="closed port",
        cause="nothing listens on the upstream's port",
        upstream="closed",
        series=(_responses("closed", "none"), _retries("closed")),
        alerts=(_alert("TrimtabUpstreamFailing", "closed"),),
        log={**_FAILED, "upstream": "closed", "status": 502, "retries": True},
    ),
    Fault(
        name="unknown host",
        cause="the upstream's host name cannot be resolved",
        upstream="unknown",
        base_url="http://no-such-host.invalid/v1",
        series=(_responses("unknown", "none"), _retries("unknown")),
        alerts=(_alert("TrimtabUpstreamFailing", "unknown"),),
        log={**_FAILED, "upstream": "unknown", "status": 502, "retries": True},
    ),
    Fault(
        name="silent server",
        cause="the upstream takes the request and sends nothing",
        upstream="silent",
        script=[STALL],
        clients=3,  # each call takes two seconds, and the alert wants five within a window
        series=(_responses("silent", "none"),),
        alerts=(_alert("TrimtabUpstreamFailing", "silent"),),
        log={**_FAILED, "upstream": "silent", "status": 504},
    ),
    Fault(
        name="closing server",
        cause="the upstream closes the connection instead of an answer",
        upstream="closing",
        script=[CLOSE],
        series=(_responses("closing", "none"),),
        alerts=(_alert("TrimtabUpstreamFailing", "closing"),),
        log={**_FAILED, "upstream": "closing", "status": 502},
    ),
    Fault(
        name="5xx",
        cause="the upstream answers 503",
        upstream="failing",
        script=_error(503, "try later", "server_error"),
        series=(_responses("failing", "5xx"), _retries("failing")),
        alerts=(_alert("TrimtabUpstreamFailing", "failing"),),
        log={"level": "warning", "outcome": "upstream_error", "upstream": "failing", "upstream_status": 503},
    ),
    Fault(
        name="401",
        cause="the upstream does not know the key",
        upstream="revoked",
        script=_error(401, "Incorrect API key provided", "invalid_api_key"),
        series=(_responses("revoked", "401"),),
        alerts=(_alert("TrimtabUpstreamDeniesAccess", "revoked"),),
        log={"outcome": "upstream_rejected", "upstream": "revoked", "upstream_status": 401, "error_code": True},
    ),
    Fault(
        name="403",
        cause="the key may not use the model",
        upstream="forbidden",
        script=_error(403, "You do not have access to this model", "model_not_allowed"),
        series=(_responses("forbidden", "403"),),
        alerts=(_alert("TrimtabUpstreamDeniesAccess", "forbidden"),),
        log={"outcome": "upstream_rejected", "upstream": "forbidden", "upstream_status": 403, "error_code": True},
    ),
    Fault(
        name="429",
        cause="the quota of the key is used up",
        upstream="limited",
        script=_error(429, "Rate limit reached", "rate_limit_exceeded"),
        series=(_responses("limited", "429"),),
        alerts=(_alert("TrimtabUpstreamRateLimited", "limited"),),
        log={"outcome": "upstream_rejected", "upstream": "limited", "upstream_status": 429, "error_code": True},
    ),
    Fault(
        name="broken-off stream",
        cause="the upstream closes the connection in the middle of a stream",
        upstream="breaking",
        script=sse_reply(_EVENT, Pause(0.1), CLOSE),
        request=streamed,
        series=(_responses("breaking", "broken_off"),),
        alerts=(_alert("TrimtabAnswersBrokenOff", "breaking"),),
        log={"level": "warning", "outcome": "upstream_error", "upstream": "breaking", "upstream_status": 200},
    ),
    Fault(
        name="client leaves",
        cause="the client closes the connection before the answer comes",
        upstream="slow",
        script=[STALL],
        leaves_after_s=0.5,
        series=(_responses("slow", "cancelled"),),
        log={"level": "info", "outcome": "abandoned", "upstream": "slow"},
    ),
    Fault(
        name="summary model fails",
        cause="the upstream of the summary model answers 500",
        upstream="summaries",
        script=_error(500, "out of order", "server_error"),
        request=lambda _: long_chat("long"),
        series=(
            'trimtab_summarizer_calls_total{outcome="failed"}',
            'trimtab_summaries_total{result="fallback"}',
            'trimtab_tokens_total{kind="dropped"}',
            _responses("summaries", "5xx"),
        ),
        alerts=("TrimtabSummariesFailing",),
        log={"summary": "fallback", "model": "long", "dropped": True, "summary_cause": True},
    ),
    Fault(
        name="Redis down",
        cause="the Redis server is killed",
        upstream="good",
        script=json_reply(_ANSWER),
        request=lambda _: long_chat("good"),
        series=("trimtab_redis_errors_total", "trimtab_redis_up == bool 0"),
        alerts=("TrimtabRedisDown",),
        log={"level": "warning", "event": "redis"},
    ),
    Fault(
        name="overload",
        cause="more requests at once than max_in_flight",
        upstream="busy",
        script=[Pause(0.3), *json_reply(_ANSWER)],
        clients=4,
        overload=True,
        series=('trimtab_requests_total{outcome="overloaded"}',),
        alerts=("TrimtabOverloaded",),
        log={"level": "warning", "outcome": "overloaded", "status": 503},
    ),
)
