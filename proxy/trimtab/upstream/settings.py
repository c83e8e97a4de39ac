"""One `[[upstreams]]` table of the configuration, decoded and checked.

An upstream is a server with OpenAI's API: a base URL, the models it serves, and how to call it. The key is left out of
every printed form of the value, and so are the proxy's address and the values of extra headers, which may contain keys
too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from trimtab.units import PositiveSeconds

_HIDDEN = "***"
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[!-~]+")


class UpstreamSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where models are served.

    `base_url` is what an OpenAI SDK would be given, such as `https://api.openai.com/v1` or
    `http://localhost:11434/v1`; the part of the client's path after `/v1` is appended to it. `connect_timeout_s` and
    `read_timeout_s` are seconds; the latter is the longest silence, not the longest answer: 600 is the OpenAI SDK's own
    default. `retries` are tries after the first, before the first byte of an answer only. `proxy` is an HTTP proxy that
    calls go through, such as `http://proxy.example:3128`; variables like HTTPS_PROXY are never read. `auth` is the
    header in which `api_key` is sent. `base_urls` are for a server that has its dialects in different places, such as
    `messages = "https://api.deepseek.com/anthropic/v1"`; the others are at `base_url`.

    Raises ValueError with what to write instead, a line for each problem; msgspec turns it into a ValidationError that
    names the place.
    """

    name: str
    base_url: str
    models: tuple[str, ...] = ("*",)
    api_key: str | None = None
    auth: Literal["bearer", "x-api-key"] = "bearer"
    summary_role: Literal["auto", "system", "user"] = "auto"
    headers: dict[str, str] = {}
    connect_timeout_s: PositiveSeconds = 10.0
    read_timeout_s: PositiveSeconds = 600.0
    retries: int = 2
    verify_tls: bool = True
    ca_file: str | None = None
    proxy: str | None = None
    base_urls: dict[Literal["chat", "responses", "messages"], str] = {}

    def __post_init__(self) -> None:
        if problems := list(_problems(self)):
            raise ValueError("\n".join(problems))

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(field, _shown(field, getattr(self, field))) for field in self.__struct_fields__]

    def __repr__(self) -> str:
        return f"UpstreamSettings({', '.join(f'{k}={v!r}' for k, v in self.__rich_repr__())})"


def _shown(field: str, value: Any) -> Any:
    if field in ("api_key", "proxy") and value is not None:
        return _HIDDEN
    if field == "headers":
        return dict.fromkeys(value, _HIDDEN)
    return value


def _problems(given: UpstreamSettings) -> Iterator[str]:
    """What is wrong with the values, as sentences that say what to write."""
    if not given.name.strip():
        yield "name is empty: give the upstream a name, which error messages and metrics will show"
    if not given.models:
        yield "models is empty, so this upstream would never get a request: name its models, or remove the line"
    for url in (given.base_url, *given.base_urls.values()):
        yield from _url_problems(url)
    if given.api_key is not None and not _VALUE.fullmatch(given.api_key):
        yield "api_key is empty, or contains a space or a line break: leave it out to send the client's own key"
    for name, value in given.headers.items():
        if not (_NAME.fullmatch(name) and value.isprintable()):
            yield f"headers: {name!r} is not a valid header name, or its value contains a line break"
    if not 0 <= given.retries <= 10:
        yield "retries must be from 0 to 10"
    if given.proxy is not None and not _is_http(given.proxy):
        yield "proxy must be the address of an HTTP proxy, like http://proxy.example:3128"


def _is_http(url: str) -> bool:
    """True for an address with `http://` and a host, without spaces."""
    try:
        parts = urlsplit(url)
        return parts.scheme == "http" and bool(parts.hostname) and parts.port != 0 and not re.search(r"\s", url)
    except ValueError:
        return False


def _url_problems(base_url: str) -> Iterator[str]:
    if re.search(r"\s", base_url):
        yield "base_url contains a space or a line break: remove it"
        return
    try:
        parts = urlsplit(base_url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        yield "base_url is not a URL: write it like https://api.openai.com/v1"
        return
    if parts.scheme not in ("http", "https") or not host:
        yield "base_url must begin with http:// or https:// and a host, like https://api.openai.com/v1"
    elif parts.username is not None or parts.password is not None:
        yield "base_url contains credentials: put the key into api_key"
    elif parts.query or parts.fragment:
        yield "base_url has a query or a fragment: end it with the path, like https://api.openai.com/v1"
