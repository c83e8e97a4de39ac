"""The OpenAI Python SDK changes its base_url and nothing else."""

from __future__ import annotations

import openai
import pytest

from tests.support.chat import COMPLETION, WINDOW
from tests.support.conversations import agent_run, chat, prose
from tests.support.running import Running, running
from tests.support.scripted import ScriptedUpstream, json_reply, sse_reply

pytestmark = pytest.mark.anyio


def client(proxy: Running) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=proxy.base_url, api_key="sk-test", max_retries=2)


CHUNKS = [
    b'{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
    b'{"role":"assistant","content":"Hel"},"finish_reason":null}]}',
    b'{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
    b'{"content":"lo"},"finish_reason":"stop"}]}',
]


async def test_chat_streaming_and_raw_response_headers() -> None:
    scripts = (json_reply(COMPLETION), sse_reply(*CHUNKS), json_reply(COMPLETION))
    async with (
        ScriptedUpstream(*scripts) as upstream,
        running(upstream.base_url, WINDOW) as proxy,
        client(proxy) as sdk,
    ):
        answer = await sdk.chat.completions.create(model="m", messages=chat(2))  # type: ignore[arg-type]
        stream = await sdk.chat.completions.create(model="m", messages=agent_run(30), stream=True)  # type: ignore[call-overload]
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        raw = await sdk.chat.completions.with_raw_response.create(model="m", messages=agent_run(30))  # type: ignore[arg-type]
    assert answer.choices[0].message.content == "ok"
    assert text == "Hello"
    assert raw.headers["x-trimtab-tokens"].startswith("original=")
    assert "cleared=" in raw.headers["x-trimtab-edits"]
    assert raw.parse().usage.prompt_tokens == 10
    assert upstream.requests[0].header(b"authorization") == b"Bearer sk-test"


async def test_tools_go_there_and_back() -> None:
    call = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    reply = {**COMPLETION, "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    async with (
        ScriptedUpstream(json_reply(reply)) as upstream,
        running(upstream.base_url, WINDOW) as proxy,
        client(proxy) as sdk,
    ):
        answer = await sdk.chat.completions.create(model="m", messages=chat(1), tools=[tool])  # type: ignore[call-overload]
    assert answer.choices[0].message.tool_calls[0].function.name == "look"
    assert upstream.requests[0].json()["tools"] == [tool]


async def test_too_long_raises_once_and_is_not_retried() -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url, WINDOW) as proxy, client(proxy) as sdk:
        with pytest.raises(openai.BadRequestError) as caught:
            await sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": prose(30_000)}])
        lines = [line for line in proxy.log.getvalue().splitlines() if '"event":"exchange"' in line]
    assert caught.value.code == "context_length_exceeded"
    assert caught.value.param == "messages"
    assert len(lines) == 1
    assert upstream.requests == []


async def test_models_and_embeddings_pass_through() -> None:
    models = {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "x"}]}
    vectors = {
        "object": "list",
        "model": "e",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 1.0]}],
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }
    async with (
        ScriptedUpstream(json_reply(models), json_reply(vectors)) as upstream,
        running(upstream.base_url) as proxy,
        client(proxy) as sdk,
    ):
        listed = [model.id async for model in sdk.models.list()]
        embedded = await sdk.embeddings.create(model="e", input="x", encoding_format="float")
    assert listed == ["m"]
    assert embedded.data[0].embedding == [0.5, 1.0]
