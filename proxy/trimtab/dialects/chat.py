"""Chat completions, `POST /v1/chat/completions`: the format of `wire.chat` and `context`, which both know it best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trimtab.dialects import thinking
from trimtab.dialects.dialect import Name
from trimtab.dialects.mixed import FORMAT, RESULT, Mixed
from trimtab.errors import TrimtabError
from trimtab.wire import problem
from trimtab.wire.body import values_of
from trimtab.wire.chat import decode, render
from trimtab.wire.cuts import Spans
from trimtab.wire.messages import Messages, ToSend
from trimtab.wire.request import Request
from trimtab.wire.usage import Usage, usage_of
from trimtab.wire.values import holds

_LIMITS = ("max_tokens", "max_completion_tokens")


class Chat:
    """The dialect of every OpenAI SDK's `chat.completions`."""

    name: Name = "chat"
    path = "/v1/chat/completions"
    listed = "messages"
    format = FORMAT
    cached_fields = ("tools", "functions", "chat_template_kwargs", "prompt_cache_key", "user", "service_tier")
    appends_chunk = True
    own_headers: tuple[tuple[bytes, bytes], ...] = ()
    instructed = ""
    limited = "max_tokens"
    binding: tuple[bytes, ...] = ()

    def decode(self, body: bytes, known: Spans | None = None) -> Request:
        """As `Dialect.decode`."""
        request = decode(body, known)
        messages = request.messages
        if not holds(body, RESULT, known[-1].stop if known else 0) or not isinstance(messages, Messages):
            return request
        return msgspec.structs.replace(request, messages=Mixed(messages))

    def render(self, request: Request, messages: ToSend | None, changes: Mapping[str, Any]) -> bytes:
        """As `Dialect.render`."""
        if messages is not None and isinstance(request.messages, Mixed):
            messages = request.messages.messages(messages)
        return render(request, messages, changes)

    def capped(self, request: Request, tokens: int) -> dict[str, object]:
        """Both limits are lowered where both are present, with a budget for thinking that must stay below; neither is
        translated into the other. A value that is not a whole number is the upstream's to judge."""
        given = values_of(request.source, *_LIMITS, *thinking.FIELDS)
        limits: dict[str, object] = {n: tokens for n in _LIMITS if type(given.get(n)) is int and given[n] > tokens}
        beside = thinking.lowered(given, tokens) if limits else None
        return {} if beside is None else {**limits, **beside}

    def announced(self, request: Request) -> dict[str, object]:
        """None: it is one of the messages."""
        return {}

    def usage(self, data: bytes, before: Usage | None) -> Usage | None:
        """The last usage is the usage."""
        return usage_of(data)

    def says_nothing(self, data: bytes) -> bool:
        """False: the first chunk is the answer's."""
        return False

    def added(self, data: bytes, fields: Mapping[str, Any]) -> bytes | None:
        """None: they are a chunk of their own."""
        return None

    def asked(self, chat: Mapping[str, Any], tokens: int) -> Mapping[str, Any]:
        """As `Dialect.asked`."""
        return chat

    def answered(self, raw: bytes) -> bytes:
        """As `Dialect.answered`."""
        return raw

    def status(self, error: TrimtabError) -> int:
        """The error's own."""
        return error.status

    def envelope(self, error: TrimtabError, request_id: str | None = None) -> bytes:
        """OpenAI's."""
        return problem.envelope(error, request_id)

    def event(self, error: TrimtabError) -> bytes:
        """OpenAI's envelope as one event."""
        return problem.sse_event(error)


CHAT = Chat()
