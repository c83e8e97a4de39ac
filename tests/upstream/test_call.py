"""When the same request may be sent again."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator

import pytest

from trimtab.errors import InvalidRequest, UpstreamUnreachable
from trimtab.upstream.call import Call, Upload
from trimtab.upstream.failures import Failure, Retry
from trimtab.upstream.settings import UpstreamSettings

pytestmark = pytest.mark.anyio

URL = "https://host/v1"


def call(method: str = "POST", path: str = "/chat/completions", retries: int = 2, body: object = b"x") -> Call:
    upstream = UpstreamSettings(name="here", base_url=URL, retries=retries)
    return Call(upstream, method, URL + path, [], body)  # type: ignore[arg-type]


def failed(retry: Retry) -> Failure:
    return Failure(UpstreamUnreachable("x"), retry)


AFTER = [
    (call(), Retry.SAFE, True),
    (call(), Retry.IF_REPEATABLE, True),
    (call(), Retry.NEVER, False),
    (call(retries=0), Retry.SAFE, False),
    (call(path="/chat/completions?x=/files"), Retry.IF_REPEATABLE, True),
    (call(path="/embeddings"), Retry.IF_REPEATABLE, True),
    (call(path="/files"), Retry.SAFE, True),
    (call(path="/files"), Retry.IF_REPEATABLE, False),
    (call(path="/threads/1/messages"), Retry.IF_REPEATABLE, False),
    (call(path="/files?x=/chat/completions"), Retry.IF_REPEATABLE, False),
    (call("GET", "/files"), Retry.IF_REPEATABLE, True),
    (call("DELETE", "/files/1"), Retry.IF_REPEATABLE, False),
]


@pytest.mark.parametrize(("given", "retry", "expected"), AFTER)
def test_after_a_failure(given: Call, retry: Retry, expected: bool) -> None:
    assert given.may_retry(failed(retry)) is expected


async def two() -> AsyncIterator[bytes]:
    yield b"one"
    raise InvalidRequest("the client left")


async def drained(source: AsyncIterable[bytes]) -> list[bytes]:
    return [chunk async for chunk in source]


async def test_a_streamed_body_only_until_it_is_started() -> None:
    given = call(body=two())
    assert given.may_retry(failed(Retry.SAFE))
    assert isinstance(given.body, Upload)
    with pytest.raises(InvalidRequest):
        await drained(given.body)
    assert not given.may_retry(failed(Retry.SAFE))
    assert isinstance(given.body.error, InvalidRequest)


def test_header_bytes_of_any_kind_become_text() -> None:
    upstream = UpstreamSettings(name="here", base_url=URL)
    pairs = [(b"x-a", "é".encode()), (b"x-a", b"\xe9")]
    assert Call(upstream, "GET", URL, pairs, b"").texts.getall("x-a") == ["é", "é"]
