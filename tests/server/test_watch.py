"""Whether the client is still there: only slow answers are watched, and a leaving cancels the exchange; a request that
stops coming is given up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from trimtab.server.watch import EVERY_S, Watch, Watches

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


class Upload:
    """A body that has come, or not; `looks` counts the turns it was looked at."""

    def __init__(self, complete: bool) -> None:
        self.complete, self.looks = complete, 0

    def check_pause(self, now: float) -> None:
        self.looks += 1


async def exchange(client: Client, takes_s: float, *, body: Upload | None = None) -> Watch:
    """An exchange of that length, watched. Raises CancelledError when it was cancelled."""
    task, watches = asyncio.current_task(), Watches()
    assert task is not None
    watch = watches.begin(task, body or Upload(complete=True), client.receive)
    try:
        await asyncio.sleep(takes_s)
    except asyncio.CancelledError:
        assert watch.gone
        raise
    finally:
        watches.end(watch)
    return watch


async def test_a_quick_answer_is_not_watched() -> None:
    client = Client()
    watch = await exchange(client, 0)
    await asyncio.sleep(EVERY_S * 3)
    assert (client.asked, watch.gone) == (0, False)


async def test_a_client_that_leaves_takes_its_exchange_with_it() -> None:
    client = Client()
    task = asyncio.ensure_future(exchange(client, 60))
    await asyncio.sleep(EVERY_S * 3)
    client.left.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 2)


async def test_one_that_stays_is_watched_until_the_end_and_no_longer() -> None:
    client = Client()
    watch = await exchange(client, EVERY_S * 5)
    assert client.asked == 2
    client.left.set()
    await asyncio.sleep(0.05)
    assert not watch.gone


async def test_while_the_body_comes_the_exchange_listens_itself_and_the_body_is_looked_at() -> None:
    client, body = Client(), Upload(complete=False)
    client.left.set()
    await exchange(client, EVERY_S * 5, body=body)
    assert client.asked == 0
    assert body.looks >= 3


async def test_the_timer_rests_when_nothing_goes_on_and_begins_again() -> None:
    watches, client, body = Watches(), Client(), Upload(complete=False)
    task = asyncio.current_task()
    assert task is not None
    watches.end(watches.begin(task, body, client.receive))
    await asyncio.sleep(EVERY_S * 15)
    assert not watches._turns
    watch = watches.begin(task, body, client.receive)
    await asyncio.sleep(EVERY_S * 3)
    watches.end(watch)
    assert body.looks >= 1
