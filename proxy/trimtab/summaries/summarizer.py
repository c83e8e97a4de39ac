"""The summary a plan wants: read from the store, shared with whoever is making it now, or made here.

    newest stored S_j ── j = k ──> hit
                      ── j < k ──> one flight: from S_j to some S_i, j < i ≤ k; again until i = k ──> miss

A flight has the key of the first segment without a summary, so all who need that segment wait for the same call. A
request waits a bounded time; the flight goes on without it, and the next request finds its result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

import msgspec
from msgspec import Raw

from trimtab.context.plan.wanted import SummaryWanted
from trimtab.context.policy import Hint
from trimtab.store.protocol import Store
from trimtab.store.sealed import Keyring
from trimtab.summaries.chain import Chain, Spent, Summary, Writer
from trimtab.summaries.completion import Complete
from trimtab.summaries.flight import Background, Flights, Joined
from trimtab.summaries.making import Attempt, Maker
from trimtab.summaries.prompts import Prompt
from trimtab.summaries.settings import CompactionSettings
from trimtab.summaries.writing import Author, SummaryCall


class SummaryOutcome(msgspec.Struct, frozen=True):
    """What a request gets. A fallback has the newest shorter summary, if there is one."""

    text: str | None
    result: Literal["hit", "miss", "fallback"]
    covers: int = 0  # segments in the text, from the first
    tokens_in: int = 0  # read and written by the calls that this request started and waited for
    tokens_out: int = 0
    spent: Spent = Spent()  # on this summary and those before it, by all requests
    cause: str = ""  # of a fallback: what the call failed with, `late`, or `paused` after earlier failures

    def __repr__(self) -> str:
        return f"SummaryOutcome({self.result}, covers={self.covers})"  # never the text


class Summarizer:
    """All summaries of one process. `complete` makes one call of a model; `on_call` gets a report of each."""

    def __init__(
        self,
        settings: CompactionSettings,
        store: Store,
        complete: Complete,
        prompts: Mapping[Hint, Prompt],
        on_call: Callable[[SummaryCall], None] = lambda call: None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._prompts = prompts
        self._maker = Maker(settings, store, Author(complete, settings.call_timeout_s, on_call))
        self._keyring = Keyring(settings.secret)
        self._flights: Flights[Attempt] = Flights(store)
        self._background = Background(settings.max_background)

    async def fetch(self, wanted: SummaryWanted, messages: Sequence[bytes | Raw], writer: Writer) -> SummaryOutcome:
        """The wanted summary of `messages` (the client's own, unshaped). Waits `summary_wait_s` seconds at most. Never
        raises for a failure of the store or the model.
        """
        until = time.monotonic() + self._settings.summary_wait_s
        chain = self._chain(wanted, messages, writer)
        newest = await self._newest(chain)
        if newest.segments == len(chain):
            return _outcome("hit", newest)
        return await self._extend(chain, newest, until)

    async def prepare(self, wanted: SummaryWanted, messages: Sequence[bytes | Raw], writer: Writer) -> bool:
        """Make the summary in the background. False when it is stored, is being made, or all places are taken."""
        chain = self._chain(wanted, messages, msgspec.structs.replace(writer, background=True))
        newest = await self._newest(chain)
        if newest.segments == len(chain):
            return False

        async def job() -> None:
            await self._extend(chain, newest, None)

        return self._background.start(chain.key(len(chain)), job)

    async def stored(self, wanted: SummaryWanted, writer: Writer) -> str | None:
        """The stored summary of all wanted segments; None where there is none. Makes no call."""
        newest = await self._newest(self._chain(wanted, (), writer))
        return newest.text if newest.segments == len(wanted.spans) else None

    async def spent(self, wanted: SummaryWanted, writer: Writer) -> Spent:
        """What the newest stored summary of the wanted segments cost. Makes no call."""
        return (await self._newest(self._chain(wanted, (), writer))).spent

    async def drain(self, grace_s: float) -> None:
        """Start nothing more; wait `grace_s` seconds for calls under way, then cancel them."""
        ends = time.monotonic() + grace_s
        await self._background.drain(grace_s)
        await self._flights.drain(max(0.0, ends - time.monotonic()))

    # -- making --------------------------------------------------------------------------------------------

    async def _extend(self, chain: Chain, base: Summary, until: float | None) -> SummaryOutcome:
        """From `base` to the end of the chain, flight by flight. `until` None: as long as it takes."""
        calls: list[SummaryCall] = []
        while base.segments < len(chain):
            joined = await self._flights.join(
                chain.key(base.segments + 1),
                partial(self._maker.make, chain, base),
                partial(self._made_elsewhere, chain, base),
                None if until is None else max(0.0, until - time.monotonic()),
            )
            if joined is not None and joined.started:
                calls += joined.value.calls
            if joined is None or joined.value.summary is None:
                return _outcome("fallback", base, calls, _cause(joined))
            base = await self._of(chain, joined.value) or base
        return _outcome("miss", base, calls)

    async def _of(self, chain: Chain, attempt: Attempt) -> Summary | None:
        """The summary an attempt made, if it belongs to this chain. A flight may have gone on into another branch of
        the conversation; then the newest of this one.
        """
        made = attempt.summary
        if made is not None and made.segments <= len(chain) and chain.key(made.segments) == attempt.key:
            return made
        return await chain.newest(self._store, self._settings.ttl_s)

    async def _made_elsewhere(self, chain: Chain, base: Summary) -> Attempt | None:
        """A stored summary that is longer than `base`."""
        found = await chain.newest(self._store, self._settings.ttl_s, above=base.segments)
        return None if found is None else Attempt(found, chain.key(found.segments))

    async def _newest(self, chain: Chain) -> Summary:
        return await chain.newest(self._store, self._settings.ttl_s) or Summary()

    def _chain(self, wanted: SummaryWanted, messages: Sequence[bytes | Raw], writer: Writer) -> Chain:
        tenant = self._keyring.tenant(writer.credential if writer.tenant is None else writer.tenant)
        return Chain(wanted, messages, writer, tenant, self._prompts[wanted.hint])


def _outcome(
    result: Literal["hit", "miss", "fallback"], summary: Summary, calls: Sequence[SummaryCall] = (), cause: str = ""
) -> SummaryOutcome:
    return SummaryOutcome(
        text=summary.text if summary.segments else None,
        result=result,
        covers=summary.segments,
        tokens_in=sum(call.tokens_in for call in calls),
        tokens_out=sum(call.tokens_out for call in calls),
        spent=summary.spent,
        cause=cause,
    )


def _cause(joined: Joined[Attempt] | None) -> str:
    """Why a flight brought no summary."""
    if joined is None:
        return "late"
    return joined.value.calls[-1].result if joined.value.calls else "paused"
