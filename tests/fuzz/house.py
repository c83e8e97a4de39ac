"""A proxy and its upstream in a thread of their own, for tests that are not asynchronous or want nothing shared."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

from tests.support.chat import COMPLETION
from tests.support.running import Running, running
from tests.support.scripted import Received, ScriptedUpstream, Step, json_reply


def obliging(received: Received) -> list[Step]:
    """An answer to anything; a HEAD gets no body."""
    if received.method == "HEAD":
        return [b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"]
    return json_reply(COMPLETION)


@contextlib.contextmanager
def housed(toml: str = "") -> Iterator[Running]:
    """A running proxy before an obliging upstream."""
    started: list[Running] = []
    up, down = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def live() -> None:
        async with ScriptedUpstream(obliging) as upstream, running(upstream.base_url, toml) as proxy:
            started.append(proxy)
            up.set()
            await down.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(live(),))
    thread.start()
    try:
        assert up.wait(20)
        yield started[0]
    finally:
        loop.call_soon_threadsafe(down.set)
        thread.join(20)
        loop.close()
