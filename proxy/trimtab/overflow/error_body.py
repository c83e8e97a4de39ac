"""What an error object says, whatever it is wrapped in.

Providers, gateways and their gateways nest errors in one another: a string `error`, a top-level `message` or
`detail`, arrays, JSON inside a string, `metadata.raw`, `errors`. This module takes all of it apart into one
flat `Complaint`: the sentences for people, the codes for programs, the numbers in named fields. It judges
nothing.

Keys that may echo the client's own request are never read, so that a conversation *about* errors is no error.
"""

from __future__ import annotations

from typing import Any

import msgspec

MAX_JSON = 4 * 1024 * 1024  # bytes decoded as JSON; a longer body is read as text
MAX_TEXT = 4000  # characters kept of one sentence
MAX_PARTS = 12  # sentences, and codes, kept of one body; each may take ten milliseconds to read
MAX_DEPTH = 16  # levels walked, JSON inside strings included

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
# The client's request or the model's answer, repeated, or what describes them: not the upstream's words.
_ECHO_KEYS = frozenset(
    {"input", "inputs", "input_value", "prompt", "messages", "content", "request", "tools", "instructions"}
    | {"choices", "output", "delta", "failed_generation", "usage", "headers", "loc", "ctx", "param", "params"}
    | {"url", "doc_url", "documentation_url", "path", "model", "id", "request_id", "requestid", "user_id"}
    | {"provider_name", "object", "created", "timestamp", "trace", "stack", "traceback"}
)
_LIMIT_KEYS = frozenset(
    {"n_ctx", "max_model_len", "context_length", "context_window", "max_context_length", "token_limit"}
    | {"max_input_tokens", "max_prompt_tokens"}
)
_ACTUAL_KEYS = frozenset({"n_prompt_tokens", "prompt_tokens", "input_tokens", "token_count", "input_token_count"})


class Complaint(msgspec.Struct, frozen=True):
    """The flat content of an error body: `texts` in the order found, `codes` as written, `params` it blames;
    `limit` and `actual` are tokens from named fields."""

    texts: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    limit: int | None = None
    actual: int | None = None


class _Sink:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.codes: list[str] = []
        self.params: list[str] = []
        self.limit: int | None = None
        self.actual: int | None = None

    def text(self, text: str) -> None:
        text = text.strip()
        if text and len(self.texts) < MAX_PARTS and text not in self.texts:
            self.texts.append(text[:MAX_TEXT])
        if len(text) <= 80 and text.isascii() and " " not in text:
            self.code(text)

    def code(self, code: object) -> None:
        text = str(code).strip()
        if text and len(text) <= 120 and len(self.codes) < MAX_PARTS and text not in self.codes:
            self.codes.append(text)

    def complaint(self) -> Complaint | None:
        if not (self.texts or self.codes):
            return None
        return Complaint(tuple(self.texts), tuple(self.codes), tuple(self.params), limit=self.limit, actual=self.actual)


def complaint_of(value: Any) -> Complaint | None:
    """The complaint in decoded JSON or in a sentence; None when it holds no words."""
    sink = _Sink()
    _walk(value, sink, MAX_DEPTH)
    return sink.complaint()


def decode(data: bytes | str) -> Any:
    """The JSON value, or None for what is none (or longer than `MAX_JSON`)."""
    if len(data) > MAX_JSON:
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def _walk(value: Any, sink: _Sink, depth: int) -> None:
    if depth <= 0:
        return
    if isinstance(value, str):
        _walk_text(value, sink, depth)
    elif isinstance(value, list):
        for item in value[:MAX_PARTS]:
            _walk(item, sink, depth - 1)
    elif isinstance(value, dict):
        for key, item in list(value.items())[:64]:
            _walk_member(key, item, sink, depth)


def _walk_member(key: str, item: Any, sink: _Sink, depth: int) -> None:
    name = key.lower()
    if name.endswith(("exception", "error")) and name != "error":
        sink.code(key)
    if name == "param" and isinstance(item, str):
        sink.params.append(item[:120])
    if isinstance(item, bool) or name in _ECHO_KEYS:
        return
    if isinstance(item, int):
        _walk_number(name, item, sink)
    elif name in _CODE_KEYS and isinstance(item, str):
        sink.code(item)
    else:
        _walk(item, sink, depth - 1)


def _walk_number(name: str, item: int, sink: _Sink) -> None:
    if name in _CODE_KEYS:
        sink.code(item)
    elif name in _LIMIT_KEYS:
        sink.limit = item
    elif name in _ACTUAL_KEYS:
        sink.actual = item


def _walk_text(text: str, sink: _Sink, depth: int) -> None:
    """A sentence, or JSON inside a string, perhaps after a few words of who passed it on."""
    start, end = text.find("{"), text.rfind("}")
    inner = decode(text[start : end + 1]) if 0 <= start < end else None
    if isinstance(inner, dict):
        sink.text(text[:start].strip(" [-:"))
        _walk(inner, sink, depth - 1)
    else:
        sink.text(text)
