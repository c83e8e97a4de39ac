"""How the process is doing, for the pages: totals since its start, the health of what it depends on, and what it knows
of models. Read from metrics, limits and the ring when somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from trimtab import __version__
from trimtab.errors import UnknownModel
from trimtab.limits import usable
from trimtab.server.parts import Parts
from trimtab.telemetry import Telemetry, catalogue
from trimtab.ui.ring import Kept, Ring
from trimtab.ui.shown import (
    KnownModel,
    KnownModels,
    Status,
    SummaryHealth,
    Totals,
    UpstreamHealth,
    failed_calls,
)
from trimtab.upstream.settings import UpstreamSettings


def status_of(parts: Parts, ring: Ring) -> Status:
    """Totals and health now."""
    kept = ring.after(0)
    answers = parts.redis_answers()
    return Status(
        version=__version__,
        text=ring.keeps_text,
        draining=parts.load.leaving,
        in_flight=parts.load.requests,
        totals=_totals(parts.telemetry),
        upstreams=[_upstream(upstream, kept) for upstream in parts.settings.upstreams],
        redis=None if answers is None else "up" if answers else "down",
        summaries=_summaries(parts, ring),
    )


def _totals(telemetry: Telemetry) -> Totals:
    tokens = telemetry.sums(catalogue.TOKENS, "kind")
    outcomes = telemetry.sums(catalogue.REQUESTS, "outcome")
    return Totals(
        requests=round(sum(outcomes.values())),
        original=round(tokens.get("original", 0)),
        sent=round(tokens.get("sent", 0)),
        cached=round(sum(telemetry.sums(catalogue.CACHED, "model").values())),
        cacheable=round(sum(telemetry.sums(catalogue.CACHEABLE, "model").values())),
        summary_in=round(tokens.get("compaction_in", 0)),
        summary_out=round(tokens.get("compaction_out", 0)),
        saved_usd=sum(telemetry.sums(catalogue.SAVED_USD, "model").values()),
        outcomes={name: round(count) for name, count in outcomes.items()},
    )


def _upstream(upstream: UpstreamSettings, kept: list[Kept]) -> UpstreamHealth:
    calls, failed = failed_calls((each.exchange for each in kept), upstream.name)
    last = next(
        ((call, each) for each in reversed(kept) for call in each.exchange.calls if call.upstream == upstream.name),
        None,
    )
    status, at = (None, None) if last is None else (last[0].status, last[1].ended_at)
    return UpstreamHealth(upstream.name, upstream.base_url, status, at, calls, failed)


def _summaries(parts: Parts, ring: Ring) -> SummaryHealth:
    compaction = parts.settings.compaction
    runs = [run for _, run in ring.runs]
    failed = [run for run in runs if run.outcome != "made"]
    reason = failed[-1].reason if failed else ""
    return SummaryHealth(
        "off" if compaction is None else "on", compaction.model if compaction else "", len(runs), len(failed), reason
    )


def models_of(parts: Parts, ring: Ring) -> KnownModels:
    """What is known of the models that are configured or were asked for, in the order of their names."""
    return KnownModels([_model(parts, *pair) for pair in sorted({*_named(parts), *_asked(ring)})])


def _named(parts: Parts) -> Iterator[tuple[str, str]]:
    """Upstream and name of the models that the configuration names."""
    for model in parts.settings.models:
        if not set(model) & set("*?["):
            with suppress(UnknownModel):  # no upstream takes it
                yield parts.calls.route(model).name, model


def _asked(ring: Ring) -> Iterator[tuple[str, str]]:
    return ((each.exchange.upstream, each.exchange.model) for each in ring.after(0) if each.conversation)


def _model(parts: Parts, upstream: str, model: str) -> KnownModel:
    limit, stated = parts.limits.known(upstream, model), parts.limits.without_lessons(upstream, model)
    prices = limit.prices
    return KnownModel(
        upstream=upstream,
        model=model,
        context_size=limit.context_size,
        max_output_tokens=limit.max_output_tokens,
        max_input_tokens=limit.max_input_tokens,
        budget=limit.budget,
        usable=usable(limit).usable,
        source=limit.source,
        detail=limit.detail,
        trusted=limit.trusted,
        learned=limit.source == "learned",
        stated_size=stated.context_size,
        stated_source=stated.source,
        factor=parts.limits.factor(upstream, model),
        input_usd=prices.input if prices else None,
        output_usd=prices.output if prices else None,
        cached_usd=prices.cache_read if prices else None,
    )
