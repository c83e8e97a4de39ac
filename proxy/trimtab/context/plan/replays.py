"""Replays of conversations as far as they were walked, so that a step of a conversation plans what is new.

Every request of an agent repeats the one before and adds a little. The state at the end of a replay is the state at
that boundary in every later replay of the same conversation, under the same policy and budget: it is kept, and the
next replay goes on from a copy of it. So a plan is the same, byte for byte, with and without what is kept here. It
holds sizes, places and tool-call ids, never text.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from copy import copy
from typing import NamedTuple, TypeVar

import msgspec
from cachetools import LRUCache

from trimtab.context.apply.format import Format
from trimtab.context.plan.frontiers import Answers, Clearing, Compaction
from trimtab.context.plan.state import State
from trimtab.context.policy import Policy
from trimtab.context.read.structure import is_boundary
from trimtab.context.read.views import View

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


class _Kept(NamedTuple):
    terms: Terms
    state: State

    def __len__(self) -> int:
        return len(self.state.sent)


_Key = tuple[bytes, int, int, int]  # digest of the last message walked, messages walked, budget, fixed


class Replays:
    """The newest replay of each conversation, by its last message. One for each format and process."""

    def __init__(self, most_messages: int = _MOST_MESSAGES, least_messages: int = _LEAST_MESSAGES) -> None:
        self._kept: LRUCache[_Key, _Kept] = LRUCache(most_messages, getsizeof=len)
        self._least = least_messages
        self._lock = threading.Lock()  # long requests are planned beside the event loop

    def take(self, views: Sequence[View], terms: Terms) -> State | None:
        """The state of the longest beginning of a conversation that was replayed under these terms, or None. It is no
        longer kept: what goes on from it takes its place."""
        for end in _ends(views):
            key = (views[end - 1].digest, end, terms.budget, terms.fixed)
            with self._lock:
                kept = self._kept.get(key)
                if kept is None or kept.terms != terms or kept.state.structure.views != views[:end]:
                    continue
                del self._kept[key]
            return kept.state
        return None

    def keep(self, state: State, terms: Terms) -> None:
        """Keep a copy of a state that has been walked to its end. Not one whose last message may still be continued."""
        views = state.structure.views
        if len(views) < self._least or state.structure.prefill:
            return
        kept = _Kept(terms, _apart(state))
        kept.state.structure = msgspec.structs.replace(state.structure, raws=())  # no text is kept
        key = (views[-1].digest, len(views), terms.budget, terms.fixed)
        with self._lock:
            if len(kept) <= self._kept.maxsize:
                self._kept[key] = kept


Part = TypeVar("Part", bound=msgspec.Struct)


def _apart(part: Part) -> Part:
    """A copy of a state, or of a part of it, that changes apart from the original."""
    other = copy(part)
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if isinstance(value, list | dict | bytearray):
            setattr(other, name, value.copy())
        elif isinstance(value, Clearing | Compaction | Answers):
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
