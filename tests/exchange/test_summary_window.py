"""A summary model that is named in the configuration has its own window: no call of it is longer than it takes."""

from __future__ import annotations

import pytest

from tests.support.chat import post
from tests.support.conversations import chat
from tests.support.running import running
from tests.support.scripted import Received, ScriptedUpstream, Step, json_reply
from tests.support.summaries import writing_as_writer
from trimtab.context.estimate.tokens import bytes_tokens

pytestmark = pytest.mark.anyio

CONFIG = """
[models.m]
context_size = 32768
max_output_tokens = 2048
[limits]
discover = false
[compaction]
model = "writer"
precompact_share = 1.0
summary_wait_s = 30
max_summary_tokens = 300
"""
OWN = "[models.writer]\ncontext_size = 4096\nmax_output_tokens = 512\n"


def sizes(upstream: ScriptedUpstream) -> list[int]:
    """Estimated tokens of the summary model's calls."""
    return [bytes_tokens(r.body) for r in upstream.requests if r.json()["model"] == "writer"]


def refusing(received: Received) -> list[Step]:
    """A summary model that refuses what is over 4,096 tokens, and the model of the chat."""
    size = bytes_tokens(received.body)
    if received.json()["model"] != "writer" or size <= 4_096:
        return writing_as_writer(received)
    message = f"This model's maximum context length is 4096 tokens. However, your messages resulted in {size} tokens."
    return json_reply({"error": {"message": message, "code": "context_length_exceeded"}}, status=400)


async def test_no_call_is_longer_than_the_window_that_is_configured() -> None:
    async with ScriptedUpstream(refusing) as upstream, running(upstream.base_url, CONFIG + OWN) as proxy:
        answer = await post(proxy.url, {"model": "m", "messages": chat(60)})
    assert answer.headers["x-trimtab-summary"] == "miss"
    assert len(sizes(upstream)) > 2
    assert max(sizes(upstream)) <= 4_096


async def test_what_a_refused_call_says_is_learned() -> None:
    async with ScriptedUpstream(refusing) as upstream, running(upstream.base_url, CONFIG) as proxy:
        first = await post(proxy.url, {"model": "m", "messages": chat(60)})
        refused = len(sizes(upstream))
        later = await post(proxy.url, {"model": "m", "messages": [*chat(60), *chat(61)[-2:]]})
    assert first.headers["x-trimtab-summary"] == "fallback"
    assert max(sizes(upstream)[:refused]) > 4_096
    assert max(sizes(upstream)[refused:], default=0) <= 4_096
    assert later.status == 200
