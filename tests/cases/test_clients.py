"""What clients read of an answer to steer themselves by."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.case import case
from tests.cases.trial import tried, window
from tests.support.chat import COMPLETION
from tests.support.conversations import agent_run
from tests.support.scripted import json_reply, sse_reply

pytestmark = pytest.mark.anyio

CASES = {
    "B140": "helper endpoints pass through untouched; what is counted there is what the client holds",
    "B141": "usage is the upstream's, of what was really sent; our own numbers stand in headers",
}
LONG: dict[str, Any] = {"model": "m", "messages": agent_run(30)}


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1/tokenize", "/v1/responses", "/v1/embeddings"])
async def test_helper_endpoints_pass_through(path: str) -> None:
    trial = await tried(LONG, json_reply({"input_tokens": 15_000}), toml=window(8_192), path=path)
    assert trial.untouched
    assert trial.asked[0].target == path
    assert trial.answer.json() == {"input_tokens": 15_000}


async def test_usage_is_never_rewritten() -> None:
    usage = case("B141")["upstream"]["usage"]
    trial = await tried(LONG, json_reply({**COMPLETION, "usage": usage}), toml=window(8_192))
    assert trial.answer.json()["usage"] == usage
    assert "original=" in trial.answer.headers["x-trimtab-tokens"]
    event = b'{"choices":[],"usage":{"prompt_tokens":52000,"completion_tokens":10,"total_tokens":52010}}'
    asking = {**LONG, "stream": True, "stream_options": {"include_usage": True}}
    assert event in (await tried(asking, sse_reply(event), toml=window(8_192))).answer.body
