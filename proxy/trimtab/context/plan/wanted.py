"""The summary a plan asks for, as a value: the core says what it wants, others fetch or make it.

The summarized part of a history is a row of segments. S_k, the summary of the first k, is made from S_{k-1}
and segment k, so each message is read once however long the conversation grows. A digest of the chain names
S_k: it covers every byte of every message from the first segment on, so an edited history names another
summary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from trimtab.context.policy import Hint


class SummaryWanted(msgspec.Struct, frozen=True):
    """S_k, with k = len(spans)."""

    spans: tuple[tuple[int, int], ...]  # [start, stop) of each segment: indices into the client's messages
    digests: tuple[bytes, ...]  # SHA-256 chain up to and including that segment
    max_tokens: int  # the size the plan counted the summary at
    hint: Hint = "general"  # which prompt it is written with


def chain(messages: Sequence[bytes | Raw], spans: Sequence[tuple[int, int]]) -> tuple[bytes, ...]:
    """The digest of the chain after each span. Each link covers the one before it and the span's messages, in
    order, every message with its length before it.
    """
    digests: list[bytes] = []
    link = b""
    for start, stop in spans:
        digest = hashlib.sha256(link)
        for message in messages[start:stop]:
            raw = memoryview(message)
            digest.update(len(raw).to_bytes(8, "big"))
            digest.update(raw)
        link = digest.digest()
        digests.append(link)
    return tuple(digests)
