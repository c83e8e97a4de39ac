"""What a client sets for this proxy never reaches an upstream, wherever in a message it stands."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases.trial import tried, window
from tests.support.conversations import prose

pytestmark = pytest.mark.anyio

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"

TEXT = {"type": "text", "text": "found it", "context": True}
PINNED = {"type": "text", "text": "keep it", "pinned": True}
CALL: dict[str, Any] = {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f"}}]}
MARKED_CALL = {**CALL, "tool_calls": [{**CALL["tool_calls"][0], "pinned": True}]}
ANSWER = {"role": "tool", "tool_call_id": "a", "content": "found"}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"pinned": 1}}]}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": [TEXT], "pinned": True}
SDK_CALL = {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "t", "toolName": "f", "input": {}}]}
SDK = {"type": "tool-result", "toolCallId": "t", "toolName": "f", "output": {"type": "content", "value": [TEXT]}}
OUTPUT = {"call_id": "a", "output": [{**TEXT, "type": "input_text"}], "pinned": True}

PLACES: dict[str, tuple[str, list[Any]]] = {
    "a part": (CHAT, [{"role": "user", "content": [PINNED, TEXT]}]),
    "a tool message": (CHAT, [CALL, {"role": "tool", "tool_call_id": "a", "content": [TEXT], "pinned": True}]),
    "blocks in a chat": (CHAT, [USE, {"role": "user", "content": [RESULT]}]),
    "parts of the AI SDK": (CHAT, [SDK_CALL, {"role": "tool", "content": [SDK]}]),
    "a block": (MESSAGES, [{"role": "user", "content": [PINNED]}]),
    "an answer's block": (MESSAGES, [{"role": "assistant", "content": [PINNED]}]),
    "results": (MESSAGES, [USE, {"role": "user", "content": [RESULT, PINNED], "pinned": True}]),
    "an item's part": (RESPONSES, [{"role": "user", "content": [{**PINNED, "type": "input_text"}]}]),
    "an output": (RESPONSES, [{"type": "function_call", "call_id": "a"}, {"type": "function_call_output", **OUTPUT}]),
    "another output": (RESPONSES, [{"type": "custom_tool_call_output", **OUTPUT}]),
    "a call": (CHAT, [MARKED_CALL, ANSWER]),
    "a call of a message of unknown form": (CHAT, [{**MARKED_CALL, "name": 5}, ANSWER]),
    "a call without a type": (CHAT, [{**CALL, "tool_calls": [{"id": "a", "pinned": True}]}, ANSWER]),
    "what counts tokens": (MESSAGES + "/count_tokens", [USE, {"role": "user", "content": [RESULT]}]),
}


@pytest.mark.parametrize("turns", [1, 40], ids=["untouched", "shaped"])
@pytest.mark.parametrize(("path", "added"), PLACES.values(), ids=PLACES)
async def test_no_mark_reaches_the_upstream(path: str, added: list[Any], turns: int) -> None:
    said = [{"role": ("user", "assistant")[n % 2], "content": prose(300, n)} for n in range(turns)]
    fields = {"input": [*said, *added]} if path == RESPONSES else {"messages": [*said, *added], "max_tokens": 100}
    trial = await tried({"model": "m", **fields}, toml=window(6_000), path=path, content_type="application/json")
    assert len(trial.asked) == 1
    left = json.dumps(trial.sent).replace('{"pinned": 1}', "{}")  # what a tool was given is not ours
    assert "pinned" not in left
    assert '"context"' not in left
    assert trial.answer.status == 200
    if turns == 1:
        plain = json.loads(json.dumps(fields).replace(', "pinned": true', "").replace(', "context": true', ""))
        assert {name: trial.sent[name] for name in fields} == plain


@pytest.mark.parametrize(
    ("path", "part"),
    [(CHAT, PINNED), (MESSAGES, PINNED), (RESPONSES, {**PINNED, "type": "input_text"})],
    ids=["chat", "messages", "responses"],
)
async def test_a_pinned_part_keeps_its_message(path: str, part: Any) -> None:
    said: list[Any] = [{"role": ("user", "assistant")[n % 2], "content": prose(300, n)} for n in range(41)]
    said[10] = {"role": "user", "content": [part]}
    fields = {"input": said} if path == RESPONSES else {"messages": said, "max_tokens": 100}
    trial = await tried({"model": "m", **fields}, toml=window(6_000), path=path)
    assert "keep it" in trial.asked[0].body.decode()
    assert prose(300, 12) not in trial.asked[0].body.decode()


async def test_a_pinned_call_keeps_itself_and_its_result() -> None:
    said: list[Any] = [{"role": ("user", "assistant")[n % 2], "content": prose(300, n)} for n in range(41)]
    said[10:10] = [MARKED_CALL, {**ANSWER, "content": "keep it"}]
    trial = await tried({"model": "m", "messages": said, "max_tokens": 100}, toml=window(6_000))
    assert {**ANSWER, "content": "keep it"} in trial.messages
    assert CALL in trial.messages


SYSTEM = [{"type": "text", "text": "Be brief.", "context": True}, {**PINNED, "cache_control": {"type": "ephemeral"}}]
WAYS: dict[str, tuple[int, dict[str, Any], str, dict[str, str]]] = {
    "untouched": (1, {}, "", {}),
    "shaped": (41, {}, "", {}),
    "announced": (1, {"tools": [{"name": "f", "input_schema": {}}]}, "[shaping]\nannounce = true\n", {}),
    "with less output": (1, {"max_tokens": 5_999}, "", {}),
    "observed": (41, {}, "", {"x_trimtab_observe": "true"}),
    "bypassed": (41, {}, "", {"x_trimtab_bypass": "true"}),
    "unmanaged": (1, {"thread": "th_1"}, "", {}),
}


@pytest.mark.parametrize(("turns", "more", "toml", "headers"), WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("marked", [False, True], ids=["system alone", "messages too"])
async def test_no_mark_of_a_system_prompt_reaches_the_upstream(
    turns: int, more: dict[str, Any], toml: str, headers: dict[str, str], marked: bool
) -> None:
    said: list[Any] = [{"role": ("user", "assistant")[n % 2], "content": prose(300, n)} for n in range(turns)]
    said[-1] |= {"pinned": True} if marked else {}
    body = {"model": "m", "max_tokens": 100, "system": SYSTEM, "messages": said, "metadata": {"context": True}, **more}
    trial = await tried(body, toml=window(6_000) + toml, path=MESSAGES, **headers)
    first, second, *_ = trial.sent["system"]
    assert first == {"type": "text", "text": "Be brief."}
    assert second == {"type": "text", "text": "keep it", "cache_control": {"type": "ephemeral"}}
    assert "pinned" not in json.dumps(trial.messages)
    assert trial.sent["metadata"] == {"context": True}
