"""Whether the client is still there: only slow answers are watched, and a leaving cancels the exchange."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from proxy.server.watch import AFTER_S, Watch

pytestmark = pytest.mark.anyio


class Client:
    """What the server hears of a client: nothing, until it leaves."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.asked = 0

    async def receive(self) -> dict[str, Any]:
        self.asked += 1
        if self.asked == 1:
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}


async def exchange(client: Client, takes_s: float, *, complete: bool = True) -> Watch:
    """An exchange of that length, watched. Raises CancelledError when it was cancelled."""
    task, body = asyncio.current_task(), asyncio.Event()
    assert task is not None
    if complete:
        body.set()
    watch = Watch(task, body, client.receive)
    try:
        await asyncio.sleep(takes_s)
    except asyncio.CancelledError:
        assert watch.gone
        raise
    finally:
        watch.end()
    return watch


async def test_a_quick_answer_is_not_watched() -> None:
    client = Client()
    watch = await exchange(client, 0)
    await asyncio.sleep(AFTER_S * 3)
    assert (client.asked, watch.gone) == (0, False)


async def test_a_client_that_leaves_takes_its_exchange_with_it() -> None:
    client = Client()
    task = asyncio.ensure_future(exchange(client, 60))
    await asyncio.sleep(AFTER_S * 3)
    client.left.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 2)


async def test_one_that_stays_is_watched_until_the_end_and_no_longer() -> None:
    client = Client()
    watch = await exchange(client, AFTER_S * 5)
    assert client.asked == 2
    client.left.set()
    await asyncio.sleep(0.05)
    assert not watch.gone


async def test_while_the_body_comes_the_exchange_listens_itself() -> None:
    client = Client()
    client.left.set()
    await exchange(client, AFTER_S * 5, complete=False)
    assert client.asked == 0
