"""What planning and applying know of a wire format: how one message is read, and how one is written.

A message is what the planner sees: a message of a chat, an item of a response. `CHAT` is the format of chat
completions; the others are in `trimtab.dialects`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, overload

import msgspec
from msgspec import Raw

from trimtab.context.apply.marks import unpin
from trimtab.context.apply.rewrite import announce, join_text, message, rewrite
from trimtab.context.edits import Stage
from trimtab.context.read.views import View, digest, view


class _Read(Protocol):
    def __call__(self, raw: bytes | Raw, key: bytes = b"") -> View: ...


class _Join(Protocol):
    def __call__(self, raw: bytes | Raw, text: str, *, before: bool) -> bytes: ...


class Format(msgspec.Struct, frozen=True):
    """One wire format, as functions of one message."""

    view: _Read  # `key`: the message's digest, where it is known; never raises
    digest: Callable[[bytes | Raw], bytes]  # the same for messages that mean the same
    rewrite: Callable[[bytes | Raw, Stage, int], bytes]  # after one edit
    message: Callable[[str, str], bytes]  # role and text: the note or the summary
    join_text: _Join  # a user message with a text before or after its own
    announce: Callable[[bytes | Raw], bytes] | None  # a system message with the announcement; None: not one of them
    unpin: Callable[[bytes | Raw], bytes]  # without the field `pinned`
    unbind: Callable[[bytes | Raw], bytes | Raw]  # without what is bound to the messages before (`View.bound_tokens`)
    canonical: Callable[[bytes | Raw], bytes | Raw]  # what it means: the digest is of this
    as_chat: Callable[[bytes | Raw], bytes | Raw]  # in chat's form, to be read for a summary or an extract; never sent
    result_field: str = "content"  # the one that has the content of a tool result


class AsChat(Sequence[bytes | Raw]):
    """Messages of a format in chat's form, each when it is read."""

    def __init__(self, raws: Sequence[bytes | Raw], format: Format) -> None:
        self._raws, self._as_chat = raws, format.as_chat

    def __len__(self) -> int:
        return len(self._raws)

    @overload
    def __getitem__(self, at: int) -> bytes | Raw: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes | Raw]: ...
    def __getitem__(self, at: int | slice) -> bytes | Raw | list[bytes | Raw]:
        return [*map(self._as_chat, self._raws[at])] if isinstance(at, slice) else self._as_chat(self._raws[at])


def itself(raw: bytes | Raw) -> bytes | Raw:
    """The message as it is."""
    return raw


CHAT = Format(view, digest, rewrite, message, join_text, announce, unpin, itself, itself, itself)
