"""A budget for thinking, where the output limit around it is lowered."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.dialects.thinking import FIELDS, lowered

GIVEN: list[tuple[dict[str, Any], int, dict[str, Any] | None]] = [
    ({}, 100, {}),
    ({"thinking": {"budget_tokens": 2_999}}, 3_000, {}),
    ({"thinking": {"budget_tokens": 3_000}}, 3_000, {"thinking": {"budget_tokens": 1_500}}),
    ({"reasoning": {"max_tokens": 9_000, "effort": None}}, 4_000, {"reasoning": {"max_tokens": 2_000, "effort": None}}),
    ({"reasoning": {"max_tokens": 9_000}}, 2_047, None),
    ({"reasoning": {"max_tokens": 9_000}, "thinking": {"budget_tokens": 2}}, 2_047, None),
    ({"reasoning": "high", "thinking": []}, 2, {}),
    ({"thinking": {"budget_tokens": True}, "reasoning": {"max_tokens": 1e9}}, 2, {}),
]


@pytest.mark.parametrize(("given", "tokens", "expected"), GIVEN)
def test_a_budget_is_halved_where_it_would_not_be_below_the_limit(given: Any, tokens: int, expected: Any) -> None:
    assert lowered(given, tokens) == expected
    assert set(expected or {}) <= {*FIELDS}
