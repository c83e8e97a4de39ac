"""The body that goes upstream. A request that needs no change is sent exactly as received."""

from __future__ import annotations

from msgspec import Raw

from trimtab.context.apply.apply import apply
from trimtab.exchange.decide import Shaping
from trimtab.exchange.policies import is_ours


def outgoing(shaping: Shaping, summary: str | None, role: str, *, include_usage: bool) -> bytes:
    """Apply a plan. `summary` stands in the gap, in a message of that `role`; None leaves the note. `include_usage` is
    set on the stream. A `context_management` that was for this proxy is taken out."""
    request, dialect = shaping.request, shaping.dialect
    changes: dict[str, object] = {}
    if shaping.max_tokens is not None:
        changes.update(dialect.capped(request, shaping.max_tokens))
    if include_usage:
        changes["stream_options"] = {**(request.stream_options or {}), "include_usage": True}
    if is_ours(request.context_management):
        changes["context_management"] = None
    if not shaping.plan.changes and not changes:
        return request.body
    messages: list[bytes | Raw] | None = None
    if shaping.plan.changes:
        messages = apply(request.messages, shaping.plan, summary, role, dialect.format)
    return dialect.render(request, messages, changes)
