"""From a decoded request to the bytes that go upstream: limit, budget, plan, apply. Nothing is awaited here but
the limit's first look-up and the summary, which the plan asks for as a value.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from trimtab.calibration.counts import LastCount
from trimtab.context.apply.apply import apply
from trimtab.context.edits import Breakdown, Plan
from trimtab.context.plan.plan import plan
from trimtab.context.policy import Policy
from trimtab.context.read.history import History
from trimtab.context.read.memo import Memo
from trimtab.errors import ConversationTooLong
from trimtab.exchange.policies import is_ours
from trimtab.limits import Budget, Limit, lowered_max_tokens, usable, widest
from trimtab.wire.chat import ChatRequest, render

# An estimate is not a count. Only when what cannot be given up is this much over the budget is a request refused
# unseen; in between the upstream decides, and its refusal becomes the same clear error.
REFUSE_AT = 1.15
# How far an estimate may be over the budget and still be doubted: its 95th percentile error over mixed
# conversations (docs/calibration.md). Beyond, it is believed.
DOUBT = 1.10
# The estimate of what is new since a count has an error too; where it alone decides, asking the upstream costs less.
_CLOSE = 1.01


class Shaping(msgspec.Struct, frozen=True):
    """What was decided for one request, in one value. Plan sizes are estimates; times `factor` they are what the
    upstream is expected to count."""

    request: ChatRequest
    conversation: History
    limit: Limit
    budget: Budget
    factor: float
    policy: Policy
    plan: Plan
    max_tokens: int | None = None  # what is sent in place of the request's own

    def counted(self, estimate: int) -> int:
        """Estimated tokens as the upstream is expected to count them."""
        return round(estimate * self.factor)


def decide(
    request: ChatRequest,
    conversation: History,
    policy: Policy,
    limit: Limit,
    factor: float,
    memo: Memo,
    *,
    cap: int | None = None,
) -> Shaping:
    """Plan a request. `cap` is a further budget in the upstream's tokens (a profile's, or a smaller try's). What does
    not fit beside its output is planned beside a shorter one before it is given up."""

    def planned(budget: Budget) -> Shaping:
        if cap is not None and cap < budget.usable:
            budget = msgspec.structs.replace(budget, usable=max(1, cap))
        found = plan(conversation, policy, max(1, int(budget.usable / factor)), memo)
        lowered = lowered_max_tokens(limit, request.max_tokens, round(found.sent * factor))
        return Shaping(request, conversation, limit, budget, factor, policy, found, lowered)

    shaping = planned(usable(limit, request.max_tokens))
    if shaping.plan.fits:
        return shaping
    wide = planned(widest(limit, request.max_tokens))
    return wide if refusal(wide) is None else shaping


def send_untouched_if_it_may_fit(shaping: Shaping, last: LastCount) -> Shaping:
    """The same decision, or the one to send the request as received where it fits, or may well fit."""
    if not _doubtful(shaping):
        return shaping
    count = last.count
    if count is None:
        fits = _worth_trying(shaping)
    elif count.tokens is None:
        return shaping
    else:
        fits = count.tokens + round(last.new * count.ratio) <= shaping.budget.usable * _CLOSE
    return msgspec.structs.replace(shaping, plan=_untouched(shaping.plan)) if fits else shaping


def _doubtful(shaping: Shaping) -> bool:
    """Shaped for its tokens alone, by an estimate that is within its own error of the budget."""
    plan, policy = shaping.plan, shaping.policy
    rules = policy.shaping
    windows = rules.max_messages or rules.summarize_after_messages or rules.truncate == "always"
    if not plan.edits or policy.managed or windows:
        return False
    return shaping.counted(plan.original) <= shaping.budget.usable * DOUBT


def _worth_trying(shaping: Shaping) -> bool:
    """With no count of this conversation yet the upstream is asked, once: its refusal is a count too. Not against
    an operator's own budget, which nobody enforces but us."""
    return shaping.limit.trusted and shaping.budget.usable >= shaping.budget.context_size - shaping.budget.reserved


def _untouched(plan: Plan) -> Plan:
    """Nothing is taken out yet; the summary that was wanted is the next one needed."""
    ahead = plan.summary or plan.ahead
    return Plan(plan.original, plan.original, plan.budget, True, ahead=ahead, unpin=plan.unpin, announce=plan.announce)


def refusal(shaping: Shaping) -> ConversationTooLong | None:
    """The error for a conversation that cannot be made to fit, or None. Never on the strength of a guessed limit."""
    breakdown = shaping.plan.breakdown
    if shaping.plan.fits or breakdown is None or not shaping.limit.trusted:
        return None
    if shaping.counted(breakdown.total) <= shaping.budget.usable * REFUSE_AT:
        return None
    return too_long(shaping, breakdown)


def too_long(shaping: Shaping, breakdown: Breakdown | None = None, **reported: object) -> ConversationTooLong:
    """The one clear error: the numbers, and what to do. `reported` is what an upstream said itself."""
    part = breakdown or shaping.plan.breakdown or Breakdown(0, 0, 0)
    counted = shaping.counted
    detail: dict[str, object] = {
        "tokens": {
            "estimated": counted(shaping.plan.original),
            "limit": shaping.budget.usable,
            "context_size": shaping.budget.context_size,
            "reserved_output": shaping.budget.reserved,
            "system": counted(part.system),
            "tools": counted(part.tools),
            "question": counted(part.question),
        },
        "limit_source": shaping.limit.source,
        **{name: value for name, value in reported.items() if value is not None},
    }
    return ConversationTooLong(
        f"This conversation is too long for the model: about {counted(part.total)} tokens are in the system prompt "
        f"({counted(part.system)}), the tools ({counted(part.tools)}) and the current question "
        f"({counted(part.question)}), which cannot be shortened, and {shaping.budget.usable} tokens can be sent. "
        "Start a new chat for the next step, or shorten the question; what was built so far remains.",
        param="messages",
        detail=detail,
    )


def outgoing(shaping: Shaping, summary: str | None, role: str, *, ask_usage: bool) -> bytes:
    """The body to send: the very bytes received when nothing has to change. A `context_management` that was for
    this proxy is taken out."""
    request = shaping.request
    changes: dict[str, object] = {}
    if shaping.max_tokens is not None:
        changes.update(_lowered(request, shaping.max_tokens))
    if ask_usage:
        changes["stream_options"] = {**(request.stream_options or {}), "include_usage": True}
    if is_ours(request.context_management):
        changes["context_management"] = None
    if not shaping.plan.changes and not changes:
        return request.body
    messages: list[bytes | Raw] | None = None
    if shaping.plan.changes:
        messages = apply(request.messages, shaping.plan, summary, role)
    return render(request, messages, changes)


def _lowered(request: ChatRequest, tokens: int) -> dict[str, int]:
    """Both names of the field are lowered where both are present; neither is ever translated into the other. What is
    no whole number is the upstream's to judge."""
    fields = msgspec.json.decode(request.source, type=_Limits)
    named = {"max_tokens": fields.max_tokens, "max_completion_tokens": fields.max_completion_tokens}
    return {name: tokens for name, value in named.items() if type(value) is int and value > tokens}


class _Limits(msgspec.Struct):
    max_tokens: Any = None
    max_completion_tokens: Any = None
