"""What an exception of aiohttp means."""

from __future__ import annotations

import aiohttp
import pytest

from trimtab.errors import UpstreamError, UpstreamTimeout, UpstreamUnreachable
from trimtab.upstream.failures import AIOHTTP_ERRORS, Retry, failure, interruption
from trimtab.upstream.settings import UpstreamSettings

UPSTREAM = UpstreamSettings(name="east", base_url="http://host/v1", api_key="sk-secret", read_timeout_s=7)

FAILURES: list[tuple[BaseException, type[UpstreamError], Retry, str]] = [
    (aiohttp.ConnectionTimeoutError("x"), UpstreamTimeout, Retry.SAFE, "within 10 s"),
    (aiohttp.SocketTimeoutError("x"), UpstreamTimeout, Retry.NEVER, "nothing for 7 s"),
    (TimeoutError(), UpstreamTimeout, Retry.NEVER, "nothing for 7 s"),
    (aiohttp.ServerDisconnectedError(), UpstreamUnreachable, Retry.IF_REPEATABLE, "closed the connection"),
    (aiohttp.ClientOSError(104, "reset"), UpstreamUnreachable, Retry.IF_REPEATABLE, "closed the connection"),
    (ConnectionResetError(104, "reset"), UpstreamUnreachable, Retry.IF_REPEATABLE, "closed the connection"),
    (aiohttp.ClientPayloadError("sk-secret"), UpstreamUnreachable, Retry.NEVER, "broke off"),
    (aiohttp.InvalidURL("x"), UpstreamUnreachable, Retry.NEVER, "cannot be called"),
]


@pytest.mark.parametrize(("raised", "kind", "retry", "message"), FAILURES, ids=lambda value: type(value).__name__)
def test_each_exception_has_its_error(
    raised: BaseException, kind: type[UpstreamError], retry: Retry, message: str
) -> None:
    assert isinstance(raised, AIOHTTP_ERRORS)
    found = failure(raised, UPSTREAM)
    assert type(found.error) is kind
    assert found.retry is retry
    assert found.error.message.startswith("The upstream 'east' (http://host/v1) ")
    assert message in found.error.message
    assert "sk-secret" not in found.error.message


def test_after_the_first_byte_it_is_a_silence_or_a_break() -> None:
    assert isinstance(interruption(aiohttp.SocketTimeoutError(), UPSTREAM), UpstreamTimeout)
    assert "broke off" in interruption(aiohttp.ClientOSError(104, "reset"), UPSTREAM).message


def subclasses(kind: type[BaseException]) -> set[type[BaseException]]:
    return {kind}.union(*(subclasses(sub) for sub in kind.__subclasses__()))


def test_every_error_of_aiohttp_has_a_row() -> None:
    for kind in subclasses(aiohttp.ClientError):
        assert failure(kind.__new__(kind), UPSTREAM).error.message
