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
from trimtab.limits.lesson import lowered
from trimtab.limits.lessons import ANYONE, Caller, Lessons
from trimtab.limits.limit import Claim, Limit, claim_of, resolve
from trimtab.limits.settings import LimitsSettings, ModelSettings, settings_for
from trimtab.limits.sharing import Sharing
from trimtab.limits.table import Table
from trimtab.store.protocol import Store

_WRITTEN = ("configured", "environment")
_MOST_PAIRS = 4_096  # (upstream, model) pairs whose limit is kept: the names come from clients


class Limits:
    """The limits and factors of every (upstream, model) pair. One per process. Raises OSError or ValueError for a
    configured table that cannot be read.

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
        if self._settings.table:
            self._table = Table.load(self._settings.table)  # now: the first request would be too late to find it broken
        self._resolved = lru_cache(_MOST_PAIRS)(self._resolve)
        self._factors = Factors(clock=clock, notify=lambda *event: notify(Event(*event)))
        self._lessons = Lessons(
            ttl_s=self._settings.learned_ttl_s, retry_s=self._settings.refresh_s, clock=clock, notify=notify
        )
        self._sharing = Sharing(store, self._factors, self._lessons, clock=clock)
        self._discovery = Discovery(
            first_wait_s=self._settings.first_wait_s,
            refresh_s=self._settings.refresh_s,
            clock=clock,
            notify=notify,
            changed=self._resolved.cache_clear,
        )

    @cached_property
    def _table(self) -> Table:
        """The model table, read when it is first needed."""
        return Table.load(self._settings.table)

    def configure(self, models: Mapping[str, ModelSettings]) -> None:
        """Let other configured limits hold from now on."""
        self._models = dict(models)
        self._resolved.cache_clear()

    def known(self, upstream: str, model: str, caller: Caller = ANYONE) -> Limit:
        """The limit for `caller` as known now, without waiting. Quick."""
        limit = self.without_lessons(upstream, model)
        lesson = self._lessons.of(upstream, model, caller)
        return lowered(limit, lesson) if lesson else limit

    def without_lessons(self, upstream: str, model: str) -> Limit:
        """The limit as it is written or listed. Quick."""
        return self._resolved(upstream, model)

    def settled(self, upstream: str, model: str, caller: Caller = ANYONE) -> Limit | None:
        """The limit for `caller` where nobody is to be asked for it first; None where `limit_of` asks the store or the
        upstream, or compares a listing with a lesson. Quick."""
        if self._sharing.is_due(upstream, model):
            return None
        limit = self._resolved(upstream, model)
        if self._settings.discover and limit.source not in _WRITTEN:
            return None if self._lessons.any or self._discovery.is_due(upstream, model) else limit
        return self.known(upstream, model, caller) if self._lessons.any else limit

    async def limit_of(self, upstream: str, model: str, fetch: Fetch, caller: Caller = ANYONE) -> Limit:
        """The limit, after asking the upstream where that is due. The first request to an upstream waits at most
        `first_wait_s`, later ones do not wait. Where the window is configured, the upstream is not asked."""
        await self._sharing.sync(upstream, model, self._settings.first_wait_s)
        if self._settings.discover and self.without_lessons(upstream, model).source not in _WRITTEN:
            await self._discovery.ask(upstream, model, fetch)
            self._compare_with_listing(upstream, model, caller)
        return self.known(upstream, model, caller)

    def learn(
        self, upstream: str, model: str, limit_tokens: int, caller: Caller = ANYONE, *, agreed: bool = False
    ) -> None:
        """Learn from the limit, in tokens, that an overflow of what `caller` sent names. `agreed`: the overflow counted
        what was sent. Then, or where a listing states the same number, all tenants and replicas learn it."""
        limit = self.without_lessons(upstream, model)
        agreed = agreed or limit_tokens in self._listed_numbers(upstream, model)
        if self._lessons.learn(upstream, model, limit, limit_tokens, caller, agreed=agreed):
            self._share_lesson(upstream, model, caller)

    def learn_refused(self, upstream: str, model: str, tokens: int, caller: Caller = ANYONE) -> None:
        """Learn from an overflow that names no limit, after which a request of at most `tokens` was accepted."""
        limit = self.without_lessons(upstream, model)
        if self._lessons.learn_refused(upstream, model, limit, tokens, caller):
            self._share_lesson(upstream, model, caller)

    def may_try_larger(self, upstream: str, model: str, caller: Caller = ANYONE) -> bool:
        """True, now and then, when a request that a lesson would shape may be sent to see whether it still holds."""
        return self._lessons.may_try_larger(upstream, model, caller)

    def factor(self, upstream: str, model: str, caller: Caller = ANYONE) -> float:
        """Tokens that the upstream counts of what `caller` sends, divided by tokens we estimate. Quick."""
        return self._factors.factor(upstream, model, caller.tenant)

    def observe(
        self,
        upstream: str,
        model: str,
        estimated: int,
        actual: object,
        caller: Caller = ANYONE,
        *,
        accepted: bool = True,
    ) -> None:
        """Learn from an upstream's count of a prompt: `usage.prompt_tokens` of an answer, or, with `accepted=False`,
        the count that an overflow reports. `estimated` is the estimate of what was sent, without factor, in tokens.
        Not for a lower bound ("at least N tokens"), and not for our own summary calls."""
        if self._factors.observe(upstream, model, estimated, actual, caller.tenant, refused=not accepted):
            self._sharing.share_factor(upstream, model)
        tokens = believed(estimated, actual) if accepted else None
        if tokens is not None and self._lessons.note_accepted(upstream, model, tokens, caller):
            self._share_lesson(upstream, model, caller)

    def include_usage(self, upstream: str, model: str, estimated: int, caller: Caller = ANYONE) -> bool:
        """True when a stream should be asked for its usage, by the setting `ask_usage`. `estimated` is the estimate
        of the request, without factor, in tokens. Quick."""
        wanted = self._settings.ask_usage
        if wanted != "auto":
            return wanted == "always"
        return self._factors.is_stale(upstream, model, estimated, caller.tenant)

    async def aclose(self) -> None:
        """End the background tasks; what is being shared is still written."""
        await self._discovery.aclose()
        await self._sharing.aclose()

    def _share_lesson(self, upstream: str, model: str, caller: Caller) -> None:
        """Write what holds for all tenants. A lesson about one route stays in this process."""
        if not caller.route:
            self._sharing.share_lesson(upstream, model)

    def _compare_with_listing(self, upstream: str, model: str, caller: Caller) -> None:
        claim = self._discovery.claim(upstream, model)
        if claim is None or claim.context_size is None or not claim.trusted:
            return
        found_at = self._discovery.found_at(upstream)
        if self._lessons.note_listed(upstream, model, claim.context_size, found_at, caller):
            self._share_lesson(upstream, model, caller)

    def _listed_numbers(self, upstream: str, model: str) -> set[int | None]:
        """The windows and input caps that any source states, those below the first one too."""
        claims = list(self._claims(upstream, model))
        return {number for claim in claims for number in (claim.context_size, claim.max_input_tokens)}

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
