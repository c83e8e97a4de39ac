"""What one exchange adds to which series, and which names may be label values."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from trimtab.telemetry.labels import MAX_NAMES, OTHER, Labels
from trimtab.telemetry.metrics import Metrics
from trimtab.telemetry.record import CallEnd, Exchange, Outcome, Timing, Tokens, UpstreamCall, Usage

from .exchanges import PASSED, REFUSED, RUN, SHAPED

Found = tuple[CollectorRegistry, Metrics]


@pytest.fixture
def made() -> Found:
    registry = CollectorRegistry()
    return registry, Metrics(registry, Labels(["gpt-4o"]), "1.2.3")


GEN_AI = {"gen_ai_operation_name": "chat", "gen_ai_provider_name": "openai", "gen_ai_request_model": "gpt-4o"}
GPT = {"model": "gpt-4o"}

RETRIED = UpstreamCall("openai", 200, retries=2)

EXPECTED = [
    (PASSED, "trimtab_requests_total", {**GPT, "outcome": "passed"}, 1),
    (PASSED, "trimtab_requests_total", {**GPT, "outcome": "shaped"}, 0),
    (PASSED, "trimtab_tokens_total", {**GPT, "kind": "original"}, 9_000),
    (PASSED, "trimtab_tokens_total", {**GPT, "kind": "cleared"}, 0),
    (PASSED, "trimtab_cached_tokens_total", GPT, 8_000),
    (PASSED, "trimtab_cacheable_tokens_total", GPT, 9_100),
    (PASSED, "trimtab_shaping_seconds_count", {}, 1),
    (PASSED, "trimtab_overhead_seconds_bucket", {"le": "0.001"}, 1),
    (PASSED, "trimtab_overhead_seconds_bucket", {"le": "0.0005"}, 0),
    (PASSED, "trimtab_estimate_ratio_bucket", {**GPT, "le": "1.05"}, 1),
    (PASSED, "trimtab_window_fill_ratio_sum", {**GPT, "kind": "sent"}, 0.45),
    (PASSED, "trimtab_upstream_responses_total", {"upstream": "openai", "code": "2xx"}, 1),
    (PASSED, "trimtab_context_size_tokens", {"upstream": "openai", **GPT}, 32_000),
    (PASSED, "gen_ai_client_token_usage_sum", {**GEN_AI, "gen_ai_token_type": "input"}, 9_100),
    (PASSED, "gen_ai_client_token_usage_sum", {**GEN_AI, "gen_ai_token_type": "output"}, 200),
    (PASSED, "gen_ai_client_operation_duration_seconds_sum", {**GEN_AI, "error_type": ""}, 1.2),
    (PASSED, "gen_ai_server_time_to_first_token_seconds_sum", GEN_AI, 0.4),
    (SHAPED, "trimtab_edits_total", {**GPT, "stage": "cleared"}, 12),
    (SHAPED, "trimtab_tokens_total", {**GPT, "kind": "cleared"}, 61_000),
    (SHAPED, "trimtab_tokens_total", {**GPT, "kind": "sent"}, 19_000),
    (SHAPED, "trimtab_prefix_break_total", {"reason": "cleared"}, 1),
    (SHAPED, "trimtab_saved_usd_total", GPT, 71_000 * 3.0 / 1e6),
    (REFUSED, "trimtab_requests_total", {**GPT, "outcome": "refused"}, 1),
    (REFUSED, "trimtab_upstream_responses_total", {"upstream": "openai", "code": "none"}, None),
    (replace(SHAPED, summary="hit"), "trimtab_summaries_total", {"result": "hit"}, 1),
    (replace(SHAPED, overflow=True), "trimtab_overflow_total", {"upstream": "openai"}, 1),
    (
        replace(SHAPED, calls=(UpstreamCall("openai", 200, retries=2),)),
        "trimtab_retries_total",
        {"upstream": "openai"},
        2,
    ),
    (replace(SHAPED, fail_open="plan"), "trimtab_fail_open_total", {"part": "plan"}, 1),
]


@pytest.mark.parametrize(("exchange", "name", "labels", "value"), EXPECTED)
def test_each_field_has_its_series(made: Found, exchange: Exchange, name: str, labels, value) -> None:
    registry, metrics = made
    metrics.observe(exchange)
    found = registry.get_sample_value(name, labels)
    assert found == (value if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("status", "end", "code"),
    [
        (200, "answered", "2xx"),
        (404, "answered", "4xx"),
        (401, "answered", "401"),
        (403, "answered", "403"),
        (429, "answered", "429"),
        (503, "answered", "5xx"),
        (0, "answered", "none"),
        (999, "answered", "none"),
        (0, "cancelled", "cancelled"),
        (200, "broken_off", "broken_off"),
    ],
)
def test_upstream_answers_are_classes(made: Found, status: int, end: CallEnd, code: str) -> None:
    registry, metrics = made
    metrics.observe(replace(PASSED, calls=(UpstreamCall("openai", status, end=end),), usage=None))
    assert registry.get_sample_value(
        "trimtab_upstream_responses_total", {"upstream": "openai", "code": code}
    ) == 1  # fmt: skip


def test_once_a_cache_was_seen_savings_are_counted_at_its_price(made: Found) -> None:
    registry, metrics = made
    metrics.observe(PASSED)
    metrics.observe(SHAPED)
    assert registry.get_sample_value("trimtab_saved_usd_total", GPT) == pytest.approx(71_000 * 0.3 / 1e6)


def test_a_summary_counts_its_tokens_and_its_cost(made: Found) -> None:
    registry, metrics = made
    metrics.observe(SHAPED)
    metrics.summary_run(RUN)
    metrics.observe(SHAPED)
    value = registry.get_sample_value
    assert value("trimtab_summarizer_seconds_sum") == 3.5
    assert value("trimtab_tokens_total", {**GPT, "kind": "compaction_in"}) == 10_000
    assert value("trimtab_compaction_usd_total", GPT) == pytest.approx(0.045)
    assert value("trimtab_saved_usd_total", GPT) == pytest.approx(2 * 0.213 - 0.045)


def test_a_model_the_upstream_answered_for_gets_its_own_label(made: Found) -> None:
    registry, metrics = made
    metrics.observe(
        replace(PASSED, model="new-model", outcome="upstream_rejected", calls=(UpstreamCall("openai", 404),))
    )
    metrics.observe(replace(PASSED, model="new-model"))
    for model, outcome in (("other", "upstream_rejected"), ("new-model", "passed")):
        assert registry.get_sample_value("trimtab_requests_total", {"model": model, "outcome": outcome}) == 1


def test_made_up_names_do_not_multiply_series(made: Found) -> None:
    registry, metrics = made
    for number in range(MAX_NAMES + 50):
        metrics.observe(replace(PASSED, model=f"m{number}"))
    models = {
        sample.labels["model"] for family in registry.collect() for sample in family.samples if "model" in sample.labels
    }
    assert len(models) <= MAX_NAMES + 1


def test_figures_that_belong_to_no_exchange(made: Found) -> None:
    registry, metrics = made
    metrics.in_flight(1, 20, 300)
    metrics.redis_error()
    metrics.smaller_try(saved=True)
    metrics.limit_event("usage_ignored")
    metrics.redis_up("cluster", False)
    metrics.calibrated("openai", "gpt-4o", 1.35)
    value = registry.get_sample_value
    assert value("trimtab_inflight_requests") == 1
    assert value("trimtab_inflight_bytes") == 20
    assert value("trimtab_inflight_bytes_limit") == 300
    assert value("trimtab_redis_errors_total") == 1
    assert value("trimtab_smaller_tries_total", {"result": "saved"}) == 1
    assert value("trimtab_limit_events_total", {"kind": "usage_ignored"}) == 1
    assert value("trimtab_redis_up", {"mode": "cluster"}) == 0
    assert value("trimtab_calibration_factor", {"upstream": "openai", **GPT}) == 1.35
    assert value("trimtab_build_info", {"version": "1.2.3"}) == 1


def test_without_redis_nothing_says_it_is_down(made: Found) -> None:
    registry, _ = made
    assert [s for f in registry.collect() if f.name == "trimtab_redis_up" for s in f.samples] == []


_counts = st.integers(-10, 10**9)
_exchanges = st.builds(
    Exchange,
    request_id=st.text(),
    path=st.sampled_from(["chat", "plan", "passthrough"]),
    outcome=st.sampled_from(get_args(Outcome)),
    status=st.integers(0, 999),
    model=st.text(),
    upstream=st.sampled_from(["", "openai"]),
    calls=st.just(()) | st.tuples(st.builds(UpstreamCall, st.just("openai"), st.integers(-1, 1000))),
    tokens=st.builds(Tokens, original=st.integers(0, 10**9), sent=st.integers(0, 10**9), budget=_counts),
    usage=st.none() | st.builds(Usage, prompt=_counts, completion=_counts, cached=st.none() | _counts),
    estimate_ratio=st.none() | st.floats(0, 100),
    timing=st.builds(Timing, duration=st.floats(-1, 1e9), upstream_ttfb=st.none() | st.floats(0, 1e9)),
)


@given(st.lists(_exchanges, max_size=5))
def test_no_record_upsets_it(exchanges: list[Exchange]) -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, Labels())
    for exchange in exchanges:
        metrics.observe(exchange)
    family = next(f for f in registry.collect() if f.name == "trimtab_requests")
    assert sum(sample.value for sample in family.samples) == len(exchanges)


def test_unknown_names_share_one_label() -> None:
    labels = Labels(["gpt-4o"])
    assert [labels.label(name) for name in ("gpt-4o", "what-a-client-typed", "")] == ["gpt-4o", OTHER, OTHER]


def test_only_short_printable_names_are_admitted() -> None:
    names = ("", "x" * 129, "two\nlines", "llama3:8b")
    labels = Labels(names)
    assert [labels.label(name) for name in names] == [OTHER, OTHER, OTHER, "llama3:8b"]


@given(st.lists(st.text()), st.integers(0, 5))
def test_never_more_than_the_bound(names: list[str], most: int) -> None:
    labels = Labels(names, most=most)
    assert len({labels.label(name) for name in names} - {OTHER}) <= most
