"""The demo's client: the SDK makes the recorded requests, byte for byte what was recorded."""

from __future__ import annotations

import anyio
import pytest

pytest.importorskip("openai", reason="the demo's client: pip install 'trimtab[demo]'")
pytest.importorskip("bpe_openai", reason="the demo's tokenizer: pip install 'trimtab[demo]'")

from tests.support.scripted import ScriptedUpstream, json_reply, sse_reply
from trimtab.cli.demo.client import Client, Step
from trimtab.cli.demo.recording import Recording

pytestmark = pytest.mark.anyio

MESSAGES = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
USAGE = (
    b'{"id":"x","object":"chat.completion.chunk","created":1,"model":"demo","choices":[],"usage":'
    b'{"prompt_tokens":90,"completion_tokens":1,"total_tokens":91,"prompt_tokens_details":{"cached_tokens":64}}}'
)
TOLD = [(b"x-trimtab-edits", b"truncated=0, cleared=3, dropped=12, extract=40"), (b"openai-processing-ms", b"0.5")]
REFUSAL = {"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}}


async def replay(upstream: ScriptedUpstream, tools: list[dict[str, str]] | None = None) -> list[Step]:
    client = Client(upstream.base_url, Recording(MESSAGES, tools), 512)
    try:
        return await anyio.to_thread.run_sync(lambda: list(client.replay([(1, 1), (2, 2)])))
    finally:
        client.close()


async def test_a_step_has_usage_edits_and_time() -> None:
    async with ScriptedUpstream(sse_reply(USAGE, headers=TOLD)) as upstream:
        first, second = await replay(upstream)
    assert (first.number, first.messages, first.sent, first.cached) == (1, 1, 90, 64)
    assert first.edits == {"cleared": 3, "dropped": 12}
    assert first.added_ms > -0.5
    assert second.messages == 2


async def test_histories_go_out_as_they_were_recorded() -> None:
    tools = [{"type": "function"}]
    async with ScriptedUpstream(sse_reply(USAGE)) as upstream:
        await replay(upstream, tools)
    sent = [received.json() for received in upstream.requests]
    assert [body["messages"] for body in sent] == [MESSAGES[:1], MESSAGES]
    assert sent[0]["tools"] == tools
    assert (sent[0]["stream"], sent[0]["max_tokens"]) == (True, 512)


async def test_a_refusal_is_a_step_and_is_not_tried_again() -> None:
    async with ScriptedUpstream(json_reply(REFUSAL, 400), sse_reply(USAGE)) as upstream:
        first, second = await replay(upstream)
    assert "too long" in first.error
    assert not second.error
    assert len(upstream.requests) == 2
