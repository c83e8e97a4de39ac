"""From a decoded request to a `Shaping`: limit, budget, factor, policy and plan in one value. All of it is pure; what a
process has learned, and decides by, is in `decider`.
"""

from __future__ import annotations

import hashlib

import msgspec

from trimtab.calibration.counts import LastCount
from trimtab.context.edits import Breakdown, Plan
from trimtab.context.plan.announcing import ANNOUNCEMENT_TOKENS
from trimtab.context.plan.plan import plan
from trimtab.context.plan.replays import Replays
from trimtab.context.policy import Policy
from trimtab.context.read.history import History
from trimtab.context.read.memo import Memo
from trimtab.dialects.chat import CHAT
from trimtab.dialects.dialect import Dialect
from trimtab.limits import Budget, Caller, Limit, lowered_max_tokens, usable, widest
from trimtab.overflow.sent import Sent
from trimtab.wire.request import Request

# An estimate is not a count. A request is refused before the upstream sees it only when what cannot be given up is
# this much over the budget; in between the upstream decides, and its refusal becomes the same clear error.
REFUSE_AT = 1.15
# How far an estimate may be over the budget and still be doubted: its 95th percentile error over mixed
# conversations (docs/calibration.md). Beyond, it is believed.
DOUBT = 1.10
# The estimate of what is new since a count has an error too; where it alone decides, asking the upstream costs less.
_CLOSE = 1.01


class Shaping(msgspec.Struct, frozen=True):
    """What was decided for one request, in one value. Plan sizes are estimates; times `factor` they are what the
    upstream is expected to count."""

    request: Request
    history: History
    limit: Limit
    budget: Budget
    factor: float
    policy: Policy
    plan: Plan
    max_tokens: int | None = None  # what is sent in place of the request's own
    dialect: Dialect = CHAT

    def counted(self, estimate: int) -> int:
        """Estimated tokens as the upstream is expected to count them."""
        return round(estimate * self.factor)

    def as_sent(self, body: bytes) -> Sent:
        """What an answer is compared with: the `body` made of this decision, and its sizes."""
        output = self.max_tokens or self.request.max_tokens or 0
        window = self.limit.context_size if self.limit.trusted else 0
        return Sent(body, self.counted(self.plan.sent), output, window)


def decide(  # noqa: PLR0913  what a decision goes by
    request: Request,
    history: History,
    policy: Policy,
    limit: Limit,
    factor: float,
    memo: Memo,
    *,
    cap: int | None = None,
    dialect: Dialect = CHAT,
    replays: Replays | None = None,
) -> Shaping:
    """Plan a request. `cap` is a further budget in the upstream's tokens (a profile's, or a smaller try's): it shapes,
    and never refuses what the model takes. What does not fit beside its output is planned beside a shorter one before
    it is given up. A conversation of which a beginning is in `replays` is planned from there on."""

    policy = _announcing(policy, request, dialect)

    def planned(whole: Budget) -> Shaping:
        budget = whole.under(cap)
        found = plan(history, policy, max(1, int(budget.usable / factor)), memo, dialect.format, replays)
        lowered = lowered_max_tokens(limit, request.max_tokens, round(found.sent * factor))
        return Shaping(request, history, limit, budget, factor, policy, found, lowered, dialect)

    shaping = planned(usable(limit, request.max_tokens))
    if shaping.plan.fits or shaping.counted(shaping.plan.sent) <= shaping.budget.most:
        return shaping
    wide = planned(widest(limit, request.max_tokens))
    return wide if irreducible(wide) is None else shaping


def _announcing(policy: Policy, request: Request, dialect: Dialect) -> Policy:
    """The policy with what an announcement takes that is not one of the messages. Without tools there is none."""
    if not policy.shaping.announce:
        return policy
    if not request.has_tools:
        return msgspec.structs.replace(policy, shaping=msgspec.structs.replace(policy.shaping, announce=False))
    tokens = ANNOUNCEMENT_TOKENS if dialect.announced(request) else 0
    return msgspec.structs.replace(policy, announced_beside=tokens)


def send_untouched_if_it_may_fit(shaping: Shaping, last: LastCount) -> Shaping:
    """The same decision, or the one to send the request as received where it fits, or may well fit."""
    if not shaping.plan.edits or not _doubtful(shaping):
        return shaping
    count = last.count
    if count is None:
        fits = _worth_trying(shaping)
    elif count.tokens is None:
        return shaping
    else:
        fits = count.tokens + round(last.new * count.ratio) <= shaping.budget.usable * _CLOSE
    return msgspec.structs.replace(shaping, plan=untouched(shaping.plan)) if fits else shaping


def _doubtful(shaping: Shaping) -> bool:
    """Shaped for its tokens alone, by an estimate that is within its own error of the budget."""
    planned, policy = shaping.plan, shaping.policy
    rules = policy.shaping
    windows = rules.max_messages or rules.summarize_after_messages or rules.truncate == "always"
    # Thinking that was made after an untouched request would be bound to it, and the next one is shaped.
    if policy.managed or windows or policy.binds_thinking:
        return False
    return shaping.counted(planned.original) <= shaping.budget.usable * DOUBT


def _worth_trying(shaping: Shaping) -> bool:
    """Without a count of this conversation the upstream is asked, once: its refusal is a count too. Not against an
    operator's own budget, which no upstream enforces."""
    return shaping.limit.trusted and shaping.budget.usable >= shaping.budget.context_size - shaping.budget.reserved


def untouched(of: Plan) -> Plan:
    """The plan that sends a request as received: the summary that was wanted is the next one needed."""
    ahead = of.summary or of.ahead
    return Plan(of.original, of.original, of.budget, True, ahead=ahead, unpin=of.unpin, announce=of.announce)


def irreducible(shaping: Shaping) -> Breakdown | None:
    """What keeps a conversation from fitting, where it surely cannot be made to fit; else None. A guessed limit never
    refuses, nor does a budget that the request itself chose, by a profile or a `context_management`."""
    breakdown = shaping.plan.breakdown
    if shaping.plan.fits or breakdown is None or not shaping.limit.trusted:
        return None
    return breakdown if shaping.counted(breakdown.total) > shaping.budget.most * REFUSE_AT else None


def caller_of(tenant: bytes, request: Request) -> Caller:
    """Whom lessons and counts from a request bind: digests of its tenant and of the route that it chooses."""
    route = digest_of(b"\n".join(map(bytes, request.routing))) if request.routing else b""
    return Caller(digest_of(tenant), route)


def digest_of(text: bytes) -> bytes:
    """A name for a credential or a route that says nothing of it; empty for none."""
    return hashlib.blake2b(text, digest_size=16).digest() if text else b""
