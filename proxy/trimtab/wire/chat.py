"""The layout of a chat-completions request: where its messages are, and the fields that the proxy reads."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from msgspec import Raw

from trimtab.wire.body import Head, Layout, is_present, request_of
from trimtab.wire.cuts import Spans
from trimtab.wire.messages import ToSend
from trimtab.wire.request import Request


class _Head(Head, kw_only=True):
    """The fields the proxy reads."""

    messages: list[Raw]
    stream_options: dict[str, Raw] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    functions: Raw = Raw()
    response_format: Raw = Raw()
    prediction: Raw = Raw()
    context_management: Raw = Raw()


_extras = attrgetter("tools", "functions", "response_format", "tool_choice", "prediction")
_LAYOUT = Layout(_Head, "messages")


def decode(body: bytes, known: Spans | None = None) -> Request:
    """Read a request body. `known` are the places of messages at its start that were read before: they are skipped.

    Raises InvalidRequest when it is not JSON, and Unreadable when it is JSON but not an object with a list of messages,
    or nested or encoded in a way that is not supported here.
    """
    source, head, messages = _LAYOUT.read(body, known)
    tools, functions, management = head.tools, head.functions, head.context_management
    return request_of(
        body,
        source,
        messages,
        head,
        limits=(head.max_tokens, head.max_completion_tokens),
        extras=_extras(head),
        has_tools=bool((tools and is_present(tools)) or (functions and is_present(functions))),
        stream_options=head.stream_options,
        context_management=management if management and is_present(management) else None,
        wants_json=b"json_object" in bytes(head.response_format),
    )


def render(request: Request, messages: ToSend | None, changes: Mapping[str, Any]) -> bytes:
    """The body to send, as `Layout.render` writes it."""
    return _LAYOUT.render(request, messages, changes)
