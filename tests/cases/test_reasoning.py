"""Reasoning fields: whatever a model thought goes back to it as it came, or the message goes as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.case import request
from tests.cases.trial import squeezed, still_valid, tried, window
from tests.support.conversations import agent_run, prose
from trimtab.context.texts import PLACEHOLDER

pytestmark = pytest.mark.anyio

CASES = {
    "B011": "white space is a value",
    "B012": "nothing is added or taken away, whatever the model is called",
    "B013": "a call is opaque: signatures and unknown keys stay, also when its result is cleared",
    "B077": "thinking blocks keep their fields, no marker is ever moved; the Messages format itself is passed through",
}
FIELDS: dict[str, Any] = {
    "reasoning_content": "thought about it",
    "reasoning": " ",
    "reasoning_details": [{"type": "reasoning.encrypted", "data": "QUJD", "index": 0}],
    "thinking_blocks": [{"type": "thinking", "thinking": "t", "signature": "s", "cache_control": None}],
    "extra_content": {"google": {"thought_signature": "QUJDRA=="}},
    "vendor": {"x": [1.0, 1e21, 12345678901234567890]},
}


@pytest.mark.parametrize("model", ["deepseek-reasoner", "deepseek-v4-pro", "kimi-k2-thinking", "gemini-3-pro"])
async def test_what_fits_passes_whatever_the_model(model: str) -> None:
    for id in ("B011", "B013", "B077"):
        assert (await tried({**request(id), "model": model})).untouched


async def test_a_call_keeps_its_signature_when_its_result_is_cleared() -> None:
    messages = agent_run(30)
    for message in messages[2::2]:
        message["tool_calls"][0] |= {"extra_content": FIELDS["extra_content"], "x": 1.0}
        message |= FIELDS
    trial = await tried({"model": "gemini-3-pro", "messages": messages}, toml=window(16_384))
    assert PLACEHOLDER in [m["content"] for m in trial.messages]
    assert trial.messages[2::2] == messages[2::2]
    assert b'"vendor":{"x":[1.0,1e21,12345678901234567890]}' in trial.asked[0].body


async def test_at_any_budget_a_message_keeps_all_its_thoughts_or_goes() -> None:
    messages = agent_run(12, 600)
    for message in messages[2::2]:
        message |= FIELDS | {"reasoning_content": prose(50)}
    for _, sent in await squeezed({"model": "m", "messages": messages}):
        still_valid(sent, messages)
        for message in sent:
            if message["role"] == "assistant":
                assert {name: message[name] for name in FIELDS} == FIELDS | {"reasoning_content": prose(50)}


async def test_blocks_of_thinking_in_content_are_left_alone() -> None:
    content = request("B077")["messages"][1]["content"]
    messages = [*agent_run(20), {"role": "assistant", "content": content}, {"role": "user", "content": "again"}]
    for _, sent in await squeezed({"model": "m", "messages": messages}):
        assert all(m["content"] == content for m in sent if isinstance(m.get("content"), list))
