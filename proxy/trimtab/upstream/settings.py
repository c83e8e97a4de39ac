"""One `[[upstreams]]` table of the configuration, decoded and checked.

An upstream is a place that speaks OpenAI's API: a base URL, the models it takes, and how to talk to it.
The key is kept out of every printed form of the value, and so are the values of extra headers, which often
hold keys too.
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
    """Where a model is served. A wrong value is refused with what to write instead (ValueError, which msgspec
    turns into a ValidationError that names the place).

    `base_url` is what an OpenAI SDK would be given, e.g. `https://api.openai.com/v1` or
    `http://localhost:11434/v1`; the part of the client's path after `/v1` is appended to it.
    `read_timeout_s` is the longest silence, not the longest answer: 600 s is the OpenAI SDK's own default.
    `retries` are tries beyond the first, before the first byte only.
    """

    name: str
    base_url: str
    models: tuple[str, ...] = ("*",)
    api_key: str | None = None
    summary_role: Literal["auto", "system", "user"] = "auto"
    headers: dict[str, str] = {}
    connect_timeout_s: PositiveSeconds = 10.0
    read_timeout_s: PositiveSeconds = 600.0
    retries: int = 2
    verify_tls: bool = True
    ca_file: str | None = None

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise ValueError(problem)

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(field, _shown(field, getattr(self, field))) for field in self.__struct_fields__]

    def __repr__(self) -> str:
        return f"UpstreamSettings({', '.join(f'{k}={v!r}' for k, v in self.__rich_repr__())})"


def _shown(field: str, value: Any) -> Any:
    if field == "api_key" and value is not None:
        return _HIDDEN
    if field == "headers":
        return dict.fromkeys(value, _HIDDEN)
    return value


def _problems(given: UpstreamSettings) -> Iterator[str]:
    """What is wrong with the values, as sentences that say what to write."""
    if not given.name.strip():
        yield "name is empty: give the upstream a name, it stands in messages and metrics"
    yield from _url_problems(given.base_url)
    if given.api_key is not None and not _VALUE.fullmatch(given.api_key):
        yield "api_key is empty or holds a space or line break: leave it out to pass the client's own on"
    for name, value in given.headers.items():
        if not (_NAME.fullmatch(name) and value.isprintable()):
            yield f"headers: {name!r} is no header name, or its value holds a line break"
    if not 0 <= given.retries <= 10:
        yield "retries is a number of tries from 0 to 10"


def _url_problems(base_url: str) -> Iterator[str]:
    try:
        parts = urlsplit(base_url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        yield "base_url is not a URL: write it like https://api.openai.com/v1"
        return
    if parts.scheme not in ("http", "https") or not host:
        yield "base_url needs http:// or https:// and a host, like https://api.openai.com/v1"
    elif parts.username is not None or parts.password is not None:
        yield "base_url holds credentials: put the key into api_key"
    elif parts.query or parts.fragment:
        yield "base_url has a query or a fragment: end it at the path, like https://api.openai.com/v1"
