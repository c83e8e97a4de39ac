"""Responses, `POST /v1/responses`: items of many types in one list, `input`. codex and openai-agents speak it.

`items` reads and writes one item, `body` the request around them, and here is what is particular to answers: usage,
events and errors. An answer is a run of items, and reasoning is never parted from what follows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from trimtab.dialects.dialect import Name, event_type
from trimtab.dialects.responses.body import decode, render
from trimtab.dialects.responses.items import FORMAT
from trimtab.dialects.responses.own_call import CACHED_FIELDS, answered, asked
from trimtab.errors import TrimtabError
from trimtab.wire import problem
from trimtab.wire.body import values_of, with_fields_in
from trimtab.wire.request import Request
from trimtab.wire.usage import Usage, count, decoded_usage

_QUIET = frozenset({"response.created", "response.in_progress", "response.queued"})
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_CONTENT_TOO_LARGE = 413


class Responses:
    """The dialect of OpenAI's Responses API."""

    name: Name = "responses"
    path = "/v1/responses"
    listed = "input"
    format = FORMAT
    cached_fields = CACHED_FIELDS
    appends_chunk = False
    own_headers: tuple[tuple[bytes, bytes], ...] = ()
    decode, render = staticmethod(decode), staticmethod(render)
    asked, answered = staticmethod(asked), staticmethod(answered)
    instructed = "instructions"
    limited = "max_output_tokens"
    binding: tuple[bytes, ...] = ()

    def capped(self, request: Request, tokens: int) -> dict[str, int]:
        """`max_output_tokens`, where it is higher."""
        value = values_of(request.source, "max_output_tokens").get("max_output_tokens")
        return {"max_output_tokens": tokens} if type(value) is int and value > tokens else {}

    def announced(self, request: Request) -> dict[str, object]:
        """None: it is one of the messages."""
        return {}

    def usage(self, data: bytes, before: Usage | None) -> Usage | None:
        """The usage of a whole answer, or of `response.completed`, `.incomplete` and `.failed`, which end a stream."""
        found = decoded_usage(data, "response")
        if found is None:
            return None
        prompt, details = count(found.get("input_tokens")), found.get("input_tokens_details")
        cached = count(details.get("cached_tokens")) if isinstance(details, dict) else None
        return None if prompt is None else Usage(prompt, count(found.get("output_tokens")), cached)

    def says_nothing(self, data: bytes) -> bool:
        """True for the events that repeat the request before the model has begun."""
        return event_type(data) in _QUIET

    def added(self, data: bytes, fields: Mapping[str, Any]) -> bytes | None:
        """In the response of the event that ends a stream."""
        return with_fields_in(data, "response", fields) if event_type(data) in _ENDS else None

    def status(self, error: TrimtabError) -> int:
        """The error's own; 400 for a 413, which codex takes for a failure of the network and sends again."""
        return 400 if error.status == _CONTENT_TOO_LARGE else error.status

    def envelope(self, error: TrimtabError, request_id: str | None = None) -> bytes:
        """OpenAI's."""
        return problem.envelope(error, request_id)

    def event(self, error: TrimtabError) -> bytes:
        """OpenAI's envelope in an event of type `error`: the one form that codex and the SDKs take for an error of
        this kind. Flat, as the reference has it, codex tries again."""
        envelope = msgspec.json.decode(problem.envelope(error), type=dict[str, Raw])
        data = msgspec.json.encode({"type": "error", **envelope, "sequence_number": 0})
        return b"event: error\ndata: %b\n\n" % data


RESPONSES = Responses()
