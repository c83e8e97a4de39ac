"""Exchanges the tests of this layer start from."""

from __future__ import annotations

from trimtab.telemetry.record import Edited, Exchange, Prices, SummaryRun, Timing, Tokens, UpstreamCall, Usage

PRICES = Prices(input=3.0, output=15.0, cached_input=0.3)

PASSED = Exchange(
    request_id="r-1",
    path="chat",
    outcome="passed",
    status=200,
    model="gpt-4o",
    upstream="openai",
    calls=(UpstreamCall("openai", 200),),
    stream=True,
    tokens=Tokens(original=9_000, sent=9_000, budget=20_000, context_size=32_000, limit_source="configured"),
    usage=Usage(prompt=9_100, completion=200, cached=8_000),
    estimate_ratio=9_100 / 9_000,
    timing=Timing(duration=1.2, shaping=0.0004, overhead=0.0006, upstream_ttfb=0.4),
    prices=PRICES,
)

SHAPED = Exchange(
    request_id="r-2",
    path="chat",
    outcome="shaped",
    status=200,
    model="gpt-4o",
    upstream="openai",
    calls=(UpstreamCall("openai", 200),),
    tokens=Tokens(original=90_000, sent=19_000, budget=20_000, context_size=32_000, limit_source="bundled"),
    edits=(Edited("cleared", 12, 61_000), Edited("truncated", 1, 10_000)),
    usage=Usage(prompt=19_500, completion=300, cached=0),
    estimate_ratio=19_500 / 19_000,
    prefix_break="cleared",
    timing=Timing(duration=2.0, shaping=0.004, overhead=0.006, upstream_ttfb=0.7),
    prices=PRICES,
)

REFUSED = Exchange(
    request_id="r-3",
    path="chat",
    outcome="refused",
    status=400,
    model="gpt-4o",
    upstream="openai",
    tokens=Tokens(original=50_000, sent=50_000, budget=20_000, context_size=32_000),
    error_code="context_length_exceeded",
)

RUN = SummaryRun(model="gpt-4o", outcome="made", seconds=3.5, tokens_in=10_000, tokens_out=1_000, prices=PRICES)
