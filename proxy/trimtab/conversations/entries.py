"""The values that a log is made of, and their bytes.

An entry is one turn: what a request added and what its answer added. So a turn is stored as a whole or not at all. The
first entry of a log has its header. An entry that takes the place of another (an item was deleted, the metadata was
changed) is followed by a marker, so that replicas which remember the log read it again.

Items keep their bytes. An image or file above a bound is cut out of them and stored once for each log, under its
digest; joined again, the item is what it was.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Raw

from trimtab.store.sealed import Tenant

DialectName = Literal["chat", "responses"]

# A string that is a data URL (RFC 2397), without its quotes. In a text such quotes would be escaped.
_DATA_URL = re.compile(rb'(?<=[^\\]")data:[\w.+-]+/[\w.+-]+(?:;[\w.+=-]+)*,[^"\\]*(?:\\.[^"\\]*)*(?=")')


class Item(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One stored item. `pieces`: its JSON; every second piece is the digest of what was cut out between its neighbours.
    `made`: by a model. `partial`: its answer broke off."""

    id: str
    pieces: list[bytes]
    made: bool = False
    partial: bool = False


class Header(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a log. `created_at` in seconds since 1970, `metadata` as JSON. `parent` is the name of the log
    that this one continues, from its version `at` on."""

    dialect: DialectName
    created_at: int
    metadata: bytes = b"{}"
    parent: str = ""
    at: int = 0


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One entry. `replaced` makes it a marker: the position of the entry that has been replaced."""

    items: list[Item] = []
    header: Header | None = None
    replaced: int | None = None


class Record(msgspec.Struct, frozen=True, array_like=True):
    """Where a response stands: the turn that ends version `version` of the log `name`. `response` is its object as
    JSON, without its output, which stands in the log."""

    name: str
    version: int
    response: bytes


class Held(msgspec.Struct, frozen=True, gc=False):
    """One item as it is loaded, its JSON whole again."""

    id: str
    raw: bytes
    made: bool = False
    partial: bool = False


def object_of(fields: Mapping[str, bytes | Raw], name: str, items: Sequence[bytes]) -> bytes:
    """The JSON object with these fields, each as raw JSON, and with these items as the list in field `name`, which
    stands where it stood, or at the end."""
    parts: list[bytes | Raw] = []
    for field in fields if name in fields else (*fields, name):
        parts += [b"," if parts else b"{", msgspec.json.encode(field), b":"]
        parts += [b"[", b",".join(items), b"]"] if field == name else [fields[field]]
    return b"".join([*parts, b"}"])


_entry = msgspec.msgpack.Decoder(Entry).decode
_record = msgspec.msgpack.Decoder(Record).decode


def seal_entry(tenant: Tenant, key: str, position: int, entry: Entry) -> bytes:
    """An entry as it is stored: it opens at its own position of its own log alone."""
    return tenant.seal(f"{key}:{position}", msgspec.msgpack.encode(entry))


def open_entry(tenant: Tenant, key: str, position: int, value: bytes) -> Entry | None:
    """A stored entry; None where it was altered or moved."""
    text = tenant.open(f"{key}:{position}", value)
    return None if text is None else _entry(text)


def seal_record(tenant: Tenant, key: str, record: Record) -> bytes:
    """A record as it is stored."""
    return tenant.seal(key, msgspec.msgpack.encode(record))


def open_record(tenant: Tenant, key: str, value: bytes | None) -> Record | None:
    """A stored record; None where there is none, or it was altered."""
    text = tenant.open(key, value)
    return None if text is None else _record(text)


def cut(raw: bytes, bound: int) -> tuple[list[bytes], dict[bytes, bytes]]:
    """The pieces of an item, and what was cut out of it by digest: data URLs of more than `bound` bytes."""
    if len(raw) <= bound or b'"data:' not in raw:
        return [raw], {}
    pieces: list[bytes] = []
    media: dict[bytes, bytes] = {}
    end = 0
    for found in _DATA_URL.finditer(raw):
        if len(found[0]) > bound:
            digest = hashlib.sha256(found[0]).digest()
            media[digest] = found[0]
            pieces += [raw[end : found.start()], digest]
            end = found.end()
    return [*pieces, raw[end:]], media


def digests_of(entries: Iterable[Entry]) -> list[bytes]:
    """What was cut out of the items of these entries, each digest once."""
    digests = (digest for entry in entries for item in entry.items for digest in item.pieces[1::2])
    return list(dict.fromkeys(digests))


def joined(item: Item, media: Mapping[bytes, bytes]) -> Held:
    """The item, whole again. Raises KeyError for a digest that is missing."""
    pieces = list(item.pieces)
    pieces[1::2] = [media[digest] for digest in pieces[1::2]]
    return Held(item.id, b"".join(pieces), item.made, item.partial)
