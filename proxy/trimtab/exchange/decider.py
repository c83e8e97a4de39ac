"""Deciding for one request, with everything that is known of its model and its conversation; and learning from what
the upstream then says of them.
"""

from __future__ import annotations

from time import perf_counter

from trimtab.calibration.counts import NO_COUNT, Counts, counted, factor_of, near
from trimtab.context.policy import Policy
from trimtab.context.read.history import Reader, Reading
from trimtab.context.read.memo import Memo
from trimtab.exchange.access import credential
from trimtab.exchange.calls import Calls
from trimtab.exchange.incoming import Incoming
from trimtab.exchange.notes import Notes
from trimtab.exchange.policies import Chosen, Policies, is_ours, managed
from trimtab.exchange.second_try import Learned, lighter, smaller
from trimtab.exchange.shape import Shaping, decide, send_untouched_if_it_may_fit
from trimtab.limits import Limit, Limits
from trimtab.overflow.classify import Overflow
from trimtab.upstream.families import summary_role
from trimtab.upstream.settings import UpstreamSettings
from trimtab.wire.chat import ChatRequest


class Decider:
    """Limits, policies, and what was counted before: one per process."""

    def __init__(self, limits: Limits, policies: Policies, calls: Calls) -> None:
        self._limits, self._policies, self._calls = limits, policies, calls
        self._memo = Memo()
        self._reader = Reader(self._memo)
        self._counts = Counts()
        self._untold: set[str] = set()  # upstreams that know no way of asking a stream for its usage

    def read(self, body: bytes, incoming: Incoming) -> Reading:
        """Read a request; what one of the same client's before it began with is not read again. Raises what
        `chat.decode` raises."""
        return self._reader.read(body, credential(incoming))

    async def decide(self, reading: Reading, upstream: UpstreamSettings, incoming: Incoming, notes: Notes) -> Shaping:
        """What to do with a request. Raises InvalidRequest for a profile, hint or `context_management` that is
        none. Waits at most once for an upstream's limits, shortly."""
        request = reading.request
        chosen = self._chosen(request, upstream, incoming)
        notes.profile, notes.hint = chosen.profile, chosen.hint
        with notes.waiting():
            ask = self._calls.fetching(credential(incoming))
            limit = await self._limits.limit_of(upstream.name, request.model, ask)
        began = perf_counter()
        with notes.span.child("plan"):
            shaping = self._planned(reading, upstream.name, chosen, limit)
        notes.planned(shaping, perf_counter() - began)
        return shaping

    def _chosen(self, request: ChatRequest, upstream: UpstreamSettings, incoming: Incoming) -> Chosen:
        strict = summary_role(upstream, request.model) == "user"
        profile, hint = incoming.header(b"x-trimtab-profile"), incoming.header(b"x-trimtab-hint")
        return self._policies.choose(profile, hint, request.has_tools, strict)

    def _planned(self, reading: Reading, upstream: str, chosen: Chosen, limit: Limit) -> Shaping:
        request = reading.request
        factor = self._limits.factor(upstream, request.model)
        conversation = self._reader.history(reading)
        last = NO_COUNT
        if near(conversation, factor, limit.context_size // 2):
            last = self._counts.find(upstream, request.model, conversation)
            factor = factor_of(last, factor)
        policy = _policy(request, chosen)
        shaping = decide(request, conversation, policy, limit, factor, self._memo, cap=chosen.budget)
        return send_untouched_if_it_may_fit(shaping, last)

    def asks_usage(self, upstream: UpstreamSettings, shaping: Shaping) -> bool:
        """Whether a stream whose client did not ask for its usage is to be asked for it."""
        request = shaping.request
        if not request.stream or request.include_usage or upstream.name in self._untold:
            return False
        return self._limits.include_usage(upstream.name, request.model, shaping.plan.sent)

    def ask_no_usage(self, upstream: UpstreamSettings) -> None:
        """The upstream refused a stream for being asked, and took it without: it is not asked again."""
        self._untold.add(upstream.name)

    def again(self, shaping: Shaping, upstream: UpstreamSettings, overflow: Overflow) -> Shaping | None:
        """Learn from an overflow, and decide on the one smaller try; None when nothing smaller can be sent."""
        name, model = upstream.name, shaping.request.model
        if overflow.exact_input_tokens is not None:
            self._limits.observe(name, model, shaping.plan.sent, overflow.exact_input_tokens, accepted=False)
            self._remember(name, shaping, overflow.exact_input_tokens)
        if overflow.limit is not None:
            self._limits.learn(name, model, overflow.limit)
        learned = Learned(self._limits.known(name, model), self._limits.factor(name, model))
        return smaller(shaping, overflow, learned, self._memo)

    def lighter(self, shaping: Shaping) -> Shaping | None:
        """The one other try after an upstream refused the bytes of a request; None where there is none."""
        return lighter(shaping, self._memo)

    def observe(self, shaping: Shaping, upstream: UpstreamSettings, prompt_tokens: int | None) -> None:
        """Learn from the usage of an answer; None is counted as one that should have told it and did not."""
        self._limits.observe(upstream.name, shaping.request.model, shaping.plan.sent, prompt_tokens)
        if prompt_tokens is not None:
            self._remember(upstream.name, shaping, prompt_tokens)

    def _remember(self, upstream: str, shaping: Shaping, tokens: int) -> None:
        """Keep the upstream's count for the conversation's next request, where it may matter then."""
        plan, history = shaping.plan, shaping.conversation
        if not near(history, shaping.factor, shaping.budget.usable):
            return
        count = counted(plan.sent, tokens, shaping.factor if plan.edits else None)
        if count is not None:
            self._counts.remember(upstream, shaping.request.model, history, count)


def _policy(request: ChatRequest, chosen: Chosen) -> Policy:
    management = request.context_management
    return managed(chosen.policy, management) if management is not None and is_ours(management) else chosen.policy
