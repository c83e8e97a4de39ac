"""A client that waits hears of it, between two events and never inside one."""

from __future__ import annotations

import asyncio

import pytest

from tests.exchange.requests import Kept
from trimtab.exchange.pulse import KEEP_ALIVE, Pulse

pytestmark = pytest.mark.anyio

EVENT = b"data: {}\n\n"


async def begun() -> Kept:
    down = Kept()
    await down.start(200, [])
    return down


async def test_silence_is_filled_with_comments() -> None:
    down = await begun()
    pulse = Pulse(down, 0.02)
    while len(down.writes) < 3:  # noqa: ASYNC110  a client is a list of what it got
        await asyncio.sleep(0.01)
    await pulse.stop()
    assert set(down.writes) == {KEEP_ALIVE}


async def test_speech_is_not() -> None:
    down = await begun()
    pulse = Pulse(down, 5.0)
    for _ in range(8):
        await pulse.write(EVENT)
        await asyncio.sleep(0.01)
    await pulse.stop()
    assert down.writes == [EVENT] * 8


async def test_after_the_stop_there_are_no_comments() -> None:
    down = await begun()
    pulse = Pulse(down, 0.02)
    await asyncio.sleep(0.05)
    await pulse.stop()
    written = list(down.writes)
    await asyncio.sleep(0.1)
    assert down.writes == written


async def test_there_are_no_comments_where_they_are_switched_off() -> None:
    down = await begun()
    pulse = Pulse(down, 0)
    await asyncio.sleep(0.05)
    await pulse.stop()
    assert down.writes == []


@pytest.mark.parametrize(
    ("written", "between"),
    [(EVENT, True), (b"data: {}\r\n\r\n", True), (b"data: {}\r\r", True), (b"data: {}\n", False), (b"data: {", False)],
)
async def test_an_event_is_never_broken_in_two(written: bytes, between: bool) -> None:
    down = await begun()
    pulse = Pulse(down, 0.02)
    await pulse.write(written)
    await asyncio.sleep(0.3)
    await pulse.stop()
    assert pulse.between is between
    assert (KEEP_ALIVE in down.writes) is between
    assert down.body.startswith(written)


@pytest.mark.parametrize(("spoken", "first"), [(True, EVENT), (False, b"\xef\xbb\xbf" + EVENT)])
async def test_a_byte_order_mark_counts_only_at_the_very_beginning(spoken: bool, first: bytes) -> None:
    down = await begun()
    pulse = Pulse(down, 0)
    if spoken:
        await pulse.comment(b": trimtab {}\n\n")
    await pulse.write(b"\xef\xbb\xbf" + EVENT)
    await pulse.write(b"\xef\xbb\xbf")
    await pulse.stop()
    assert down.writes[-2:] == [first, b"\xef\xbb\xbf"]
