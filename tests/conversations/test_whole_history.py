"""A conversation that is stored reaches the upstream as the very bytes of one that the client sends whole: three
hundred steps of a recorded agent, in a small window, with a numbered fact planted in every text of user and model.

`python -m tests.conversations.test_whole_history WINDOW` prints the share of the facts that reached the upstream.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import aiohttp
import msgspec
import pytest

from tests.support.converted import as_responses
from tests.support.running import running
from tests.support.scripted import Received, ScriptedUpstream, Step, json_reply

STEPS, WINDOW = 300, 8_192
RECORDED = Path("corpus/transcripts/joined_tau_airline_trial0.json.gz")
FACT = re.compile(rb"FACT-\d{5}")
CHARS = 4  # that count as one token
Message = dict[str, Any]


class Recorded(NamedTuple):
    """A recorded conversation. `ends`: the number of messages before each answer of the model."""

    messages: list[Message]
    tools: list[Message]
    ends: list[int]


def recorded(shared: Path) -> Recorded:
    """With its facts planted."""
    with gzip.open(shared / RECORDED) as file:
        found = json.load(file)
    messages = [_planted(n, _plain(message)) for n, message in enumerate(found["messages"])]
    answers = [n for n, message in enumerate(messages) if message["role"] == "assistant" and n]
    ends = [n for n in answers if messages[n - 1]["role"] in ("user", "tool")][:STEPS]
    return Recorded(messages, found.get("tools") or [], ends)


def _plain(message: Message) -> Message:
    """The fields in the order in which answers have them."""
    return {name: message[name] for name in ("role", "content", "tool_calls", "tool_call_id") if name in message}


def _planted(n: int, message: Message) -> Message:
    text = message.get("content")
    if message["role"] not in ("user", "assistant") or not isinstance(text, str) or not text:
        return message
    return {**message, "content": f"{text}\nFACT-{n:05d}"}


class Model:
    """Answers as recorded, in either format; what it has made is in `made`."""

    def __init__(self, of: Recorded) -> None:
        self._of, self.bodies = of, list[bytes]()
        self.made: list[list[Message]] = []

    def __call__(self, received: Received) -> Sequence[Step]:
        number = len(self.bodies)
        self.bodies.append(received.body)
        message = self._of.messages[self._of.ends[number]]
        size = len(received.body) // CHARS
        head = {"id": f"resp_{number}", "created": 1, "model": "m"}
        if b'"messages"' in received.body:
            self.made.append([message])
            usage = {"prompt_tokens": size, "completion_tokens": 1, "total_tokens": size + 1}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return json_reply({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        output = as_responses({"messages": [message]})["input"]
        output = [{"id": f"item_{number}_{n}", "status": "completed", **item} for n, item in enumerate(output)]
        self.made.append(output)
        usage = {"input_tokens": size, "output_tokens": 1, "total_tokens": size + 1}
        return json_reply({**head, "object": "response", "status": "completed", "output": output, "usage": usage})


def by_chat(of: Recorded, model: Model, *, stored: bool) -> Iterator[tuple[str, Message, dict[str, str]]]:
    """The requests of a client: path, body and headers."""
    history: list[Message] = []
    for new in _new(of):
        history += new
        sent = new if stored else history
        body = {"model": "m", "tools": of.tools, "messages": sent, "max_tokens": 500}
        yield "/chat/completions", body, {"x-trimtab-conversation": "flight"} if stored else {}
        history += model.made[-1]


def by_responses(of: Recorded, model: Model, *, stored: bool) -> Iterator[tuple[str, Message, dict[str, str]]]:
    """The same through `previous_response_id`; a client that holds the history says so with `store: false`."""
    history: list[Message] = []
    fields = as_responses({"tools": of.tools, "messages": []}) | {"model": "m", "max_output_tokens": 500}
    for number, new in enumerate(_new(of)):
        new = as_responses({"messages": new})["input"]
        history += new
        if stored:
            more = {"previous_response_id": f"resp_{number - 1}"} if number else {}
            yield "/responses", {**fields, "input": new, **more}, {}
        else:
            yield "/responses", {**fields, "input": history, "store": False}, {}
        history += model.made[-1]


def _new(of: Recorded) -> Iterator[list[Message]]:
    """What each request adds: everything since the last answer."""
    start = 0
    for end in of.ends:
        yield of.messages[start:end]
        start = end + 1


Client = Callable[..., Iterator[tuple[str, Message, dict[str, str]]]]


async def sent(of: Recorded, client: Client, path: Path, window: int, *, stored: bool) -> list[bytes]:
    """The bodies that reach the upstream of a proxy of its own."""
    model = Model(of)
    toml = f'[models."*"]\ncontext_size = {window}\nmax_output_tokens = 500\n'
    toml += f'[conversations]\nstore = "sqlite:///{path}/c.db"\n' if stored else ""
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(ScriptedUpstream(model))
        proxy = await stack.enter_async_context(running(upstream.base_url, toml))
        session = await stack.enter_async_context(aiohttp.ClientSession(headers={"authorization": "Bearer sk"}))
        for where, body, headers in client(of, model, stored=stored):
            data = msgspec.json.encode(body)
            typed = {"content-type": "application/json", **headers}
            async with session.post(proxy.base_url + where, data=data, headers=typed) as answer:
                assert answer.status == 200, await answer.read()
    return model.bodies


def facts(of: Recorded, bodies: Sequence[bytes], window: int) -> list[float]:
    """Of each request whose history outgrew the window: the share of its facts that reached the upstream."""
    shares = []
    for end, body in zip(of.ends, bodies, strict=True):
        history = msgspec.json.encode(of.messages[:end])
        if len(history) // CHARS > window:
            said = set(FACT.findall(history))
            shares.append(len(said & set(FACT.findall(body))) / len(said))
    return shares


@pytest.mark.anyio
@pytest.mark.timeout(300)
@pytest.mark.parametrize("client", [by_chat, by_responses])
async def test_it_is_sent_as_if_the_client_had_sent_it_all(client: Client, shared: Path, tmp_path: Path) -> None:
    of = recorded(shared)
    held = await sent(of, client, tmp_path, WINDOW, stored=True)
    whole = await sent(of, client, tmp_path, WINDOW, stored=False)
    assert len(held) == STEPS
    assert held == whole
    shares = facts(of, held, WINDOW)
    assert len(shares) > STEPS / 2
    assert mean(shares) > 0.1


async def main() -> None:
    """See the module's text."""
    of, window = recorded(Path("../shared")), int(sys.argv[1])
    for client in (by_chat, by_responses):
        for stored in (True, False):
            with tempfile.TemporaryDirectory() as path:
                shares = facts(of, await sent(of, client, Path(path), window, stored=stored), window)
            print(client.__name__, "stored" if stored else "sent whole", len(shares), round(mean(shares), 3))


if __name__ == "__main__":
    asyncio.run(main())
