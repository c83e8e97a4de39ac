"""The beginning of a stream: what is waited for, and what is not."""

from __future__ import annotations

import gzip
import time

import pytest

from tests.exchange.requests import inspected
from tests.support.scripted import STALL, Pause, Step, chunk
from tests.support.streams import BEGUN, END, EVENTS, FIRST
from trimtab.exchange.beginning import HEAD_WAIT_S, parts, unpacking


def test_of_a_bomb_only_the_beginning_is_read() -> None:
    read = [part for part in parts(gzip.compress(bytes(50_000_000)), unpacking("gzip"))]
    assert 1_000_000 < sum(map(len, read)) < 20_000_000


WAITED: dict[str, tuple[list[Step], float]] = {
    "an event": ([BEGUN, FIRST, STALL], 0.0),
    "a comment": ([BEGUN, chunk(b": wait\n\n"), STALL], 0.0),
    "a head alone": ([BEGUN, STALL], HEAD_WAIT_S),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("script", "seconds"), WAITED.values(), ids=WAITED)
async def test_only_what_may_be_an_error_is_waited_for(script: list[Step], seconds: float) -> None:
    began = time.monotonic()
    async with inspected(script) as verdict:
        took = time.monotonic() - began
    assert verdict.stream
    assert verdict.events is (seconds == 0)
    assert seconds - 0.05 <= took < seconds + 0.4


@pytest.mark.anyio
async def test_json_under_the_label_of_a_stream_is_read_whole() -> None:
    async with inspected([BEGUN, chunk(b" {"), Pause(0.05), chunk(b"}"), END]) as verdict:
        assert (verdict.stream, verdict.body) == (False, b" {}")


@pytest.mark.anyio
async def test_a_stream_is_one_whatever_its_length() -> None:
    async with inspected([BEGUN, chunk(EVENTS), END]) as verdict:
        assert (verdict.stream, verdict.events, verdict.empty) == (True, True, False)
