"""Which upstream serves a model, and which URL is called."""

from __future__ import annotations

import pytest

from trimtab.errors import InvalidRequest, UnknownModel
from trimtab.upstream.routing import origin, route, url_of
from trimtab.upstream.settings import UpstreamSettings


def upstream(name: str, *models: str) -> UpstreamSettings:
    return UpstreamSettings(name=name, base_url="http://host/v1", models=models)


UPSTREAMS = [
    upstream("mini", "gpt-4o-mini"),
    upstream("openai", "gpt-*", "o[134]*"),
    upstream("local", "Qwen/*", "smollm2"),
]

ROUTES = [
    ("gpt-4o-mini", "mini"),
    ("gpt-4o", "openai"),
    ("o3", "openai"),
    ("Qwen/Qwen3-8B", "local"),
    ("smollm2", "local"),
    (None, "mini"),
]


@pytest.mark.parametrize(("model", "name"), ROUTES)
def test_the_first_that_matches(model: str | None, name: str) -> None:
    assert route(model, UPSTREAMS).name == name


def test_a_star_matches_everything() -> None:
    assert route("anything at all", [*UPSTREAMS, upstream("rest", "*")]).name == "rest"


@pytest.mark.parametrize("model", ["o2", "qwen/qwen3", "smollm", "GPT-4o", "", "x" * 5000])
def test_a_model_that_no_upstream_serves(model: str) -> None:
    with pytest.raises(UnknownModel, match="No upstream serves the model") as caught:
        route(model, UPSTREAMS)
    assert caught.value.param == "model"
    assert len(caught.value.message) < 400


def test_the_nearest_names_are_shown() -> None:
    with pytest.raises(UnknownModel, match=r"Nearest: smollm2\."):
        route("smollm", UPSTREAMS)
    with pytest.raises(UnknownModel, match="Use one of"):
        route("smollm", [])


# -- the URL -----------------------------------------------------------------------------------------------------

CHAT = "/v1/chat/completions"

URLS = [
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


@pytest.mark.parametrize(("base", "path", "query", "expected"), URLS)
def test_the_part_after_v1_is_appended(base: str, path: str, query: bytes, expected: str) -> None:
    assert url_of(base, path, query) == expected


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
    "/v1/..;/admin",
    "/v1/..;a=b/admin",
    "/v1/%2e%2e;/admin",
    "/v1/..%3b/admin",
    "/v1/%252e%252e/admin",
    "/v1/%u002e%u002e/admin",
    "/v1/.%u002e%u002fadmin",
    "/v1/.%0a./admin",
    "/v1/%2e%09%2e/admin",
    "/v1/.%00./admin",
    "/v1/..%23/admin",
    "/v1/..%3fx/admin",
    "/v1/%25252e%25252e%25252fadmin",
    "/v1/x%252f..%252fadmin",
    "/v1/..%00/admin",
    "/v1/..%00",
    "/v1/..%00x/admin",
    "/v1/..%20/admin",
    "/v1/%c0%ae%c0%ae/admin",
    "/v1/%ef%bc%8e%ef%bc%8e/admin",
    "/v1/%2525252525252e",
    "/v1/a b",
    "/v1/a\r\nhost: x",
    "/v1/a?b",
    "/v1/a#b",
    "/v1/é",
]


@pytest.mark.parametrize("path", REFUSED)
def test_a_path_that_could_leave_the_base_or_break_the_line_is_refused(path: str) -> None:
    with pytest.raises(InvalidRequest):
        url_of("https://host/openai/v1", path)


DOTTED = [
    "/v1/files/..hidden",
    "/v1/a..b",
    "/v1/x.y/z..",
    "/v1/.well-known",
    "/v1/models/a;b",
    "/v1/models/50%25",
    "/v1/models/Qwen%2FQwen3.5",
    "/v1/files/a%252eb",
]


@pytest.mark.parametrize("path", DOTTED)
def test_dots_in_names_are_allowed(path: str) -> None:
    assert url_of("https://host/v1", path) == "https://host" + path


@pytest.mark.parametrize("query", [b"a=\r\n", b"a b", b"a#b", b"\xff"])
def test_a_query_that_could_break_the_line_is_refused(query: bytes) -> None:
    with pytest.raises(InvalidRequest):
        url_of("https://host/v1", CHAT, query)


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
