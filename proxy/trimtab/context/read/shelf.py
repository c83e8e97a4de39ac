"""A place for conversations that were not used lately: their prefixes in one packed record each.

A view takes some 450 bytes as an object, with the place of its message, and 90 in a record. To unpack the record takes
a small part of the time that reading the conversation would take. A record holds what the prefixes hold: numbers,
places, roles, names of tools and tool-call ids.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec
from cachetools import LRUCache

from trimtab.context.read.prefix import Prefix, flags
from trimtab.context.read.views import View

MOST_BYTES = 128 << 20
"""Bytes of all records on a shelf, by default: of a thousand conversations of 200,000 tokens, and half as many more."""

_MOST_MESSAGES = 20_000  # of a record: as many are packed in 10 ms, for which one call into C keeps others waiting
_NEWEST = 4  # prefixes of a conversation by which it is found: an agent may change its last messages
# Bytes that a record takes beside its own, and for each digest it is found by: measured, with their places in dicts,
# which records come to and leave.
_BESIDE, _FOR_DIGEST = 400, 150


class _Part(msgspec.Struct, array_like=True):
    """One prefix, without the ones before it."""

    views: Sequence[View]
    edges: list[int]  # of the places of its messages: where one starts and stops, and so on
    tokens: int
    marked: tuple[int, ...]
    count: int
    chain: int
    cuts: list[tuple[int, list[int]]]  # message, and the edges of the places of its parts
    digest: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[_Part]).decode


def packed(chain: Sequence[Prefix]) -> bytes:
    """A record of a prefix: `chain` are the ones it goes on from, the shortest first, and itself."""
    return _encode([_part(prefix) for prefix in chain])


def _part(prefix: Prefix) -> _Part:
    cuts = [(i, _edges(slices)) for i, slices in prefix.cuts.items()]
    edges, views = _edges(prefix.spans), prefix.views
    return _Part(views, edges, prefix.tokens, prefix.marked, prefix.count, prefix.chain, cuts, prefix.digest)


def unpacked(record: bytes) -> list[Prefix]:
    """The chain of prefixes in a record."""
    chain: list[Prefix] = []
    before = None
    for part in _decode(record):
        spans, cuts = _slices(part.edges), {i: tuple(_slices(edges)) for i, edges in part.cuts}
        before = Prefix(
            part.views,
            spans,
            part.tokens,
            part.marked,
            part.count,
            part.chain,
            before,
            cuts,
            part.digest,
            *flags(before, cuts),
        )
        chain.append(before)
    return chain


def _edges(slices: Sequence[slice]) -> list[int]:
    return [edge for place in slices for edge in (place.start, place.stop)]


def _slices(edges: list[int]) -> list[slice]:
    return [slice(start, stop) for start, stop in zip(edges[::2], edges[1::2], strict=True)]


class _Record(msgspec.Struct, frozen=True, gc=False):
    data: bytes
    found_by: tuple[bytes, ...]  # digests of its newest prefixes

    def __len__(self) -> int:
        return len(self.data) + _BESIDE + _FOR_DIGEST * len(self.found_by)


class Shelf:
    """Records by the digests of their newest prefixes, bounded in bytes: the oldest goes first. One for the process."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        """`most_bytes`: of all records."""
        self.most_bytes = most_bytes
        self._records = _Records(most_bytes)
        self._lock = threading.Lock()  # long requests are read and planned beside the event loop

    def takes(self, messages: int) -> bool:
        """True when a record of so many messages may be put on it: no other needs to be packed."""
        return messages <= _MOST_MESSAGES and self._records.maxsize > 0

    def put(self, record: bytes, digests: Sequence[bytes]) -> None:
        """Put a record on the shelf; `digests` are those of its prefixes, the shortest first."""
        kept = _Record(record, tuple(digests[-_NEWEST:]))
        if len(kept) <= self._records.maxsize:
            with self._lock:
                self._records.put(kept)

    def take(self, digest: bytes) -> bytes | None:
        """Take the record that is found by a digest off the shelf, or None."""
        with self._lock:
            return self._records.take(digest)


class _Records(LRUCache[bytes, _Record]):
    """Records by the digest of their longest prefix."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(most_bytes, getsizeof=len)
        self._longest: dict[bytes, bytes] = {}  # digest of a prefix -> that of the longest in its record

    def put(self, record: _Record) -> None:
        longest = record.found_by[-1]
        self[longest] = record
        self._longest.update(dict.fromkeys(record.found_by, longest))

    def take(self, digest: bytes) -> bytes | None:
        longest = self._longest.get(digest)
        record = self.pop(longest, None) if longest is not None else None
        if record is None:
            return None
        self._forget(record)
        return record.data

    def popitem(self) -> tuple[bytes, _Record]:
        """Take out the oldest record."""
        longest, record = super().popitem()
        self._forget(record)
        return longest, record

    def _forget(self, record: _Record) -> None:
        for digest in record.found_by:
            if self._longest.get(digest) == record.found_by[-1]:
                del self._longest[digest]


Key = TypeVar("Key")
Value = TypeVar("Value")


class Newest(LRUCache[Key, Value]):
    """What was used last, bounded in messages. `left` yields what had to leave since, to be packed: after the lock is
    released under which this is used, because packing takes longer than anything else done with it."""

    def __init__(self, most_messages: int, messages: Callable[[Value], int]) -> None:
        super().__init__(most_messages, getsizeof=messages)
        self._left: deque[Value] = deque()

    def popitem(self) -> tuple[Key, Value]:
        """Take out what was not used for the longest time."""
        key, value = super().popitem()
        self._left.append(value)
        return key, value

    def left(self) -> Iterator[Value]:
        """What has left and was not yielded before; several threads may share it."""
        while self._left:
            try:
                value = self._left.popleft()
            except IndexError:  # another thread was faster
                return
            yield value
