"""Who is let in, and what tells one tenant from another."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from tests.exchange.requests import incoming
from trimtab.errors import Unauthorized
from trimtab.exchange.access import Access, credential, tenant

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


APART: list[tuple[str, dict[str, str], dict[str, str]]] = [
    ("the credential", {"authorization": "Bearer a"}, {"authorization": "Bearer b"}),
    ("Gemini's key", {"x_goog_api_key": "a"}, {"x_goog_api_key": "b"}),
    ("Portkey's key", {"x_portkey_api_key": "a"}, {"x_portkey_api_key": "b"}),
    (
        "Portkey's key beside a shared one",
        {"authorization": "Bearer a", "x_portkey_api_key": "a"},
        {"authorization": "Bearer a", "x_portkey_api_key": "b"},
    ),
    ("a cookie", {"cookie": "session=a"}, {"cookie": "session=b"}),
    ("a cookie among others", {"cookie": "_ga=1; session=a"}, {"cookie": "_ga=1; session=b"}),
    ("nothing, and something", {}, {"cookie": "session=a"}),
]


@pytest.mark.parametrize(("_", "one", "other"), APART, ids=[row[0] for row in APART])
def test_clients_that_anything_tells_apart_are_tenants_of_their_own(
    _: str, one: dict[str, str], other: dict[str, str]
) -> None:
    assert tenant(incoming(**one)) != tenant(incoming(**other))
    assert tenant(incoming(**one)) == tenant(incoming(**one))


@pytest.mark.parametrize("cookie", ["__cf_bm=x; _cfuvid=y", "AWSALB=x", ""])
def test_a_cookie_that_changes_tells_no_tenants_apart(cookie: str) -> None:
    assert tenant(incoming(authorization="Bearer a", cookie=cookie)) == b"Bearer a"
    assert tenant(incoming(cookie=cookie)) == b""


def test_a_key_in_the_query_tells_tenants_apart() -> None:
    one, other, none = (
        msgspec.structs.replace(incoming(), query=query) for query in (b"a=1&key=x", b"key=y", b"key=&a=1")
    )
    assert len({tenant(one), tenant(other), tenant(none)}) == 3
    assert tenant(none) == b""
