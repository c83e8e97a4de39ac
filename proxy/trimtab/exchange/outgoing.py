"""The body that goes upstream. A request that needs no change is sent exactly as received."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw

from trimtab.context.apply.apply import apply, apply_again
from trimtab.context.apply.marks import is_marked, may_have_marks
from trimtab.context.apply.splices import Splices
from trimtab.dialects.dialect import Dialect
from trimtab.exchange.decide import Shaping
from trimtab.exchange.management import is_ours
from trimtab.wire.messages import Messages, ToSend
from trimtab.wire.request import Request
from trimtab.wire.values import has_more_values

_fields = msgspec.json.Decoder(dict[str, Raw])
_MOST_VALUES = 500_000  # of a body that is read: as many as a managed request may have
_items = msgspec.json.Decoder(list[Raw])


def outgoing(
    shaping: Shaping, summary: str | None, role: str, *, include_usage: bool, splices: Splices | None = None
) -> bytes:
    """Apply a plan. `summary` stands in the gap, in a message of that `role`; None leaves the note. `include_usage` is
    set on the stream. A `context_management` that was for this proxy is taken out. `splices`: what was sent of
    conversations before; that is not written from the start."""
    request, dialect, plan = shaping.request, shaping.dialect, shaping.plan
    changes: dict[str, object] = {}
    if shaping.max_tokens is not None:
        changes.update(dialect.capped(request, shaping.max_tokens))
    if include_usage:
        changes["stream_options"] = {**(request.stream_options or {}), "include_usage": True}
    if request.context_management is not None and is_ours(request.context_management):
        changes["context_management"] = None
    if plan.announce is not None:
        changes.update(dialect.announced(request))
    if not changes and not plan.rewrites:
        return without_marks(request, dialect, plan.unpin) if plan.unpin else request.body
    messages: ToSend | None = None
    if plan.changes:
        if splices is None:
            messages = apply(request.messages, plan, summary, role, dialect.format)
        else:
            messages = apply_again(shaping.history, plan, summary, role, dialect.format, splices)
    return dialect.render(request, messages, changes)


def without_marks(request: Request, dialect: Dialect, known: Sequence[int] | None = None) -> bytes:
    """The body of a request that is sent as it came: the bytes received, without the client's marks, which are for this
    proxy and would be refused by others. `known`: the messages that have one; None: they are looked for."""
    if known is None:
        marked = _unmarked(request.body, request.messages, dialect)
    else:
        marked = {i: dialect.format.unpin(request.messages[i]) for i in known}
    if not marked:
        return request.body
    if (body := _spliced(request.source, request.messages, marked)) is not None:
        return body
    return dialect.render(request, [marked.get(i, raw) for i, raw in enumerate(request.messages)], {})


def unread_without_marks(body: bytes, dialect: Dialect) -> bytes:
    """The same for a body that is not managed, or cannot be read as a request: what can be found is cut out."""
    if not may_have_marks(body) or has_more_values(body, _MOST_VALUES):
        return body
    try:
        fields = _fields.decode(body)
        messages = Messages(body, _items.decode(fields[dialect.listed]), name=dialect.listed)
    except (KeyError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return body
    marked = _unmarked(body, messages, dialect)
    if not marked:
        return body
    if (spliced := _spliced(body, messages, marked)) is not None:
        return spliced
    left = [Raw(marked.get(i, raw)) for i, raw in enumerate(messages)]
    return msgspec.json.encode({**fields, dialect.listed: left})


def _unmarked(body: bytes, messages: Sequence[bytes | Raw], dialect: Dialect) -> dict[int, bytes]:
    """The messages that have the field, without it."""
    if not may_have_marks(body):
        return {}
    return {i: dialect.format.unpin(raw) for i, raw in enumerate(messages) if is_marked(raw)}


def _spliced(source: bytes, messages: Sequence[bytes | Raw], marked: Mapping[int, bytes]) -> bytes | None:
    """The body with some of its messages replaced; None where their places are not known."""
    if not isinstance(messages, Messages) or (spans := messages.spans) is None:
        return None
    pieces, at = [], 0
    for i, message in marked.items():
        pieces += [source[at : spans[i].start], message]
        at = spans[i].stop
    return b"".join([*pieces, source[at:]])
