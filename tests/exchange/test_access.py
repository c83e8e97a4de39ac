"""Who is let in, and what tells one tenant from another."""

from __future__ import annotations

import hashlib

import pytest

from tests.exchange.requests import incoming
from trimtab.errors import Unauthorized
from trimtab.exchange.access import Access, credential

KEY = "team-key"
GUARDED = Access([hashlib.sha256(KEY.encode()).hexdigest().upper(), hashlib.sha256(b"caf\xe9").hexdigest()])


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {KEY}"},
        {"authorization": f"bearer   {KEY} "},
        {"authorization": KEY},
        {"api_key": KEY},
        {"x_api_key": KEY},
        {"authorization": "Bearer café"},
    ],
)
def test_a_configured_key_opens_in_whichever_header_it_comes(headers: dict[str, str]) -> None:
    GUARDED.check(incoming(**headers))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer "},
        {"authorization": "Bearer guess"},
        {"authorization": f"Basic {KEY}"},
        {"authorization": f"Bearer {hashlib.sha256(KEY.encode()).hexdigest()}"},
        {"authorization": "Bearer guess", "api_key": KEY},
        {"cookie": KEY},
    ],
)
def test_anything_else_does_not_and_is_never_quoted(headers: dict[str, str]) -> None:
    with pytest.raises(Unauthorized) as refused:
        GUARDED.check(incoming(**headers))
    assert "guess" not in refused.value.message
    assert KEY not in refused.value.message
    assert "Authorization: Bearer KEY" in refused.value.message


def test_without_configured_keys_everyone_may_come_in() -> None:
    access = Access([])
    access.check(incoming())
    assert not access.guarded
    assert GUARDED.guarded


@pytest.mark.parametrize(
    ("headers", "sent"),
    [
        ({}, b""),
        ({"authorization": "Bearer a"}, b"Bearer a"),
        ({"api_key": "b"}, b"b"),
        ({"x_api_key": "c", "api_key": "b"}, b"b"),
        ({"x_api_key": "c", "authorization": "Bearer a"}, b"Bearer a"),
        ({"authorization": "", "x_api_key": "ü"}, b"\xfc"),
    ],
)
def test_the_credential_is_taken_as_it_was_sent(headers: dict[str, str], sent: bytes) -> None:
    assert credential(incoming(**headers)) == sent
