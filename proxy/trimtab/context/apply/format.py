"""What planning and applying know of a wire format: how one message is read, and how one is written.

A message is what the planner sees: a message of a chat, an item of a response. `CHAT` is the format of chat
completions; the others are in `trimtab.dialects`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Raw

from trimtab.context.apply.rewrite import announce, join_text, message, rewrite, unpin
from trimtab.context.edits import Stage
from trimtab.context.read.views import View, digest, view


class _Join(Protocol):
    def __call__(self, raw: bytes | Raw, text: str, *, before: bool) -> bytes: ...


class Format(msgspec.Struct, frozen=True):
    """One wire format, as functions of one message."""

    view: Callable[[bytes | Raw], View]  # never raises
    digest: Callable[[bytes | Raw], bytes]  # the same for messages that mean the same
    rewrite: Callable[[bytes | Raw, Stage, int], bytes]  # after one edit
    message: Callable[[str, str], bytes]  # role and text: the note or the summary
    join_text: _Join  # a user message with a text before or after its own
    announce: Callable[[bytes | Raw], bytes]  # a system message with the announcement
    unpin: Callable[[bytes | Raw], bytes]  # without the field `pinned`


CHAT = Format(view, digest, rewrite, message, join_text, announce, unpin)
