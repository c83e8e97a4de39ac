"""Fields of a message that no format names: what they cost."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.support.images import png
from tests.support.messages import assistant, prose, user
from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.read.views import view

THOUGHT = prose(3_000)
UNKNOWN: dict[str, dict[str, Any]] = {
    "Copilot's reasoning": {"reasoning_text": THOUGHT},
    "its encrypted reasoning": {"reasoning_opaque": {"id": "r", "text": THOUGHT}},
    "Ollama's reasoning": {"thinking": THOUGHT},
    "what a gateway adds": {"provider_specific_fields": {"thoughts": [{"thought": THOUGHT}]}},
    "a name with escapes": {"\u00e4": THOUGHT},
}


@pytest.mark.parametrize("fields", UNKNOWN.values(), ids=UNKNOWN)
def test_fields_of_other_names_cost_what_they_hold(fields: dict[str, Any]) -> None:
    plain = view(assistant("x"))
    found = view(assistant("x", **fields))
    assert text_tokens(THOUGHT) <= found.tokens - plain.tokens <= text_tokens(THOUGHT) + 12
    assert found.cleared_tokens - plain.cleared_tokens == found.tokens - plain.tokens


def test_reasoning_that_a_gateway_repeats_counts_once() -> None:
    thought = view(assistant("x", reasoning_content=THOUGHT)).tokens
    again = {"provider_specific_fields": {"reasoning_content": THOUGHT, "parts": [THOUGHT]}, "thinking": THOUGHT}
    assert view(assistant("x", reasoning_content=THOUGHT, **again)).tokens <= thought + 16
    block = {"type": "thinking", "thinking": THOUGHT, "signature": "c2ln"}
    thought = view(assistant("x", thinking_blocks=[block])).tokens
    again = {"provider_specific_fields": {"thinking_blocks": [block]}}
    assert view(assistant("x", thinking_blocks=[block], **again)).tokens <= thought + 16


def test_pictures_beside_the_content_cost_by_their_size() -> None:
    one = view(user("x", images=[base64.b64encode(png(1024, 1024) + bytes(90_000)).decode()])).tokens
    assert one - view(user("x")).tokens == 765


@pytest.mark.parametrize("fields", [{"x": None}, {"index": 3}, {"cache_control": {"type": "ephemeral"}}, {"x": ""}])
def test_fields_that_say_nothing_cost_nothing(fields: dict[str, Any]) -> None:
    assert view(user("x", **fields)).tokens == view(user("x")).tokens
