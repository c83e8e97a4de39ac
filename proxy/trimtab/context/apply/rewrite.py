"""Rewriting one message: the only code that makes new message bytes. Fields that are not named here keep theirs.

The planner measures an edit by making it here, so the size in a plan is the size of what is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from trimtab.context.apply.cut import fair_share, head, head_and_tail
from trimtab.context.apply.goal import with_context_cut
from trimtab.context.edits import NEWER_LATER, SAME_LATER, Stage
from trimtab.context.extract.parts import content_text
from trimtab.context.extract.result import of_result
from trimtab.context.read.texts import text_of
from trimtab.context.texts import (
    ANNOUNCEMENT,
    CLEARED_ARGUMENTS,
    CLEARED_TO_EXTRACT,
    NEWER_LATER_TEXT,
    PLACEHOLDER,
    REMOVED,
    SAME_LATER_TEXT,
    TRUNCATED,
)
from trimtab.wire.body import fields_of

Fields = dict[str, Any]


def rewrite(raw: bytes | Raw, stage: Stage, amount: int) -> bytes:
    """The message after one edit. `amount`: characters of text to keep (truncated, trimmed, squeezed)."""
    fields: Fields = dict(fields_of(raw))
    _REWRITES[stage](fields, amount)
    return msgspec.json.encode(fields)


def announce(raw: bytes | Raw, kind: str = "text") -> bytes:
    """The system message with the announcement at its end. `kind` is the type of a text part, here and below."""
    fields: Fields = dict(fields_of(raw))
    content = msgspec.json.decode(fields.get("content", b'""'))
    if isinstance(content, list):
        fields["content"] = [*content, {"type": kind, "text": ANNOUNCEMENT.strip()}]
    else:
        fields["content"] = f"{content or ''}{ANNOUNCEMENT}"
    return msgspec.json.encode(fields)


def join_text(raw: bytes | Raw, text: str, *, before: bool, kind: str = "text") -> bytes:
    """The user message with `text` added: before its content, or after it. A part of a message has a text instead."""
    fields: Fields = dict(fields_of(raw))
    where = "content" if "content" in fields else "text"
    content = msgspec.json.decode(fields[where])
    if isinstance(content, str):
        fields[where] = f"{text}\n\n{content}" if before else f"{content}\n\n{text}"
    else:
        part = {"type": kind, "text": text}
        fields[where] = [part, *content] if before else [*content, part]
    return msgspec.json.encode(fields)


def message(role: str, text: str) -> bytes:
    """A message of the proxy's own."""
    return msgspec.json.encode({"role": role, "content": text})


def _truncate(fields: Fields, chars: int) -> None:
    """Keep `chars` characters of text in all, and every part that is not text. The part in which the limit falls ends
    in `[Truncated]`; text parts after it are removed."""
    fields["content"] = truncated(msgspec.json.decode(fields["content"]), chars)


def truncated(content: Any, chars: int) -> Any:
    """A content, a text or a list of parts, with `chars` characters of text in all."""
    if isinstance(content, str):
        return head(content, chars)
    kept: list[Any] = []
    last, room = 0, chars
    for part in content:
        text = text_of(part)
        if text is None:
            kept.append(part)
        elif room >= 0:
            last = len(kept)
            kept.append(part if len(text) <= room else {**part, "text": head(text, room)})
            room -= len(text)
        elif mark := _cache_mark([part]):
            kept[last] |= mark
    return kept


def _clear(fields: Fields, amount: int) -> None:
    """The placeholder; or the one above an extract of at most so many tokens, where there is something to extract."""
    fields["content"] = cleared(fields.get("content", b"null"), amount)


def placeholder(amount: int) -> str:
    """The text for a cleared result of which no extract is kept; `amount` is the edit's."""
    return _STANDS_LATER.get(amount, PLACEHOLDER)


_STANDS_LATER = {SAME_LATER: SAME_LATER_TEXT, NEWER_LATER: NEWER_LATER_TEXT}


def cleared(content: bytes | Raw, amount: int, kind: str = "text") -> Any:
    """What stands in place of the content of a result, which is read only where an extract of it is to stay, or its
    mark for the provider's cache. `amount` is the edit's: tokens of the extract, or why there is none."""
    data, tokens = bytes(content), max(0, amount)
    is_marked = data[:1] == b"[" and b"cache_control" in data
    value = msgspec.json.decode(data) if tokens or is_marked else None
    text = content_text(value) if tokens else ""
    if text.startswith(CLEARED_TO_EXTRACT):
        return value
    extract = "" if text == PLACEHOLDER else of_result(text, tokens).shown
    left = f"{CLEARED_TO_EXTRACT}\n{extract}" if extract else placeholder(amount)
    mark = _cache_mark(value) if isinstance(value, list) else {}
    return [{"type": kind, "text": left, **mark}] if mark else left


def _cache_mark(parts: Iterable[Any]) -> Fields:
    """The field `cache_control` of the last part that has one: the provider's prefix cache ends after it. A mark that
    gets lost makes the provider read everything again."""
    marks = [part["cache_control"] for part in parts if isinstance(part, dict) and part.get("cache_control")]
    return {"cache_control": marks[-1]} if marks else {}


def _squeeze(fields: Fields, chars: int) -> None:
    """Cut each text of the message to `chars` characters; arguments of tool calls stay valid JSON."""
    content = msgspec.json.decode(fields.get("content", b"null"))
    if isinstance(content, str | list):
        fields["content"] = squeezed(content, chars)
    _edit_arguments(fields, partial(squeeze_value, chars=chars), partial(head_and_tail, chars=chars))


def squeezed(content: str | list[Any], chars: int) -> Any:
    """A content with each of its texts cut to `chars` characters."""
    if isinstance(content, str):
        return head_and_tail(content, chars)
    return [
        part if (text := text_of(part)) is None else {**part, "text": head_and_tail(text, chars)} for part in content
    ]


# Types of content parts that may hold a payload, and its kind.
_PAYLOAD_KINDS = {
    "image_url": "image",
    "input_image": "image",
    "image": "image",
    "input_audio": "audio",
    "audio": "audio",
    "audio_url": "audio",
    "file": "file",
    "input_file": "file",
    "document": "file",
    "video_url": "video",
    "input_video": "video",
    "video": "video",
}
_LIGHT = 1_000  # bytes; a part with a link is smaller, and worth keeping


class _Typed(msgspec.Struct):
    type: Any = None


def _lighten(fields: Fields, _: int) -> None:
    """Replace parts with a payload by a few words; the other parts keep their bytes."""
    fields["content"] = lightened(fields["content"])


def lightened(content: Raw, text_type: str = "text") -> list[Any]:
    """The parts of a content, each with a payload replaced by a few words, a part of type `text_type`."""
    return [_lightened(part, text_type) for part in msgspec.json.decode(content, type=list[Raw])]


def _lightened(part: Raw, text_type: str) -> Any:
    if len(bytes(part)) <= _LIGHT or bytes(part)[:1] != b"{":
        return part
    kind = msgspec.json.decode(part, type=_Typed).type
    payload = _PAYLOAD_KINDS.get(kind) if isinstance(kind, str) else None
    return {"type": text_type, "text": REMOVED[payload]} if payload else part


def _clear_inputs(fields: Fields, _: int) -> None:
    _edit_arguments(fields, lambda value: CLEARED_ARGUMENTS if isinstance(value, str) else {}, lambda _: TRUNCATED)


def _edit_arguments(fields: Fields, edit: Callable[[Any], Any], edit_text: Callable[[str], str]) -> None:
    """Edit the arguments of functions with `edit`, the input of custom tools with `edit_text`. A field in which nothing
    changes keeps its bytes."""
    for name in ("tool_calls", "function_call"):
        value = msgspec.json.decode(fields.get(name, b"null"))
        calls = value or () if name == "tool_calls" else [{"function": value}]
        changed = [
            _edit_field(call.get("function"), "arguments", edit) or _edit_field(call.get("custom"), "input", edit_text)
            for call in calls
        ]
        if any(changed):
            fields[name] = value


def _edit_field(call: Any, field: str, edit: Callable[[Any], Any]) -> bool:
    """Edit the arguments of a call in place; True when that changed them. Some clients send an object, not a string
    of JSON."""
    before = call.get(field) if isinstance(call, dict) else None
    if not isinstance(before, str | dict) or (after := edit(before)) == before:
        return False
    call[field] = after
    return True


_LEAST_STRING = 32  # characters; a string cut shorter would hold nothing but `[Truncated]`


def squeeze_value(value: Any, chars: int) -> Any:
    """The arguments of a call, a string of JSON or an object, with at most `chars` characters."""
    if isinstance(value, str):
        return squeeze_arguments(value, chars)
    try:
        return value if _length(value) <= chars else _squeezed(value, chars)
    except RecursionError:
        return {}


def squeeze_arguments(arguments: str, chars: int) -> str:
    """Tool-call arguments of at most `chars` characters: the longest strings in them are cut. Arguments that cannot be
    read, or have too many values, become `{}`, because an upstream refuses half a JSON text."""
    if len(arguments) <= chars:
        return arguments
    try:
        squeezed = _squeezed(msgspec.json.decode(arguments), chars)
    except (msgspec.DecodeError, RecursionError):
        return CLEARED_ARGUMENTS
    return msgspec.json.encode(squeezed).decode()


def _squeezed(value: Any, chars: int) -> Any:
    """A JSON value cut to `chars` characters. Raises RecursionError when it is nested too deeply."""
    frame = _with_strings(value, lambda _: "")
    longest = fair_share(sorted(map(len, _strings(value))), chars - _length(frame))
    while longest >= _LEAST_STRING:
        cut = _with_strings(value, partial(head_and_tail, chars=longest))
        if (size := _length(cut)) <= chars:
            return cut
        longest = min(longest - 1, longest * chars // size)  # an escape takes more than one character
    return {}


def _length(value: Any) -> int:
    return len(msgspec.json.encode(value).decode())


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _with_strings(value: Any, edit: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return edit(value)
    if isinstance(value, dict):
        return {key: _with_strings(item, edit) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_strings(item, edit) for item in value]
    return value


_REWRITES: dict[Stage, Callable[[Fields, int], None]] = {
    "truncated": _truncate,
    "trimmed": with_context_cut,
    "cleared": _clear,
    "inputs_cleared": _clear_inputs,
    "squeezed": _squeeze,
    "lightened": _lighten,
}
