"""Fetching the summary a plan wants, or making it: stored, made by someone else right now, or written here.

    newest stored S_j ── j = k ──> hit ── j < k ──> one flight: write S_j and what follows it into one S_i,
    j < i ≤ k; again until i = k

A flight is named by the first segment nobody has summarized, so all who need that segment wait for the same
call. A request waits a bounded time; the flight goes on without it, and the next request finds what it
made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import msgspec
from msgspec import Raw

from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.plan.wanted import SummaryWanted
from trimtab.store.protocol import Store
from trimtab.store.sealed import Keyring
from trimtab.summaries.background import Background
from trimtab.summaries.chain import Chain, Found, Writer
from trimtab.summaries.completion import Complete
from trimtab.summaries.flight import Flights
from trimtab.summaries.making import Landing, Maker
from trimtab.summaries.prompts import Prompts
from trimtab.summaries.settings import CompactionSettings
from trimtab.summaries.writing import Author, SummaryCall


class SummaryOutcome(msgspec.Struct, frozen=True):
    """What a request gets."""

    text: str | None  # for a fallback the newest summary there is, if any: it stands for `covers` segments
    result: Literal["hit", "miss", "fallback"]
    covers: int = 0  # segments, from the first
    text_tokens: int = 0  # estimated size of the text; may exceed what the plan counted
    tokens_in: int = 0  # read and written by the calls this request started and waited for
    tokens_out: int = 0
    calls: int = 0
    seconds: float = 0.0  # spent here
    reason: str = ""  # of a fallback: waited, paused, model_down, or what the last call came to

    def __repr__(self) -> str:
        return f"SummaryOutcome({self.result}, covers={self.covers}, reason={self.reason!r})"  # never the text


class Summarizer:
    def __init__(
        self,
        settings: CompactionSettings,
        store: Store,
        complete: Complete,
        prompts: Prompts,
        on_call: Callable[[SummaryCall], None] = lambda call: None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._prompts = prompts
        self._maker = Maker(settings, store, Author(complete, settings.call_timeout_s, on_call))
        self._keyring = Keyring(settings.secret)
        self._flights: Flights[Landing] = Flights(store)
        self._background = Background(settings.max_background)

    async def fetch(
        self,
        wanted: SummaryWanted,
        messages: Sequence[bytes | Raw],
        writer: Writer,
        wait_s: float | None = None,
    ) -> SummaryOutcome:
        """The wanted summary of `messages` (the client's own, unshaped). Waits `wait_s` at most, by default
        `summary_wait_s`. Never raises for what stores and models do.
        """
        start = time.monotonic()
        chain = self._chain(wanted, messages, writer)
        found = await chain.newest(self._store, self._settings.ttl_s) or Found()
        if found.upto == len(chain):
            return _outcome("hit", found, start)
        until = start + (self._settings.summary_wait_s if wait_s is None else wait_s)
        return await self._extend(chain, found, start, until)

    async def prepare(self, wanted: SummaryWanted, messages: Sequence[bytes | Raw], writer: Writer) -> bool:
        """Have it made beside the requests, if it is not there yet. Whether that was begun."""
        chain = self._chain(wanted, messages, writer)
        chain.background = True
        found = await chain.newest(self._store, self._settings.ttl_s) or Found()
        if found.upto == len(chain):
            return False

        async def job() -> None:
            await self._extend(chain, found, time.monotonic(), None)

        return self._background.start(chain.key(len(chain)), job)

    async def stored(self, wanted: SummaryWanted, writer: Writer) -> int:
        """How many of the wanted segments a stored summary stands for. Calls no one."""
        chain = self._chain(wanted, (), writer)
        return (await chain.newest(self._store, self._settings.ttl_s) or Found()).upto

    async def drain(self, grace_s: float) -> None:
        """Begin nothing more; let calls under way end within `grace_s` seconds, then end them."""
        ends = time.monotonic() + grace_s
        await self._background.drain(grace_s)
        await self._flights.drain(max(0.0, ends - time.monotonic()))

    # -- making --------------------------------------------------------------------------------------------

    async def _extend(self, chain: Chain, found: Found, start: float, until: float | None) -> SummaryOutcome:
        """From `found` to the end of the chain, flight by flight. `until` None: as long as it takes."""
        calls: list[SummaryCall] = []
        while found.upto < len(chain):
            landed = await self._flights.join(
                chain.key(found.upto + 1),
                partial(self._maker.make, chain, found),
                partial(self._landed, chain, found),
                None if until is None else max(0.0, until - time.monotonic()),
            )
            if landed is None:
                return _outcome("fallback", found, start, calls, "waited")
            if landed.led:
                calls += landed.value.calls
            if landed.value.found is None:
                return _outcome("fallback", found, start, calls, landed.value.reason)
            found = await self._mine(chain, landed.value) or found
        return _outcome("miss", found, start, calls)

    async def _mine(self, chain: Chain, landing: Landing) -> Found | None:
        """What a flight made, if it is of this conversation; else what it stored on its way."""
        found = landing.found
        if found is not None and found.upto <= len(chain) and chain.key(found.upto) == landing.key:
            return found
        return await chain.newest(self._store, self._settings.ttl_s)

    async def _landed(self, chain: Chain, base: Found) -> Landing | None:
        """What others have made beyond `base`."""
        found = await chain.newest(self._store, self._settings.ttl_s, above=base.upto)
        return None if found is None else Landing(found, chain.key(found.upto))

    def _chain(self, wanted: SummaryWanted, messages: Sequence[bytes | Raw], writer: Writer) -> Chain:
        tenant = self._keyring.tenant(writer.credential)
        return Chain(wanted, messages, writer, tenant, self._prompts[wanted.hint])


def _outcome(
    result: Literal["hit", "miss", "fallback"],
    found: Found,
    start: float,
    calls: Sequence[SummaryCall] = (),
    reason: str = "",
) -> SummaryOutcome:
    return SummaryOutcome(
        text=found.text if found.upto else None,
        result=result,
        covers=found.upto,
        text_tokens=text_tokens(found.text),
        tokens_in=sum(call.tokens_in for call in calls),
        tokens_out=sum(call.tokens_out for call in calls),
        calls=len(calls),
        seconds=time.monotonic() - start,
        reason=reason,
    )
