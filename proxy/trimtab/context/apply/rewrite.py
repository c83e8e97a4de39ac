"""One message rewritten: the only code that makes new message bytes. Fields it does not name keep theirs.

Whatever the planner wants to know about the size of an edited message it learns by making it here and viewing it,
so the estimate of a plan and of what is then sent cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from trimtab.context.apply.cut import head, head_and_tail, level
from trimtab.context.edits import Stage
from trimtab.context.read.views import text_of
from trimtab.context.texts import ANNOUNCEMENT, CLEARED_ARGUMENTS, PLACEHOLDER, REMOVED, TRUNCATED

Fields = dict[str, Any]
_fields = msgspec.json.Decoder(dict[str, Raw]).decode


def rewrite(raw: bytes | Raw, stage: Stage, amount: int) -> bytes:
    """The message after one edit. `amount`: characters of text to keep where the stage cuts."""
    fields: Fields = dict(_fields(raw))
    _REWRITES[stage](fields, amount)
    return msgspec.json.encode(fields)


def unpin(raw: bytes | Raw) -> bytes:
    """The message without the proxy's own `pinned` mark, which no upstream knows."""
    fields = _fields(raw)
    fields.pop("pinned", None)
    return msgspec.json.encode(fields)


def announced(raw: bytes | Raw) -> bytes:
    """The system message with the fixed sentence about clearing at its end."""
    fields: Fields = dict(_fields(raw))
    content = msgspec.json.decode(fields.get("content", b'""'))
    if isinstance(content, list):
        fields["content"] = [*content, {"type": "text", "text": ANNOUNCEMENT.strip()}]
    else:
        fields["content"] = f"{content or ''}{ANNOUNCEMENT}"
    return msgspec.json.encode(fields)


def joined(raw: bytes | Raw, text: str, *, before: bool) -> bytes:
    """The user message with `text` said in it: at its end, or `before` what it says."""
    fields: Fields = dict(_fields(raw))
    content = msgspec.json.decode(fields["content"])
    if isinstance(content, str):
        fields["content"] = f"{text}\n\n{content}" if before else f"{content}\n\n{text}"
    else:
        part = {"type": "text", "text": text}
        fields["content"] = [part, *content] if before else [*content, part]
    return msgspec.json.encode(fields)


def message(role: str, text: str) -> bytes:
    """A message of the proxy's own."""
    return msgspec.json.encode({"role": role, "content": text})


def _truncate(fields: Fields, chars: int) -> None:
    """Text up to `chars` characters in all is kept; parts that are not text are kept whole. The part in which the
    limit falls ends in the mark, and text parts after it go."""
    content = msgspec.json.decode(fields["content"])
    if isinstance(content, str):
        fields["content"] = head(content, chars)
        return
    kept, room = [], chars
    for part in content:
        text = text_of(part)
        if text is None:
            kept.append(part)
        elif room >= 0:
            kept.append(part if len(text) <= room else {**part, "text": head(text, room)})
            room -= len(text)
    fields["content"] = kept


def _clear(fields: Fields, _: int) -> None:
    fields["content"] = PLACEHOLDER


def _squeeze(fields: Fields, chars: int) -> None:
    """No text of the message longer than `chars` characters; arguments of tool calls stay valid JSON."""
    content = msgspec.json.decode(fields.get("content", b"null"))
    if isinstance(content, str):
        fields["content"] = head_and_tail(content, chars)
    elif isinstance(content, list):
        fields["content"] = [
            part if (text := text_of(part)) is None else {**part, "text": head_and_tail(text, chars)}
            for part in content
        ]
    _edit_arguments(fields, lambda given: _squeeze_given(given, chars), lambda text: head_and_tail(text, chars))


# Content parts that may carry bytes, and what they carry.
_CARRIES = {
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
_LIGHT = 1_000  # bytes of a part; a link is lighter, and worth keeping


class _Typed(msgspec.Struct):
    type: Any = None


def _lighten(fields: Fields, _: int) -> None:
    """Parts that carry bytes become a few words; the other parts keep theirs."""
    parts = msgspec.json.decode(fields["content"], type=list[Raw])
    fields["content"] = [_lightened(part) for part in parts]


def _lightened(part: Raw) -> Any:
    if len(bytes(part)) <= _LIGHT or bytes(part)[:1] != b"{":
        return part
    kind = msgspec.json.decode(part, type=_Typed).type
    carried = _CARRIES.get(kind) if isinstance(kind, str) else None
    return {"type": "text", "text": REMOVED[carried]} if carried else part


def _clear_inputs(fields: Fields, _: int) -> None:
    _edit_arguments(fields, lambda given: CLEARED_ARGUMENTS if isinstance(given, str) else {}, lambda _: TRUNCATED)


def _edit_arguments(fields: Fields, edit: Callable[[Any], Any], edit_text: Callable[[str], str]) -> None:
    """`edit` is for the arguments of functions, `edit_text` for the input of custom tools. Fields in which nothing
    changes keep their bytes."""
    for name in ("tool_calls", "function_call"):
        value = msgspec.json.decode(fields.get(name, b"null"))
        calls = value or () if name == "tool_calls" else [{"function": value}]
        changed = [
            _edited(call.get("function"), "arguments", edit) or _edited(call.get("custom"), "input", edit_text)
            for call in calls
        ]
        if any(changed):
            fields[name] = value


def _edited(made: Any, field: str, edit: Callable[[Any], Any]) -> bool:
    """Edit what a call is given, in place; whether that changed it. An object is what some servers give for JSON."""
    given = made.get(field) if isinstance(made, dict) else None
    if not isinstance(given, str | dict) or (after := edit(given)) == given:
        return False
    made[field] = after
    return True


_LEAST_STRING = 32  # characters; cut shorter, strings hold the mark and nothing else


def _squeeze_given(given: Any, chars: int) -> Any:
    if isinstance(given, str):
        return squeeze_arguments(given, chars)
    try:
        return given if _length(given) <= chars else _squeezed(given, chars)
    except RecursionError:
        return {}


def squeeze_arguments(arguments: str, chars: int) -> str:
    """Tool-call arguments of at most `chars` characters, the longest strings in them cut; unreadable ones or too many
    values become an empty object, because half a JSON text would be refused upstream."""
    if len(arguments) <= chars:
        return arguments
    try:
        squeezed = _squeezed(msgspec.json.decode(arguments), chars)
    except (msgspec.DecodeError, RecursionError):
        return CLEARED_ARGUMENTS
    return msgspec.json.encode(squeezed).decode()


def _squeezed(value: Any, chars: int) -> Any:
    """Raises RecursionError for what is nested too deeply."""
    frame = _with_strings(value, lambda _: "")
    longest = level(sorted(map(len, _strings(value))), chars - _length(frame))
    while longest >= _LEAST_STRING:
        cut = _with_strings(value, partial(head_and_tail, chars=longest))
        if (size := _length(cut)) <= chars:
            return cut
        longest = min(longest - 1, longest * chars // size)  # escapes take more than their one character
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
    "cleared": _clear,
    "inputs_cleared": _clear_inputs,
    "squeezed": _squeeze,
    "lightened": _lighten,
}
