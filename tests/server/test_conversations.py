"""The routes of stored conversations: which requests are ours, and that the others pass."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from tests.support.holding import holding
from tests.support.running import running
from tests.support.scripted import ScriptedUpstream
from trimtab.server.conversations import serves

OURS = [
    ("POST", "/v1/conversations", True),
    ("PUT", "/v1/conversations/conv_1", True),
    ("GET", "/v1/conversations/conv_1/items", True),
    ("GET", "/v1/responses/resp_1", True),
    ("DELETE", "/v1/responses/resp_1", True),
    ("GET", "/v1/responses/resp_1/input_items", True),
    ("POST", "/v1/responses", False),
    ("GET", "/v1/responses", False),
    ("POST", "/v1/responses/resp_1/cancel", True),
    ("POST", "/v1/responses/compact", False),
    ("GET", "/v1/conversationsx", False),
]


@pytest.mark.parametrize(("method", "endpoint", "ours"), OURS)
def test_these_requests_are_ours(method: str, endpoint: str, ours: bool) -> None:
    assert serves(method, endpoint) is ours


@pytest.mark.anyio
async def test_without_conversations_they_pass_as_before() -> None:
    async with (
        ScriptedUpstream() as upstream,
        running(upstream.base_url) as proxy,
        aiohttp.ClientSession() as session,
    ):
        for method, path in (("POST", "/v1/conversations"), ("GET", "/v1/responses/resp_1")):
            async with session.request(method, proxy.url + path) as answer:
                assert await answer.json() == {"ok": True}
        assert [request.target for request in upstream.requests] == ["/v1/conversations", "/v1/responses/resp_1"]


@pytest.mark.anyio
async def test_an_answer_of_ours_has_its_id_and_is_in_the_log(tmp_path: Path) -> None:
    async with holding(tmp_path) as stage, aiohttp.ClientSession() as session:
        async with session.post(stage.proxy.url + "/v1/conversations", data=b"") as answer:
            assert answer.status == 200
            request_id = answer.headers["x-trimtab-request-id"]
        async with session.put(stage.proxy.url + "/v1/conversations/conv_1") as answer:
            assert (answer.status, answer.headers["allow"]) == (405, "DELETE, GET, OPTIONS, POST")
        log = stage.proxy.log.getvalue()
        assert f'"request_id":"{request_id}","path":"conversations","outcome":"stored"' in log


@pytest.mark.anyio
async def test_a_client_key_is_asked_for(tmp_path: Path) -> None:
    keys = '[server]\nclient_keys = ["' + "0" * 64 + '"]\n'
    async with (
        holding(tmp_path, keys) as stage,
        aiohttp.ClientSession() as session,
        session.post(stage.proxy.url + "/v1/conversations") as answer,
    ):
        assert answer.status == 401
