"""The content of an error object, however deeply it is wrapped.

Providers, gateways and their gateways nest errors in one another: a string `error`, a top-level `message` or
`detail`, arrays, JSON inside a string, `metadata.raw`, `errors`. This module flattens all of it into one `ErrorBody`:
the sentences for people, the codes for programs, the numbers in named fields. It decides nothing.

    {"error": {"message": "Prompt is too long", "code": "x", "metadata": {"raw": "{\"n_ctx\": 8192}"}}}
    ->  ErrorBody(texts=("Prompt is too long",), codes=("x",), limit=8192)

Keys that may echo the client's own request are never read, so a conversation about errors is not taken for one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trimtab.overflow.sent import Sent

MAX_JSON = 4 * 1024 * 1024  # bytes decoded as JSON; a longer body is read as text
_MAX_VALUES = 20_000  # values of it; real errors have a few dozen, and a million objects would take a second
MAX_TEXT = 4000  # characters kept of one sentence
MAX_PARTS = 12  # sentences kept of one body, and codes; each may take ten milliseconds to classify
_MAX_DEPTH = 16  # levels of nesting, JSON inside strings included
_MAX_MEMBERS = 64  # members read of one object
_MAX_CODE, _MAX_CODE_IN_TEXT = 120, 80  # characters of a code in its own field, and of one in place of a sentence

_CODE_KEYS = frozenset(
    {
        "code",
        "type",
        "error_type",
        "errortype",
        "status",
        "error_code",
        "errorcode",
        "status_code",
        "err_code",
    }
    | {"errcode", "__type", "kind", "name", "http_code", "http_status_code", "exception"}
)
# The client's request or the model's answer, repeated, and what describes them: not the upstream's own words.
_ECHO_KEYS = frozenset(
    {"input", "inputs", "input_value", "value", "values", "received", "given", "invalid_value", "actual_value"}
    | {"prompt", "messages", "content", "request", "tools", "instructions"}
    | {"choices", "output", "delta", "failed_generation", "usage", "headers", "loc", "ctx", "param", "params"}
    | {"url", "doc_url", "documentation_url", "path", "model", "id", "request_id", "requestid", "user_id"}
    | {"provider_name", "object", "created", "timestamp", "trace", "stack", "traceback"}
)
_LIMIT_KEYS = frozenset(
    {"n_ctx", "max_model_len", "context_length", "context_window", "max_context_length", "token_limit"}
    | {"max_input_tokens", "max_prompt_tokens"}
)
_ACTUAL_KEYS = frozenset({"n_prompt_tokens", "prompt_tokens", "input_tokens", "token_count", "input_token_count"})


class ErrorBody(msgspec.Struct, frozen=True):
    """The flat content of an error: `texts` in the order found, `codes` as written, the `params` it blames.

    `limit` and `actual` are tokens from named fields: what the upstream takes, and what it got.
    """

    texts: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    limit: int | None = None
    actual: int | None = None


class _Collected:
    """What has been found so far, within the bounds."""

    def __init__(self, sent: Sent | None) -> None:
        self.sent = sent
        self.texts: list[str] = []
        self.codes: list[str] = []
        self.params: list[str] = []
        self.limit: int | None = None
        self.actual: int | None = None

    def add_text(self, text: str) -> None:
        text = text.strip()
        if text and len(self.texts) < MAX_PARTS and text not in self.texts:
            self.texts.append(text[:MAX_TEXT])
        if len(text) <= _MAX_CODE_IN_TEXT and text.isascii() and " " not in text:
            self.add_code(text)

    def add_code(self, code: object) -> None:
        text = str(code).strip()
        if text and len(text) <= _MAX_CODE and len(self.codes) < MAX_PARTS and text not in self.codes:
            self.codes.append(text)

    def error_body(self) -> ErrorBody | None:
        if not (self.texts or self.codes):
            return None
        return ErrorBody(tuple(self.texts), tuple(self.codes), tuple(self.params), limit=self.limit, actual=self.actual)


def read_error_body(value: Any, sent: Sent | None = None) -> ErrorBody | None:
    """The error in decoded JSON or in a sentence; None when it holds neither a text nor a code. JSON inside a text is
    not read where it stands in what was `sent`."""
    found = _Collected(sent)
    _collect(value, found, _MAX_DEPTH)
    return found.error_body()


def decode_json(data: bytes | str) -> Any:
    """The decoded value; None when `data` is not JSON, or too large to be an error: longer than `MAX_JSON` bytes, or of
    more than about `_MAX_VALUES` values. Never raises."""
    if len(data) > MAX_JSON or (len(data) > _MAX_VALUES and _commas(data) > _MAX_VALUES):
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def _commas(data: bytes | str) -> int:
    return data.count(b",") if isinstance(data, bytes) else data.count(",")


def _collect(value: Any, found: _Collected, depth: int) -> None:
    if depth <= 0:
        return
    if isinstance(value, str):
        _collect_text(value, found, depth)
    elif isinstance(value, list):
        for item in value[:MAX_PARTS]:
            _collect(item, found, depth - 1)
    elif isinstance(value, dict):
        for key, item in list(value.items())[:_MAX_MEMBERS]:
            _collect_member(key, item, found, depth)


def _collect_member(key: str, item: Any, found: _Collected, depth: int) -> None:
    name = key.lower()
    if name.endswith(("exception", "error")) and name != "error":
        found.add_code(key)
    if name == "param" and isinstance(item, str):
        found.params.append(item[:_MAX_CODE])
    if isinstance(item, bool) or name in _ECHO_KEYS:
        return
    if isinstance(item, int):
        _collect_number(name, item, found)
    elif name in _CODE_KEYS and isinstance(item, str):
        found.add_code(item)
    else:
        _collect(item, found, depth - 1)


def _collect_number(name: str, item: int, found: _Collected) -> None:
    if name in _CODE_KEYS:
        found.add_code(item)
    elif name in _LIMIT_KEYS:
        found.limit = item
    elif name in _ACTUAL_KEYS:
        found.actual = item


def _collect_text(text: str, found: _Collected, depth: int) -> None:
    """A sentence, or JSON inside a string, perhaps after a few words of the gateway that passed it on."""
    start, end = text.find("{"), text.rfind("}")
    inner = decode_json(text[start : end + 1]) if 0 <= start < end else None
    if isinstance(inner, dict) and found.sent is not None and found.sent.holds(text[start : end + 1]):
        found.add_text(text[:start] + text[end + 1 :])
    elif isinstance(inner, dict):
        found.add_text(text[:start].strip(" [-:"))
        _collect(inner, found, depth - 1)
    else:
        found.add_text(text)
