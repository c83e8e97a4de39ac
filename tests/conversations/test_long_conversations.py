"""Three hundred turns in a window of 8,000 tokens, through a model that holds nothing: on two replicas that share one
real Valkey, and across a restart. And a proxy that is killed in the middle of an answer.
"""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from openai import APIError, AsyncOpenAI

from tests.support.running import running
from tests.support.scripted import ScriptedUpstream
from tests.support.served import Served, serving
from tests.support.stateless import StatelessModel
from tests.support.valkey import Valkey

pytestmark = pytest.mark.anyio

TURNS, WINDOW = 300, 8_000
TOML = """[models."*"]
context_size = 8000
max_output_tokens = 1000
[redis]
url = "redis://{address}/0"
timeout_ms = 5000
[conversations]
store = "redis"
"""
FACT = re.compile(r"The code of room (\d+) is (\d+)\.")
RECENT = 5  # turns whose facts the model must have in front of it, whatever was dropped
Ask = Callable[[AsyncOpenAI, int, str], Awaitable[str]]


def code(turn: int) -> int:
    return turn * 7919 % 10_000


def question(turn: int) -> str:
    return f"The code of room {turn} is {code(turn)}. Please note it with the others. " + "It is on the left. " * 12


def said(messages: list[str]) -> str:
    """The model's answer: how many rooms it has in front of it, and the newest of them."""
    rooms = [int(room) for message in messages for room, _ in FACT.findall(message)]
    return f"I see {len(rooms)} rooms, the newest is {max(rooms, default=0)}. " + "Noted, and well so. " * 8


class Replicas:
    """Two replicas on one store; one of them can be replaced by a new process's worth of parts."""

    def __init__(self, upstream: str, address: str, stack: AsyncExitStack) -> None:
        self._upstream, self._toml, self._stack = upstream, TOML.format(address=address), stack
        self.clients: list[AsyncOpenAI] = []

    async def start(self) -> None:
        proxy = await self._stack.enter_async_context(running(self._upstream, self._toml))
        client = AsyncOpenAI(base_url=proxy.base_url, api_key="sk-test", max_retries=0)
        self._stack.push_async_callback(client.close)
        self.clients = [client, *self.clients][:2]


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as entered:
        yield entered


async def hold(ask: Ask, valkey: Valkey, stack: AsyncExitStack, model: StatelessModel) -> AsyncOpenAI:
    """Three hundred turns, each on the other replica; in the middle one is replaced. Returns a client."""
    upstream = await stack.enter_async_context(ScriptedUpstream(model))
    replicas = Replicas(upstream.base_url, valkey.address, stack)
    await replicas.start()
    await replicas.start()
    for turn in range(TURNS):
        if turn == TURNS // 2:
            await replicas.start()
        answer = await ask(replicas.clients[turn % 2], turn, question(turn))
        assert f"the newest is {turn}." in answer
        sent = {int(room): int(number) for message in model.seen[-1] for room, number in FACT.findall(message)}
        assert all(sent[room] == code(room) for room in range(max(0, turn - RECENT), turn + 1))
        assert all(number == code(room) for room, number in sent.items())
    assert len(model.seen) == TURNS
    assert model.largest <= WINDOW
    return replicas.clients[0]


async def facts(client: AsyncOpenAI, name: str) -> list[int]:
    """The rooms of all that is stored, in its order."""
    items: Any = [item async for item in client.conversations.items.list(name, order="asc", limit=100)]
    texts = [part.text for item in items if item.role == "user" for part in item.content]
    return [int(FACT.findall(text)[0][0]) for text in texts]


@pytest.mark.timeout(300)
async def test_by_previous_response_id(valkey: Valkey, stack: AsyncExitStack) -> None:
    last = ""

    async def ask(client: AsyncOpenAI, turn: int, text: str) -> str:
        nonlocal last
        known: Any = {"previous_response_id": last} if last else {}
        if turn % 3:
            response = await client.responses.create(model="m", input=text, **known)
        else:
            async with client.responses.stream(model="m", input=text, **known) as stream:
                response = await stream.get_final_response()
        last = response.id
        return response.output_text

    client = await hold(ask, valkey, stack, StatelessModel(WINDOW, said))
    items: Any = [item async for item in client.responses.input_items.list(last, order="asc", limit=100)]
    assert len(items) == 2 * TURNS - 1


@pytest.mark.timeout(300)
async def test_by_conversation(valkey: Valkey, stack: AsyncExitStack) -> None:
    name = ""

    async def ask(client: AsyncOpenAI, turn: int, text: str) -> str:
        nonlocal name
        name = name or (await client.conversations.create()).id
        return (await client.responses.create(model="m", input=text, conversation=name)).output_text

    client = await hold(ask, valkey, stack, StatelessModel(WINDOW, said))
    assert await facts(client, name) == list(range(TURNS))


@pytest.mark.timeout(300)
async def test_by_the_header_of_a_chat(valkey: Valkey, stack: AsyncExitStack) -> None:
    async def ask(client: AsyncOpenAI, turn: int, text: str) -> str:
        messages: Any = [{"role": "user", "content": text}]
        headers = {"x-trimtab-conversation": "house"}
        if turn % 3:
            whole = await client.chat.completions.create(model="m", messages=messages, extra_headers=headers)
            return whole.choices[0].message.content or ""
        stream = await client.chat.completions.create(model="m", messages=messages, extra_headers=headers, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    client = await hold(ask, valkey, stack, StatelessModel(WINDOW, said))
    assert await facts(client, "house") == list(range(TURNS))


@pytest.mark.parametrize("store", ["redis", "sqlite"])
async def test_a_proxy_that_is_killed_leaves_the_history_before_or_after_a_turn(
    store: str, valkey: Valkey, tmp_path: Path
) -> None:
    tables = {
        "redis": f'[redis]\nurl = "redis://{valkey.address}/0"\n[conversations]\nstore = "redis"\n',
        "sqlite": f'[conversations]\nstore = "sqlite:///{tmp_path}/c.db"\n',
    }
    answered: dict[str, int] = {}
    async with ScriptedUpstream(StatelessModel()) as upstream:
        for delay_ms in (0, 3, 8):
            async with serving(upstream.base_url, tables[store]) as served:
                name = f"trip-{delay_ms}"
                answered[name] = await until_killed(served, name, delay_ms / 1000)
        async with (
            serving(upstream.base_url, tables[store]) as served,
            AsyncOpenAI(base_url=served.base_url, api_key="sk") as client,
        ):
            for name, turns in answered.items():
                items: Any = [i async for i in client.conversations.items.list(name, order="asc", limit=100)]
                assert [item.role for item in items] == ["user", "assistant"] * (len(items) // 2)
                assert len(items) // 2 >= turns


async def until_killed(served: Served, name: str, delay_s: float) -> int:
    """Ask, until the proxy is killed some time after the third answer. Returns the number of turns that were
    answered."""
    answered, begun = 0, asyncio.Event()

    async def ask(client: AsyncOpenAI) -> None:
        nonlocal answered
        headers = {"x-trimtab-conversation": name}
        while True:
            messages: Any = [{"role": "user", "content": f"turn {answered}"}]
            await client.chat.completions.create(model="m", messages=messages, extra_headers=headers)
            answered += 1
            if answered == 3:
                begun.set()

    async with AsyncOpenAI(base_url=served.base_url, api_key="sk", max_retries=0) as client:
        asking = asyncio.create_task(ask(client))
        await asyncio.wait({asking, asyncio.create_task(begun.wait())}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(delay_s)
        served.kill(signal.SIGKILL)
        with pytest.raises(APIError):
            await asking
    return answered
