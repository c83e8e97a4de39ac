"""Headers and bodies: each describes the bytes it travels with."""

from __future__ import annotations

import gzip
import time
import zlib
from typing import Any

import aiohttp
import brotli
import msgspec
import pytest
from backports import zstd

from tests.cases.case import case
from tests.cases.trial import tried, window
from tests.support.chat import COMPLETION, OVERFLOW, post
from tests.support.conversations import agent_run, chat
from tests.support.running import running
from tests.support.scripted import ScriptedUpstream, json_reply, reply
from trimtab.settings import parse

pytestmark = pytest.mark.anyio

CASES = {
    "B041": "content-length is that of what is sent",
    "B042": "a compressed answer keeps its bytes and both headers",
    "B043": "so does one in an encoding nobody here knows; identity is asked for",
    "B044": "an overflow is recognized in a compressed error, which else passes as it is",
    "B117": "all end-to-end headers come back, repeated ones too",
    "B119": "a compressed request is read, and sent on without its encoding; an unknown one is a 415",
    "B155": "40 MB are taken, and more than configured is a clear 413",
    "B156": "an HTML error passes as HTML",
}
LONG: dict[str, Any] = {"model": "m", "messages": agent_run(30)}
ENCODERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
    "unknown": lambda data: b"\x28\xb5\x2f\xfd" + data,
}


@pytest.mark.parametrize("stream", [False, True])
async def test_the_length_is_that_of_what_is_sent(stream: bool) -> None:
    trial = await tried({**LONG, "stream": stream}, toml=window(8_192))
    sent = trial.asked[0]
    assert sent.all(b"content-length") == [str(len(sent.body)).encode()]
    assert sent.all(b"transfer-encoding") == []
    assert len(sent.body) < len(trial.body)


@pytest.mark.parametrize("name", ENCODERS)
async def test_a_compressed_answer_keeps_its_bytes_and_says_so(name: str) -> None:
    body = ENCODERS[name](msgspec.json.encode(COMPLETION))
    headers = [(b"content-type", b"application/json"), (b"content-encoding", name.encode())]
    trial = await tried(LONG, reply(200, body, headers), toml=window(8_192))
    assert trial.answer.body == body
    assert trial.answer.headers["content-encoding"] == name
    assert trial.answer.headers["content-length"] == str(len(body))
    assert trial.asked[0].all(b"accept-encoding") == [b"identity"]
    assert trial.line.get("prompt_tokens") == (None if name == "unknown" else 10)


@pytest.mark.parametrize("name", ENCODERS)
async def test_an_error_is_understood_through_its_encoding(name: str) -> None:
    body = ENCODERS[name](msgspec.json.encode(OVERFLOW))
    refused = reply(400, body, [(b"content-type", b"application/json"), (b"content-encoding", name.encode())])
    trial = await tried({"model": "m", "messages": agent_run(12)}, refused, json_reply(COMPLETION), toml=window(8_192))
    if name == "unknown":
        assert (trial.answer.status, trial.answer.body) == (400, body)
    else:
        assert trial.answer.status == 200


async def test_headers_come_back_all_of_them() -> None:
    upstream = case("B117")["upstream"]
    named = [(k.encode(), v.encode()) for k, v in upstream["headers"].items()]
    more = [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2"), (b"openai-organization", b"x"), (b"x-odd", b"caf\xe9")]
    hop = [(b"connection", b"x-hop"), (b"x-hop", b"1"), (b"keep-alive", b"timeout=5")]
    trial = await tried(
        LONG, json_reply({"error": {"message": "slow down"}}, upstream["status"], [*named, *more, *hop])
    )
    for name, value in upstream["headers"].items():
        assert trial.answer.headers[name] == value
    assert trial.answer.headers.getall("set-cookie") == ["a=1", "b=2"]
    assert "x-hop" not in trial.answer.headers
    assert "keep-alive" not in trial.answer.headers


@pytest.mark.parametrize("name", [*ENCODERS, "identity", "GZIP"])
async def test_a_compressed_request_is_read_and_sent_on_plain(name: str) -> None:
    plain = msgspec.json.encode({"model": "m", "messages": chat(1)})
    body = ENCODERS.get(name.lower(), bytes)(plain)
    trial = await tried(body, content_encoding=name)
    if name == "unknown":
        assert (trial.answer.status, trial.error["code"]) == (415, "unsupported_content_encoding")
        return
    assert trial.asked[0].body == plain
    assert trial.asked[0].all(b"content-encoding") == []


@pytest.mark.parametrize("megabytes", [4, 12, 40])
async def test_large_bodies_are_taken(megabytes: int) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * (megabytes << 20)}}
    began = time.process_time()
    trial = await tried({"model": "m", "messages": [{"role": "user", "content": [image]}]})
    assert trial.untouched
    assert time.process_time() - began < 10


async def test_a_body_beyond_the_bound_is_a_clear_413() -> None:
    toml = "[server]\nmax_body_mb = 1\n"
    async with ScriptedUpstream() as upstream, running(upstream.base_url, toml) as proxy:
        async with aiohttp.ClientSession() as session:

            async def chunks() -> Any:
                for _ in range(20):
                    yield b" " * 100_000

            for data in (b" " * (2 << 20), chunks()):
                try:
                    async with session.post(proxy.base_url + "/chat/completions", data=data) as answer:
                        error = (await answer.json())["error"]
                        assert (answer.status, error["code"]) == (413, "request_too_large")
                        assert "max_body_mb" in error["message"]
                except aiohttp.ClientConnectionError:
                    pass  # it was still writing when the answer came
        assert proxy.parts.load.bytes == 0
    assert upstream.requests == []


async def test_an_html_error_passes_as_html() -> None:
    answer = case("B156")["upstream"]
    typed = [(b"content-type", answer["content_type"].encode())]
    trial = await tried(LONG, reply(answer["status"], answer["body"].encode(), typed))
    assert (trial.answer.status, trial.answer.body) == (413, answer["body"].encode())
    assert trial.answer.headers["content-type"] == "text/html"


@pytest.mark.parametrize(("key", "next_key"), [("8e03", "8e03-2"), ('"8e03"', '"8e03-2"')])
async def test_a_smaller_request_has_an_idempotency_key_of_its_own(key: str, next_key: str) -> None:
    refused, answered = json_reply(OVERFLOW, 400), json_reply(COMPLETION)
    body = {"model": "m", "messages": chat(40)}
    trial = await tried(body, refused, answered, refused, answered, times=2, idempotency_key=key)
    keys = [received.header(b"idempotency-key") for received in trial.asked]
    assert keys[:2] == [key.encode(), next_key.encode()]
    assert trial.asked[0].body != trial.asked[1].body
    assert trial.answers[0].status == 200
    assert keys[2] == key.encode()  # the client's request, sent again


async def test_a_request_that_is_retried_keeps_its_idempotency_key() -> None:
    upstream = ScriptedUpstream(reply(503), json_reply(COMPLETION))
    async with upstream:
        table = f'[[upstreams]]\nname = "up"\nbase_url = "{upstream.base_url}"\nretries = 1\n'
        async with running(parse(table + "[limits]\ndiscover = false\n", {})) as proxy:
            answer = await post(proxy.url, {"model": "m", "messages": chat(1)}, idempotency_key="8e03")
    assert answer.status == 200
    assert [received.header(b"idempotency-key") for received in upstream.requests] == [b"8e03", b"8e03"]
