"""What was read of a message, remembered by the digest of its bytes.

An agent sends its whole history at every step, so almost every message was seen a moment ago: it then costs one hash
and one lookup. The memo holds numbers and tool-call ids, never text, and is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Raw

from trimtab.context.estimate.tokens import bytes_tokens
from trimtab.context.read.views import View, digest, view
from trimtab.wire.values import SEARCHED, holds

Value = TypeVar("Value")


class Generations(Generic[Value]):
    """A bounded map that keeps what is in use, in two generations instead of an order of use. When the young one is
    full it becomes the old one; an entry that is found in the old one moves to the young one. A hit in the young
    generation costs one lookup and no bookkeeping, which is why this is not an LRU cache of a library.
    """

    def __init__(self, capacity: int) -> None:
        """`capacity`: the most entries, or weight, of each generation."""
        self._capacity, self._weight = capacity, 0
        self._young: dict[Hashable, Value] = {}
        self._old: dict[Hashable, Value] = {}
        self._heavy: dict[Hashable, int] = {}  # weights in the young generation, other than 1
        self._were_heavy: dict[Hashable, int] = {}

    def get(self, key: Hashable) -> Value | None:
        """The value of a key, or None."""
        found = self._young.get(key)
        return self._old.get(key) if found is None else found

    def put(self, key: Hashable, value: Value, weight: int = 1) -> None:
        """Keep a value. `weight` says how many entries it counts as."""
        before = self._heavy.get(key, 1) if key in self._young else 0
        self._weight += weight - before
        if self._weight > self._capacity:
            self._old, self._young, self._weight = self._young, {}, weight
            self._were_heavy, self._heavy = self._heavy, {}
        self._young[key] = value
        if weight != 1 or before > 1:
            self._heavy[key] = weight


class Memo(Generations[Any]):
    """Views of messages of one format, and sizes measured, by digest. One for the process."""

    def __init__(
        self,
        capacity: int = 50_000,
        view: Callable[[bytes | Raw, bytes], View] = view,
        digest: Callable[[bytes | Raw], bytes] = digest,
    ) -> None:
        """`capacity`: the most entries in all. `view` and `digest` are those of the format, chat's by default."""
        super().__init__(capacity // 2)
        self._view, self._digest = view, digest

    def get(self, key: Hashable) -> Any:
        """The value of a key, or None; it stays in use."""
        found = self._young.get(key)
        if found is None and (found := self._old.get(key)) is not None:
            self.put(key, found, self._were_heavy.get(key, 1))
        return found

    def view(self, raw: bytes | Raw) -> View:
        """The view of a message."""
        key = self._digest(raw)
        return self._young.get(key) or self._view_of(raw, key)

    def _view_of(self, raw: bytes | Raw, key: bytes) -> View:
        """The view of a message that is not in the young generation."""
        found: View = self._old.get(key) or self._view(raw, key)
        self.put(key, found)
        return found

    def views(self, messages: Iterable[bytes | Raw]) -> list[View]:
        """The views of messages, in order."""
        known, key_of = self._young.get, self._digest
        return [known(key := key_of(raw)) or self._view_of(raw, key) for raw in messages]

    def extras(self, extras: Sequence[bytes | Raw]) -> list[int]:
        """Tokens of each of the fields beside the messages that a model reads too: tools, response format."""
        sizes = []
        for raw in extras:
            key = (digest(raw), "extra")
            size: int | None = self.get(key)
            if size is None:
                size = bytes_tokens(_spaced(bytes(raw)))
                self.put(key, size)
            sizes.append(size)
        return sizes


def _spaced(raw: bytes) -> bytes:
    """Compact JSON with a space after each colon and comma, as chat templates print tools: the `tojson` filter of
    Hugging Face's templates writes them so, and a model reads what the template wrote. In slices, between which other
    threads run; a pair of signs that is cut in two by one stays as it is."""
    if holds(raw, b'": '):
        return raw
    slices = [raw[at : at + SEARCHED] for at in range(0, len(raw), SEARCHED)]
    return b"".join([part.replace(b'":', b'": ').replace(b',"', b', "') for part in slices])
