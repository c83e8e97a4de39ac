"""A conversation as text for the model that summarizes it: messages, tool calls and tool results.

Each message becomes an entry, a head (`user alice`) and a body. Entries are written one after the other, each head in
brackets behind a mark. The mark is derived from the text and from a secret of the tenant, and does not occur in the
text: no message can contain a line that looks like a head or like the end, and the same conversation always has the
same mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from trimtab.store.keys import fields_digest

RENDERING = "1"  # part of every key: change it with anything that changes what the model reads
MARK = 6  # hex digits
MEDIA = {"image_url": "image", "input_image": "image", "input_audio": "audio", "input_file": "file"}


class Entry(msgspec.Struct, frozen=True):
    """One message as text."""

    head: str  # role, and the name of the speaker or the tool
    body: str

    def __repr__(self) -> str:
        return f"Entry({len(self.body)} characters)"

    @property
    def by_user(self) -> bool:
        """True for a user's message."""
        return self.head.partition(" ")[0] == "user"


def entries(messages: Sequence[bytes | Raw]) -> list[Entry]:
    """One entry for each message. A tool result has the name of its call, the nearest one before it with its id."""
    names: dict[str, str] = {}
    return [_entry(_decoded(raw), names) for raw in messages]


def rendered(parts: Sequence[Entry], mark: str) -> str:
    """The entries as one text, with the end marked."""
    return "\n".join([*(f"[{mark} {entry.head}]\n{entry.body}" for entry in parts), f"[{mark} end]"])


def choose_mark(parts: Iterable[Entry], secret: bytes) -> str:
    """A mark of MARK hex digits that occurs in none of the entries. `secret` keeps it from being foreseen."""
    text = "\n".join(f"{entry.head}\n{entry.body}" for entry in parts)
    digest = fields_digest(secret, text.encode("utf-8", "replace")).hex()
    starts = range(0, len(digest) - MARK)
    return next((mark for i in starts if (mark := digest[i : i + MARK]) not in text), digest)


def _decoded(raw: bytes | Raw) -> dict[str, Any]:
    try:
        message = msgspec.json.decode(raw)
    except msgspec.DecodeError:  # a lone surrogate, or a number too large: still a message
        message = None
    if isinstance(message, dict):
        return message
    return {"role": "message", "content": bytes(raw).decode("utf-8", "replace")}


def _entry(message: dict[str, Any], names: dict[str, str]) -> Entry:
    calls = list(_calls(message, names))
    speaker = names.get(str(message.get("tool_call_id", ""))) or message.get("name")
    head = " ".join(str(word) for word in (message.get("role"), speaker) if word)
    texts = [_text(message.get("content")), str(message.get("refusal") or ""), *calls]
    return Entry(_line(head), "\n".join(text for text in texts if text))


def _calls(message: dict[str, Any], names: dict[str, str]) -> Iterable[str]:
    """`call NAME ARGUMENTS` for each tool call. Puts the names for their results into `names`, by id."""
    listed = message.get("tool_calls")
    calls = [c for c in listed if isinstance(c, dict)] if isinstance(listed, list) else []
    legacy = message.get("function_call")
    for call in [*calls, *([{"function": legacy}] if isinstance(legacy, dict) else [])]:
        made = call.get("function") or call.get("custom")
        made = made if isinstance(made, dict) else {}
        name = _line(str(made.get("name", "?")))
        if call.get("id"):
            names[str(call["id"])] = name
        arguments = made.get("arguments", made.get("input", ""))
        yield f"call {name} {arguments if isinstance(arguments, str) else _json(arguments)}"


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_part(part) for part in content)
    return "" if content is None else _json(content)


def _part(part: Any) -> str:
    if not isinstance(part, dict):
        return str(part)
    for field in ("text", "refusal"):
        if isinstance(part.get(field), str):
            return str(part[field])
    kind = str(part.get("type", "part"))
    file = part.get("file")
    name = file.get("filename") if isinstance(file, dict) else None
    return f"[{_line(MEDIA.get(kind, kind))}{f' {_line(str(name))}' if name else ''}]"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _line(text: str) -> str:
    """The text on one line, so that nothing in a head can end it."""
    return " ".join(text.split())
