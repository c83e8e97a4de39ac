"""What the log says of one exchange: its level and its fields.

The record that they come from holds no text of a conversation and no key. Names that a client chose are cut, and words
of a path that are not the APIs' own are not written: they may be anything.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from trimtab.telemetry.record import Exchange

LONGEST = 128
"""Characters of a name that comes from a client."""

_value = itemgetter(1)
_LEVELS = {"failed": "error", "upstream_error": "warning", "overloaded": "warning"}


def level(exchange: Exchange) -> str:
    """The level of its line: error, warning or info."""
    return _LEVELS.get(exchange.outcome, "warning" if exchange.fail_open else "info")


# Segments of the APIs' paths. Any other may be a client's own word, and is logged as `*`.
_SEGMENTS = frozenset(
    [
        "v1",
        "v1beta",
        "api",
        "chat",
        "completions",
        "responses",
        "messages",
        "count_tokens",
        "models",
        "embeddings",
        "images",
        "generations",
        "edits",
        "audio",
        "speech",
        "transcriptions",
        "translations",
        "files",
        "batches",
        "moderations",
        "rerank",
        "assistants",
        "threads",
        "runs",
        "vector_stores",
        "conversations",
        "items",
        "input_items",
        "fine_tuning",
        "jobs",
        "uploads",
        "realtime",
        "props",
        "tokenize",
        "detokenize",
        "context",
        "plan",
    ]
)


def _known_words(path: str) -> str:
    """The path with each segment that is not a word of the APIs as `*`."""
    return "/".join(s if not s or s in _SEGMENTS else "*" for s in path[:LONGEST].split("/"))


def fields(exchange: Exchange) -> dict[str, Any]:
    """The record as flat log fields: tokens, and seconds rounded to 10 µs. Empty fields are left out."""
    tokens, timing, usage = exchange.tokens, exchange.timing, exchange.usage
    found = {
        "request_id": exchange.request_id[:LONGEST],
        "trace_id": exchange.trace_id,
        "path": exchange.path,
        "method": exchange.method[:LONGEST],
        "endpoint": exchange.endpoint and _known_words(exchange.endpoint),
        "outcome": exchange.outcome,
        "status": exchange.status,
        "model": exchange.model[:LONGEST],
        "upstream": exchange.upstream,
        "upstream_request_id": exchange.upstream_request_id[:LONGEST],
        "upstream_status": exchange.upstream_status,
        "stream": exchange.stream,
        "profile": exchange.profile,
        "hint": exchange.hint,
        "tokens_original": tokens.original,
        "tokens_sent": tokens.sent,
        "budget": tokens.budget,
        "context_size": tokens.context_size,
        "limit_source": tokens.limit_source,
        "summary": "" if exchange.summary == "none" else exchange.summary,
        "summary_cause": exchange.summary_cause,
        "compaction_in": exchange.compaction.tokens_in,
        "compaction_out": exchange.compaction.tokens_out,
        "estimate_ratio": exchange.estimate_ratio and round(exchange.estimate_ratio, 3),
        "prefix_break": exchange.prefix_break,
        "duration_s": round(timing.duration, 5),
        "shaping_s": timing.shaping and round(timing.shaping, 5),
        "overhead_s": timing.overhead and round(timing.overhead, 5),
        "ttfb_s": timing.upstream_ttfb and round(timing.upstream_ttfb, 5),
        "retries": exchange.retries,
        "overflow": exchange.overflow,
        "fail_open": exchange.fail_open,
        "error_code": exchange.error_code[:LONGEST],
    }
    for edited in exchange.edits:
        found[edited.stage] = edited.count
    if usage is not None:
        found["prompt_tokens"] = usage.prompt
        found["completion_tokens"] = usage.completion
        found["cached_tokens"] = usage.cached
    return dict(filter(_value, found.items()))
