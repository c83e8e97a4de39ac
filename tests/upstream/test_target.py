"""Where a request goes."""

from __future__ import annotations

import pytest

from trimtab.errors import InvalidRequest
from trimtab.upstream.target import origin, target

CHAT = "/v1/chat/completions"

TARGETS = [
    ("https://api.openai.com/v1", CHAT, b"", "https://api.openai.com/v1/chat/completions"),
    ("https://api.openai.com/v1/", CHAT, b"", "https://api.openai.com/v1/chat/completions"),
    ("https://ark.example/api/v3", CHAT, b"", "https://ark.example/api/v3/chat/completions"),
    ("https://api.perplexity.ai", CHAT, b"", "https://api.perplexity.ai/chat/completions"),
    ("https://gw/openai/v1", "/v1/models", b"a=1&b=%20", "https://gw/openai/v1/models?a=1&b=%20"),
    ("https://gw/v1", "/v1/models/Qwen%2FQwen3", b"", "https://gw/v1/models/Qwen%2FQwen3"),
    ("https://gw/v1", "/v1", b"", "https://gw/v1"),
    ("http://localhost:8080/v1", "/props", b"", "http://localhost:8080/props"),
    ("http://localhost:11434/v1", "/api/show", b"", "http://localhost:11434/api/show"),
    ("https://gw/v1", "/v1beta/models", b"", "https://gw/v1beta/models"),
]


@pytest.mark.parametrize(("base", "path", "query", "expected"), TARGETS)
def test_the_part_after_v1_is_appended(base: str, path: str, query: bytes, expected: str) -> None:
    assert target(base, path, query) == expected


REFUSED = [
    "/v1/../admin",
    "/v1/..",
    "/v1/./x",
    "/v1/%2e%2e/admin",
    "/v1/.%2E/admin",
    "/v1/..%2fadmin",
    "/v1/..%5cadmin",
    "/v1/..\\admin",
    "/v1/x%2f..%2f..%2fadmin",
    "/v1/x%5C..%5Cadmin",
    "/v1/a b",
    "/v1/a\r\nhost: x",
    "/v1/a?b",
    "/v1/a#b",
    "/v1/é",
]


@pytest.mark.parametrize("path", REFUSED)
def test_a_path_that_could_climb_out_or_break_the_line_is_refused(path: str) -> None:
    with pytest.raises(InvalidRequest):
        target("https://host/openai/v1", path)


@pytest.mark.parametrize("path", ["/v1/files/..hidden", "/v1/a..b", "/v1/x.y/z..", "/v1/.well-known"])
def test_dots_in_names_are_no_dot_segments(path: str) -> None:
    assert target("https://host/v1", path) == "https://host" + path


@pytest.mark.parametrize("query", [b"a=\r\n", b"a b", b"a#b", b"\xff"])
def test_a_query_that_could_break_the_line_is_refused(query: bytes) -> None:
    with pytest.raises(InvalidRequest):
        target("https://host/v1", CHAT, query)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://a.example/v1", "https://a.example:443/api", True),
        ("http://a.example/v1", "http://A.example:80/v1", True),
        ("http://a.example/v1", "https://a.example/v1", False),
        ("http://a.example:1/v1", "http://a.example:2/v1", False),
        ("http://a.example/v1", "http://b.example/v1", False),
        ("http://[::1]:1/v1", "http://[::1]:1/other", True),
    ],
)
def test_two_urls_are_one_server_by_scheme_host_and_port(one: str, other: str, same: bool) -> None:
    assert (origin(one) == origin(other)) is same
