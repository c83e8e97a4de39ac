"""Redis, as it really is: away, slow, full of other people's values. No request fails or waits for it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.chat import post
from tests.support.conversations import chat
from tests.support.running import running
from tests.support.scripted import ScriptedUpstream
from tests.support.summaries import COMPACT, split, writing
from tests.support.valkey import Valkey, free_port

pytestmark = pytest.mark.anyio

CASES = {
    "B147": "names carry a version; what an older one left is not read, and expires",
    "B153": "started without it, or with it gone: requests go on, nothing is queued",
    "B154": "a foreign, broken or huge value is a miss",
}
BODY: dict[str, Any] = {"model": "m", "messages": chat(20)}


def on(port: int) -> str:
    return COMPACT + f'[redis]\nurl = "redis://127.0.0.1:{port}/0"\ntimeout_ms = 1000\n'


async def test_without_redis_requests_go_on() -> None:
    async with ScriptedUpstream(writing()) as upstream, running(upstream.base_url, on(free_port())) as proxy:
        answers = [await post(proxy.url, BODY, authorization="Bearer k") for _ in range(3)]
        assert '"level":"error"' not in proxy.log.getvalue()
        metrics = await proxy.metrics()
    assert [a.status for a in answers] == [200] * 3
    assert answers[-1].headers["x-trimtab-summary"] == "hit"  # kept in this process meanwhile
    assert "trimtab_redis_errors_total" in metrics


async def test_redis_that_dies_takes_nothing_with_it() -> None:
    valkey = Valkey()
    try:
        async with ScriptedUpstream(writing()) as upstream, running(upstream.base_url, on(valkey.port)) as proxy:
            first = await post(proxy.url, BODY, authorization="Bearer k")
            valkey._process.kill()
            valkey._process.wait()
            later = [await post(proxy.url, BODY, authorization="Bearer k") for _ in range(3)]
        assert {a.status for a in (first, *later)} == {200}
    finally:
        valkey._process.kill()


FOREIGN = [b"garbage", b"", b'{"text":"of an older version"}', b"x" * (5 << 20), b"\x01" + b"a" * 60]


@pytest.mark.parametrize("value", FOREIGN, ids=["garbage", "empty", "JSON", "5 MB", "our format, not sealed by us"])
async def test_a_foreign_value_is_a_miss(value: bytes) -> None:
    valkey = Valkey()
    try:
        async with ScriptedUpstream(writing()) as upstream:
            async with running(upstream.base_url, on(valkey.port)) as proxy:
                await post(proxy.url, BODY, authorization="Bearer k")
            client = valkey.client()
            names = [name for name in client.scan_iter("*") if b":s:" in name]
            assert names
            assert all(name.startswith(b"trimtab:v") for name in client.scan_iter("*"))
            assert all(client.ttl(name) > 0 for name in client.scan_iter("*"))
            for name in names:
                client.set(name, value)
            before = len(split(upstream.requests)[0])
            async with running(upstream.base_url, on(valkey.port)) as other:
                answer = await post(other.url, BODY, authorization="Bearer k")
        assert answer.status == 200
        assert answer.headers["x-trimtab-summary"] == "miss"
        assert len(split(upstream.requests)[0]) > before
        assert value[:20] not in upstream.requests[-1].body or not value
    finally:
        valkey._process.kill()


async def test_what_is_stored_holds_no_text_and_no_key() -> None:
    valkey = Valkey()
    try:
        async with ScriptedUpstream(writing()) as upstream, running(upstream.base_url, on(valkey.port)) as proxy:
            await post(proxy.url, BODY, authorization="Bearer sk-very-secret")
        client = valkey.client()
        held = b"".join(name + (client.get(name) or b"") for name in client.scan_iter("*"))
        assert held
        for secret in (b"budget is 300", b"Question", b"very-secret", msgspec.json.encode("m")):
            assert secret not in held
    finally:
        valkey._process.kill()
