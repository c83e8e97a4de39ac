"""A request that was valid stays valid, and what must stay does: blocks, screenshots, reminders, unknown fields."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from tests.cases.trial import window
from tests.support.anthropic_pairs import broken
from tests.support.chat import COMPLETION, post, token_counts
from tests.support.conversations import chat, cycle, prose
from tests.support.images import png
from tests.support.running import running
from tests.support.scripted import Received, Script, ScriptedUpstream, Step, json_reply
from trimtab.context.estimate.tokens import text_tokens

pytestmark = pytest.mark.anyio

CASES = {
    "N01": "tool_use and tool_result blocks in a chat are pairs: at every step of a run a strict server takes them",
    "N04": "the task is the last to go; screenshots sent as user messages after results go first, oldest first",
    "N13": "reasoning under a vendor's own field name costs tokens, so such a run is shaped before it overflows",
    "N14": "a document of plain text, or of code in base64, costs what the same text costs",
    "N16": "json_object keeps the word json among what is sent",
    "N18": "a reminder sent as a system message in each turn goes with its turn; the opening ones and the newest stay",
}
SIXTEEN = window(16_000, 2_000) + "[limits]\ndiscover = false\n"
EIGHT = window(8_000, 2_000) + "[limits]\ndiscover = false\n"
TASK = "The task: count the files of every folder."


async def stepwise(histories: list[list[Any]], script: Script, toml: str, **fields: Any) -> list[list[Any]]:
    """What was sent of each history, one request after the other; every answer is a 200."""
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url, toml) as proxy:
        for messages in histories:
            answer = await post(proxy.url, {"model": "m", "messages": messages, **fields})
            assert answer.status == 200, answer.body
        assert "fail_open" not in proxy.log.getvalue()
        return [received.json()["messages"] for received in upstream.requests]


def steps(opening: list[Any], parts: list[list[Any]]) -> list[list[Any]]:
    """A history after each of its parts."""
    return [opening + [m for part in parts[:k] for m in part] for k in range(1, len(parts) + 1)]


def block_step(k: int) -> list[Any]:
    use = {"type": "tool_use", "id": f"toolu_{k}", "name": "read", "input": {"page": k}}
    found = {"type": "tool_result", "tool_use_id": f"toolu_{k}", "content": prose(900, k)}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [found]}]


async def test_blocks_of_anthropics_form_are_pairs_at_every_step() -> None:
    def strict(received: Received) -> list[Step]:
        wrong = broken(received.json()["messages"])
        return json_reply({"error": {"message": wrong}}, 400) if wrong else json_reply(COMPLETION)

    opening = [{"role": "user", "content": TASK}]
    sent = await stepwise(steps(opening, [block_step(k) for k in range(30)]), strict, SIXTEEN, max_tokens=1_000)
    assert all(messages[0]["content"] == TASK for messages in sent)
    assert text_tokens(str(sent[-1])) < 16_000


async def test_screenshots_go_before_the_task() -> None:
    shot = {
        "type": "image_url",
        "image_url": {"url": f"data:image/png;base64,{base64.b64encode(png(1280, 800)).decode()}"},
    }

    def step(k: int) -> list[Any]:
        looked = [{"type": "text", "text": f"Screenshot {k}"}, shot]
        return [*cycle(k, 5), {"role": "user", "content": looked}]

    opening = [{"role": "system", "content": "You click."}, {"role": "user", "content": TASK}]
    sent = await stepwise(steps(opening, [step(k) for k in range(40)]), json_reply(COMPLETION), SIXTEEN)
    assert all(TASK in str(messages) for messages in sent)
    for k, messages in enumerate(sent):
        assert f"Screenshot {k}'" in str(messages)
    assert "Screenshot 0'" not in str(sent[-1])


@pytest.mark.parametrize("name", ["reasoning_text", "thinking", "provider_specific_fields"])
async def test_reasoning_of_a_vendors_name_is_counted(name: str) -> None:
    def strict(received: Received) -> list[Step]:
        size = text_tokens(received.body.decode())
        return json_reply({"error": {"message": "no"}}, 400) if size > 17_000 else json_reply(COMPLETION)

    def step(k: int) -> list[Any]:
        call, result = cycle(k, 20)
        thought: Any = prose(900, k) if name != "provider_specific_fields" else {"thoughts": [prose(900, k)]}
        return [{**call, name: thought}, result]

    opening = [{"role": "user", "content": TASK}]
    await stepwise(steps(opening, [step(k) for k in range(24)]), strict, SIXTEEN)


@pytest.mark.parametrize("form", ["source", "file_data"])
async def test_a_document_of_text_costs_what_its_text_costs(form: str) -> None:
    text = prose(20_000)
    encoded = base64.b64encode(text.encode()).decode()
    document = {
        "source": {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}},
        "file_data": {
            "type": "file",
            "file": {"filename": "a.py", "file_data": f"data:text/x-python;base64,{encoded}"},
        },
    }[form]
    toml = window(200_000, 2_000) + "[limits]\ndiscover = false\n"
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, toml) as proxy:
        body = {"model": "m", "messages": [{"role": "user", "content": [document]}]}
        answer = await post(proxy.url, body)
        plain = await post(proxy.url, {"model": "m", "messages": [{"role": "user", "content": text}]})
    assert token_counts(answer)["original"] == pytest.approx(token_counts(plain)["original"], rel=0.02)


async def test_json_object_keeps_its_word() -> None:
    def strict(received: Received) -> list[Step]:
        said = "json" in msgspec.json.encode(received.json()["messages"]).decode().lower()
        return (
            json_reply(COMPLETION) if said else json_reply({"error": {"message": "'messages' must contain json"}}, 400)
        )

    turns = chat(30, 300)
    turns[3] = {"role": "user", "content": "From now on answer as JSON."}
    histories = [turns[:n] for n in range(4, len(turns) + 1, 2)]
    await stepwise(histories, strict, EIGHT, response_format={"type": "json_object"})


@pytest.mark.parametrize("role", ["system", "developer"])
async def test_reminders_go_with_their_turns(role: str) -> None:
    def turn(k: int) -> list[Any]:
        reminder = {"role": role, "content": f"Reminder {k}: {prose(600, k)}"}
        return [
            {"role": "user", "content": f"Question {k}?"},
            reminder,
            {"role": "assistant", "content": f"Answer {k}."},
        ]

    opening = [{"role": "system", "content": "You answer."}]
    histories = [h[:-1] for h in steps(opening, [turn(k) for k in range(60)])]
    sent = await stepwise(histories, json_reply(COMPLETION), SIXTEEN)
    for k, messages in enumerate(sent):
        assert messages[0] == opening[0]
        assert f"Reminder {k}:" in str(messages)
        assert f"Question {k}?" in str(messages)
    assert "Reminder 1:" not in str(sent[-1])
