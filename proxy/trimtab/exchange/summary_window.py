"""The window of a summary model that is named in the configuration: it has its own, whatever the conversation's model
takes. `[models]`, the tables, the upstream's listing and learned limits hold for it as for any other model, so no call
is longer than it takes; and what a refused call says is learned.
"""

from __future__ import annotations

import msgspec

from trimtab.context.estimate.tokens import bytes_tokens
from trimtab.exchange.calls import Calls
from trimtab.exchange.decide import digest_of
from trimtab.limits import Caller, Limits
from trimtab.limits.budget import usable
from trimtab.overflow.classify import classify
from trimtab.overflow.sent import Sent
from trimtab.summaries.completion import CompletionRequest


class SummaryWindow:
    """What one configured summary model takes. `max_tokens`: of a summary, as the configuration has it."""

    def __init__(self, calls: Calls, limits: Limits, max_tokens: int) -> None:
        self._calls, self._limits, self._max_tokens = calls, limits, max_tokens

    async def read_tokens(self, model: str, credential: bytes) -> int:
        """The most a call reads, in estimated tokens; 0 where nothing certain is known. Waits at most once for an
        upstream's listing, shortly."""
        upstream, caller = self._calls.route(model).name, Caller(digest_of(credential))
        limit = await self._limits.limit_of(upstream, model, self._calls.fetching(credential), caller)
        if not limit.trusted:
            return 0
        return max(1, int(usable(limit, self._max_tokens).usable / self._limits.factor(upstream, model, caller)))

    def learn(self, request: CompletionRequest, status: int, answer: bytes) -> None:
        """Learn from a call that was refused as too long."""
        body = msgspec.json.encode([msgspec.Raw(message) for message in request.messages])
        size = sum(map(bytes_tokens, request.messages))
        overflow = classify(status, answer, Sent(body, size, request.max_tokens))
        if overflow is None or not overflow.believed:
            return
        upstream, caller = self._calls.route(request.model).name, Caller(digest_of(request.credential))
        if overflow.limit is not None:
            self._limits.learn(upstream, request.model, overflow.limit, caller, agreed=overflow.agreed)
        else:
            self._limits.learn_refused(upstream, request.model, size // 2, caller)
