"""What a replay amounts to."""

from __future__ import annotations

import pytest

pytest.importorskip("openai", reason="the demo's client: pip install 'trimtab[demo]'")
pytest.importorskip("bpe_openai", reason="the demo's tokenizer: pip install 'trimtab[demo]'")

from trimtab.cli.demo.client import Step
from trimtab.cli.demo.score import quantile, score

SIZES = [0, 100, 1000, 5000]


def test_sums_are_over_the_requests_that_were_answered() -> None:
    steps = [
        Step(1, 1, sent=100, added_ms=1.0),
        Step(2, 2, sent=800, cached=500, added_ms=3.0, edits={"cleared": 4}),
        Step(3, 3, error="too long"),
    ]
    found = score(steps, SIZES)
    assert (found.answered, found.refused, found.made) == (2, 1, 3)
    assert (found.raw, found.sent, found.cached) == (1100, 900, 500)
    assert found.cached_share == pytest.approx(500 / 900)
    assert found.cost == pytest.approx((400 + 50) / 1100)
    assert found.edits == {"cleared": 4}
    assert found.added_p99 == 3.0


def test_without_answers_there_is_no_division_by_zero() -> None:
    found = score([Step(1, 1, error="too long")], SIZES)
    assert (found.cost, found.cached_share, found.added_p50) == (0, 0, 0)


@pytest.mark.parametrize(
    ("values", "share", "found"), [([], 0.5, 0), ([7], 0.99, 7), ([1, 2, 3, 4], 0.5, 3), ([1, 2], 1.0, 2)]
)
def test_quantiles(values: list[float], share: float, found: float) -> None:
    assert quantile(values, share) == found
