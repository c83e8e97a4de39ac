"""A request of the Messages API: its messages cut into elements, and put together again.

A user message may hold the results of several calls, and text after them. The planner sees each block of such a
message as an element of its own; every other message is one element. When the body is written, the blocks of one
message come together again: whole, with the bytes that came, or what is left of them.

A `system` message within the conversation has its place between a user message and an answer. Where what was around it
has been removed, it moves behind the user messages that it came to stand before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from trimtab.wire.body import Head, Layout, is_present, request_of
from trimtab.wire.cuts import Spans
from trimtab.wire.messages import USER_END, USER_START, Cut, Group, Parts, Pieces, RawAt, ToSend, spans_of
from trimtab.wire.request import Request, Unmanaged


class _Head(Head, kw_only=True):
    """The fields the proxy reads."""

    messages: list[Raw]
    max_tokens: int | None = None
    system: Raw = Raw()
    output_format: Raw = Raw()
    thread: Raw = Raw()
    container: Raw = Raw()
    compaction: Raw = Raw()


class _Message(msgspec.Struct):
    content: list[Raw]
    role: Any = None
    pinned: Raw = Raw()


class _Role(msgspec.Struct):
    role: Any = None


_FIRST = re.compile(rb'\{\s*"role"\s*:\s*"([a-z]+)"')
_LAST = re.compile(rb'"role"\s*:\s*"([a-z]+)"\s*\}\s*\Z')
_ROLE_BYTES = 64
_ANSWER = b'{"role":"assistant",'  # as most clients write it
_OBJECT = ord("{")
_AFTER_ROLE = len('{"role"')
_RESULT = b'{"type":"tool_result"'  # a block with a role is never cut out
_HELD = ("thread", "container", "compaction")
_extras = attrgetter("system", "tools", "tool_choice", "output_format")
_LAYOUT = Layout(_Head, "messages")
_decode_message = msgspec.json.Decoder(_Message).decode
_decode_role = msgspec.json.Decoder(_Role).decode


class Elements(Parts):
    """What the planner sees of a list of messages. An element that is not edited stays the very object that it is
    here, which is how its place is found again."""

    def cut(self, raw: Raw) -> Cut | None:
        """The blocks of a user message with results, each pinned where the message is: so they stay, and lose the field
        as any other. A `system` message is whole, and may have to move."""
        data = bytes(raw)
        if data.startswith(_ANSWER):
            return None
        if b'"tool_result"' not in data:
            return ((), (raw,)) if b'"system"' in data and role_of(data) == "system" else None
        try:
            message = _decode_message(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if message.role != "user":
            return ((), (raw,)) if message.role == "system" else None
        blocks = message.content
        # A block that has a role could not be told from a message.
        if data.find(b'"role"', _AFTER_ROLE) >= 0 and any([role_of(block) is not None for block in blocks]):
            return None
        places = _compact(data, blocks) or spans_of(data, blocks, "content") or _searched(data, blocks)
        if any([data[place.start] != _OBJECT for place in places]):
            return None
        mark = message.pinned
        return tuple(places), [b'{"pinned":%b,%b' % (mark, bytes(b)[1:]) for b in blocks] if len(mark) else blocks

    def messages(self, sent: ToSend) -> ToSend:
        """Elements as messages again: those that are there whole, as they came, and new ones of the other blocks. What
        is in pieces has been put together."""
        if isinstance(sent, Pieces):
            return sent
        place_of, sent = {id(element): place for place, element in enumerate(self.all)}, [*sent]
        groups = self.grouped([place_of.get(id(element), -1) for element in sent], sent.__getitem__)
        return [
            _user_message(sent[group.start : group.stop])
            if group.is_new
            else sent[group.start]
            if group.message is None
            else self.listed[group.message]
            for group in groups
        ]

    def grouped(self, sent: list[int], raw_at: RawAt) -> list[Group]:
        """As `Parts.grouped`, each `system` message in its place."""
        found: list[Group] = []
        loose: int | None = None  # the first of the blocks that have no message
        passed = 0  # elements of a whole message that are already there
        for at, place in enumerate(sent):
            if at < passed:
                continue
            row = self.row(place) if place >= 0 else None
            message, count = (row.message, row.parts) if row is not None and row.is_first else (None, 1)
            is_whole = message is not None and sent[at : at + count] == [*range(place, place + count)]
            if not is_whole and (place >= 0 or role_of(raw_at(at)) is None):
                loose = at if loose is None else loose
                continue
            if loose is not None:
                found.append(Group(loose, at, is_new=True))
                loose = None
            passed = at + count
            found.append(Group(at, passed, message))
        if loose is not None:
            found.append(Group(loose, len(sent), is_new=True))
        return placed(found, partial(self._role, raw_at)) if self.moves else found

    def _role(self, raw_at: RawAt, group: Group) -> str | None:
        if group.is_new:
            return "user"
        return role_of(raw_at(group.start) if group.message is None else self.listed[group.message])

    def rest(self, message: int) -> list[bytes]:
        """As `Messages.rest`, each `system` message in its place."""
        found = super().rest(message)
        may_move = self.moves and any([self.may_move(i) for i in range(message, len(self.listed))])
        return placed(found, role_of) if may_move else found


def _user_message(blocks: Sequence[bytes | Raw]) -> bytes:
    return USER_START + b",".join(blocks) + USER_END


def _compact(data: bytes, blocks: Sequence[Raw]) -> list[slice] | None:
    """The places of the blocks of a message without a space, whose content is its last field: from their lengths alone.
    None for any other layout."""
    at, places = len(USER_START), []
    for block in blocks:
        places.append(slice(at, at := at + len(block)))
        at += 1
    return places if at + 1 == len(data) and data.startswith(USER_START) else None


def _searched(data: bytes, blocks: Iterable[Raw]) -> list[slice]:
    """The places of the blocks of a message in which another field has the name of the content."""
    at, places = 0, []
    for block in map(bytes, blocks):
        at = data.find(block, at)
        places.append(slice(at, at := at + len(block)))
    return places


def role_of(raw: bytes | Raw) -> str | None:
    """The role of a message; None for a block. Most clients write it first or last, where it costs little to read."""
    data = bytes(raw)
    if data.startswith(_RESULT):
        return None
    if found := _FIRST.match(data) or _LAST.search(data[-_ROLE_BYTES:]):
        return found[1].decode()
    try:
        role = _decode_role(data).role
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return role if isinstance(role, str) else None if role is None else ""


def decode(body: bytes, known: Spans | None = None) -> Request:
    """Read a request body, as `Dialect.decode`."""
    source, head, messages = _LAYOUT.read(body, known)
    for name in _HELD:
        if is_present(getattr(head, name)):
            raise Unmanaged(name, head.model)
    elements, extras = Elements(messages), _extras(head)
    return request_of(
        body,
        source,
        elements,
        head,
        limits=(head.max_tokens,),
        extras=extras,
        has_tools=is_present(head.tools),
        instructed=bool(head.system) and is_present(head.system),
        reports_usage=True,
    )


def render(request: Request, sent: ToSend | None, changes: Mapping[str, Any]) -> bytes:
    """The body to send, as `Layout.render` writes it. Raises TypeError for a request of another dialect."""
    if sent is None:
        return _LAYOUT.render(request, None, changes)
    elements = request.messages
    if not isinstance(elements, Elements):
        raise TypeError("The request was not read by this dialect.")
    return _LAYOUT.render(request, elements.messages(sent), changes)


Item = TypeVar("Item")


def placed(messages: Iterable[Item], role_of: Callable[[Item], str | None]) -> list[Item]:
    """The messages with every `system` message right before an answer or at the end, in the order they had."""
    out: list[Item] = []
    waiting: list[Item] = []
    for message in messages:
        role = role_of(message)
        if role == "system":
            waiting.append(message)
            continue
        if role != "user":
            out += waiting
            waiting = []
        out.append(message)
    return out + waiting
