"""The messages of a body: the list as it is read, and where it lies in the bytes.

A conversation is sent again and again, each time with a little more at its end. Whoever has read its beginning once
can have those messages stepped over (see `chat.decode`): finding where a message ends costs as much as all else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import overload

import msgspec
from msgspec import Raw

_BETWEEN = re.compile(rb"[ \t\r\n,]*")
_LIST = re.compile(rb'"messages"[ \t\r\n]*:[ \t\r\n]*\[[ \t\r\n]*')
_END = re.compile(rb"[ \t\r\n]*\]")


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where the first `count` messages of a body lie: its bytes from `start` to `end`."""

    count: int
    start: int
    end: int


class Messages(Sequence[Raw]):
    """All messages of a body, of which the first `known` were stepped over: they are read when one of them is asked
    for, by `read`. `fresh` are the others."""

    __slots__ = ("_all", "_read", "fresh", "known")

    def __init__(self, fresh: list[Raw], known: int = 0, read: Callable[[], list[Raw]] | None = None) -> None:
        self.fresh, self.known, self._read = fresh, known, read
        self._all = None if read else fresh

    @property
    def all(self) -> list[Raw]:
        if self._all is None:
            assert self._read is not None
            self._all = self._read()
        return self._all

    def __len__(self) -> int:
        return self.known + len(self.fresh)

    @overload
    def __getitem__(self, at: int) -> Raw: ...
    @overload
    def __getitem__(self, at: slice) -> list[Raw]: ...
    def __getitem__(self, at: int | slice) -> Raw | list[Raw]:
        return self.all[at]

    def __iter__(self) -> Iterator[Raw]:
        return iter(self.all)


def ends(body: bytes, fresh: Sequence[bytes | Raw], known: Place | None = None) -> tuple[int, list[int]] | None:
    """Where the list of messages starts, and where each of the fresh ones ends, in bytes. None where they are not
    found: the list's name is written with escapes, or stands elsewhere in the body too."""
    if known is not None:
        start, at = known.start, known.end
    elif fresh and (found := _LIST.search(body)) and body.startswith(bytes(fresh[0]), found.end()):
        start = at = found.end()
    else:
        return None
    ended = []
    for raw in fresh:
        between = _BETWEEN.match(body, at)
        at = (between.end() if between else at) + len(raw)
        ended.append(at)
    return (start, ended) if _END.match(body, at) else None
