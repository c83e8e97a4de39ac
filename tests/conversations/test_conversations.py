"""Conversations through a whole proxy: the OpenAI SDK sends only what is new, the upstream holds nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openai import APIError, BadRequestError, ConflictError, NotFoundError

from tests.support.chat import post
from tests.support.holding import HEADER, Holding, chat, holding

pytestmark = pytest.mark.anyio


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Holding]:
    async with holding(tmp_path) as made:
        yield made


# -- responses -----------------------------------------------------------------------------------------------------


async def test_a_response_continues_an_earlier_one(stage: Holding) -> None:
    client = stage.client()
    first = await client.responses.create(model="m", input="one")
    second = await client.responses.create(model="m", input="two", previous_response_id=first.id)
    await client.responses.create(model="m", input="three", previous_response_id=second.id)
    history = ["user: one", "assistant: answer 1", "user: two", "assistant: answer 2", "user: three"]
    assert stage.model.seen[-1] == history
    assert stage.model.bodies[-1]["store"] is False


async def test_two_responses_that_continue_the_same_one_go_apart(stage: Holding) -> None:
    client = stage.client()
    first = await client.responses.create(model="m", input="one")
    both = await asyncio.gather(
        *(client.responses.create(model="m", input=text, previous_response_id=first.id) for text in ("left", "right"))
    )
    for response, text in zip(both, ("left", "right"), strict=True):
        await client.responses.create(model="m", input="next", previous_response_id=response.id)
        answer = f"assistant: {response.output_text}"
        assert stage.model.seen[-1] == ["user: one", "assistant: answer 1", f"user: {text}", answer, "user: next"]


async def test_a_streamed_response_is_there_when_its_end_is(stage: Holding) -> None:
    client = stage.client()
    async with client.responses.stream(model="m", input="one") as stream:
        async for event in stream:
            if event.type == "response.completed":
                later = await client.responses.create(model="m", input="two", previous_response_id=event.response.id)
    assert later.output_text == "answer 2"
    assert stage.model.seen[-1] == ["user: one", "assistant: answer 1", "user: two"]


async def test_a_conversation_grows_by_its_requests(stage: Holding) -> None:
    client = stage.client()
    made = await client.conversations.create(metadata={"topic": "trip"})
    for text in ("one", "two"):
        await client.responses.create(model="m", input=text, conversation=made.id)
    assert stage.model.seen[-1] == ["user: one", "assistant: answer 1", "user: two"]


async def test_an_item_that_is_only_referred_to_is_put_in(stage: Holding) -> None:
    client = stage.client()
    first = await client.responses.create(model="m", input="one")
    later: Any = [
        {"role": "user", "content": "one"},
        {"type": "item_reference", "id": first.output[0].id},
        {"role": "user", "content": "two"},
    ]
    await client.responses.create(model="m", input=later)
    assert stage.model.seen[-1] == ["user: one", "assistant: answer 1", "user: two"]
    with pytest.raises(NotFoundError):
        await client.responses.retrieve(str(first.output[0].id))
    unknown: Any = [{"type": "item_reference", "id": "msg_none"}, {"role": "user", "content": "two"}]
    answer = await client.responses.with_raw_response.create(model="m", input=unknown)
    assert answer.headers["x-trimtab-unmanaged"] == "item_reference"


async def test_what_asks_not_to_be_stored_is_not_touched(stage: Holding) -> None:
    body = b'{"model":"m",  "input":"caf\\u00e9", "store":false}'
    answer = await post(stage.proxy.url, body, "/v1/responses", authorization="Bearer sk-one")
    assert stage.upstream.requests[-1].body == body
    with pytest.raises(NotFoundError, match=r"Previous response with id 'resp_1' not found"):
        await stage.client().responses.create(model="m", input="two", previous_response_id=answer.json()["id"])


async def test_another_tenant_has_no_such_response(stage: Holding) -> None:
    first = await stage.client().responses.create(model="m", input="one")
    with pytest.raises(NotFoundError) as caught:
        await stage.client("sk-two").responses.create(model="m", input="two", previous_response_id=first.id)
    assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")
    with pytest.raises(NotFoundError, match="Conversation with id"):
        await stage.client().responses.create(model="m", input="two", conversation="conv_none")
    assert len(stage.model.seen) == 1


async def test_a_refused_request_leaves_no_trace(tmp_path: Path) -> None:
    async with holding(tmp_path, window=200) as stage:
        client = stage.client()
        made = await client.conversations.create()
        with pytest.raises(BadRequestError):
            await client.responses.create(model="m", input="x" * 2000, conversation=made.id)
        await client.responses.create(model="m", input="one", conversation=made.id)
        assert stage.model.seen[-1] == ["user: one"]


# -- chat ----------------------------------------------------------------------------------------------------------


async def test_a_chat_goes_on_under_its_id(stage: Holding) -> None:
    client = stage.client()
    raw = await chat(client, "one")
    assert raw.headers[HEADER] == "trip"
    raw = await chat(client, "two")
    assert stage.model.seen[-1] == ["user: one", "assistant: answer 1", "user: two"]
    assert raw.headers["x-trimtab-messages"] == "history=3, sent=3"
    assert raw.parse().model_extra["trimtab"]["conversation"] == {"id": "trip", "messages": 3, "sent": 3}


async def test_an_id_is_made_where_none_is_chosen(stage: Holding) -> None:
    client = stage.client()
    name = (await chat(client, "one", "new")).headers[HEADER]
    assert name.startswith("conv_")
    await chat(client, "two", name)
    assert stage.model.seen[-1] == ["user: one", "assistant: answer 1", "user: two"]


@pytest.mark.parametrize("name", ["a b", "-x", "x" * 129, "../x"])
async def test_an_id_of_odd_characters_is_refused(stage: Holding, name: str) -> None:
    with pytest.raises(BadRequestError, match="Invalid id in x-trimtab-conversation"):
        await chat(stage.client(), "one", name)


@pytest.mark.parametrize("mode", ["reads", "write", "read-only", "true"])
async def test_an_unknown_mode_is_refused_and_nothing_is_written(stage: Holding, mode: str) -> None:
    client = stage.client()
    await chat(client, "one", "trip")
    headers = {HEADER: "trip", "x-trimtab-conversation-mode": mode}
    with pytest.raises(BadRequestError, match="Unknown mode in x-trimtab-conversation-mode"):
        await chat(client, "two", extra_headers=headers)
    with pytest.raises(BadRequestError, match="Unknown mode"):
        await client.responses.create(model="m", input="two", extra_headers=headers)
    await chat(client, "three", extra_headers={**headers, "x-trimtab-conversation-mode": "Read"})
    await chat(client, "four", "trip")
    assert stage.model.seen[-1] == ["user: one", "assistant: answer 1", "user: four"]


async def test_a_streamed_chat_is_there_when_its_end_is(stage: Holding) -> None:
    client = stage.client()
    messages: Any = [{"role": "user", "content": "one"}]
    stream = await client.chat.completions.create(
        model="m", messages=messages, stream=True, extra_headers={HEADER: "trip"}
    )
    async for chunk in stream:
        if chunk.choices and chunk.choices[0].finish_reason:
            break
    await stream.close()
    for _ in range(50):  # the lock is freed when the proxy has seen that the client left
        try:
            await chat(client, "two")
            break
        except ConflictError:
            await asyncio.sleep(0.02)
    assert stage.model.seen[-1] == ["user: one", "assistant: answer 1", "user: two"]


async def test_reading_alone_writes_nothing(stage: Holding) -> None:
    client, read = stage.client(), {f"{HEADER}-mode": "read"}
    await chat(client, "one")
    await chat(client, "aside", extra_headers=read)
    assert stage.model.seen[-1] == ["user: one", "assistant: answer 1", "user: aside"]
    await chat(client, "two")
    assert stage.model.seen[-1] == ["user: one", "assistant: answer 1", "user: two"]
    with pytest.raises(NotFoundError):
        await chat(client, "x", "another", extra_headers=read)


async def test_without_the_header_a_chat_keeps_its_bytes(stage: Holding) -> None:
    body = b'{"model": "m",  "messages": [{"role":"user","content":"caf\\u00e9"}]}'
    answer = await post(stage.proxy.url, body)
    assert stage.upstream.requests[-1].body == body
    assert "trimtab" not in answer.json()


async def test_a_conversation_belongs_to_one_api(stage: Holding) -> None:
    client = stage.client()
    await chat(client, "one")
    with pytest.raises(BadRequestError, match="belongs to another API"):
        await client.responses.create(model="m", input="two", conversation="trip")


def files(folder: Path) -> bytes:
    return b"".join([file.read_bytes() for file in sorted(folder.glob("c.db*"))])


async def test_what_is_stored_is_sealed_and_not_logged(stage: Holding, tmp_path: Path) -> None:
    client = stage.client("sk-very-secret")
    await chat(client, "the launch is on friday")
    await client.responses.create(model="m", input="the launch is on friday")
    with pytest.raises(NotFoundError):
        await client.responses.create(model="m", input="friday", previous_response_id="resp_of_friday")
    stored = files(tmp_path)
    for word in (b"friday", b"sk-very-secret", b"answer"):
        assert word not in stored
    assert "friday" not in stage.proxy.log.getvalue()


async def test_the_plan_endpoint_knows_the_history(stage: Holding) -> None:
    client = stage.client()
    first = await client.responses.create(model="m", input="word " * 500)
    body = {"model": "m", "input": "two", "previous_response_id": first.id}
    answer = await post(stage.proxy.url, body, "/v1/context/plan", authorization="Bearer sk-one")
    assert answer.json()["tokens"]["original"] > 500


# -- shaping -------------------------------------------------------------------------------------------------------

SMALL = '[models."*"]\ncontext_size = 2000\nmax_output_tokens = 200\n'


async def test_a_long_conversation_is_shaped_and_the_answer_says_so(tmp_path: Path) -> None:
    async with holding(tmp_path, SMALL, window=2000) as stage:
        client = stage.client()
        for n in range(40):
            raw = await chat(client, f"question {n} " + "and more of it " * 20)
        part = raw.parse().model_extra["trimtab"]["conversation"]
        assert part["messages"] == 79
        assert part["sent"] == len(stage.model.seen[-1]) < 79
        assert part["gap"]["stands"] in ("note", "extract")
        assert f"sent={part['sent']}, gap={part['gap']['before']}" in raw.headers["x-trimtab-messages"]
        items = await client.conversations.items.list("trip", order="asc", limit=100)
        assert items.data[part["gap"]["before"]].id == part["gap"]["item"]  # type: ignore[union-attr]


async def test_a_shaped_stream_says_so_in_a_comment(tmp_path: Path) -> None:
    async with holding(tmp_path, SMALL, window=2000) as stage:
        for n in range(30):
            body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": f"{n} " + "more " * 60}]}
            answer = await post(stage.proxy.url, body, **{HEADER: "trip"})
        comment = next(line for line in answer.body.splitlines() if line.startswith(b": trimtab "))
        part = msgspec.json.decode(comment.removeprefix(b": trimtab "))["conversation"]
        assert part["messages"] == 59
        assert part["sent"] < 59
        assert part["gap"]


async def test_a_conversation_above_its_bounds_takes_no_further_turn(tmp_path: Path) -> None:
    async with holding(tmp_path, "max_messages = 4\n") as stage:
        client = stage.client()
        await chat(client, "one")
        await chat(client, "two")
        with pytest.raises(APIError, match="max_messages") as caught:
            await chat(client, "three")
        assert caught.value.code == "request_too_large"
