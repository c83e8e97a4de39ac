"""Names and units follow the conventions, and every family can be made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram

from trimtab.telemetry.catalogue import CATALOGUE, OVERHEAD_BUCKETS, FastHistogram, Metric

DESIGNED = {
    "trimtab_requests_total",
    "trimtab_tokens_total",
    "trimtab_edits_total",
    "trimtab_shaping_seconds",
    "trimtab_overhead_seconds",
    "trimtab_summaries_total",
    "trimtab_summarizer_seconds",
    "trimtab_cached_tokens_total",
    "trimtab_estimate_ratio",
    "trimtab_prefix_break_total",
    "trimtab_overflow_total",
    "trimtab_redis_errors_total",
    "trimtab_saved_usd_total",
    "gen_ai_client_token_usage",
    "gen_ai_client_operation_duration_seconds",
    "gen_ai_server_time_to_first_token_seconds",
}


def test_the_designed_names_are_there() -> None:
    assert {metric.name for metric in CATALOGUE} >= DESIGNED


def test_no_name_twice() -> None:
    registry = CollectorRegistry()
    for metric in CATALOGUE:
        metric.register(registry)


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_conventions(metric: Metric) -> None:
    counter = not metric.buckets and not metric.gauge
    assert metric.name.endswith("_total") is counter
    assert metric.help.endswith((".", ")."))
    assert list(metric.buckets) == sorted(metric.buckets)


@given(st.lists(st.one_of(st.floats(0, 1), st.sampled_from(OVERHEAD_BUCKETS)), max_size=30))
def test_the_fast_histogram_counts_as_the_library_does(amounts: list[float]) -> None:
    ours = FastHistogram("h", "h", buckets=OVERHEAD_BUCKETS, registry=None)
    theirs = Histogram("h", "h", buckets=OVERHEAD_BUCKETS, registry=None)
    for amount in amounts:
        ours.observe(amount)
        theirs.observe(amount)
    assert _values(ours) == _values(theirs)


def _values(histogram: Histogram) -> list[tuple[str, tuple[tuple[str, str], ...], float]]:
    samples = next(iter(histogram.collect())).samples
    return [(s.name, tuple(s.labels.items()), s.value) for s in samples if not s.name.endswith("_created")]
