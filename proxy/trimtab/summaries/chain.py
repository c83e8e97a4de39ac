"""One wanted summary and the shorter ones it can be made from: their names, their seals, and what they are
read from.

S_0 is the empty summary. `newest` finds the longest S_j that is stored; from there `Summarizer` goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw

from trimtab.context.plan.wanted import SummaryWanted
from trimtab.store.keys import summary_key
from trimtab.store.protocol import Store
from trimtab.store.sealed import Tenant
from trimtab.summaries.completion import Ride
from trimtab.summaries.prompts import Prompt
from trimtab.summaries.render import Entry, entries

LOOKS = (1, 8, 32)  # how many names are asked for at a time, from the newest back; then as many as the last


class Writer(msgspec.Struct, frozen=True):
    """Who writes the summary, and on whose behalf."""

    model: str
    credential: bytes = b""  # the client's `Authorization`, byte for byte; empty: the anonymous tenant
    read_tokens: int = 0  # the most the model takes in one call, in estimated tokens; 0: only the setting bounds it
    ride: Ride | None = None  # what was sent up to the end of the last segment, if a summary may ride on it
    lent: bool = True  # whether the model is called with the credential: it is not shown to another server

    @property
    def shown(self) -> bytes:
        """The credential the model is called with."""
        return self.credential if self.lent else b""

    def __repr__(self) -> str:
        return f"Writer(model={self.model!r})"


class Found(msgspec.Struct, frozen=True):
    """S_j: the text that stands for the first `upto` segments."""

    upto: int = 0
    text: str = ""

    def __repr__(self) -> str:
        return f"Found(upto={self.upto}, {len(self.text)} characters)"


class _Stored(msgspec.Struct, array_like=True):
    text: str


class Chain:
    """S_1 … S_k for one tenant, model and prompt. `background`: no request waits for it."""

    def __init__(
        self, wanted: SummaryWanted, messages: Sequence[bytes | Raw], writer: Writer, tenant: Tenant, prompt: Prompt
    ) -> None:
        self.wanted = wanted
        self.writer = writer
        self.tenant = tenant
        self.prompt = prompt
        self.background = False
        self._messages = messages

    def __len__(self) -> int:
        return len(self.wanted.spans)

    def key(self, upto: int) -> str:
        """The name of S_upto, from 1."""
        link = self.wanted.digests[upto - 1]
        policy = str(self.wanted.max_tokens)
        return summary_key(self.tenant.id, self.writer.model, self.prompt.version, policy, link)

    def segment(self, index: int) -> list[Entry]:
        """What is read of a segment, from 0."""
        start, stop = self.wanted.spans[index]
        return entries(self._messages[start:stop])

    async def newest(self, store: Store, keep_s: float, above: int = 0) -> Found | None:
        """The longest stored S_j with j > `above`. What is not ours, not whole or not readable is not
        stored.
        """
        for uptos in _batches(range(len(self), above, -1)):
            keys = [self.key(upto) for upto in uptos]
            for upto, key, value in zip(uptos, keys, await store.get_many(keys, keep_s), strict=True):
                if (text := self._opened(key, value)) is not None:
                    return Found(upto, text)
        return None

    async def keep(self, store: Store, found: Found, ttl_s: float) -> None:
        key = self.key(found.upto)
        await store.set(key, self.tenant.seal(key, msgspec.msgpack.encode(_Stored(found.text))), ttl_s)

    def _opened(self, key: str, value: bytes | None) -> str | None:
        opened = self.tenant.open(key, value)
        return None if opened is None else msgspec.msgpack.decode(opened, type=_Stored).text


def _batches(uptos: range) -> Iterator[range]:
    at, look = 0, 0
    while at < len(uptos):
        size = LOOKS[min(look, len(LOOKS) - 1)]
        yield uptos[at : at + size]
        at, look = at + size, look + 1
