"""What a process has learned of its models and its conversations: it decides with that, and learns from what upstreams
answer. Nothing is awaited here.
"""

from __future__ import annotations

from copy import copy

import msgspec
from lru import LRU

from trimtab.calibration.counts import NO_COUNT, Counts, counted, factor_of, near
from trimtab.context.apply.splices import Splices
from trimtab.context.plan.replays import Replays
from trimtab.context.read.history import Check, Reader, Reading, take_any
from trimtab.context.read.memo import Memo
from trimtab.context.read.prefixes import Longest, Prefixes, messages_within
from trimtab.context.read.shelf import MOST_BYTES, Shelf
from trimtab.dialects.chat import CHAT
from trimtab.dialects.dialect import Dialect
from trimtab.dialects.paths import DIALECTS
from trimtab.exchange.decide import Shaping, decide, send_untouched_if_it_may_fit
from trimtab.exchange.include_usage import IncludeUsage
from trimtab.exchange.management import is_ours, managed
from trimtab.exchange.policies import Chosen, Policies
from trimtab.limits import ANYONE, Caller, Limit, Limits
from trimtab.overflow.classify import Overflow
from trimtab.upstream.families import binds_thinking, summary_role
from trimtab.upstream.settings import UpstreamSettings
from trimtab.wire.request import Request

_MOST_BINDING = 4_096  # models that are known to bind their thinking: the names come from clients
_FAR_BELOW = 0.1  # of a window that is configured or listed; servers are restarted with a quarter of it, not with less


class Learned(msgspec.Struct, frozen=True):
    """What is known of a model after an overflow was learned from."""

    limit: Limit
    factor: float


class Decider:
    """Limits, policies, and what was counted before. One per process."""

    def __init__(self, limits: Limits, policies: Policies, remembered_bytes: int = MOST_BYTES) -> None:
        """`remembered_bytes`: of what was read of conversations that were not used lately. What is kept as it is of
        the others takes no more, or 15 MB."""
        self.limits, self._policies = limits, policies
        shelf, messages = Shelf(remembered_bytes), messages_within(remembered_bytes)
        self._memos = {d.name: Memo(messages // 2, d.format.view, d.format.digest) for d in DIALECTS}
        self._splices = {d.name: Splices(self._memos[d.name], d.format) for d in DIALECTS}
        self._replays, longest = Replays(messages * 3 // 5, shelf=shelf), Longest(messages, shelf)
        self._readers = {
            d.name: Reader(self._memos[d.name], Prefixes(longest, name=d.name.encode()), d.decode) for d in DIALECTS
        }
        self._counts = Counts()
        self.usage_asked = IncludeUsage()
        self._binds_thinking: LRU[tuple[str, str], None] = LRU(_MOST_BINDING)  # upstream and model

    def under(self, policies: Policies) -> Decider:
        """A decider with other policies, which shares what this one has read and counted."""
        other = copy(self)
        other._policies = policies
        return other

    def memo(self, dialect: Dialect) -> Memo:
        """What was read of the messages of a dialect: the same bytes may mean something else in another."""
        return self._memos[dialect.name]

    def splices(self, dialect: Dialect) -> Splices:
        """What was sent of the conversations of a dialect."""
        return self._splices[dialect.name]

    def read(self, body: bytes, tenant: bytes, dialect: Dialect = CHAT, check: Check = take_any) -> Reading:
        """Read a request; the beginning it has in common with an earlier one of this tenant is not read again. Raises
        what `Dialect.decode` and `check` raise."""
        return self._readers[dialect.name].read(body, tenant, check)

    def choose(self, request: Request, upstream: UpstreamSettings, profile: str = "", hint: str = "") -> Chosen:
        """The policy for a request that names a profile and a hint. Raises InvalidRequest for an unknown one."""
        strict_roles = summary_role(upstream, request.model) == "user"
        return self._policies.choose(profile, hint, request.has_tools, strict_roles)

    def decide(
        self,
        reading: Reading,
        upstream: UpstreamSettings,
        chosen: Chosen,
        limit: Limit,
        dialect: Dialect = CHAT,
        caller: Caller = ANYONE,
    ) -> Shaping:
        """What to do with a request of `caller`, with its `limit`. Raises InvalidRequest for a `context_management`
        that cannot be read."""
        request, name, policy = reading.request, upstream.name, chosen.policy
        factor = self.limits.factor(name, request.model, caller)
        history = self._readers[dialect.name].history(reading)
        if binds_thinking(request.model) or (name, request.model) in self._binds_thinking:
            policy = msgspec.structs.replace(policy, binds_thinking=True)
        last = NO_COUNT
        if near(history, factor, limit.context_size // 2):
            last = self._counts.find(name, request.model, history)
            factor = factor_of(last, factor, binds_thinking=policy.binds_thinking)
        if request.wants_json:
            policy = msgspec.structs.replace(policy, needs_json_word=True)
        cap = chosen.budget
        if request.context_management is not None and is_ours(request.context_management):
            asked = managed(policy, request.context_management)
            policy, cap = asked.policy, asked.least(cap)
        memo, replays = self._memos[dialect.name], self._replays

        def under(limit: Limit) -> Shaping:
            return decide(request, history, policy, limit, factor, memo, cap=cap, dialect=dialect, replays=replays)

        shaping = under(limit)
        if limit.source == "learned" and shaping.plan.edits and self.limits.may_try_larger(name, request.model, caller):
            shaping = under(self.limits.without_lessons(name, request.model))
        return send_untouched_if_it_may_fit(shaping, last)

    def include_usage(self, upstream: UpstreamSettings, shaping: Shaping, caller: Caller = ANYONE) -> bool:
        """Whether to set `include_usage` on a stream whose client did not."""
        request = shaping.request
        if not request.stream or request.include_usage or not self.usage_asked.may_set(upstream.name, request.model):
            return False
        return self.limits.include_usage(upstream.name, request.model, shaping.plan.sent, caller)

    def learn_binding(self, upstream: UpstreamSettings, shaping: Shaping) -> None:
        """The upstream refused a thinking part because something before it had changed."""
        self._binds_thinking[upstream.name, shaping.request.model] = None

    def observe(
        self, shaping: Shaping, upstream: UpstreamSettings, prompt_tokens: int | None, caller: Caller = ANYONE
    ) -> None:
        """Learn from the usage of an answer; None for an answer that should have reported its usage and did not."""
        self.limits.observe(upstream.name, shaping.request.model, shaping.plan.sent, prompt_tokens, caller)
        if prompt_tokens is not None:
            self._remember(upstream.name, shaping, prompt_tokens)

    def observe_overflow(
        self, shaping: Shaping, upstream: UpstreamSettings, overflow: Overflow, caller: Caller = ANYONE
    ) -> Learned:
        """Learn from an overflow; returns what is known of the model now."""
        name, model, tokens = upstream.name, shaping.request.model, overflow.exact_input_tokens
        if tokens is not None:
            self.limits.observe(name, model, shaping.plan.sent, tokens, caller, accepted=False)
            self._remember(name, shaping, tokens)
        if overflow.limit is not None:
            self.limits.learn(name, model, overflow.limit, caller, agreed=overflow.agreed)
        return Learned(self.limits.known(name, model, caller), self.limits.factor(name, model, caller))

    def observe_smaller(
        self, refused: Shaping, smaller: Shaping, upstream: UpstreamSettings, overflow: Overflow, caller: Caller
    ) -> None:
        """Learn from a smaller request that follows an overflow without a limit, as it is sent or, where the upstream
        did not say that the prompt is too long (an empty 400), as it is accepted. Not where what was refused is far
        below a window that is known: its size cannot have been what was wrong. Not where it was over the budget by our
        own estimate, and sent in doubt of it: then the refusal agrees with what is known."""
        size = refused.counted(refused.plan.sent)
        far_below = refused.limit.trusted and size < refused.limit.context_size * _FAR_BELOW
        if overflow.limit is None and not far_below and size <= refused.budget.usable:
            self.limits.learn_refused(upstream.name, smaller.request.model, smaller.budget.usable, caller)

    def _remember(self, upstream: str, shaping: Shaping, tokens: int) -> None:
        """Keep the upstream's count for the conversation's next request, where it may matter then."""
        if not near(shaping.history, shaping.factor, shaping.budget.usable):
            return
        count = counted(shaping.plan.sent, tokens, shaping.factor if shaping.plan.edits else None)
        if count is not None:
            self._counts.remember(upstream, shaping.request.model, shaping.history, count)
