"""One step from a stored summary to a longer one. What failed lately is left alone; what succeeds is stored.

A step reads whole segments as far as one call can; a segment larger than that is read in pieces, each with the summary
of those before it. Only a summary that ends with a segment is stored: no request asks for one in between.
"""

from __future__ import annotations

import msgspec
from lru import LRU

from trimtab.context.estimate.tokens import text_tokens
from trimtab.store.breaker import Breaker
from trimtab.store.protocol import Store
from trimtab.summaries.chain import Chain, Spent, Summary
from trimtab.summaries.pauses import Pauses
from trimtab.summaries.pieces import Step, next_step
from trimtab.summaries.settings import CompactionSettings
from trimtab.summaries.writing import Author, SummaryCall

FRAME_TOKENS = 100  # the words around the conversation, beside prompt and earlier summary
LEAST_ROOM = 500  # tokens: with less, a call would read more of our own words than of the conversation
PAUSE_S, LONGEST_S = 30.0, 300.0  # for a model whose calls failed three times in a row
AWAY = frozenset(("upstream_unreachable", "upstream_timeout"))  # another form of the call would meet the same
BREAKERS = 1_000  # pairs of tenant and model remembered


class Attempt(msgspec.Struct, frozen=True):
    """The result of one step: a longer summary and its key, or None; and the calls it took."""

    summary: Summary | None = None
    key: str = ""
    calls: tuple[SummaryCall, ...] = ()


def _is_away(attempt: Attempt) -> bool:
    """Whether the last call did not reach the model."""
    return bool(attempt.calls) and attempt.calls[-1].result in AWAY


def _spent(base: Summary, calls: tuple[SummaryCall, ...]) -> Spent:
    """What the summary before it cost, and its own calls, the rejected ones among them."""
    before = base.spent
    return Spent(
        before.calls + len(calls),
        before.tokens_in + sum(call.tokens_in for call in calls),
        before.tokens_out + sum(call.tokens_out for call in calls),
    )


class Maker:
    """Makes summaries, one step at a time, and remembers which models and which summaries fail."""

    def __init__(self, settings: CompactionSettings, store: Store, author: Author) -> None:
        self._settings = settings
        self._store = store
        self._author = author
        self._pauses = Pauses(store)
        self._breakers: LRU[tuple[bytes, str], Breaker] = LRU(BREAKERS)

    async def make(self, chain: Chain, base: Summary) -> Attempt:
        """One step beyond `base`; no call at all while the step is paused or its model is down."""
        key = chain.key(base.segments + 1)
        if await self._pauses.is_paused(key) or not self._breaker(chain).admits():
            return Attempt()
        attempt = await self._append(chain, base)
        if attempt.summary is None and not _is_away(attempt):
            read = await self._read(chain, base)
            attempt = Attempt(read.summary, read.key, attempt.calls + read.calls)
        if attempt.summary is None:
            await self._pauses.record_failure(key)
            return attempt
        paid = msgspec.structs.replace(attempt.summary, spent=_spent(base, attempt.calls))
        await chain.save(self._store, paid, self._settings.ttl_s)
        return msgspec.structs.replace(attempt, summary=paid)

    async def _append(self, chain: Chain, base: Summary) -> Attempt:
        """All segments in one call, appended to the request that was sent: it fitted the model's window, and does so
        again. Without a summary where there is no such request, or where the answer was rejected: the client's own
        instructions may have overruled ours.
        """
        if chain.writer.prefix is None or not self._settings.ride_prefix:
            return Attempt()
        read = [entry for index in range(base.segments, len(chain)) for entry in chain.segment(index)]
        text, call = await self._author.write(chain, base.text, read, append=True)
        if text is None and call.result not in AWAY:
            return Attempt(calls=(call,))
        self._judge(chain, call)
        summary = None if text is None else Summary(len(chain), text)
        return Attempt(summary, chain.key(len(chain)), (call,))

    async def _read(self, chain: Chain, base: Summary) -> Attempt:
        """As many segments as one call can read, or one segment in pieces."""
        step, text, calls = self._step(chain, base), base.text, []
        for piece in step.pieces:
            written, call = await self._author.write(chain, text, piece)
            calls.append(call)
            self._judge(chain, call)
            if written is None:
                return Attempt(calls=tuple(calls))
            text = written
        return Attempt(Summary(step.segments, text), chain.key(step.segments), tuple(calls))

    def _step(self, chain: Chain, base: Summary) -> Step:
        most = self._settings.max_read_tokens
        most = min(most, chain.writer.read_tokens or most)
        words = text_tokens(chain.prompt.text) + FRAME_TOKENS
        earlier = max(text_tokens(base.text), chain.wanted.max_tokens)
        room = max(LEAST_ROOM, most - words - earlier)
        return next_step(chain.segment, base.segments, len(chain), room)

    def _judge(self, chain: Chain, call: SummaryCall) -> None:
        """A model that answers is up, however good the answer is."""
        breaker = self._breaker(chain)
        breaker.succeeded() if call.answered else breaker.failed()

    def _breaker(self, chain: Chain) -> Breaker:
        """Per tenant: one tenant's bad key says nothing about another's."""
        pair = (chain.tenant.id, chain.writer.model)
        return self._breakers.setdefault(pair, Breaker(pause_s=PAUSE_S, longest_s=LONGEST_S))
