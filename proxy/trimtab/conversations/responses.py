"""The Responses API: which stored history a request continues, the stateless request made of both, and what its answer
adds.

The stateless request has the items of the history before its own, `store: false`, and no `previous_response_id` or
`conversation`; every other field keeps its bytes. Reasoning that holds nothing a stateless server could read is left
out, and so is a call that an answer made before it broke off, if no result follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from secrets import token_hex
from typing import Any, cast

import msgspec
from msgspec import Raw

from trimtab.conversations.answer import Answer, decoded
from trimtab.conversations.entries import Held, object_of
from trimtab.errors import InvalidRequest

_STATE = ("previous_response_id", "conversation")
_REFERENCE = "item_reference"
_KEPT_STATUS = frozenset({None, "completed", "incomplete"})


class Asked(msgspec.Struct, frozen=True):
    """A request that continues a stored history, or whose answer is to be stored. `items` are its own, `stores`: the
    client did not set `store` to false."""

    fields: dict[str, Raw]
    items: list[bytes]
    previous: str = ""
    conversation: str = ""
    stores: bool = True
    relies: bool = False  # the client set `store` to true, or names a stored history


def asked(body: bytes, default: bool = True) -> Asked | None:
    """What a body asks of the store; None where it asks nothing, or cannot be read. `default`: what it asks for
    without `store`. Raises InvalidRequest for names that contradict each other."""
    fields = cast(dict[str, Raw] | None, decoded(body, dict[str, Raw]))
    if fields is None or decoded(fields.get("background", b""), bool):
        return None
    previous, conversation = decoded(fields.get(_STATE[0], b""), str), _conversation(fields.get(_STATE[1], b""))
    store = decoded(fields.get("store", b""), bool)
    if previous and conversation:
        raise InvalidRequest(
            "Mutually exclusive fields: previous_response_id and conversation. Send one of them.",
            param="previous_response_id",
        )
    named = bool(previous or conversation)
    stores = bool(conversation or ((default or named) if store is None else store))
    if not stores and not named:
        return None
    items = _items(fields.get("input", b"[]"))
    if items is None:
        return None
    return Asked(fields, items, cast(str, previous or ""), conversation, stores, bool(store or named))


def _conversation(raw: Raw | bytes) -> str:
    """The id in `conversation`: a text, or an object with `id`."""
    value: Any = decoded(raw, object)
    value = value.get("id") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


def _items(raw: Raw | bytes) -> list[bytes] | None:
    text = bytes(raw)
    if text[:1] == b'"':
        return [b'{"type":"message","role":"user","content":%b}' % text]
    found = cast(list[Raw] | None, decoded(text, list[Raw]))
    return None if found is None else [bytes(item) for item in found]


def references(request: Asked) -> list[str]:
    """The ids of the items that a request refers to (`item_reference`) instead of sending them."""
    ids = (_reference(raw) for raw in request.items if _REFERENCE.encode() in raw)
    return [name for name in ids if name]


def resolved(request: Asked, referred: Mapping[str, bytes]) -> Asked:
    """The request with these items in the place of references to them."""
    if not referred:
        return request
    items = [referred.get(_reference(raw), raw) if _REFERENCE.encode() in raw else raw for raw in request.items]
    fields = {**request.fields, "input": Raw(b"[%b]" % b",".join(items))}
    return msgspec.structs.replace(request, fields=fields, items=items)


def _reference(raw: bytes) -> str:
    """The id that an item refers to; "" for one that is no reference."""
    item = decoded(raw, _Named)
    if not isinstance(item, _Named) or item.type != _REFERENCE or not isinstance(item.id, str):
        return ""
    return item.id


def stateless(request: Asked, before: Sequence[Held]) -> bytes:
    """The request as a server without state takes it."""
    fields: dict[str, bytes | Raw] = {name: raw for name, raw in request.fields.items() if name not in _STATE}
    fields["store"] = b"false"
    if not before:
        return msgspec.json.encode({name: Raw(raw) for name, raw in fields.items()})
    return object_of(fields, "input", [*_sendable(before, request.items), *request.items])


class _Call(msgspec.Struct):
    type: str = ""
    call_id: str = ""
    encrypted_content: str | None = None
    content: list[Any] | None = None


def _sendable(before: Sequence[Held], new: Sequence[bytes]) -> Iterator[bytes]:
    for at, item in enumerate(before):
        if item.made and b'"reasoning"' in item.raw and not _is_readable(item.raw):
            continue
        if item.partial and b'"call_id"' in item.raw and not _is_answered(item.raw, before[at + 1 :], new):
            continue
        yield item.raw


def _is_readable(raw: bytes) -> bool:
    """False for reasoning of which only the server that made it holds the text."""
    item = decoded(raw, _Call)
    return not isinstance(item, _Call) or item.type != "reasoning" or bool(item.encrypted_content or item.content)


def _is_answered(raw: bytes, later: Sequence[Held], new: Sequence[bytes]) -> bool:
    call = decoded(raw, _Call)
    if not isinstance(call, _Call) or call.type.endswith("_output"):
        return True
    results = (decoded(other, _Call) for other in (*(held.raw for held in later), *new) if b"_output" in other)
    return any(isinstance(result, _Call) and result.call_id == call.call_id for result in results)


class _Named(msgspec.Struct):
    id: Any = None
    type: Any = None


_PREFIXES = {"message": "msg_", None: "msg_", "function_call": "fc_", "reasoning": "rs_"}


def id_of(raw: bytes) -> str:
    """The id of an item: its own, or one that is made."""
    item = decoded(raw, _Named)
    if isinstance(item, _Named) and isinstance(item.id, str) and item.id:
        return item.id
    kind = item.type if isinstance(item, _Named) and isinstance(item.type, str) else None
    return _PREFIXES.get(kind, "item_") + token_hex(16)


# -- what an answer adds -------------------------------------------------------------------------------------------


class _Response(msgspec.Struct):
    id: Any = None
    status: Any = None
    output: list[Raw] | None = None
    error: Any = None


class _Event(msgspec.Struct):
    type: str = ""
    response: Raw = Raw()
    item: Raw = Raw()
    output_index: int = 0
    delta: Any = None


class ResponsesCollector:
    """Collects a response. Of a stream that breaks off, items that are done are kept, and the text of a message that
    has begun."""

    def __init__(self) -> None:
        self._response: bytes | Raw = b""
        self._done: dict[int, bytes] = {}
        self._begun: dict[int, bytes] = {}
        self._text: dict[int, list[str]] = {}
        self._whole = False

    def read(self, body: bytes) -> None:
        """See `Collector.read`. An error within a 200 has no output."""
        response = decoded(body, _Response)
        if not isinstance(response, _Response) or response.output is None or response.error:
            return
        if response.status in _KEPT_STATUS:
            self._response, self._whole = body, True
            self._done = dict(enumerate(map(bytes, response.output)))

    def feed(self, data: bytes) -> bool:
        """See `Collector.feed`."""
        event = decoded(data, _Event)
        if not isinstance(event, _Event):
            return False
        match event.type:
            case "response.output_text.delta":
                if isinstance(event.delta, str):
                    self._text.setdefault(event.output_index, []).append(event.delta)
            case "response.output_item.added":
                self._begun[event.output_index] = bytes(event.item)
            case "response.output_item.done":
                self._done[event.output_index] = bytes(event.item)
            case "response.created":
                self._response = event.response
            case "response.completed" | "response.incomplete":
                self._end(event.response)
                return True
        return False

    def _end(self, raw: Raw) -> None:
        self._whole, self._response = True, raw
        response = decoded(raw, _Response)
        if isinstance(response, _Response) and response.output:
            self._done = dict(enumerate(map(bytes, response.output)))

    def answer(self) -> Answer:
        """See `Collector.answer`."""
        items = dict(self._done)
        if not self._whole:
            begun = {at: self._partial(at, text) for at, text in self._text.items() if at not in items}
            items |= {at: item for at, item in begun.items() if item}
        head = decoded(self._response, _Response)
        name = head.id if isinstance(head, _Response) and isinstance(head.id, str) else ""
        ordered = [items[at] for at in sorted(items)]
        return Answer(ordered, self._whole, name, self._object() if name else b"")

    def _partial(self, at: int, text: list[str]) -> bytes:
        """A message as far as it came."""
        known: Any = decoded(self._begun.get(at, b"{}"), dict[str, Any])
        part = {"type": "output_text", "text": "".join(text), "annotations": []}
        fields = {**(known or {}), "type": "message", "role": "assistant", "status": "incomplete", "content": [part]}
        return msgspec.json.encode(fields) if part["text"] else b""

    def _object(self) -> bytes:
        """The response without its output."""
        fields: Any = decoded(self._response, dict[str, Raw]) or {}
        kept: dict[str, Any] = {name: value for name, value in fields.items() if name != "output"}
        return msgspec.json.encode(kept if self._whole else {**kept, "status": "incomplete"})
