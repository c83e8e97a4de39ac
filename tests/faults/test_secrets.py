"""After a storm of odd requests and failing upstreams: nothing anyone wrote, and no key, is where operators look."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.support.chat import COMPLETION, OVERFLOW, post
from tests.support.conversations import agent_run
from tests.support.odd_requests import ROWS
from tests.support.raw import BODY, exchange, request
from tests.support.running import running
from tests.support.scripted import RESET, ScriptedUpstream, Step, chunk, json_reply, reply
from tests.support.streams import BEGUN, BROKEN

pytestmark = pytest.mark.anyio

TEXT = "marzipan-confession"  # what a user wrote, an upstream echoed, a tool gave back
KEYS = ("sk-client-0123456789", "sk-upstream-9876543210", "sk-header-5555")
TOOLS = [{"type": "function", "function": {"name": f"{TEXT}_tool", "parameters": {"description": TEXT}}}]


def bodies() -> list[bytes]:
    """Requests that are right, wrong, too long and no requests at all, all with the text in every place."""
    said = {"role": "user", "content": TEXT, "name": TEXT}
    values: list[Any] = [
        {"model": "m", "messages": [said], "user": TEXT, "metadata": {"x": TEXT}, "tools": TOOLS},
        {"model": "m", "messages": [*agent_run(30), said], "stream": True},
        {"model": "m", "messages": [{**said, "content": f"{TEXT} " * 30_000}]},
        {"model": "m", "messages": [said], "context_management": {"edits": [{"type": TEXT}]}},
        {"model": "m", "messages": [said], "context_management": {"edits": TEXT}},
        {"model": "m", "messages": TEXT, TEXT: TEXT},
        {"messages": [said, None, TEXT, {"role": TEXT, "content": {TEXT: TEXT}}]},
        [TEXT],
        TEXT,
    ]
    broken = [
        TEXT.encode(),
        f'{{"messages":"{TEXT}'.encode(),
        b'{"model":"m","messages":[{"content":"' + b"\xff" + TEXT.encode(),
    ]
    return [*map(msgspec.json.encode, values), *broken]


def echoing() -> list[list[Step]]:
    """Answers that hold the text, and faults that interrupt them."""
    error = {"error": {"message": f"invalid: {TEXT} {KEYS[0]}", "type": "invalid_request_error", "code": "x"}}
    long = {"error": {**OVERFLOW["error"], "message": f"{OVERFLOW['error']['message']} {TEXT}"}}
    event = f'data: {{"choices":[{{"delta":{{"content":"{TEXT}"}}}}],"error":{{"message":"{TEXT}"}}}}\n\n'.encode()
    return [
        json_reply(COMPLETION),
        json_reply(error, 400),
        json_reply(error, 500),
        json_reply(long, 400),
        reply(502, TEXT.encode()),
        [BEGUN, chunk(event), b"0\r\n\r\n"],
        [BEGUN, chunk(event), RESET],
        [f"HTTP/1.1 200 {TEXT}\r\nx-{TEXT}\r\n\r\n".encode()],
        *(broken.script for broken in BROKEN.values()),
    ]


async def test_the_operators_log_and_metrics_hold_no_text_and_no_key() -> None:
    digest = hashlib.sha256(KEYS[0].encode()).hexdigest()
    toml = (
        f'read_timeout_s = 0.2\napi_key = "{KEYS[1]}"\n[upstreams.headers]\nx-extra = "{KEYS[2]}"\n'
        f'[models."*"]\ncontext_size = 8192\n[server]\nclient_keys = ["{digest}"]\nmax_body_mb = 1\n'
    )
    answers = itertools.cycle(echoing())
    async with ScriptedUpstream(lambda _: next(answers)) as upstream, running(upstream.base_url, toml) as proxy:
        for path, key in itertools.product(
            ("/v1/chat/completions", "/v1/context/plan", "/v1/embeddings", f"/v1/{TEXT}"), (KEYS[0], f"wrong {TEXT}")
        ):
            for body in bodies():
                with contextlib.suppress(aiohttp.ClientError):  # a broken answer to us is no matter here
                    await post(proxy.url, body, path, authorization=f"Bearer {key}", x_trimtab_hint="general")
        for name in ("profile", "hint"):
            await post(proxy.url, BODY, authorization=f"Bearer {KEYS[0]}", **{f"x_trimtab_{name}": TEXT})
        for row in ROWS.values():
            await exchange(proxy.url, row.data.replace(b'"hi"', f'"{TEXT}"'.encode()))
        await exchange(proxy.url, request(extra=f"x-{TEXT}: {TEXT}\r\nconnection: close\r\n".encode()))
        log, metrics = proxy.log.getvalue(), await proxy.metrics()
    assert log.count('"event":"exchange"') > 100
    assert "trimtab_requests_total" in metrics
    for secret in (TEXT, *KEYS):
        assert secret not in log
        assert secret not in metrics
    assert '"event":"bug"' not in log


async def test_our_own_errors_quote_nothing() -> None:
    async with ScriptedUpstream([RESET]) as upstream, running(upstream.base_url) as proxy:
        for body in bodies():
            if b'"edits":[{"type"' in body:
                continue  # the name of an edit that does not exist is told, to who wrote it
            answer = await post(proxy.url, body, authorization=f"Bearer {KEYS[0]}")
            assert TEXT not in answer.body.decode()
            assert KEYS[0] not in answer.body.decode()


async def test_a_tenant_never_gets_anothers_answer_or_shaping() -> None:
    """Whatever is remembered holds numbers and ids only: the same request gives the same bytes for whoever sends it."""
    one, other = ({"model": "m", "messages": agent_run(n)} for n in (28, 30))
    toml = '[models."*"]\ncontext_size = 8192\n'
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, toml) as proxy:
        for key, body in (("a", one), ("b", other), ("a", other), ("b", one)):
            await post(proxy.url, body, authorization=f"Bearer {key}")
    bodies_, keys = [r.body for r in upstream.requests], [r.header(b"authorization") for r in upstream.requests]
    assert keys == [b"Bearer a", b"Bearer b", b"Bearer a", b"Bearer b"]
    assert (bodies_[0], bodies_[1]) == (bodies_[3], bodies_[2])


async def test_no_client_input_says_where_a_request_goes() -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url) as proxy:
        odd = {"x_forwarded_host": "evil.example", "x_original_url": "/admin", "forwarded": "host=evil.example"}
        body = {"model": "http://evil.example/m", "base_url": "http://evil.example", "messages": []}
        assert (await post(proxy.url, body, **odd)).status == 200
        await exchange(proxy.url, request(b"http://evil.example/v1/models", b"", b"host: evil.example\r\n", b"GET"))
    assert {r.header(b"host") for r in upstream.requests} == {upstream.origin.removeprefix("http://").encode()}
    assert [r.target for r in upstream.requests] == ["/v1/chat/completions", "/v1/models"]
