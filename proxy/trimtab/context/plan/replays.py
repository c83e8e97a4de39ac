"""Replays of conversations as far as they were walked, so that a step of a conversation plans what is new.

Every request of an agent repeats the one before and adds a little. The state at the end of a replay is the state at
that boundary in every later replay of the same conversation, under the same policy and budget: it is kept, and the
next replay goes on from a copy of it. So a plan is the same, byte for byte, with and without what is kept here. It
holds sizes, places and tool-call ids, never text. The replays used last are kept as they are, others as records on a
shelf.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from copy import copy
from typing import NamedTuple, TypeVar

import msgspec
from xxhash import xxh3_128

from trimtab.context.apply.format import Format
from trimtab.context.plan.frontiers import Answers, Clearing, Compaction, Repeats
from trimtab.context.plan.packed import packed, unpacked
from trimtab.context.plan.state import State
from trimtab.context.policy import Policy
from trimtab.context.read.memo import Memo
from trimtab.context.read.prefix import Prefix
from trimtab.context.read.shelf import Newest, Shelf
from trimtab.context.read.structure import EMPTY, is_boundary
from trimtab.context.read.views import DIGEST_SEED, View

_MOST_MESSAGES = 60_000  # of all conversations that are kept: some 200 bytes each, beside their views
_LEAST_MESSAGES = 32  # of one: a shorter one is replayed in less time than it takes to copy its state
_NEWEST = 256  # messages that may have come since the replay that is kept: a step may run many tools at once
_BOUNDARIES = 8  # among them that are looked at


class Terms(NamedTuple):
    """What a replay was made under, its conversation apart. `fixed`: tokens beside the messages."""

    policy: Policy
    budget: int
    fixed: int
    format: Format

    def fresh(self, memo: Memo) -> State:
        """The state before the first message."""
        return State(EMPTY, self.fixed, self.policy, self.budget, memo, self.format)


class _Kept(NamedTuple):
    terms: Terms
    state: State
    prefix: Prefix | None  # the one that was known of its body

    def __len__(self) -> int:
        return len(self.state.sent)


_encode = msgspec.msgpack.Encoder().encode

_Key = tuple[bytes, int, int, int]  # digest of the last message walked, messages walked, budget, fixed


class Replays:
    """The newest replay of each conversation, by its last message. One for each format and process."""

    def __init__(
        self,
        most_messages: int = _MOST_MESSAGES,
        least_messages: int = _LEAST_MESSAGES,
        shelf: Shelf | None = None,
    ) -> None:
        self._shelf = Shelf(0) if shelf is None else shelf
        self._kept = Newest[_Key, _Kept](most_messages, len)
        self._least = least_messages
        self._lock = threading.Lock()  # long requests are planned beside the event loop

    def take(self, views: Sequence[View], terms: Terms, memo: Memo, prefix: Prefix | None = None) -> State | None:
        """The state of the longest beginning of a conversation that was replayed under these terms, or None. It is no
        longer kept: what goes on from it takes its place. `prefix`: what was known of the body."""
        ends = [*_ends(views)] if views else []
        for end in ends:
            key = (views[end - 1].digest, end, terms.budget, terms.fixed)
            with self._lock:
                kept = self._kept.get(key)
                if kept is None or kept.terms != terms or not _begins_with(views, end, prefix, kept):
                    continue
                del self._kept[key]
            return kept.state
        return self._from_shelf(views, ends, terms, memo)

    def _from_shelf(self, views: Sequence[View], ends: Sequence[int], terms: Terms, memo: Memo) -> State | None:
        names = _names(views, ends, terms)
        for end in ends:
            with self._lock:
                record = self._shelf.take(names[end])
            if record is not None:
                return unpacked(record, terms.fresh(memo), views[:end])
        return None

    def keep(self, state: State, terms: Terms, prefix: Prefix | None = None, *, copied: bool) -> None:
        """Keep a state that has been walked to its end; a copy where it is used further. Not one whose last message may
        still be continued."""
        views = state.structure.views
        if len(views) < self._least or state.structure.prefill:
            return
        kept = _Kept(terms, _apart(state) if copied else state, prefix)
        kept.state.structure = msgspec.structs.replace(state.structure, raws=())  # no text is kept
        key = (views[-1].digest, len(views), terms.budget, terms.fixed)
        with self._lock:
            if len(kept) <= self._kept.maxsize:
                self._kept[key] = kept
        for left in self._kept.left():
            self._put_on_shelf(left)

    def _put_on_shelf(self, kept: _Kept) -> None:
        views = kept.state.structure.views
        if self._shelf.takes(len(views)):
            name = _names(views, [len(views)], kept.terms)[len(views)]
            self._shelf.put(packed(kept.state), [name])


def _begins_with(views: Sequence[View], end: int, prefix: Prefix | None, kept: _Kept) -> bool:
    """True when the first `end` messages are those of a kept replay. Those of a prefix that both go on from are."""
    same = kept.prefix.count if kept.prefix is not None and _goes_on_from(prefix, kept.prefix) else 0
    return kept.state.structure.views[same:] == views[same:end]


def _goes_on_from(prefix: Prefix | None, other: Prefix) -> bool:
    """True when a prefix is another one, or goes on from it."""
    while prefix is not None and prefix.count > other.count:
        prefix = prefix.before
    return prefix is other


def _names(views: Sequence[View], ends: Sequence[int], terms: Terms) -> dict[int, bytes]:
    """What the records of beginnings of a conversation are found by: a digest of the terms and of all its messages."""
    so_far = xxh3_128(_encode((terms.policy, terms.budget, terms.fixed, hash(terms.format))), seed=DIGEST_SEED)
    names, done = {}, 0
    for end in sorted(ends):
        so_far.update(b"".join([view.digest for view in views[done:end]]))
        names[end], done = so_far.digest(), end
    return names


Part = TypeVar("Part", bound=msgspec.Struct)


def _apart(part: Part) -> Part:
    """A copy of a state, or of a part of it, that changes apart from the original."""
    other = copy(part)
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if isinstance(value, list | dict | bytearray):
            setattr(other, name, value.copy())
        elif isinstance(value, Clearing | Repeats | Compaction | Answers):
            setattr(other, name, _apart(value))
    return other


def _ends(views: Sequence[View]) -> Iterator[int]:
    """The lengths of the beginnings that may be kept, the longest first."""
    yield len(views)
    left = _BOUNDARIES
    for end in range(len(views) - 1, max(0, len(views) - _NEWEST), -1):
        if left and is_boundary(views, end):
            left -= 1
            yield end
