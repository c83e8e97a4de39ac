"""What the API under `/ui/api` answers with, as values: the structs are its schema in the OpenAPI document.

All counts are tokens, as the upstream is expected to count them, unless a field names another unit. No text of a
conversation is in any of them; texts are in `compare`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from trimtab.telemetry import Exchange
from trimtab.ui.figures import Cut, Kind, MessageFigures, cut, messages
from trimtab.ui.ring import Kept


class ShownExchange(msgspec.Struct, frozen=True):
    """One exchange that has ended. `number` counts them from 1; `ended_at` is in seconds of Unix time.

    `original` is what the client sent, `sent` what the upstream got, 0 where it got nothing that was planned. `prompt`,
    `cached` and `completion` are what the upstream counted, null where it did not say. `edits` are messages by stage.
    `conversation` names what is at `/ui/api/conversations/{name}`, "" where nothing was planned; `has_text`: its bodies
    are kept. `overhead_ms` is the proxy's own time, `first_byte_ms` the upstream's.
    """

    number: int
    ended_at: float
    request_id: str
    path: str
    model: str
    upstream: str
    outcome: str
    status: int
    stream: bool
    original: int
    sent: int
    budget: int
    context_size: int
    limit_source: str
    prompt: int | None
    cached: int | None
    completion: int | None
    edits: dict[str, int]
    summary: str
    prefix_break: str
    error_code: str
    duration_ms: float
    overhead_ms: float | None
    first_byte_ms: float | None
    conversation: str
    messages: int
    has_text: bool


class Exchanges(msgspec.Struct, frozen=True):
    """Exchanges in the order of their ends, oldest first. `newest` is the number to ask for what comes next."""

    exchanges: list[ShownExchange]
    newest: int


class ShownConversation(msgspec.Struct, frozen=True):
    """The requests of one conversation that are kept: how many, the model and the figures of the newest."""

    name: str
    requests: int
    model: str
    messages: int
    original: int
    sent: int
    budget: int
    ended_at: float


class Conversations(msgspec.Struct, frozen=True):
    """The conversations whose requests are kept, newest first."""

    conversations: list[ShownConversation]


class Column(msgspec.Struct, frozen=True):
    """One request of a conversation. `kinds` are the tokens that were sent, by kind, and add up to `exchange.sent`;
    `removed` are tokens by the stage that removed them."""

    exchange: ShownExchange
    kinds: dict[Kind, int]
    removed: dict[str, int]


class Conversation(msgspec.Struct, frozen=True):
    """The requests of one conversation, oldest first. Where a request was not sent, its column is what would have
    been."""

    name: str
    columns: list[Column]


class Window(msgspec.Struct, frozen=True):
    """What one request held, message by message, and where it was cut. `messages` are rows of kind, tokens before,
    tokens after, stage, reason; null where only the figures of the whole request are kept."""

    exchange: ShownExchange
    messages: list[MessageFigures] | None
    cut: Cut | None


class Totals(msgspec.Struct, frozen=True):
    """Since the process started, from the metrics: tokens of the requests that were sent, as they came and as they
    went; tokens that the upstream read from its cache, of those it reported on; what the summary model read and wrote.
    `saved_usd` is net of what summaries cost, where prices are known."""

    requests: int
    original: int
    sent: int
    cached: int
    cacheable: int
    summary_in: int
    summary_out: int
    saved_usd: float
    outcomes: dict[str, int]


class UpstreamHealth(msgspec.Struct, frozen=True):
    """One upstream by its newest call: `status` is null before the first, 0 without an answer. `calls` and `failed`
    are of the exchanges that are kept; failed are those without an answer, with a 5xx, or broken off."""

    name: str
    base_url: str
    status: int | None
    at: float | None
    calls: int
    failed: int


class SummaryHealth(msgspec.Struct, frozen=True):
    """Whether summaries are on, and the newest calls of the summary model."""

    state: Literal["on", "off"]
    model: str
    calls: int
    failed: int
    last_reason: str


class Status(msgspec.Struct, frozen=True):
    """The process and what it depends on. `redis` is null where none is configured. `text`: bodies are kept."""

    version: str
    text: bool
    draining: bool
    in_flight: int
    totals: Totals
    upstreams: list[UpstreamHealth]
    redis: Literal["up", "down"] | None
    summaries: SummaryHealth


class KnownModel(msgspec.Struct, frozen=True):
    """What a model takes at an upstream, in tokens, and where that is known from. `usable` is for the input of a
    request without `max_tokens`. `stated_size` and `stated_source` are without what was learned from overflows;
    `learned` says that a lesson lowers them. `factor` is the upstream's count divided by our estimate. A limit that is
    not `trusted` is a guess. Prices are USD per million tokens, null where they are not known."""

    upstream: str
    model: str
    context_size: int
    max_output_tokens: int
    max_input_tokens: int | None
    budget: int | None
    usable: int
    source: str
    detail: str
    trusted: bool
    learned: bool
    stated_size: int
    stated_source: str
    factor: float
    input_usd: float | None
    output_usd: float | None
    cached_usd: float | None


class KnownModels(msgspec.Struct, frozen=True):
    """The models that are configured, or that kept exchanges asked for."""

    models: list[KnownModel]


def shown(kept: Kept) -> ShownExchange:
    """One exchange as the API answers it."""
    of = kept.exchange
    usage, timing = of.usage, of.timing
    return ShownExchange(
        number=kept.number,
        ended_at=kept.ended_at,
        request_id=of.request_id,
        path=of.path,
        model=of.model,
        upstream=of.upstream,
        outcome=of.outcome,
        status=of.status,
        stream=of.stream,
        original=of.tokens.original,
        sent=of.tokens.sent,
        budget=of.tokens.budget,
        context_size=of.tokens.context_size,
        limit_source=of.tokens.limit_source,
        prompt=usage.prompt if usage else None,
        cached=usage.cached if usage else None,
        completion=usage.completion if usage else None,
        edits={edited.stage: edited.count for edited in of.edits},
        summary=of.summary,
        prefix_break=of.prefix_break,
        error_code=of.error_code,
        duration_ms=timing.duration * 1e3,
        overhead_ms=_ms(timing.overhead),
        first_byte_ms=_ms(timing.upstream_ttfb),
        conversation=kept.conversation,
        messages=kept.messages,
        has_text=kept.bodies is not None,
    )


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def conversations(all_kept: Iterable[Kept]) -> list[ShownConversation]:
    """The conversations of these exchanges, the one with the newest request first."""
    newest: dict[str, Kept] = {}
    requests: dict[str, int] = {}
    for kept in all_kept:
        if name := kept.conversation:
            newest.pop(name, None)
            newest[name] = kept
            requests[name] = requests.get(name, 0) + 1
    return [_conversation(kept, requests[name]) for name, kept in reversed(newest.items())]


def _conversation(kept: Kept, requests: int) -> ShownConversation:
    of, name = kept.exchange, kept.conversation
    tokens = of.tokens
    return ShownConversation(
        name, requests, of.model, kept.messages, tokens.original, tokens.sent, tokens.budget, kept.ended_at
    )


def column(kept: Kept) -> Column:
    """One request in the picture of its conversation."""
    removed: dict[str, int] = {edited.stage: edited.tokens for edited in kept.exchange.edits if edited.tokens > 0}
    return Column(shown(kept), kept.kinds or {}, removed)


def columns(all_kept: Iterable[Kept], name: str) -> list[Column]:
    """The requests of one conversation whose figures are kept."""
    of_it = (kept for kept in all_kept if kept.conversation == name)
    return [column(kept) for kept in of_it if kept.kinds is not None]


def window(kept: Kept) -> Window:
    """One request, message by message."""
    sketch = kept.sketch
    if sketch is None:
        return Window(shown(kept), None, None)
    return Window(shown(kept), [*messages(sketch)], cut(sketch))


def failed_calls(exchanges: Iterable[Exchange], upstream: str) -> tuple[int, int]:
    """How often these exchanges called an upstream, and how many of the calls failed."""
    calls = [call for exchange in exchanges for call in exchange.calls if call.upstream == upstream]
    return len(calls), sum(call.status == 0 or call.status >= 500 or call.end == "broken_off" for call in calls)
