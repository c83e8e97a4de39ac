"""Which headers are forwarded, in either direction."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import InvalidRequest
from trimtab.upstream.headers import HOP_BY_HOP, Pairs, has_credential, host, to_client, to_upstream
from trimtab.upstream.settings import UpstreamSettings

OPEN = UpstreamSettings(name="a", base_url="https://api.example/v1")
KEYED = UpstreamSettings(name="a", base_url="https://api.example/v1", api_key="sk-ours")
AZURE = UpstreamSettings(name="a", base_url="https://api.example/v1", headers={"Api-Key": "ours", "X-Team": "core"})
HOST = (b"host", b"api.example")


def sent(headers: Pairs, upstream: UpstreamSettings = OPEN, **more: object) -> Pairs:
    """What goes upstream, without the host that always does."""
    given = {"content_length": None, **more}
    pairs = to_upstream(headers, upstream=upstream, **given)  # type: ignore[arg-type]
    assert pairs[0] == HOST
    return pairs[1:]


PASSED = [
    (b"authorization", b"Bearer sk-client"),
    (b"openai-organization", b"org"),
    (b"cookie", b"a=1"),
    (b"accept-encoding", b"gzip, br"),
    (b"user-agent", b"openai-python"),
    (b"x-stainless-lang", b"python"),
    (b"traceparent", b"00-1-2-01"),
    (b"x-twice", b"1"),
    (b"x-twice", b"2"),
]


def test_end_to_end_headers_go_upstream_in_order_and_as_often() -> None:
    assert sent(PASSED) == PASSED


NOT_FORWARDED = [
    (b"host", b"proxy.local"),
    (b"connection", b"keep-alive, X-Private"),
    (b"x-private", b"1"),
    (b"keep-alive", b"timeout=5"),
    (b"proxy-authorization", b"Basic x"),
    (b"proxy-connection", b"keep-alive"),
    (b"te", b"trailers"),
    (b"trailer", b"x"),
    (b"transfer-encoding", b"chunked"),
    (b"upgrade", b"websocket"),
    (b"expect", b"100-continue"),
    (b"x-trimtab-hint", b"general"),
    (b"x-trimtab-bypass", b"true"),
]


@pytest.mark.parametrize("header", NOT_FORWARDED, ids=lambda header: header[0].decode())
def test_headers_for_the_proxy_are_not_forwarded(header: tuple[bytes, bytes]) -> None:
    assert sent([(b"connection", b"x-private"), header, (b"x-kept", b"1")]) == [(b"x-kept", b"1")]


LENGTHS: list[tuple[Pairs, dict[str, object], list[bytes]]] = [
    ([(b"content-length", b"10")], {"content_length": 7}, [b"7"]),
    ([(b"content-length", b"10")], {"content_length": 0}, [b"0"]),
    ([(b"content-length", b"10")], {}, [b"10"]),
    ([(b"content-length", b"10"), (b"content-length", b"10")], {}, [b"10"]),
    ([(b"content-length", b"10")], {"body_changed": True}, []),
    ([(b"content-length", b"10"), (b"transfer-encoding", b"chunked")], {}, []),
    ([(b"transfer-encoding", b"chunked")], {"content_length": 7}, [b"7"]),
    ([], {}, []),
]


@pytest.mark.parametrize(("headers", "more", "expected"), LENGTHS)
def test_the_length_is_stated_once_and_true(headers: Pairs, more: dict[str, object], expected: list[bytes]) -> None:
    pairs = sent(headers, **more)
    assert [value for name, value in pairs if name == b"content-length"] == expected
    assert not any(name == b"transfer-encoding" for name, _ in pairs)


def test_a_changed_body_loses_what_described_the_old_one() -> None:
    described = [(b"content-encoding", b"gzip"), (b"content-md5", b"x"), (b"digest", b"x")]
    typed = [(b"content-type", b"application/json")]
    assert sent([*described, *typed]) == [*described, *typed]
    assert sent([*described, *typed], body_changed=True) == typed


def test_identity_asks_for_an_answer_that_is_not_compressed() -> None:
    assert sent([(b"accept-encoding", b"gzip")], identity=True) == [(b"accept-encoding", b"identity")]
    assert sent([], identity=True) == [(b"accept-encoding", b"identity")]
    assert sent([]) == []


KEYS = [(b"authorization", b"Bearer sk-client"), (b"api-key", b"k"), (b"x-api-key", b"k"), (b"x-a", b"1")]


def test_a_configured_key_replaces_every_key_of_the_client() -> None:
    assert sent(KEYS, KEYED) == [(b"x-a", b"1"), (b"authorization", b"Bearer sk-ours")]


def test_a_key_for_the_proxy_is_not_forwarded() -> None:
    assert sent(KEYS, keep_credentials=False) == [(b"x-a", b"1")]


@pytest.mark.parametrize(
    ("configured", "found"),
    [
        ({}, False),
        ({"api_key": "sk"}, True),
        ({"headers": {"Authorization": "Basic x"}}, True),
        ({"headers": {"x-goog-api-key": "x"}}, True),
        ({"headers": {"X-Portkey-Api-Key": "x"}}, True),
        ({"headers": {"Cookie": "session=x"}}, True),
        ({"headers": {"x-route": "eu"}}, False),
    ],
)
def test_a_credential_is_configured_as_a_key_or_in_a_header(configured: dict[str, Any], found: bool) -> None:
    assert has_credential(UpstreamSettings(name="up", base_url="http://x/v1", **configured)) is found


def test_configured_headers_replace_those_of_the_client() -> None:
    given = [(b"api-key", b"theirs"), (b"x-team", b"theirs"), (b"x-team", b"again"), (b"x-a", b"1")]
    assert sent(given, AZURE) == [(b"x-a", b"1"), (b"api-key", b"ours"), (b"x-team", b"core")]


SMUGGLED: list[Pairs] = [
    [(b"x-a", b"1\r\nx-b: 2")],
    [(b"x-a", b"1\nx-b: 2")],
    [(b"x-a", b"1\0")],
    [(b"x a", b"1")],
    [(b"x-a:", b"1")],
    [(b"", b"1")],
    [(b"Connection", b"x-a")],  # names come in lower case: any other would be looked for in vain
    [(b"content-length", b"1"), (b"content-length", b"2")],
    [(b"content-length", b"+1")],
    [(b"content-length", b"1, 1")],
]


@pytest.mark.parametrize("headers", SMUGGLED, ids=repr)
def test_headers_that_would_break_the_framing_are_refused(headers: Pairs) -> None:
    with pytest.raises(InvalidRequest):
        sent(headers)


BACK = [
    (b"content-type", b"text/event-stream"),
    (b"retry-after", b"30"),
    (b"x-ratelimit-remaining-tokens", b"0"),
    (b"x-request-id", b"req_1"),
    (b"set-cookie", b"a=1"),
    (b"set-cookie", b"b=2"),
    (b"content-encoding", b"gzip"),
    (b"content-length", b"10"),
    (b"etag", b"x"),
]


def test_end_to_end_headers_come_back_in_order_and_as_often() -> None:
    hop = [(b"connection", b"close, x-hop"), (b"x-hop", b"1"), (b"keep-alive", b"x"), (b"trailer", b"x")]
    assert to_client([*hop, *BACK]) == BACK


def test_a_changed_answer_loses_its_old_length_and_encoding() -> None:
    assert to_client(BACK, body_changed=True) == BACK[:6]


def test_a_chunked_answer_states_no_length() -> None:
    assert to_client([(b"transfer-encoding", b"chunked"), (b"content-length", b"5")]) == []


HOSTS = [
    ("https://api.openai.com/v1", b"api.openai.com"),
    ("https://api.openai.com:443/v1", b"api.openai.com"),
    ("http://localhost:8080/v1", b"localhost:8080"),
    ("http://host:80", b"host"),
    ("https://host:80", b"host:80"),
    ("http://[::1]:8080/v1", b"[::1]:8080"),
    ("https://bücher.example/v1", b"xn--bcher-kva.example"),
]


@pytest.mark.parametrize(("base_url", "expected"), HOSTS)
def test_host(base_url: str, expected: bytes) -> None:
    assert host(base_url) == expected


NAMES = st.sampled_from([*HOP_BY_HOP, b"x-a", b"x-b", b"x-trimtab-c", b"authorization", b"set-cookie"])
VALUES = st.sampled_from([b"", b"1", b"x-a", b"X-A, x-b", b"close"])


@given(st.lists(st.tuples(NAMES, VALUES), max_size=8))
def test_nothing_of_this_hop_is_forwarded(headers: Pairs) -> None:
    named = {token.strip().lower() for name, v in headers if name == b"connection" for token in v.split(b",")}
    for pairs in (sent(headers, KEYED), to_client(headers)):
        kept = {name for name, value in pairs if value != b"Bearer sk-ours"}
        assert not kept & (HOP_BY_HOP | named)
    assert not any(name.startswith(b"x-trimtab-") for name, _ in sent(headers))


def test_control_characters_in_an_answer_become_spaces() -> None:
    assert to_client([(b"x-a", b"a\x01b\x7fc"), (b"x-b", b"tab\tstays")]) == [
        (b"x-a", b"a b c"),
        (b"x-b", b"tab\tstays"),
    ]
