"""An upstream's table: what is taken, what is refused and how, and that no key is ever printed."""

from __future__ import annotations

import msgspec
import pytest
from rich.pretty import pretty_repr

from trimtab.upstream.settings import UpstreamSettings

URL = "https://api.openai.com/v1"


def decode(**fields: object) -> UpstreamSettings:
    return msgspec.convert({"name": "openai", "base_url": URL, **fields}, UpstreamSettings)


def test_name_and_url_are_enough() -> None:
    given = decode()
    assert given.models == ("*",)
    assert given.api_key is None
    assert (given.connect_timeout_s, given.read_timeout_s, given.retries) == (10, 600, 2)


REFUSED = [
    ({"name": " "}, "name is empty"),
    ({"base_url": "api.openai.com/v1"}, "must begin with http:// or https://"),
    ({"base_url": "ftp://host/v1"}, "must begin with http:// or https://"),
    ({"base_url": "https://"}, "must begin with http:// or https://"),
    ({"base_url": "https://host:port/v1"}, "not a URL"),
    ({"base_url": "https://user:secret@host/v1"}, "contains credentials"),
    ({"base_url": "https://host/v1?version=1"}, "query or a fragment"),
    ({"base_url": "https://ho st/v1"}, "a space or a line break"),
    ({"base_url": "https://host/v1 "}, "a space or a line break"),
    ({"models": []}, "models is empty"),
    ({"proxy": "proxy:3128"}, "address of an HTTP proxy"),
    ({"proxy": "https://proxy:3128"}, "address of an HTTP proxy"),
    ({"api_key": ""}, "api_key is empty"),
    ({"api_key": "sk-1\n"}, "line break"),
    ({"headers": {"x y": "1"}}, "not a valid header name"),
    ({"headers": {"x": "1\r\ny: 2"}}, "line break"),
    ({"connect_timeout_s": 0}, r"float` > 0.0 - at `\$.connect_timeout_s"),
    ({"read_timeout_s": -1}, r"float` > 0.0 - at `\$.read_timeout_s"),
    ({"retries": 11}, "from 0 to 10"),
    ({"retries": "2"}, "int"),
    ({"summary_role": "assistant"}, "summary_role"),
    ({"apikey": "sk-1"}, "apikey"),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        decode(**fields)


def test_no_refusal_quotes_a_key() -> None:
    for fields in ({"api_key": "sk-secret\n"}, {"headers": {"api-key": "sk-secret\n"}}):
        with pytest.raises(msgspec.ValidationError) as caught:
            decode(**fields)
        assert "sk-secret" not in str(caught.value)


def test_nothing_printed_holds_a_key() -> None:
    given = decode(api_key="sk-secret", headers={"api-key": "sk-secret"}, proxy="http://user:sk-secret@proxy:1")
    for printed in (repr(given), str(given), f"{[given]}", pretty_repr(given)):
        assert "sk-secret" not in printed
        assert "api_key='***'" in printed.replace('"', "'")


def test_all_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        decode(name="", base_url="nope", api_key="", retries=99)
    assert len(str(caught.value).splitlines()) == 4
