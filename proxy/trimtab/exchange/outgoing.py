"""The body that goes upstream. A request that needs no change is sent exactly as received."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw

from trimtab.context.apply.apply import apply, apply_again
from trimtab.context.apply.marks import is_marked, may_have_marks, without_marks_of_parts
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
    changes = _instructions(request, dialect)
    if shaping.max_tokens is not None:
        changes.update(dialect.capped(request, shaping.max_tokens))
    if include_usage:
        changes["stream_options"] = {**(request.stream_options or {}), "include_usage": True}
    if request.context_management is not None and is_ours(request.context_management):
        changes["context_management"] = None
    if plan.announce is not None:
        for name, value in dialect.announced(request).items():
            changes[name] = Raw(without_marks_of_parts(msgspec.json.encode(value)))
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
        marked, beside = _unmarked(request.body, request.messages, dialect), _instructions(request, dialect)
    else:
        marked, beside = {i: dialect.format.unpin(request.messages[i]) for i in known}, {}
    if not marked:
        return dialect.render(request, None, beside) if beside else request.body
    if not beside and (body := _spliced(request.source, request.messages, marked)) is not None:
        return body
    return dialect.render(request, [marked.get(i, raw) for i, raw in enumerate(request.messages)], beside)


def _instructions(request: Request, dialect: Dialect) -> dict[str, object]:
    """The system prompt beside the messages without marks, where it has any."""
    if not request.instructed:
        return {}
    prompt = bytes(request.extras[0])
    left = without_marks_of_parts(prompt) if may_have_marks(prompt) else prompt
    return {} if left == prompt else {dialect.instructed: Raw(left)}


def unread_without_marks(body: bytes, dialect: Dialect) -> bytes:
    """The same for a body that is not managed, or cannot be read as a request: what can be found is cut out."""
    if not may_have_marks(body) or has_more_values(body, _MOST_VALUES):
        return body
    try:
        fields = _fields.decode(body)
        messages = Messages(body, _items.decode(fields[dialect.listed]), name=dialect.listed)
    except (KeyError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return body
    marked, prompt = _unmarked(body, messages, dialect), bytes(fields.get(dialect.instructed, b""))
    unmarked = without_marks_of_parts(prompt) if may_have_marks(prompt) else prompt
    if not marked and unmarked == prompt:
        return body
    if unmarked == prompt and (spliced := _spliced(body, messages, marked)) is not None:
        return spliced
    left = [Raw(marked.get(i, raw)) for i, raw in enumerate(messages)]
    beside = {dialect.instructed: Raw(unmarked)} if prompt else {}
    return msgspec.json.encode({**fields, **beside, dialect.listed: left})


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
