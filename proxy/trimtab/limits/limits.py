"""What each model takes and how its tokens compare with our estimates: the one object the exchange asks.

Sources of a limit, in order: configured, environment, discovered, bundled, default; a limit learned from an
overflow lowers all of them. `known` and `factor` run on every request and are dictionary hits; everything
slow happens in background tasks, of which `limit_of` awaits the first for a short time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from trimtab.calibration.factor import believed
from trimtab.calibration.factors import Calibrations
from trimtab.limits.claims import Claim, from_settings, from_table
from trimtab.limits.discovery import Discovery, Fetch
from trimtab.limits.events import Event, Notify
from trimtab.limits.learned import lowered
from trimtab.limits.lessons import Lessons
from trimtab.limits.limit import Limit
from trimtab.limits.resolve import resolve
from trimtab.limits.settings import LimitsSettings, ModelSettings, settings_for
from trimtab.limits.sharing import Sharing
from trimtab.limits.store import Store
from trimtab.limits.table import Origin, Table

_WRITTEN = ("configured", "environment")
_MOST_KNOWN = 4_096  # (upstream, model) pairs whose answer is kept: names come from clients


class Pair(msgspec.Struct, frozen=True):
    """What is known of one (upstream, model): for `trimtab models` and the metrics."""

    upstream: str
    model: str
    limit: Limit
    factor: float
    observations: int
    coherent: bool
    moves: int
    needs_usage: bool


class Snapshot(msgspec.Struct, frozen=True):
    """Every pair heard from, the events counted by kind, and the bundled table's origin."""

    pairs: list[Pair]
    events: dict[str, int]
    table: Origin


class Limits:
    """The limits and factors of every (upstream, model) pair. One per process.

    `notify` is told of every event (see `events`); `store` is what replicas share, None where there is one.
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
        self._models = dict(models or {})
        self._settings = settings or LimitsSettings()
        self._environment = environment or ModelSettings()
        self._tell = notify or (lambda _: None)
        self._events: Counter[str] = Counter()
        self._table: Table | None = None
        self._known: dict[tuple[str, str], Limit] = {}
        self._calibrations = Calibrations(clock=clock, notify=lambda *event: self._notify(Event(*event)))
        self._lessons = Lessons(ttl_s=self._settings.learned_ttl_s, clock=clock, notify=self._notify)
        self._sharing = Sharing(store, self._calibrations, self._lessons, clock=clock)
        self._discovery = Discovery(
            first_wait_s=self._settings.first_wait_s,
            refresh_s=self._settings.refresh_s,
            clock=clock,
            notify=self._notify,
            changed=self._known.clear,
        )

    @property
    def table(self) -> Table:
        """The bundled table, read when first asked for."""
        if self._table is None:
            self._table = Table.load(self._settings.table)
        return self._table

    def known(self, upstream: str, model: str) -> Limit:
        """What is known now, without waiting for anything. Quick."""
        limit = self._stated(upstream, model)
        learned = self._lessons.of(upstream, model)
        return lowered(limit, learned) if learned else limit

    async def limit_of(self, upstream: str, model: str, fetch: Fetch) -> Limit:
        """What is known, after asking the upstream where that is due. The first request to an upstream waits
        at most `first_wait_s`; later ones do not. Where the window is configured, nothing is asked."""
        await self._sharing.sync(upstream, model, self._settings.first_wait_s)
        if self._settings.discover and self._stated(upstream, model).source not in _WRITTEN:
            await self._discovery.ask(upstream, model, fetch)
        return self.known(upstream, model)

    def learn(self, upstream: str, model: str, limit_tokens: int, *, input_only: bool = False) -> bool:
        """Learn from the limit that an overflow error names. `input_only`: it said that it is the input's.
        Gives whether the model's limit is lower now."""
        lower = self._lessons.learn(upstream, model, self.known(upstream, model), limit_tokens, input_only)
        if lower:
            self._sharing.share_lesson(upstream, model)
        return lower

    def factor(self, upstream: str, model: str) -> float:
        """Tokens of the model per token of our estimate. Quick."""
        return self._calibrations.factor(upstream, model)

    def observe(self, upstream: str, model: str, estimated: int, actual: object, *, accepted: bool = True) -> None:
        """Learn from a response's `usage.prompt_tokens`, or, with `accepted=False`, from the count that an
        overflow error reports. `estimated` is the estimate of what was sent, without factor, in tokens.
        Never for a lower bound ("at least N tokens"), never for our own summary calls."""
        if self._calibrations.observe(upstream, model, estimated, actual, refused=not accepted):
            self._sharing.share_factor(upstream, model)
        taken = believed(estimated, actual) if accepted else None
        if taken is not None and self._lessons.taken(upstream, model, taken):
            self._sharing.share_lesson(upstream, model)

    def needs_usage(self, upstream: str, model: str, estimated: int = 0) -> bool:
        """Should a stream be asked for its usage? While the factor is unknown or stale, or `estimated` tokens
        (without factor) are far more than it was learned from. Quick."""
        return self._calibrations.needs_usage(upstream, model, estimated)

    def asks_usage(self, upstream: str, model: str, estimated: int) -> bool:
        """Whether a stream is to be asked for its usage, by the setting `ask_usage`. Quick."""
        wanted = self._settings.ask_usage
        return wanted == "always" or (wanted == "auto" and self.needs_usage(upstream, model, estimated))

    def snapshot(self) -> Snapshot:
        """Everything known, for people and metrics."""
        pairs = sorted({*self._calibrations.pairs(), *self._known})
        return Snapshot([self._pair(*pair) for pair in pairs], dict(self._events), self.table.origin)

    async def aclose(self) -> None:
        """End the background tasks; what is being shared is written."""
        await self._discovery.aclose()
        await self._sharing.aclose()

    def _stated(self, upstream: str, model: str) -> Limit:
        key = (upstream, model)
        limit = self._known.get(key)
        if limit is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            limit = self._known[key] = resolve(list(self._claims(upstream, model)))
        return limit

    def _claims(self, upstream: str, model: str) -> Iterator[Claim]:
        if configured := settings_for(self._models, model):
            key, settings = configured
            yield from_settings("configured", f'models."{key}"', settings)
        yield from_settings("environment", "LLM_CONTEXT_SIZE", self._environment)
        if said := self._discovery.claim(upstream, model):
            yield said
        if found := self.table.find(model, upstream):
            yield from_table(found)

    def _pair(self, upstream: str, model: str) -> Pair:
        state = self._calibrations.state(upstream, model)
        return Pair(
            upstream=upstream,
            model=model,
            limit=self.known(upstream, model),
            factor=self.factor(upstream, model),
            observations=state.count if state else 0,
            coherent=state.coherent if state else True,
            moves=state.moves if state else 0,
            needs_usage=self.needs_usage(upstream, model),
        )

    def _notify(self, event: Event) -> None:
        self._events[event.kind] += 1
        self._tell(event)
