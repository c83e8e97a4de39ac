"""What an upstream counts is learned from when it can be believed, asked for when it is needed, and never missed by the
client who did not ask."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.chat import COMPLETION, post
from tests.support.conversations import chat
from tests.support.running import running
from tests.support.scripted import Received, ScriptedUpstream, Step, json_reply, sse_reply

pytestmark = pytest.mark.anyio

WINDOW = '[models."*"]\ncontext_size = 32768\nmax_output_tokens = 1024\n'
IGNORED = 'trimtab_limit_events_total{kind="usage_ignored"} 3.0'

BELIEVED_BY_NOBODY: dict[str, Any] = {
    "missing": None,
    "zero": {"prompt_tokens": 0, "completion_tokens": 1},
    "negative": {"prompt_tokens": -700, "completion_tokens": 1},
    "absurdly high": {"prompt_tokens": 10**9, "completion_tokens": 1},
    "absurdly low": {"prompt_tokens": 3, "completion_tokens": 1},
    "a word": {"prompt_tokens": "many", "completion_tokens": 1},
    "a fraction": {"prompt_tokens": 0.5, "completion_tokens": 1},
    "a list": [1, 2],
}


@pytest.mark.parametrize("usage", BELIEVED_BY_NOBODY.values(), ids=BELIEVED_BY_NOBODY)
async def test_what_cannot_be_is_ignored_counted_and_passed_on(usage: Any) -> None:
    answer = {**COMPLETION, "usage": usage}
    body = {"model": "m", "messages": chat(3)}
    async with ScriptedUpstream(json_reply(answer)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        before = proxy.parts.limits.factor("test", "m")
        got = [await post(proxy.url, body) for _ in range(3)]
        after = proxy.parts.limits.factor("test", "m")
        metrics = await proxy.metrics()
    assert [call.json() for call in got] == [answer] * 3
    assert after == before
    assert IGNORED in metrics


async def test_what_can_be_is_learned_from() -> None:
    answer = {**COMPLETION, "usage": {"prompt_tokens": 3600, "completion_tokens": 1}}
    body = {"model": "m", "messages": chat(3)}
    async with ScriptedUpstream(json_reply(answer)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        first = await post(proxy.url, body)
        second = await post(proxy.url, body)
        metrics = await proxy.metrics()
    sent = [int(call.headers["x-trimtab-tokens"].split("sent=")[1].split(",")[0]) for call in (first, second)]
    assert sent[0] < 2500
    assert 3300 < sent[1] < 4200
    assert 'trimtab_calibration_factor{model="m",upstream="test"} 1.' in metrics


PIECE = b'{"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}'
USAGE = b'{"id":"c","choices":[],"usage":{"prompt_tokens":1900,"completion_tokens":2}}'


def streaming(received: Received) -> list[Step]:
    asked = (received.json().get("stream_options") or {}).get("include_usage")
    return sse_reply(PIECE, *([USAGE] if asked else []))


CASES = {  # setting: how many of ten streams are asked for usage, at most and at least
    "never": (0, 0),
    "auto": (1, 6),
    "always": (10, 10),
}


@pytest.mark.parametrize(("setting", "least", "most"), [(k, *v) for k, v in CASES.items()])
async def test_streams_are_asked_for_usage_as_the_setting_says(setting: str, least: int, most: int) -> None:
    body = {"model": "m", "stream": True, "messages": chat(3)}
    raw = msgspec.json.encode(body)
    toml = f'[limits]\ndiscover = false\nask_usage = "{setting}"\n{WINDOW}'
    async with ScriptedUpstream(streaming) as upstream, running(upstream.base_url, toml) as proxy:
        got = [await post(proxy.url, raw) for _ in range(10)]
        own = await post(proxy.url, {**body, "stream_options": {"include_usage": True}})
    asked = [request.body != raw for request in upstream.requests[:10]]
    assert least <= sum(asked) <= most
    assert not any(asked[most:])
    assert all(request.json()["messages"] == body["messages"] for request in upstream.requests)
    expected = b"".join(b"data: " + data + b"\n\n" for data in (PIECE, b"[DONE]"))
    assert {call.body for call in got} == {expected}
    assert USAGE in own.body
