"""The body that goes upstream. A request that needs no change is sent exactly as received."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from trimtab.context.apply.apply import apply
from trimtab.exchange.decide import Shaping
from trimtab.exchange.policies import is_ours
from trimtab.wire.chat import ChatRequest, render


def outgoing(shaping: Shaping, summary: str | None, role: str, *, include_usage: bool) -> bytes:
    """Apply a plan. `summary` stands in the gap, in a message of that `role`; None leaves the note. `include_usage` is
    set on the stream. A `context_management` that was for this proxy is taken out."""
    request = shaping.request
    changes: dict[str, object] = {}
    if shaping.max_tokens is not None:
        changes.update(_lowered(request, shaping.max_tokens))
    if include_usage:
        changes["stream_options"] = {**(request.stream_options or {}), "include_usage": True}
    if is_ours(request.context_management):
        changes["context_management"] = None
    if not shaping.plan.changes and not changes:
        return request.body
    messages: list[bytes | Raw] | None = None
    if shaping.plan.changes:
        messages = apply(request.messages, shaping.plan, summary, role)
    return render(request, messages, changes)


def _lowered(request: ChatRequest, tokens: int) -> dict[str, int]:
    """The output limits by field name. Both are lowered where both are present; neither is translated into the other.
    A value that is not a whole number is the upstream's to judge."""
    fields = msgspec.json.decode(request.source, type=_OutputLimits)
    named = {"max_tokens": fields.max_tokens, "max_completion_tokens": fields.max_completion_tokens}
    return {name: tokens for name, value in named.items() if type(value) is int and value > tokens}


class _OutputLimits(msgspec.Struct):
    max_tokens: Any = None
    max_completion_tokens: Any = None
