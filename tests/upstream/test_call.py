"""When the same request may be sent again."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator

import pytest

from trimtab.errors import InvalidRequest, UpstreamUnreachable
from trimtab.upstream.call import Call, Upload
from trimtab.upstream.failures import Again, Failure
from trimtab.upstream.settings import UpstreamSettings

pytestmark = pytest.mark.anyio

URL = "https://host/v1"


def call(method: str = "POST", path: str = "/chat/completions", retries: int = 2, body: object = b"x") -> Call:
    upstream = UpstreamSettings(name="here", base_url=URL, retries=retries)
    return Call(upstream, method, URL + path, [], body)  # type: ignore[arg-type]


def failed(again: Again) -> Failure:
    return Failure(UpstreamUnreachable("x"), again)


AGAIN = [
    (call(), Again.SAFE, True),
    (call(), Again.REPLAY, True),
    (call(), Again.NEVER, False),
    (call(retries=0), Again.SAFE, False),
    (call(path="/chat/completions?x=/files"), Again.REPLAY, True),
    (call(path="/embeddings"), Again.REPLAY, True),
    (call(path="/files"), Again.SAFE, True),
    (call(path="/files"), Again.REPLAY, False),
    (call(path="/threads/1/messages"), Again.REPLAY, False),
    (call(path="/files?x=/chat/completions"), Again.REPLAY, False),
    (call("GET", "/files"), Again.REPLAY, True),
    (call("DELETE", "/files/1"), Again.REPLAY, False),
]


@pytest.mark.parametrize(("given", "again", "expected"), AGAIN)
def test_after_a_failure(given: Call, again: Again, expected: bool) -> None:
    assert given.again(failed(again)) is expected


async def two() -> AsyncIterator[bytes]:
    yield b"one"
    raise InvalidRequest("the client left")


async def drained(source: AsyncIterable[bytes]) -> list[bytes]:
    return [chunk async for chunk in source]


async def test_a_streamed_body_only_until_it_is_begun() -> None:
    given = call(body=two())
    assert given.again(failed(Again.SAFE))
    assert isinstance(given.body, Upload)
    with pytest.raises(InvalidRequest):
        await drained(given.body)
    assert not given.again(failed(Again.SAFE))
    assert isinstance(given.body.error, InvalidRequest)


def test_header_bytes_of_any_kind_become_text() -> None:
    upstream = UpstreamSettings(name="here", base_url=URL)
    pairs = [(b"x-a", "é".encode()), (b"x-a", b"\xe9")]
    assert Call(upstream, "GET", URL, pairs, b"").headers.getall("x-a") == ["é", "é"]
