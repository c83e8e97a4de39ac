"""ASGI in, plain values out: bodies and answers. Driven by the messages a server would send."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest

from trimtab.errors import BodyTooLarge, InvalidRequest, Overloaded, UnknownEncoding, UploadTimeout
from trimtab.exchange.incoming import ClientGone
from trimtab.server.asgi import RequestBody, Response
from trimtab.server.load import Load

pytestmark = pytest.mark.anyio

GONE = {"type": "http.disconnect"}


def came(*chunks: bytes, more: bool = False) -> list[dict[str, Any]]:
    """Messages with these chunks; the last one ends the body unless there is more."""
    last = len(chunks) - 1
    return [{"type": "http.request", "body": c, "more_body": more or i < last} for i, c in enumerate(chunks)]


def body(
    messages: list[dict[str, Any]], *, limit: int = 100, load: Load | None = None, pause_s: float = 5.0, **headers: str
) -> RequestBody:
    left = iter(messages)

    async def receive() -> dict[str, Any]:
        for message in left:
            return message
        await asyncio.Event().wait()
        raise AssertionError

    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return RequestBody(receive, named, load or Load(10, 10_000), limit, pause_s)


# -- a body ------------------------------------------------------------------------------------------------------

WHOLE: list[tuple[list[dict[str, Any]], dict[str, str], bytes]] = [
    (came(b"abc"), {}, b"abc"),
    (came(b"a", b"b", b"c"), {}, b"abc"),
    (came(b""), {}, b""),
    (came(b"ab", b"c", more=True), {"content_length": "3"}, b"abc"),  # the announced length tells the end
    (came(b"abc", b""), {"content_length": "3", "transfer_encoding": "chunked"}, b"abc"),  # RFC 9112 §6.3
    (came(b"abc"), {"content_length": "many"}, b"abc"),
    (came(gzip.compress(b"abc")), {"content_encoding": "gzip"}, b"abc"),
    (came(b"abc"), {"content_encoding": "identity"}, b"abc"),
]


@pytest.mark.parametrize(("messages", "headers", "whole"), WHOLE)
async def test_a_body_is_read_to_its_end(messages: list[Any], headers: dict[str, str], whole: bytes) -> None:
    given = body(messages, **headers)
    assert await given.read() == whole
    assert given.complete


async def test_a_body_is_given_on_as_it_comes() -> None:
    given = body(came(b"a", b"", b"bc"))
    assert [chunk async for chunk in given.chunks()] == [b"a", b"bc"]
    assert [chunk async for chunk in given.chunks()] == []
    assert given.held == 0


REFUSED: list[tuple[str, list[dict[str, Any]], dict[str, str], type[Exception]]] = [
    ("announced too large", came(b"a"), {"content_length": "101"}, BodyTooLarge),
    ("too large", came(b"a" * 60, b"a" * 41), {}, BodyTooLarge),
    ("too large when decoded", came(gzip.compress(b"a" * 5_000)), {"content_encoding": "gzip"}, BodyTooLarge),
    ("an encoding nobody knows", came(b"a"), {"content_encoding": "zip"}, UnknownEncoding),
    ("broken", came(b"a"), {"content_encoding": "gzip"}, InvalidRequest),
    ("gone", [GONE], {}, ClientGone),
    ("gone in the middle", [*came(b"a", more=True), GONE], {}, ClientGone),
]


@pytest.mark.parametrize(("_", "messages", "headers", "error"), REFUSED, ids=[row[0] for row in REFUSED])
async def test_a_body_that_is_not_whole_is_refused(
    _: str, messages: list[Any], headers: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await body(messages, **headers).read()


@pytest.mark.parametrize("whole", [True, False])
async def test_a_body_that_stops_coming_is_given_up(whole: bool) -> None:
    given = body(came(b"a", b"b", more=True), pause_s=5.0)

    async def taken() -> list[bytes]:
        return [await given.read()] if whole else [chunk async for chunk in given.chunks()]

    given.check_pause(0.0)  # nobody waits for it yet
    given.check_pause(9.0)
    taking = asyncio.ensure_future(taken())
    await asyncio.sleep(0)
    for now in (10.0, 14.9):
        given.check_pause(now)
        await asyncio.sleep(0)
        assert not taking.done()
    for now in (15.1, 15.2):
        given.check_pause(now)
    with pytest.raises(UploadTimeout, match="for 5 seconds"):
        await taking
    assert not taking.cancelled()


async def test_a_reading_that_is_cancelled_is_no_pause() -> None:
    given = body(came(b"a", more=True))
    taking = asyncio.ensure_future(given.read())
    await asyncio.sleep(0)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking


async def test_what_is_held_is_counted_and_given_back() -> None:
    load = Load(10, 1_000)
    packed = gzip.compress(b"a" * 90)
    given = body(came(packed), load=load, content_encoding="gzip")
    await given.read()
    assert load.bytes == given.held == 90
    given.release()
    given.release()
    assert load.bytes == 0


async def test_bodies_beyond_what_is_held_at_once_come_again_later() -> None:
    load = Load(10, 100)
    first = body(came(b"a" * 70), load=load)
    await first.read()
    second = body(came(b"a" * 40), load=load)
    with pytest.raises(Overloaded, match="max_in_flight_mb"):
        await second.read()
    assert second.held == 0
    first.release()
    assert await body(came(b"a" * 40), load=load).read() == b"a" * 40


# -- an answer ---------------------------------------------------------------------------------------------------


async def test_an_answer_is_sent_in_the_servers_messages() -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    read = body(came(b""))
    await read.read()
    response = Response(send, read)
    assert not response.started
    await response.start(201, [(b"a", b"b")])
    assert response.started
    await response.write(b"x")
    await response.end()
    assert sent == [
        {"type": "http.response.start", "status": 201, "headers": [(b"a", b"b")]},
        {"type": "http.response.body", "body": b"x", "more_body": True},
        {"type": "http.response.body", "body": b"", "more_body": False},
    ]
