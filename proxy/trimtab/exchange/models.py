"""Models where there are several upstreams: which one a request outside chat names, and one list of all there are.

Chat requests are decoded whole (`wire.chat`); of every other request, and of a chat that cannot be decoded, only its
model is looked at, and only to route it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

import msgspec
from msgspec import Raw

from trimtab.errors import UnknownModel
from trimtab.exchange.incoming import Incoming
from trimtab.upstream.routing import route
from trimtab.upstream.settings import UpstreamSettings
from trimtab.wire.chat import replace_lone_surrogates
from trimtab.wire.media import is_json

LIST = "/v1/models"


class _Named(msgspec.Struct):
    model: Raw = Raw(b"null")


class _Entry(msgspec.Struct):
    id: str


class _Listing(msgspec.Struct):
    data: list[Raw]


def may_name(incoming: Incoming) -> bool:
    """Whether the body may name a model in a way that is read here: JSON, by its type."""
    return is_json(incoming.header(b"content-type"))


def named(incoming: Incoming, body: bytes) -> str | None:
    """The model a request is about: its body's `model`, or the last part of `/v1/models/NAME`. None where it names
    none, or in a way that cannot be read: the upstream will say so itself. Never raises."""
    if incoming.path.startswith(LIST + "/"):
        return unquote(incoming.path[len(LIST) + 1 :]) or None
    for source in (body, replace_lone_surrogates(body)) if body else ():
        try:
            model = msgspec.json.decode(msgspec.json.decode(source, type=_Named).model)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        return model if isinstance(model, str) else None
    return _leniently(body)


def _leniently(body: bytes) -> str | None:
    """What other readers take for JSON, and upstreams may: a byte order mark, NaN, UTF-16."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    model = value.get("model") if isinstance(value, dict) else None
    return model if isinstance(model, str) else None


def merged(listings: Iterable[tuple[UpstreamSettings, bytes | None]], upstreams: Sequence[UpstreamSettings]) -> bytes:
    """One listing of all that were got, entries byte for byte, in the order of the upstreams. A model stands in it
    once: from the upstream its requests go to."""
    entries = [raw for upstream, listing in listings for raw in _entries(listing) if _goes_to(raw, upstream, upstreams)]
    return msgspec.json.encode({"object": "list", "data": entries})


def _entries(listing: bytes | None) -> list[Raw]:
    try:
        return msgspec.json.decode(listing or b"", type=_Listing).data
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []


def _goes_to(entry: Raw, upstream: UpstreamSettings, upstreams: Sequence[UpstreamSettings]) -> bool:
    try:
        return route(msgspec.json.decode(entry, type=_Entry).id, upstreams) is upstream
    except (msgspec.MsgspecError, UnicodeDecodeError, UnknownModel):
        return False
