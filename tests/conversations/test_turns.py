"""What can go wrong with a turn, each caused: two at once, a stream that breaks off, a store that is down."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openai import APIError, AsyncOpenAI, ConflictError, InternalServerError, NotFoundError

from tests.support.chat import post
from tests.support.holding import HEADER, Holding, chat, holding
from tests.support.running import running, sample
from tests.support.scripted import STALL, Pause, Received, ScriptedUpstream, Step, chunk, reply, sse_reply
from tests.support.stateless import StatelessModel
from tests.support.valkey import Valkey
from trimtab.conversations import turns

pytestmark = pytest.mark.anyio


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Holding]:
    async with holding(tmp_path) as made:
        yield made


async def test_the_second_of_two_at_once_gets_a_conflict(stage: Holding) -> None:
    client = stage.client()
    stage.upstream.scripts = (lambda _: sse_reply(b'{"choices":[]}', STALL),)
    stream = await client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "one"}], stream=True, extra_headers={HEADER: "trip"}
    )
    with pytest.raises(ConflictError) as caught:
        await chat(client, "two")
    assert caught.value.code == "conversation_locked"
    assert "x-should-retry" not in caught.value.response.headers
    stage.upstream.scripts = (stage.model,)
    await stream.close()
    for _ in range(100):
        try:
            await chat(client, "three")
            break
        except ConflictError:
            await asyncio.sleep(0.02)
    assert stage.model.seen == [["user: three"]]


async def test_a_lock_outlives_a_long_answer(stage: Holding, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LOCK_S", 0.2)
    monkeypatch.setattr(turns, "_RENEW_S", 0.05)
    client = stage.client()
    stage.upstream.scripts = (lambda _: sse_reply(b'{"choices":[]}', STALL),)
    stream = await client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "one"}], stream=True, extra_headers={HEADER: "trip"}
    )
    await asyncio.sleep(0.5)
    with pytest.raises(ConflictError):
        await chat(client, "two")
    await stream.close()


async def streamed(client: AsyncOpenAI, api: str, name: str) -> None:
    if api == "responses":
        async for _ in await client.responses.create(model="m", input="one", stream=True, conversation=name):
            pass
        return
    asked: Any = [{"role": "user", "content": "one"}]
    async for _ in await client.chat.completions.create(
        model="m", messages=asked, stream=True, extra_headers={HEADER: name}
    ):
        pass


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_of_a_stream_that_breaks_off_is_stored_what_the_client_got(stage: Holding, api: str) -> None:
    client = stage.client()
    name = "trip" if api == "chat" else (await client.conversations.create()).id
    stage.model.breaks = True
    with pytest.raises(APIError):
        await streamed(client, api, name)
    stage.model.breaks = False
    items = (await client.conversations.items.list(name, order="asc")).data
    assert [item.status for item in items] == ["completed", "incomplete"]  # type: ignore[union-attr]
    if api == "chat":
        await chat(client, "two", name)
    else:
        await client.responses.create(model="m", input="two", conversation=name)
    assert stage.model.seen[-1] == ["user: one", "assistant: ans", "user: two"]


async def test_a_client_that_leaves_has_what_it_got(stage: Holding) -> None:
    client = stage.client()
    head = b'{"choices":[{"index":0,"delta":{"content":"So far"}}]}'
    stage.upstream.scripts = (lambda _: sse_reply(head, STALL),)
    stream = await client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "one"}], stream=True, extra_headers={HEADER: "trip"}
    )
    async for piece in stream:
        assert piece.choices[0].delta.content == "So far"
        break
    await stream.close()
    for _ in range(200):
        try:
            items = (await client.conversations.items.list("trip", order="asc")).data
            break
        except NotFoundError:
            await asyncio.sleep(0.02)
    assert [item.status for item in items] == ["completed", "incomplete"]  # type: ignore[union-attr]


def large(received: Received) -> Sequence[Step]:
    """A chat's answer of 17 MB in one piece, or after blanks."""
    message = {"role": "assistant", "content": "x" * (17 << 20)}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    body = msgspec.json.encode(whole)
    typed = [(b"content-type", b"application/json")]
    if b'"user":"slow"' not in received.body:
        return reply(200, body, typed)
    head, *_ = reply(200, b"", typed, chunked=True)
    return [head, chunk(b"\n"), Pause(0.2), chunk(body), b"0\r\n\r\n"]


@pytest.mark.parametrize(("user", "said"), [("fast", "false"), ("slow", None)])
async def test_an_answer_that_is_too_large_is_relayed_and_said_not_to_be_stored(
    stage: Holding, user: str, said: str | None
) -> None:
    client = stage.client()
    stage.upstream.scripts = (large,)
    answer = await chat(client, "one", user=user)
    assert len(answer.parse().choices[0].message.content) == 17 << 20
    assert answer.headers.get("x-trimtab-stored") == said
    with pytest.raises(NotFoundError):
        await client.conversations.retrieve("trip")
    assert sample(await stage.proxy.metrics(), 'trimtab_conversations_total{done="unstored"}') == 1


async def test_an_answer_that_is_stored_or_was_not_to_be_says_nothing(stage: Holding) -> None:
    client = stage.client()
    reads = {"x-trimtab-conversation-mode": "read"}
    for headers in ({}, reads):
        assert "x-trimtab-stored" not in (await chat(client, "one", extra_headers=headers)).headers
    plain = await client.responses.with_raw_response.create(model="m", input="one", store=False)
    assert "x-trimtab-stored" not in plain.headers
    assert 'done="unstored"' not in await stage.proxy.metrics()


async def test_a_store_that_is_down_is_an_error_for_those_alone_who_need_it() -> None:
    server, model = Valkey(), StatelessModel()
    toml = f'[conversations]\nstore = "redis"\n[redis]\nurl = "redis://{server.address}/0"\n'
    async with ScriptedUpstream(model) as upstream, running(upstream.base_url, toml) as proxy:
        client = AsyncOpenAI(base_url=proxy.base_url, api_key="sk", max_retries=0)
        first = await client.responses.create(model="m", input="one")
        server.kill()
        for _ in range(4):
            with pytest.raises(InternalServerError) as caught:
                await client.responses.create(model="m", input="two", previous_response_id=first.id)
            assert (caught.value.status_code, caught.value.code) == (503, "store_unavailable")
        with pytest.raises(InternalServerError):
            await client.responses.create(model="m", input="two", store=True)
        answered = await client.responses.with_raw_response.create(model="m", input="two")
        assert answered.parse().output_text
        assert answered.headers["x-trimtab-stored"] == "false"
        assert (await client.responses.create(model="m", input="two", store=False)).output_text
        assert await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        with pytest.raises(InternalServerError):
            await chat(client, "one")
        await client.close()
    server.stop()


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_a_turn_that_cannot_be_stored_is_an_error_and_not_an_answer(
    stage: Holding, tmp_path: Path, stream: bool
) -> None:
    client = stage.client()
    await chat(client, "one")
    holder = sqlite3.connect(tmp_path / "c.db", isolation_level=None)

    def hold(received: Received) -> Sequence[Step]:
        """From now on the file can be read, and not written to."""
        holder.execute("BEGIN IMMEDIATE")
        return stage.model(received)

    stage.upstream.scripts = (hold,)
    body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "two"}]}
    answer = await post(stage.proxy.url, body, authorization="Bearer sk-one", **{HEADER: "trip"})
    assert b"store_unavailable" in answer.body
    assert b"[DONE]" not in answer.body
    assert answer.status == (200 if stream else 503)
    holder.execute("ROLLBACK")
    holder.close()
    items = (await client.conversations.items.list("trip")).data
    assert len(items) == 2
