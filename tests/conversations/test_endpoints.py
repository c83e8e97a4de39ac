"""The endpoints of stored conversations, read with the OpenAI SDK's own types."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from openai import APIError, BadRequestError, NotFoundError
from openai.types.conversations import Conversation, ConversationDeletedResource, Message
from openai.types.responses import Response

from tests.support.holding import HEADER, Holding, chat, holding

pytestmark = pytest.mark.anyio


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Holding]:
    async with holding(tmp_path) as made:
        yield made


def valid(found: Any, kind: Any) -> Any:
    """The object, checked strictly: the SDK itself takes whatever comes."""
    return kind.model_validate(found.model_dump(exclude_unset=True))


async def test_a_response_is_retrieved_and_deleted(stage: Holding) -> None:
    client = stage.client()
    first = await client.responses.create(model="m", input="one")
    second = await client.responses.create(model="m", input="two", previous_response_id=first.id)
    found = valid(await client.responses.retrieve(first.id), Response)
    assert (found.id, found.output_text, found.status) == (first.id, "answer 1", "completed")
    listed = await client.responses.input_items.list(second.id, order="asc")
    assert [item.type for item in listed.data] == ["message"] * 3
    assert [part.text for item in listed.data for part in item.content] == ["one", "answer 1", "two"]  # type: ignore[union-attr]
    await client.responses.delete(second.id)
    for call in (client.responses.retrieve, client.responses.delete, client.responses.input_items.list):
        with pytest.raises(NotFoundError, match="not found"):
            await call(second.id)  # type: ignore[operator]
    await client.responses.create(model="m", input="again", previous_response_id=first.id)
    assert stage.model.seen[-1] == ["user: one", "assistant: answer 1", "user: again"]


async def test_a_conversation_is_made_changed_and_deleted(stage: Holding) -> None:
    client = stage.client()
    items: Any = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "1"}]
    made = valid(await client.conversations.create(metadata={"topic": "trip"}, items=items), Conversation)
    assert made.metadata == {"topic": "trip"}
    assert valid(await client.conversations.retrieve(made.id), Conversation) == made
    changed = await client.conversations.update(made.id, metadata={"topic": "home"})
    assert (changed.id, changed.metadata) == (made.id, {"topic": "home"})
    assert (await client.conversations.retrieve(made.id)).metadata == {"topic": "home"}
    assert len((await client.conversations.items.list(made.id)).data) == 2
    deleted = valid(await client.conversations.delete(made.id), ConversationDeletedResource)
    assert deleted.deleted
    for call in (client.conversations.retrieve, client.conversations.delete, client.conversations.items.list):
        with pytest.raises(NotFoundError, match="not found"):
            await call(made.id)  # type: ignore[operator]


async def test_items_are_added_listed_and_deleted(stage: Holding) -> None:
    client = stage.client()
    made = await client.conversations.create()
    messages: Any = [{"role": "user", "content": f"item {n}"} for n in range(5)]
    added = await client.conversations.items.create(made.id, items=messages)
    assert [valid(item, Message).status for item in added.data] == ["completed"] * 5
    ids = [item.id for item in added.data]
    seen = [item.id async for item in client.conversations.items.list(made.id, limit=2, order="asc")]
    assert seen == ids
    newest = await client.conversations.items.list(made.id, limit=2)
    assert ([item.id for item in newest.data], newest.has_more) == ([ids[4], ids[3]], True)
    assert ids[2] is not None
    one = await client.conversations.items.retrieve(ids[2], conversation_id=made.id)
    assert one.content[0].text == "item 2"  # type: ignore[union-attr]
    await client.conversations.items.delete(ids[2], conversation_id=made.id)
    with pytest.raises(NotFoundError, match="Item with id"):
        await client.conversations.items.retrieve(ids[2], conversation_id=made.id)
    await client.responses.create(model="m", input="and now?", conversation=made.id)
    assert stage.model.seen[-1] == [f"user: item {n}" for n in (0, 1, 3, 4)] + ["user: and now?"]


async def test_a_chat_is_shown_as_items_and_deleted_like_them(stage: Holding) -> None:
    client = stage.client()
    await chat(client, "one")
    found = await client.conversations.items.list("trip", order="asc")
    messages = [valid(item, Message) for item in found.data]
    assert [(m.role, m.content[0].text) for m in messages] == [("user", "one"), ("assistant", "answer 1")]
    await client.conversations.delete("trip")
    await chat(client, "two")
    assert stage.model.seen[-1] == ["user: two"]


async def test_items_are_not_added_to_a_chat(stage: Holding) -> None:
    client = stage.client()
    await chat(client, "one")
    with pytest.raises(BadRequestError, match="messages of a chat"):
        await client.conversations.items.create("trip", items=[{"role": "user", "content": "x"}])


async def test_another_tenant_finds_nothing(stage: Holding) -> None:
    client, other = stage.client(), stage.client("sk-two")
    response = await client.responses.create(model="m", input="one")
    made = await client.conversations.create()
    for call, name in (
        (other.responses.retrieve, response.id),
        (other.responses.delete, response.id),
        (other.conversations.retrieve, made.id),
        (other.conversations.delete, made.id),
        (other.conversations.items.list, made.id),
    ):
        with pytest.raises(NotFoundError) as caught:
            await call(name)  # type: ignore[operator]
        assert caught.value.code == "not_found"
    assert (await client.responses.retrieve(response.id)).id == response.id


async def test_what_cannot_be_read_is_refused(stage: Holding) -> None:
    client = stage.client()
    made = await client.conversations.create()
    bad: Any
    for bad in ({"metadata": {"n": 5}}, {"metadata": {str(n): "x" for n in range(17)}}, {"items": 5}):
        with pytest.raises(BadRequestError):
            await client.conversations.create(extra_body=bad)
    for query in ({"limit": 0}, {"limit": 101}, {"limit": "x"}, {"order": "up"}):
        with pytest.raises(BadRequestError, match="Invalid"):
            await client.conversations.items.list(made.id, extra_query=query)
    with pytest.raises(NotFoundError, match="after"):
        await client.conversations.items.list(made.id, after="msg_none")


async def test_a_response_of_a_broken_stream_is_marked(stage: Holding) -> None:
    client = stage.client()
    stage.model.breaks = True
    stream = await client.responses.create(model="m", input="one", stream=True)
    with pytest.raises(APIError, match="upstream"):
        _ = [event async for event in stream]
    found = await client.responses.retrieve("resp_1")
    assert (found.status, found.output_text) == ("incomplete", "ans")


async def test_the_header_names_the_same_conversation_in_its_answer(stage: Holding) -> None:
    assert (await chat(stage.client(), "one", "my-chat:1")).headers[HEADER] == "my-chat:1"
