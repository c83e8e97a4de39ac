"""A request of the Messages API: its messages cut into elements, and put together again.

A user message may hold the results of several calls, and text after them. The planner sees each block of such a
message as an element of its own; every other message is one element. When the body is written, the blocks of one
message come together again: whole, with the bytes that came, or what is left of them.

A `system` message within the conversation has its place between a user message and an answer. Where what was around it
has been removed, it moves behind the user messages that it came to stand before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, overload

import msgspec
from msgspec import Raw

from trimtab.context.apply.marks import is_marked
from trimtab.wire.body import Layout, is_present
from trimtab.wire.messages import Spans
from trimtab.wire.request import Request, Unmanaged


class _Head(msgspec.Struct):
    """The fields the proxy reads."""

    messages: list[Raw]
    model: str = ""
    stream: bool | None = None
    max_tokens: int | None = None
    system: Raw = Raw()
    tools: Raw = Raw()
    tool_choice: Raw = Raw()
    output_format: Raw = Raw()
    thread: Raw = Raw()
    container: Raw = Raw()
    compaction: Raw = Raw()


class _Message(msgspec.Struct):
    content: list[Raw]
    role: Any = None


class _Mark(msgspec.Struct):
    pinned: Raw


class _Role(msgspec.Struct):
    role: Any = None


_FIRST = re.compile(rb'\{\s*"role"\s*:\s*"([a-z]+)"')
_LAST = re.compile(rb'"role"\s*:\s*"([a-z]+)"\s*\}\s*\Z')
_ROLE_BYTES = 64
_HELD = ("thread", "container", "compaction")
_extras = attrgetter("system", "tools", "tool_choice", "output_format")
_LAYOUT = Layout(_Head, "messages")
_decode_message = msgspec.json.Decoder(_Message).decode
_decode_mark = msgspec.json.Decoder(_Mark).decode
_decode_role = msgspec.json.Decoder(_Role).decode


class Elements(Sequence[bytes | Raw]):
    """What the planner sees of a list of messages. An element that is not edited stays the very object that it is
    here, which is how its place is found again."""

    def __init__(self, messages: Iterable[Raw]) -> None:
        self._all: list[bytes | Raw] = []
        self._whole: dict[int, tuple[Raw, int]] = {}  # by id of a message's first block: the message, and its blocks
        self._places: dict[int, int] = {}  # of blocks, by id
        for raw in messages:
            blocks = _marked(raw, _blocks_of(raw))
            if not blocks:
                self._all.append(raw)
                continue
            self._whole[id(blocks[0])] = raw, len(blocks)
            self._places.update({id(block): at for at, block in enumerate(blocks, len(self._all))})
            self._all += blocks

    @overload
    def __getitem__(self, at: int) -> bytes | Raw: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes | Raw]: ...
    def __getitem__(self, at: int | slice) -> bytes | Raw | list[bytes | Raw]:
        return self._all[at]

    def __len__(self) -> int:
        return len(self._all)

    def messages(self, sent: Sequence[bytes | Raw]) -> list[bytes | Raw]:
        """Elements as messages again."""
        out: list[bytes | Raw] = []
        blocks: list[bytes | Raw] = []
        for element in sent:
            if id(element) in self._places or role_of(element) is None:
                blocks.append(element)
                continue
            out += self._joined(blocks)
            blocks = []
            out.append(element)
        return [*out, *self._joined(blocks)]

    def _joined(self, blocks: Sequence[bytes | Raw]) -> Iterator[bytes | Raw]:
        """Neighbouring blocks: the messages that are there whole, as they came, and new ones of the others."""
        loose: list[bytes | Raw] = []
        at = 0
        while at < len(blocks):
            whole, count = self._whole.get(id(blocks[at]), (None, 0))
            if whole is not None and self._is_whole(blocks, at, count):
                yield from _user_message(loose)
                loose = []
                yield whole
                at += count
            else:
                loose.append(blocks[at])
                at += 1
        yield from _user_message(loose)

    def _is_whole(self, blocks: Sequence[bytes | Raw], at: int, count: int) -> bool:
        """True when all blocks of the message that begins here are here, as they came."""
        first = self._places[id(blocks[at])]
        here = [self._places.get(id(block)) for block in blocks[at : at + count]]
        return here == list(range(first, first + count))


def _user_message(blocks: Sequence[bytes | Raw]) -> Iterator[bytes]:
    if blocks:
        yield b'{"role":"user","content":[' + b",".join(bytes(block) for block in blocks) + b"]}"


def _blocks_of(raw: Raw) -> list[bytes | Raw]:
    """The blocks of a user message with results; none of any other."""
    if b'"tool_result"' not in bytes(raw):
        return []
    try:
        message = _decode_message(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    is_split = message.role == "user" and all(bytes(block)[:1] == b"{" for block in message.content)
    # A block that has a role could not be told from a message.
    has_role = any(b'"role"' in bytes(block) and role_of(block) for block in message.content)
    return [*message.content] if is_split and not has_role else []


def _marked(raw: Raw, blocks: list[bytes | Raw]) -> list[bytes | Raw]:
    """The blocks of a message, each pinned where the message is: so they stay, and lose the field as any other."""
    if not blocks or not is_marked(raw):
        return blocks
    mark = b'{"pinned":%s,' % bytes(_decode_mark(raw).pinned)
    return [mark + bytes(block)[1:] for block in blocks]


def role_of(raw: bytes | Raw) -> str | None:
    """The role of a message; None for a block. Most clients write it first or last, where it costs little to read."""
    data = bytes(raw)
    if found := _FIRST.match(data) or _LAST.search(data[-_ROLE_BYTES:]):
        return found[1].decode()
    try:
        role = _decode_role(data).role
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return role if isinstance(role, str) else None if role is None else ""


def decode(body: bytes, known: Spans | None = None) -> Request:
    """Read a request body, as `Dialect.decode`. Its elements are not slices of one list, so nothing is skipped."""
    source, head, messages = _LAYOUT.read(body)
    for name in _HELD:
        if is_present(getattr(head, name)):
            raise Unmanaged(name)
    wanted = head.max_tokens
    return Request(
        body=body,
        source=source,
        messages=Elements(messages),
        model=head.model,
        stream=bool(head.stream),
        max_tokens=wanted if wanted is not None and wanted > 0 else None,
        extras=tuple([raw for raw in _extras(head) if is_present(raw)]),
        has_tools=is_present(head.tools),
        reports_usage=True,
    )


def render(request: Request, sent: Iterable[bytes | Raw] | None, changes: Mapping[str, Any]) -> bytes:
    """The body to send, as `Layout.render` writes it. Raises TypeError for a request of another dialect."""
    if sent is None:
        return _LAYOUT.render(request, None, changes)
    elements = request.messages
    if not isinstance(elements, Elements):
        raise TypeError("The request was not read by this dialect.")
    return _LAYOUT.render(request, placed(elements.messages(list(sent))), changes)


def placed(messages: Iterable[bytes | Raw]) -> list[bytes | Raw]:
    """The messages with every `system` message right before an answer or at the end, in the order they had."""
    out: list[bytes | Raw] = []
    waiting: list[bytes | Raw] = []
    for raw in messages:
        role = role_of(raw)
        if role == "system":
            waiting.append(raw)
            continue
        if role != "user":
            out += waiting
            waiting = []
        out.append(raw)
    return out + waiting
