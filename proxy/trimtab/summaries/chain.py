"""One wanted summary and the shorter ones it can be made from: their keys, their seals, and the text they are made of.

S_k is the summary of the first k segments; S_0 is empty. `newest` finds the longest one that is stored, and
`Summarizer` continues from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw

from trimtab.context.plan.wanted import SummaryWanted
from trimtab.dialects.chat import CHAT
from trimtab.dialects.dialect import Dialect
from trimtab.store.keys import summary_key
from trimtab.store.protocol import Store
from trimtab.store.sealed import Tenant
from trimtab.summaries.completion import SentPrefix
from trimtab.summaries.prompts import Prompt
from trimtab.summaries.render import Entry, entries
from trimtab.wire.request import NOTHING_CARRIED, Carried

BATCHES = (1, 8, 32)  # how many keys are read at a time, from the newest back; then as many as the last


class Writer(msgspec.Struct, frozen=True):
    """The model that writes the summary, and the client it writes for."""

    model: str
    credential: bytes = b""  # the client's, byte for byte, to call the model with
    read_tokens: int = 0  # the most the model takes in one call, in estimated tokens; 0: only the setting bounds it
    prefix: SentPrefix | None = None  # the request that was sent, where the instruction may be appended to it
    background: bool = False  # no request waits for it
    sends_credential: bool = True  # False for a model on another server than the request's
    dialect: Dialect = CHAT  # how the model is called
    carried: Carried = NOTHING_CARRIED  # over from the client's request, to the server that it goes to
    tenant: bytes | None = None  # what identifies the client; empty: the anonymous tenant; None: the credential does

    @property
    def sent_credential(self) -> bytes:
        """The credential the model is called with."""
        return self.credential if self.sends_credential else b""

    @property
    def sent_carried(self) -> Carried:
        """What a call of the model carries over."""
        return self.carried if self.sends_credential else NOTHING_CARRIED

    def __repr__(self) -> str:
        return f"Writer(model={self.model!r})"


class Spent(msgspec.Struct, frozen=True):
    """What a summary and those before it in its chain cost: calls of the model, and tokens that it read and wrote."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


class Summary(msgspec.Struct, frozen=True):
    """S_k: a text in the place of the first `segments` segments, and what it cost."""

    segments: int = 0
    text: str = ""
    spent: Spent = Spent()

    def __repr__(self) -> str:
        return f"Summary(segments={self.segments}, {len(self.text)} characters)"


class _Stored(msgspec.Struct, array_like=True):
    text: str
    calls: int = 0  # what versions before 0.2 stored has the text alone
    tokens_in: int = 0
    tokens_out: int = 0


class Chain:
    """S_1 … S_k for one tenant, model and prompt."""

    def __init__(
        self, wanted: SummaryWanted, messages: Sequence[bytes | Raw], writer: Writer, tenant: Tenant, prompt: Prompt
    ) -> None:
        self.wanted = wanted
        self.writer = writer
        self.tenant = tenant
        self.prompt = prompt
        self._messages = messages

    def __len__(self) -> int:
        return len(self.wanted.spans)

    def key(self, segments: int) -> str:
        """The key of S_segments in the store, from 1."""
        link = self.wanted.digests[segments - 1]
        policy = str(self.wanted.max_tokens)
        return summary_key(self.tenant.id, self.writer.model, self.prompt.version, policy, link)

    def segment(self, index: int) -> list[Entry]:
        """The messages of one segment as text, from 0."""
        start, stop = self.wanted.spans[index]
        return entries(self._messages[start:stop])

    async def newest(self, store: Store, keep_s: float, above: int = 0) -> Summary | None:
        """The longest stored summary of more than `above` segments, kept for another `keep_s` seconds. A value that
        does not open counts as missing.
        """
        for batch in _batches(range(len(self), above, -1)):
            keys = [self.key(segments) for segments in batch]
            for segments, key, value in zip(batch, keys, await store.get_many(keys, keep_s), strict=True):
                if (stored := self._opened(key, value)) is not None:
                    spent = Spent(stored.calls, stored.tokens_in, stored.tokens_out)
                    return Summary(segments, stored.text, spent)
        return None

    async def save(self, store: Store, summary: Summary, ttl_s: float) -> None:
        """Store a summary, sealed, for `ttl_s` seconds."""
        key = self.key(summary.segments)
        stored = _Stored(summary.text, *msgspec.structs.astuple(summary.spent))
        await store.set(key, self.tenant.seal(key, msgspec.msgpack.encode(stored)), ttl_s)

    def _opened(self, key: str, value: bytes | None) -> _Stored | None:
        opened = self.tenant.open(key, value)
        return None if opened is None else msgspec.msgpack.decode(opened, type=_Stored)


def _batches(lengths: range) -> Iterator[range]:
    at, batch = 0, 0
    while at < len(lengths):
        size = BATCHES[min(batch, len(BATCHES) - 1)]
        yield lengths[at : at + size]
        at, batch = at + size, batch + 1
