"""The messages of a body: the list as it is read, and its place in the bytes.

A conversation is sent again and again, each time with a little more at its end. Messages whose places are known from
the request before are skipped when the next one is read (`chat.decode`): finding where each message ends costs as much
as everything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import overload

from msgspec import Raw

_BETWEEN = re.compile(rb"[ \t\r\n,]*")
_LISTS = {name: re.compile(rb'"%b"[ \t\r\n]*:[ \t\r\n]*\[[ \t\r\n]*' % name.encode()) for name in ("messages", "input")}
_END = re.compile(rb"[ \t\r\n]*\]")

Spans = list[slice]  # places of messages in a body, in bytes, one after the other


class Messages(Sequence[Raw]):
    """All messages of a body, which are its list `name`. `known` are the places of the first ones, which are read from
    there when they are needed; `fresh` are the others."""

    def __init__(self, body: bytes, fresh: list[Raw], known: Spans | None = None, name: str = "messages") -> None:
        self._body, self.fresh, self.known, self._name = body, fresh, known or [], name

    @cached_property
    def all(self) -> list[Raw]:
        """Every message, in order."""
        if not self.known:
            return self.fresh
        body = memoryview(self._body)
        return [Raw(body[span]) for span in self.known] + self.fresh

    @cached_property
    def spans(self) -> Spans | None:
        """The places of all messages; None when they cannot be found, because the name of the list is written with
        escapes, or another field of that name stands before it."""
        body = self._body
        if self.known:
            at = self.known[-1].stop
        elif (
            self.fresh
            and (found := _LISTS[self._name].search(body))
            and body.startswith(bytes(self.fresh[0]), found.end())
        ):
            at = found.end()
        else:
            return None
        spans = list(self.known)
        for raw in self.fresh:
            if body[at : at + 2] == b",{":  # as most clients write it
                at += 1
            elif between := _BETWEEN.match(body, at):
                at = between.end()
            spans.append(slice(at, at := at + len(raw)))
        return spans if _END.match(body, at) else None

    def _begins_at(self, at: int) -> bool:
        return bool(self.fresh) and self._body.startswith(bytes(self.fresh[0]), at)

    def __len__(self) -> int:
        return len(self.known) + len(self.fresh)

    @overload
    def __getitem__(self, at: int) -> Raw: ...
    @overload
    def __getitem__(self, at: slice) -> list[Raw]: ...
    def __getitem__(self, at: int | slice) -> Raw | list[Raw]:
        return self.all[at]

    def __iter__(self) -> Iterator[Raw]:
        return iter(self.all)
