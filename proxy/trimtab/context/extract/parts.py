"""A message as texts that excerpts are cut from: what it says, and what each of its calls was given.

The parts of a message are numbered, so an excerpt can name one without holding its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw

from trimtab.context.read.texts import text_of

Kind = Literal["user", "assistant", "call", "result"]

_TITLE = 60  # characters of the main argument in the title of a call


class Part(msgspec.Struct, frozen=True, gc=False):
    """One text of a message. `tool` is the tool's name where the text is what a call was given."""

    kind: Kind
    text: str
    tool: str = ""

    @property
    def title(self) -> str:
        """The call as a reader knows it again: tool and main argument, which is the first."""
        argument = self.text[: 4 * _TITLE].partition("\n")[0].partition(": ")
        return f"{self.tool}({one_line(argument[2] or argument[0])[:_TITLE]})"


class _Message(msgspec.Struct):
    role: str = ""
    content: Any = None
    tool_calls: list[dict[str, Any]] | None = None
    function_call: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Message).decode
_read = msgspec.json.Decoder().decode
_KINDS: dict[str, Kind] = {"user": "user", "assistant": "assistant", "tool": "result", "function": "result"}


def parts(raw: bytes | Raw) -> list[Part]:
    """The parts of a message: its text first, then one for each of its calls, in order. Empty for system messages and
    for what is not a message of a known form."""
    try:
        message = _decode(raw)
        kind = _KINDS.get(message.role)
        if kind is None:
            return []
        calls = [*(message.tool_calls or ()), *([{"function": message.function_call}] if message.function_call else [])]
        return [Part(kind, content_text(message.content)), *map(_call, calls)]
    except (msgspec.DecodeError, RecursionError):
        return []


class Opened:
    """The parts of messages, each message read once."""

    def __init__(self, messages: Sequence[bytes | Raw]) -> None:
        self._messages = messages
        self._parts: dict[int, list[Part]] = {}

    def parts(self, i: int) -> list[Part]:
        """The parts of message i."""
        found = self._parts.get(i)
        if found is None:
            found = self._parts[i] = parts(self._messages[i])
        return found

    def part(self, i: int, number: int) -> Part | None:
        """One part of message i; None where it has fewer."""
        found = self.parts(i)
        return found[number] if number < len(found) else None


def content_text(content: Any) -> str:
    """The text of a message's content; parts that are not text are left out."""
    if isinstance(content, str):
        return content
    return "\n".join([text for part in content if (text := text_of(part))]) if isinstance(content, list) else ""


def one_line(text: str) -> str:
    """The text with every run of white space as one space."""
    return " ".join(text.split())


def _call(call: dict[str, Any]) -> Part:
    made = call.get("function") or call.get("custom") or {}
    if not isinstance(made, dict):
        return Part("call", "")
    given = made.get("arguments", made.get("input"))
    if isinstance(given, str) and "function" in call:
        given = _arguments(given)
    return Part("call", _values(given), str(made.get("name") or ""))


def _arguments(given: str) -> Any:
    """The arguments of a function; those that cannot be read are the text they are."""
    try:
        return _read(given)
    except msgspec.DecodeError:
        return given


def _values(value: Any, key: str = "") -> str:
    """All strings and numbers in a JSON value, a line each, with their keys before them."""
    if isinstance(value, str):  # most values by far
        return f"{key}: {value}" if key else value
    if isinstance(value, dict):
        return "\n".join([_values(item, name) for name, item in value.items()])
    if isinstance(value, list):
        return "\n".join([_values(item, key) for item in value])
    if value is None or isinstance(value, bool):
        return ""
    return f"{key}: {value}" if key else str(value)
