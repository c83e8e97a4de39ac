"""What an exception of aiohttp means."""

from __future__ import annotations

import aiohttp
import pytest

from trimtab.errors import UpstreamError, UpstreamTimeout, UpstreamUnreachable
from trimtab.upstream.failures import RAISED, Again, broken_off, failure
from trimtab.upstream.settings import UpstreamSettings

UPSTREAM = UpstreamSettings(name="east", base_url="http://host/v1", api_key="sk-secret", read_timeout_s=7)

FAILURES: list[tuple[BaseException, type[UpstreamError], Again, str]] = [
    (aiohttp.ConnectionTimeoutError("x"), UpstreamTimeout, Again.SAFE, "within 10 s"),
    (aiohttp.SocketTimeoutError("x"), UpstreamTimeout, Again.NEVER, "nothing for 7 s"),
    (TimeoutError(), UpstreamTimeout, Again.NEVER, "nothing for 7 s"),
    (aiohttp.ServerDisconnectedError(), UpstreamUnreachable, Again.REPLAY, "closed the connection"),
    (aiohttp.ClientOSError(104, "reset"), UpstreamUnreachable, Again.REPLAY, "closed the connection"),
    (ConnectionResetError(104, "reset"), UpstreamUnreachable, Again.REPLAY, "closed the connection"),
    (aiohttp.ClientPayloadError("sk-secret"), UpstreamUnreachable, Again.NEVER, "broke off"),
    (aiohttp.InvalidURL("x"), UpstreamUnreachable, Again.NEVER, "cannot be called"),
]


@pytest.mark.parametrize(("raised", "kind", "again", "says"), FAILURES, ids=lambda value: type(value).__name__)
def test_what_it_means(raised: BaseException, kind: type[UpstreamError], again: Again, says: str) -> None:
    assert isinstance(raised, RAISED)
    found = failure(raised, UPSTREAM)
    assert type(found.error) is kind
    assert found.again is again
    assert found.error.message.startswith("The upstream 'east' ")
    assert says in found.error.message
    assert "sk-secret" not in found.error.message


def test_after_the_first_byte_it_is_a_silence_or_a_break() -> None:
    assert isinstance(broken_off(aiohttp.SocketTimeoutError(), UPSTREAM), UpstreamTimeout)
    assert "broke off" in broken_off(aiohttp.ClientOSError(104, "reset"), UPSTREAM).message


def subclasses(kind: type[BaseException]) -> set[type[BaseException]]:
    return {kind}.union(*(subclasses(sub) for sub in kind.__subclasses__()))


def test_every_error_of_aiohttp_has_a_row() -> None:
    for kind in subclasses(aiohttp.ClientError):
        assert failure(kind.__new__(kind), UPSTREAM).error.message
