"""The body that goes upstream. A request that needs no change is sent exactly as received."""

from __future__ import annotations

from msgspec import Raw

from trimtab.context.apply.apply import apply
from trimtab.context.apply.marks import is_marked
from trimtab.dialects.dialect import Dialect
from trimtab.exchange.decide import Shaping
from trimtab.exchange.policies import is_ours
from trimtab.wire.messages import Messages
from trimtab.wire.request import Request


def outgoing(shaping: Shaping, summary: str | None, role: str, *, include_usage: bool) -> bytes:
    """Apply a plan. `summary` stands in the gap, in a message of that `role`; None leaves the note. `include_usage` is
    set on the stream. A `context_management` that was for this proxy is taken out."""
    request, dialect, plan = shaping.request, shaping.dialect, shaping.plan
    changes: dict[str, object] = {}
    if shaping.max_tokens is not None:
        changes.update(dialect.capped(request, shaping.max_tokens))
    if include_usage:
        changes["stream_options"] = {**(request.stream_options or {}), "include_usage": True}
    if is_ours(request.context_management):
        changes["context_management"] = None
    if not changes and not plan.rewrites:
        return without_marks(request, dialect)
    messages: list[bytes | Raw] | None = None
    if plan.changes:
        messages = apply(request.messages, plan, summary, role, dialect.format)
    return dialect.render(request, messages, changes)


def without_marks(request: Request, dialect: Dialect) -> bytes:
    """The body of a request that is sent as it came: the bytes received, without the field `pinned` of its messages,
    which is for this proxy and would be refused by others."""
    body, messages, unpin = request.body, request.messages, dialect.format.unpin
    if b"pinned" not in body and b"\\u" not in body:  # the name may be written with escapes
        return body
    marked = {i: unpin(raw) for i, raw in enumerate(messages) if is_marked(raw)}
    if not marked:
        return body
    if not isinstance(messages, Messages) or (spans := messages.spans) is None:
        return dialect.render(request, [marked.get(i, raw) for i, raw in enumerate(messages)], {})
    pieces, at = [], 0
    for i, message in marked.items():
        pieces += [request.source[at : spans[i].start], message]
        at = spans[i].stop
    return b"".join([*pieces, request.source[at:]])
