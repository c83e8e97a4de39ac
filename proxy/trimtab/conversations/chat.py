"""Chat completions: the stored history before the messages of a request, and what its answer adds.

System messages that a request begins with stand first and replace those of earlier requests. Messages that the history
ends with already are not doubled: a client may send its last message again, or all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from secrets import token_hex
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Raw

from trimtab.conversations.answer import Answer, decoded
from trimtab.conversations.entries import Held, object_of

LEAD = "lead_"
"""What the id of a system message begins with, where a request began with that message."""

_SYSTEM = ("system", "developer")


class Joined(NamedTuple):
    """What to send, and what of it is new and to be stored."""

    sent: list[bytes]
    new: list[Held]


class Asked(NamedTuple):
    """The fields and the messages of a request."""

    fields: dict[str, Raw]
    messages: list[bytes]


def asked(body: bytes) -> Asked | None:
    """A request; None where it cannot be read."""
    fields = cast(dict[str, Raw] | None, decoded(body, dict[str, Raw]))
    messages = cast(list[Raw] | None, decoded(fields.get("messages", b""), list[Raw])) if fields else None
    return None if messages is None or fields is None else Asked(fields, [bytes(message) for message in messages])


def joined(before: Sequence[Held], messages: Sequence[bytes]) -> Joined:
    """The history and a request's messages as one conversation."""
    lead = list(takewhile(_is_system, messages))
    rest = list(messages[len(lead) :])
    leads = [at for at, item in enumerate(before) if item.id.startswith(LEAD)]
    known = [before[at].raw for at in _last_run(leads)]
    others = [item.raw for item in before] if not leads else [i.raw for i in before if not i.id.startswith(LEAD)]
    fresh = rest[_overlap(others, rest) :]
    new_lead = lead if lead and [*map(_key, lead)] != [*map(_key, known)] else []
    new = [Held(LEAD + token_hex(16), raw) for raw in new_lead] + [Held("msg_" + token_hex(16), raw) for raw in fresh]
    return Joined([*(lead or known), *others, *fresh], new)


def stateless(request: Asked, messages: Sequence[bytes]) -> bytes:
    """The request with these messages; every other field keeps its bytes."""
    return object_of(request.fields, "messages", messages)


def _last_run(places: Sequence[int]) -> Sequence[int]:
    """The last places that follow one another."""
    start = next((at for at in range(len(places) - 1, 0, -1) if places[at] != places[at - 1] + 1), 0)
    return places[start:]


class _Message(msgspec.Struct):
    role: str = ""
    content: Any = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: Any = None


def _is_system(raw: bytes) -> bool:
    message = decoded(raw, _Message)
    return isinstance(message, _Message) and message.role in _SYSTEM


def _key(raw: bytes) -> object:
    """What makes two messages the same: role, content, and the ids of calls."""
    message = decoded(raw, _Message)
    if not isinstance(message, _Message):
        return raw
    content = message.content
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict) and "text" in content[0]:
        content = content[0]["text"]
    text = content if isinstance(content, str) else msgspec.json.encode(content or "")
    calls = tuple([str(call.get("id")) for call in message.tool_calls or ()])
    return message.role, text or b'""', calls, message.tool_call_id


def _overlap(before: Sequence[bytes], messages: Sequence[bytes]) -> int:
    """How many of the first messages are the last ones of the history."""
    most = min(len(before), len(messages))
    old, new = [*map(_key, before[len(before) - most :])], [*map(_key, messages[:most])]
    sizes = (size for size in range(most, 0, -1) if old[most - size] == new[0] and old[most - size :] == new[:size])
    return next(sizes, 0)


# -- what an answer adds -------------------------------------------------------------------------------------------


class _Choice(msgspec.Struct):
    index: Any = 0
    message: dict[str, Any] = {}
    delta: dict[str, Any] | None = None
    finish_reason: Any = None


class _Completion(msgspec.Struct):
    choices: list[_Choice] = []


# Reasoning, as DeepSeek and Moonshot, OpenRouter and LiteLLM name it. Providers refuse the results of tools without the
# reasoning that led to the calls, and some of them refuse reasoning anywhere else.
_REASONING_TEXTS = ("reasoning_content", "reasoning")
_REASONING_LISTS = ("reasoning_details", "thinking_blocks")


class ChatCollector:
    """Collects the first choice of a completion, with its reasoning where it calls tools. Of a stream that breaks off
    the text is kept; its calls are not, since nobody answers them."""

    def __init__(self) -> None:
        self._text: dict[str, list[str]] = {name: [] for name in ("content", "refusal", *_REASONING_TEXTS)}
        self._calls: dict[int, dict[str, Any]] = {}
        self._blocks: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in _REASONING_LISTS}
        self._message: dict[str, Any] | None = None
        self._whole = False

    def read(self, body: bytes) -> None:
        """See `Collector.read`."""
        completion = decoded(body, _Completion)
        if isinstance(completion, _Completion) and completion.choices and completion.choices[0].message:
            self._message, self._whole = completion.choices[0].message, True

    def feed(self, data: bytes) -> bool:
        """See `Collector.feed`."""
        chunk = decoded(data, _Completion)
        for choice in chunk.choices if isinstance(chunk, _Completion) else ():
            if choice.index in (0, None):
                self._add(choice.delta or {})
                self._whole = self._whole or bool(choice.finish_reason)
        return self._whole

    def _add(self, delta: dict[str, Any]) -> None:
        for name, parts in self._text.items():
            if isinstance(text := delta.get(name), str):
                parts.append(text)
        _add_pieces(self._calls, delta.get("tool_calls"))
        for name, blocks in self._blocks.items():
            _add_pieces(blocks, delta.get(name))

    def answer(self) -> Answer:
        """See `Collector.answer`."""
        found = self._message or {
            **{name: "".join(parts) or None for name, parts in self._text.items()},
            **{name: [blocks[at] for at in sorted(blocks)] for name, blocks in self._blocks.items()},
        }
        calls = found.get("tool_calls") or [self._calls[at] for at in sorted(self._calls)]
        message = {"role": "assistant", "content": found.get("content")}
        message |= {"refusal": found["refusal"]} if found.get("refusal") else {}
        if calls and self._whole:
            message |= {name: found[name] for name in (*_REASONING_TEXTS, *_REASONING_LISTS) if found.get(name)}
            message["tool_calls"] = calls
        if self._message and self._message.get("function_call"):
            message["function_call"] = self._message["function_call"]
        empty = not message["content"] and len(message) == 2
        return Answer([] if empty else [msgspec.json.encode(message)], self._whole)


# Sent once, or repeated; everything else comes in pieces.
_WHOLE_NAMES = ("id", "type", "name", "format", "signature")


def _add_pieces(known: dict[int, dict[str, Any]], pieces: Any) -> None:
    """Add pieces of a list: of an entry that is known by its `index`, or of a further one."""
    for piece in pieces if isinstance(pieces, list) else ():
        if isinstance(piece, dict):
            at = piece.get("index")
            at = at if isinstance(at, int) else len(known)
            _merge(known.setdefault(at, {}), {k: v for k, v in piece.items() if k != "index"})


def _merge(known: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add a piece of a tool call."""
    for name, value in delta.items():
        old = known.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            _merge(old, value)
        elif isinstance(value, str) and isinstance(old, str) and name not in _WHOLE_NAMES:
            known[name] = old + value
        elif value not in (None, "") or name not in known:
            known[name] = value
