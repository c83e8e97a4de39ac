"""The body of a flight: from a stored summary one step on. Who failed lately is left alone; who succeeds is
stored.

A step reads whole segments as far as one call can; a segment larger than that is read in pieces, each with
the summary of those before it. Only the summary at a segment's end is kept: nobody could ask for one in
between.
"""

from __future__ import annotations

import msgspec
from cachetools import LRUCache

from trimtab.context.estimate.tokens import text_tokens
from trimtab.store.breaker import Breaker
from trimtab.store.protocol import Store
from trimtab.summaries.chain import Chain, Found
from trimtab.summaries.pauses import Pauses
from trimtab.summaries.pieces import Step, next_step
from trimtab.summaries.settings import CompactionSettings
from trimtab.summaries.writing import Author, SummaryCall

FRAME_TOKENS = 100  # the words around the conversation, beside prompt and earlier summary
LEAST_ROOM = 500  # tokens: with less, a call would read more of our own words than of the conversation
PAUSE_S, LONGEST_S = 30.0, 300.0  # for a model whose calls failed three times in a row
AWAY = frozenset(("upstream_unreachable", "upstream_timeout"))  # asked in other words it is away all the same
BREAKERS = 1_000  # tenants and models remembered


class Landing(msgspec.Struct, frozen=True):
    """What a flight came to: a longer summary and its name, or the reason why there is none."""

    found: Found | None
    key: str = ""
    reason: str = ""
    calls: tuple[SummaryCall, ...] = ()


class Maker:
    def __init__(self, settings: CompactionSettings, store: Store, author: Author) -> None:
        self._settings = settings
        self._store = store
        self._author = author
        self._pauses = Pauses(store)
        self._breakers: LRUCache[tuple[bytes, str], Breaker] = LRUCache(BREAKERS)

    async def make(self, chain: Chain, base: Found) -> Landing:
        """One step beyond `base`. A failure is remembered, for this span and for the model."""
        key = chain.key(base.upto + 1)
        if await self._pauses.holds(key):
            return Landing(None, reason="paused")
        if not self._breaker(chain).admits():
            return Landing(None, reason="model_down")
        landing = await self._ride(chain, base) or await self._take(chain, base)
        if landing.found is None:
            await self._pauses.failed(key)
        else:
            await chain.keep(self._store, landing.found, self._settings.ttl_s)
        return landing

    async def _ride(self, chain: Chain, base: Found) -> Landing | None:
        """The whole way in one call, on what was sent; it fitted the model's window once and does so again. None
        where there is nothing to ride on, or where the client's own words stand in the way of ours."""
        if chain.writer.ride is None or not self._settings.ride_prefix:
            return None
        read = [entry for index in range(base.upto, len(chain)) for entry in chain.segment(index)]
        written, call = await self._author.write(chain, base.text, read, ride=True)
        if written is None and call.result not in AWAY:
            return None
        self._judge(chain, call)
        found = None if written is None else Found(len(chain), written)
        return Landing(found, chain.key(len(chain)), "" if found else call.result, (call,))

    async def _take(self, chain: Chain, base: Found) -> Landing:
        step, text, calls = self._step(chain, base), base.text, []
        for piece in step.pieces:
            written, call = await self._author.write(chain, text, piece)
            calls.append(call)
            self._judge(chain, call)
            if written is None:
                return Landing(None, reason=call.result, calls=tuple(calls))
            text = written
        return Landing(Found(step.upto, text), chain.key(step.upto), calls=tuple(calls))

    def _step(self, chain: Chain, base: Found) -> Step:
        most = self._settings.max_read_tokens
        most = min(most, chain.writer.read_tokens or most)
        words = text_tokens(chain.prompt.text) + FRAME_TOKENS
        earlier = max(text_tokens(base.text), chain.wanted.max_tokens)
        room = max(LEAST_ROOM, most - words - earlier)
        return next_step(chain.segment, base.upto, len(chain), room)

    def _judge(self, chain: Chain, call: SummaryCall) -> None:
        """A model that answers is well, whatever the answer is worth."""
        breaker = self._breaker(chain)
        breaker.succeeded() if call.answered else breaker.failed()

    def _breaker(self, chain: Chain) -> Breaker:
        """Per tenant: one tenant's bad key says nothing about another's."""
        who = (chain.tenant.id, chain.writer.model)
        return self._breakers.setdefault(who, Breaker(pause_s=PAUSE_S, longest_s=LONGEST_S))
