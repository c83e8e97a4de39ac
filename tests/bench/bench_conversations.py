"""What it takes to load a conversation that lives here and to put it before a request: milliseconds, the best of many.

    python -m tests.bench.bench_conversations

A conversation of 10,000 messages (5.5 MB) in a file and in a real Valkey; cold is a replica that has not seen it, warm
one that remembers it. The time until the stateless body is there, and the time to store the next turn.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import msgspec

from tests.support.valkey import Valkey
from trimtab.conversations import chat, responses
from trimtab.conversations.archive import Archive
from trimtab.conversations.conversations import Conversations, log_name
from trimtab.conversations.entries import DialectName, Header, Held
from trimtab.conversations.histories import Histories
from trimtab.conversations.settings import ConversationsSettings, open_archive
from trimtab.conversations.turns import Turn
from trimtab.store.settings import RedisSettings

MESSAGES, TRIES = 10_000, 15
WHO = b"Bearer sk-test"
DIALECTS: tuple[DialectName, ...] = ("chat", "responses")


def message(n: int) -> Held:
    text = f"message {n} " + "some words of it " * 30
    raw = msgspec.json.encode({"role": "assistant" if n % 2 else "user", "content": text})
    return Held(f"msg_{n}", raw, bool(n % 2))


async def fill(conversations: Conversations, dialect: DialectName) -> None:
    """A conversation of 5,000 turns."""
    tenant, histories = conversations.tenant(WHO), conversations.histories
    history = await histories.make(tenant, log_name(dialect), Header(dialect, 1), [message(0), message(1)])
    for n in range(2, MESSAGES, 2):
        assert history is not None
        history = await histories.append(tenant, history, [message(n), message(n + 1)])


async def turn_of(conversations: Conversations, dialect: DialectName) -> Turn:
    """The turn of a request with one new message."""
    if dialect == "chat":
        asked = chat.asked(b'{"model":"m","messages":[{"role":"user","content":"and now?"}]}')
        assert asked is not None
        return await conversations.chat(asked, WHO, dialect)
    request = responses.asked(b'{"model":"m","input":"and now?","conversation":"responses"}')
    assert request is not None
    return await conversations.response(request, WHO)


async def loaded(conversations: Conversations, dialect: DialectName) -> float:
    """Milliseconds until the stateless body is there."""
    began = time.perf_counter()
    turn = await turn_of(conversations, dialect)
    body = turn.prepare()
    taken = time.perf_counter() - began
    assert len(body) > 5_000_000
    await turn.release()
    return taken * 1000


async def stored(conversations: Conversations, dialect: DialectName) -> float:
    """Milliseconds to store a turn."""
    turn = await turn_of(conversations, dialect)
    turn.prepare()
    answer = {"role": "assistant", "content": "as before"}
    turn.read(msgspec.json.encode({"choices": [{"message": answer}], "output": [answer]}))
    began = time.perf_counter()
    await turn.keep()
    taken = time.perf_counter() - began
    await turn.release()
    return taken * 1000


async def measured(name: str, archive: Archive, settings: ConversationsSettings) -> None:
    for dialect in DIALECTS:
        await fill(Conversations(settings, archive, Histories(archive, settings)), dialect)
        cold = [await loaded(Conversations(settings, archive, Histories(archive, settings)), dialect) for _ in range(3)]
        known = Conversations(settings, archive, Histories(archive, settings))
        await loaded(known, dialect)
        warm = sorted([await loaded(known, dialect) for _ in range(TRIES)])
        kept = sorted([await stored(known, dialect) for _ in range(TRIES)])
        figures = f"cold {min(cold):6.1f}  warm {warm[0]:5.1f} (median {warm[TRIES // 2]:5.1f})"
        print(f"{name:7} {dialect:10} {figures}  store {kept[0]:5.1f} (median {kept[TRIES // 2]:5.1f})")
    await archive.aclose()


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        in_file = ConversationsSettings(store=f"sqlite:///{Path(folder)}/c.db")
        await measured("sqlite", open_archive(in_file, None), in_file)
    server = Valkey()
    in_redis = ConversationsSettings(store="redis")
    await measured("redis", open_archive(in_redis, RedisSettings(url=f"redis://{server.address}/0")), in_redis)
    server.stop()


if __name__ == "__main__":
    asyncio.run(main())
