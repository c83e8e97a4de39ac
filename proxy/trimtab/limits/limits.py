"""What each model takes, and how the upstream's counts compare with our estimates: the one object the exchange asks.

Sources of a limit, by precedence: configured, environment, discovered, bundled, default; a lesson lowers all of them.
`known` and `factor` run on every request and are lookups in memory. Everything slow happens in background tasks;
`limit_of` waits for the first of them, for a short time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache

from trimtab.calibration.factor import believed
from trimtab.calibration.factors import Factors
from trimtab.limits.discovery import Discovery, Fetch
from trimtab.limits.events import Event, Notify
from trimtab.limits.lessons import Lessons, lowered
from trimtab.limits.limit import Claim, Limit, claim_of, resolve
from trimtab.limits.settings import LimitsSettings, ModelSettings, settings_for
from trimtab.limits.sharing import Sharing
from trimtab.limits.table import Table
from trimtab.store.protocol import Store

_WRITTEN = ("configured", "environment")
_MOST_PAIRS = 4_096  # (upstream, model) pairs whose limit is kept: the names come from clients


class Limits:
    """The limits and factors of every (upstream, model) pair. One per process.

    `notify` is called with every event (see `events`). `store` is shared by replicas; None keeps everything in this
    process.
    """

    def __init__(
        self,
        models: Mapping[str, ModelSettings] | None = None,
        *,
        settings: LimitsSettings | None = None,
        environment: ModelSettings | None = None,
        store: Store | None = None,
        notify: Notify | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        notify = notify or _ignore
        self._models = dict(models or {})
        self._settings = settings or LimitsSettings()
        self._environment = environment or ModelSettings()
        self._without_lessons = lru_cache(_MOST_PAIRS)(self._resolve)
        self._factors = Factors(clock=clock, notify=lambda *event: notify(Event(*event)))
        self._lessons = Lessons(ttl_s=self._settings.learned_ttl_s, clock=clock, notify=notify)
        self._sharing = Sharing(store, self._factors, self._lessons, clock=clock)
        self._discovery = Discovery(
            first_wait_s=self._settings.first_wait_s,
            refresh_s=self._settings.refresh_s,
            clock=clock,
            notify=notify,
            changed=self._without_lessons.cache_clear,
        )

    @cached_property
    def _table(self) -> Table:
        """The model table, read when it is first needed."""
        return Table.load(self._settings.table)

    def known(self, upstream: str, model: str) -> Limit:
        """The limit as known now, without waiting. Quick."""
        limit = self._without_lessons(upstream, model)
        lesson = self._lessons.of(upstream, model)
        return lowered(limit, lesson) if lesson else limit

    async def limit_of(self, upstream: str, model: str, fetch: Fetch) -> Limit:
        """The limit, after asking the upstream where that is due. The first request to an upstream waits at most
        `first_wait_s`, later ones do not wait. Where the window is configured, the upstream is not asked."""
        await self._sharing.sync(upstream, model, self._settings.first_wait_s)
        if self._settings.discover and self._without_lessons(upstream, model).source not in _WRITTEN:
            await self._discovery.ask(upstream, model, fetch)
        return self.known(upstream, model)

    def learn(self, upstream: str, model: str, limit_tokens: int) -> None:
        """Learn from the limit, in tokens, that an overflow names."""
        if self._lessons.learn(upstream, model, self.known(upstream, model), limit_tokens):
            self._sharing.share_lesson(upstream, model)

    def factor(self, upstream: str, model: str) -> float:
        """Tokens that the upstream counts, divided by tokens we estimate. Quick."""
        return self._factors.factor(upstream, model)

    def observe(self, upstream: str, model: str, estimated: int, actual: object, *, accepted: bool = True) -> None:
        """Learn from an upstream's count of a prompt: `usage.prompt_tokens` of an answer, or, with `accepted=False`,
        the count that an overflow reports. `estimated` is the estimate of what was sent, without factor, in tokens.
        Not for a lower bound ("at least N tokens"), and not for our own summary calls."""
        if self._factors.observe(upstream, model, estimated, actual, refused=not accepted):
            self._sharing.share_factor(upstream, model)
        tokens = believed(estimated, actual) if accepted else None
        if tokens is not None and self._lessons.note_accepted(upstream, model, tokens):
            self._sharing.share_lesson(upstream, model)

    def include_usage(self, upstream: str, model: str, estimated: int) -> bool:
        """True when a stream should be asked for its usage, by the setting `ask_usage`. `estimated` is the estimate
        of the request, without factor, in tokens. Quick."""
        wanted = self._settings.ask_usage
        return wanted == "always" or (wanted == "auto" and self._factors.is_stale(upstream, model, estimated))

    async def aclose(self) -> None:
        """End the background tasks; what is being shared is still written."""
        await self._discovery.aclose()
        await self._sharing.aclose()

    def _resolve(self, upstream: str, model: str) -> Limit:
        return resolve(list(self._claims(upstream, model)))

    def _claims(self, upstream: str, model: str) -> Iterator[Claim]:
        if configured := settings_for(self._models, model):
            key, settings = configured
            yield claim_of("configured", f'models."{key}"', settings)
        yield claim_of("environment", "LLM_CONTEXT_SIZE", self._environment)
        if discovered := self._discovery.claim(upstream, model):
            yield discovered
        if found := self._table.find(model, upstream):
            yield found.claim()


def _ignore(_: Event) -> None:
    """The `notify` of those who do not count events."""
