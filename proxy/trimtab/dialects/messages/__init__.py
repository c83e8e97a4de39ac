"""Messages, `POST /v1/messages`: what Claude Code and Anthropic's SDKs speak.

`body` cuts messages into elements and puts them together, `elements` and `writing` read and write one, and here is what
is particular to answers: usage, events and errors. `context_management` is the upstream's on this path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trimtab.context.texts import ANNOUNCEMENT
from trimtab.dialects import thinking
from trimtab.dialects.dialect import Name, event_type
from trimtab.dialects.messages.body import decode, render
from trimtab.dialects.messages.own_call import VERSION, answered, asked
from trimtab.dialects.messages.writing import FORMAT
from trimtab.errors import (
    BodyTooLarge,
    ConversationTooLong,
    Overloaded,
    RequestError,
    TrimtabError,
    Unauthorized,
    UnknownModel,
)
from trimtab.wire.body import values_of, with_fields_in
from trimtab.wire.request import Request
from trimtab.wire.usage import Usage, count, decoded_usage

_STARTS = frozenset({"message_start"})
_QUIET = frozenset({"message_start", "ping"})
_INPUT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_KINDS: tuple[tuple[type[TrimtabError], str], ...] = (
    (Unauthorized, "authentication_error"),
    (UnknownModel, "not_found_error"),
    (BodyTooLarge, "request_too_large"),
    (RequestError, "invalid_request_error"),
    (Overloaded, "overloaded_error"),
)


class MessagesDialect:
    """The dialect of Anthropic's Messages API."""

    name: Name = "messages"
    path = "/v1/messages"
    listed = "messages"
    format = FORMAT
    cached_fields: tuple[str, ...] = ()  # its cache covers `thinking` and `tool_choice` too, which such a call changes
    appends_chunk = False
    own_headers: tuple[tuple[bytes, bytes], ...] = (VERSION,)
    decode, render = staticmethod(decode), staticmethod(render)
    asked, answered = staticmethod(asked), staticmethod(answered)
    instructed = "system"
    limited = "max_tokens"
    binding: tuple[bytes, ...] = (b"bound to a different conversation",)

    def capped(self, request: Request, tokens: int) -> dict[str, object]:
        """`max_tokens`, and with it `thinking.budget_tokens`, which must stay below it: both or neither."""
        given = values_of(request.source, "max_tokens", "thinking")
        asked = given.get("max_tokens")
        if type(asked) is not int or asked <= tokens:
            return {}
        beside = thinking.lowered(given, tokens)
        return {} if beside is None else {"max_tokens": tokens, **beside}

    def announced(self, request: Request) -> dict[str, object]:
        """In the system prompt: at the end of its text, or as a block of its own."""
        prompt, sentence = values_of(request.source, "system").get("system"), ANNOUNCEMENT.strip()
        if isinstance(prompt, list):
            has_it = any([isinstance(block, dict) and block.get("text") == sentence for block in prompt])
            return {} if has_it else {"system": [*prompt, {"type": "text", "text": sentence}]}
        if isinstance(prompt, str) and prompt:
            return {} if sentence in prompt else {"system": prompt + ANNOUNCEMENT}
        return {"system": sentence}

    def usage(self, data: bytes, before: Usage | None) -> Usage | None:
        """The counts of one event over those before it: `message_start` has the input, `message_delta` the output so
        far, and sometimes all. What came from the cache or went into it is input too."""
        found = decoded_usage(data, "message")
        if found is None:
            return None
        prompt = sum(count(found.get(name)) or 0 for name in _INPUT)
        completion, cached = count(found.get("output_tokens")), count(found.get("cache_read_input_tokens"))
        if not prompt and completion is None:
            return None
        before = before or Usage()
        if not prompt:
            return Usage(before.prompt_tokens, completion, before.cached_tokens)
        return Usage(prompt, before.completion_tokens if completion is None else completion, cached)

    def says_nothing(self, data: bytes) -> bool:
        """True for `message_start` and `ping`."""
        return event_type(data) in _QUIET

    def added(self, data: bytes, fields: Mapping[str, Any]) -> bytes | None:
        """In the message of `message_start`, which every client begins its own message with."""
        return with_fields_in(data, "message", fields) if event_type(data) in _STARTS else None

    def status(self, error: TrimtabError) -> int:
        """The error's own."""
        return error.status

    def envelope(self, error: TrimtabError, request_id: str | None = None) -> bytes:
        """Anthropic's: `{"type": "error", "error": {"type", "message"}, "request_id"}`, with our detail."""
        kind = next((name for leaf, name in _KINDS if isinstance(error, leaf)), "api_error")
        fields: dict[str, Any] = {"type": kind, "message": _said(error)}
        if error.detail:
            fields["detail"] = error.detail
        found = {"type": "error", "error": fields, **({} if request_id is None else {"request_id": request_id})}
        return msgspec.json.encode(found, enc_hook=str)

    def event(self, error: TrimtabError) -> bytes:
        """The envelope in an event named `error`: without its name Anthropic's SDK drops it silently."""
        return b"event: error\ndata: %b\n\n" % self.envelope(error)


def _said(error: TrimtabError) -> str:
    """The message. An overflow begins as Anthropic's own does: at these words Claude Code compacts, at no others."""
    tokens = error.detail.get("tokens") if isinstance(error, ConversationTooLong) else None
    if not isinstance(tokens, dict):
        return error.message
    limit = int(error.detail.get("upstream_limit") or tokens["limit"])
    size = max(int(error.detail.get("reported") or tokens["estimated"]), limit + 1)
    return f"prompt is too long: {size} tokens > {limit} maximum. {error.message}"


MESSAGES = MessagesDialect()
