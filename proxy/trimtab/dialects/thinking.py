"""Thinking that a request asks for within its output limit.

    {"max_tokens": 8000, "thinking": {"type": "enabled", "budget_tokens": 6000}}     Anthropic, and its models in a chat
    {"max_tokens": 8000, "reasoning": {"max_tokens": 6000}}                          OpenRouter

Both providers refuse a budget that is not below the limit, so a limit that is lowered takes the budget along.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LEAST = 1_024  # tokens: the least budget that both take
_BUDGETS = (("thinking", "budget_tokens"), ("reasoning", "max_tokens"))
FIELDS = tuple([field for field, _ in _BUDGETS])


def lowered(given: Mapping[str, Any], tokens: int) -> dict[str, object] | None:
    """The fields of `given` whose budget is not below a limit of `tokens`, with half of it as their budget. None where
    that is too little to think: then the limit is not lowered either."""
    found: dict[str, object] = {}
    for field, name in _BUDGETS:
        value = given.get(field)
        if not isinstance(value, dict):
            continue
        budget = value.get(name)
        if type(budget) is not int or budget < tokens:
            continue
        if tokens // 2 < _LEAST:
            return None
        found[field] = {**value, name: tokens // 2}
    return found
