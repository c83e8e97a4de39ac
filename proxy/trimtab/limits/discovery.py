"""Discovery: asking upstreams what they take, in the background.

A round asks one upstream: first for its listing of models, then, when the listing states no window and the server may
be a local one, at the native endpoints of llama.cpp, Ollama, LM Studio and TGI. The first request to an upstream waits
for its round, for a short time; later requests use what is known. A round that found nothing is repeated after a pause
that doubles, so a dead endpoint costs nothing and a model that Ollama loads later is found soon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from trimtab.errors import TrimtabError
from trimtab.limits import endpoints
from trimtab.limits.endpoints import Listing, Nonsense
from trimtab.limits.events import Event, Kind, Notify
from trimtab.limits.limit import Claim
from trimtab.limits.names import forms

T = TypeVar("T")

ROUND_S = 5.0  # seconds; a longer round is abandoned
FIRST_PAUSE_S = 5.0  # seconds after a round that found nothing; doubles with each
_LOCAL = frozenset({"llamacpp", "library"})  # `owned_by` in the listings of llama.cpp and Ollama
_LIGHT = 64 << 10  # bytes of an answer that are read in a few milliseconds
_FEW = 8  # models; so short a listing may be a local server's
_MOST_ASKED = 64  # models that one Ollama is asked about: the names come from clients


class Fetch(Protocol):
    """How a round asks: given to `Discovery.ask` by whoever can call upstreams."""

    async def __call__(self, upstream: str, path: str, body: bytes | None = None) -> bytes | None:
        """The body of a 200, None for any other status. A GET; with `body` a POST of JSON. A path with a leading
        slash (`/props`) is at the server's root, one without (`models`) below the upstream's base URL."""


class _Known(msgspec.Struct):
    """What one upstream stated, and when to ask it again."""

    models: dict[str, Claim] = {}
    every: Claim | None = None  # of a server with a single model: it holds for any name
    due: float = 0.0  # clock seconds of the next round
    pause: float = FIRST_PAUSE_S
    waited: bool = False  # the first request has waited for the first round
    found_at: float = 0.0  # clock seconds of the newest round that found something
    per_model: bool = False  # an Ollama: it is asked about one model at a time,
    asked: set[str] = set()  # and has been asked about these


class Discovery:
    """What upstreams state about their models. `changed` is called when that has changed."""

    def __init__(
        self,
        *,
        first_wait_s: float,
        refresh_s: float,
        clock: Callable[[], float],
        notify: Notify,
        changed: Callable[[], None],
    ) -> None:
        self._first_wait_s, self._refresh_s = first_wait_s, refresh_s
        self._clock, self._notify, self._changed = clock, notify, changed
        self._known: dict[str, _Known] = {}
        self._rounds: dict[str, asyncio.Task[None]] = {}

    def claim(self, upstream: str, model: str) -> Claim | None:
        """What the upstream stated about the model, under any form of its name."""
        known = self._known.get(upstream)
        if known is None:
            return None
        for form, how in forms(model) if known.models else ():
            if found := known.models.get(form):
                return msgspec.structs.replace(found, detail=f"{found.detail} via {how}") if how else found
        return known.every

    def found_at(self, upstream: str) -> float:
        """When the upstream last stated something, in clock seconds; 0 for never."""
        known = self._known.get(upstream)
        return known.found_at if known else 0.0

    def is_due(self, upstream: str, model: str) -> bool:
        """True when `ask` would begin a round, or wait for the first."""
        known = self._known.get(upstream)
        return known is None or not known.waited or self._begins(known, upstream, model)

    def _begins(self, known: _Known, upstream: str, model: str) -> bool:
        due = self._clock() >= known.due or self._is_new(known, upstream, model)
        return due and upstream not in self._rounds

    async def ask(self, upstream: str, model: str, fetch: Fetch) -> None:
        """Start a round if one is due. Waits for it, at most `first_wait_s`, if it is the upstream's first."""
        known = self._known.setdefault(upstream, _Known())
        if self._begins(known, upstream, model):
            self._begin(upstream, model, fetch)
        running = self._rounds.get(upstream)
        if running is not None and not known.waited:
            await asyncio.wait({running}, timeout=self._first_wait_s)
            known.waited = True

    def _is_new(self, known: _Known, upstream: str, model: str) -> bool:
        """True when a server that answers for one model at a time has not been asked about this one."""
        may_ask = known.per_model and len(known.asked) < _MOST_ASKED and model not in known.asked
        return may_ask and self.claim(upstream, model) is None

    def _begin(self, upstream: str, model: str, fetch: Fetch) -> None:
        round_ = _Round(upstream, fetch)
        task = asyncio.create_task(round_.run(model), name=f"discover {upstream}")
        self._rounds[upstream] = task
        task.add_done_callback(lambda done: self._end(upstream, model, round_, done))

    def _end(self, upstream: str, model: str, round_: _Round, task: asyncio.Task[None]) -> None:
        """Keep what the round found, report its outcome, and set the time of the next."""
        del self._rounds[upstream]
        if task.cancelled():
            return
        if task.exception() is not None:  # the round took too long, or `fetch` raised; what it found so far is kept
            round_.outcome = "discovery_unreachable"
        known = self._known[upstream]
        known.per_model = known.per_model or round_.per_model
        known.asked.add(model)
        found = bool(round_.models) or round_.every is not None
        if found:
            known.models = {**known.models, **round_.models}
            known.every = round_.every or known.every
            known.found_at = self._clock()
            self._changed()
        final = found and not round_.provisional and self.claim(upstream, model) is not None
        pause = self._refresh_s if final else min(known.pause, self._refresh_s)
        known.pause = FIRST_PAUSE_S if final else known.pause * 2
        known.due = self._clock() + pause
        self._notify(Event("discovery_found" if found else round_.outcome, upstream, model))

    async def aclose(self) -> None:
        """Cancel the rounds that are running."""
        rounds = list(self._rounds.values())
        for task in rounds:
            task.cancel()
        await asyncio.gather(*rounds, return_exceptions=True)


class _Round:
    """One round of requests to one upstream, and its outcome."""

    def __init__(self, upstream: str, fetch: Fetch) -> None:
        self._upstream, self._fetch = upstream, fetch
        self.models: dict[str, Claim] = {}
        self.every: Claim | None = None
        self.outcome: Kind = "discovery_unreachable"  # until an endpoint answers
        self.per_model = False
        self.provisional = False  # a later round will know better

    async def run(self, model: str) -> None:
        """Ask, for at most ROUND_S seconds. Raises TimeoutError after that; what was found until then is kept."""
        async with asyncio.timeout(ROUND_S):
            listed = await self._get("models", endpoints.listing)
            if listed is not None:
                self.models.update(listed.claims)
            if listed is None or "llamacpp" in listed.owners or (not listed.claims and _may_be_local(listed)):
                await self._native(model)

    async def _native(self, model: str) -> None:
        """Ask at the endpoints of llama.cpp, Ollama, LM Studio and TGI, until one answers."""
        self.every = await self._get("/props", endpoints.props)
        if self.every is not None:
            return
        loaded = await self._get("/api/ps", endpoints.running)
        if loaded is not None:
            await self._ollama(model, loaded)
        elif listed := await self._get("/api/v0/models", endpoints.listing):
            self.models.update(listed.claims)
        else:
            self.every = await self._get("/info", endpoints.info)

    async def _ollama(self, model: str, loaded: dict[str, Claim]) -> None:
        self.per_model = True
        self.models.update(loaded)
        if any(form in loaded for form, _ in forms(model)):
            return
        self.provisional = True  # once the model is loaded, /api/ps lists its window
        if claim := await self._get("/api/show", endpoints.shown, msgspec.json.encode({"model": model})):
            self.models[model.lower()] = claim

    async def _get(self, path: str, read: Callable[[bytes], T], body: bytes | None = None) -> T | None:
        try:
            answer = await self._fetch(self._upstream, path, body)
            found = None if answer is None else await _read(read, answer)
        except Nonsense:
            self.outcome = "discovery_nonsense"
            return None
        except (OSError, TrimtabError):
            return None
        if answer is not None:
            self.outcome = "discovery_silent"
        return found


async def _read(read: Callable[[bytes], T], answer: bytes) -> T:
    """What an answer states. A long one is read in a thread: a listing of megabytes takes a tenth of a second."""
    return read(answer) if len(answer) < _LIGHT else await asyncio.to_thread(read, answer)


def _may_be_local(listed: Listing) -> bool:
    return len(listed.names) <= _FEW or not _LOCAL.isdisjoint(listed.owners)
