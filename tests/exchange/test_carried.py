"""The proxy's own calls, for summaries and listings, go the way the client's request went."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.trial import window
from tests.support.chat import COMPLETION, post
from tests.support.conversations import chat
from tests.support.running import running
from tests.support.scripted import Received, ScriptedUpstream, Step, json_reply
from tests.support.summary_models import OPENING
from trimtab.settings import parse

pytestmark = pytest.mark.anyio

SUMMARY = {
    "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": OPENING + "it is so."}}],
    "usage": {"prompt_tokens": 900, "completion_tokens": 60},
}
SAME = window(8_192) + '[compaction]\nmodel = "same"\nmax_summary_tokens = 300\nride_prefix = false\n'
WAY = {
    "editor_version": "vscode/1.99",
    "copilot_integration_id": "vscode-chat",
    "x_portkey_config": "pc-1",
    "openai_organization": "org-1",
    "cookie": "session=1",
    "api_key": "client-key",
}
OF_ONE_REQUEST = {"idempotency_key": "k-1", "x_request_id": "r-1", "accept": "text/event-stream"}
QUERY = "?api-version=2024-10-21&key=secret"


def gateway(received: Received) -> list[Step]:
    """Refuses whatever lacks one of the client's headers, or its query."""
    missing = [name for name in WAY if received.header(name.replace("_", "-").encode()) is None]
    if missing or not received.target.endswith(QUERY):
        return json_reply({"error": {"message": f"missing {missing}"}}, 403)
    if received.method == "GET":
        return json_reply({"data": []})
    is_ours = received.json().get("user") != "client"
    return json_reply(SUMMARY if is_ours else COMPLETION)


async def test_a_summary_is_asked_for_as_the_conversation_was() -> None:
    body: Any = {"model": "m", "user": "client", "messages": chat(20, 300)}
    async with ScriptedUpstream(gateway) as upstream, running(upstream.base_url, SAME) as proxy:
        answer = await post(proxy.url, body, f"/v1/chat/completions{QUERY}", **WAY, **OF_ONE_REQUEST)
    assert answer.status == 200
    assert "summarized=0" not in answer.headers["x-trimtab-edits"]
    ours = [r for r in upstream.requests if r.method == "POST" and r.json().get("user") != "client"]
    assert ours
    for asked in ours:
        assert asked.header(b"content-type") == b"application/json"
        assert asked.all(b"content-length") == [b"%d" % len(asked.body)]
        assert not [name for name in OF_ONE_REQUEST if asked.header(name.replace("_", "-").encode())]


async def test_listings_are_asked_for_alike() -> None:
    toml = "[limits]\ndiscover = true\n"
    async with ScriptedUpstream(gateway) as upstream, running(upstream.base_url, toml) as proxy:
        body = {"model": "unknown", "user": "client", "messages": chat(1)}
        await post(proxy.url, body, f"/v1/chat/completions{QUERY}", **WAY)
    listed = [r for r in upstream.requests if r.method == "GET"]
    assert listed
    assert all(r.target.endswith(QUERY) and r.header(b"editor-version") for r in listed)


async def test_a_summary_model_on_another_server_gets_nothing_of_the_client() -> None:
    async with ScriptedUpstream(json_reply(SUMMARY)) as writer, ScriptedUpstream(gateway) as upstream:
        toml = SAME.replace('"same"', '"writer"') + (
            f'[[upstreams]]\nname = "a"\nbase_url = "{upstream.base_url}"\nmodels = ["m"]\n'
            f'[[upstreams]]\nname = "b"\nbase_url = "{writer.base_url}"\nmodels = ["writer"]\n'
        )
        async with running(parse(toml + "[limits]\ndiscover = false\n", {})) as proxy:
            body = {"model": "m", "user": "client", "messages": chat(20, 300)}
            await post(proxy.url, body, f"/v1/chat/completions{QUERY}", **WAY)
    assert writer.requests
    for asked in writer.requests:
        assert "?" not in asked.target
        assert not [name for name in WAY if asked.header(name.replace("_", "-").encode())]
