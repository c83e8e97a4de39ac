"""The summary that a plan asks for, as a value: the core asks, others fetch or make it.

The summarized part of a history is a row of segments. S_k, the summary of the first k, is made from S_{k-1} and
segment k, so each message is read once, however long the conversation grows. S_k is found by a chain of digests over
every byte of every message from the first segment on, so an edited history asks for another summary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Raw

from trimtab.context.apply.format import itself
from trimtab.context.policy import Hint


class SummaryWanted(msgspec.Struct, frozen=True):
    """A request for S_k, with k = len(spans)."""

    spans: tuple[tuple[int, int], ...]  # [start, stop) of each segment: messages of the history
    digests: tuple[bytes, ...]  # by segment: the chain of SHA-256 digests up to its end
    max_tokens: int  # estimated tokens; the size the plan counted the summary at
    hint: Hint = "general"  # which prompt it is written with


def chain(
    messages: Sequence[bytes | Raw],
    spans: Sequence[tuple[int, int]],
    canonical: Callable[[bytes | Raw], bytes | Raw] = itself,
) -> tuple[bytes, ...]:
    """A digest for each span. It covers the digest before it and the messages of the span in order, each with its
    length before it. `canonical` is the format's."""
    digests: list[bytes] = []
    link = b""
    for start, stop in spans:
        digest = hashlib.sha256(link)
        for message in messages[start:stop]:
            raw = memoryview(canonical(message))
            digest.update(len(raw).to_bytes(8, "big"))
            digest.update(raw)
        link = digest.digest()
        digests.append(link)
    return tuple(digests)
