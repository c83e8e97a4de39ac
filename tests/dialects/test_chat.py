"""Chat completions as a dialect: what is not in `wire.chat` already."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trimtab.dialects.chat import CHAT


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_tokens": 900}, {"max_tokens": 500}),
        ({"max_tokens": 900, "max_completion_tokens": 700}, {"max_tokens": 500, "max_completion_tokens": 500}),
        ({"max_tokens": 100}, {}),
        ({"max_tokens": "900"}, {}),
    ],
)
def test_every_limit_that_is_there_is_lowered(fields: dict[str, Any], expected: dict[str, int]) -> None:
    request = CHAT.decode(msgspec.json.encode({"messages": [], **fields}))
    assert CHAT.capped(request, 500) == expected


REASONING = {"reasoning": {"max_tokens": 3_999, "exclude": True}}
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 3_999}}


@pytest.mark.parametrize(
    ("fields", "tokens", "expected"),
    [
        (REASONING, 3_000, {"max_tokens": 3_000, "reasoning": {"max_tokens": 1_500, "exclude": True}}),
        (THINKING, 3_000, {"max_tokens": 3_000, "thinking": {"type": "enabled", "budget_tokens": 1_500}}),
        (REASONING, 1_500, {}),
        (REASONING, 4_000, {"max_tokens": 4_000}),
        ({"reasoning": {"effort": "high"}}, 1_500, {"max_tokens": 1_500}),
        ({"reasoning": {"max_tokens": "3999"}, "thinking": None}, 1_500, {"max_tokens": 1_500}),
    ],
)
def test_a_limit_stays_above_the_budget_for_thinking(fields: Any, tokens: int, expected: Any) -> None:
    request = CHAT.decode(msgspec.json.encode({"messages": [], "max_tokens": 5_000, **fields}))
    assert CHAT.capped(request, tokens) == expected


def test_a_chunk_always_says_something() -> None:
    assert not CHAT.says_nothing(b'{"choices":[]}')


def test_a_message_reads_as_it_is() -> None:
    assert CHAT.format.as_chat(b'{"role":"user"}') == b'{"role":"user"}'
