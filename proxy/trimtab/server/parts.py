"""From the settings to the parts of a running proxy, and their orderly end.

This is the only place that knows every part; each part gets what it needs as an argument.
"""

from __future__ import annotations

import os
from typing import TextIO
from urllib.parse import urlsplit

import stamina

from trimtab import __version__
from trimtab.conversations.archive import Archive
from trimtab.conversations.conversations import Conversations
from trimtab.conversations.histories import Histories
from trimtab.conversations.settings import open_archive
from trimtab.errors import UnknownModel
from trimtab.exchange.access import Access
from trimtab.exchange.calls import Calls
from trimtab.exchange.decider import Decider
from trimtab.exchange.gateway import Gateway
from trimtab.exchange.incoming import Bounds
from trimtab.exchange.notes import prices
from trimtab.exchange.planning import Services
from trimtab.exchange.policies import Policies
from trimtab.exchange.summary_call import Compaction
from trimtab.exchange.summary_completion import complete
from trimtab.exchange.summary_window import SummaryWindow
from trimtab.limits import Limits, from_environment
from trimtab.limits.events import Event
from trimtab.server.load import Load
from trimtab.server.memory import bodies_within, memory_limit, remembered_within
from trimtab.server.startup import prompts_of
from trimtab.server.watch import Watches
from trimtab.settings import Settings
from trimtab.store.settings import RedisSettings, open_store
from trimtab.summaries.completion import Completion, CompletionRequest
from trimtab.summaries.settings import CompactionSettings
from trimtab.summaries.summarizer import Summarizer
from trimtab.summaries.writing import SummaryCall
from trimtab.telemetry import Prices, SummaryRun, Telemetry, open_telemetry
from trimtab.ui.ring import Ring
from trimtab.upstream.client import Client

_MB = 1 << 20
_SUMMARY_GRACE_S = 5.0  # seconds that calls of the summary model get to finish when the server stops


class Parts:
    """All parts of one process. Made once; `aclose` when the server stops. Raises ConfigError."""

    def __init__(self, settings: Settings, *, log: TextIO | None = None) -> None:
        server = settings.server
        self.settings = settings
        stamina.instrumentation.set_on_retry_hooks([])  # tries are counted in the record of the exchange
        self.telemetry: Telemetry = open_telemetry(
            settings.telemetry,
            version=__version__,
            models=_named(settings),
            upstreams=[upstream.name for upstream in settings.upstreams],
            stream=log,
        )
        self.client = Client()
        self.store = open_store(
            settings.redis,
            (settings.compaction or CompactionSettings()).memory_mb,
            self._redis_failed,
            self.telemetry.log.redis,
        )
        if settings.redis is not None:
            self._watch_redis(settings.redis)
        self._archive: Archive | None = None
        self._window: SummaryWindow | None = None  # of a summary model of its own
        self._conversations = self._open_conversations(settings)
        self.limits = Limits(
            settings.models,
            settings=settings.limits,
            environment=from_environment(os.environ),
            store=self.store if settings.redis else None,
            notify=self._limits_changed,
        )
        access, self.calls = self._calls(settings)
        self.ring = Ring(settings.ui) if settings.serves_ui else None
        self.summarizer = self._summarizer()
        remembered = server.remembered_mb * _MB if server.remembered_mb else remembered_within(memory_limit())
        self.decider = Decider(self.limits, _policies(settings), remembered)
        self.gateway = Gateway(self._services(settings), access)
        max_bytes = server.max_in_flight_mb * _MB if server.max_in_flight_mb else bodies_within(memory_limit())
        self.load = Load(server.max_in_flight, max_bytes)
        self.telemetry.watch_load(lambda: (self.load.requests, self.load.bytes, max_bytes))
        self.watches = Watches()

    def adopt(self, settings: Settings) -> None:
        """Let other keys, upstreams, models, shaping and profiles hold for requests that arrive from now on. The other
        tables must be those that the parts were made with."""
        self.settings = settings
        self.telemetry.admit(_named(settings))
        for upstream in settings.upstreams:
            self.telemetry.metrics.start_upstream(upstream.name)
        self.limits.configure(settings.models)
        access, self.calls = self._calls(settings)
        self.decider = self.decider.under(_policies(settings))
        self.gateway.adopt(self._services(settings), access)

    async def start(self) -> str:
        """Connect to the store. Returns a clause about Redis, empty where none is configured."""
        if self.settings.redis is None:
            return ""
        if await self.store.ping():
            return "Redis answers"
        return "Redis does not answer, summaries and lessons stay in this process until it does"

    async def aclose(self) -> None:
        """Finish or give up the background work, then close all connections."""
        if self.summarizer is not None:
            await self.summarizer.drain(_SUMMARY_GRACE_S)
        await self.limits.aclose()
        await self.store.aclose()
        if self._archive is not None:
            await self._archive.aclose()
        await self.client.aclose()
        self.telemetry.close()

    def _calls(self, settings: Settings) -> tuple[Access, Calls]:
        access = Access(settings.server.client_keys)
        keepalive_s = settings.server.keepalive_s
        calls = Calls(settings.upstreams, self.client, keep_credentials=not access.guarded, keepalive_s=keepalive_s)
        return access, calls

    def _services(self, settings: Settings) -> Services:
        compaction, wanted = None, settings.compaction
        if wanted is not None and self.summarizer is not None:
            if wanted.model != "same":
                self._window = SummaryWindow(self.calls, self.limits, wanted.max_summary_tokens)
            compaction = Compaction(wanted, self.summarizer, self.calls.same_server, self._window)
        self.bounds = Bounds(settings.server.max_messages, settings.server.max_values)
        kept = (self.ring, self._conversations)
        return Services(self.calls, self.decider, self.telemetry, compaction, self.bounds, *kept)

    def redis_answers(self) -> bool | None:
        """Whether Redis answers; None where none is configured."""
        if self.settings.redis is None:
            return None
        from trimtab.store.redis import RedisStore

        assert isinstance(self.store, RedisStore)
        return self.store.answering

    def _open_conversations(self, settings: Settings) -> Conversations | None:
        if settings.conversations is None:
            return None
        self._archive = open_archive(settings.conversations, settings.redis, self._redis_failed)
        histories = Histories(self._archive, settings.conversations, self.telemetry.metrics.conversation)
        return Conversations(settings.conversations, self._archive, histories)

    def _watch_redis(self, redis: RedisSettings) -> None:
        """Report at each scrape whether Redis answers."""
        scheme = urlsplit(redis.url).scheme
        mode = "cluster" if "cluster" in scheme else "sentinel" if "sentinel" in scheme else "standalone"
        self.telemetry.watch_redis(mode, lambda: bool(self.redis_answers()))

    def _summarizer(self) -> Summarizer | None:
        compaction = self.settings.compaction
        if compaction is None:
            return None
        prompts = prompts_of(compaction)
        return Summarizer(
            compaction,
            self.store,
            self._complete,
            prompts,
            self._summary_made,
        )

    async def _complete(self, request: CompletionRequest) -> Completion:
        return await complete(self.calls, self.telemetry.metrics.upstream_call, request, self._window)

    def _summary_made(self, call: SummaryCall) -> None:
        outcome = "made" if call.result == "made" else "rejected" if call.answered else "failed"
        run = SummaryRun(
            call.model,
            outcome,  # type: ignore[arg-type]
            call.seconds,
            call.tokens_in,
            call.tokens_out,
            "" if outcome == "made" else call.result,
            call.background,
            self._prices(call.model),
        )
        self.telemetry.summary_run(run)
        if self.ring is not None:
            self.ring.add_run(run)

    def _prices(self, model: str) -> Prices | None:
        """The prices of a summary model; None where a reload has taken its upstream away."""
        try:
            return prices(self.limits.known(self.calls.route(model).name, model).prices)
        except UnknownModel:
            return None

    def _limits_changed(self, event: Event) -> None:
        self.telemetry.metrics.limit_event(event.kind)
        if event.kind == "factor_moved":
            self.telemetry.admit([event.model])  # the upstream reported a count for it, so the name is real
            factor = self.limits.factor(event.upstream, event.model)
            self.telemetry.metrics.calibrated(event.upstream, event.model, factor)

    def _redis_failed(self, cause: str) -> None:
        self.telemetry.metrics.redis_error()


def _named(settings: Settings) -> list[str]:
    """The models that the configuration names, globs left out."""
    named = [name for name in settings.models if not set(name) & set("*?[")]
    if settings.compaction is not None and settings.compaction.model != "same":
        named.append(settings.compaction.model)
    return named


def _policies(settings: Settings) -> Policies:
    return Policies(settings.shaping, settings.all_profiles, settings.compaction)
