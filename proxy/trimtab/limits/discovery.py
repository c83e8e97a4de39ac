"""Asking upstreams what they take, off the request path.

One background round per upstream: its listing of models, then, when that states no window and the server
may be a local one, the native endpoints of PROBES. The first request that needs an answer waits a short
time, once per upstream; afterwards answers are what is known. A round that found nothing is repeated after
a pause that doubles, so a dead endpoint costs nothing, and a model that Ollama loads later is found soon.

`fetch(upstream, path, body)` is an argument: a GET, or a POST of JSON when there is a body. A path without
a leading slash is relative to the upstream's base URL (`models` is `…/v1/models`), one with a slash is at
the server's root (`/props`). It gives the body of a 200, and None for everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from trimtab.errors import TrimtabError
from trimtab.limits import served
from trimtab.limits.claims import Claim
from trimtab.limits.events import Event, Kind, Notify
from trimtab.limits.names import forms
from trimtab.limits.served import Listing, Nonsense

T = TypeVar("T")

ROUND_S = 5.0  # a round that takes longer is given up
FIRST_PAUSE_S = 5.0  # after a round that found nothing; doubles
_LOCAL = frozenset({"llamacpp", "library"})  # `owned_by` in the listings of llama.cpp and Ollama
_FEW = 8  # a listing this short may be a local server's
_MOST_SHOWN = 64  # models an Ollama is asked about: names come from clients


class Fetch(Protocol):
    async def __call__(self, upstream: str, path: str, body: bytes | None = None) -> bytes | None: ...


class _Said(msgspec.Struct):
    """What one upstream said, and when to ask again. `every` holds for whatever name: a single-model server.
    `shown` are the models an Ollama was asked about, each once a round at most."""

    models: dict[str, Claim] = {}
    every: Claim | None = None
    due: float = 0.0  # clock seconds
    pause: float = FIRST_PAUSE_S
    waited: bool = False
    per_model: bool = False
    shown: set[str] = set()


class Discovery:
    """What upstreams said of themselves. `changed` is called when claims have changed."""

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
        self._said: dict[str, _Said] = {}
        self._rounds: dict[str, asyncio.Task[None]] = {}

    def claim(self, upstream: str, model: str) -> Claim | None:
        """What the upstream said of the model, under any form of its name."""
        said = self._said.get(upstream)
        if said is None:
            return None
        for form, how in forms(model) if said.models else ():
            if found := said.models.get(form):
                return msgspec.structs.replace(found, detail=f"{found.detail} via {how}") if how else found
        return said.every

    async def ask(self, upstream: str, model: str, fetch: Fetch) -> None:
        """Start a round if one is due; wait for it a short time if it is the upstream's first."""
        said = self._said.setdefault(upstream, _Said())
        if upstream not in self._rounds and (self._clock() >= said.due or self._new_to(said, upstream, model)):
            self._begin(upstream, model, fetch)
        running = self._rounds.get(upstream)
        if running is not None and not said.waited:
            await asyncio.wait({running}, timeout=self._first_wait_s)
            said.waited = True

    def _new_to(self, said: _Said, upstream: str, model: str) -> bool:
        """A server that answers for one model at a time has not been asked about this one."""
        few = said.per_model and len(said.shown) < _MOST_SHOWN and model not in said.shown
        return few and self.claim(upstream, model) is None

    def _begin(self, upstream: str, model: str, fetch: Fetch) -> None:
        asking = _Round(upstream, fetch)
        task = asyncio.create_task(asking.run(model), name=f"discover {upstream}")
        self._rounds[upstream] = task
        task.add_done_callback(lambda done: self._end(upstream, model, asking, done))

    def _end(self, upstream: str, model: str, asking: _Round, task: asyncio.Task[None]) -> None:
        """Keep what the round found, say what came of it, and set the time of the next."""
        del self._rounds[upstream]
        if task.cancelled():
            return
        if task.exception() is not None:  # a hang, or whatever `fetch` raises: found is found all the same
            asking.outcome = "discovery_unreachable"
        said = self._said[upstream]
        said.per_model = said.per_model or asking.per_model
        said.shown.add(model)
        found = bool(asking.models) or asking.every is not None
        if found:
            said.models = {**said.models, **asking.models}
            said.every = asking.every or said.every
            self._changed()
        firm = found and not asking.provisional and self.claim(upstream, model) is not None
        pause = self._refresh_s if firm else min(said.pause, self._refresh_s)
        said.pause = FIRST_PAUSE_S if firm else said.pause * 2
        said.due = self._clock() + pause
        self._notify(Event("discovery_found" if found else asking.outcome, upstream, model))

    async def aclose(self) -> None:
        """Give up the rounds that are running."""
        rounds = list(self._rounds.values())
        for task in rounds:
            task.cancel()
        await asyncio.gather(*rounds, return_exceptions=True)


class _Round:
    """One round of questions to one upstream, and what came of it."""

    def __init__(self, upstream: str, fetch: Fetch) -> None:
        self._upstream, self._fetch = upstream, fetch
        self.models: dict[str, Claim] = {}
        self.every: Claim | None = None
        self.outcome: Kind = "discovery_unreachable"  # until something answers
        self.per_model = False
        self.provisional = False  # a better answer is to be had soon

    async def run(self, model: str) -> None:
        """Raises TimeoutError when the upstream takes too long; what was found until then stands."""
        async with asyncio.timeout(ROUND_S):
            listed = await self._get("models", served.listing)
            if listed is not None:
                self.models.update(listed.claims)
            if listed is None or "llamacpp" in listed.owners or (not listed.claims and _may_be_local(listed)):
                await self._native(model)

    async def _native(self, model: str) -> None:
        """The endpoints of llama.cpp, Ollama, LM Studio and TGI, until one answers."""
        self.every = await self._get("/props", served.props)
        if self.every is not None:
            return
        loaded = await self._get("/api/ps", served.running)
        if loaded is not None:
            await self._ollama(model, loaded)
        elif held := await self._get("/api/v0/models", served.listing):
            self.models.update(held.claims)
        else:
            self.every = await self._get("/info", served.info)

    async def _ollama(self, model: str, loaded: dict[str, Claim]) -> None:
        self.per_model = True
        self.models.update(loaded)
        if any(form in loaded for form, _ in forms(model)):
            return
        self.provisional = True  # once it is loaded, /api/ps tells
        if claim := await self._get("/api/show", served.shown, msgspec.json.encode({"model": model})):
            self.models[model.lower()] = claim

    async def _get(self, path: str, read: Callable[[bytes], T], body: bytes | None = None) -> T | None:
        try:
            answer = await self._fetch(self._upstream, path, body)
            said = None if answer is None else read(answer)
        except Nonsense:
            self.outcome = "discovery_nonsense"
            return None
        except (OSError, TrimtabError):
            return None
        if answer is not None:
            self.outcome = "discovery_silent"
        return said


def _may_be_local(listed: Listing) -> bool:
    return len(listed.names) <= _FEW or not _LOCAL.isdisjoint(listed.owners)
